"""Parts of examples: the same rows, whatever they are kept in."""

from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from scipy import sparse

import riskfront as rf
from riskfront._running.evaluation.evaluate import evaluate
from riskfront._running.evaluation.example_parts import guarded, take
from riskfront.errors import InvalidInputError

VALUES = np.arange(12.0)
POSITIONS = np.array([7, 0, 3])


class Features:
    """A data set of Hugging Face as far as riskfront knows one."""

    def __init__(self, values: Any) -> None:
        self.values, self.column_names, self.features = values, ["x"], {"x": "float"}

    def __len__(self) -> int:
        return len(self.values)

    def __getitem__(self, position: Any) -> dict[str, Any]:
        return {"x": self.values[position]}

    def select(self, positions: list[int]) -> "Features":
        return Features(self.values[positions])


class Pairs:
    """Examples (input, label), as torch's data sets give them: a list of positions gives a pair of arrays."""

    def __len__(self) -> int:
        return len(VALUES)

    def __getitem__(self, position: Any) -> tuple[Any, Any]:
        return VALUES[position], VALUES[position] > 5


class Frame:
    """Rows by a list of positions only, and ``select`` for columns, as in polars."""

    __module__ = "polars.dataframe.frame"

    def __init__(self, values: Any) -> None:
        self.values = values

    def __len__(self) -> int:
        return len(self.values)

    def __getitem__(self, positions: list[int]) -> "Frame":
        if not isinstance(positions, list):
            raise TypeError("rows are taken by a list")
        return Frame(self.values[positions])

    def select(self, names: Any) -> None:
        raise TypeError("columns are selected by name")


@pytest.mark.parametrize(
    ("examples", "read"),
    [
        (VALUES, list),
        (VALUES.tolist(), list),
        (tuple(VALUES), list),
        (pd.Series(VALUES, index=VALUES[::-1]), list),
        (pd.DataFrame({"x": VALUES}), lambda part: part["x"].tolist()),
        (pd.Categorical(VALUES), list),
        (pa.table({"x": VALUES}), lambda part: part["x"].to_pylist()),
        (pa.table({f"x{i}": VALUES for i in range(12)}), lambda part: part["x9"].to_pylist()),
        (pa.array(VALUES), lambda part: part.to_pylist()),
        (pa.record_batch({"x": VALUES}), lambda part: part["x"].to_pylist()),
        (sparse.csr_array(VALUES[:, None]), lambda part: part.toarray()[:, 0].tolist()),
        (Features(VALUES), lambda part: part.values.tolist()),
        (Frame(VALUES), lambda part: part.values.tolist()),
        (Pairs(), lambda part: [value for value, _ in part]),
        (range(12), list),
    ],
    ids=lambda value: type(value).__name__,
)
def test_a_part_holds_the_rows_at_the_positions(examples: Any, read: Any) -> None:
    assert read(take(examples, POSITIONS)) == [7.0, 0.0, 3.0]
    assert read(take(examples, POSITIONS[:2])) == [7.0, 0.0]


def test_tensors_are_split_by_row() -> None:
    torch = pytest.importorskip("torch")
    rows = torch.arange(24.0).reshape(12, 2)
    assert torch.equal(take(rows, POSITIONS), rows[[7, 0, 3]])
    space, problem = rf.Space(t=rf.Float(0, 1)), rf.Problem([rf.Limit("error", at_most=0.4)], minimize="cost")

    def losses(config: dict[str, Any], part: Any) -> dict[str, Any]:
        return {"error": part > 0.5 + config["t"] / 2, "cost": torch.full((len(part),), 1 - config["t"])}

    examples = torch.linspace(0, 1, 200)
    found = rf.tune(losses, examples, space, problem, search="random", budget=5)
    assert found.config == rf.tune(losses, examples.numpy(), space, problem, search="random", budget=5).config


def test_parts_of_the_wrong_length_are_refused() -> None:
    class Broken(Features):
        def select(self, positions: list[int]) -> "Features":
            return Features(self.values)

    with pytest.raises(
        InvalidInputError, match="a part of 3 examples must have that length; Broken gave one of length 12"
    ):
        take(Broken(VALUES), POSITIONS)


@pytest.mark.parametrize(
    ("examples", "sentence"),
    [
        ("some text", "got str. Give a list of texts"),
        (b"bytes", "got bytes"),
        ({"x": VALUES}, "got dict. Give a data frame, as pandas.DataFrame"),
        ({1.0, 2.0}, "got set. Its order changes"),
        (sparse.csr_matrix(VALUES[:, None]), "got csr_matrix"),
        (iter(VALUES), "got .*iterator"),
    ],
)
def test_what_is_no_sequence_of_examples(examples: Any, sentence: str) -> None:
    with pytest.raises(InvalidInputError, match=sentence):
        evaluate(lambda config, part: {"error": np.zeros(len(part))}, examples, [{"t": 1}])


@pytest.mark.parametrize("n_jobs", [1, 2])
def test_a_function_that_writes_into_an_array_is_told_so_with_any_number_of_workers(n_jobs: int) -> None:
    def writes(config: dict[str, Any], part: Any) -> dict[str, Any]:
        part += config["t"]
        return {"error": part > 2}

    examples = VALUES.copy()
    with pytest.raises(rf.EvaluationError, match=r"read-only.*write into a copy"):
        evaluate(writes, examples, [{"t": 1}, {"t": 2}], n_jobs=n_jobs)
    assert np.array_equal(examples, VALUES)


@pytest.mark.parametrize("n_jobs", [1, 2])
def test_a_function_that_adds_a_column_adds_it_to_a_copy(n_jobs: int) -> None:
    def adds(config: dict[str, Any], part: Any) -> dict[str, Any]:
        known = "score" in part.columns
        part["score"] = part["x"] + config["t"]
        return {"error": np.full(len(part), known)}

    frame = pd.DataFrame({"x": VALUES})
    table = evaluate(adds, frame, [{"t": i} for i in range(4)], n_jobs=n_jobs)
    assert not table.losses("error").any()
    assert list(frame.columns) == ["x"]
    assert guarded(frame).equals(frame)
