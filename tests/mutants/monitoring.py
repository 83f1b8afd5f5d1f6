"""Faults of monitors."""

from __future__ import annotations

from typing import Any

import numpy as np

from riskfront._calibration.monitoring.outcome_files import OutcomeFile
from riskfront._calibration.monitoring.promise import Promise
from riskfront._calibration.monitoring.watched_limit import WatchedLimit
from riskfront.statistics import _audited_gains as audited_gains
from riskfront.statistics import _change_detection as change_detection
from tests.mutants.mutant import Mutant, everywhere, method


def stake_sees_its_loss() -> None:
    """Half of the stake where the outcome turns out to be good."""
    real = change_detection.advance
    change_detection.advance = lambda sums, gains, *given, **options: real(  # type: ignore[assignment]
        sums, np.where(gains < 0, gains / 2, gains), *given, **options
    )


def restart_forgets_its_weight() -> None:
    """Every start has the weight 1, and the threshold is still 1 / delta."""
    real = change_detection.advance

    def broken(sums: Any, gains: Any, shares: Any, weights: Any, rate: Any = 0.02, **options: Any) -> Any:
        return real(sums, gains, shares, weights, rate, **{**options, "weighted": False})

    change_detection.advance = broken  # type: ignore[assignment]


def delta_not_divided() -> None:
    Promise.threshold = lambda self, watches, limits: 1 / self.delta  # type: ignore[method-assign]


def a_tenth_of_the_run_length() -> None:
    """The threshold is a tenth of what it must be."""
    Promise.threshold = lambda self, watches, limits: self.run_length / 10  # type: ignore[method-assign]


def prediction_not_corrected() -> None:
    """Audited outcomes bet on what was seen, the others on what is predicted, and nothing puts the two right."""
    real = audited_gains.audited_gains

    def broken(moments: Any, losses: Any, proxies: Any, audited: Any, alpha: float, q: Any, least: float) -> Any:
        after, gains = real(moments, losses, proxies, audited, alpha, q, least)
        high = np.nan_to_num(proxies) > 0.5
        return after, np.where(high & ~audited, np.abs(gains), gains)

    everywhere(real, broken)


def probabilities_of_audits_forgotten() -> None:
    method(WatchedLimit, "_probabilities", lambda real: lambda self, columns: np.full(columns.number, self.rate))


def missing_left_out() -> None:
    def broken(real: Any) -> Any:
        def read(self: Any, columns: Any) -> Any:
            object.__setattr__(self._rules, "missing", "leave-out")
            return real(self, columns)

        return read

    method(WatchedLimit, "read", broken)


def counted_twice_after_resume() -> None:
    """Reading goes on a little before where it ended: some outcomes count again."""
    real = OutcomeFile.__init__

    def broken(self: Any, path: Any, position: Any = None, others: Any = ()) -> None:
        real(self, path, position, others)
        if position is not None:
            object.__setattr__(self, "_check", lambda file: None)
            header = len(b"error\n")
            self.position = type(position)(max(header, position.offset - 600), position.header, position.rows)

    OutcomeFile.__init__ = broken  # type: ignore[method-assign]


def ranks_not_uniform() -> None:
    """p-values that are a little too small."""
    real = change_detection.conformal_p_values

    def broken(counts: Any, scores: Any, edges: Any, uniforms: Any) -> Any:
        after, p_values = real(counts, scores, edges, uniforms)
        return after, p_values**1.3

    everywhere(real, broken)


HARD = "monitor: hard streams"
MUTANTS = [
    Mutant("monitor: a stake sees its own loss", HARD, stake_sees_its_loss),
    Mutant("monitor: a restart forgets its weight", HARD, restart_forgets_its_weight),
    Mutant("monitor: delta not divided among groups", "monitor: groups in bursts", delta_not_divided),
    Mutant("monitor: a tenth of the run length", "monitor: run length", a_tenth_of_the_run_length),
    Mutant("monitor: predictions not corrected", "monitor: audited, with a proxy", prediction_not_corrected),
    Mutant(
        "monitor: probabilities of audits forgotten",
        "monitor: audited where it hurts",
        probabilities_of_audits_forgotten,
    ),
    Mutant("monitor: missing outcomes left out", "monitor: labels of errors are lost", missing_left_out),
    Mutant("monitor: counted twice after resume", "monitor: resumed from its state", counted_twice_after_resume),
    Mutant("monitor: ranks that are not uniform", "monitor: scores that stay alike", ranks_not_uniform),
]
