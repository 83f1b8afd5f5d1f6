"""Commands for people who have a table of outcomes: calibrate, verify, inspect, trials, frontier, report."""

from __future__ import annotations

import json
import shlex
import sys
from dataclasses import asdict, replace
from pathlib import Path
from typing import Annotated

import typer

import riskfront as rf
from riskfront.certificates.certificate import NEVER_GUARANTEED
from riskfront.certificates.choice import choose as choose_setting
from riskfront.certificates.looks import Look
from riskfront.cli.groups import grouped
from riskfront.cli.options import (
    ChooseOption,
    Json,
    LayoutOptions,
    MethodOptions,
    Out,
    ProblemOptions,
    PValue,
    Safest,
    Seed,
    TableFile,
    TableOptions,
    Together,
    Unlabelled,
    make_methods,
    must_be_writable,
    parse_names,
    parse_number,
    show,
)
from riskfront.errors import InvalidInputError
from riskfront.methods import BY_NAME
from riskfront.reading.sources import is_store, notes_of
from riskfront.reporting.sentences import frontier_words
from riskfront.reporting.terminal import make_console, show_frame, show_table
from riskfront.reporting.trial_table import trial_table, trial_words
from riskfront.runtime import files
from riskfront.verification.verification import differences


@grouped
def calibrate(
    table: TableFile,
    wanted: ProblemOptions,
    columns: TableOptions,
    by: MethodOptions,
    p_value: PValue = "auto",
    seed: Seed = 0,
    out: Out = None,
    report: Annotated[Path | None, typer.Option(help="HTML page to write.")] = None,
    alphas: Annotated[str, typer.Option(help="Other numbers for the first limit, for the frontier on the page.")] = "",
    together: Together = False,
    choose: ChooseOption = "",
    unlabelled: Unlabelled = "",
    as_json: Json = False,
) -> int:
    """Find a setting for which all limits hold together, with proof."""
    must_be_writable(out, report, inputs=[table, *([unlabelled] if unlabelled else [])])
    problem, method = wanted.problem(p_value), by.made()
    losses = columns.read(table, problem, quiet=as_json)
    others = columns.read_unlabelled(unlabelled, problem, losses, quiet=as_json)
    certificate = rf.calibrate(losses, problem, method=method, seed=seed, unlabelled=others)
    earlier = looks_with_replaced(certificate, out)
    certificate = replace(
        certificate, source=asdict(columns), notes=(*notes_of(table), *certificate.notes), earlier_looks=earlier
    )
    certificate = choose_setting(certificate, choose)
    if out is not None:
        certificate.save(out)
    if report is not None:
        numbers = [parse_number(alpha, "--alphas") for alpha in parse_names(alphas)]
        frontier = None
        if numbers:
            frontier = rf.frontier(
                losses, problem, numbers, method=method, seed=seed, simultaneous=together, unlabelled=others
            )
        rf.write_report(certificate, report, frontier=frontier, command=shlex.join(["riskfront", *sys.argv[1:]]))
    show(certificate, as_json, written=[path for path in (out, report) if path is not None])
    return 0 if certificate and certificate.guaranteed else 1


def looks_with_replaced(certificate: rf.Certificate, out: Path | None) -> tuple[Look, ...]:
    """Earlier looks, and the one whose certificate is about to be overwritten, if it asked the same data something else."""
    try:
        replaced = rf.Certificate.load(out) if out is not None and out.is_file() else None
    except rf.RiskfrontError:  # another file, or a damaged one
        replaced = None
    if replaced is None or replaced.data_sha256 != certificate.data_sha256 or replaced.seed is None:
        return certificate.earlier_looks
    own = Look.of_certificate(certificate).question
    known = {look.question: look for look in (*replaced.earlier_looks, Look.of_certificate(replaced))}
    known |= {look.question: look for look in certificate.earlier_looks}
    known.pop(own, None)
    return tuple(known.values())


@grouped
def verify(
    certificate: Annotated[Path, typer.Argument(help="A certificate, as JSON, or the folder that accelerate made.")],
    columns: TableOptions,
    table: Annotated[
        str,
        typer.Argument(
            help="The data it was made of: outcomes, runs, or a store; the folder of accelerate needs none."
        ),
    ] = "",
    unlabelled: Unlabelled = "",
    as_json: Json = False,
) -> int:
    """Recompute a certificate from the data and say whether it matches."""
    if certificate.is_dir():
        certificate, table = certificate / "certificate.json", table or str(certificate)
    claimed = rf.Certificate.load(certificate)
    table = table or (str(certificate.parent) if _is_accelerated(certificate.parent) else "")
    if not table:
        raise InvalidInputError("verify needs the data that the certificate was made of; none were named.")
    if _is_accelerated(Path(table)):
        from riskfront.transformers.recomputing import recompute

        return _say(differences(recompute(claimed, table), claimed), as_json)
    if is_store(table):  # of evaluate, or of tune
        return _say(rf.verify(claimed, table, unlabelled=unlabelled or None), as_json)
    if "cascade" in (claimed.source or {}):
        from riskfront.cli.cascades import recompute as cascade_again

        return _say(differences(cascade_again(claimed, table), claimed), as_json)
    was = claimed.source or {}  # read the table as it was read then, unless told otherwise
    as_then = {name: now or was.get(name, now) for name, now in asdict(columns).items()}
    then = TableOptions(**as_then)
    losses = then.read(table, claimed.problem, quiet=as_json)
    others = then.read_unlabelled(unlabelled, claimed.problem, losses, quiet=as_json)
    return _say(rf.verify(claimed, losses, unlabelled=others), as_json)


def _is_accelerated(folder: Path) -> bool:
    return any((folder / name).is_file() for name in ("adaptive.json", "cascade.json"))


def _say(differences: list[str], as_json: bool) -> int:
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


@grouped
def inspect(
    file: Annotated[str, typer.Argument(help="A certificate (JSON), a table or a store.")],
    columns: LayoutOptions,
    as_json: Json = False,
) -> int:
    """Show what is in a certificate or a table."""
    if Path(file).suffix.lower() == ".json":
        show(rf.Certificate.load(file), as_json)
        return 0
    losses = TableOptions(**asdict(columns)).read(file, None, quiet=as_json)
    if as_json:
        found = {"settings": losses.n_configs, "examples": losses.n_examples, "setting_columns": losses.config_names}
        print(json.dumps({**found, "losses": losses.loss_names, "groups": losses.group_names, "sha256": losses.sha256}))
    else:
        show_table(make_console(), losses)
    return 0


@grouped
def trials(
    table: TableFile,
    wanted: ProblemOptions,
    columns: TableOptions,
    methods: Annotated[str, typer.Option(help="Methods, separated by commas.")] = ",".join(BY_NAME),
    safest: Safest = [],  # noqa: B006  # read by Typer, never changed
    p_values: Annotated[str, typer.Option("--p-values", help="p-values to compare, separated by commas.")] = "auto",
    alphas: Annotated[str, typer.Option(help="Numbers for the first limit, separated by commas.")] = "",
    trials: Annotated[int, typer.Option(min=1, help="How often to draw examples and calibrate.")] = 100,
    calibration: Annotated[float, typer.Option(help="Calibration examples: a number, or a share below 1.")] = 0.5,
    held_out: Annotated[
        bool, typer.Option("--held-out", help="Split the table instead, and look at the examples that are left.")
    ] = False,
    seed: Seed = 0,
    out: Out = None,
    as_json: Json = False,
) -> int:
    """Calibrate many times on examples drawn from the table, and see how often each method truly breaks a limit."""
    must_be_writable(out, inputs=[table])
    problem, planners = wanted.problem(), make_methods(parse_names(methods), safest)
    losses = columns.read(table, problem, quiet=as_json)
    results = rf.experiment.run(
        losses,
        problem,
        methods=planners,
        p_values=parse_names(p_values),
        alphas=[parse_number(alpha, "--alphas") for alpha in parse_names(alphas)] or None,
        trials=trials,
        calibration=calibration if calibration < 1 else int(calibration),
        held_out=held_out,
        seed=seed,
    )
    if out is not None:
        with files.written_whole(out) as temporary:
            results.to_csv(temporary, index=False)
    summary = rf.experiment.summarize(results)
    if as_json:
        print(summary.to_json(orient="records"))
    else:
        console = make_console()
        show_frame(console, *trial_table(summary, problem))
        console.print(trial_words(summary, problem), markup=False)
        unguarded = [name for name in summary["method"] if str(name).split(" ")[0] in NEVER_GUARANTEED]
        if unguarded:
            console.print(f"NO GUARANTEE: {', '.join(dict.fromkeys(unguarded))}.", style="bold red")
    return 0


@grouped
def frontier(
    table: TableFile,
    wanted: ProblemOptions,
    alphas: Annotated[str, typer.Option(help="Numbers for the first limit, separated by commas.")],
    columns: TableOptions,
    by: MethodOptions,
    p_value: PValue = "auto",
    seed: Seed = 0,
    together: Together = False,
    unlabelled: Unlabelled = "",
    out: Out = None,
    as_json: Json = False,
) -> int:
    """The certified settings for a whole list of limits, each by itself or all together."""
    must_be_writable(out, inputs=[table])
    problem, method = wanted.problem(p_value), by.made()
    losses = columns.read(table, problem, quiet=as_json)
    numbers = [parse_number(alpha, "--alphas") for alpha in parse_names(alphas)]
    others = columns.read_unlabelled(unlabelled, problem, losses, quiet=as_json)
    found = rf.frontier(losses, problem, numbers, method=method, seed=seed, simultaneous=together, unlabelled=others)
    if out is not None:
        with files.written_whole(out) as temporary:
            found.to_csv(temporary, index=False)
    if as_json:
        print(found.to_json(orient="records"))
    else:
        console = make_console()
        if by.method in NEVER_GUARANTEED:
            console.print(f"NO GUARANTEE: {by.method} does not control any error probability.", style="bold red")
        words = {
            "alpha": f"limit on {problem.limits[0].name}",
            "n_certified": "certified settings",
            "n_picked": "picked from (no guarantee)",
        }
        shown = found.drop(columns=["p_value", "tested_at"], errors="ignore").rename(columns=words)
        show_frame(console, "Calibrated frontier: the best settings for each limit", shown)
        console.print(frontier_words(problem, together=together), markup=False)
    return 0 if "n_certified" in found and (found["n_certified"] > 0).any() else 1  # a method may only pick


def report(
    certificate: Annotated[Path, typer.Argument(help="A certificate, as JSON.")],
    out: Annotated[Path, typer.Option(help="HTML page to write.")] = Path("report.html"),
) -> int:
    """Write the report page of a certificate."""
    must_be_writable(out, inputs=[certificate])
    rf.write_report(rf.Certificate.load(certificate), out)
    make_console().print(f"Wrote {out}", markup=False)
    return 0
