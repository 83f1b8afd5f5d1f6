"""Certificates of the first version, written down by it, are still verified: with its stakes, its plans and its one arm."""

import tarfile
from pathlib import Path

import numpy as np
import pytest

import riskfront as rf

OLD = Path(__file__).parent / "old_certificates"


def table() -> rf.LossTable:
    """What the certificates were made of. No random generator, so that it is the same in every version of numpy."""
    i, j = np.arange(12)[:, None], np.arange(500)[None, :]
    u = ((i * 37 + j * j * 11 + j * 101) % 997) / 997
    regret = np.where(u < 0.5, 0.02 * (i + 1) * u, 0.01)
    losses = {"regret": regret, "error": u < 0.01 * (i + 1), "cost": 1 - 0.05 * i - 0.01 * u}
    return rf.LossTable([{"t": int(k)} for k in range(12)], losses)


@pytest.mark.parametrize("name", ["betting", "binomial"])
def test_old_certificates_are_verified(name: str) -> None:
    old = rf.Certificate.load(OLD / f"{name}.json")
    assert rf.verify(old, table()) == []
    assert old.problem.stakes == "fixed"
    assert set(old.tested["arm"]) == {"path"}


@pytest.fixture
def written(tmp_path: Path) -> Path:
    """A saved table, a store of evaluate and a store of tune, with the certificates that version 0.1.0 made of them."""
    with tarfile.open(Path(__file__).parent / "written_by_0_1_0.tar.gz") as archive:
        archive.extractall(tmp_path, filter="data")
    return tmp_path


@pytest.mark.parametrize(
    ("name", "data"), [("table", "table.parquet"), ("evaluated", "evaluated.zarr"), ("tuned", "tuned.zarr")]
)
def test_tables_and_stores_of_the_first_version_are_read_and_verified(name: str, data: str, written: Path) -> None:
    certificate = rf.Certificate.load(written / f"{name}.json")
    assert certificate.version == "0.1.0"
    assert certificate.config["t"] == 5
    assert rf.verify(certificate, written / data) == []
    shown = certificate.to_dict()
    assert rf.Certificate.from_dict(shown).to_dict() == shown


def test_parts_that_the_first_version_certified_on_are_verified(written: Path) -> None:
    opt, test = rf.LossTable.load(written / "table.parquet").split(0.4, seed=5, by_contents=False)
    assert rf.verify(rf.Certificate.load(written / "parts.json"), (opt, test)) == []


def test_old_stores_and_tables_are_calibrated_on_now(written: Path) -> None:
    problem = rf.Certificate.load(written / "table.json").problem
    problem = rf.Problem(problem.limits, ["cost"])
    for data in ("table.parquet", "evaluated.zarr"):
        certificate = rf.calibrate(written / data, problem)
        assert certificate
        assert rf.verify(certificate, written / data) == []
    with pytest.raises(rf.InvalidInputError, match="must not be calibrated on"):
        rf.calibrate(written / "tuned.zarr/opt", problem)


def test_what_is_made_now_differs() -> None:
    """Or the test above would say nothing: the same question has another answer now."""
    old = rf.Certificate.load(OLD / "betting.json")
    now = rf.calibrate(table(), rf.Problem(old.problem.limits, ["cost"]), seed=1)
    assert now.parameters != old.parameters
    both = old.tested.merge(now.tested, on="t")
    assert not np.allclose(both["p_value_x"], both["p_value_y"])
