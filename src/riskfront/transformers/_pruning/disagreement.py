"""A trace with unlabelled texts beside it: where a setting answers differently from the full model, with a label or without.

Wherever the two agree nothing is lost, so disagreement is a proxy of the accuracy drop that needs no label. Each labelled text
has a batch of unlabelled ones of its own (``_data/unlabelled_batches.py`` says why), whose mean disagreement is one more
column.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import replace
from functools import cached_property
from typing import Any

import numpy as np

from riskfront._data.splits import permutation
from riskfront._problems.problem import Problem
from riskfront._problems.proxies import batch_column
from riskfront._support.arrays import Array, BoolArray, FloatArray, IntArray
from riskfront.errors import InvalidInputError
from riskfront.transformers._pruning.network import Setting
from riskfront.transformers._pruning.pruning_trace import PruningTrace

DISAGREEMENT = "disagreement"
#: the losses that disagreement stands for wherever nobody names a proxy
DROPS = ("accuracy_drop", "accuracy_drop_clipped")
_GIVEN = "answered"


class TraceWithUnlabelled:
    """What `PruningTrace` is to `rf.tune`, with three more columns: ``disagreement``, and its mean over the text's own batch of
    unlabelled texts, over all of them and over those that are answered. `elsewhere` is the trace of at least as many unlabelled
    texts as `trace` has.
    """

    def __init__(self, trace: PruningTrace, elsewhere: PruningTrace, seed: int) -> None:
        size = len(elsewhere) // len(trace)
        if size == 0:
            raise InvalidInputError(
                f"there must be at least as many unlabelled texts as calibration texts, so that each of these has one of its "
                f"own; got {len(elsewhere):,} for {len(trace):,}."
            )
        self.trace, self.elsewhere = trace, elsewhere
        self.examples, self.groups, self.bounds = trace.examples, trace.groups, trace.bounds
        self.fingerprint = f"{trace.fingerprint} {elsewhere.fingerprint}"
        salt = hashlib.sha256(self.fingerprint.encode()).digest()
        self._batches = permutation(len(elsewhere), seed, salt)[: size * len(trace)].reshape(-1, size)

    def __len__(self) -> int:
        return len(self.trace)

    def losses(self, config: Mapping[str, Any] | Setting, examples: IntArray) -> dict[str, Array]:
        """The columns of one setting for the examples at these positions."""
        positions = np.asarray(examples)
        here, _ = disagreement(self.trace, config, positions)
        there, answered = disagreement(self.elsewhere, config, self._batches[positions].ravel())
        shape = len(positions), self._batches.shape[1]
        return {
            **self.trace.losses(config, positions),
            DISAGREEMENT: here,
            batch_column(DISAGREEMENT): _means(there.reshape(shape), np.ones(shape, dtype=bool), here),
            batch_column(DISAGREEMENT, given=_GIVEN): _means(there.reshape(shape), answered.reshape(shape), here),
        }

    @cached_property
    def described(self) -> dict[str, Any]:
        """Which unlabelled texts these are, for the certificate."""
        return {
            "examples": len(self.elsewhere),
            "used": int(self._batches.size),
            "sha256": self.elsewhere.tokens.fingerprint,
        }


def disagreement(
    trace: PruningTrace, config: Mapping[str, Any] | Setting, positions: IntArray
) -> tuple[BoolArray, BoolArray]:
    """(positions,) each: where a setting answers differently from the full model, and where it answers at all."""
    setting = Setting.of(config)
    full = trace.passes(0.0, 0.0, positions).probabilities[:, -1].argmax(axis=1)
    answer, _, _ = trace.answers(setting, positions)
    return answer.argmax(axis=1) != full, answer.max(axis=1) >= setting.abstain


def _means(values: BoolArray, kept: BoolArray, own: BoolArray) -> FloatArray:
    """The mean over what counts in each batch; a text's own value where nothing does, so that the two cancel."""
    counts = kept.sum(axis=1)
    return np.where(counts > 0, (values & kept).sum(axis=1) / np.maximum(counts, 1), own).astype(np.float32)


def with_disagreement(problem: Problem) -> Problem:
    """The problem with disagreement as proxy of every drop that may have one. Unlabelled texts have no label, so a limit in
    every label is tested by labels alone."""
    limits = []
    for limit in problem.limits:
        plain = limit.loss in DROPS and limit.proxy is None and limit.per is None and limit.quantile is None
        other = limit.over or limit.worst or limit.weights or limit.padded or limit.gap_per or limit.drop_from
        bets = limit.p_value in ("auto", "betting") and limit.given in (None, _GIVEN)
        limits.append(replace(limit, proxy=DISAGREEMENT) if plain and not other and bets else limit)
    if all(limit.proxy is None for limit in limits):
        raise InvalidInputError(
            f"unlabelled texts help with limits on {' and '.join(DROPS)}, or with a proxy, as 'error <= 0.1 proxy "
            f"{DISAGREEMENT}'; there is none."
        )
    return problem.with_limits(limits)


def check_proxies(problem: Problem, *, unlabelled: bool) -> None:
    """Raise a clear error if a limit names a proxy that a trace cannot have."""
    for limit in problem.limits:
        if limit.proxy is None:
            continue
        if not unlabelled:
            raise InvalidInputError(f"the limit '{limit}' names a proxy; give unlabelled texts, with --unlabelled.")
        if limit.proxy != DISAGREEMENT or limit.per is not None or limit.given not in (None, _GIVEN):
            raise InvalidInputError(
                f"the proxy of a text is '{DISAGREEMENT}' with the full model, over all texts or given {_GIVEN}, since "
                f"unlabelled texts have no label; got '{limit}'."
            )
