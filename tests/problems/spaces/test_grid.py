"""Grids of settings."""

from collections.abc import Callable

import numpy as np
import pandas as pd
import pytest

from riskfront._problems.spaces.space import Grid
from riskfront.errors import InvalidInputError
from tests.support.tables import grid_configs


def shuffled(shape: tuple[int, ...]) -> pd.DataFrame:
    frame = pd.DataFrame(grid_configs(shape))
    return frame.sample(frac=1, random_state=0).reset_index(drop=True)


def test_every_cell_holds_its_setting() -> None:
    for shape in ((5,), (3, 4), (2, 3, 4), (2, 2, 2, 3)):
        frame = shuffled(shape)
        grid = Grid.of(frame)
        assert grid.rows.shape == shape
        for cell in np.ndindex(*shape):
            assert frame.iloc[grid.rows[cell]].tolist() == list(cell)


def test_constant_settings_are_no_axes() -> None:
    frame = shuffled((3, 2)).assign(model="bert")
    assert Grid.of(frame).axes == ("a", "b")
    assert Grid.of(pd.DataFrame({"a": [4]})).rows.shape == ()


def test_numbers_ascend_and_texts_keep_their_order() -> None:
    grid = Grid.of(pd.DataFrame({"size": ["small", "large", "huge"]}))
    assert grid.rows.tolist() == [0, 1, 2]
    assert Grid.of(pd.DataFrame({"t": [0.5, 0.1, 0.3]})).rows.tolist() == [1, 2, 0]


def test_corners_and_turning() -> None:
    grid = Grid.of(pd.DataFrame(grid_configs((3, 4))))
    assert grid.corners().tolist() == [[0, 3], [8, 11]]
    assert grid.starting_at((True, False)).rows[0, 0] == 8
    assert grid.starting_at(grid.declared_corner({"a": "high", "b": "high"})).rows[0, 0] == 11


def corner(**ends: str) -> Callable[[], object]:
    return lambda: Grid.of(pd.DataFrame(grid_configs((3, 4)))).declared_corner(ends)


REFUSED = {
    "a missing cell": (
        lambda: Grid.of(shuffled((3, 4)).iloc[1:]),
        "3 x 4 values of a, b make 12 combinations, but the table has 11 settings",
    ),
    "a corner of another axis": (corner(a="low", c="low"), "no axis of the grid 'c'"),
    "an end that is none": (corner(a="up", b="low"), "must be 'low' or 'high'; got 'up'"),
    "an axis without an end": (corner(a="low"), "'b' is missing"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_refusals(case: str) -> None:
    make, message = REFUSED[case]
    with pytest.raises(InvalidInputError, match=message):
        make()
