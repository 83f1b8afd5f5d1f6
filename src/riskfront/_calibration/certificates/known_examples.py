"""Which examples a certificate was made of, so that a check on them is not taken for a check on new ones."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from riskfront._calibration.certificates.certificate import Certificate
from riskfront._calibration.certificates.uses_of_test_set import DataDigests
from riskfront._data.contents import loss_fingerprints, order_free_digests
from riskfront._data.identity.fingerprints import significant_digits
from riskfront._data.identity.shared import fingerprint_sample, sample_with_counts, seen_before, seen_before_by_counts
from riskfront._data.table import LossTable
from riskfront._problems.problem import Problem

CHOSEN_KNOWN = 8  # chosen settings that are looked at: a policy uses one of the first
_DIGITS = (5, 4, 3, 2)  # significant digits by which examples are known whose costs were rounded


def data_digests(table: LossTable, problem: Problem, exact: str) -> DataDigests:
    """Digests by which a process knows again what it asked before."""
    limited = {loss for limit in problem.limits for loss in limit.term.losses} & set(table.loss_names)
    others = set(table.loss_names) - limited
    # the examples themselves, where they are known: another model on the same rows asks the same examples again
    known_by = () if table.examples_digest is None else (table.examples_digest,)
    return DataDigests(
        exact, (*known_by, *order_free_digests(table, limited)), tuple(order_free_digests(table, others))
    )


def example_fingerprints(problem: Problem, configs: Sequence[Mapping[str, Any]], table: LossTable) -> dict[str, Any]:
    """For each chosen setting a few fingerprints of the examples: what it lost in limits and objectives."""
    if not configs:
        return {}
    columns = {str(name): table.configs[name].to_numpy() for name in table.config_names}
    wanted = configs[:CHOSEN_KNOWN]
    rows = [int(np.argmax(np.all([columns[name] == config[name] for name in config], axis=0))) for config in wanted]
    return fingerprints_of(table, problem, configs, rows)


def fingerprints_of(
    table: LossTable, problem: Problem, configs: Sequence[Mapping[str, Any]], rows: Sequence[int]
) -> dict[str, Any]:
    """The same for settings, ``configs``, that are the rows ``rows`` of a table."""
    losses = sorted(set(problem.losses) & set(table.loss_names))
    known_by = [json.dumps(config, sort_keys=True) for config in configs]
    found = {key: _samples(table, row, losses) for key, row in zip(known_by, rows, strict=False)}
    return {"losses": losses, "settings": {key: one for key, one in found.items() if one is not None}}


def known_examples(certificate: Certificate, table: LossTable, row: int) -> int:
    """About how many examples of a table are those the certificate was made of; 0 where chance could explain it."""
    losses = certificate.example_fingerprints.get("losses", [])
    key = json.dumps(certificate.config, sort_keys=True)
    one: Mapping[str, Any] | None = certificate.example_fingerprints.get("settings", {}).get(key)
    if one is None or not set(losses) <= set(table.loss_names):
        return 0
    at = np.array([row])
    if known := seen_before(one, loss_fingerprints(table, at, losses)):
        return known
    for digits, sample in one.get("digits", {}).items():  # certificates of before have none
        rounding = dict.fromkeys(losses, partial(significant_digits, digits=int(digits)))
        if known := seen_before_by_counts(sample, loss_fingerprints(table, at, losses, rounding=rounding)):
            return known
    return 0


def _samples(table: LossTable, row: int, losses: Sequence[str]) -> dict[str, Any] | None:
    """A few fingerprints of the examples by all digits of their losses, and by the first ones."""
    at = np.array([row])
    exact = fingerprint_sample(loss_fingerprints(table, at, losses))
    if exact is None:
        return None
    by_digits = {}
    for digits in _DIGITS:
        rounding = dict.fromkeys(losses, partial(significant_digits, digits=digits))
        by_digits[str(digits)] = sample_with_counts(loss_fingerprints(table, at, losses, rounding=rounding))
    return {**exact, "digits": by_digits}
