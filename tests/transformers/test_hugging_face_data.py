"""Data sets of Hugging Face as data: tables, splits, names of labels, rows without a label."""

import json
from typing import Any

import pandas as pd
import pytest

from riskfront.errors import InvalidInputError
from riskfront.transformers._data.hugging_face_data import is_data_set
from riskfront.transformers._data.texts import read_texts, split_texts
from tests.support import tiny_transformers as tiny

datasets = pytest.importorskip("datasets")
FRAME = tiny.make_frame(60, 2)


def coded(frame: pd.DataFrame) -> Any:
    """Labels as numbers that have names, as most data sets on the hub have them."""
    features = datasets.Features(
        {"text": datasets.Value("string"), "label": datasets.ClassLabel(names=["red", "blue", "green"])}
    )
    return datasets.Dataset.from_pandas(frame, features=features, preserve_index=False)


def test_a_data_set_is_its_data_frame() -> None:
    found = read_texts(datasets.Dataset.from_pandas(FRAME))
    assert found[["text", "label"]].equals(FRAME)
    assert "split" not in found


def test_numbers_of_labels_become_their_names() -> None:
    assert read_texts(coded(FRAME))["label"].tolist() == FRAME["label"].tolist()


def test_splits_become_a_column_that_decides() -> None:
    whole = datasets.DatasetDict({"train": coded(FRAME[:40]), "test": coded(FRAME[40:])})
    found = read_texts(whole)
    assert found["split"].tolist() == ["train"] * 40 + ["test"] * 20
    parts = split_texts(found)
    assert set(parts.calibration.first) == set(FRAME["text"][40:])
    assert not set(parts.train.first) & set(FRAME["text"][40:])


def test_rows_without_a_label_leave_with_a_warning() -> None:
    """As in the test splits of GLUE."""
    hidden = coded(FRAME[40:]).map(lambda row: {"label": -1})
    whole = datasets.DatasetDict({"train": coded(FRAME[:20]), "validation": coded(FRAME[20:40]), "test": hidden})
    with pytest.warns(UserWarning, match="20 of 20 rows of test have no label and are left out"):
        found = read_texts(whole)
    assert found["split"].unique().tolist() == ["train", "validation"]


def test_what_cannot_be_read() -> None:
    stream = datasets.Dataset.from_pandas(FRAME).to_iterable_dataset()
    with pytest.raises(InvalidInputError, match="known number of rows; the data is a IterableDataset"):
        read_texts(stream)
    with pytest.raises(InvalidInputError, match="at least one split"):
        read_texts(datasets.DatasetDict())
    with pytest.raises(InvalidInputError, match="data must be a file, a data frame or a data set"):
        read_texts([{"text": "a", "label": 1}])
    assert not is_data_set(FRAME)
    assert not is_data_set(json)
