"""Settings for all tests."""

import os

# tests run in several processes (pytest-xdist): threads of the libraries under them only get in each other's way
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
os.environ.setdefault("OMP_NUM_THREADS", "1")

import faulthandler
import importlib.util
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from _pytest.faulthandler import fault_handler_stderr_fd_key

# servers of tests are on this machine: nobody is asked the way to them
for _name in ("no_proxy", "NO_PROXY"):
    os.environ[_name] = ",".join(filter(None, [os.environ.get(_name), "127.0.0.1", "localhost"]))

HERE = Path(__file__).parent
#: folders and files of tests -> the module without which none of their tests can run, where they can be imported without it
NEEDS = {
    "transformers": "transformers",
    "data/stores": "zarr",
    "running": "zarr",
    "reporting/test_plots.py": "matplotlib",
    "search/test_guided.py": "optuna",
    "search/test_region.py": "optuna",
    "search/test_strategies.py": "optuna",
}
#: what `make quick` leaves to `make test`: long simulations, real servers and browsers, the site, whole benchmarks
SLOW = (
    "benchmarks",
    "docs",
    "faults",
    "monte_carlo",
    "mutants",
    "validity",
    "experiment/paper",
    "test_examples.py",
    "test_release.py",
)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--quick", action="store_true", help="what a contributor runs after every edit: no long simulations"
    )


def _below(path: Path, names: Any) -> str | None:
    """Which of these folders or files a test file is, or lies in."""
    place = path.relative_to(HERE).as_posix() if path.is_relative_to(HERE) else ""
    return next((name for name in names if place == name or place.startswith(f"{name}/")), None)


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Do not import what is slow, or what needs an extra that is not installed. Only `make quick` goes without extras."""
    if not config.getoption("--quick"):
        return None
    needs = NEEDS.get(_below(collection_path, NEEDS) or "")
    missing = needs is not None and importlib.util.find_spec(needs) is None
    return True if missing or _below(collection_path, SLOW) else None


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if config.getoption("--quick"):
        long = {item for item in items if item.get_closest_marker("monte_carlo") or item.get_closest_marker("slow")}
        config.hook.pytest_deselected(items=list(long))
        items[:] = [item for item in items if item not in long]


def _is_missing_extra(error: BaseException | None) -> bool:
    """Whether this is about a module that the base install does not bring."""
    from riskfront.errors import MissingExtraError

    if not isinstance(error, ImportError):
        return False
    return isinstance(error, MissingExtraError) or (error.name or "").split(".")[0] not in ("riskfront", "tests")


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(collector: pytest.Collector) -> Iterator[None]:
    """With `--quick`, a file of tests that imports what is not installed is skipped, and says which."""
    report: Any = yield
    failed = report.call.excinfo
    cause = None if failed is None else failed.value.__cause__
    if collector.config.getoption("--quick") and _is_missing_extra(cause):
        report.outcome, report.longrepr = "skipped", (str(collector.path), 0, f"Skipped: {cause}")
    return report


def _skip_without_extra(item: pytest.Item, error: ImportError) -> None:
    """With `--quick`, a test that asks for an extra that is not installed is skipped, and says which."""
    if item.config.getoption("--quick") and _is_missing_extra(error):
        pytest.skip(str(error))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_setup(item: pytest.Item) -> Iterator[None]:
    try:
        return (yield)
    except ImportError as error:
        _skip_without_extra(item, error)
        raise


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Iterator[None]:
    try:
        return (yield)
    except ImportError as error:
        _skip_without_extra(item, error)
        raise


@pytest.hookimpl(trylast=True)
def pytest_exception_interact(node: Any) -> None:
    """pytest stops its own watch here; what hangs after a failure, a server that does not end, must not hang for ever."""
    if node.config.getini("faulthandler_timeout"):
        faulthandler.dump_traceback_later(120, exit=True, file=node.config.stash[fault_handler_stderr_fd_key])


@pytest.fixture(autouse=True)
def new_examples() -> Iterator[None]:
    """No test pays for what another one asked of the same examples."""
    from riskfront._calibration.certificates.uses_of_test_set import ASKED

    before, ASKED._uses = ASKED._uses, []
    yield
    ASKED._uses = before
