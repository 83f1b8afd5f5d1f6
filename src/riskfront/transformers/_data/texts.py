"""Labelled texts: from a Parquet or CSV file, a data frame or a Hugging Face data set, checked, with labels as positions."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from riskfront._data.identity.fingerprints import text_digests, text_places
from riskfront._support.arrays import BoolArray, IntArray
from riskfront.errors import InvalidInputError, StoreError
from riskfront.transformers._data.hugging_face_data import is_data_set, to_frame
from riskfront.transformers._data.tokens import is_missing, must_be_unicode

Label = int | float | str | bool
TRAIN = ("train", "training")  # values of the column `split` that mean: the model may learn from this row
KEPT = 0.5  # share of the texts that calibrate where no column says which


@dataclass(frozen=True)
class LabelledTexts:
    """Texts, or pairs of texts where there is a second of each, with their labels: positions, (n,), in `classes`, which are as
    the user knows them and sorted."""

    first: Sequence[str]
    second: Sequence[str] | None
    labels: IntArray
    classes: tuple[Label, ...]

    def __len__(self) -> int:
        return len(self.first)

    @property
    def examples(self) -> list[Any]:
        """Each a text, or a pair of texts."""
        return list(self.first) if self.second is None else list(zip(self.first, self.second, strict=True))

    @cached_property
    def contents(self) -> list[bytes]:
        """What makes each text, or pair of texts, the same as another, wherever it stands."""
        return text_digests(self.first, self.second)

    def reordered(self, classes: tuple[Label, ...]) -> LabelledTexts:
        """The same labels as positions in another order of the same classes."""
        place = np.array([classes.index(label) for label in self.classes], dtype=np.int64)
        return replace(self, labels=place[self.labels], classes=classes)

    def take(self, positions: IntArray) -> LabelledTexts:
        second = None if self.second is None else [self.second[i] for i in positions]
        return replace(self, first=[self.first[i] for i in positions], second=second, labels=self.labels[positions])


@dataclass(frozen=True)
class TextParts:
    """Three parts that share no row: to learn from, to score heads and thresholds on, to calibrate and certify on.

    Where riskfront drew the parts itself they share no text either, and `n_kept_together` rows to learn from went with a copy.
    Calibration rows are those whose contents have a random place, by `seed`, in `drawn_from`, unless a column `split` kept them
    out.
    """

    train: LabelledTexts
    validation: LabelledTexts
    calibration: LabelledTexts
    n_kept_together: int = 0
    seed: int = 0
    drawn_from: tuple[float, float] = (0.0, 1.0)

    def could_calibrate(self, contents: Sequence[bytes]) -> BoolArray:
        """(n,): whether texts would have been calibration texts, had they been in the file."""
        place = text_places(contents, self.seed)
        return np.asarray((place >= self.drawn_from[0]) & (place < self.drawn_from[1]))


def read_texts(source: str | os.PathLike[str] | pd.DataFrame | Any) -> pd.DataFrame:
    """A data frame from a file, a Hugging Face data set (`Dataset`, `DatasetDict`, or a name), or a data frame itself."""
    if isinstance(source, pd.DataFrame):
        return source
    if is_data_set(source):
        return to_frame(source)
    if not isinstance(source, str | os.PathLike):
        raise InvalidInputError(
            f"data must be a file, a data frame or a data set of Hugging Face; got {type(source).__name__}."
        )
    path = Path(source)
    if path.is_dir():
        raise StoreError(f"data must be a Parquet or CSV file; '{path}' is a folder.")
    if path.is_file():
        try:
            if path.suffix.lower() in (".csv", ".tsv"):
                return _read_csv(path)
            return pd.read_parquet(path)
        except Exception as error:
            raise StoreError(f"'{path}' must be a Parquet or CSV file; it cannot be read as one ({error}).") from error
    if path.suffix or path.is_absolute():
        raise StoreError(f"cannot read the data '{path}': no such file.")
    return _from_hub(str(source))


@dataclass(frozen=True)
class Rows:
    """How many rows go where; None for all there are. Without a column `split`, half of the rows are for calibration."""

    train: int | None = None
    validation: int = 1000
    calibration: int | None = None


def split_texts(frame: pd.DataFrame, rows: Rows | None = None, *, seed: int = 0, learning: bool = True) -> TextParts:
    """Rows to learn from and rows to calibrate on, drawn at random, each by its own content: neither the order of the rows nor
    rows that were added or dropped move any other row to another part.

    A column `split` decides where there is one: rows marked train are learnt from, all others are kept for calibration. Without
    it, about half of the texts are kept, with all their copies. Validation rows come out of those to learn
    from, at most a fifth of them; out of the others only if nothing is to be learnt (`learning`) and no row is marked train.
    """
    rows, texts = rows or Rows(), labelled_texts(frame)
    place = text_places(texts.contents, seed)
    order = np.lexsort((texts.labels, place))
    kept = _kept_for_calibration(frame, learning) if "split" in frame.columns else place < KEPT
    learn, keep = order[~kept[order]], order[kept[order]]
    n_validation = min(rows.validation, len(learn if len(learn) or learning else keep) // 5)
    if not len(learn) and not learning:
        learn, keep = keep[:n_validation], keep[n_validation:]
    if n_validation < 1 or len(keep) < 2:
        raise InvalidInputError(
            f"there must be at least 5 rows to learn from and 2 to calibrate on; got {len(learn)} and {len(keep)}."
        )
    validation, learn = learn[:n_validation], learn[n_validation:]
    counts = Counter(texts.contents[i] for i in (*validation, *learn))
    together = 0 if "split" in frame.columns else sum(count for count in counts.values() if count > 1)
    start = float(place[validation].max()) if kept[validation[0]] else 0.0
    end = 1.0 if "split" in frame.columns else KEPT
    if rows.calibration is not None and rows.calibration < len(keep):
        end = float(place[keep[rows.calibration]])
    found = (texts.take(learn[: rows.train]), texts.take(validation), texts.take(keep[: rows.calibration]))
    parts = TextParts(*found, together, seed, (start, end))
    missing = [texts.classes[i] for i in sorted({*range(len(texts.classes))} - {*parts.train.labels.tolist()})]
    if missing and learning:
        raise InvalidInputError(
            f"every class must be among the {len(parts.train)} rows to learn from; {missing} are not. Give more rows."
        )
    return parts


def _kept_for_calibration(frame: pd.DataFrame, learning: bool) -> BoolArray:
    """(rows,): False where the column `split` says train."""
    kept = ~frame["split"].astype(str).str.lower().isin(TRAIN).to_numpy()
    if not kept.any() or (learning and kept.all()):
        raise InvalidInputError(
            "the column 'split' must mark some rows as 'train' and others not; got only "
            f"{sorted(frame['split'].astype(str).unique())}. Leave the column out to split at random."
        )
    return np.asarray(kept, dtype=bool)


def labelled_texts(frame: pd.DataFrame) -> LabelledTexts:
    """The columns text, or text_a and text_b, and label, checked."""
    if "label" not in frame.columns:
        raise InvalidInputError(f"data must have a column 'label'; the columns are {list(frame.columns)}.")
    first, second = one_or_two(frame)
    classes, labels = _labels(frame["label"])
    return LabelledTexts(first, second, labels, classes)


def contents_learnt_from(source: str | os.PathLike[str] | pd.DataFrame) -> list[bytes]:
    """The contents of the rows marked train, or of all rows where none is marked; labels are not needed."""
    frame = read_texts(source)
    if "split" in frame.columns:
        marked = frame["split"].astype(str).str.lower().isin(TRAIN)
        frame = frame[marked] if marked.any() else frame
    return text_digests(*one_or_two(frame))


def one_or_two(frame: pd.DataFrame) -> tuple[list[str], list[str] | None]:
    """The texts of a frame, or the first and the second of each pair, checked."""
    pair = {"text_a", "text_b"} <= set(frame.columns)
    if not pair and "text" not in frame.columns:
        raise InvalidInputError(
            f"data must have a column 'text', or two, 'text_a' and 'text_b'; the columns are {list(frame.columns)}."
        )
    return _texts(frame, "text_a" if pair else "text"), _texts(frame, "text_b") if pair else None


def _read_csv(path: Path) -> pd.DataFrame:
    """Texts as they are: "NA" and "2024" are texts too; only labels can be missing in as many words."""
    return pd.read_csv(
        path,
        sep="\t" if path.suffix.lower() == ".tsv" else ",",
        dtype=dict.fromkeys(("text", "text_a", "text_b"), str),
        keep_default_na=False,
        na_values={"label": ["", "NA", "N/A", "NaN", "nan", "null", "NULL", "None", "<NA>"]},
    )


def _texts(frame: pd.DataFrame, column: str) -> list[str]:
    values = frame[column]
    empty = np.array([is_missing(value) for value in values], dtype=bool)
    if empty.any():
        raise InvalidInputError(
            f"every text must have at least one character; column '{column}' has {int(empty.sum())} empty ones, the first in "
            f"row {int(np.argmax(empty))}. Remove those rows."
        )
    wrong = ~values.map(lambda value: isinstance(value, str))
    if wrong.any():
        row = int(np.argmax(wrong.to_numpy()))
        raise InvalidInputError(f"column '{column}' must hold texts; row {row} holds {values.iloc[row]!r}.")
    found: list[str] = values.tolist()
    for row, text in enumerate(found):
        must_be_unicode(text, f"row {row} of column '{column}'")
    return found


def _labels(values: pd.Series[Any]) -> tuple[tuple[Label, ...], IntArray]:
    several = values.map(lambda value: isinstance(value, list | tuple | set | dict | np.ndarray)).to_numpy(dtype=bool)
    if several.any():
        row = int(np.argmax(several))
        raise InvalidInputError(
            f"a label must be one class of the whole text, a number or a text; row {row} holds {values.iloc[row]!r:.60}. "
            "Several labels for a text (multi-label) and a label for each token are not supported here; for several labels, "
            "riskfront.estimators.RiskControlledMultiLabel takes the scores of any model."
        )
    if values.isna().any():
        raise InvalidInputError(
            f"every row must have a label; {int(values.isna().sum())} have none, the first is row "
            f"{int(np.argmax(values.isna().to_numpy()))}. Remove those rows."
        )
    if values.dtype.kind == "f" and not np.isfinite(values).all():
        raise InvalidInputError("labels must be finite numbers or texts; got an infinite one.")
    if values.dtype.kind == "f" and (values == values.round()).all():
        values = values.astype(np.int64)  # a CSV file with 0.0 and 1.0
    try:
        classes = sorted(values.unique().tolist())
    except TypeError:
        raise InvalidInputError("labels must be all numbers or all texts; got both in one column.") from None
    if not all(isinstance(label, int | float | str | bool) for label in classes):
        raise InvalidInputError(f"labels must be numbers or texts; got {classes[0]!r}.")
    if not classes:
        raise InvalidInputError("data must have at least one row; got none.")
    if len(classes) < 2:
        raise InvalidInputError(f"there must be at least two classes; every row has the label {classes[0]!r}.")
    if len(classes) > len(values) // 2:
        raise InvalidInputError(
            f"labels must be classes that repeat; {len(classes)} different ones in {len(values)} rows look like something else."
        )
    return tuple(classes), pd.Index(classes).get_indexer(pd.Index(values)).astype(np.int64)


def _from_hub(name: str) -> pd.DataFrame:
    try:
        from datasets import load_dataset
    except ImportError:
        raise StoreError(
            f"'{name}' is no file. To read it as the name of a Hugging Face data set, install: pip install datasets"
        ) from None
    try:
        found = load_dataset(name)
    except Exception as error:
        raise StoreError(f"'{name}' is no file, and no Hugging Face data set could be read ({error}).") from error
    return to_frame(found)
