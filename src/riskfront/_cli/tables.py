"""Commands for people who have a table of outcomes: calibrate, verify, inspect, trials, frontier, report."""

from __future__ import annotations

import json
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
from riskfront._cli import options
from riskfront._cli.output import deliver, say, show
from riskfront._data.reading.sources import is_store, notes_of
from riskfront._reporting.sentences import frontier_words, why_no_guarantee
from riskfront._reporting.terminal import make_console, number, show_frame, show_table
from riskfront._reporting.trial_charts import trial_table, trial_words
from riskfront._support import files
from riskfront._support.version import __version__
from riskfront.errors import InvalidInputError
from riskfront.methods._registry import BY_NAME


@options.grouped
def calibrate(
    table: options.TableFile,
    wanted: options.ProblemOptions,
    columns: options.TableOptions,
    by: options.MethodOptions,
    p_value: options.PValue = "auto",
    seed: options.Seed = 0,
    out: options.Out = None,
    report: Annotated[Path | None, typer.Option(help="HTML page to write.")] = None,
    alphas: Annotated[str, typer.Option(help="Other numbers for the first limit, for the frontier on the page.")] = "",
    together: options.Together = False,
    choose: options.ChooseOption = "",
    unlabelled: options.Unlabelled = "",
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
    as_json: options.Json = False,
) -> int:
    """Find a setting for which all limits hold together, with proof."""
    options.must_be_writable(out, report, inputs=[table, *([unlabelled] if unlabelled else [])])
    problem = wanted.problem(p_value)
    if sequential is not None:
        from riskfront._cli.sequential import tell_file

        certificate, new = tell_file(sequential, table, problem, columns, by, examples)
        if not as_json:
            say(f"{new:,} new examples; the state is in {sequential}", "dim")
        return deliver(certificate, out, report, as_json)
    method = by.made()
    losses = columns.read(table, problem, quiet=as_json)
    others = columns.read_unlabelled(unlabelled, problem, losses, quiet=as_json)
    certificate = rf.calibrate(losses, problem, method=method, seed=seed, unlabelled=others)
    earlier = uses_with_replaced(certificate, out, lambda replaced: _shares_examples(replaced, losses))
    certificate = replace(certificate, source=asdict(columns), notes=(*notes_of(table), *certificate.notes))
    certificate = choose_setting(certificate.after(earlier), choose)
    frontier = None
    if report is not None and (numbers := options.parse_numbers(alphas, "--alphas")):
        frontier = rf.frontier(
            losses, problem, numbers, method=method, seed=seed, simultaneous=together, unlabelled=others
        )
    return deliver(certificate, out, report, as_json, frontier)


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


@options.grouped
def verify(
    certificate: Annotated[Path, typer.Argument(help="A certificate, as JSON, or the folder that accelerate made.")],
    columns: options.TableOptions,
    table: Annotated[
        str,
        typer.Argument(
            help="The data it was made of: outcomes, runs, or a store; the folder of accelerate needs none."
        ),
    ] = "",
    unlabelled: options.Unlabelled = "",
    as_json: options.Json = False,
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
            found = differences(recompute(claimed, table), claimed)
    elif "cascade" in (claimed.source or {}):
        from riskfront._cli.cascades import recompute as cascade_again

        with recomputing():
            found = differences(cascade_again(claimed, table, unlabelled), claimed)
    elif (
        is_store(table) or (claimed.evaluations or {}).get("told") is not None
    ):  # of evaluate, tune or a sequential run
        found = rf.verify(claimed, table, unlabelled=unlabelled or None)
    else:
        then = columns.as_for(claimed)
        losses = then.read(table, claimed.problem, quiet=as_json)
        others = then.read_unlabelled(unlabelled, claimed.problem, losses, quiet=as_json)
        found = rf.verify(claimed, losses, unlabelled=others)
    if as_json:
        print(json.dumps({"matches": not found, "differences": found, "verdict": claimed.verdict()}))
    elif found:
        say(f"The certificate does NOT match the data: {len(found)} difference(s).", "bold red")
        for difference in found[:10]:
            say(f"- {difference}")
    else:
        say("The certificate matches: recomputing it from the data gives the same result.", "bold green")
        if claimed.version != __version__:  # whose words a file may hold, true or not
            say(
                f"Its numbers match; its sentences are those of version {claimed.version} and were not compared. What they "
                f"must say: {claimed.verdict()}"
            )
    return 1 if found else 0


def _is_accelerated(folder: Path) -> bool:
    return any((folder / name).is_file() for name in ("adaptive.json", "cascade.json"))


@options.grouped
def inspect(
    file: Annotated[str, typer.Argument(help="A certificate or a policy (JSON), a table or a store.")],
    columns: options.LayoutOptions,
    as_json: options.Json = False,
) -> int:
    """Show what is in a certificate, a policy or a table."""
    if Path(file).suffix.lower() == ".json":
        from riskfront._cli.checks import is_policy

        if is_policy(Path(file)):
            return _inspect_policy(rf.Policy.load(file), as_json)
        show(rf.Certificate.load(file), as_json)
        return 0
    losses = options.TableOptions(**asdict(columns)).read(file, None, quiet=as_json)
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
    say(policy.certificate.verdict())
    for line in filtered_by((policy.certificate.source or {}).get("cascade", {}).get("where", [])):
        say(line)
    by_gain = isinstance(policy.confidence, rf.LearntGain)
    limits = [f"trusted from {limit:.6g} on; " for limit in policy.thresholds]
    said = [""] * len(policy.models) if by_gain else [*limits, "answers the rest; "]
    for name, limit, share in zip(policy.models, said, policy.shares, strict=True):
        say(f"  {name}: {limit}{number(100 * share)} % of the answers when certified")
    say(rule(policy))
    how = policy.confidence if isinstance(policy.confidence, str) else "learnt"
    how = "predicted gain a dollar" if by_gain else how
    if len(policy.models) > 1:
        say(f"Confidence: {how}. It rests on")
        for line in needs.lines():
            say(f"  {line}")
    return 0


@options.grouped
def trials(
    table: options.TableFile,
    wanted: options.ProblemOptions,
    columns: options.TableOptions,
    methods: Annotated[str, typer.Option(help="Methods, separated by commas.")] = ",".join(BY_NAME),
    safest: options.Safest = [],  # noqa: B006  # read by Typer, never changed
    p_values: Annotated[str, typer.Option("--p-values", help="p-values to compare, separated by commas.")] = "auto",
    alphas: Annotated[str, typer.Option(help="Numbers for the first limit, separated by commas.")] = "",
    trials: Annotated[int, typer.Option(min=1, help="How often to draw examples and calibrate.")] = 100,
    calibration: Annotated[float, typer.Option(help="Calibration examples: a number, or a share below 1.")] = 0.5,
    held_out: Annotated[
        bool, typer.Option("--held-out", help="Split the table instead, and look at the examples that are left.")
    ] = False,
    seed: options.Seed = 0,
    out: options.Out = None,
    as_json: options.Json = False,
) -> int:
    """Calibrate many times on examples drawn from the table, and see how often each method truly breaks a limit."""
    options.must_be_writable(out, inputs=[table])
    problem, planners = wanted.problem(), options.make_methods(options.parse_names(methods), safest)
    losses = columns.read(table, problem, quiet=as_json)
    results = rf.experiment.run(
        losses,
        problem,
        methods=planners,
        p_values=options.parse_names(p_values),
        alphas=options.parse_numbers(alphas, "--alphas") or None,
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
        show_frame(make_console(), *trial_table(summary, problem))
        say(trial_words(summary, problem))
        unguarded = [name for name in summary["method"] if str(name).split(" ")[0] in NEVER_GUARANTEED]
        if unguarded:
            say(f"NO GUARANTEE: {', '.join(dict.fromkeys(unguarded))}.", "bold red")
    return 0


@options.grouped
def frontier(
    table: options.TableFile,
    wanted: options.ProblemOptions,
    alphas: Annotated[str, typer.Option(help="Numbers for the first limit, separated by commas.")],
    columns: options.TableOptions,
    by: options.MethodOptions,
    p_value: options.PValue = "auto",
    seed: options.Seed = 0,
    together: options.Together = False,
    unlabelled: options.Unlabelled = "",
    out: options.Out = None,
    as_json: options.Json = False,
) -> int:
    """The certified settings for a whole list of limits, each by itself or all together."""
    options.must_be_writable(out, inputs=[table])
    problem, method = wanted.problem(p_value), by.made()
    losses = columns.read(table, problem, quiet=as_json)
    numbers = options.parse_numbers(alphas, "--alphas")
    others = columns.read_unlabelled(unlabelled, problem, losses, quiet=as_json)
    found = rf.frontier(losses, problem, numbers, method=method, seed=seed, simultaneous=together, unlabelled=others)
    if out is not None:
        with files.written_whole(out) as temporary:
            found.to_csv(temporary, index=False)
    if as_json:
        print(found.to_json(orient="records"))
    else:
        if by.method in NEVER_GUARANTEED:
            say(why_no_guarantee(by.method), "bold red")
        words = {
            "alpha": f"limit on {problem.limits[0].name}",
            "n_certified": "certified settings",
            "n_picked": "picked from (no guarantee)",
            "tested_by": "tested by",
        }
        shown = found.drop(columns=["p_value", "tested_at"], errors="ignore")
        shown = shown.replace({"tested_by": {"path": "plan", "holm": "fallback test"}}).rename(columns=words)
        show_frame(make_console(), "Calibrated frontier: the best settings for each limit", shown)
        say(frontier_words(problem, together=together))
    return 0 if "n_certified" in found and (found["n_certified"] > 0).any() else 1  # a method may only pick


def report(
    certificate: Annotated[Path, typer.Argument(help="A certificate, as JSON.")],
    out: Annotated[Path, typer.Option(help="HTML page to write.")] = Path("report.html"),
) -> int:
    """Write the report page of a certificate."""
    options.must_be_writable(out, inputs=[certificate])
    rf.write_report(rf.Certificate.load(certificate), out)
    say(f"Wrote {out}")
    return 0
