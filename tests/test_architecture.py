"""The shape of the package: public names, what an import loads, and which module may import which."""

import importlib
import json
import re
import statistics
import subprocess
import sys
from pathlib import Path

import pytest

import riskfront as rf

HEAVY = ("torch", "matplotlib", "altair", "optuna", "sklearn", "zarr", "smac", "transformers", "typer", "jinja2")
SOURCE = Path(rf.__file__).parent
ROOT = Path(__file__).parents[1]
NAMES = {
    "Cascade",
    "LearntConfidence",
    "LeftOutWarning",
    "Policy",
    "Router",
    "SpentExamplesError",
    "check",
    "forecast",
    "plan_sample",
    "read_runs",
    "read_wide",
    "AlphaConstrained",
    "Choice",
    "EvaluationError",
    "Float",
    "Int",
    "LossStore",
    "NotCertifiedWarning",
    "RiskControlledClassifier",
    "RiskControlledEstimator",
    "Space",
    "evaluate",
    "plots",
    "read_table",
    "tune",
    "write_report",
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
    assert set(dir(rf)) >= set(rf.__all__)
    assert len(set(rf.__all__)) == len(rf.__all__)
    assert all(hasattr(rf, name) for name in rf.__all__)


def test_names_that_are_loaded_later_are_known_to_type_checkers() -> None:
    """And to the reference, which reads the source and runs nothing."""
    source = (SOURCE / "__init__.py").read_text(encoding="utf-8")
    seen = source.split("if TYPE_CHECKING:")[1].split("__all__")[0]
    named = {name.strip() for names in re.findall(r"import (.+)", seen) for name in names.split(",")}
    assert named == set(rf._LATER)


# module path -> names that people import from it
DOORS = {
    "riskfront.experiment": ["run", "summarize"],
    "riskfront.plots": ["plot_tradeoff", "plot_path", "plot_violations", "plot_violins", "tradeoff_data"],
    "riskfront.methods": ["METHODS", "ParetoTesting", "SplitFST", "make_method"],
    "riskfront.search": ["STRATEGIES", "Search", "make_search", "GuidedSearch", "OptunaSearch"],
    "riskfront.estimators": ["RiskControlledClassifier", "RiskControlledEstimator"],
    "riskfront.transformers": ["AdaptiveClassifier", "PruningTrace", "accelerate"],
    "riskfront.errors": ["RiskfrontError", "InvalidInputError", "NotCertifiedError"],
}


@pytest.mark.parametrize("door", DOORS)
def test_public_module_paths_stay(door: str) -> None:
    module = importlib.import_module(door)
    assert [name for name in DOORS[door] if not hasattr(module, name)] == []


def test_module_paths_in_the_readme_exist() -> None:
    named = set(re.findall(r"(?:from|import) (riskfront(?:\.\w+)*)", (ROOT / "README.md").read_text(encoding="utf-8")))
    assert named
    for path in named:
        importlib.import_module(path)


def test_every_file_of_the_walks_exists() -> None:
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    named = re.findall(r"`((?:src|tests|docs)/[^`]+)`", text)
    assert len(named) > 30
    assert [name for name in named if not (ROOT / name).exists()] == []
    walks = text.split("## Four walks")[1].split("## Rules")[0]
    assert max(int(number) for number in re.findall(r"^(\d+)\.", walks, re.MULTILINE)) <= 12


def test_the_tree_reads_as_the_method() -> None:
    """Few files at the top, about a dozen in a room, each room explains itself, no file grows past what fits in the head."""
    assert len(list(SOURCE.glob("*.py"))) <= 8
    for package in [path for path in SOURCE.rglob("*") if path.is_dir() and list(path.glob("*.py"))]:
        text = (package / "__init__.py").read_text(encoding="utf-8")
        assert text.startswith('"""'), package
        assert len(list(package.glob("*.py"))) <= 16, package
    lengths = {path: path.read_text(encoding="utf-8").count("\n") for path in SOURCE.rglob("*.py")}
    assert {path for path, length in lengths.items() if length > 320} == set()
    assert statistics.median(lengths.values()) < 150


def test_import_is_light() -> None:
    code = "import sys, json, riskfront; print(json.dumps(sorted(m.split('.')[0] for m in sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = set(json.loads(done.stdout))
    assert loaded.isdisjoint(HEAVY)
    assert "riskfront" in loaded


def test_layers() -> None:
    """The contract in pyproject.toml: imports go downwards only."""
    tool = Path(sys.executable).with_name("lint-imports")
    done = subprocess.run([str(tool), "--no-cache"], cwd=ROOT, capture_output=True, text=True)
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
