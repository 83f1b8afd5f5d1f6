"""Cascade and Router: every order of models and every threshold, from one run a model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from riskfront.arrays import FloatArray
from riskfront.cascades import confidence as confidences
from riskfront.cascades.columns import CascadeColumn, calls, paid_samples
from riskfront.cascades.confidence import LearntConfidence
from riskfront.cascades.made_of import contents, fingerprints
from riskfront.cascades.settings import all_stages, described
from riskfront.certificates.certificate import Certificate
from riskfront.errors import InvalidInputError
from riskfront.logs.runs import Runs
from riskfront.losses.splits import split_examples
from riskfront.losses.table import LossTable
from riskfront.losses.values import is_number, whole_number
from riskfront.methods import ParetoTesting

if TYPE_CHECKING:
    from riskfront.cascades.policy import Policy

#: what every model that is called takes, as against what the answer is worth
PAID = ("cost", "cost_usd", "total_cost", "price", "latency", "tokens", "input_tokens", "output_tokens")
_SHARE, _SHARE_LEARNT = 0.1, 0.2
_MANY = 20_000
Thresholds = int | Sequence[float] | Mapping[str, Sequence[float]]


class Cascade:
    """Ask a model, stop if its confidence reaches a threshold, else ask the next; the last one always answers.

    Thresholds that are quantiles, and a confidence that is learnt, come from examples that are set aside: they enter neither
    planning nor testing, because a setting must be fixed before the examples that test it are looked at.

    Args:
        runs: one run a model on the same examples; runs that lack some are left out.
        stages: the largest number of models in a row.
        confidence: a column of the runs (a log-probability, the score of a judge, the agreement of repeated samples), the
            higher the surer; or a LearntConfidence.
        thresholds: how many for each model, as quantiles of its confidence; or the numbers themselves, for all models or by
            model, in which case nothing is set aside for them.
        models: names of the runs to use; all without it.
        score: the column to keep up.
        aside: share of the examples to set aside; 0.1, or 0.2 if the confidence is learnt.
        seed: of the choice of these examples.

    Examples:
        >>> import tempfile
        >>> import numpy as np
        >>> import pandas as pd
        >>> import riskfront as rf
        >>> random = np.random.default_rng(0)
        >>> easy = random.random(2000)
        >>> right = {"small": easy > 0.4, "large": random.random(2000) > 0.05}
        >>> logs = [
        ...     {"model": name, "example": k, "score": float(right[name][k]), "cost": cost, "sure": easy[k]}
        ...     for name, cost in (("small", 1), ("large", 10)) for k in range(2000)
        ... ]
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     pd.DataFrame(logs).to_parquet(f"{folder}/runs.parquet")
        ...     runs = rf.read_runs(f"{folder}/runs.parquet")
        >>> cascade = rf.Cascade(runs, confidence="sure", thresholds=[0.2, 0.4, 0.5, 0.6])
        >>> problem = rf.Problem("score drop <= 0.03", minimize="cost", reference="large")
        >>> certificate = rf.calibrate(cascade.table(), problem)
        >>> cascade.policy(certificate).models
        ('small', 'large')
    """

    kind: ClassVar[str] = "cascade"

    def __init__(
        self,
        runs: Runs,
        *,
        stages: int = 2,
        confidence: str | LearntConfidence = "confidence",
        thresholds: Thresholds = 20,
        models: Sequence[str] | None = None,
        score: str = "score",
        aside: float | None = None,
        seed: int = 0,
    ) -> None:
        runs = runs if models is None else runs.only(models)
        paid = [name for name in PAID if name in runs.values]
        named = [confidence] if isinstance(confidence, str) and confidence in runs.values else []
        runs = runs.complete([score, *paid, *named])
        if len(runs) < 2:
            raise InvalidInputError(f"a {self.kind} must have at least two models to choose from; got {len(runs)}.")
        self._all, self._logged = runs, [score, *paid, *named]
        self.stages = min(whole_number("stages", stages, 1), len(runs))
        self.score, self._paid = score, paid
        learnt = isinstance(confidence, LearntConfidence)
        share = aside if aside is not None else _SHARE_LEARNT if learnt else _SHARE
        self._check_confidence(runs, confidence)
        if learnt or isinstance(thresholds, int):
            kept_aside, rest = split_examples(runs.n_examples, share, seed, contents(runs, self._logged))
            learning, self.runs = runs.at(np.sort(kept_aside)), runs.at(np.sort(rest))
            self.n_aside = learning.n_examples
        else:
            learning = self.runs = runs
            self.n_aside = 0
        self.confidence = confidence.fit(learning, score) if isinstance(confidence, LearntConfidence) else confidence
        self.thresholds = _thresholds(thresholds, self._confidences(learning), self.runs.names)
        self._gates = confidences.trusted(self._confidences(self.runs), self.thresholds)
        self._stages = all_stages(self.thresholds, self.stages)

    def _check_confidence(self, runs: Runs, confidence: str | LearntConfidence) -> None:
        if isinstance(confidence, str) and np.isnan(confidences.column(runs, confidence)).any():
            raise InvalidInputError(f"the confidence '{confidence}' must be known for every answer; some lack it.")

    def _confidences(self, runs: Runs) -> FloatArray:
        """(runs, examples)."""
        if isinstance(self.confidence, LearntConfidence):
            return self.confidence.matrix(runs)
        return confidences.column(runs, self.confidence)

    def __len__(self) -> int:
        return len(self._stages.models)

    @property
    def method(self) -> ParetoTesting:
        """Pareto testing as it suits so many settings: beyond some thousands a bet on every single one takes too long, so the
        front is that of risks, and there is no net. Decided by the number of settings alone."""
        if len(self) <= _MANY:
            return ParetoTesting()
        return ParetoTesting(opt_fraction=0.3, smooth=False, net=0.0, by_p_value=False)

    def __repr__(self) -> str:
        return (
            f"{type(self).__name__}({len(self):,} settings of up to {self.stages} of {len(self.runs)} models; "
            f"{self.runs.n_examples:,} examples, {self.n_aside:,} set aside)"
        )

    def table(
        self,
        reference: str | None = None,
        *,
        binary: Sequence[str] = (),
        bounds: Mapping[str, tuple[float, float]] | None = None,
    ) -> LossTable:
        """What every setting would have scored and taken, computed when asked for.

        Args:
            reference: a model; adds the loss "score drop", its score minus that of the setting (signed).
            binary: ("score",) if a score can only ever be 0 or 1, which allows the exact test.
            bounds: of losses that are limited; (0, 1) for the score by default.
        """
        values = {name: self._values(name, name in binary) for name in [self.score, *self._paid]}
        columns = {name: self._column(array, paid=name in self._paid) for name, array in values.items()}
        declared = dict(bounds or {})
        columns["calls"] = self._calls()
        if reference is not None:
            columns[f"{self.score} drop"] = self._column(values[self.score], reference=self.runs.row(reference))
            low, high = declared.get(self.score, (0.0, 1.0))
            declared[f"{self.score} drop"] = (low - high, high - low)
        groups = {
            str(name): self.runs.examples[name].to_numpy()
            for name in self.runs.examples
            if name != "example" and self.runs.examples[name].nunique() <= 100
        }
        return LossTable.of_columns(
            described(self._stages, self.runs.names, self.thresholds), columns, groups, bounds=declared
        )

    def _values(self, name: str, binary: bool) -> Any:
        values = self.runs.value(name)
        if not binary:
            return values
        if not np.isin(values, (0, 1)).all():
            raise InvalidInputError(f"a 0/1 loss must hold only 0 and 1; '{name}' does not.")
        return values.astype(bool)

    def _column(self, values: Any, *, paid: bool = False, reference: int | None = None) -> CascadeColumn:
        once = None
        if paid:
            values, once = paid_samples(self.runs, self.confidence, values)
        return CascadeColumn(self._stages, self._gates, values, paid, reference, once)

    def _calls(self) -> CascadeColumn:
        return calls(self._column(self.runs.value(self.score)))

    def policy(self, certificate: Certificate, choice: int = 0) -> Policy:
        """What may be deployed: the chosen setting of a certificate (the best, or the ``choice``-th) with its thresholds."""
        from riskfront.cascades.policy import Policy

        config = certificate.configs[choice]
        names = str(config["models"])
        frame = described(self._stages, self.runs.names, self.thresholds)
        same = (frame["models"] == names).to_numpy(copy=True)
        for column in frame.columns[1:]:
            same &= np.array([value == config[column] for value in frame[column]])
        if not same.any():
            raise InvalidInputError(f"the certificate must be one of this {self.kind}; it certifies {config}.")
        row = int(np.argmax(same))
        order = [run for run in self._stages.models[row] if run >= 0]
        limits = [float(config[f"threshold {stage + 1}"]) for stage in range(len(order) - 1)]
        return Policy(
            self.kind,
            tuple(self.runs.names[run] for run in order),
            tuple(limits),
            self.confidence,
            self._shares(row, len(order)),
            certificate,
            fingerprints(self._all, [self.runs.names[run] for run in order], self._logged),
        )

    def _shares(self, row: int, stages: int) -> tuple[float, ...]:
        """The share of examples that each stage answered, over all examples that were planned and tested on."""
        open_, shares = np.ones(self.runs.n_examples, dtype=bool), []
        for stage in range(stages):
            stop = self._gates[self._stages.gates[row, stage]] if stage < stages - 1 else np.ones_like(open_)
            shares.append(float((open_ & stop).mean()))
            open_ = open_ & ~stop
        return tuple(shares)


class Router(Cascade):
    """Decide before any model is called: a score of the prompt, the higher the easier, and only one model is paid.

    As a Cascade, but ``confidence`` must be known of the example itself: a column that is the same for all models, or a
    LearntConfidence whose features are.

    Examples:
        >>> import pandas as pd
        >>> from riskfront.logs.runs import Runs
        >>> easy = [k / 100 for k in range(100)]  # known of the prompt
        >>> names = pd.DataFrame({"model": ["small", "large"]}), pd.DataFrame({"example": range(100), "easy": easy})
        >>> runs = Runs(*names, {"score": np.stack([np.array(easy) > 0.4, np.ones(100)])})
        >>> len(Router(runs, confidence="easy", thresholds=[0.25, 0.5, 0.75]))  # routers to choose from
        8
    """

    kind: ClassVar[str] = "router"

    def _check_confidence(self, runs: Runs, confidence: str | LearntConfidence) -> None:
        features = confidence.features if isinstance(confidence, LearntConfidence) else [confidence]
        logged = [name for name in features if name in runs.values and not _same_for_all(runs.value(name))]
        if logged:
            raise InvalidInputError(
                f"a router decides before any model is called; '{logged[0]}' is only known with an answer. Use a Cascade, or a "
                "score of the prompt."
            )
        super()._check_confidence(runs, confidence)

    def _column(self, values: Any, *, paid: bool = False, reference: int | None = None) -> CascadeColumn:
        return super()._column(values, paid=False, reference=reference)

    def _calls(self) -> CascadeColumn:
        return self._column(np.ones((len(self.runs), self.runs.n_examples)))


def _same_for_all(values: FloatArray) -> bool:
    return bool((values == values[0]).all())


def _thresholds(given: Thresholds, confidence: FloatArray, names: Sequence[str]) -> list[FloatArray]:
    """For each run its thresholds, ascending."""
    if isinstance(given, int) and not isinstance(given, bool):
        return confidences.quantiles(confidence, whole_number("thresholds", given, 1))
    by_model = given if isinstance(given, Mapping) else dict.fromkeys(names, given)
    lacking = [name for name in names if name not in by_model]
    if lacking:
        raise InvalidInputError(f"thresholds must be given for every model; '{lacking[0]}' has none.")
    for name in names:
        if isinstance(by_model[name], str) or not all(is_number(value) for value in by_model[name]):  # type: ignore[union-attr]
            raise InvalidInputError(f"thresholds must be finite numbers; got {by_model[name]!r} for '{name}'.")
    return [np.unique(np.asarray(by_model[name], dtype=np.float64)) for name in names]
