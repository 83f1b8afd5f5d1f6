"""Commands for people who have a model: tune, evaluate, demo."""

from __future__ import annotations

import importlib.util
import json
import sys
from dataclasses import dataclass
from importlib.machinery import SourceFileLoader
from pathlib import Path
from types import CodeType, ModuleType
from typing import Annotated, Any, cast

import cloudpickle
import typer

import riskfront as rf
from riskfront._cli import options
from riskfront._cli.output import deliver, say
from riskfront._data.identity.fingerprints import Repeats
from riskfront._reporting.terminal import make_console
from riskfront._running.evaluation.outcome import said
from riskfront.errors import InvalidInputError, StoreError

TaskFile = Annotated[
    str,
    typer.Argument(
        help="A Python file that defines losses, examples and space, and optionally groups and bounds. "
        "task.py:NAME when the function is called NAME instead of losses."
    ),
]
SpaceFile = Annotated[Path | None, typer.Option("--space", help="TOML file of a space, instead of the task's own.")]
BoundsOption = Annotated[list[str], typer.Option("--bounds", help="Range of an outcome, as 'gain=-1,1'.")]
Jobs = Annotated[int, typer.Option("--n-jobs", help="Settings evaluated at a time.")]
SkipErrors = Annotated[
    bool,
    typer.Option(
        "--skip-errors",
        help="Go on where losses fails; an example on which it fails counts as the worst outcome of its setting.",
    ),
]
_BLIND = ("random", "grid")  # strategies that never look at a loss


@options.grouped
def tune(
    task: TaskFile,
    wanted: options.ProblemOptions,
    search: Annotated[str, typer.Option(help="guided, optuna, parego, random or grid.")] = "guided",
    search_option: Annotated[
        list[str],
        typer.Option(
            "--search-option",
            help="An option of the search, as 'sampler=tpe'. Several machines search together with "
            "'storage=sqlite:///study.db' (or a PostgreSQL URL) and 'study_name=run'.",
        ),
    ] = [],  # noqa: B006 - Typer's way to say that an option may be repeated or left out
    budget: Annotated[
        int | None,
        typer.Option(
            help="Settings to evaluate while searching; by default 200, or all of a small space that is quick."
        ),
    ] = None,
    method: options.PlanningMethodName = "pareto-testing",
    p_value: options.PValue = "auto",
    seed: options.Seed = 0,
    n_jobs: Jobs = 1,
    batch_size: Annotated[
        int | None,
        typer.Option(min=1, help="Settings that the search proposes at a time; by default --n-jobs. A store keeps it."),
    ] = None,
    store: Annotated[
        str, typer.Option(help="Folder or URL of a store; the same command later goes on where it was.")
    ] = "",
    space: SpaceFile = None,
    bounds: BoundsOption = [],  # noqa: B006
    skip_errors: SkipErrors = False,
    again: Annotated[
        bool, typer.Option("--again", help="Ask testing examples that were used before; the deltas of all uses add up.")
    ] = False,
    repeats: options.RepeatsOption = "refuse",
    adaptive: Annotated[
        bool,
        typer.Option("--adaptive", help="Evaluate only what matters: race on planning examples, stop tests early."),
    ] = False,
    price: Annotated[str, typer.Option(help="With --adaptive: the loss that is the price of an evaluation.")] = "",
    out: options.Out = None,
    report: Annotated[Path | None, typer.Option(help="HTML page to write.")] = None,
    as_json: options.Json = False,
) -> int:
    """Search settings of a model on planning examples, certify on testing examples."""
    given = _Task.load(task, space, bounds)
    options.must_be_writable(out, report, inputs=[given.path])
    problem = wanted.problem(p_value)
    certificate = rf.tune(
        given.losses,
        given.examples,
        given.space,
        problem,
        search=search,
        budget=budget,
        n_jobs=n_jobs,
        batch_size=batch_size,
        store=store or None,
        seed=seed,
        groups=given.groups,
        bounds=given.bounds,
        method=method,
        on_error="skip" if skip_errors else "raise",
        search_options=dict(_option(text) for text in search_option),
        again=again,
        repeats=cast(Repeats, repeats),
        progress=False if as_json else None,
        adaptive=adaptive,
        price=price or None,
    )
    return deliver(certificate, out, report, as_json)


def evaluate(
    task: TaskFile,
    store: Annotated[str, typer.Option("--store", "--out", help="Folder or URL of the store to fill.")],
    search: Annotated[str, typer.Option(help="random (quasi-random settings) or grid (a full grid).")] = "random",
    grid: Annotated[bool, typer.Option("--grid", help="The same as --search grid.")] = False,
    points: Annotated[int, typer.Option(min=1, help="Values of each numeric dimension of the grid.")] = 10,
    budget: Annotated[int, typer.Option(min=1, help="How many quasi-random settings.")] = 200,
    n_jobs: Jobs = 1,
    seed: options.Seed = 0,
    space: SpaceFile = None,
    bounds: BoundsOption = [],  # noqa: B006
    skip_errors: SkipErrors = False,
    repeats: options.RepeatsOption = "refuse",
) -> int:
    """Fill a store with the outcomes of many settings; then: riskfront calibrate STORE."""
    if search not in _BLIND:
        raise InvalidInputError(
            f"evaluate must choose its settings without a look at losses, by --search random or grid; got {search!r}. It runs "
            "all examples, also those that calibrate will test on. For a search that learns: riskfront tune."
        )
    given = _Task.load(task, space, bounds)
    table = rf.evaluate(
        given.losses,
        given.examples,
        given.space.grid(points) if grid or search == "grid" else _spread(given.space, budget, seed),
        store=store,
        n_jobs=n_jobs,
        groups=given.groups,
        bounds=given.bounds,
        on_error="skip" if skip_errors else "raise",
        repeats=cast(Repeats, repeats),
    )
    say(f"{table.n_configs:,} settings x {table.n_examples:,} examples in {store}")
    return 0


def demo(out_dir: Annotated[Path, typer.Option(help="Directory for the results.")] = Path("demo-output")) -> int:
    """A real cascade on real data, from training to a certificate, in under half a minute."""
    from riskfront._cli.demo import run_demo  # trains models with scikit-learn

    return run_demo(out_dir, make_console())


@dataclass(frozen=True, slots=True)
class _Task:
    """What the user's file defines, or options instead of it."""

    path: Path
    losses: Any
    examples: Any
    space: rf.Space
    groups: Any
    bounds: dict[str, tuple[float, float]]

    @classmethod
    def load(cls, text: str, space_file: Path | None, bounds: list[str]) -> _Task:
        name, colon, function = text.rpartition(":")
        path = Path(name if colon and function.isidentifier() else text)
        module = _load(path)
        losses = _needed(module, function if path.name != Path(text).name else "losses", path)
        examples = _needed(module, "examples", path)
        space = rf.Space.from_toml(space_file) if space_file is not None else _needed(module, "space", path)
        if not isinstance(space, rf.Space):
            raise InvalidInputError(f"space must be a Space; got {type(space).__name__}.")
        declared = {**(getattr(module, "bounds", None) or {}), **options.parse_bounds(bounds)}
        return cls(path, losses, examples, space, getattr(module, "groups", None), declared)


class _FromSource(SourceFileLoader):
    """Never runs remembered bytecode: Python takes it for current if the file changed within the same second and kept its size,
    and a task that changed would pass for the one its store belongs to."""

    def get_code(self, fullname: str) -> CodeType:
        return self.source_to_code(self.get_data(self.path), self.path)


def _load(path: Path) -> ModuleType:
    """The user's file as a module that travels to workers by value."""
    if not path.is_file():
        raise StoreError(f"cannot read the task '{path}': no such file.")
    name = f"riskfront_task_{path.stem}"
    specification = importlib.util.spec_from_file_location(name, path, loader=_FromSource(name, str(path)))
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


def _option(text: str) -> tuple[str, Any]:
    """A number or a truth value where it is one, a text otherwise."""
    name, equals, value = text.partition("=")
    if not equals or not name:
        raise InvalidInputError(f"--search-option must read like 'sampler=tpe'; got {text!r}.")
    try:
        return name, json.loads(value)
    except (ValueError, RecursionError):
        return name, value


def _spread(space: Any, budget: int, seed: int) -> list[dict[str, Any]]:
    from riskfront.search import make_search  # takes a while

    return make_search("random", space, objectives=["none"], seed=seed, budget=budget).ask(budget)
