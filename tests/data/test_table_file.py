"""Saved tables: everything comes back, nothing is half-written."""

import numpy as np
import pytest

import riskfront as rf


def table():
    rng = np.random.default_rng(0)
    return rf.LossTable(
        [
            {"name": name, "level": level, "flag": flag}
            for name in ("a", "b")
            for level in (0.5, 1.0)
            for flag in (True, False)
        ],
        {
            "error": rng.random((8, 37)) < 0.2,
            "drop": rng.integers(-1, 2, (8, 37)),
            "cost": rng.random((8, 37), dtype=np.float32),
            "time": 100 * rng.random((8, 37)),
        },
        groups={"label": rng.choice(["x", "y"], 37), "fold": rng.integers(0, 3, 37)},
        bounds={"drop": (-1, 1)},
    )


def test_round_trip(tmp_path):
    before = table()
    before.save(tmp_path / "t.parquet")
    after = rf.LossTable.load(tmp_path / "t.parquet")
    assert after.sha256 == before.sha256
    assert after.configs.equals(before.configs)
    assert after.is_binary("error")
    assert after.bounds("drop") == (-1, 1)
    for name in before.loss_names:
        np.testing.assert_array_equal(after.losses(name), before.losses(name))
        assert after.losses(name).dtype == before.losses(name).dtype
    assert after.group("label").levels == ("x", "y")


def test_a_part_is_saved_as_a_table_of_its_own(tmp_path):
    part = table().subset([5, 3, 3])
    part.save(tmp_path / "t.parquet")
    after = rf.LossTable.load(tmp_path / "t.parquet")
    np.testing.assert_array_equal(after.losses("cost"), table().losses("cost")[:, [5, 3, 3]])
    assert after.group("fold").codes.tolist() == part.group("fold").codes.tolist()


def test_refused_files(tmp_path):
    """tests/faults/test_bit_flips.py turns bits of a table around."""
    path = tmp_path / "t.parquet"
    table().save(path)
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
    table().configs.to_parquet(tmp_path / "other.parquet")
    for name, kind, words in (
        ("t.parquet", rf.StoreError, "damaged"),
        ("absent.parquet", rf.StoreError, "no such file"),
        ("other.parquet", rf.InvalidInputError, "saved by riskfront"),
    ):
        with pytest.raises(kind, match=words):
            rf.LossTable.load(tmp_path / name)
