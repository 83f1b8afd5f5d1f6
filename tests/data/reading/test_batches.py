"""Sources of rows: files of several kinds, folders, globs, URLs and frames give one table."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import riskfront as rf
from riskfront._data.reading import batches, long_format, opening
from riskfront._data.reading.sources import read_table
from tests.data.reading.test_long_format import PROBLEM, frame


def whole() -> str:
    return read_table(frame(), PROBLEM)[0].sha256


def test_a_folder_of_parts_is_one_table(tmp_path: Path) -> None:
    data = frame()
    for part in range(4):
        data.iloc[30 * part : 30 * part + 30].to_parquet(tmp_path / f"part-{part}.parquet")
    (tmp_path / "_SUCCESS").touch()
    (tmp_path / ".part-0.parquet.crc").write_bytes(b"no data")
    for given in (tmp_path, f"{tmp_path}/", f"{tmp_path}/part-*.parquet", f"file://{tmp_path}/part-*.parquet"):
        assert read_table(given, PROBLEM)[0].sha256 == whole()
    assert rf.calibrate(tmp_path, PROBLEM).intake.read == 120


def test_hive_partitions_are_columns(tmp_path: Path) -> None:
    for (model, effort), part in frame().groupby(["model", "effort"]):
        folder = tmp_path / f"model={model}" / f"effort={effort}"
        folder.mkdir(parents=True)
        part.drop(columns=["model", "effort"]).to_parquet(folder / "data.parquet")
    table, layout = read_table(tmp_path, PROBLEM)
    assert set(layout.config_columns) == {"model", "effort"}
    assert sorted(table.configs["effort"].unique().tolist()) == [1, 2, 5]
    assert table.configs["model"].iloc[0] == "large"


def test_parts_of_other_types_are_brought_together(tmp_path: Path) -> None:
    data = frame()
    data.iloc[:60].astype({"effort": "int32"}).to_parquet(tmp_path / "a.parquet")
    data.iloc[60:].to_parquet(tmp_path / "b.parquet")
    assert read_table(tmp_path, PROBLEM)[0].n_configs == 6
    data.iloc[60:].assign(effort="high").to_parquet(tmp_path / "b.parquet")
    with pytest.raises(rf.InvalidInputError, match="must be parts of one table"):
        read_table(tmp_path, PROBLEM)


@pytest.mark.parametrize("kind", ["csv", "tsv", "csv.gz", "jsonl", "jsonl.gz"])
def test_text_files(tmp_path: Path, kind: str) -> None:
    path = tmp_path / f"rows.{kind}"
    if "json" in kind:
        frame().to_json(path, orient="records", lines=True, double_precision=15)
        np.testing.assert_allclose(
            read_table(path, PROBLEM)[0].losses("cost"), read_table(frame(), PROBLEM)[0].losses("cost"), rtol=1e-12
        )
        return
    frame().to_csv(path, index=False, sep="\t" if kind == "tsv" else ",")
    assert read_table(path, PROBLEM)[0].sha256 == whole()


def test_a_url_is_read_like_a_file() -> None:
    import fsspec

    files = fsspec.filesystem("memory")
    for part in range(2):
        with files.open(f"/lake/run/part-{part}.parquet", "wb") as file:
            frame().iloc[60 * part : 60 * part + 60].to_parquet(file)
    with files.open("/lake/rows.csv", "w") as file:
        frame().to_csv(file, index=False)
    for url in ("memory://lake/run/*.parquet", "memory://lake/rows.csv"):
        assert read_table(url, PROBLEM)[0].sha256 == whole()
    with pytest.raises(rf.StoreError, match=r"absent\.parquet': no such file"):
        read_table("memory://lake/absent.parquet", PROBLEM)


def test_later_rows_of_a_csv_file_may_be_wider(tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setattr(opening, "_BLOCK", 256)
    data = frame().sort_values("cost", ignore_index=True)
    data["cost"] = np.where(data.index < 60, 1.0, data["cost"])
    text = data.to_csv(index=False).replace(",1.0,", ",1,")
    (tmp_path / "t.csv").write_text(text)
    table, _ = read_table(tmp_path / "t.csv", PROBLEM)
    assert sorted(table.losses("cost").ravel()) == pytest.approx(sorted(data["cost"]))
    words = data["error"].astype(str).where(data.index < 119, "oops")
    data.assign(error=words).to_csv(tmp_path / "t.csv", index=False)
    with pytest.raises(rf.InvalidInputError, match=r"loss 'error' must hold numbers; got 'oops' in row"):
        read_table(tmp_path / "t.csv", PROBLEM)


@pytest.mark.parametrize(
    ("early", "late"),
    [({}, {"cost": 0.25}), ({"cost": 1}, {"cost": 0.25}), ({"cost": None}, {"cost": 0.25}), ({"cost": 0.5}, {})],
)
def test_later_json_lines_may_have_other_columns_and_decimals(
    early: dict[str, Any], late: dict[str, Any], tmp_path: Path, monkeypatch: Any
) -> None:
    """Nothing that a later line says is lost, and what a line does not say is missing."""
    monkeypatch.setattr(opening, "_BLOCK", 1 << 10)
    rows = [{"level": s, "example": i, "error": (i + s) % 2} for s in range(3) for i in range(200)]
    rows = [row | (early if at < 300 else late) for at, row in enumerate(rows)]
    (tmp_path / "t.jsonl").write_text("\n".join(json.dumps(row) for row in rows))
    problem = rf.Problem("error <= 0.5", minimize="cost")
    table, _ = read_table(tmp_path / "t.jsonl", problem)
    told = np.array([np.nan if row.get("cost") is None else row["cost"] for row in rows]).reshape(3, 200)
    np.testing.assert_array_equal(table.losses("cost"), told)
    np.testing.assert_array_equal(table.losses("error"), np.array([row["error"] for row in rows]).reshape(3, 200))
    (tmp_path / "t.jsonl").write_text(
        "\n".join(json.dumps(row | ({"error": "bad"} if row["level"] else {})) for row in rows)
    )
    with pytest.raises(rf.RiskfrontError, match="error"):
        read_table(tmp_path / "t.jsonl", problem)


def test_only_the_columns_that_are_needed_are_read(tmp_path: Path, monkeypatch: Any) -> None:
    frame().assign(text="long " * 100).to_parquet(tmp_path / "t.parquet")
    asked: list[set[str]] = []
    plain = batches.ParquetFiles.batches

    def watched(self: Any, columns: Any) -> Any:
        asked.append(set(columns))
        return plain(self, columns)

    source = opening.from_path(tmp_path / "t.parquet")
    monkeypatch.setattr(batches.ParquetFiles, "batches", watched)
    layout, _ = long_format.find_layout(source, PROBLEM.terms, long_format.Layout())
    long_format.LongRows(source, layout, (), PROBLEM.terms, sure=True).read()
    assert asked[-1] == {"model", "effort", "id", "label", "error", "cost"}


@pytest.mark.parametrize("order", ["setting", "example", "shuffled"])
@pytest.mark.parametrize("group", [50, 1000])
def test_a_large_file_is_understood_from_some_of_its_rows(
    order: str, group: int, tmp_path: Path, monkeypatch: Any
) -> None:
    """The same table, whatever rows the roles were found in, also beside columns that are no settings."""
    monkeypatch.setattr(long_format, "_SMALL", 100)
    monkeypatch.setattr(batches, "_PIECE_ROWS", 120)
    random = np.random.default_rng(0)
    rows = [(a, b, i) for a in range(6) for b in (0.1, 0.5) for i in range(90)]
    data = pd.DataFrame(rows, columns=["a", "b", "example"])
    data["size"] = data["a"] * 100  # follows from the setting
    data["answered"] = (random.random(len(data)) < 0.8).astype(int)
    data["text"] = [f"answer {k}" for k in random.integers(0, 10**6, len(data))]
    data["label"], data["error"], data["cost"] = (
        data["example"] % 3,
        random.random(len(data)) < 0.2,
        random.random(len(data)),
    )
    if order == "example":
        data = data.sort_values(["example", "a", "b"], ignore_index=True)
    if order == "shuffled":
        data = data.sample(frac=1, random_state=0, ignore_index=True)
    pq.write_table(pa.Table.from_pandas(data), tmp_path / "t.parquet", row_group_size=group)
    table, layout = read_table(tmp_path / "t.parquet", PROBLEM)
    assert layout.config_columns == ("a", "b", "size")
    assert (table.n_configs, table.n_examples, table.intake.absent) == (12, 90, 0)
    monkeypatch.undo()
    assert table.sha256 == read_table(tmp_path / "t.parquet", PROBLEM)[0].sha256


def test_a_guess_that_all_rows_contradict_is_taken_back(tmp_path: Path, monkeypatch: Any) -> None:
    """In the rows that were looked at, every example has one effort."""
    monkeypatch.setattr(long_format, "_SMALL", 10)
    monkeypatch.setattr(batches, "_PIECE_ROWS", 6)
    data = frame().sort_values(["effort", "id", "model"], ignore_index=True)
    pq.write_table(pa.Table.from_pandas(data), tmp_path / "t.parquet", row_group_size=40)
    table, layout = read_table(tmp_path / "t.parquet", PROBLEM)
    assert set(layout.config_columns) == {"model", "effort"}
    assert table.n_configs == 6


def test_brackets_in_texts_are_no_nesting(tmp_path) -> None:
    rows = [{"setting": s, "example": i, "error": 0, "text": '[{\\"' * 600} for s in (0, 1) for i in range(40)]
    (tmp_path / "t.jsonl").write_text("\n".join(json.dumps(row) for row in rows))
    assert read_table(tmp_path / "t.jsonl", rf.Problem(["error <= 0.1"], minimize="error"))[0].n_examples == 40


def cut_off() -> bytes:
    content = io.BytesIO()
    frame().to_parquet(content)
    return content.getvalue()[: len(content.getvalue()) // 2]


#: Arrow's parser ends the process where the first row of a block is null
NULLS = {
    "null": "null",
    "a line of null": " null\n",
    "null before a row": 'null\n{"k": 1}\n',
    "null after a row": '{"k": 1}\n\n\tnull\r\n',
    "null after a block": '{"k": 1}\n' * 90_000 + "null",
}
#: Arrow's parser runs out of stack on them, and takes the process with it
DEEP = {
    "objects in objects": '{"a":' * 50_000 + "1" + "}" * 50_000,
    "lists in lists": '{"a":' + "[" * 50_000 + "]" * 50_000 + "}",
}
PLAIN = '{"setting": 1, "example": 2, "error": 0, "text": "{[{["}\n'
REFUSED: dict[str, tuple[str, str | bytes, str]] = {
    "a Parquet file that was cut off": ("t.parquet", cut_off(), "t.parquet"),
    "two columns of one name": ("twice.csv", "a,a,example\n1,2,3\n", "twice.csv"),
    "an empty file": ("empty.csv", "", "empty.csv"),
    "a line that was cut off": ("bad.jsonl", '{"a": 1}\n{"a": [', "bad.jsonl"),
    "a name of a column that is no text": ("t.jsonl", b'{"setting": 1, "err\xf2r": 0}\n', "cannot read"),
    "a row twice": (
        "t.csv",
        pd.concat([frame(), frame().iloc[[7, 9]]]).to_csv(index=False),
        r"comes more than once for the setting .*small.*\(2 such rows",
    ),
    **{name: ("t.jsonl", text, "each line of .* must be a JSON object .* one is null") for name, text in NULLS.items()},
    **{
        f"{name} {where}": ("t.jsonl", before + text + "\n", r"nested more than 500 deep; some in .*t\.jsonl")
        for name, text in DEEP.items()
        for where, before in (("at once", ""), ("after a block", PLAIN * 100_000))
    },
}


@pytest.mark.parametrize("case", REFUSED)
def test_refused_files(case: str, tmp_path: Path) -> None:
    name, content, words = REFUSED[case]
    content = content if isinstance(content, bytes) else content.encode()
    (tmp_path / name).write_bytes(content)
    layout = long_format.Layout(("model", "effort"), "id") if case == "a row twice" else None
    with pytest.raises(rf.RiskfrontError, match=words) as caught:
        read_table(tmp_path / name, PROBLEM, layout=layout)
    assert "\n" not in str(caught.value)
    assert (tmp_path / name).read_bytes() == content


def test_folders_without_files_are_refused(tmp_path: Path) -> None:
    (tmp_path / "nothing").mkdir()
    for name in ("nothing", "absent-*.parquet"):
        with pytest.raises(rf.RiskfrontError):
            read_table(tmp_path / name, PROBLEM)
