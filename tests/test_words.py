"""One vocabulary in everything that people read: docs/glossary.md says which."""

from __future__ import annotations

import contextlib
import inspect
import io
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import riskfront as rf
from riskfront import _cli as cli
from riskfront._cli import main
from tests.support import certificates

ROOT = Path(__file__).parents[1]
#: words of the paper, or of nobody, with the word to use instead
INSTEAD = {
    r"empirical": "measured",
    r"opt (data|examples?|part)": "planning examples",
    r"test (data|examples?)": "testing examples",
    r"n_perfect": "examples_if_perfect",
    r"margin": "none: what holds is the limit",
}


def found(text: str) -> list[str]:
    return [
        f"'{match[0]}': say {word}" for old, word in INSTEAD.items() for match in re.finditer(rf"(?i)\b{old}\b", text)
    ]


def public_docstrings() -> Iterator[tuple[str, str]]:
    things = {name: getattr(rf, name) for name in rf.__all__}
    for room in ("methods", "search", "statistics", "testing", "transformers"):
        with contextlib.suppress(rf.MissingExtraError):
            module = getattr(rf, room)
            things |= {f"{room}.{name}": getattr(module, name) for name in module.__all__}
    for name, thing in things.items():
        yield name, inspect.getdoc(thing) or ""
        for member, value in inspect.getmembers(thing) if inspect.isclass(thing) else ():
            if not member.startswith("_") and (inspect.isfunction(value) or isinstance(value, property)):
                yield f"{name}.{member}", inspect.getdoc(value) or ""


def test_public_docstrings() -> None:
    wrong = {name: found(text) for name, text in public_docstrings() if found(text)}
    assert wrong == {}


@pytest.mark.parametrize(
    "command", ["calibrate", "verify", "inspect", "trials", "frontier", "report", "plan", "tune", "evaluate", "demo"]
)
def test_help(command: str) -> None:
    out = io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.suppress(SystemExit):
        main([command, "--help"])
    assert "Usage" in out.getvalue()
    assert found(out.getvalue()) == []
    assert cli.__doc__


@pytest.mark.parametrize("name", certificates.NAMES)
def test_pages_notebooks_and_frames(name: str) -> None:
    of = certificates.certificate(name)
    page = re.sub(r"(?s)<style>.*?</style>|<script.*", "", certificates.page(name))
    notebook = re.sub(r'style="[^"]*"', "", of._repr_html_())
    for text in (page, notebook, of.verdict(), " ".join(of.tested), " ".join(of.measured), str(of.diagnosis)):
        assert found(text) == []
    if not of.guaranteed:
        for text in (page, notebook, of.verdict(), " ".join(of.tested)):
            assert not re.search(r"(?i)\bcertified\b", text)


def test_the_glossary_has_the_names_of_the_code() -> None:
    """Every name that stands in its columns exists, and every column of the measured values is explained."""
    text = (ROOT / "docs" / "glossary.md").read_text(encoding="utf-8")
    of = certificates.certificate("per")
    for attribute in set(re.findall(r"`certificate\.(\w+)", text)):
        assert hasattr(of, attribute), attribute
    for column in ("p_value", "tested_at", "compared_with", "test", "measured"):
        assert f"`{column}`" in text or f'["{column}"]' in text or f".{column}`" in text, column
        assert column in of.measured
    for attribute in ("n_opt", "n_test", "earlier_looks"):
        assert f"`{attribute}`" in text
        assert hasattr(of, attribute)
