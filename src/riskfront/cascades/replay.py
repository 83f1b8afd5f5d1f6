"""What a policy would have done on other runs of its models, to check it on new data."""

from __future__ import annotations

import numpy as np

from riskfront.arrays import BoolArray
from riskfront.cascades import confidence as confidences
from riskfront.cascades.cascade import PAID
from riskfront.cascades.columns import CascadeColumn, paid_samples
from riskfront.cascades.confidence import LearntConfidence
from riskfront.cascades.made_of import must_be_new
from riskfront.cascades.policy import Policy
from riskfront.cascades.settings import Stages, described
from riskfront.errors import InvalidInputError
from riskfront.logs.runs import Runs
from riskfront.losses.table import LossTable


def replay(policy: Policy, runs: Runs) -> LossTable:
    """A table of the policy, and of the references its limits compare with, on new runs of their models."""
    limits = policy.certificate.problem.limits
    references = [limit.drop_from for limit in limits if limit.drop_from is not None]
    alone = [name for name in references if name in runs.names and (name,) != policy.models]
    lacking = [name for name in (*policy.models, *references) if name not in runs.names]
    if lacking:
        raise InvalidInputError(
            f"the new runs must hold every model of the policy and every reference; '{lacking[0]}' is missing. "
            f"Runs: {', '.join(runs.names)}."
        )
    if policy.made_of is not None:
        must_be_new(runs, policy.models, policy.made_of)
    bounds = {name: (low, high) for name, (low, high) in policy.certificate.loss_bounds.items()}
    losses = [name for name in policy.certificate.problem.losses if name in runs.values]
    runs = runs.only(list(dict.fromkeys([*policy.models, *alone])))
    runs = runs.complete(losses)
    if isinstance(policy.confidence, LearntConfidence):
        known = np.stack(  # a reference that is no stage is never asked how sure it is
            [
                policy.confidence.of(name, policy.confidence.features_of(runs, name))
                if name in policy.models
                else np.ones(runs.n_examples)
                for name in runs.names
            ]
        )
    else:
        known = confidences.column(runs, policy.confidence)
    limits_of = [np.array([t]) for t in (*policy.thresholds, *[0.0] * (len(runs) - len(policy.thresholds)))]
    stages = _stages(policy, runs, alone)
    gates = confidences.trusted(known, limits_of)
    columns = {name: _column(policy, runs, name, stages, gates) for name in losses}
    groups = {str(name): runs.examples[name].to_numpy() for name in runs.examples if name != "example"}
    used = {limit.per for limit in limits} | {limit.given for limit in limits}
    return LossTable.of_columns(
        described(stages, runs.names, limits_of), columns, {k: v for k, v in groups.items() if k in used}, bounds
    )


def _column(policy: Policy, runs: Runs, name: str, stages: Stages, gates: BoolArray) -> CascadeColumn:
    if policy.kind != "cascade" or name not in PAID:
        return CascadeColumn(stages, gates, runs.value(name))
    values, once = paid_samples(runs, policy.confidence, runs.value(name))
    return CascadeColumn(stages, gates, values, paid=True, once=once)


def _stages(policy: Policy, runs: Runs, alone: list[str]) -> Stages:
    """The policy first, then each reference by itself."""
    most, always = len(policy.models), len(runs)
    models = [[*range(most)], *([runs.row(name), *[-1] * (most - 1)] for name in alone)]
    gates = [[*range(most - 1)], *([always] * (most - 1) for _ in alone)]
    return Stages(np.array(models, dtype=np.int64), np.array(gates, dtype=np.int64).reshape(len(models), most - 1))
