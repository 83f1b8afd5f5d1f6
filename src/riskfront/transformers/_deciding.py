"""accelerate_frontier: certify a whole range of limits at once; choose_limits: choose among them after looking."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd

from riskfront._calibration.certificates.uses_of_test_set import UseOfTestSet
from riskfront._calibration.frontier_plan import ValueGrid
from riskfront._calibration.frontier_result import Frontier
from riskfront._problems.problem import Problem
from riskfront._support.values import plain
from riskfront.errors import InvalidInputError
from riskfront.methods import make_method
from riskfront.methods._plan import parameters
from riskfront.transformers._accelerate import Plan, check_problem, thresholds_of, trace_of, trained_parts
from riskfront.transformers._adaptive_classifier import AdaptiveClassifier
from riskfront.transformers._certifying import Traced, frontier_of, keep_examples, record_question
from riskfront.transformers._data.known_texts import fresh_texts
from riskfront.transformers._data.texts import TextParts
from riskfront.transformers._folder import CERTIFICATE, ENCODER, FRONTIER, GAIN, write_guard
from riskfront.transformers._pruning.latency import clocks_of
from riskfront.transformers._pruning.pruning_trace import PruningTrace
from riskfront.transformers._recomputing import single_trace
from riskfront.transformers._speed_up import measure_gain, speed_and_accuracy

MOST = 300_000_000  # outcomes of a column: settings times texts, about a gigabyte


def accelerate_frontier(
    model: str | os.PathLike[str],
    data: str | os.PathLike[str] | pd.DataFrame | Any,
    problem: Problem,
    alphas: Mapping[str, Sequence[float]],
    out: str | os.PathLike[str],
    plan: Plan | None = None,
    *,
    device: str | None = None,
    say: Callable[[str], None] = lambda line: None,
    progress: bool | None = None,
) -> Frontier:
    """As `accelerate`, for whole ranges of limits that hold together: look at the frontier, then `choose_limits`.

    Args:
        model: as for `accelerate`, and so are ``data``, ``out``, ``plan``, ``device`` and ``say``.
        problem: limits and objectives; the numbers of limits in ``alphas`` do not matter.
        alphas: limit -> its values, such as {"accuracy_drop": [0.01, 0.02, 0.05]}, as for `riskfront.frontier`.

    The folder holds the frontier, and no certificate until limits are chosen.
    """
    plan, folder = plan or Plan(), Path(out)
    check_decision(problem, alphas, plan)
    trained, parts = trained_parts(model, data, problem, folder, plan, device=device, say=say, progress=progress)
    return decide(trained, parts, problem, alphas, folder, plan, say=say, progress=progress)


def check_decision(problem: Problem, alphas: Mapping[str, Sequence[float]], plan: Plan) -> None:
    """Before hours of training."""
    check_problem(problem, plan.grid)
    grid = ValueGrid.of(problem, alphas)
    for which, one in enumerate(grid.varying):
        for place in (0, len(one.values) - 1):
            check_problem(grid.alone(which, place), plan.grid)
    if plan.search != "grid":
        raise InvalidInputError(
            f"a frontier of an accelerated model tests the whole grid of thresholds; got search={plan.search!r}. Leave the "
            "search out, or certify limits that are known beforehand."
        )


def decide(
    trained: AdaptiveClassifier,
    parts: TextParts,
    problem: Problem,
    alphas: Mapping[str, Sequence[float]],
    folder: str | os.PathLike[str],
    plan: Plan | None = None,
    *,
    say: Callable[[str], None] = lambda line: None,
    progress: bool | None = None,
) -> Frontier:
    """Certify all values of the limits together, and write the classifier with its frontier, without a certificate."""
    plan, target = plan or Plan(), Path(folder)
    check_decision(problem, alphas, plan)
    fresh = fresh_texts(parts, trained.learnt, leave_out=plan.leave_out_repeats)
    thresholds = thresholds_of(trained, parts.validation, plan, problem)
    clocks = None
    if "latency" in problem.losses:
        clocks = clocks_of(trained.network, trained.max_length, thresholds.precision, target / "traces")
    trace = trace_of(trained, fresh.texts, target, plan, progress=progress, clocks=clocks)
    configs, grid = thresholds.space.grid(1), ValueGrid.of(problem, alphas)
    if len(configs) * len(trace) > MOST:
        raise InvalidInputError(
            f"a frontier can have at most {MOST:,} outcomes; got {len(configs):,} settings of {len(trace):,} texts. Take fewer "
            "thresholds, such as 30 for exits, or fewer calibration rows."
        )
    say(
        f"calibrating on {len(trace):,} texts, {len(configs):,} settings, {len(list(grid.combinations())):,} limits ..."
    )
    method = make_method(plan.method)
    use = UseOfTestSet.of(
        grid.at([0] * len(grid.varying)),
        method.name,
        parameters(method),
        decided_by=[plan.seed, thresholds.space.to_dict(), grid.values, trace.fingerprint],
        said=f"seed {plan.seed}, {len(list(grid.combinations())):,} combinations of limits that hold together",
    )
    earlier = record_question(target, fresh.texts.contents, use)
    found = frontier_of(trace, configs, grid, method, plan.seed, progress=progress)
    found = replace(found, notes=(*fresh.notes, *found.notes), earlier_looks=earlier, rules=_rules(found, trace))
    keep_examples(target, trace, plan.seed, notes=fresh.notes, configs=configs)
    replace(trained, calibrated=frozenset(fresh.texts.contents)).save_pretrained(target)
    found.save(target / FRONTIER)
    return found


def choose_limits(folder: str | os.PathLike[str], limits: Mapping[str, float], choice: str = "") -> AdaptiveClassifier:
    """Choose from the frontier of a folder. The certificate goes into the folder, and the classifier answers by it.

    Args:
        folder: what `accelerate_frontier` wrote.
        limits: limit -> one of its values, such as {"accuracy_drop": 0.02}.
        choice: which of several chosen settings comes first, as for `riskfront calibrate --choose`.
    """
    target = Path(folder)
    certificate = Frontier.load(target / FRONTIER).choose(limits, choice)
    found = replace(AdaptiveClassifier.from_pretrained(target), certificate=certificate, setting=None)
    certificate.save(target / CERTIFICATE)
    write_guard(target, "AdaptiveClassifier", ENCODER, certificate)
    (target / GAIN).unlink(missing_ok=True)
    trace = single_trace(certificate, target)[0] if certificate else None
    if isinstance(trace, PruningTrace):  # with unlabelled texts there is no frontier
        measure_gain(found, trace, trace.examples).save(target)
    return found


def _rules(found: Frontier, trace: Traced) -> dict[str, str]:
    """Setting as JSON -> its speed-up and its accuracy, for every setting that is chosen somewhere on the frontier."""
    columns, full = list(found.setting_columns.values()), trace.losses({}, trace.examples)
    said = {}
    for record in found.path[columns].drop_duplicates().to_dict("records"):
        config = {name: plain(record[column]) for name, column in zip(found.setting_columns, columns, strict=True)}
        said[json.dumps(config, ensure_ascii=False)] = speed_and_accuracy(full, trace.losses(config, trace.examples))
    return said
