import json
import pickle

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from riskfront._problems.spaces.space import Choice, Float, Int, Space, config_id
from riskfront.errors import InvalidInputError

MIXED = Space(exit=Float(0, 1), rate=Float(1e-4, 1e-1, log=True), depth=Int(1, 12), model=Choice(["small", "large"]))


def test_bounds_become_plain_python_numbers():
    assert Float(np.float32(0), np.int64(2)) == Float(0.0, 2.0)
    assert type(Float(0, 1).low) is float
    assert type(Int(np.int64(1), np.int32(4)).high) is int


def test_dict_and_toml_round_trips(tmp_path):
    assert Space.from_dict(json.loads(json.dumps(MIXED.to_dict()))) == MIXED
    file = tmp_path / "space.toml"
    file.write_text(
        "[space]\n"
        'exit = { type = "float", low = 0, high = 1 }\n'
        'rate = { type = "float", low = 1e-4, high = 1e-1, log = true }\n'
        'depth = { type = "int", low = 1, high = 12 }\n'
        'model = { type = "choice", options = ["small", "large"] }\n'
    )
    assert Space.from_toml(file) == MIXED
    assert hash(Space.from_toml(file)) == hash(MIXED)
    assert pickle.loads(pickle.dumps(MIXED)) == MIXED  # noqa: S301 - joblib sends spaces to workers this way


@pytest.mark.parametrize("content", ["[space", "other = 1", "space = 3", None])
def test_a_bad_toml_file_is_named(tmp_path, content):
    file = tmp_path / "space.toml"
    if content is not None:
        file.write_text(content)
    with pytest.raises(InvalidInputError, match=r"space\.toml"):
        Space.from_toml(file)
    assert (file.read_text() if file.exists() else None) == content


def test_names_need_not_be_identifiers():
    space = Space.from_dict({"layer 1/exit": Float(0, 1), "self": Int(0, 1)})
    assert space.check({"layer 1/exit": 1, "self": 0}) == {"layer 1/exit": 1.0, "self": 0}
    assert len(Space(self=Int(0, 1))) == 1


def test_grid():
    assert Space(x=Float(0, 1)).grid(3) == [{"x": 0.0}, {"x": 0.5}, {"x": 1.0}]
    assert Space(x=Float(0, 1)).grid(1) == [{"x": 0.5}]
    assert [c["x"] for c in Space(x=Float(1e-4, 1e-1, log=True)).grid(4)] == pytest.approx([1e-4, 1e-3, 1e-2, 1e-1])
    assert [c["n"] for c in Space(n=Int(1, 4)).grid(10)] == [1, 2, 3, 4]
    assert [c["n"] for c in Space(n=Int(1, 100, log=True)).grid(3)] == [1, 10, 100]
    assert len(MIXED.grid(5)) == 5 * 5 * 5 * 2
    assert len(MIXED.grid({"exit": 2, "rate": 3, "depth": 99})) == 2 * 3 * 12 * 2
    for config in MIXED.grid(7):
        assert MIXED.check(config) == config


def test_check_returns_the_spaces_own_types():
    space = Space(x=Float(0, 4), n=Int(0, 4), on=Choice([True, False]), k=Choice([1, 2, "none"]))
    config = space.check({"x": np.int64(1), "n": 1.0, "on": np.bool_(True), "k": np.float64(1.0)})
    assert config == {"x": 1.0, "n": 1, "on": True, "k": 1}
    assert [type(v) for v in config.values()] == [float, int, bool, int]
    with pytest.raises(InvalidInputError):
        space.check({"x": 1, "n": 1, "on": 1, "k": 1})


def test_size_and_numbering():
    space = Space(n=Int(2, 4), m=Choice(["a", "b"]))
    assert space.size == 6
    assert MIXED.size is None
    assert [space.at(i) for i in range(6)] == space.grid(9)
    with pytest.raises(InvalidInputError, match="finite"):
        MIXED.at(0)


@pytest.mark.slow
@given(st.lists(st.floats(0, 1), min_size=4, max_size=4))
def test_every_point_of_the_cube_is_a_setting_and_comes_back(u):
    config = MIXED.from_unit(u)
    assert MIXED.check(config) == config
    again = MIXED.from_unit(MIXED.to_unit(config))
    assert again == {**config, "exit": pytest.approx(config["exit"]), "rate": pytest.approx(config["rate"])}


@given(st.integers(1, 5), st.integers(2, 30), st.booleans())
def test_each_integer_owns_an_interval_of_the_cube(low, width, log):
    space = Space(n=Int(low, low + width, log=log))
    for n in range(low, low + width + 1):
        assert space.from_unit(space.to_unit({"n": n})) == {"n": n}


def test_config_id_is_stable():
    # Fixed for all time: stores on disk are keyed by it.
    assert config_id({"exit": 0.5, "depth": 4, "model": "small", "flag": True, "none": None}) == "512d35b41e3bc2ac"
    assert config_id({"a": 1, "b": 2}) == config_id({"b": 2, "a": 1})


def test_config_id_names_equal_numbers_once():
    ids = {config_id({"x": v}) for v in (1, 1.0, np.int64(1), np.float32(1), np.uint8(1))}
    assert len(ids) == 1
    assert config_id({"x": -0.0}) == config_id({"x": 0})
    different = [1, True, "1", None, 1.5, np.float32(0.1), 0.1, [1], False, 0]
    assert len({config_id({"x": v}) for v in different}) == len(different)
    assert config_id({"x": np.bool_(True)}) == config_id({"x": True})


GOOD = {"exit": 0.5, "rate": 1e-3, "depth": 3, "model": "small"}
NO_POINTS = (0, -1, 1.5, True, {"exit": 2}, {"exit": 2, "rate": 2, "depth": 2, "typo": 2})
OUTSIDE = ([0.5], [0, 0, 0, 1.1], [0, 0, 0, float("nan")])
NO_JSON = ({"x": float("nan")}, {"x": float("inf")}, {"x": object()}, {"x": {1: 2}}, [1])


def checked(**change):
    return lambda: MIXED.check(GOOD | change)


REFUSED = {
    "one number": (lambda: Float(1, 1), "low < high"),
    "the wrong way round": (lambda: Float(2, 1), "low < high"),
    "a logarithm of 0": (lambda: Float(0, 1, log=True), "low > 0"),
    "from nan": (lambda: Float(float("nan"), 1), "finite"),
    "to infinity": (lambda: Float(0, float("inf")), "finite"),
    "from a text": (lambda: Float("0", 1), "finite"),
    "from a truth value": (lambda: Float(True, 2), "finite"),
    "to a number without end": (lambda: Float(0, 10**400), "finite"),
    "wider than numbers go": (lambda: Float(-1e308, 1e308), "high - low to be a finite number"),
    "log as a text": (lambda: Float(1, 10, log="false"), "log of Float must be True or False; got 'false'"),
    "log as a number": (lambda: Int(1, 10, log=1), "log of Int must be True or False; got 1"),
    "one whole number": (lambda: Int(3, 3), r"Choice\(\[value\]\)"),
    "a logarithm of the whole number 0": (lambda: Int(0, 5, log=True), "low > 0"),
    "whole numbers from a half": (lambda: Int(0.5, 5), "whole"),
    "whole numbers beyond decimals": (lambda: Int(0, 2**60), r"2\*\*53"),
    "no choice": (lambda: Choice([]), "at least one"),
    "a choice from a text": (lambda: Choice("abc"), "list"),
    "one choice twice": (lambda: Choice(["a", "b", "a"]), "'a' twice"),
    "choices that are equal": (lambda: Choice([1, 1.0]), "differ"),
    "a truth value equal to a number": (lambda: Choice([1, True]), "differ"),
    "nan as a choice": (lambda: Choice([float("nan")]), "finite"),
    "a choice without end": (lambda: Choice([10**400]), "finite"),
    "a dictionary as a choice": (lambda: Choice([{"a": 1}]), "by a string"),
    "no dimension": (lambda: Space(), "at least one dimension"),
    "a number as a dimension": (lambda: Space(x=3), "Float, Int or Choice"),
    "an empty name": (lambda: Space.from_dict({"": Float(0, 1)}), "non-empty"),
    "a number as a name": (lambda: Space.from_dict({1: Float(0, 1)}), "non-empty"),
    "no type": (lambda: Space.from_dict({"x": {"low": 0, "high": 1}}), "type"),
    "no upper end": (lambda: Space.from_dict({"x": {"type": "float", "low": 0}}), "low, high"),
    "ends in a file the wrong way round": (
        lambda: Space.from_dict({"x": {"type": "float", "low": 2, "high": 1}}),
        "x: Float",
    ),
    "a setting above": (checked(exit=1.5), r"exit must be a number in \[0, 1\]; got 1.5"),
    "a setting of nan": (checked(exit=float("nan")), "exit"),
    "a setting as a text": (checked(exit="0.5"), "exit"),
    "a setting as a truth value": (checked(exit=True), "exit"),
    "half a layer": (checked(depth=2.5), "depth must be a whole number"),
    "a layer too many": (checked(depth=13), "depth"),
    "an unknown choice": (checked(model="medium"), "model must be one of"),
    "a list of choices": (checked(model=["small"]), "model"),
    "another key": (checked(other=1), "exactly the keys"),
    **{f"a grid of {points} points": (lambda n=points: MIXED.grid(n), "points") for points in NO_POINTS},
    **{f"the point {u} of the cube": (lambda u=u: MIXED.from_unit(u), "u must") for u in OUTSIDE},
    **{f"the setting {str(c)[:12]} in JSON": (lambda c=c: config_id(c), None) for c in NO_JSON},
}


@pytest.mark.parametrize("case", REFUSED)
def test_refusals(case):
    make, says = REFUSED[case]
    with pytest.raises(InvalidInputError, match=says):
        make()
