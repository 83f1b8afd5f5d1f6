"""Cascade and Router: every order of models and every threshold, from one run a model."""

from __future__ import annotations

import warnings
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np
import pandas as pd

from riskfront._calibration.certificates.certificate import Certificate
from riskfront._calibration.frontier import frontier
from riskfront._calibration.frontier_result import Frontier
from riskfront._cascades import confidence as confidences
from riskfront._cascades.confidence import LearntConfidence
from riskfront._cascades.gain import LearntGain, price_column
from riskfront._cascades.outcomes import (
    Outcomes,
    accounted,
    must_be_asked_as_often,
    said_by_answers,
    table_of,
    usual_times,
)
from riskfront._cascades.policy import Policy
from riskfront._cascades.replay import (
    contents,
    digests_of_logs,
    examples_digest,
    fingerprints,
    must_be_others,
    runs_that_count,
)
from riskfront._cascades.routes import LEVEL, all_stages, described
from riskfront._cascades.run_time import OF_A_CALLER, must_exist_when_run, names_of
from riskfront._cascades.words import rules_in_words
from riskfront._data.identity.fingerprints import Repeats
from riskfront._data.logs.runs import Runs
from riskfront._data.reading.column_roles import PAID
from riskfront._data.splits import split_examples
from riskfront._data.table import LossTable
from riskfront._problems.limits import Limit
from riskfront._problems.objectives import Objective
from riskfront._problems.problem import Problem
from riskfront._support.arrays import FloatArray, IntArray
from riskfront._support.values import is_number, whole_number
from riskfront.errors import InvalidInputError, LeftOutWarning
from riskfront.methods import Method, OrderedKnob, ParetoTesting

_SHARE, _SHARE_LEARNT = 0.1, 0.2
_MANY = 20_000
_NAMED = 5  # models that a notice lists
_MOST_GROUPS = 100
Thresholds = int | Sequence[float] | Mapping[str, Sequence[float]]


class Cascade:
    """Ask a model, stop if its confidence reaches a threshold, else ask the next; the last one always answers.

    A model whose call failed, or whose confidence is missing, is not trusted: the next one is asked. A missing score
    counts as the worst wherever a limit needs it; a missing price changes the mean price only.

    Thresholds that are quantiles, and a confidence that is learnt, come from examples that are set aside: they enter neither
    planning nor testing, because a setting must be fixed before the examples that test it are looked at.

    Args:
        runs: one run a model on the same examples; what is missing is not left out.
        stages: the largest number of models in a row.
        confidence: what decides. A LearntGain ranks by predicted gain a dollar, a LearntConfidence by the probability that an
            answer is right. A column of the runs (a log-probability, the score of a judge, the agreement of repeated samples)
            is turned into that probability: whether more of it is better is learnt. Without it: LearntGain if prices
            differ, else the column "confidence".
        thresholds: how many for each model; or the numbers themselves, for all models or by model, in which case nothing is
            set aside for them, and a column is compared with them as it is: at its threshold or above, a model is trusted.
        models: names of the runs to use; all without it.
        score: the column to keep up.
        aside: share of the examples to set aside; 0.1 for one column, 0.2 if more is learnt.
        seed: of the choice of these examples.
        repeats: of prompts that come again under other names with the same numbers of every model. "refuse" is an error,
            "keep-one" leaves the copies out, "independent" says that users sent them independently of each other.

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
        confidence: str | LearntConfidence | LearntGain | None = None,
        thresholds: Thresholds = 20,
        models: Sequence[str] | None = None,
        score: str = "score",
        aside: float | None = None,
        seed: int = 0,
        repeats: Repeats = "refuse",
    ) -> None:
        if confidence is not None:
            must_exist_when_run(confidence)
        runs = runs if models is None else runs.only(models)
        runs.value(score)
        if len(runs) < 2:
            raise InvalidInputError(f"a {self.kind} must have at least two models to choose from; got {len(runs)}.")
        counted = isinstance(thresholds, int)
        paid = [name for name in PAID if name in runs.values]
        confidence = self._resolved(runs, confidence, counted, stages)
        decides = names_of(confidence)
        named = [name for name in decides if name in runs.values and len(decides) == 1]
        runs, self._notes = runs_that_count(runs, repeats)
        self._repeats: Repeats = repeats
        self._notes += _failed(runs)
        self._compared = repeats == "independent"  # declared: equal losses say nothing then
        _say_what_is_missing(runs, score)
        self._all, self._logged = runs, list(dict.fromkeys([score, *paid, *named]))
        self._times = usual_times(runs)
        self.stages = min(whole_number("stages", stages, 1), len(runs))
        self.score, self._paid = score, paid
        several = isinstance(confidence, LearntGain) or len(decides) > 1
        share = aside if aside is not None else _SHARE_LEARNT if several else _SHARE
        runs = self._checked(runs, confidence)
        if counted or not isinstance(confidence, str):
            kept_aside, rest = split_examples(runs.n_examples, share, seed, contents(runs, self._logged))
            learning = runs.at(np.sort(kept_aside))
            self.runs = runs.at(np.sort(rest), "set aside for confidence and thresholds")
            self.n_aside = learning.n_examples
        else:
            learning = self.runs = runs
            self.n_aside = 0
        self._learn(learning, confidence, thresholds)

    def _learn(self, learning: Runs, confidence: str | LearntConfidence | LearntGain, thresholds: Thresholds) -> None:
        """Fix what decides, and every setting, by the examples set aside alone; then apply it to the others."""
        if isinstance(confidence, LearntGain):
            if isinstance(thresholds, Mapping):
                raise InvalidInputError(
                    "thresholds of a gain a dollar must be a number of them, or one list for all models."
                )
            levels = whole_number("thresholds", thresholds, 1) if isinstance(thresholds, int) else _numbers(thresholds)
            gain = confidence.fit(learning, self.score, kind=self.kind, levels=levels)
            self.confidence: str | LearntConfidence | LearntGain = gain
            self.thresholds = [np.array(gain.levels(start)) for start in gain.starts]
            self._outcomes, routes = Outcomes.by_gain(self.kind, self.runs, gain, self.runs.names, self._times)
            self._stages, self._rules, self._configs = routes.stages, routes.rules, routes.configs
            return
        fitted = confidence.fit(learning, self.score) if isinstance(confidence, LearntConfidence) else confidence
        self.confidence = fitted
        self.thresholds = _thresholds(thresholds, confidences.matrix(fitted, learning), self.runs.names)
        self._stages = all_stages(self.thresholds, self.stages)
        self._rules = [None] * len(self._stages.models)
        self._configs = described(self._stages, self.runs.names, self.thresholds)
        self._outcomes = self._over(self.runs)

    def _resolved(
        self, runs: Runs, given: str | LearntConfidence | LearntGain | None, counted: bool, stages: int
    ) -> str | LearntConfidence | LearntGain:
        """What decides, where that was left open or is one column: its direction is not taken for granted."""
        if given is None:
            given = LearntGain() if counted and stages == 2 and price_column(runs) is not None else "confidence"
        if isinstance(given, LearntGain) and stages != 2:
            raise InvalidInputError(
                f"a route by gain a dollar asks at most two models (stages=2); got {stages}. For more stages use "
                "LearntConfidence."
            )
        if isinstance(given, str) and counted:
            confidences.must_be_known(confidences.column(runs, given), given)
            return LearntConfidence([given])
        return given

    def _checked(self, runs: Runs, confidence: str | LearntConfidence | LearntGain) -> Runs:
        """The runs, if the confidence can be told from them."""
        if isinstance(confidence, str):
            confidences.must_be_known(confidences.column(runs, confidence), confidence)
        return runs

    def __len__(self) -> int:
        return len(self._stages.models)

    @property
    def most_calls(self) -> int:
        """How many models a setting calls at most; by gain a dollar, where calls fail, all of them."""
        return int(self._stages.models.shape[1])

    @property
    def method(self) -> ParetoTesting:
        """Pareto testing as it suits so many settings: beyond some thousands a bet on every single one takes too long, so the
        front is that of risks, and there is no fallback test. Decided by the number of settings alone."""
        if len(self) <= _MANY:
            return ParetoTesting()
        return ParetoTesting(opt_fraction=0.3, smooth=False, holm_share=0.0, by_p_value=False)

    def method_for(self, problem: Problem) -> Method:
        """The method that ``riskfront cascade`` uses for a problem; for a cascade it is ``method``."""
        return self.method

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
        also: Sequence[str] = (),
    ) -> LossTable:
        """The scores and costs of every setting, computed when asked for.

        Args:
            reference: a model; adds the loss "score drop", its score minus that of the setting (gains offset losses).
            binary: ("score",) if a score can only ever be 0 or 1, which allows the exact test.
            bounds: of losses that are limited; (0, 1) for the score by default. The most that calls cost is known where runs
                were priced by call (``runs.priced``); a limit on the mean of other prices, tokens or latencies needs bounds.
            also: further columns of the runs that are limited, minimised or proxies: of an answer that of its model, of an
                example the same for all models.
        """
        found = {name: self._outcomes.column(name, binary=name in binary) for name in [self.score, *self._paid]}
        others = [name for name in dict.fromkeys(also) if name not in found]
        made = self._over(_with_values(self.runs, others)) if others else self._outcomes
        found |= {name: made.column(name, binary=name in binary) for name in others}
        declared = {**self._known_bounds(), **(bounds or {})}
        if reference is not None:
            drop = f"{self.score} drop"
            row = self.runs.row(reference)
            found[drop] = self._outcomes.column(self.score, binary=self.score in binary, reference=row)
            low, high = declared.get(self.score, (0.0, 1.0))
            declared[drop] = (low - high, high - low)
        found["calls"] = self._outcomes.calls()
        account = accounted(self.runs, self.score)
        table = table_of(self._configs, found, self._groups(self.runs, found), declared, account)
        table = table.with_failures(self.runs.failures(self.score)).without_default_bounds(PAID)
        table = table.with_compared_examples() if self._compared else table
        table.notes = self._notes
        table.examples_digest = examples_digest(self._all)  # another cascade of the same logs asks the same examples
        return table

    def _known_bounds(self) -> dict[str, tuple[float, float]]:
        """What a setting takes at most, where that is declared: by its number of stages, and by the prices of calls."""
        prices = [self.runs.call_prices.get(name) for name in self.runs.names]
        known = [price for price in prices if price is not None]
        found = {"calls": (0.0, float(self.most_calls))}
        if "cost" in self.runs.values and len(known) == len(prices) and sum(known) > 0:
            asked = self.runs.values.get("samples") if self._outcomes.sampled else None
            samples = 1.0 if asked is None else float(np.nanmax(asked))
            found["cost"] = (0.0, samples * float(sum(sorted(known)[-self.most_calls :])))
        return found

    def frontier(
        self,
        problem: Problem,
        alphas: Mapping[str, Sequence[float]],
        *,
        binary: Sequence[str] = (),
        bounds: Mapping[str, tuple[float, float]] | None = None,
        seed: int = 0,
        unlabelled: LossTable | None = None,
    ) -> Frontier:
        """Certify many values of the limits with one confidence, to choose among them after looking; each rule in words.

        Args:
            problem: as for ``calibrate``.
            alphas: limit -> its values, such as {"score drop from large": [0.01, 0.02, 0.05]}.
            binary: see ``bounds``.
            bounds: as for ``table``.
            seed: of the split into planning and testing examples.
            unlabelled: from ``unlabelled``, for limits with a proxy.
        """
        proxies = [limit.proxy for limit in problem.limits if limit.proxy is not None]
        table = self.table(binary=binary, bounds=bounds, also=proxies)
        found = frontier(
            table, problem, alphas, method=self.method, seed=seed, simultaneous=True, unlabelled=unlabelled
        )
        return replace(found, rules=rules_in_words(self, found))

    def _over(self, runs: Runs) -> Outcomes:
        """The same settings over other runs of the same models, or over these with more columns."""
        decides = self.confidence
        if isinstance(decides, LearntGain):
            return Outcomes.by_gain(self.kind, runs, decides, self.runs.names, self._times)[0]
        known = confidences.matrix(decides, runs)
        return Outcomes.by_confidence(self.kind, runs, decides, known, self.thresholds, self._stages, self._times)

    def unlabelled(
        self, runs: Runs, proxies: Sequence[str], *, bounds: Mapping[str, tuple[float, float]] | None = None
    ) -> LossTable:
        """The proxies of every setting on other, unlabelled examples: ``calibrate(..., unlabelled=...)``.

        Args:
            runs: the same models on other examples of the same source; they need no score.
            proxies: columns of these runs that stand for the score, such as that of a judge.
            bounds: of the proxies; those of the labelled table.
        """
        runs, _ = runs_that_count(runs.only(self.runs.names), self._repeats)
        must_be_others(self._all, runs, self.score, self._repeats)
        if self._times is not None and said_by_answers(self.kind, self.runs, self.confidence) - {OF_A_CALLER}:
            for name, times in zip(self.runs.names, self._times.tolist(), strict=True):
                must_be_asked_as_often(runs, [name], times)
        runs = _with_values(self._checked(runs, self.confidence), proxies)
        made = self._over(runs)
        found = {name: made.column(name) for name in proxies}
        declared = {name: pair for name, pair in (bounds or {}).items() if name in found}
        return table_of(self._configs, found, self._groups(runs, found), declared)

    def _groups(self, runs: Runs, losses: Collection[str]) -> dict[str, Any]:
        """Column of examples -> (examples,), of columns that limits may be in every group of."""
        return {
            str(name): runs.examples[name].to_numpy()
            for name in runs.examples
            if name not in ("example", "prompt", *losses)
            and name in self.runs.examples
            and _is_group(self.runs.examples[name])
        }

    def policy(self, certificate: Certificate, choice: int = 0) -> Policy:
        """What may be deployed: the chosen setting of a certificate (the best, or the ``choice``-th) with its thresholds."""
        config = certificate.configs[choice]
        row = self.row_of(config)
        order = [run for run in self._stages.models[row] if run >= 0]
        rule, decides = self._rules[row], self.confidence
        if isinstance(decides, LearntGain):
            limits = [] if rule is None else [rule[1]]
            decides = "none" if rule is None else decides.only(*rule)
        else:
            limits = [float(config[f"threshold {stage + 1}"]) for stage in range(len(order) - 1)]
        return Policy(
            self.kind,
            tuple(self.runs.names[run] for run in order),
            tuple(limits),
            decides,
            self._outcomes.shares(row),
            certificate,
            fingerprints(self._all, [self.runs.names[run] for run in order], self._logged),
            self._samples(order[: 1 if isinstance(decides, LearntGain) else -1]) if len(order) > 1 else None,
        )

    def digests(self) -> list[str]:
        """By which another cascade of the same logs is known, whatever its models, confidence or seed."""
        return digests_of_logs(self._all, self.score)

    def row_of(self, config: Mapping[str, object]) -> int:
        """The row of a setting in the table."""
        same = np.ones(len(self), dtype=bool)
        for column in self._configs.columns:
            same &= np.array([value == config.get(column) for value in self._configs[column]])
        if not same.any():
            raise InvalidInputError(f"the certificate must be one of this {self.kind}; it certifies {config}.")
        return int(np.argmax(same))

    def answered(self, certificate: Certificate, choice: int = 0) -> tuple[Policy, IntArray]:
        """The policy, and (examples,) the position of the model that answers each example."""
        policy = self.policy(certificate, choice)
        return policy, self._outcomes.answers(self.row_of(certificate.configs[choice]))

    def _samples(self, order: Sequence[int]) -> int | None:
        """How often a policy asks them, so that its numbers are means over as many answers as in the logs; None for once."""
        said = said_by_answers(self.kind, self.runs, self.confidence) - {OF_A_CALLER}
        if self._times is None or not said:
            return None
        counts = sorted({int(self._times[run]) for run in order})
        if len(counts) > 1:
            raise InvalidInputError(
                f"models whose confidence rests on several answers must be asked equally often; the logs hold "
                f"{counts[0]} answers of one and {counts[-1]} of another. Use stages=2, or evaluate them alike."
            )
        return counts[0] if counts[0] > 1 else None


class Router(Cascade):
    """Decide before any model is called: a score of the prompt, the higher the easier, and only one model is paid.

    As a Cascade, but ``confidence`` must be known of the example itself: a column that is the same for all models, or a
    LearntConfidence whose features are.

    Examples:
        >>> import pandas as pd
        >>> from riskfront._data.logs.runs import Runs
        >>> easy = [k / 100 for k in range(100)]  # known of the prompt
        >>> names = pd.DataFrame({"model": ["small", "large"]}), pd.DataFrame({"example": range(100), "easy": easy})
        >>> runs = Runs(*names, {"score": np.stack([np.array(easy) > 0.4, np.ones(100)])})
        >>> len(Router(runs, confidence="easy", thresholds=[0.25, 0.5, 0.75]))  # routers to choose from
        8
    """

    kind: ClassVar[str] = "router"

    def method_for(self, problem: Problem) -> Method:
        """By gain a dollar, levels have an order that needs no planning examples: the lower one is, the more prompts go to the
        dearest model. Where limits are on what is lost against that model, levels are tested from the lowest on, on all
        examples. Otherwise the method is ``method``. Which model is dearest was seen on the examples set aside."""
        if not isinstance(self.confidence, LearntGain) or problem.objectives != (
            Objective(str(self.confidence.price)),
        ):
            return self.method
        dearest = self.confidence.models[-1]
        drops = all(_is_drop(limit, self.score, dearest) for limit in problem.limits)
        return OrderedKnob(safest={LEVEL: "low"}) if drops else self.method

    def _checked(self, runs: Runs, confidence: str | LearntConfidence | LearntGain) -> Runs:
        if isinstance(confidence, LearntGain):
            return runs  # which columns are known before a call is decided where it is fitted
        features = names_of(confidence)
        logged = [name for name in features if name in runs.values and not confidences.same_for_all(runs.value(name))]
        if logged:
            raise InvalidInputError(
                f"a router decides before any model is called; '{logged[0]}' is only known with an answer. Use a Cascade, or a "
                "score of the prompt."
            )
        return confidences.known_of_prompts(super()._checked(runs, confidence), confidence)


def _is_drop(limit: Limit, score: str, reference: str) -> bool:
    """Whether a limit allows some loss of the score against a model, over all examples or in every group."""
    if limit.at_most is None or limit.at_most <= 0:
        return False
    return limit == Limit(
        score, at_most=limit.at_most, drop_from=reference, per=limit.per, p_value=limit.p_value, said=limit.said
    )


def _is_group(column: pd.Series[Any]) -> bool:
    """Whether limits may speak of each value of a column: values of few kinds, no vectors."""
    try:
        return bool(column.nunique() <= _MOST_GROUPS)
    except TypeError:
        return False


def _with_values(runs: Runs, names: Sequence[str]) -> Runs:
    """The runs, in which these columns of examples are also values of every answer: equal for all models, and values still."""
    of_examples = [name for name in names if name not in runs.values]
    return replace(runs, values={**runs.values, **{name: confidences.column(runs, name) for name in of_examples}})


def _failed(runs: Runs) -> tuple[str, ...]:
    """A sentence on calls that failed: of the model that a drop is taken from they make the drop smaller."""
    shares = runs.values.get("failed")
    if shares is None or not (shares > 0).any():
        return ()
    named = [
        f"{name} {100 * np.nanmean(row):.3g} %" for name, row in zip(runs.names, shares, strict=True) if (row > 0).any()
    ]
    said = (
        f"Calls that failed: {', '.join(named)}. They score the worst, also of a model that a drop is taken from: the drop is "
        "that from a model which fails as often."
    )
    return (said,)


def _say_what_is_missing(runs: Runs, score: str) -> None:
    lacks = np.isnan(runs.value(score)).sum(axis=1)
    named = [f"'{name}' ({count:,} missing)" for name, count in zip(runs.names, lacks, strict=True) if count]
    if named:
        listed = ", ".join(named[:_NAMED]) + (f" and {len(named) - _NAMED:,} more" if len(named) > _NAMED else "")
        words = (
            f"{len(named):,} of {len(runs):,} models lack a score on some of {runs.n_examples:,} examples: {listed}. Where a "
            "limit needs one, it counts as the worst there can be."
        )
        warnings.warn(LeftOutWarning(words), stacklevel=3)


def _numbers(given: Any) -> list[float]:
    if isinstance(given, str) or not all(is_number(value) for value in given) or not len(given):
        raise InvalidInputError(f"thresholds of a gain a dollar must be finite numbers; got {given!r}.")
    return [float(value) for value in given]


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
