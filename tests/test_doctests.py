"""Every public name has an example in its docstring, and the examples are true."""

from __future__ import annotations

import doctest
import importlib
import inspect
from collections.abc import Iterator
from typing import Any

import pytest

import riskfront as rf
from tests.test_architecture import DOORS

FLAGS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
#: their examples would need a model, or are those of the functions that they are the parts of
WITHOUT = {"riskfront.transformers", "riskfront.search", "riskfront.statistics"}


def public() -> Iterator[tuple[str, Any]]:
    """Functions and classes that people call, by the name they import."""
    for name in rf.__all__:
        thing = getattr(rf, name)
        if callable(thing):
            yield name, thing
    for door in DOORS.keys() - WITHOUT - {"riskfront.errors"}:
        for name in DOORS[door]:
            thing = getattr(importlib.import_module(door), name)
            if callable(thing) and name not in rf.__all__ and not name.endswith("_data") and name != "make_method":
                yield f"{door}.{name}", thing


PUBLIC = dict(public())
SHOWN_ELSEWHERE = {  # results are shown by the functions that return them, pictures of ``experiment.run`` by the site
    "Check",
    "Runs",
    "SamplePlan",
    "riskfront.plots.plot_path",
    "riskfront.plots.plot_violations",
    "riskfront.plots.plot_violins",
}


@pytest.mark.parametrize("name", sorted(PUBLIC))
def test_has_an_example(name: str) -> None:
    thing = PUBLIC[name]
    about = inspect.getdoc(thing) or ""
    assert about, "no docstring"
    if not (inspect.isclass(thing) and issubclass(thing, Exception)) and name not in SHOWN_ELSEWHERE:
        assert ">>>" in about


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(name for name in PUBLIC if ">>>" in (inspect.getdoc(PUBLIC[name]) or "")))
def test_examples_are_true(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MPLBACKEND", "Agg")
    thing = PUBLIC[name]
    runner = doctest.DebugRunner(optionflags=FLAGS)
    for test in doctest.DocTestFinder(recurse=False).find(thing, name, module=inspect.getmodule(thing)):
        try:
            runner.run(test)
        except doctest.DocTestFailure as failure:
            pytest.fail(f"{failure.example.source}printed\n{failure.got}and not\n{failure.example.want}")
        except doctest.UnexpectedException as failure:
            raise failure.exc_info[1]  # noqa: B904  the error itself, such as that of a missing extra
    assert runner.tries > 0
