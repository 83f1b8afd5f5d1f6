"""What was given and did not count, or not as declared."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from scipy.special import betaln

from riskfront._calibration.monitoring.watched_limit import Counted, WatchedLimit

_UNCOVERED = 100  # names of groups never calibrated that are remembered
_DOUBT = 1e-4  # a declared audit is doubted wrongly with this probability, ever


class Accounts:
    """left_out: limit -> missing outcomes that were left out as declared. uncovered: group name -> group that was not there at
    calibration, or NO_GROUP for outcomes without one -> its outcomes. audits: limit -> outcomes with a label, and all of them.
    """

    def __init__(self, limits: Sequence[WatchedLimit]) -> None:
        names = [str(watched.limit) for watched in limits]
        self.left_out = dict.fromkeys(names, 0)
        self.uncovered: dict[str, dict[str, int]] = {w.limit.per: {} for w in limits if w.limit.per is not None}
        self.audits: dict[str, list[int]] = {name: [0, 0] for name in names}

    def count(self, watched: WatchedLimit, counted: Counted) -> None:
        name = str(watched.limit)
        self.left_out[name] += counted.left_out
        self.audits[name][0] += int(counted.audited.sum()) + counted.left_out  # what is left out was audited, too
        self.audits[name][1] += counted.due

    def count_uncovered(self, per: str, group: str, outcomes: int) -> None:
        seen = self.uncovered[per]
        name = group if group in seen or len(seen) < _UNCOVERED else "(others)"
        seen[name] = seen.get(name, 0) + outcomes

    def doubtful_audits(self, limits: Sequence[WatchedLimit]) -> dict[str, tuple[int, int, float]]:
        """Limit -> outcomes with a label, all outcomes, the declared share, where the two disagree beyond chance."""
        found = {}
        for watched in limits:
            labelled, due = self.audits[str(watched.limit)]
            if watched.has_fixed_audit and _log_mixture(labelled, due, watched.rate) >= -np.log(_DOUBT):
                found[str(watched.limit)] = labelled, due, watched.rate
        return found

    def to_dict(self) -> dict[str, Any]:
        return {"left_out": self.left_out, "uncovered": self.uncovered, "audits": self.audits}

    def restore(self, data: Mapping[str, Any]) -> None:
        self.left_out, self.uncovered, self.audits = data["left_out"], data["uncovered"], data["audits"]


def _log_mixture(hits: int, n: int, rate: float) -> float:
    """The logarithm of a bet that mixes all other rates: valid at any time, however often one looks."""
    mixed = betaln(hits + 0.5, n - hits + 0.5) - betaln(0.5, 0.5)
    return float(mixed - hits * np.log(rate) - (n - hits) * np.log1p(-rate))
