"""Arrays come back as they were written, of any shape, or not at all."""

from pathlib import Path

import numpy as np
import pytest

from riskfront._support.checked_json import DamagedError

pytest.importorskip("safetensors")
from riskfront._support.sealed_tensors import load_sealed, save_sealed


def test_arrays_of_any_shape_come_back(tmp_path: Path) -> None:
    arrays = {
        "number": np.array(3),
        "empty": np.zeros((0, 4), dtype=np.uint8),
        "turned": np.arange(6.0).reshape(2, 3).T,
        "mask": np.array([True, False]),
    }
    save_sealed(arrays, tmp_path / "a.safetensors", {"seed": "3"})
    found, about = load_sealed(tmp_path / "a.safetensors")
    assert about == {"seed": "3"}
    assert found.keys() == arrays.keys()
    for name, array in arrays.items():
        assert found[name].dtype == array.dtype
        assert found[name].shape == array.shape
        np.testing.assert_array_equal(found[name], array)


def test_files_of_others_are_damage(tmp_path: Path) -> None:
    from safetensors.numpy import save_file

    save_file({"a": np.arange(3)}, tmp_path / "a.safetensors")
    with pytest.raises(DamagedError, match="digest"):
        load_sealed(tmp_path / "a.safetensors")
    (tmp_path / "a.safetensors").write_bytes(b"no")
    with pytest.raises(DamagedError, match="no safetensors file"):
        load_sealed(tmp_path / "a.safetensors")
