"""The command line: one small function a command. Exit status 0 certified, 1 nothing certified, 2 bad input."""

from __future__ import annotations

import json
import shlex
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer

import riskfront as rf
from riskfront import files
from riskfront.errors import InvalidInputError, RiskfrontError
from riskfront.long_format import Layout, read_table
from riskfront.methods import METHODS
from riskfront.p_values import NAMES
from riskfront.terminal import make_console, show_certificate, show_frame, show_table

app = typer.Typer(
    help="Choose the settings of a machine-learning system with proof.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"max_content_width": 80},
)

TableFile = Annotated[
    Path, typer.Argument(help="Losses: long Parquet or CSV (a row a setting and example), or a saved table.")
]
Limits = Annotated[
    list[str],
    typer.Option("--limit", help="'error <= 0.05', 'error <= 0.15 per label', 'error <= 0.02 given answered'."),
]
Goals = Annotated[list[str], typer.Option(help="A free objective; repeat or separate by commas.")]
Delta = Annotated[float, typer.Option(help="Probability with which some limit may be broken.")]
MethodName = Annotated[str, typer.Option(help=f"One of: {', '.join(METHODS)}.")]
PValue = Annotated[str, typer.Option("--p-value", help=f"One of: {', '.join(NAMES)}.")]
Seed = Annotated[int, typer.Option(help="Of the random split.")]
Configs = Annotated[str, typer.Option("--config-columns", help="Columns of the settings, separated by commas.")]
Example = Annotated[str, typer.Option("--example-column", help="Column that names the examples.")]
Groups = Annotated[str, typer.Option("--group-columns", help="Columns with a group of each example.")]
BoundsOption = Annotated[list[str], typer.Option("--bounds", help="Range of a loss, as 'gain=-1,1'.")]
Binary = Annotated[str, typer.Option(help="Loss columns to declare 0/1 although stored as decimals.")]
Json = Annotated[bool, typer.Option("--json", help="Print JSON for machines.")]
Out = Annotated[Path | None, typer.Option(help="File to write.")]


@app.command()
def calibrate(
    table: TableFile,
    limit: Limits,
    minimize: Goals = [],  # noqa: B006
    maximize: Goals = [],  # noqa: B006
    delta: Delta = 0.1,
    method: MethodName = "pareto-testing",
    p_value: PValue = "auto",
    seed: Seed = 0,
    config_columns: Configs = "",
    example_column: Example = "",
    group_columns: Groups = "",
    bounds: BoundsOption = [],  # noqa: B006
    binary: Binary = "",
    out: Out = None,
    report: Annotated[Path | None, typer.Option(help="HTML page to write.")] = None,
    as_json: Json = False,
) -> int:
    """Find a setting for which all limits hold together, with proof."""
    _must_be_writable(out, report)
    problem = _problem(limit, minimize, maximize, delta, p_value)
    losses = _read(
        table, problem, _layout(config_columns, example_column, group_columns), bounds, binary, quiet=as_json
    )
    certificate = replace(
        rf.calibrate(losses, problem, method=method, seed=seed),
        source={
            "config_columns": config_columns,
            "example_column": example_column,
            "group_columns": group_columns,
            "bounds": bounds,
            "binary": binary,
        },
    )
    if out is not None:
        certificate.save(out)
    if report is not None:
        rf.write_report(certificate, report, command=shlex.join(["riskfront", *sys.argv[1:]]))
    _show(certificate, as_json, written=[path for path in (out, report) if path is not None])
    return 0 if certificate else 1


@app.command()
def verify(
    certificate: Annotated[Path, typer.Argument(help="A certificate, as JSON.")],
    table: TableFile,
    config_columns: Configs = "",
    example_column: Example = "",
    group_columns: Groups = "",
    bounds: BoundsOption = [],  # noqa: B006
    binary: Binary = "",
    as_json: Json = False,
) -> int:
    """Recompute a certificate from the data and say whether it matches."""
    claimed = rf.Certificate.load(certificate)
    was = claimed.source or {}  # read the table as it was read then, unless told otherwise
    layout = _layout(
        config_columns or was.get("config_columns", ""),
        example_column or was.get("example_column", ""),
        group_columns or was.get("group_columns", ""),
    )
    losses = _read(
        table, claimed.problem, layout, bounds or was.get("bounds", []), binary or was.get("binary", ""), quiet=as_json
    )
    differences = rf.verify(claimed, losses)
    if as_json:
        print(json.dumps({"matches": not differences, "differences": differences}))
    elif differences:
        console = make_console()
        console.print(f"The certificate does NOT match the data: {len(differences)} difference(s).", style="bold red")
        for difference in differences[:10]:
            console.print(f"- {difference}", markup=False)
    else:
        make_console().print(
            "The certificate matches: recomputing it from the data gives the same result.", style="bold green"
        )
    return 1 if differences else 0


@app.command()
def inspect(
    file: Annotated[Path, typer.Argument(help="A certificate (JSON) or a table.")],
    config_columns: Configs = "",
    example_column: Example = "",
    group_columns: Groups = "",
    as_json: Json = False,
) -> int:
    """Show what is in a certificate or a table."""
    if file.suffix.lower() == ".json":
        _show(rf.Certificate.load(file), as_json)
        return 0
    losses = _read(file, None, _layout(config_columns, example_column, group_columns), [], "", quiet=as_json)
    if as_json:
        found = {"settings": losses.n_configs, "examples": losses.n_examples, "setting_columns": losses.config_names}
        print(json.dumps({**found, "losses": losses.loss_names, "groups": losses.group_names, "sha256": losses.sha256}))
    else:
        show_table(make_console(), losses)
    return 0


@app.command()
def trials(
    table: TableFile,
    limit: Limits,
    minimize: Goals = [],  # noqa: B006
    maximize: Goals = [],  # noqa: B006
    delta: Delta = 0.1,
    methods: Annotated[str, typer.Option(help="Methods, separated by commas.")] = ",".join(METHODS),
    p_values: Annotated[str, typer.Option("--p-values", help="p-values to compare, separated by commas.")] = "auto",
    alphas: Annotated[str, typer.Option(help="Numbers for the first limit, separated by commas.")] = "",
    trials: Annotated[int, typer.Option(min=1, help="Number of random splits.")] = 100,
    calibration: Annotated[float, typer.Option(help="Calibration examples: a number, or a share below 1.")] = 0.5,
    seed: Seed = 0,
    config_columns: Configs = "",
    example_column: Example = "",
    group_columns: Groups = "",
    bounds: BoundsOption = [],  # noqa: B006
    binary: Binary = "",
    out: Out = None,
    as_json: Json = False,
) -> int:
    """Calibrate on many random splits and see how each method does on the rest."""
    _must_be_writable(out)
    problem = _problem(limit, minimize, maximize, delta, "auto")
    losses = _read(
        table, problem, _layout(config_columns, example_column, group_columns), bounds, binary, quiet=as_json
    )
    results = rf.experiment.run(
        losses,
        problem,
        methods=_names(methods),
        p_values=_names(p_values),
        alphas=[_number(alpha, "--alphas") for alpha in _names(alphas)] or None,
        trials=trials,
        calibration=calibration if calibration < 1 else int(calibration),
        seed=seed,
    )
    if out is not None:
        with files.written_whole(out) as temporary:
            results.to_csv(temporary, index=False)
    summary = rf.experiment.summarize(results)
    if as_json:
        print(summary.to_json(orient="records"))
    else:
        names = [
            "method",
            "p_value",
            "alpha",
            *problem.limit_names,
            *(o.name for o in problem.objectives),
            "violated",
            "n_certified",
        ]
        shown = summary[list(dict.fromkeys(names))].dropna(axis=1, how="all")
        show_frame(make_console(), f"Means over {trials} random splits, on held-out data", shown)
    return 0


@app.command()
def frontier(
    table: TableFile,
    limit: Limits,
    alphas: Annotated[str, typer.Option(help="Numbers for the first limit, separated by commas.")],
    minimize: Goals = [],  # noqa: B006
    maximize: Goals = [],  # noqa: B006
    delta: Delta = 0.1,
    method: MethodName = "pareto-testing",
    p_value: PValue = "auto",
    seed: Seed = 0,
    config_columns: Configs = "",
    example_column: Example = "",
    group_columns: Groups = "",
    bounds: BoundsOption = [],  # noqa: B006
    binary: Binary = "",
    out: Out = None,
    as_json: Json = False,
) -> int:
    """The certified settings for a whole list of limits (each alpha by itself)."""
    _must_be_writable(out)
    problem = _problem(limit, minimize, maximize, delta, p_value)
    losses = _read(
        table, problem, _layout(config_columns, example_column, group_columns), bounds, binary, quiet=as_json
    )
    wanted = [_number(alpha, "--alphas") for alpha in _names(alphas)]
    found = rf.frontier(losses, problem, wanted, method=method, seed=seed)
    if out is not None:
        with files.written_whole(out) as temporary:
            found.to_csv(temporary, index=False)
    if as_json:
        print(found.to_json(orient="records"))
    else:
        show_frame(make_console(), "Calibrated frontier", found.drop(columns=["p_value", "level"], errors="ignore"))
    return 0 if (found["n_certified"] > 0).any() else 1


@app.command()
def report(
    certificate: Annotated[Path, typer.Argument(help="A certificate, as JSON.")],
    out: Annotated[Path, typer.Option(help="HTML page to write.")] = Path("report.html"),
) -> int:
    """Write the report page of a certificate."""
    _must_be_writable(out)
    rf.write_report(rf.Certificate.load(certificate), out)
    make_console().print(f"Wrote {out}", markup=False)
    return 0


@app.command()
def demo(
    out_dir: Annotated[Path, typer.Option(help="Directory for the certificate and the report.")] = Path("demo-output"),
) -> int:
    """A real cascade on real data, from training to a certificate, in under half a minute."""
    from riskfront.demo import run_demo  # trains models with scikit-learn

    return run_demo(out_dir, make_console())


def main(arguments: Sequence[str] | None = None) -> None:
    """Entry point: riskfront's own errors become one line on stderr and exit status 2."""
    try:
        status = app(args=None if arguments is None else list(arguments), standalone_mode=False)
    except RiskfrontError as error:
        _fail(str(error))
    except typer.Abort:
        _fail("stopped.", 130)
    except KeyboardInterrupt:
        _fail("stopped.", 130)
    except BrokenPipeError:
        sys.stderr.close()
        raise SystemExit(0) from None
    except Exception as error:
        if not hasattr(error, "format_message"):  # click's own errors know how to say what is wrong
            raise
        _fail(error.format_message())
    else:
        raise SystemExit(status or 0)


def _fail(message: str, status: int = 2) -> None:
    print(f"riskfront: {' '.join(message.split())}", file=sys.stderr)
    raise SystemExit(status)


def _problem(limits: list[str], minimize: list[str], maximize: list[str], delta: float, p_value: str) -> rf.Problem:
    parsed = [rf.Limit.parse(text, p_value=p_value) for text in limits]
    return rf.Problem(
        parsed, [n for text in minimize for n in _names(text)], [n for text in maximize for n in _names(text)], delta
    )


def _layout(configs: str, example: str, groups: str) -> Layout:
    return Layout(tuple(_names(configs)), example or None, tuple(_names(groups)))


def _read(path: Path, problem: Any, layout: Layout, bounds: list[str], binary: str, *, quiet: bool) -> rf.LossTable:
    """The table, with a statement of what was detected."""
    table, found = read_table(path, problem, layout, _bounds(bounds), _names(binary))
    if not quiet:
        console = make_console()
        console.print(
            f"{path.name}: {table.n_configs:,} settings x {table.n_examples:,} examples", markup=False, style="dim"
        )
        if found is not None:
            console.print(f"columns: {found}", markup=False, style="dim")
        for name in problem.losses if problem else ():
            if not table.is_binary(name) and table.looks_binary(name):
                console.print(
                    f"hint: can '{name}' only ever be 0 or 1? Then --binary {shlex.quote(name)} allows the exact test.",
                    markup=False,
                )
    return table


def _bounds(texts: list[str]) -> dict[str, tuple[float, float]]:
    found = {}
    for text in texts:
        name, _, pair = text.rpartition("=")
        low, _, high = pair.partition(",")
        if not name:
            raise InvalidInputError(f"bounds must read like 'gain=-1,1'; got {text!r}.")
        found[name] = (_number(low, "--bounds"), _number(high, "--bounds"))
    return found


def _number(text: str, option: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise InvalidInputError(f"{option} must hold numbers; got {text!r}.") from None


def _names(text: str) -> list[str]:
    return [name.strip() for name in text.split(",") if name.strip()]


def _must_be_writable(*paths: Path | None) -> None:
    """Say before the work, not after it, that a result could not be written."""
    for path in paths:
        if path is not None:
            files.check_writable(path)


def _show(certificate: rf.Certificate, as_json: bool, written: Sequence[Path] = ()) -> None:
    if as_json:
        print(json.dumps(certificate.to_dict(), allow_nan=False))
        return
    console = make_console()
    show_certificate(console, certificate)
    for path in written:
        console.print(f"Wrote {path}", markup=False, style="dim")
