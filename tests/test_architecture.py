"""The shape of the package: public names, what an import loads, and which module may import which."""

import json
import subprocess
import sys
from pathlib import Path

import riskfront as rf

HEAVY = ("torch", "matplotlib", "altair", "optuna", "sklearn", "zarr", "smac", "transformers", "typer", "jinja2")
SOURCE = Path(rf.__file__).parent
NAMES = {
    "AlphaConstrained",
    "AlphaDeltaConstrained",
    "BonferroniTesting",
    "Certificate",
    "ConstrainedPath",
    "Fallback",
    "HolmTesting",
    "InvalidInputError",
    "Limit",
    "LossTable",
    "LowRiskPath",
    "MissingExtraError",
    "NotCertifiedError",
    "Objective",
    "ParetoTesting",
    "Problem",
    "RiskfrontError",
    "SGT",
    "SplitFST",
    "StoreError",
    "__version__",
    "calibrate",
    "certify",
    "experiment",
    "frontier",
    "verify",
}


def test_exported_names() -> None:
    """Later parts may add names; none of these may go."""
    assert set(rf.__all__) >= NAMES
    assert len(set(rf.__all__)) == len(rf.__all__)
    assert all(hasattr(rf, name) for name in rf.__all__)


def test_import_is_light() -> None:
    code = "import sys, json, riskfront; print(json.dumps(sorted(m.split('.')[0] for m in sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = set(json.loads(done.stdout))
    assert loaded.isdisjoint(HEAVY)
    assert "riskfront" in loaded


def test_layers() -> None:
    """The contract in pyproject.toml: imports go downwards only."""
    root = Path(__file__).parents[1]
    tool = Path(sys.executable).with_name("lint-imports")
    done = subprocess.run([str(tool), "--no-cache"], cwd=root, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


def test_errors_are_also_builtins() -> None:
    kinds = {
        rf.InvalidInputError: ValueError,
        rf.NotCertifiedError: LookupError,
        rf.MissingExtraError: ImportError,
        rf.StoreError: OSError,
    }
    for error, builtin in kinds.items():
        assert issubclass(error, rf.RiskfrontError)
        assert issubclass(error, builtin)
    assert "pip install 'riskfront[plots]'" in str(rf.MissingExtraError("matplotlib", "plots"))


def test_no_assert_and_no_pickle_in_the_package() -> None:
    for path in SOURCE.rglob("*.py"):
        text = path.read_text(encoding="utf-8")
        assert "import pickle" not in text, path
        assert not any(line.lstrip().startswith("assert ") for line in text.splitlines()), path


def test_types_are_shipped() -> None:
    assert (SOURCE / "py.typed").exists()
