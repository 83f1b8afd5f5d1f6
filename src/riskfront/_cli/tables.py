"""Commands for people who have a table of outcomes: calibrate, verify, inspect, trials, frontier, report."""

from __future__ import annotations

import json
import shlex
import sys
from collections.abc import Callable
from dataclasses import asdict, replace
from pathlib import Path
from typing import Annotated, Any

import typer

import riskfront as rf
from riskfront._calibration.certificates.certificate import NEVER_GUARANTEED
from riskfront._calibration.certificates.choice import choose as choose_setting
from riskfront._calibration.certificates.known_examples import known_examples
from riskfront._calibration.certificates.uses_of_test_set import UseOfTestSet, recomputing
from riskfront._cli.options import (
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
    grouped,
    make_methods,
    must_be_writable,
    parse_names,
    parse_number,
    show,
)
from riskfront._data.reading.sources import is_store, notes_of
from riskfront._reporting.sentences import frontier_words, why_no_guarantee
from riskfront._reporting.terminal import make_console, number, show_frame, show_table
from riskfront._reporting.trial_charts import trial_table, trial_words
from riskfront._support import files
from riskfront._support.version import __version__
from riskfront.errors import InvalidInputError
from riskfront.methods._registry import BY_NAME


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
    sequential: Annotated[
        Path | None,
        typer.Option(
            "--sequential",
            help="State file of a run that goes on: the table holds its new examples; look at it as often as you like.",
        ),
    ] = None,
    examples: Annotated[
        int | None, typer.Option(min=2, help="With --sequential: about how many examples will come in all.")
    ] = None,
    as_json: Json = False,
) -> int:
    """Find a setting for which all limits hold together, with proof."""
    must_be_writable(out, report, inputs=[table, *([unlabelled] if unlabelled else [])])
    if sequential is not None:
        return _calibrate_on(sequential, table, wanted.problem(p_value), columns, by, examples, out, report, as_json)
    problem, method = wanted.problem(p_value), by.made()
    losses = columns.read(table, problem, quiet=as_json)
    others = columns.read_unlabelled(unlabelled, problem, losses, quiet=as_json)
    certificate = rf.calibrate(losses, problem, method=method, seed=seed, unlabelled=others)
    earlier = uses_with_replaced(certificate, out, lambda replaced: _shares_examples(replaced, losses))
    certificate = replace(certificate, source=asdict(columns), notes=(*notes_of(table), *certificate.notes)).after(
        earlier
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


def _calibrate_on(
    state: Path,
    table: str,
    problem: rf.Problem,
    columns: TableOptions,
    by: MethodOptions,
    examples: int | None,
    out: Path | None,
    report: Path | None,
    as_json: bool,
) -> int:
    """Go on with a sequential run."""
    from riskfront._cli.sequential import tell_file

    certificate, new = tell_file(state, table, problem, columns, by, examples)
    if out is not None:
        certificate.save(out)
    if report is not None:
        rf.write_report(certificate, report, command=shlex.join(["riskfront", *sys.argv[1:]]))
    if not as_json:
        make_console().print(f"{new:,} new examples; the state is in {state}", markup=False, style="dim")
    show(certificate, as_json, written=[path for path in (out, report) if path is not None])
    return 0 if certificate and certificate.guaranteed else 1


def uses_with_replaced(
    certificate: rf.Certificate, out: Path | None, shares_examples: Callable[[rf.Certificate], bool]
) -> tuple[UseOfTestSet, ...]:
    """Earlier uses, and that of the certificate that is about to be overwritten, if it asked the same examples something else.

    shares_examples: whether a certificate of other data is of the same examples. Other bounds, 0/1 outcomes or another
    confidence make another digest of them.
    """
    try:
        replaced = rf.Certificate.load(out) if out is not None and out.is_file() else None
    except rf.RiskfrontError:  # another file, or a damaged one
        replaced = None
    if replaced is None or replaced.seed is None:
        return certificate.earlier_looks
    asked = [*replaced.earlier_looks, UseOfTestSet.of_certificate(replaced)]
    if replaced.data_sha256 != certificate.data_sha256:
        if not shares_examples(replaced):
            return certificate.earlier_looks
        # the same words were another question to the data in another form
        asked = [replace(use, question=f"{replaced.data_sha256} {use.question}") for use in asked]
    known = {use.question: use for use in (*asked, *certificate.earlier_looks)}
    known.pop(UseOfTestSet.of_certificate(certificate).question, None)
    return tuple(known.values())


def _shares_examples(made: rf.Certificate, losses: rf.LossTable) -> bool:
    """Whether the examples of a certificate are in a table, beyond chance; False where it certified nothing."""
    if not made or not set(made.config) <= set(losses.config_names):
        return False
    rows = [row for row in range(losses.n_configs) if losses.config(row) == made.config]
    return bool(rows) and known_examples(made, losses, rows[0]) > 0


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
    from riskfront._verification.verify import differences  # and with it tune and all searches

    if certificate.is_dir():
        certificate, table = certificate / "certificate.json", table or str(certificate)
    claimed = rf.Certificate.load(certificate, check_digest=False)
    table = table or (str(certificate.parent) if _is_accelerated(certificate.parent) else "")
    if not table:
        raise InvalidInputError("verify needs the data that the certificate was made of; none were named.")
    if _is_accelerated(Path(table)):
        from riskfront.transformers._recomputing import recompute

        with recomputing():
            again = recompute(claimed, table)
        return _say(differences(again, claimed), claimed, as_json)
    if "cascade" in (claimed.source or {}):
        from riskfront._cli.cascades import recompute as cascade_again

        with recomputing():
            again = cascade_again(claimed, table, unlabelled)
        return _say(differences(again, claimed), claimed, as_json)
    if is_store(table) or (claimed.evaluations or {}).get("told") is not None:  # of evaluate, tune or a sequential run
        return _say(rf.verify(claimed, table, unlabelled=unlabelled or None), claimed, as_json)
    was = claimed.source or {}  # read the table as it was read then, unless told otherwise
    as_then = {name: now or was.get(name, now) for name, now in asdict(columns).items()}
    then = TableOptions(**as_then)
    losses = then.read(table, claimed.problem, quiet=as_json)
    others = then.read_unlabelled(unlabelled, claimed.problem, losses, quiet=as_json)
    return _say(rf.verify(claimed, losses, unlabelled=others), claimed, as_json)


def _is_accelerated(folder: Path) -> bool:
    return any((folder / name).is_file() for name in ("adaptive.json", "cascade.json"))


def _say(differences: list[str], claimed: rf.Certificate, as_json: bool) -> int:
    if as_json:
        print(json.dumps({"matches": not differences, "differences": differences, "verdict": claimed.verdict()}))
    elif differences:
        console = make_console()
        console.print(f"The certificate does NOT match the data: {len(differences)} difference(s).", style="bold red")
        for difference in differences[:10]:
            console.print(f"- {difference}", markup=False)
    else:
        make_console().print(
            "The certificate matches: recomputing it from the data gives the same result.", style="bold green"
        )
        if claimed.version != __version__:  # whose words a file may hold, true or not
            make_console().print(
                f"Its numbers match; its sentences are those of version {claimed.version} and were not compared. What they "
                f"must say: {claimed.verdict()}",
                markup=False,
            )
    return 1 if differences else 0


@grouped
def inspect(
    file: Annotated[str, typer.Argument(help="A certificate or a policy (JSON), a table or a store.")],
    columns: LayoutOptions,
    as_json: Json = False,
) -> int:
    """Show what is in a certificate, a policy or a table."""
    if Path(file).suffix.lower() == ".json":
        from riskfront._cli.checks import is_policy

        if is_policy(Path(file)):
            return _inspect_policy(rf.Policy.load(file), as_json)
        show(rf.Certificate.load(file), as_json)
        return 0
    losses = TableOptions(**asdict(columns)).read(file, None, quiet=as_json)
    if as_json:
        found = {"settings": losses.n_configs, "examples": losses.n_examples, "setting_columns": losses.config_names}
        print(json.dumps({**found, "losses": losses.loss_names, "groups": losses.group_names, "sha256": losses.sha256}))
    else:
        show_table(make_console(), losses)
    return 0


def _inspect_policy(policy: rf.Policy, as_json: bool) -> int:
    """What a policy runs, and what it reads of requests and responses."""
    from riskfront._cascades.words import filtered_by, rule

    needs = policy.needs
    if as_json:
        found: dict[str, Any] = {"kind": policy.kind, "models": policy.models, "thresholds": policy.thresholds}
        found |= {"shares": policy.shares, "needs": asdict(needs), "certificate": policy.certificate.to_dict()}
        print(json.dumps(found, allow_nan=False))
        return 0
    console = make_console()
    console.print(policy.certificate.verdict(), markup=False)
    for line in filtered_by((policy.certificate.source or {}).get("cascade", {}).get("where", [])):
        console.print(line, markup=False)
    by_gain = isinstance(policy.confidence, rf.LearntGain)
    limits = [f"trusted from {limit:.6g} on; " for limit in policy.thresholds]
    said = [""] * len(policy.models) if by_gain else [*limits, "answers the rest; "]
    for name, limit, share in zip(policy.models, said, policy.shares, strict=True):
        console.print(f"  {name}: {limit}{number(100 * share)} % of the answers when certified", markup=False)
    console.print(rule(policy), markup=False)
    how = policy.confidence if isinstance(policy.confidence, str) else "learnt"
    how = "predicted gain a dollar" if by_gain else how
    if len(policy.models) > 1:
        console.print(f"Confidence: {how}. It rests on", markup=False)
        for line in needs.lines():
            console.print(f"  {line}", markup=False)
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
            console.print(why_no_guarantee(by.method), style="bold red", markup=False)
        words = {
            "alpha": f"limit on {problem.limits[0].name}",
            "n_certified": "certified settings",
            "n_picked": "picked from (no guarantee)",
            "tested_by": "tested by",
        }
        shown = found.drop(columns=["p_value", "tested_at"], errors="ignore")
        shown = shown.replace({"tested_by": {"path": "plan", "holm": "fallback test"}}).rename(columns=words)
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
