"""cascade: from runs of models to a certified policy."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Annotated, Any

import typer

import riskfront as rf
from riskfront.cascades.cascade import PAID
from riskfront.cascades.exports import FORMATS, as_text
from riskfront.cascades.policy import slim
from riskfront.cli.groups import grouped
from riskfront.cli.options import (
    Json,
    MethodName,
    ProblemOptions,
    PValue,
    Seed,
    parse_bounds,
    parse_names,
    parse_number,
    show,
)
from riskfront.errors import InvalidInputError
from riskfront.losses.values import known
from riskfront.methods import make_method
from riskfront.reporting.terminal import make_console, number
from riskfront.runtime import files

#: columns that are a confidence wherever they are logged
_CONFIDENCES = ("confidence", "judge", "logprob", "agreement")


@dataclass(frozen=True, slots=True)
class CascadeOptions:
    """Which cascades are offered."""

    stages: Annotated[int, typer.Option(help="Largest number of models in a row.")] = 2
    confidence: Annotated[
        str, typer.Option(help="Column that says how sure an answer is; several, separated by commas, are learnt from.")
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

    def make(self, path: str, seed: int) -> rf.Cascade:
        runs = rf.read_runs(path, where=self.where)
        kind = rf.Router if self.router else rf.Cascade
        numbers = [parse_number(text, "--thresholds") for text in parse_names(self.thresholds)]
        single = len(numbers) == 1 and numbers[0] >= 1 and float(numbers[0]).is_integer() and "." not in self.thresholds
        return kind(
            runs,
            stages=self.stages,
            confidence=self._confidence(runs),
            thresholds=int(numbers[0]) if single else numbers,
            models=parse_names(self.models) or None,
            aside=self.aside,
            seed=seed,
        )

    def _confidence(self, runs: Any) -> str | rf.LearntConfidence:
        named = parse_names(self.confidence)
        if len(named) == 1 and _is_number(runs, named[0]):
            return named[0]
        if named:
            return rf.LearntConfidence(named)
        logged = [] if self.router else [name for name in _CONFIDENCES if name in runs.values]
        if logged:
            return logged[0]
        about = [str(name) for name in runs.examples if name != "example" and _useful(runs, str(name))]
        took = [] if self.router else [name for name in PAID if name in runs.values]
        if not about and not took:
            raise InvalidInputError(
                "a confidence must be named (--confidence): nothing was logged to learn it from. "
                f"Columns: {', '.join([*runs.values, *map(str, runs.examples)])}."
            )
        return rf.LearntConfidence([*about, *took])


@grouped
def cascade(
    runs: Annotated[str, typer.Argument(help="Runs of several models: what import wrote, or a folder of logs.")],
    wanted: ProblemOptions,
    offered: CascadeOptions,
    method: MethodName = "pareto-testing",
    p_value: PValue = "auto",
    seed: Seed = 0,
    out: Annotated[Path | None, typer.Option(help="Folder for the policy, its certificate and report.")] = None,
    export: Annotated[str, typer.Option(help=f"Other routers to write for: {', '.join(FORMATS)}.")] = "",
    as_json: Json = False,
) -> int:
    """Find a cascade or router of models for which all limits hold, with proof."""
    formats = [known(name, FORMATS, "format") for name in parse_names(export)]
    if out is not None:
        _folder(out)
    problem = wanted.problem(p_value)
    made = offered.make(runs, seed)
    table = made.table(binary=parse_names(offered.binary), bounds=parse_bounds(offered.bounds))
    if "cost" in problem.losses and "cost" not in table.loss_names:
        raise InvalidInputError(
            f"the runs must hold a cost to limit or minimise it; they hold {', '.join(table.loss_names)}. Add prices: "
            "riskfront import ... --prices 'small=0.001, large=0.03', or minimise calls."
        )
    if not as_json:
        _say(made)
    chosen = made.method if method == made.method.name else make_method(method)
    certificate = slim(rf.calibrate(table, problem, method=chosen, seed=seed))
    certificate = replace(certificate, source={"cascade": asdict(offered)})
    written: list[Path] = []
    if out is not None:
        certificate.save(out / "certificate.json")
        rf.write_report(certificate, out / "report.html")
        written += [out / "certificate.json", out / "report.html"]
        if certificate and certificate.guaranteed:
            policy = replace(made.policy(certificate), certificate=certificate)
            policy.save(out / "policy.json")
            written.append(out / "policy.json")
            for name in formats:
                files.write_text(out / f"{name}.json", as_text(FORMATS[name](policy)))
                written.append(out / f"{name}.json")
    if as_json:
        print(json.dumps(_summary(made, certificate), allow_nan=False))
    else:
        show(certificate, False, written)
        if certificate:
            _say_shares(made.policy(certificate))
    return 0 if certificate and certificate.guaranteed else 1


def recompute(claimed: rf.Certificate, path: str) -> rf.Certificate:
    """The certificate of a cascade again, from its runs."""
    offered = CascadeOptions(**(claimed.source or {})["cascade"])
    made = offered.make(path, claimed.seed or 0)
    table = made.table(binary=parse_names(offered.binary), bounds=parse_bounds(offered.bounds))
    method = make_method(claimed.method, **claimed.parameters)
    return slim(rf.calibrate(table, claimed.problem, method=method, seed=claimed.seed or 0))


def _summary(made: rf.Cascade, certificate: rf.Certificate) -> dict[str, Any]:
    found = {"settings": len(made), "n_aside": made.n_aside, "certificate": certificate.to_dict()}
    if not certificate:
        return found | {"models": None, "thresholds": None, "shares": None}
    policy = made.policy(certificate)
    return found | {"models": policy.models, "thresholds": policy.thresholds, "shares": policy.shares}


def _say(made: rf.Cascade) -> None:
    console = make_console()
    how = made.confidence if isinstance(made.confidence, str) else f"learnt from {', '.join(made.confidence.features)}"
    console.print(
        f"{len(made):,} {made.kind}s of up to {made.stages} of {len(made.runs)} models x {made.runs.n_examples:,} examples; "
        f"confidence: {how}; {made.n_aside:,} more examples set aside for it and its thresholds",
        markup=False,
        style="dim",
    )


def _say_shares(policy: rf.Policy) -> None:
    shares = ", ".join(
        f"{name} {number(100 * share)} %" for name, share in zip(policy.models, policy.shares, strict=True)
    )
    make_console().print(f"Answered by: {shares}.", markup=False)


def _folder(out: Path) -> None:
    try:
        out.mkdir(exist_ok=True)
    except OSError as error:
        raise rf.StoreError(f"the folder '{out}' must be writable; {error.strerror}.") from None


def _is_number(runs: Any, name: str) -> bool:
    return name in runs.values or (name in runs.examples and runs.examples[name].dtype.kind in "iuf")


def _useful(runs: Any, name: str) -> bool:
    """Numbers, and texts of few kinds, can be learnt from; texts that name each example cannot."""
    return runs.examples[name].dtype.kind in "iuf" or 1 < runs.examples[name].nunique() <= 50
