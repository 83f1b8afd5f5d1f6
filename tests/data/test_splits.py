"""What shuffles a split: contents that say enough, or a draw that is recorded."""

from pathlib import Path

import numpy as np
import pytest

import riskfront as rf
from riskfront._data.splits import salt_by, shuffled_by

PROBLEM = rf.Problem("error <= 0.3", minimize="cost")


def sorted_table(n: int = 300) -> rf.LossTable:
    return rf.LossTable([{"a": 0}], {"error": (np.arange(n) < n // 10)[None], "cost": np.ones((1, n))})


def test_contents_shuffle_where_they_say_enough() -> None:
    assert shuffled_by(b"12345678", True) == "contents"
    assert salt_by("contents", b"12345678") == b"12345678"
    assert salt_by("positions", b"12345678") == b""
    first, second = shuffled_by(b"12345678", False), shuffled_by(None, True)
    assert first != second
    assert len(salt_by(first, b"")) == 16
    with pytest.raises(rf.InvalidInputError, match="split_by must be"):
        salt_by("moon", b"")


def test_a_drawn_split_is_in_the_certificate_and_recomputed(tmp_path: Path) -> None:
    table = sorted_table()
    certificate = rf.calibrate(table, PROBLEM)
    assert certificate.split_by.startswith("drawn ")
    certificate.save(tmp_path / "certificate.json")
    loaded = rf.Certificate.load(tmp_path / "certificate.json")
    assert loaded.split_by == certificate.split_by
    assert rf.verify(loaded, table) == []
    again = rf.calibrate(table, PROBLEM)
    assert again.split_by != certificate.split_by
    assert len(again.earlier_looks) == len(certificate.earlier_looks) + 1  # another split is another question


def test_a_table_with_contents_is_split_by_them() -> None:
    rng = np.random.default_rng(0)
    table = rf.LossTable([{"a": 0}], {"error": rng.random((1, 300)) < 0.1, "cost": np.ones((1, 300))})
    assert rf.calibrate(table, PROBLEM).split_by == "contents"
    shuffled = rf.LossTable([{"a": 0}], {"error": np.sort(table.losses("error")), "cost": rng.random((1, 300))})
    assert rf.calibrate(shuffled, PROBLEM).split_by == "contents"


def test_tune_goes_on_with_the_draw_of_its_store(tmp_path: Path) -> None:
    def losses(config: dict[str, float], examples: np.ndarray) -> dict[str, np.ndarray]:
        return {
            "error": np.asarray(examples) < 300 * config["level"],
            "cost": np.full(len(examples), 1 - config["level"]),
        }

    losses.fingerprint = "levels"  # type: ignore[attr-defined]
    space = rf.Space(level=rf.Choice([0.02, 0.05, 0.1]))
    options = {"search": "grid", "progress": False}
    first = rf.tune(losses, np.arange(300), space, PROBLEM, store=tmp_path / "run", **options)
    assert first.split_by.startswith("drawn ")
    again = rf.tune(losses, np.arange(300), space, PROBLEM, store=tmp_path / "run", **options)
    assert again.split_by == first.split_by
    assert again.config == first.config
    assert rf.verify(first, tmp_path / "run") == []
    elsewhere = rf.tune(losses, np.arange(300), space, PROBLEM, looks=tmp_path / "run", **options)
    assert elsewhere.split_by == first.split_by
    other = rf.tune(losses, np.arange(300), space, PROBLEM, store=tmp_path / "other", **options)
    assert other.split_by != first.split_by
