"""What cascades of logged runs would have scored and taken, and where that is not known.

A call that failed is not trusted: the cascade, and the router, goes on to the next model, as a policy does when a call raises
an error. An answer whose confidence is missing is not trusted either. Where the last model fails, its score is the worst.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass

import numpy as np

from riskfront._cascades.cascade_settings import Stages
from riskfront._cascades.confidence import LearntConfidence, trusted
from riskfront._cascades.gain import LearntGain
from riskfront._cascades.lazy_losses import CascadeColumn
from riskfront._cascades.routes import Routes
from riskfront._cascades.run_time import OF_SAMPLES, names_of
from riskfront._data.intake import Intake
from riskfront._data.logs.runs import Runs
from riskfront._support.arrays import Array, BoolArray, FloatArray, IntArray
from riskfront.errors import InvalidInputError

#: what every model that is called takes, as against what the answer is worth
PAID = ("cost", "cost_usd", "total_cost", "price", "latency", "tokens", "input_tokens", "output_tokens")


@dataclass(frozen=True, eq=False)
class Outcomes:
    """Columns of cascades or routers over some runs.

    Args:
        kind: "cascade" or "router".
        runs: one run a model.
        stages: which models, in which order, with which gates.
        stops: (gates, examples): where a setting stops at a gate; the last gate always does.
        called: (gates, examples): where a model is called at all; None if whoever is reached is called.
        sampled: "all" if every model is asked several times, to see whether its answers agree, "first" if only the model asked
            first is, "" if none.
    """

    kind: str
    runs: Runs
    stages: Stages
    stops: BoolArray
    called: BoolArray | None
    sampled: str = ""

    @classmethod
    def by_confidence(
        cls,
        kind: str,
        runs: Runs,
        confidence: str | LearntConfidence,
        known: FloatArray,
        thresholds: Sequence[FloatArray],
        stages: Stages,
    ) -> Outcomes:
        """Of settings that compare a confidence, known (runs, examples), with the thresholds of each run."""
        failed = failed_calls(runs)
        of_gates = np.repeat(np.arange(len(runs)), [len(limits) for limits in thresholds])
        stops = trusted(known, thresholds)
        called = stops.copy() if kind == "router" and failed.any() else None
        stops[:-1] &= ~failed[of_gates]
        return cls(kind, runs, stages, stops, called, "all" if set(OF_SAMPLES) & set(names_of(confidence)) else "")

    @classmethod
    def by_gain(cls, kind: str, runs: Runs, learnt: LearntGain, routes: Routes) -> Outcomes:
        """Of settings that route by gain a dollar."""
        called = routes.called if kind == "cascade" or failed_calls(runs).any() else None
        sampled = "first" if set(OF_SAMPLES) & set(names_of(learnt)) else ""
        return cls(kind, runs, routes.stages, routes.stops, called, sampled)

    def column(
        self, name: str, *, binary: bool = False, reference: int | None = None
    ) -> tuple[CascadeColumn, CascadeColumn | None]:
        """A loss of every setting, and where it is missing; None if it is known everywhere.

        Args:
            name: a column of the runs; of ``PAID`` ones every model that is called takes its part.
            binary: whether it can only ever be 0 or 1.
            reference: the run from whose value the drop is taken; None for the value itself.
        """
        values, once = self._paid_samples(name)
        paid = name in PAID and (self.kind == "cascade" or self.called is not None)
        missing = np.isnan(values)
        if binary and not np.isin(values[~missing], (0, 1)).all():
            raise InvalidInputError(f"a 0/1 loss must hold only 0 and 1; '{name}' does not.")
        fill = 0.0 if missing.all() else float(np.nanmin(values))
        filled = np.where(missing, fill, values).astype(np.bool_ if binary else np.float64, copy=False)
        column = self._over(filled, paid, reference, None if once is None else np.where(np.isnan(once), fill, once))
        if not missing.any():
            return column, None
        if reference is not None:
            missing = missing | missing[reference]
        return column, self._over(missing, paid, None, None if once is None else np.isnan(once))

    def calls(self) -> CascadeColumn:
        """How many models a setting calls."""
        ones = np.ones((len(self.runs), self.runs.n_examples))
        return self._over(ones, self.kind == "cascade" or self.called is not None, None, None)

    def _over(self, values: Array, paid: bool, reference: int | None, once: Array | None) -> CascadeColumn:
        asked, first_only = self.called if paid else None, self.sampled == "first"
        return CascadeColumn(self.stages, self.stops, values, paid, reference, once, asked, first_only)

    def _paid_samples(self, name: str) -> tuple[FloatArray, FloatArray | None]:
        """What a run takes when it is asked how sure it is, and when it is not: to see whether samples agree, all are paid."""
        values = self.runs.value(name)
        if self.kind != "cascade" or name not in PAID or not self.sampled or "samples" not in self.runs.values:
            return values, None
        return values * self.runs.value("samples"), values

    def answers(self, row: int) -> IntArray:
        """(examples,): which stage of a setting answers."""
        stages = int((self.stages.models[row] >= 0).sum())
        stops = [self.stops[self.stages.gates[row, stage]] for stage in range(stages - 1)]
        return np.argmax(np.stack([*stops, np.ones(self.runs.n_examples, dtype=bool)]), axis=0)

    def shares(self, row: int) -> tuple[float, ...]:
        """The share of examples that each stage of a setting answers."""
        stages = int((self.stages.models[row] >= 0).sum())
        return tuple(float(share) for share in np.bincount(self.answers(row), minlength=stages) / self.runs.n_examples)


def failed_calls(runs: Runs) -> BoolArray:
    """(runs, examples): where every call of a run failed."""
    shares = runs.values.get("failed")
    return np.zeros((len(runs), runs.n_examples), dtype=bool) if shares is None else np.asarray(shares == 1)


def accounted(runs: Runs, score: str) -> Callable[[Collection[str], Collection[str]], Intake]:
    """The account of a table of cascades: what became of the answers of the runs."""

    def account(limited: Collection[str], objectives: Collection[str]) -> Intake:
        needed = {score if name == f"{score} drop" else name for name in limited or [score]}
        return runs.account(needed, objectives, score)

    return account
