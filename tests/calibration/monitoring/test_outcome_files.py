"""Files that grow: every outcome is read once, none is lost, and what cannot be right is refused."""

import io
import json

import numpy as np
import pytest

import riskfront as rf
from riskfront._calibration.monitoring import outcome_files
from riskfront._calibration.monitoring.outcome_files import OutcomeFile, OutcomeStream, Position, parsed
from tests.support.command_line import riskfront
from tests.support.monitoring import certificate


def read(file, **options):
    return [value for columns, _ in file.read(**options) for value in columns["error"].tolist()]


def test_reading_goes_on_where_it_ended(tmp_path, monkeypatch):
    monkeypatch.setattr(outcome_files, "CHUNK", 64)
    path = tmp_path / "outcomes.csv"
    path.write_text("error,text\n" + "".join(f"{i},words\n" for i in range(50)))
    file = OutcomeFile(path)
    assert read(file) == list(range(50))
    assert read(file) == []
    with path.open("a") as more:
        more.write('50,"two\nlines, and ""quotes"""\n51,half of')
    again = OutcomeFile(path, Position.from_dict(json.loads(json.dumps(file.position.to_dict()))))
    assert read(again) == [50]
    with path.open("a") as more:
        more.write(" it\n")
    assert read(again) == [51]
    assert again.position.rows == 52


def test_the_last_line_of_a_complete_file_needs_no_end(tmp_path):
    path = tmp_path / "outcomes.csv"
    path.write_text("error,x\n0,1\n1,1")
    file = OutcomeFile(path)
    assert read(file) == [0]
    assert read(file, complete=True) == [1]
    path.write_text("error,x\n0,1\n1,1\n1,2\n")
    assert read(OutcomeFile(path, file.position)) == [1]
    path.write_text("error,x\n0,1\n1,15\n1,2\n")
    with pytest.raises(rf.InvalidInputError, match="its end was written, and it went on"):
        read(OutcomeFile(path, file.position))


def test_a_file_that_was_replaced_or_renamed_is_refused(tmp_path):
    rng = np.random.default_rng(0)
    path, other = tmp_path / "outcomes.csv", tmp_path / "outcomes.csv.1"
    path.write_text("error\n" + "".join(f"{i}\n" for i in rng.integers(0, 2, 2000)))
    file = OutcomeFile(path)
    assert len(read(file)) == 2000
    other.write_bytes(path.read_bytes() + b"1\n")
    with pytest.raises(rf.InvalidInputError, match="every outcome may count once"):
        OutcomeFile(other, others=[file.position])
    for replaced in ("error\n1\n", "error\n" + "0\n" * 5000):
        path.write_text(replaced)
        with pytest.raises(rf.InvalidInputError, match="outcomes may only be appended"):
            OutcomeFile(path, file.position)


def test_empty_cells_are_missing_outcomes_not_missing_rows(tmp_path):
    for text, rows in (("error\n1\n\n0\n", 3), ("error,x\n1,1\n\n,1\n", 2)):
        path = tmp_path / "outcomes.csv"
        path.write_text(text)
        file = OutcomeFile(path)
        found = read(file)
        assert len(found) == file.position.rows == rows
        assert np.isnan(found[1])


def test_json_lines(tmp_path):
    path = tmp_path / "outcomes.jsonl"
    path.write_text('{"error": 0, "label": "a"}\n\n{"label": "b"}\n{"error": true}\n')
    file = OutcomeFile(path)
    ((columns, position),) = file.read()
    assert columns["error"].tolist() == [0, None, True]
    assert columns["label"].tolist() == ["a", "b", None]
    with path.open("a") as more:
        more.write('{"label": "c"}\n')
    ((columns, position),) = OutcomeFile(path, position).read()
    assert columns["error"].tolist() == [None]  # the name was there before: this outcome is missing
    for wrong in ("[1]\n", "{\n", "error\n"):
        path.write_text(wrong)
        with pytest.raises(rf.InvalidInputError, match="every line must be a JSON object"):
            read(OutcomeFile(path))


def test_standard_input_comes_in_pieces():
    class Slowly(io.BytesIO):
        def read1(self, size):
            return super().read1(7)

    for text in ("error,x\n1,a\n0,b\n1,c", '{"error": 1}\n{"error": 0}\n{"error": 1}'):
        assert read(OutcomeStream(Slowly(text.encode()))) == [1, 0, 1]
    assert read(OutcomeStream(io.BytesIO(b""))) == []


def test_lists_of_equal_length_in_json_lines_are_one_cell_a_line():
    rows = "".join(json.dumps({"error": 0, "failed": [], "tags": ["a", "b"]}) + "\n" for _ in range(3))
    columns, _, n = parsed(rows.encode(), (), "json")
    assert n == 3
    assert [len(column) for column in columns.values()] == [3, 3, 3]
    assert columns["tags"][0] == ["a", "b"]


@pytest.mark.parametrize("broken", ["NA", "None", "01", "true", "nan"])
def test_a_group_is_known_by_its_name_whatever_that_looks_like(tmp_path, broken):
    """Namibia is no missing value, and "01" in a file of digits is no 1."""
    others = [name for name in ("01", "02") if name != broken]
    made = certificate("error <= 0.1 per g", groups={"g": [broken, *others]})
    path = tmp_path / "outcomes.csv"
    path.write_text("g,error\n" + "".join(f"{broken},1\n{others[0]},0\n" for _ in range(60)))
    monitor = rf.Monitor(made)
    for columns, _ in OutcomeFile(path, names=monitor.group_columns).read():
        monitor.update(columns)
    assert monitor.alarm
    assert f"g = {broken}" in monitor.verdict()
    assert not any(monitor.accounts.uncovered["g"].values())


def test_the_command_knows_groups_by_their_names(tmp_path):
    certificate("error <= 0.1 per g", groups={"g": ["NA", "x"]}).save(tmp_path / "c.json")
    (tmp_path / "outcomes.csv").write_text("g,error\n" + "NA,1\nx,NA\nx,0\n" * 60)
    done = riskfront("monitor", tmp_path / "c.json", tmp_path / "outcomes.csv", "--missing", "leave-out", "--json")
    assert done.returncode == 1
    limits = {row["group"]: row for row in json.loads(done.stdout)["limits"]}
    assert limits["NA"]["outcomes"] == limits["x"]["outcomes"] == 60


def test_digits_are_the_number_that_was_certified(tmp_path):
    """Unless a group of just these digits was certified."""
    columns, _, _ = parsed(b"g,error\n01,0\n1,0\n2.0,0\nTRUE,0\n,0\n", (), ",", names=["g"])
    monitor = rf.Monitor(certificate("error <= 0.1 per g", groups={"g": [1, 2, True]}))
    monitor.update(columns)
    assert monitor.accounts.uncovered["g"] == {"(missing)": 1}
    monitor = rf.Monitor(certificate("error <= 0.1 per g", groups={"g": ["01", 1]}))
    monitor.update(columns)
    assert monitor.status["outcomes"].tolist() == [1, 1]


def test_a_quote_inside_of_a_cell_holds_nothing_back(tmp_path):
    file = tmp_path / "outcomes.csv"
    file.write_text('error,text\n0,5" pipe\n1,"two\nlines, one ""cell"""\n1,"still being wri\n')
    reader = OutcomeFile(file)
    ((columns, _),) = reader.read()
    assert columns["error"].tolist() == [0, 1]
    with file.open("a") as more:
        more.write('tten"\n0,7" pipe\n')
    ((columns, _),) = reader.read()
    assert columns["text"].tolist() == ["still being wri\ntten", '7" pipe']


def test_any_text_may_stand_in_a_line_of_json(tmp_path):
    file = tmp_path / "outcomes.jsonl"
    file.write_text("".join(f'{{"error": {k}, "text": "a{end}b"}}\n' for k, end in enumerate("\u2028\x85\u2029")))
    ((columns, _),) = OutcomeFile(file).read()
    assert columns["error"].tolist() == [0, 1, 2]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("error,error\n1,1\n", "outcomes must"),
        ("error,x\n1,2,3\n", "more cells"),
        ("text,error\nwell, then,1\n", "more cells"),
        ("\n1\n", "outcomes must"),
    ],
    ids=["a column twice", "a cell too many", "a comma in a text", "no header"],
)
def test_refused_files(tmp_path, text, words):
    path = tmp_path / "outcomes.csv"
    path.write_text(text)
    with pytest.raises(rf.InvalidInputError, match=words):
        read(OutcomeFile(path))
    assert path.read_text() == text
