"""Options that several commands share, and what their texts mean."""

from __future__ import annotations

import functools
import inspect
import shlex
from collections.abc import Callable, Iterator, Sequence
from dataclasses import MISSING, Field, asdict, dataclass, field, fields, is_dataclass, replace
from pathlib import Path
from typing import Annotated, Any, get_type_hints

import typer

import riskfront as rf
from riskfront._cli.output import say
from riskfront._data.reading.column_roles import Layout
from riskfront._data.reading.sources import clustered, proxies_of, read_table, read_unlabelled
from riskfront._support import files
from riskfront._support.values import known
from riskfront.errors import InvalidInputError
from riskfront.methods import METHODS, Method, OrderedKnob, make_method
from riskfront.methods._plan import parameters
from riskfront.statistics._p_values import NAMES

TableFile = Annotated[
    str,
    typer.Argument(
        help="Outcomes: long Parquet or CSV (a row a setting and example), a saved table, or the folder or URL of a store."
    ),
]
Goals = Annotated[
    list[str],
    typer.Option(
        help="An outcome to make as good as possible, as 'cost' or 'cost given answered'; repeat, or use commas."
    ),
]
MethodName = Annotated[str, typer.Option(help=f"One of: {', '.join(METHODS)}.")]
PlanningMethodName = Annotated[
    str, typer.Option(help=f"One of: {', '.join(name for name, kind in METHODS.items() if kind().opt_fraction > 0)}.")
]
ChooseOption = Annotated[
    str,
    typer.Option(
        "--choose",
        help="Which of several chosen settings to use: the best in one objective, as 'answered', or the first that was "
        "measured to meet a condition, as 'answered >= 0.9'; several with commas between them.",
    ),
]
_DECLARABLE = [name for name, kind in METHODS.items() if "safest" in parameters(kind())]
Safest = Annotated[
    list[str],
    typer.Option(
        "--safest",
        help=f"The safest end of each knob, where you know it, as 'threshold=high'; for {', '.join(_DECLARABLE)}.",
    ),
]
PValue = Annotated[str, typer.Option("--p-value", help=f"One of: {', '.join(NAMES)}.")]
Together = Annotated[
    bool,
    typer.Option("--together", help="All limits hold together with one confidence: choose among them after looking."),
]
Unlabelled = Annotated[
    str,
    typer.Option(
        "--unlabelled",
        help="Outcomes of the same settings on examples without labels: the proxies of limits such as "
        "'error <= 0.05 proxy judge'.",
    ),
]
Seed = Annotated[int, typer.Option(help="Seed of everything that is drawn at random.")]
RepeatsOption = Annotated[
    str,
    typer.Option("--repeats", help="Copies of examples: refuse, keep-one (of each), or independent (drawn by chance)."),
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON for machines.")]
Out = Annotated[Path | None, typer.Option(help="File to write.")]
Prices = Annotated[
    str,
    typer.Option(
        help="What a call costs, where logs do not say: 'small=0.001, large=0.03', or a file with the columns model "
        "and per_call, per_million_input or per_million_output (tokens)."
    ),
]
SkipBroken = Annotated[
    bool, typer.Option("--skip-broken", help="Leave out, by name, logs that are damaged or that did not end.")
]
Latest = Annotated[
    bool, typer.Option("--latest", help="Of several logs of one run, take the latest answer to each example.")
]
LearntFrom = Annotated[
    list[str], typer.Option(help="A file of texts that the model learnt from before it came here; repeat.")
]
Again = Annotated[
    bool, typer.Option("--again", help="Fine-tune a model that is a classifier of these classes already.")
]
Bf16 = Annotated[
    bool,
    typer.Option("--bf16", help="Fine-tune in bfloat16: faster on GPUs and on processors with AMX or AVX-512 BF16."),
]
MaxLength = Annotated[int, typer.Option(help="Tokens of a text that are read.")]


@dataclass(frozen=True, slots=True)
class ProblemOptions:
    """What must hold, and what should be as good as possible."""

    limit: Annotated[
        list[str],
        typer.Option(
            "--limit",
            help="'error <= 0.05', 'error <= 0.15 per label', 'error <= 0.02 given answered', "
            "'cost / solved <= 0.02', 'error gap between country <= 0.05', 'worst 5 % of latency <= 300', "
            "'error <= 0.05 proxy judge'.",
        ),
    ]
    minimize: Goals = field(default_factory=list)
    maximize: Goals = field(default_factory=list)
    delta: Annotated[float, typer.Option(help="Share of runs that may certify a setting that breaks a limit.")] = 0.1
    weights: Annotated[
        str,
        typer.Option(
            "--weights", help="Column with the known weight of each example, and the largest possible: 'w <= 10'."
        ),
    ] = ""
    reference: Annotated[
        str, typer.Option("--reference", help="Setting that 'score drop <= 0.02' compares with: 'full', 'model=gpt-4'.")
    ] = ""

    def problem(self, p_value: str = "auto") -> rf.Problem:
        limits = [rf.Limit.parse(text, p_value=p_value, reference=self.reference or None) for text in self.limit]
        if self.reference and all(limit.drop_from is None for limit in limits):
            raise InvalidInputError(
                f"--reference is what a limit such as 'score drop <= 0.02' compares with; no limit here does. "
                f"Limits: {', '.join(map(str, limits))}."
            )
        return rf.Problem(
            limits,
            [rf.Objective.parse(name) for text in self.minimize for name in parse_names(text)],
            [rf.Objective.parse(name) for text in self.maximize for name in parse_names(text)],
            delta=self.delta,
            weights=self.weights or None,
        )


@dataclass(frozen=True, slots=True)
class LayoutOptions:
    """What the columns of a long table mean."""

    config_columns: Annotated[
        str, typer.Option("--config-columns", help="Columns of the settings, separated by commas.")
    ] = ""
    example_column: Annotated[
        str, typer.Option("--example-column", help="Column that names the examples, or several: subset,sample.")
    ] = ""
    group_columns: Annotated[str, typer.Option("--group-columns", help="Columns with a group of each example.")] = ""

    def layout(self) -> Layout:
        configs, groups = parse_names(self.config_columns), parse_names(self.group_columns)
        return Layout(tuple(configs), self.example_column or None, tuple(groups))


@dataclass(frozen=True, slots=True)
class TableOptions(LayoutOptions):
    """What the columns mean, and what kinds of losses they hold."""

    bounds: Annotated[list[str], typer.Option("--bounds", help="Range of an outcome, as 'gain=-1,1'.")] = field(
        default_factory=list
    )
    binary: Annotated[str, typer.Option(help="Outcome columns to declare 0/1 although stored as decimals.")] = ""
    where: Annotated[
        list[str], typer.Option("--where", help="Rows that count: 'task == mbpp', 'bits <= 8', 'task in a, b'.")
    ] = field(default_factory=list)
    wide: Annotated[bool, typer.Option("--wide", help="One row an example and one column a setting.")] = False
    settings: Annotated[
        str,
        typer.Option("--settings", help="File with a row a setting, for a wide table; its numbers may be objectives."),
    ] = ""

    clusters: Annotated[
        str,
        typer.Option(
            "--clusters", help="Column that says which rows belong together, as patient; they are averaged to one."
        ),
    ] = ""

    def as_for(self, claimed: rf.Certificate) -> TableOptions:
        """What was given when a certificate was made, unless something else is given now."""
        was = claimed.source or {}
        return TableOptions(**{name: now or was.get(name, now) for name, now in asdict(self).items()})

    def layout(self) -> Layout:
        named = LayoutOptions.layout(self)
        return replace(named, group_columns=(*named.group_columns, *([self.clusters] if self.clusters else [])))

    def declared_bounds(self) -> dict[str, tuple[float, float]]:
        return parse_bounds(self.bounds)

    def read(self, path: str, problem: rf.Problem | None, *, quiet: bool) -> rf.LossTable:
        """The table, with a statement of what was detected."""
        bounds, binary, layout = self.declared_bounds(), parse_names(self.binary), self.layout()
        found: Layout | None
        if self.wide:
            if self.config_columns:
                raise InvalidInputError("a wide table has one column a setting; --config-columns is for long tables.")
            table, found = rf.read_wide(
                path,
                problem,
                example_column=self.example_column or None,
                settings=self.settings or None,
                group_columns=layout.group_columns,
                bounds=bounds,
                binary=binary,
                where=self.where,
            )
        else:
            if self.settings:
                raise InvalidInputError("--settings describes the columns of a wide table; add --wide.")
            table, found = read_table(path, problem, layout=layout, bounds=bounds, binary=binary, where=self.where)
        if not quiet:
            _say_what_was_read(path, table, found, problem)
        return clustered(table, self.clusters, problem) if self.clusters else table

    def read_unlabelled(
        self, path: str, problem: rf.Problem, table: rf.LossTable, *, quiet: bool
    ) -> rf.LossTable | None:
        """Examples without labels, in the settings of the labelled table; None where no file is named."""
        if not path:
            return None
        if self.wide:
            raise InvalidInputError(
                "unlabelled examples must come as a long table; --wide is for tables of one outcome."
            )
        wanted = proxies_of(problem)
        binary = [name for name in parse_names(self.binary) if name in wanted.losses]
        named = replace(LayoutOptions.layout(self), group_columns=())
        found = read_unlabelled(path, problem, table, named, binary=binary, where=self.where)
        if not quiet:
            _say_what_was_read(path, found, None, None)
        return found if table.clusters is None else clustered(found, table.clusters, wanted)


def _say_what_was_read(path: str, table: rf.LossTable, found: Layout | None, problem: rf.Problem | None) -> None:
    say(f"{Path(path).name}: {table.n_configs:,} settings x {table.n_examples:,} examples", "dim")
    if found is not None:
        say(f"columns: {found}", "dim")
    for name in problem.losses if problem else ():
        if name in table.loss_names and not table.is_binary(name) and table.looks_binary(name):
            say(f"hint: can '{name}' only ever be 0 or 1? Then --binary {shlex.quote(name)} allows the exact test.")


@dataclass(frozen=True, slots=True)
class MethodOptions:
    """A method by its name, and what it must be told."""

    method: MethodName = "pareto-testing"
    safest: Safest = field(default_factory=list)
    start: Annotated[
        float | None,
        typer.Option(
            "--start", help="For ordered-knob: the value to begin at, where the safest end selects no example."
        ),
    ] = None

    def made(self) -> Method:
        method = make_methods([self.method], self.safest)[0]
        if self.start is None:
            return method
        if not isinstance(method, OrderedKnob):
            raise InvalidInputError(f"--start is for ordered-knob; got it with {self.method}.")
        return replace(method, start=self.start)


def make_methods(names: Sequence[str], safest: Sequence[str]) -> list[Method]:
    """Methods by name; those that can be told the safest ends of the knobs are."""
    ends: dict[str, str] = {}
    for text in (part for texts in safest for part in parse_names(texts)):
        knob, sign, end = (piece.strip() for piece in text.rpartition("="))
        if not sign or not knob or end not in ("low", "high"):
            raise InvalidInputError(f"--safest must read like 'threshold=high' or 'threshold=low'; got {text!r}.")
        if knob in ends:
            raise InvalidInputError(f"--safest must name each knob once; got '{knob}' twice.")
        ends[knob] = end
    told = [name for name in names if known(name, METHODS, "method") in _DECLARABLE]
    if ends and not told:
        raise InvalidInputError(f"--safest is for {', '.join(_DECLARABLE)}; got it with {', '.join(names)}.")
    return [make_method(name, safest=ends) if ends and name in told else make_method(name) for name in names]


def parse_bounds(texts: list[str]) -> dict[str, tuple[float, float]]:
    found = {}
    for text in texts:
        name, _, pair = text.rpartition("=")
        low, _, high = pair.partition(",")
        if not name:
            raise InvalidInputError(f"bounds must read like 'gain=-1,1'; got {text!r}.")
        found[name] = (parse_number(low, "--bounds"), parse_number(high, "--bounds"))
    return found


def parse_number(text: str, option: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise InvalidInputError(f"{option} must hold numbers; got {text!r}.") from None


def parse_numbers(text: str, option: str) -> list[float]:
    return [parse_number(part, option) for part in parse_names(text)]


def parse_names(text: str) -> list[str]:
    return [name.strip() for name in text.split(",") if name.strip()]


def must_be_writable(*paths: Path | None, inputs: Sequence[str | Path] = ()) -> None:
    """Say before the work, not after it, that a result could not be written, or would overwrite an input."""
    outputs = [path for path in paths if path is not None]
    for path in outputs:
        files.check_writable(path)
    taken = [Path(path).resolve() for path in (*inputs, *outputs)]
    for path in outputs:
        if taken.count(path.resolve()) > 1:
            raise InvalidInputError(
                f"every output must be a file of its own; '{path}' is an input or another output too."
            )


def grouped(command: Callable[..., int]) -> Callable[..., int]:
    """The command as Typer should see it: each parameter that is a dataclass stands for its fields."""
    hints = get_type_hints(command, include_extras=True)
    groups: dict[str, Any] = {name: kind for name, kind in hints.items() if is_dataclass(kind)}

    @functools.wraps(command)
    def flat(**given: Any) -> int:
        made = {
            name: kind(**{part.name: given.pop(part.name) for part in fields(kind)}) for name, kind in groups.items()
        }
        return command(**given, **made)

    options = [
        option
        for name, parameter in inspect.signature(command).parameters.items()
        for option in (_options(groups[name]) if name in groups else [_option(name, hints[name], parameter.default)])
    ]
    flat.__signature__ = inspect.Signature(options)  # type: ignore[attr-defined]
    flat.__annotations__ = {option.name: option.annotation for option in options}
    return flat


def _options(group: Any) -> Iterator[inspect.Parameter]:
    hints = get_type_hints(group, include_extras=True)
    return (_option(part.name, hints[part.name], _default(part)) for part in fields(group))


def _option(name: str, kind: Any, default: Any) -> inspect.Parameter:
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=kind)


def _default(part: Field[Any]) -> Any:
    if part.default_factory is not MISSING:
        return part.default_factory()
    return inspect.Parameter.empty if part.default is MISSING else part.default
