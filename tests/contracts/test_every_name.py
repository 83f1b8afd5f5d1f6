"""Every registered p-value and method goes from a table to words: certificate, diagnosis, near misses, verification, docs."""

from pathlib import Path

import numpy as np
import pytest

import riskfront as rf
from riskfront._reporting.terminal import make_console, show_certificate
from riskfront.methods import METHODS, make_method
from riskfront.statistics._p_values import NAMES, P_VALUES
from tests.support.tables import random_table

DOCS = Path(__file__).parents[2] / "docs"
#: an ordered knob must be declared, and needs settings of one knob
DECLARED = {"ordered-knob": {"safest": {"a": "low"}}}
WHOLE = random_table(0, shape=(6, 1), n=900)


def shown(certificate: rf.Certificate, capsys: pytest.CaptureFixture[str]) -> str:
    """What the terminal says, in one line."""
    show_certificate(make_console(), certificate)
    return " ".join(capsys.readouterr().out.split())


@pytest.mark.parametrize("name", NAMES)
def test_p_value_from_a_table_to_words(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    loose, strict = (rf.Problem([rf.Limit("error", at_most=a, p_value=name)], ["cost"]) for a in (0.15, 0.012))
    certified = rf.calibrate(WHOLE, loose, seed=0)
    assert certified
    assert rf.verify(certified, WHOLE) == []
    assert set(certified.measured["test"]) <= set(P_VALUES)
    assert "error" in shown(certified, capsys)
    few = WHOLE.subset(np.arange(150))
    nothing = rf.calibrate(few, strict, seed=0)
    assert not nothing
    assert nothing.diagnosis["message"]
    assert rf.verify(nothing, few) == []
    assert "othing" in shown(nothing, capsys)


@pytest.mark.parametrize("name", METHODS)
def test_method_from_a_table_to_words(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    problem = rf.Problem([rf.Limit("error", at_most=0.15)], ["cost"])
    found = rf.calibrate(WHOLE, problem, method=make_method(name, **DECLARED.get(name, {})), seed=0)
    assert found
    assert found.method == name
    assert rf.verify(found, WHOLE) == []
    said = shown(found, capsys)
    assert "method of your own" not in said.lower()


def test_every_name_is_documented() -> None:
    p_values, methods = ((DOCS / f"methods/{page}.md").read_text(encoding="utf-8") for page in ("p-values", "methods"))
    assert [name for name in NAMES if name not in p_values] == []
    assert [name for name in METHODS if name not in methods] == []
