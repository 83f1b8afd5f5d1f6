"""What a policy would have done on other runs of its models, to check it on new data."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd

from riskfront._cascades import confidence as confidences
from riskfront._cascades.cascade_settings import Stages, described
from riskfront._cascades.confidence import LearntConfidence
from riskfront._cascades.gain import LearntGain
from riskfront._cascades.known_examples import must_be_new
from riskfront._cascades.outcomes import Outcomes, accounted, failed_calls
from riskfront._cascades.policy import Policy
from riskfront._cascades.routes import all_routes
from riskfront._data.intake import Intake
from riskfront._data.logs.runs import Runs
from riskfront._data.table import LossTable
from riskfront._support.arrays import FloatArray
from riskfront.errors import InvalidInputError


def replay(policy: Policy, runs: Runs) -> LossTable:
    """A table of the policy, and of the references its limits compare with, on new runs of their models; or on the log of a
    policy at work, which holds one answer a request."""
    if _one_answer_each(policy, runs):
        return _as_answered(policy, runs)
    limits = policy.certificate.problem.limits
    references = [limit.drop_from for limit in limits if limit.drop_from is not None]
    alone = [name for name in references if name in runs.names and (name,) != policy.models]
    lacking = [name for name in (*policy.models, *references) if name not in runs.names]
    if lacking:
        raise InvalidInputError(
            f"the new runs must hold every model of the policy and every reference; '{lacking[0]}' is missing. "
            f"Runs: {', '.join(runs.names)}."
        )
    if policy.example_fingerprints is not None:
        must_be_new(runs, policy.models, policy.example_fingerprints)
    bounds = {name: (low, high) for name, (low, high) in policy.certificate.loss_bounds.items()}
    losses = [name for name in policy.certificate.problem.losses if name in runs.values]
    runs = runs.only(list(dict.fromkeys([*policy.models, *alone])))
    outcomes, configs = _outcomes(policy, runs, alone)
    columns = {name: outcomes.column(name) for name in losses}
    groups = {str(name): runs.examples[name].to_numpy() for name in runs.examples if name != "example"}
    used = {limit.per for limit in limits} | {limit.given for limit in limits}
    return LossTable.of_columns(
        configs,
        {name: column for name, (column, _) in columns.items()},
        {k: v for k, v in groups.items() if k in used},
        bounds,
        missing={name: missing for name, (_, missing) in columns.items() if missing is not None},
        account=accounted(runs, "score"),
    )


def _one_answer_each(policy: Policy, runs: Runs) -> bool:
    """Whether every request was answered once, by whichever model: a log of the policy at work, not of its models."""
    answered = np.sum([~np.isnan(array) for array in runs.values.values()], axis=0) > 0
    return len(policy.models) > 1 and bool((answered.sum(axis=0) == 1).all())


def _as_answered(policy: Policy, runs: Runs) -> LossTable:
    """A table of the answers that were given, and of the reference where its score stands beside them, "score of large".

    Requests that the reference was not asked on say nothing of a drop and are left out. An answer that nobody scored, such as
    that of a request which no model answered, counts as the worst.
    """
    limits = policy.certificate.problem.limits
    strange = [name for name in runs.names if name not in policy.models and not _is_nobody(name)]
    if strange:
        raise InvalidInputError(
            f"a log with one answer a request must hold answers of the policy's models, {', '.join(policy.models)}; "
            f"'{strange[0]}' is none of them. Leave out what another policy answered: --where 'model != {strange[0]}'."
        )
    references = list(dict.fromkeys(limit.drop_from for limit in limits if limit.drop_from is not None))
    needed = {loss for limit in limits for loss in limit.term.losses}
    own = {name: values for name in needed if (values := _logged(runs, name)) is not None}
    lacking = sorted(needed - set(own)) + [
        f"{limit.loss} of {limit.drop_from}"
        for limit in limits
        if limit.drop_from is not None and _logged(runs, f"{limit.loss} of {limit.drop_from}") is None
    ]
    if lacking:
        raise InvalidInputError(
            f"a log with one answer a request must have a column '{lacking[0]}', which a limit of the policy needs; it has "
            f"{', '.join(runs.values)}. A reference is asked beside the policy on some requests, drawn at random."
        )
    read = runs.n_examples
    columns = [_logged(runs, f"{limit.loss} of {limit.drop_from}") for limit in limits if limit.drop_from is not None]
    asked = np.logical_and.reduce([np.ones(read, bool), *(~np.isnan(c) for c in columns if c is not None)])
    if not asked.any():
        raise InvalidInputError(
            f"a log with one answer a request must hold the reference's score on some requests; '{limits[0].loss} of "
            f"{references[0]}' is empty. Ask it beside the policy on some, drawn at random."
        )
    runs, own = runs.at(np.flatnonzero(asked)), {name: values[asked] for name, values in own.items()}
    unscored = int(np.logical_or.reduce([np.isnan(own[name]) for name in needed]).sum())
    intake = Intake.whole(read).without("the reference was not asked", read - runs.n_examples).with_worst(unscored)
    for name in policy.certificate.problem.losses:  # what is only minimised may be unknown
        logged = _logged(runs, name)
        own.setdefault(name, np.full(runs.n_examples, np.nan) if logged is None else logged)
    losses = {
        name: np.stack([values, *(_of_reference(runs, name, r, values) for r in references)])
        for name, values in own.items()
    }
    own_config = policy.certificate.config
    configs = [own_config, *({**dict.fromkeys(own_config, "none"), "models": name} for name in references)]
    used = {limit.per for limit in limits} | {limit.given for limit in limits}
    groups = {str(name): runs.examples[name].to_numpy() for name in runs.examples if name in used}
    bounds = {name: (low, high) for name, (low, high) in policy.certificate.loss_bounds.items() if name in losses}
    return LossTable(configs, losses, groups, bounds).with_intake(intake)


def _is_nobody(name: str) -> bool:
    """Whether a request was answered by no model."""
    return name.strip().lower() in ("", "nan", "none")


def _of_reference(runs: Runs, name: str, reference: str, own: FloatArray) -> FloatArray:
    """What the reference scored, as logged beside the answers; the answers' own where no limit compares this column."""
    column = _logged(runs, f"{name} of {reference}")
    return own if column is None else column


def _logged(runs: Runs, name: str) -> FloatArray | None:
    """(examples,): a column of a log with one answer a request; None if it has none."""
    if name in runs.values:
        return np.asarray(np.fmax.reduce(runs.values[name], axis=0))
    there = name in runs.examples and runs.examples[name].dtype.kind in "biuf"
    return runs.examples[name].to_numpy(dtype=np.float64) if there else None


def _outcomes(policy: Policy, runs: Runs, alone: list[str]) -> tuple[Outcomes, pd.DataFrame]:
    """What the policy, first, and each reference by itself would have scored and taken, and the settings they are."""
    if isinstance(policy.confidence, LearntGain):
        routes = all_routes(policy.confidence, runs, alone, failed_calls(runs)).with_singles_last(len(alone))
        return Outcomes.by_gain(policy.kind, runs, policy.confidence, routes), routes.configs
    if policy.kind == "router":
        runs = confidences.known_of_prompts(runs, policy.confidence)
    limits = [np.array([t]) for t in (*policy.thresholds, *[0.0] * (len(runs) - len(policy.thresholds)))]
    stages = _stages(policy, runs, alone)
    known = _confidences(policy.confidence, policy.models, runs)
    outcomes = Outcomes.by_confidence(policy.kind, runs, policy.confidence, known, limits, stages)
    return outcomes, described(stages, runs.names, limits)


def _confidences(confidence: str | LearntConfidence, models: Sequence[str], runs: Runs) -> FloatArray:
    """(runs, examples); a reference that is no stage, and a model that is alone, is never asked how sure it is."""
    unasked = np.ones(runs.n_examples)
    if isinstance(confidence, LearntConfidence):
        rows = [
            confidence.of(name, confidence.features_of(runs, name)) if name in models else unasked
            for name in runs.names
        ]
        return np.stack(rows)
    return np.tile(unasked, (len(runs), 1)) if len(models) == 1 else confidences.column(runs, confidence)


def _stages(policy: Policy, runs: Runs, alone: list[str]) -> Stages:
    """The policy first, then each reference by itself."""
    most, always = len(policy.models), len(runs)
    models = [[*range(most)], *([runs.row(name), *[-1] * (most - 1)] for name in alone)]
    gates = [[*range(most - 1)], *([always] * (most - 1) for _ in alone)]
    return Stages(np.array(models, dtype=np.int64), np.array(gates, dtype=np.int64).reshape(len(models), most - 1))
