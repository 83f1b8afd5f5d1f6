"""One bit turned around at random places of each kind of file: found or harmless, never a changed result or a raw error.

25 places here, 100 in ``make faults``; without a digest 90 of 100 flips in a table were not noticed.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import riskfront as rf
from riskfront._data.stores.loss_store import LossStore
from tests.faults.bit_flips import KINDS, flip


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("name", KINDS)
def test_found_or_harmless(name: str, tmp_path: Path) -> None:
    result = flip(KINDS[name], tmp_path, places=25)
    assert result.survived, result
    assert result.found > 0


def test_sealed_files_are_files_for_others_too(tmp_path: Path) -> None:
    import pyarrow.parquet as pq

    KINDS["saved runs"].write(tmp_path)
    assert pq.read_table(tmp_path / "runs.parquet").num_rows == 120
    duckdb = pytest.importorskip("duckdb")
    assert duckdb.sql(f"select count(*) from '{tmp_path}/runs.parquet'").fetchall() == [(120,)]


@pytest.mark.parametrize("keep", [0, 1, 40, 500])
def test_markers_that_were_cut(tmp_path: Path, keep: int) -> None:
    """Fewer settings were certified from, and nothing said so."""
    KINDS["store of losses"].write(tmp_path)
    (markers,) = (tmp_path / "run.zarr" / "done").glob("*.jsonl")
    markers.write_bytes(markers.read_bytes()[:keep])
    with pytest.raises(rf.StoreError, match=r"must hold a line for each setting that was added; got \d of 9"):
        LossStore(tmp_path / "run.zarr")


def test_markers_do_not_lead_out_of_the_store(tmp_path: Path) -> None:
    """A marker may be made by somebody who knows how digests are computed."""
    from riskfront._data.stores.stored_rows import Loss, Marker

    KINDS["store of losses"].write(tmp_path)
    values = np.zeros(200, dtype=bool)
    for part, loss in (("parts/../../elsewhere", "error"), ("/etc", "error"), ("parts/" + "0" * 32, "..")):
        marker = Marker({"level": 1.0}, part, 0, {loss: Loss.of(values, 1), "cost": Loss.of(values, 1)})
        (tmp_path / "run.zarr" / "done" / "x.jsonl").write_bytes(marker.to_json() + b"\n")
        with pytest.raises(rf.StoreError, match="names no row of this store"):
            LossStore(tmp_path / "run.zarr")
