"""Bad input: one clear sentence, exit status 2, and before hours of work."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import transformers

from riskfront.errors import InvalidInputError, RiskfrontError, StoreError
from riskfront.transformers import FineTuning, Grid, HeadTraining, Plan, Rows, Training
from riskfront.transformers._backbones.backbone import quiet
from riskfront.transformers._data.texts import labelled_texts, read_texts, split_texts
from riskfront.transformers._learning import training
from riskfront.transformers._pruning.thresholds import make_thresholds
from tests.support import tiny_transformers as tiny
from tests.support.command_line import riskfront

FRAME = tiny.make_frame(60, 30)
LIMIT = ["--limit", "error <= 0.2"]


def changed(column: str, row: int, value: Any) -> pd.DataFrame:
    values = FRAME[column].astype(object).copy()
    values[row] = value
    return FRAME.assign(**{column: values})


FRAMES: dict[str, tuple[pd.DataFrame, str]] = {
    "no label": (FRAME[["text"]], "data must have a column 'label'; the columns are ['text']."),
    "no text": (FRAME[["label"]], "data must have a column 'text', or two, 'text_a' and 'text_b'"),
    "half a pair": (FRAME.rename(columns={"text": "text_a"}), "data must have a column 'text', or two"),
    "one class": (FRAME.assign(label="blue"), "at least two classes; every row has the label 'blue'"),
    "missing label": (changed("label", 7, None), "every row must have a label; 1 have none, the first is row 7"),
    "mixed labels": (changed("label", 7, 3), "labels must be all numbers or all texts"),
    "infinite label": (FRAME.assign(label=np.where(np.arange(60) < 30, np.inf, 0.0)), "finite"),
    "labels that do not repeat": (FRAME.assign(label=np.arange(60)), "labels must be classes that repeat"),
    "empty text": (changed("text", 5, ""), "column 'text' has 1 empty ones, the first in row 5"),
    "missing text": (changed("text", 5, None), "column 'text' has 1 empty ones, the first in row 5"),
    "blank text": (changed("text", 5, " \t"), "column 'text' has 1 empty ones, the first in row 5"),
    "a number for a text": (changed("text", 5, 17), "column 'text' must hold texts; row 5 holds 17"),
    "only train": (FRAME.assign(split="train"), "must mark some rows as 'train' and others not; got only ['train']"),
    "only test": (FRAME.assign(split="test"), "must mark some rows as 'train' and others not; got only ['test']"),
    "a class to calibrate on only": (
        FRAME.assign(split=np.where(FRAME["label"] == "red", "test", "train")),
        "every class must be among the",
    ),
    "too few rows": (FRAME.head(6).assign(label=list("ababab")), "at least 5 rows to learn from"),
    "no rows": (FRAME.head(0), "at least one row"),
}


@pytest.mark.parametrize("name", FRAMES)
def test_data_that_cannot_be_used(name: str) -> None:
    frame, words = FRAMES[name]
    with pytest.raises(InvalidInputError) as error:
        split_texts(frame)
    assert words in str(error.value)


@pytest.mark.parametrize(("name", "suffix"), [("no label", "csv"), ("missing label", "parquet"), ("only train", "csv")])
def test_data_that_cannot_be_used_on_the_command_line(
    classifier_folder: Path, tmp_path: Path, name: str, suffix: str
) -> None:
    frame, words = FRAMES[name]
    file = tmp_path / f"data.{suffix}"
    frame.to_csv(file, index=False) if suffix == "csv" else frame.to_parquet(file)
    fails(words, "accelerate", "--model", classifier_folder, "--data", file, "--out", tmp_path / "out", *LIMIT)
    assert not (tmp_path / "out").exists()


def fails(words: str, *command: Any) -> None:
    done = riskfront(*command)
    assert done.returncode == 2, (done.stdout, done.stderr)
    assert len(done.stderr.strip().splitlines()) == 1
    assert done.stderr.startswith("riskfront: ")
    assert words in done.stderr


def test_files_that_cannot_be_read(classifier_folder: Path, tmp_path: Path) -> None:
    (tmp_path / "text.parquet").write_text("text,label\nno parquet,1\n")
    (tmp_path / "nothing.csv").write_text("")
    for source, words in (
        ("absent.csv", "no such file"),
        ("text.parquet", "must be a Parquet or CSV file"),
        ("nothing.csv", "must be a Parquet or CSV file"),
        (".", "is a folder"),
    ):
        with pytest.raises(StoreError, match=words):
            read_texts(tmp_path / source)
        data = ["--data", tmp_path / source]
        fails(words, "accelerate", "--model", classifier_folder, *data, "--out", tmp_path / "out", *LIMIT)
    assert not (tmp_path / "out").exists()


def test_a_csv_file_holds_texts_as_they_are(tmp_path: Path) -> None:
    """NA, null and 2024 are texts like others; labels with decimals are the whole numbers they mean."""
    rows = ["text,label", "NA,1.0", "null,0.0", "2024,1.0", "None,0.0"]
    (tmp_path / "data.csv").write_text("\n".join(rows) + "\n")
    found = labelled_texts(read_texts(tmp_path / "data.csv"))
    assert found.first == ["NA", "null", "2024", "None"]
    assert found.classes == (0, 1)
    assert found.labels.tolist() == [1, 0, 1, 0]
    (tmp_path / "data.tsv").write_text("text\tlabel\na, b\tx\nc\ty\nd\tx\ne\ty\n")
    assert labelled_texts(read_texts(tmp_path / "data.tsv")).first == ["a, b", "c", "d", "e"]


def test_kinds_of_labels() -> None:
    texts = ["a", "b", "c", "d"]
    for given, classes in (
        (["x", "y", "x", "y"], ("x", "y")),
        ([2, 1, 2, 1], (1, 2)),
        ([True, False, True, False], (False, True)),
        ([0.5, 1.5, 0.5, 1.5], (0.5, 1.5)),
        (pd.Categorical(["x", "y", "x", "y"], categories=["z", "y", "x"]), ("x", "y")),
    ):
        found = labelled_texts(pd.DataFrame({"text": texts, "label": given}))
        assert found.classes == classes
        assert [found.classes[i] for i in found.labels] == list(given)
        assert {type(label) for label in found.classes} == {type(classes[0])}


def test_the_parts_share_no_row_and_follow_the_column_split() -> None:
    frame = FRAME.assign(text=[f"text {i}" for i in range(60)])
    parts = split_texts(frame, Rows(validation=5))
    rows = [set(part.first) for part in (parts.train, parts.validation, parts.calibration)]
    assert len(rows[1]) == 5
    assert 20 <= len(rows[2]) <= 40, "about half"
    assert sum(map(len, rows)) == len(set.union(*rows)) == 60
    marked = frame.assign(split=["Train", "dev", "TEST"] * 20)
    parts = split_texts(marked, Rows(validation=1000))
    learnt = set(marked["text"][::3])
    assert set(parts.train.first) | set(parts.validation.first) == learnt
    assert set(parts.calibration.first) == set(frame["text"]) - learnt
    assert len(parts.validation) == 4, "at most a fifth"
    assert split_texts(frame, seed=1).calibration.first != split_texts(frame, seed=2).calibration.first


def test_models_that_cannot_be_used(tmp_path: Path, classifier_folder: Path) -> None:
    FRAME.to_csv(tmp_path / "data.csv", index=False)
    for kind in ("MobileBert", "RobertaPreLayerNorm", "Nystromformer"):
        with quiet():
            getattr(transformers, f"{kind}Config")().save_pretrained(tmp_path / kind)
    deep, one = tiny.new_model(), tiny.new_model(num_hidden_layers=1)
    tiny.save_named(one, tiny.SIGNALS, tmp_path / "one layer")
    tiny.save_named(deep, tiny.SIGNALS, tmp_path / "decoder")
    config = json.loads((tmp_path / "decoder" / "config.json").read_text())
    (tmp_path / "decoder" / "config.json").write_text(json.dumps({**config, "is_decoder": True}))
    (tmp_path / "empty").mkdir()
    (tmp_path / "bare").mkdir()
    for name in ("config.json", "model.safetensors"):
        (tmp_path / "bare" / name).write_bytes((classifier_folder / name).read_bytes())
    for name, words in (
        ("MobileBert", "is of the family mobilebert"),
        ("RobertaPreLayerNorm", "is of the family roberta-prelayernorm"),
        ("Nystromformer", "is of the family nystromformer"),
        ("one layer", "it has a single layer"),
        ("decoder", "it is a decoder"),
        ("absent", "there is no folder"),
        ("empty", "must be the folder or the hub name of a model"),
        ("bare", "must hold a tokenizer"),
    ):
        data = ["--data", tmp_path / "data.csv", "--out", tmp_path / "out"]
        fails(words, "accelerate", "--model", tmp_path / name, *data, *LIMIT)
    assert not (tmp_path / "out").exists()
    fails("must be a folder of save_pretrained", "transformers", "predict", tmp_path / "absent", *data[:2])


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--limit", "eror <= 0.1"], "limits and objectives must be among"),
        (["--limit", "error <= 0.1", "--minimize", "cost"], "limits and objectives must be among"),
        (["--limit", "error <= 0.1 per topic"], "limits can hold per label; got per topic"),
        (["--limit", "error <= 0.1 given topic"], "topic"),
        (["--limit", "error <= 1.5"], "strictly between its bounds (0, 1); got 1.5"),
        (["--limit", "flops <= 1000"], "flops can be minimised but not limited"),
        (["--limit", "error = 0.1"], "must be a bound from one side"),
        ([*LIMIT, "--delta", "2"], "delta must lie in (0, 1)"),
        ([*LIMIT, "--method", "magic"], "no method 'magic'"),
        ([*LIMIT, "--method", "bonferroni"], "must plan on planning examples"),
        ([*LIMIT, "--search", "magic"], "search must be one of"),
        ([*LIMIT, "--abstain", "0,1.5"], "--abstain must hold numbers from 0 to 1"),
        ([*LIMIT, "--abstain", "high"], "--abstain must hold numbers"),
        ([*LIMIT, "--learning-rate", "0"], "learning_rate must be above 0"),
        ([*LIMIT, "--max-length", "2"], "max_length must be at least 3"),
        ([*LIMIT, "--epochs", "0"], "'--epochs'"),
        ([*LIMIT, "--device", "abacus"], "device must be one that torch can use here"),
        ([], "limit"),
    ],
)
def test_options_that_cannot_be_used_are_said_before_anything_is_done(
    classifier_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, options: list[str], words: str
) -> None:
    monkeypatch.setattr(training, "head_importance", None)
    FRAME.to_csv(tmp_path / "data.csv", index=False)
    base = ["--model", classifier_folder, "--data", tmp_path / "data.csv", "--out", tmp_path / "out"]
    fails(words, "accelerate", *base, *options)
    assert not (tmp_path / "out").exists()


def test_texts_longer_than_the_model_are_said_in_a_sentence_and_cut(classifier_folder: Path, tmp_path: Path) -> None:
    long = FRAME.assign(text=FRAME["text"] + " noise1" * 60)
    parts = split_texts(long)
    lines: list[str] = []
    with pytest.warns(UserWarning, match="texts are longer than 40 tokens; what is beyond is not read") as said:
        found = training.train(
            classifier_folder, parts, tmp_path, Training(max_length=512), say=lines.append, progress=False
        )
    assert "the model reads at most 40 tokens; max_length is 512, and 40 are read" in lines
    assert found.max_length == 40, "what the model can read"
    counts = [len(parts.train), len(parts.validation)]
    assert [str(warning.message).split(" texts")[0] for warning in said] == [f"{n} of {n}" for n in counts]


WAYS = {
    "no epochs": lambda: FineTuning(epochs=0),
    "a learning rate of nan": lambda: FineTuning(learning_rate=float("nan")),
    "warming up all the time": lambda: FineTuning(warmup=1.0),
    "a negative weight": lambda: FineTuning(early_layers=-1),
    "no epochs for heads": lambda: HeadTraining(epochs=0),
    "no rows for heads": lambda: HeadTraining(token_rows=0),
    "a negative learning rate": lambda: HeadTraining(learning_rate=-1.0),
    "texts of two tokens": lambda: Training(max_length=2),
    "an unknown method": lambda: Plan(method="magic"),
    "an unknown search": lambda: Plan(search="magic"),
}


@pytest.mark.parametrize("case", WAYS)
def test_ways_to_train_that_cannot_be(case: str) -> None:
    with pytest.raises(RiskfrontError, match=r"must|no method|is needed"):
        WAYS[case]()


def test_thresholds_need_a_number(network: Any, data: Any) -> None:
    with pytest.raises(InvalidInputError, match="n_head must be at least 1, which prunes nothing; got 0"):
        make_thresholds(network, data[0], Grid(head=0))


def test_classes_other_than_the_models(classifier_folder: Path, tmp_path: Path) -> None:
    FRAME.to_csv(tmp_path / "data.csv", index=False)
    other = FRAME.assign(label="dark " + FRAME["label"])
    other.to_csv(tmp_path / "other.csv", index=False)
    out = tmp_path / "out"
    data = ["--data", tmp_path / "data.csv"]
    assert riskfront("transformers", "train", "--model", classifier_folder, *data, "--out", out).returncode == 0
    fails(
        "must have the classes of the model", "transformers", "certify", out, "--data", tmp_path / "other.csv", *LIMIT
    )
    (tmp_path / "unlabelled.csv").write_text("words\nblue\n")
    fails("must have a column 'text'", "transformers", "predict", out, "--data", tmp_path / "unlabelled.csv")
    fails("no certificate yet", "transformers", "predict", out, "--data", tmp_path / "data.csv")
    fails(
        "file of its own",
        "transformers",
        "predict",
        out,
        "--data",
        tmp_path / "data.csv",
        "--out",
        tmp_path / "data.csv",
    )
    fails(
        "does not", "transformers", "predict", out, "--data", tmp_path / "data.csv", "--out", tmp_path / "no" / "p.csv"
    )
