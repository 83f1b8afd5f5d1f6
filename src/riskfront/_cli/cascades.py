"""cascade: from runs of models to a certified policy."""

from __future__ import annotations

import json
import shlex
import warnings
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Annotated, Any, cast

import numpy as np
import typer

import riskfront as rf
from riskfront._cascades import words
from riskfront._cascades.gain import price_column
from riskfront._cascades.policy import few_explored, slim
from riskfront._cli import options
from riskfront._cli.deciding import ranges, show_frontier
from riskfront._cli.output import command_line, say, show
from riskfront._data.identity.fingerprints import Repeats
from riskfront._data.logs.prices import read_prices
from riskfront._reporting.decide_page import decide_html
from riskfront._reporting.page import Section, report_html
from riskfront._reporting.terminal import make_console, show_grid
from riskfront._support.files import write_text
from riskfront._support.values import known
from riskfront.errors import InvalidInputError
from riskfront.methods import ParetoTesting, make_method

#: columns that are a confidence wherever they are logged
_CONFIDENCES = ("confidence", "judge", "logprob", "choice_logprob", "agreement", "answer_agreement")
#: what a response tells of itself, to learn a confidence from; latency and price it does not
_TOOK = ("tokens", "input_tokens", "output_tokens", "response_chars")


@dataclass(frozen=True, slots=True)
class CascadeOptions:
    """Which cascades are offered."""

    stages: Annotated[int, typer.Option(help="Largest number of models in a row.")] = 2
    confidence: Annotated[
        str, typer.Option(help="Column that says how sure an answer is; several, separated by commas, are learnt from.")
    ] = ""
    rank_by: Annotated[
        str,
        typer.Option(
            "--rank-by",
            help="'gain': the score that a dearer model adds for each dollar more, the default if prices differ; 'right': the "
            "probability that an answer is right.",
        ),
    ] = ""
    thresholds: Annotated[str, typer.Option(help="How many for each model, or the numbers: '0.5,0.7,0.9'.")] = "20"
    router: Annotated[bool, typer.Option("--router", help="Decide by the prompt, before any model is called.")] = False
    models: Annotated[str, typer.Option(help="Models to use, separated by commas; all by default.")] = ""
    aside: Annotated[float | None, typer.Option(help="Share of examples set aside for thresholds and confidence.")] = (
        None
    )
    binary: Annotated[str, typer.Option(help="'score' if it can only ever be 0 or 1.")] = ""
    bounds: Annotated[list[str], typer.Option("--bounds", help="Range of a loss, as 'score=0,10'.")] = field(
        default_factory=list
    )
    where: Annotated[list[str], typer.Option("--where", help="Models and examples that count: 'task == arc'.")] = field(
        default_factory=list
    )

    prices: options.Prices = ""
    tool: Annotated[str, typer.Option(help="Who wrote a folder of logs, where that is not clear; as for import.")] = ""
    score: Annotated[str, typer.Option(help="Of logs with several metrics, the one that is the score.")] = ""
    filter: Annotated[str, typer.Option("--filter", help="The answer filter of lm-eval, where there are several.")] = ""
    worst: Annotated[float | None, typer.Option(help="What a failed call scores, as for import.")] = None
    skip_broken: options.SkipBroken = False
    latest: options.Latest = False
    repeats: options.RepeatsOption = "refuse"

    def runs(self, path: str) -> Any:
        found = rf.read_runs(
            path,
            self.tool or None,
            score=self.score or None,
            filter=self.filter or None,
            where=self.where,
            worst=self.worst,
            skip_broken=self.skip_broken,
            latest=self.latest,
        )
        return found.priced(read_prices(self.prices)) if self.prices else found

    def make(self, path: str, seed: int) -> rf.Cascade:
        runs = self.runs(path)
        kind = rf.Router if self.router else rf.Cascade
        numbers = options.parse_numbers(self.thresholds, "--thresholds")
        single = len(numbers) == 1 and numbers[0] >= 1 and float(numbers[0]).is_integer() and "." not in self.thresholds
        return kind(
            runs,
            stages=self.stages,
            confidence=self._confidence(runs),
            thresholds=int(numbers[0]) if single else numbers,
            models=options.parse_names(self.models) or None,
            aside=self.aside,
            seed=seed,
            repeats=cast(Repeats, self.repeats),
        )

    def table(self, made: rf.Cascade, problem: rf.Problem) -> rf.LossTable:
        """The table of a cascade, with every column that the problem asks for."""
        there = {*made.runs.values, *(str(name) for name in made.runs.examples if _is_number(made.runs, str(name)))}
        asked = {*problem.losses, *_proxies(problem)} & there - {made.score}
        return made.table(
            binary=options.parse_names(self.binary), bounds=options.parse_bounds(self.bounds), also=sorted(asked)
        )

    def unlabelled(self, made: rf.Cascade, path: str, problem: rf.Problem) -> rf.LossTable | None:
        """What proxies say of every setting on the unlabelled examples of a file; None without one."""
        if not path:
            return None
        proxies = _proxies(problem)
        if not proxies:
            raise InvalidInputError(
                "unlabelled examples help with limits that name a proxy; none does. Name a column that is known without "
                "labels: --limit 'score drop <= 0.03 proxy judge'."
            )
        runs = rf.read_runs(path, where=self.where, skip_broken=self.skip_broken, latest=self.latest)
        return made.unlabelled(runs, proxies, bounds=options.parse_bounds(self.bounds))

    def _confidence(self, runs: Any) -> str | rf.LearntConfidence | rf.LearntGain:
        if self.rank_by:
            known(self.rank_by, ("gain", "right"), "--rank-by")
        named = options.parse_names(self.confidence)
        counted = "." not in self.thresholds and len(options.parse_names(self.thresholds)) == 1
        by_gain = counted and self.stages == 2 and price_column(runs) is not None and self.rank_by != "right"
        if self.rank_by == "gain" or (by_gain and (len(named) != 1 or not _is_number(runs, named[0]))):
            return rf.LearntGain(named)
        if len(named) == 1 and _is_number(runs, named[0]):
            return named[0]
        if named:
            return rf.LearntConfidence(named)
        logged = [] if self.router else [name for name in _CONFIDENCES if name in runs.values]
        if logged:
            return logged[0]
        about = [str(name) for name in runs.examples if _useful(runs, str(name))]
        took = [] if self.router else [name for name in _TOOK if name in runs.values and _mostly_known(runs, name)]
        if not about and not took and len(runs) > 1:
            raise InvalidInputError(
                "a confidence must be named (--confidence): nothing was logged to learn it from. "
                f"Columns: {', '.join([*runs.values, *map(str, runs.examples)])}."
            )
        return rf.LearntConfidence([*about, *took])


@options.grouped
def cascade(
    runs: Annotated[str, typer.Argument(help="Runs of several models: what import wrote, or a folder of logs.")],
    wanted: options.ProblemOptions,
    offered: CascadeOptions,
    method: options.MethodName = "pareto-testing",
    p_value: options.PValue = "auto",
    seed: options.Seed = 0,
    out: Annotated[Path | None, typer.Option(help="Folder for the policy, its certificate and report.")] = None,
    export: Annotated[str, typer.Option(help="Refused for every other router, with the reason; use serve.")] = "",
    unlabelled: options.Unlabelled = "",
    as_json: options.Json = False,
) -> int:
    """Find a cascade or router of models for which all limits hold, with proof; limits may be ranges to decide by."""
    refuse_exports(options.parse_names(export))
    if out is not None:
        _folder(out)
    if not wanted.reference and any(" drop" in text for text in wanted.limit):
        raise _no_reference("it is missing (--reference)", offered.runs(runs).names)
    varied = any(".." in text for text in wanted.limit)
    problem, values = ranges(wanted, p_value) if varied else (wanted.problem(p_value), {})
    made = offered.make(runs, seed)
    for name in {limit.drop_from for limit in problem.limits} - {None, *made.runs.names}:
        raise _no_reference(f"'{name}' is not one of them", made.runs.names)
    table = offered.table(made, problem)
    if "cost" in problem.losses and "cost" not in table.loss_names:
        raise InvalidInputError(
            f"the runs must hold a cost to limit or minimise it; they hold {', '.join(table.loss_names)}. Add prices: "
            "riskfront import ... --prices 'small=0.001, large=0.03', or minimise calls."
        )
    if not as_json:
        _say(made)
    others = offered.unlabelled(made, unlabelled, problem)
    # planning examples tell how much of a proxy to believe, and how to share delta among the values of a range
    usual = made.method if varied or others is not None else made.method_for(problem)
    chosen = usual if method == ParetoTesting.name else make_method(method)
    if varied:
        found = rf.frontier(table, problem, values, method=chosen, seed=seed, simultaneous=True, unlabelled=others)
        return _decided(made, found, offered, runs, out, as_json)
    certificate = slim(rf.calibrate(table, problem, method=chosen, seed=seed, unlabelled=others))
    certificate = _explained(made, certificate, offered.where)
    digests = made.digests()
    certificate = replace(certificate, source={"cascade": asdict(offered), "logs": digests})
    if out is not None:
        from riskfront._cli.tables import uses_with_replaced

        def of_these_logs(replaced: rf.Certificate) -> bool:
            return not set(digests).isdisjoint((replaced.source or {}).get("logs", ()))

        certificate = certificate.after(uses_with_replaced(certificate, out / "certificate.json", of_these_logs))
    written = [] if out is None else _write(made, certificate, out)
    if not as_json:
        return show(certificate, False, written)
    print(json.dumps(_summary(made, certificate), allow_nan=False))
    return 0 if certificate and certificate.guaranteed else 1


def _write(made: rf.Cascade, certificate: rf.Certificate, folder: Path) -> list[Path]:
    """The certificate, its report and, if something is certified, the policy: none of an earlier certificate stays there."""
    written = [folder / "certificate.json", folder / "report.html"]
    certificate.save(written[0])
    write_text(written[1], report_html(certificate, sections=_learnt(made)))
    policy = folder / "policy.json"
    if certificate and certificate.guaranteed:
        written.append(policy)
        made.policy(certificate).save(policy)
    elif policy.exists():  # it would seem to be that of the certificate beside it
        policy.unlink()
        warnings.warn(f"'{policy}' was removed: it was of the certificate that stood there before.", stacklevel=2)
    return written


def take_in(chosen: rf.Certificate, folder: Path, path: str) -> tuple[rf.Certificate, list[Path]]:
    """What was chosen from a frontier, with its policy, as ``cascade`` writes them; and the files."""
    offered = CascadeOptions(**(chosen.source or {})["cascade"])
    made = offered.make(path, chosen.seed or 0)
    if not offered.table(made, chosen.problem).has_fingerprint(chosen.data_sha256):
        raise InvalidInputError(f"'{path}' must hold the runs that the frontier was made of; its outcomes are others.")
    certificate = _explained(made, chosen, offered.where)
    return certificate, _write(made, certificate, folder)


def _decided(
    made: rf.Cascade, found: rf.Frontier, offered: CascadeOptions, runs: str, out: Path | None, as_json: bool
) -> int:
    """Limits that are ranges: a page to decide on, with every rule in words, instead of one policy."""
    found = replace(
        found,
        source={"cascade": asdict(offered)},
        rules=words.rules_in_words(made, found),
        explored=few_explored(found.explored),
    )
    written = [] if out is None else [out / "frontier.json", out / "decide.html"]
    if written:
        found.save(written[0])
        again = f" --runs {shlex.quote(runs)}"
        write_text(written[1], decide_html(found, file=str(out), command=command_line(), options=again))
    return show_frontier(found, as_json, written)


def recompute(claimed: rf.Certificate, path: str, unlabelled: str = "") -> rf.Certificate:
    """The certificate of a cascade again, from its runs."""
    offered = CascadeOptions(**(claimed.source or {})["cascade"])
    made = offered.make(path, claimed.seed or 0)
    table = offered.table(made, claimed.problem)
    method = make_method(claimed.method, **claimed.parameters)
    others, seed = offered.unlabelled(made, unlabelled, claimed.problem), claimed.seed or 0
    if claimed.frontier is not None:
        values = claimed.frontier["values"]
        found = rf.frontier(
            table, claimed.problem, values, method=method, seed=seed, simultaneous=True, unlabelled=others
        )
        again = slim(found.choose(claimed.frontier["chosen"], claimed.choice))
        explained = _explained(made, again, offered.where)  # as it was taken into a folder
        return explained if set(explained.notes) <= set(claimed.notes) else again
    again = rf.calibrate(table, claimed.problem, method=method, seed=seed, unlabelled=others)
    return _explained(made, slim(again), offered.where)


def _explained(made: rf.Cascade, certificate: rf.Certificate, filters: Sequence[str]) -> rf.Certificate:
    """The certificate with what it speaks of, the rule in words, who answers, and what is saved."""
    said = [*words.filtered_by(filters), *words.rule_and_saving(made, certificate)] if certificate else []
    return replace(certificate, notes=(*certificate.notes, *said))


def _proxies(problem: rf.Problem) -> list[str]:
    return list(dict.fromkeys(str(limit.proxy) for limit in problem.limits if limit.proxy is not None))


def _summary(made: rf.Cascade, certificate: rf.Certificate) -> dict[str, Any]:
    found = {"settings": len(made), "n_aside": made.n_aside, "certificate": certificate.to_dict()}
    if not certificate:
        return found | {"models": None, "thresholds": None, "shares": None}
    policy = made.policy(certificate)
    return found | {"models": policy.models, "thresholds": policy.thresholds, "shares": policy.shares}


def _say(made: rf.Cascade) -> None:
    models, examples = len(made.runs), made.runs.n_examples
    offered = f"{len(made):,} {made.kind}s of up to {made.stages} of {models} models x {examples:,} examples."
    say(" ".join([offered, *words.what_decides(made)]), "dim")
    if rows := words.comparison_rows(made):
        show_grid(make_console(), *rows)


def _learnt(made: rf.Cascade) -> list[Section]:
    """For the page: what the rule was learnt from, what was left out and why, and its price beside that of simple rules."""
    rows = words.comparison_rows(made)
    if rows is None:
        return []  # the notes below the verdict say it all
    lead, header, cells = rows
    return [Section("What the rule was learnt from", f"{lead.strip()}.", header, cells, words.what_decides(made))]


def _no_reference(what: str, names: Any) -> InvalidInputError:
    return InvalidInputError(
        f"a drop must be taken from a reference, which is one of the models; {what}. Models: {', '.join(names)}."
    )


def _folder(out: Path) -> None:
    try:
        out.mkdir(exist_ok=True)
    except OSError as error:
        raise rf.StoreError(f"the folder '{out}' must be writable; {error.strerror}.") from None


def _is_number(runs: Any, name: str) -> bool:
    return name in runs.values or (name in runs.examples and runs.examples[name].dtype.kind in "iuf")


def _useful(runs: Any, name: str) -> bool:
    """Numbers, and texts of few kinds, can be learnt from; texts that name or are the example cannot."""
    return name not in ("example", "prompt") and (
        runs.examples[name].dtype.kind in "iuf" or 1 < runs.examples[name].nunique() <= 50
    )


def _mostly_known(runs: Any, name: str) -> bool:
    """Whether every model has a number for most of its answers; of an answer without it nobody would ever be sure."""
    return bool((np.isnan(runs.value(name)).mean(axis=1) < 0.5).all())


_INSTEAD = "Serve the policy itself: riskfront serve policy.json --config models.toml"
#: router -> why its configuration cannot hold a policy, and what to use
_WHY = {
    "litellm": "the fallbacks of LiteLLM fire on errors, never on low confidence: every request would stay on the first "
    f"model. {_INSTEAD}, or let a LiteLLM proxy call it: riskfront.serving.PolicyProvider",
    "semantic-router": "the confidence of the vLLM Semantic Router is a number of its own, with one threshold for "
    f"all models, and no test here can show that it decides as the policy does. {_INSTEAD}",
}


def refuse_exports(names: Sequence[str]) -> None:
    """Raise an error that says why, if a policy is to be written for another router."""
    for name in names:
        why = _WHY.get(name, f"nothing shows that it would decide as the policy does. {_INSTEAD}")
        raise InvalidInputError(f"a policy cannot be exported to '{name}': {why}.")
