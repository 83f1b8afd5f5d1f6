"""Commands for people who have a model: tune, evaluate, demo."""

from __future__ import annotations

import importlib.util
import shlex
import sys
from pathlib import Path
from types import ModuleType
from typing import Annotated, Any

import cloudpickle
import typer

import riskfront as rf
from riskfront.cli.options import (
    Delta,
    Goals,
    Json,
    Limits,
    MethodName,
    Out,
    PValue,
    Seed,
    must_be_writable,
    parse_problem,
    show,
)
from riskfront.errors import InvalidInputError, StoreError
from riskfront.outcome import said
from riskfront.terminal import make_console

TaskFile = Annotated[
    Path,
    typer.Argument(help="A Python file that defines losses, examples and space, and optionally groups and bounds."),
]
Jobs = Annotated[int, typer.Option("--n-jobs", help="Settings evaluated at a time.")]
StoreOption = Annotated[
    str, typer.Option(help="Folder or URL of a store; the same command later goes on where it was.")
]


def tune(
    task: TaskFile,
    limit: Limits,
    minimize: Goals = [],  # noqa: B006
    maximize: Goals = [],  # noqa: B006
    delta: Delta = 0.1,
    search: Annotated[str, typer.Option(help="grid, random, optuna, parego or guided.")] = "optuna",
    budget: Annotated[int, typer.Option(help="Settings to evaluate while searching.")] = 200,
    method: MethodName = "pareto-testing",
    p_value: PValue = "auto",
    seed: Seed = 0,
    n_jobs: Jobs = 1,
    store: StoreOption = "",
    out: Out = None,
    report: Annotated[Path | None, typer.Option(help="HTML page to write.")] = None,
    as_json: Json = False,
) -> int:
    """Search settings of a model on one part of its examples, certify on the other."""
    must_be_writable(out, report, inputs=[task])
    problem = parse_problem(limit, minimize, maximize, delta, p_value)
    module = _load(task)
    certificate = rf.tune(
        _needed(module, "losses", task),
        _needed(module, "examples", task),
        _needed(module, "space", task),
        problem,
        search=search,
        budget=budget,
        n_jobs=n_jobs,
        store=store or None,
        seed=seed,
        groups=getattr(module, "groups", None),
        bounds=getattr(module, "bounds", None),
        method=method,
        progress=False if as_json else None,
    )
    if out is not None:
        certificate.save(out)
    if report is not None:
        rf.write_report(certificate, report, command=shlex.join(["riskfront", *sys.argv[1:]]))
    show(certificate, as_json, written=[path for path in (out, report) if path is not None])
    return 0 if certificate and certificate.guaranteed else 1


def evaluate(
    task: TaskFile,
    store: Annotated[str, typer.Option(help="Folder or URL of the store to fill.")],
    grid: Annotated[bool, typer.Option("--grid", help="Evaluate a full grid of the space.")] = False,
    points: Annotated[int, typer.Option(min=1, help="Values of each numeric dimension of the grid.")] = 10,
    budget: Annotated[int, typer.Option(min=1, help="Without --grid: how many quasi-random settings.")] = 200,
    n_jobs: Jobs = 1,
    seed: Seed = 0,
    skip_errors: Annotated[
        bool, typer.Option("--skip-errors", help="Leave out settings at which losses fails.")
    ] = False,
) -> int:
    """Fill a store with the losses of many settings; then: riskfront calibrate STORE."""
    module = _load(task)
    space = _needed(module, "space", task)
    if not isinstance(space, rf.Space):
        raise InvalidInputError(f"space must be a Space; got {type(space).__name__}.")
    configs = space.grid(points) if grid else _spread(space, budget, seed)
    table = rf.evaluate(
        _needed(module, "losses", task),
        _needed(module, "examples", task),
        configs,
        store=store,
        n_jobs=n_jobs,
        groups=getattr(module, "groups", None),
        bounds=getattr(module, "bounds", None),
        on_error="skip" if skip_errors else "raise",
    )
    make_console().print(f"{table.n_configs:,} settings x {table.n_examples:,} examples in {store}", markup=False)
    return 0


def demo(out_dir: Annotated[Path, typer.Option(help="Directory for the results.")] = Path("demo-output")) -> int:
    """A real cascade on real data, from training to a certificate, in under half a minute."""
    from riskfront.demo import run_demo  # trains models with scikit-learn

    return run_demo(out_dir, make_console())


def _load(path: Path) -> ModuleType:
    """The user's file as a module that travels to workers by value."""
    if not path.is_file():
        raise StoreError(f"cannot read the task '{path}': no such file.")
    specification = importlib.util.spec_from_file_location(f"riskfront_task_{path.stem}", path)
    if specification is None or specification.loader is None:
        raise InvalidInputError(f"a task must be a Python file; got '{path}'.")
    module = importlib.util.module_from_spec(specification)
    sys.modules[specification.name] = module
    folder = str(path.resolve().parent)
    if sys.path[0] != folder:
        sys.path.insert(0, folder)  # for good: functions may import what is next to them when they are called
    try:
        specification.loader.exec_module(module)
    except (Exception, SystemExit) as error:
        raise InvalidInputError(f"the task '{path}' must run without an error; got {said(error)}.") from error
    cloudpickle.register_pickle_by_value(module)
    return module


def _needed(module: ModuleType, name: str, path: Path) -> Any:
    if not hasattr(module, name):
        raise InvalidInputError(f"a task must define losses, examples and space; '{path}' defines no {name}.")
    return getattr(module, name)


def _spread(space: Any, budget: int, seed: int) -> list[dict[str, Any]]:
    from riskfront.search import make_search

    return make_search("random", space, objectives=["none"], seed=seed, budget=budget).ask(budget)
