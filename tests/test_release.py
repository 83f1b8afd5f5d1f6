"""What a release says of itself in several places is the same in all of them."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import riskfront as rf
from tests import release

ROOT = Path(__file__).parents[1]


def text(name: str) -> str:
    path = ROOT / name
    if not path.exists():
        pytest.skip(f"{name} is not part of an installed package")
    return path.read_text(encoding="utf-8")


def test_version_and_date() -> None:
    newest = re.search(r"^## (\S+) \((\d{4}-\d\d-\d\d)\)$", text("CHANGELOG.md"), re.MULTILINE)
    assert newest is not None, "the newest version has no date"
    assert newest[1] == rf.__version__
    citation = text("CITATION.cff")
    assert f"\nversion: {rf.__version__}\n" in citation
    assert f"\ndate-released: {newest[2]}\n" in citation


def test_stated_pythons_are_tried_by_the_release_check() -> None:
    stated = re.findall(r"Python :: 3\.(\d+)", text("pyproject.toml"))
    assert stated
    assert set(map(int, stated)) <= set(release.SUPPORTED)


def test_pythons_are_what_they_are_called() -> None:
    found = release.pythons()
    assert set(found) <= {f"3.{minor}" for minor in release.SUPPORTED}
    for version, path in found.items():
        assert version in release.run(path, "--version")


@pytest.mark.parametrize("name", ["bug", "guarantee", "question"])
def test_issue_templates_are_forms(name: str) -> None:
    yaml = pytest.importorskip("yaml")
    form = yaml.safe_load(text(f".github/ISSUE_TEMPLATE/{name}.yml"))
    assert form["name"]
    assert form["description"]
    asked = [part["id"] for part in form["body"] if part["type"] != "markdown"]
    assert len(asked) == len(set(asked)) > 0
