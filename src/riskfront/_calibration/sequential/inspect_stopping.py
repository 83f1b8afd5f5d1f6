"""Early stopping for Inspect: samples of a model that has already passed or failed are not run."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from riskfront._problems.limits import Limit
from riskfront.errors import InvalidInputError
from riskfront.statistics._e_processes import EProcesses

_HOPELESS = 2.5  # standard errors beyond which a model is given up


class InspectStopping:
    """An ``EarlyStopping`` of inspect-ai with an e-process behind it.

    One object for each run of a model: ``Task(..., early_stopping=InspectStopping("error <= 0.1"))``, in a function with
    ``@task``. Samples count in the order of the data set, whatever order they end in, so shuffle it: ``dataset.shuffle(seed)``.
    Epochs of a sample are averaged to one outcome, for they are not independent. A sample that fails is never completed by
    Inspect: the bet waits for it, all samples are run, and it counts as the worst when the task ends. With
    ``eval(..., score_on_error=True)`` it is scored, and nothing waits.

    Args:
        limit: an upper limit on the mean loss, such as "error <= 0.1".
        delta: the probability of a false "passed", of all models together.
        models: how many models are compared; each gets an equal share of delta.
        loss: score -> loss in [0, 1]; by default 1 minus the score of the only scorer, or of the one named ``scorer``.
        scorer: which scorer counts.

    Examples:
        >>> stopping = InspectStopping("error <= 0.1", models=3)
        >>> print(stopping.limit)
        error <= 0.1
    """

    def __init__(
        self,
        limit: str | Limit,
        *,
        delta: float = 0.1,
        models: int = 1,
        loss: Callable[[Any], float] | None = None,
        scorer: str | None = None,
    ) -> None:
        self.limit = Limit.parse(limit) if isinstance(limit, str) else limit
        plain = self.limit.at_most is not None and self.limit.name == self.limit.loss
        if not plain or not 0 < self.limit.value < 1:
            raise InvalidInputError(
                f"early stopping tests a limit such as 'error <= 0.1' on a loss in [0, 1]; got '{self.limit}'."
            )
        if not 0 < delta < 1 or models < 1:
            raise InvalidInputError(f"delta must lie in (0, 1) and models be at least 1; got {delta} and {models}.")
        self._level, self._loss, self._scorer = delta / models, loss, scorer
        self._order: list[Any] = []
        self._epochs = 1
        self._scores: dict[Any, dict[int, float]] = {}
        self._counted = 0
        self.bets = EProcesses([self.limit.value], self._level, 1)

    async def start_task(self, task: Any, samples: list[Any], epochs: int) -> str:
        """Called by Inspect at the beginning."""
        if self._order:
            raise InvalidInputError(
                "an InspectStopping serves one run of one model; this one has begun another: outcomes of two models would be "
                "mixed, and a model that is run until it passes passes wrongly. Make one for each run, as a function with "
                "@task does."
            )
        self._order, self._epochs = [sample.id for sample in samples], epochs
        self.bets = EProcesses([self.limit.value], self._level, len(samples))
        return "riskfront"

    async def schedule_sample(self, id: Any, epoch: int) -> Any:
        """Called by Inspect before a sample: an EarlyStop if the model has passed or failed."""
        if self.verdict == "open":
            return None
        from inspect_ai.util import EarlyStop  # Inspect is there: it calls

        return EarlyStop(id=id, epoch=epoch, reason=f"'{self.limit}' {self.verdict}")

    async def complete_sample(self, id: Any, epoch: int, scores: Mapping[str, Any]) -> None:
        """Called by Inspect after a sample."""
        self._scores.setdefault(id, {})[epoch] = self._loss_of(scores)
        self._bet()

    async def complete_task(self) -> dict[str, Any]:
        """Called by Inspect at the end; what is found is in the log."""
        self._bet(ended=True)
        return {
            "limit": str(self.limit),
            "verdict": self.verdict,
            "p_value": float(self.bets.p_values[0]),
            "tested_at": self._level,
            "samples": int(self.bets.seen[0]),
        }

    @property
    def verdict(self) -> str:
        """ "passed", "failed" (given up, or all samples are used), or "open"."""
        within = self.bets.total[0] <= self.limit.value * self.bets.seen[0]
        if self.bets.p_values[0] <= self._level and within:
            return "passed"
        hopeless = bool(self.bets.hopeless(_HOPELESS)[0]) and self.bets.seen[0] >= 16
        return "failed" if hopeless or (self._order and self._counted == len(self._order)) else "open"

    def _bet(self, *, ended: bool = False) -> None:
        """Bet on the samples whose epochs are all there, in the order of the data set; those that lack one when the task has
        ended have failed."""
        while self._counted < len(self._order) and self.verdict == "open":
            known = list(self._scores.get(self._order[self._counted], {}).values())
            if len(known) < self._epochs and not ended:
                return
            known += [1.0] * (self._epochs - len(known))
            self.bets.add(np.array([[np.mean(known)]]))
            self._counted += 1

    def _loss_of(self, scores: Mapping[str, Any]) -> float:
        if self._scorer is None and len(scores) != 1:
            raise InvalidInputError(f"name the scorer that counts, as scorer='...'; this task has {sorted(scores)}.")
        found = scores[self._scorer or next(iter(scores))]
        score = getattr(found, "score", found)
        if self._loss is None:
            from inspect_ai.scorer import value_to_float  # as Inspect counts a score: C is 1, I is 0, P is a half

            value = 1 - float(value_to_float()(score.value))
        else:
            value = float(self._loss(score))
        if not 0 <= value <= 1:
            raise InvalidInputError(f"a loss must lie in [0, 1]; got {value:g}.")
        return value
