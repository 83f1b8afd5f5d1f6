"""The shape of the package: public names, what an import loads, and which module may import which."""

import ast
import importlib
import json
import re
import sys
from pathlib import Path

import pytest

import riskfront as rf
from tests.support.processes import finished, output

HEAVY = ("torch", "matplotlib", "altair", "optuna", "sklearn", "zarr", "smac", "transformers", "typer", "jinja2")
SOURCE = Path(rf.__file__).parent
ROOT = Path(__file__).parents[1]
NAMES = {
    "Cascade",
    "LearntConfidence",
    "LearntGain",
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
    "RiskControlledIntervals",
    "RiskControlledMultiLabel",
    "Sequential",
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
    assert len(set(rf.__all__)) == len(rf.__all__)
    assert all(hasattr(rf, name) for name in rf.__all__)


def test_only_public_names_are_shown() -> None:
    assert dir(rf) == sorted(rf.__all__)


def test_names_that_are_loaded_later_are_known_to_type_checkers() -> None:
    """And to the reference, which reads the source and runs nothing."""
    source = (SOURCE / "__init__.py").read_text(encoding="utf-8")
    seen = source.split("if TYPE_CHECKING:")[1].split("__all__")[0]
    seen = re.sub(r"\(([^)]*)\)", lambda found: " ".join(found[1].split()).rstrip(","), seen)
    named = {name.strip() for names in re.findall(r"import (.+)", seen) for name in names.split(",")}
    assert named == set(rf._LATER) | {"experiment", "plots"}
    assert {getattr(rf, name).__name__ for name in rf._ROOMS} == {f"riskfront.{name}" for name in rf._ROOMS}


# module path -> names that people import from it
DOORS = {
    "riskfront.experiment": ["run", "summarize"],
    "riskfront.plots": ["plot_tradeoff", "plot_path", "plot_violations", "plot_violins", "tradeoff_data"],
    "riskfront.methods": ["METHODS", "ParetoTesting", "SplitFST", "make_method"],
    "riskfront.search": ["STRATEGIES", "Search", "make_search", "GuidedSearch", "OptunaSearch"],
    "riskfront.estimators": [
        "RiskControlledClassifier",
        "RiskControlledEstimator",
        "RiskControlledIntervals",
        "RiskControlledMultiLabel",
    ],
    "riskfront.transformers": ["AdaptiveClassifier", "PruningTrace", "accelerate"],
    "riskfront.statistics": ["Bonferroni", "FixedSequence", "Graphical", "Holm", "betting", "binomial"],
    "riskfront.testing": ["check_method", "check_p_value", "check_procedure", "check_search"],
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


def modules() -> dict[str, Path]:
    """Every module of the package by its dotted name, without the package itself."""
    paths = {path for path in SOURCE.rglob("*.py") if path != SOURCE / "__init__.py"}
    places = {path: path.relative_to(SOURCE).with_suffix("").parts for path in paths}
    return {".".join(["riskfront", *(p for p in place if p != "__init__")]): path for path, place in places.items()}


def test_few_packages_at_the_top_each_explains_itself() -> None:
    """A newcomer sees the method in the top of the tree."""
    packages = [path.parent for path in SOURCE.rglob("__init__.py") if path.parent != SOURCE]
    assert len([package for package in packages if package.parent == SOURCE]) <= 16
    assert len(list(SOURCE.glob("*.py"))) <= 6
    for package in packages:
        assert (package / "__init__.py").read_text(encoding="utf-8").startswith('"""'), package


def test_what_is_not_documented_is_private() -> None:
    """A module that people may import has a name in the reference; every other one is private or in a private package."""
    pages = "".join(page.read_text(encoding="utf-8") for page in (ROOT / "docs/api").glob("*.md"))
    named = re.findall(r"^::: (riskfront[\w.]+)", pages, re.MULTILINE)
    assert not [path for path in named if "._" in path]
    documented = {path.rsplit(".", 1)[0] for path in named}
    for name in rf.__all__:  # documented under riskfront itself, and defined in one of its modules
        documented.add(getattr(getattr(rf, name), "__module__", "").split("._")[0])
    public = {name for name in modules() if "._" not in name}
    assert public - documented == set()


def test_public_modules_export_what_is_documented() -> None:
    """Every name that a public module exports is in the reference, under the module or under riskfront itself."""
    pages = "".join(page.read_text(encoding="utf-8") for page in (ROOT / "docs/api").glob("*.md"))
    named = set(re.findall(r"^::: riskfront\.([\w.]+)$", pages, re.MULTILINE))
    for module, path in modules().items():
        exported = (
            [] if "._" in module else re.search(r"(?s)^__all__ = (\[.*?\])", path.read_text("utf-8"), re.MULTILINE)
        )
        for name in ast.literal_eval(exported[1]) if exported else ():
            assert name.isupper() or {name, f"{module.removeprefix('riskfront.')}.{name}"} & named, f"{module}.{name}"
    assert set(rf.__all__) - named == {"__version__", "experiment", "plots"}


def test_files_that_docstrings_and_comments_name_exist() -> None:
    files = [path.as_posix() for room in ("src", "tests", "benchmarks") for path in (ROOT / room).rglob("*.py")]
    for path in SOURCE.rglob("*.py"):
        for name in re.findall(r"``([\w/]+/\w+\.py)``", path.read_text(encoding="utf-8")):
            assert any(file.endswith(f"/{name}") for file in files), f"{path}: {name}"


def test_no_module_repeats_the_name_of_its_package() -> None:
    repeated = [name for name in modules() if len({part.strip("_") for part in name.split(".")[-2:]}) == 1]
    assert repeated == []


@pytest.mark.slow
def test_every_module_says_in_one_sentence_what_it_holds() -> None:
    """A file holds one idea, whatever its length: its docstring begins with one line that names it."""
    vague = {"utils", "helpers", "manager", "misc", "common", "base", "core"}
    for name, path in modules().items():
        first = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or ""
        assert first.splitlines()[:1] != [""], name
        assert first, f"{name} has no docstring"
        assert name.rsplit(".", 1)[-1].strip("_") not in vague, name


#: code -> libraries that it must not load before it needs them: processes start often (commands, workers)
STARTS = {
    "import riskfront": ("numpy", "pandas", "scipy", "pyarrow", "joblib", *HEAVY),
    "from riskfront import evaluate, tune, calibrate, LossStore": ("scipy.stats", "scipy.optimize", "rich", *HEAVY),
    "import riskfront._cli": ("numpy", "pandas", "scipy", "rich", *(name for name in HEAVY if name != "typer")),
}


@pytest.mark.slow
@pytest.mark.parametrize("code", STARTS)
def test_a_start_loads_only_what_it_needs(code: str) -> None:
    program = f"{code}; import sys, json; print(json.dumps(sorted(sys.modules)))"
    loaded = json.loads(output([sys.executable, "-c", program]))
    assert "riskfront" in loaded
    assert [name for name in STARTS[code] if name in loaded] == []


@pytest.mark.slow
def test_no_test_waits_for_ever() -> None:
    """A process or a server that does not answer fails its test in a sentence; it must not stop all the others."""
    for path in sorted(ROOT.glob("tests/**/*.py")):
        if path.name not in ("release.py", "processes.py"):
            for call in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
                if isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute):
                    name, place = ast.unparse(call.func), f"{path.relative_to(ROOT)}:{call.lineno}"
                    waits = name.endswith((".communicate", ".urlopen", ".create_connection"))
                    waits |= name.startswith("subprocess.") or (name.endswith(".join") and not call.args)
                    bounded = any(word.arg == "timeout" for word in call.keywords)
                    assert bounded or not waits, f"{place}: {name} needs a timeout (tests.support.processes has one)"


@pytest.mark.slow
def test_layers() -> None:
    """The contract in pyproject.toml: imports go downwards only."""
    tool = Path(sys.executable).with_name("lint-imports")
    done = finished([tool, "--no-cache"], cwd=ROOT)
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


def test_package_docstrings_name_modules_that_exist() -> None:
    """What stands in double backquotes in the docstring of a private package is one of its modules, functions or classes."""
    for path in SOURCE.rglob("_*/__init__.py"):
        said = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or ""
        known = {name.stem for name in path.parent.iterdir()}
        code = "".join(file.read_text(encoding="utf-8") for file in path.parent.rglob("*.py"))
        names = set(re.findall(r"``([a-z_]+)``", said)) - known
        assert [name for name in names if not re.search(rf"\bdef {name}\b", code)] == [], path
