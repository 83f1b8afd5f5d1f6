"""Bad input is refused in one sentence that says what must hold, what was found and where."""

import numpy as np
import pandas as pd
import pytest

import riskfront as rf
from riskfront._data.columns import loss_arrays
from riskfront._data.configs import as_settings
from riskfront._data.groups import as_groups
from riskfront._support.values import known
from riskfront.errors import InvalidInputError

ONE = [{"t": 0.1}, {"t": 0.2}]
GOOD = np.zeros((2, 3))
NO_BOUNDS = [(1, 0), (0, 0), (0, np.inf), (np.nan, 1), 3, (1, 2, 3), ("a", "b")]


def nan_at(value: float) -> np.ndarray:
    array = np.zeros((2, 3))
    array[1, 2] = value
    return array


LOSSES = {
    "infinity": ({"e": nan_at(np.inf)}, "must be finite; got inf for setting 1, example 2"),
    "ragged rows": ({"e": [[0, 1, 0], [0, 1]]}, "its rows differ in length"),
    "wrong number of settings": ({"e": np.zeros((3, 3))}, r"shape \(2, n_examples\).*got \(3, 3\)"),
    "losses of different sizes": ({"e": GOOD, "c": np.zeros((2, 4))}, r"shape \(2, 3\).*got \(2, 4\)"),
    "one dimension": ({"e": np.zeros(3)}, r"got \(3,\)"),
    "no examples": ({"e": np.zeros((2, 0))}, "at least one example"),
    "no losses": ({}, "at least one loss"),
    "a data frame": (pd.DataFrame({"e": [0, 1]}), "losses must be a dictionary"),
    "text": ({"e": [["a", "b", "c"], ["d", "e", "f"]]}, "must hold numbers; got 'a'"),
    "text among objects": ({"e": np.array([[0, 1, "x"], [0, 0, 0]], dtype=object)}, "must hold numbers; got 'x'"),
    "complex": ({"e": np.zeros((2, 3), dtype=complex)}, "must hold numbers"),
    "a nameless loss": ({3: GOOD}, "names of losses must be texts; got 3"),
}
CONFIGS = {
    "no settings": ([], "at least one setting"),
    "settings without values": ([{}, {}], "at least one value"),
    "repeated settings": ([{"t": 1}, {"t": 1}], "settings 0 and 1 are both"),
    "different keys": ([{"t": 1}, {"u": 1}], "same keys; setting 0 has .*'t'.*setting 1 has .*'u'"),
    "not a dictionary": ([{"t": 1}, 3], "must be a dictionary; got int at position 1"),
    "a list as a value": ([{"t": 1}, {"t": [1]}], r"got \[1\] for 't' in setting 1"),
    "a missing value": ([{"t": 1.0}, {"t": np.nan}], "got nan for 't' in setting 1"),
    "an infinite value": ([{"t": 1.0}, {"t": np.inf}], "must be finite.*got inf for 't' in setting 1"),
}
BOUNDS = {
    "a loss above them": ({"e": nan_at(1.5)}, (0, 1), r"declared bounds \(0, 1\); got 1\.5 for setting 1, example 2"),
    "a whole number below them": ({"e": nan_at(-1).astype(int)}, (0, 1), "got -1 for setting 1, example 2"),
    "another loss's": ({"error": GOOD}, (0, 1), r"no loss 'e'; known: 'error'"),
    **{f"bounds {bad}": ({"e": GOOD}, bad, "bounds of 'e' must be") for bad in NO_BOUNDS},
}
GROUPS = {
    "another number of examples": ({"y": [0, 1]}, r"one value for each of 3 examples; got shape \(2,\)"),
    "an example without a number": ({"y": [0.0, np.nan, 1.0]}, "example 1 has none"),
    "an example without a text": ({"y": np.array(["a", None, "b"], dtype=object)}, "example 1 has none"),
    "the name of a loss": ({"e": [0, 1, 1]}, "'e' as a loss and as a group"),
}
REFUSED = (
    {name: ((ONE, losses), {}, message) for name, (losses, message) in LOSSES.items()}
    | {name: ((configs, {"e": GOOD[: len(configs)]}), {}, message) for name, (configs, message) in CONFIGS.items()}
    | {name: ((ONE, losses), {"bounds": {"e": bad}}, message) for name, (losses, bad, message) in BOUNDS.items()}
    | {name: ((ONE, {"e": GOOD}), {"groups": groups}, message) for name, (groups, message) in GROUPS.items()}
)


@pytest.mark.parametrize("case", REFUSED)
def test_refusals(case: str) -> None:
    given, options, message = REFUSED[case]
    with pytest.raises(InvalidInputError, match=message) as caught:
        rf.LossTable(*given, **options)
    assert "\n" not in str(caught.value)


def test_groups_are_plain_values() -> None:
    levels = as_groups("day", np.array(["2020-01-02", "2020-01-01"], dtype="M8[D]"), 2).levels
    assert levels == ("2020-01-01", "2020-01-02")  # dates can be written to a certificate
    assert as_groups("y", np.array([2, 1, 2]), 3).codes.tolist() == [1, 0, 1]
    assert all(type(level) is int for level in as_groups("y", np.array([2, 1]), 2).levels)


def test_settings_from_a_data_frame() -> None:
    frame = as_settings(pd.DataFrame({"a": [1, 2], 7: ["x", "y"]}, index=[5, 5]))
    assert list(frame.columns) == ["a", "7"]
    assert frame.index.tolist() == [0, 1]
    with pytest.raises(InvalidInputError, match=r"names must differ"):
        as_settings(pd.DataFrame([[1, 2], [3, 4]], columns=["a", "a"]))


def test_binary_losses_take_one_byte() -> None:
    for given in (np.eye(2, 3, dtype=int), np.eye(2, 3, dtype=np.uint8), np.eye(2, 3, dtype=bool)):
        arrays = loss_arrays({"e": given}, 2, {}).values
        assert arrays["e"].dtype == np.bool_
        assert arrays["e"].astype(int).tolist() == np.eye(2, 3, dtype=int).tolist()
        assert not arrays["e"].flags.writeable
    arrays = loss_arrays({"e": np.array([[-1, 0, 1]])}, 1, {"e": (-1, 1)}).values
    assert arrays["e"].dtype == np.int8
    arrays = loss_arrays({"e": np.array([[0, 1, 1]])}, 1, {"e": (0, 5)}).values
    assert arrays["e"].dtype == np.int8  # a count that may reach 5 is not a 0/1 loss


def test_unknown_names_get_a_hint() -> None:
    assert known("error", ["error", "cost"], "loss") == "error"
    with pytest.raises(
        rf.InvalidInputError, match=r"^there is no loss 'eror'; known: 'error', 'cost'\. Did you mean 'error'\?$"
    ):
        known("eror", ["error", "cost"], "loss")
    with pytest.raises(rf.InvalidInputError, match=r"^there is no group 'x'; known: none\.$"):
        known("x", [], "group")
