"""The same example twice: copies through tune and the estimators, copies of training rows, sorted positions."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import pandas as pd

import riskfront as rf
from riskfront.errors import InvalidInputError, NotCertifiedWarning
from tests.monte_carlo.suites.models import Zero
from tests.support.simulation import Suite, one_by_one

ALPHA, DELTA, HAIR = 0.2, 0.1, 1e-9
METHOD = rf.ParetoTesting(opt_fraction=0.3, holm_share=0)
PROBLEM = rf.Problem([rf.Limit("error", at_most=ALPHA)], minimize=["cost"], delta=DELTA)


def copied(rng: np.random.Generator, n: int, way: int) -> np.ndarray:
    """Positions among n examples: some or all of them several times, as files and resampling do it."""
    return [
        np.tile(np.arange(n), 5),
        np.repeat(np.arange(n), 20),
        rng.integers(0, n, 5 * n),  # a bootstrap sample
        np.concatenate([np.arange(n), rng.integers(0, n // 10, 5 * n)]),  # a class made as frequent as the others
    ][way]


def tune_copies(trial: int) -> bool:
    """Every setting breaks the limit by a hair, and examples were copied. To refuse is right."""
    rng = np.random.default_rng([81, trial])
    examples = rng.random((60, 2))[copied(rng, 60, trial % 4)]

    def losses(config: dict[str, int], examples: np.ndarray) -> dict[str, np.ndarray]:
        wrong = (examples[:, 0] * 997 + config["setting"] / 8) % 1 < ALPHA + HAIR
        return {"error": wrong, "cost": np.full(len(wrong), 1 / (1 + config["setting"]))}

    options: dict[str, Any] = {"search": "grid", "budget": 8, "seed": trial, "method": METHOD, "progress": False}
    try:
        return bool(rf.tune(losses, examples, rf.Space(setting=rf.Int(0, 7)), PROBLEM, **options))
    except InvalidInputError:
        return False


def evaluate_copies(trial: int) -> bool:
    """The same through evaluate and calibrate, with losses of 0 and 1 that say too little to tell copies by."""
    rng = np.random.default_rng([87, trial])
    examples = rng.random((60, 2))[copied(rng, 60, trial % 4)]

    def losses(config: dict[str, int], examples: np.ndarray) -> dict[str, np.ndarray]:
        return {"error": examples[:, 0] * 997 % 1 < ALPHA + HAIR, "cost": np.ones(len(examples))}

    try:
        table = rf.evaluate(losses, examples, [{"setting": 0}], progress=False)
        return bool(rf.calibrate(table, PROBLEM, method=METHOD, seed=trial))
    except InvalidInputError:
        return False


def sorted_positions(trial: int, n: int = 410) -> bool:
    """One setting a hair beyond the limit, examples are positions, and outcomes are sorted. By seed and n alone, .6 of such
    data sets gave a false certificate for this n."""
    error = np.sort(np.random.default_rng([86, trial]).random(n) < 0.1 + HAIR)[::-1]

    def losses(config: dict[str, int], examples: np.ndarray) -> dict[str, np.ndarray]:
        return {"error": error[examples], "cost": np.ones(len(examples))}

    problem = rf.Problem([rf.Limit("error", at_most=0.1)], minimize=["cost"], delta=DELTA)
    options: dict[str, Any] = {"search": "grid", "budget": 1, "seed": 0, "method": METHOD, "progress": False}
    return bool(rf.tune(losses, np.arange(n), rf.Space(a=rf.Choice([0])), problem, **options))


def _broken_by_a_hair(rng: np.random.Generator, n: int, settings: int = 16) -> dict[str, np.ndarray]:
    """Errors of settings that all break the limit by a hair, and costs of many digits."""
    return {"error": rng.random((settings, n)) < ALPHA + HAIR, "cost": rng.random((settings, n))}


def resampled_table(trial: int) -> bool:
    """A bootstrap sample of 60 examples as a table. To refuse is right."""
    rng = np.random.default_rng([88, trial])
    rows = copied(rng, 60, 2)
    losses = {name: values[:, rows] for name, values in _broken_by_a_hair(rng, 60).items()}
    try:
        return bool(
            rf.calibrate(rf.LossTable([{"s": s} for s in range(16)], losses), PROBLEM, method=METHOD, seed=trial)
        )
    except InvalidInputError:
        return False


def asked_again(trial: int) -> bool:
    """100 questions were asked five times under new names. A model without temperature errs on the same ones; each call has a
    time of its own, to be minimised or limited. To refuse is right."""
    rng = np.random.default_rng([91, trial])
    again = {name: np.tile(values, 5) for name, values in _broken_by_a_hair(rng, 100).items()}
    losses = {"error": again["error"], "cost": rng.random(again["cost"].shape)}
    limits = [rf.Limit("error", at_most=ALPHA), rf.Limit("cost", at_most=0.9, quantile=0.5)][: 1 + trial % 2]
    problem = rf.Problem(limits, minimize=["cost"], delta=DELTA)
    table = rf.LossTable([{"s": s} for s in range(16)], losses)
    try:
        return bool(rf.calibrate(table, problem, method=METHOD, seed=trial))
    except InvalidInputError:
        return False


def copies_on_both_sides(trial: int) -> bool:
    """A table of 100 examples five times over, split, planned on and certified. To refuse is right."""
    rng = np.random.default_rng([92, trial])
    error = np.tile(_broken_by_a_hair(rng, 100)["error"], 5)
    table = rf.LossTable([{"s": s} for s in range(16)], {"error": error, "cost": rng.random(error.shape)})
    opt, test = table.split(0.3, seed=trial)
    try:
        return bool(rf.certify(METHOD.plan(opt, PROBLEM), test, PROBLEM))
    except InvalidInputError:
        return False


def copies_with_names(trial: int) -> bool:
    """The same through tune and evaluate, where copies have names of their own, or other digits. To refuse is right."""
    rng = np.random.default_rng([93, trial])
    x = rng.random(60).round(4)
    digits = [x, x + 1e-12, x.astype(np.float32).astype(np.float64), x + 1e-11, x - 1e-12]
    copied = np.concatenate(digits) if trial % 3 == 2 else np.tile(x, 5)
    examples = pd.DataFrame({"id": np.arange(300), "x": copied})

    def losses(config: dict[str, int], examples: pd.DataFrame) -> dict[str, np.ndarray]:
        wrong = (examples["x"].to_numpy().round(4) * 997 + config["setting"] / 8) % 1 < ALPHA + HAIR
        return {"error": wrong, "cost": np.full(len(wrong), 1 / (1 + config["setting"]))}

    options: dict[str, Any] = {"search": "grid", "budget": 8, "seed": trial, "method": METHOD, "progress": False}
    try:
        if trial % 2:
            return bool(rf.tune(losses, examples, rf.Space(setting=rf.Int(0, 7)), PROBLEM, **options))
        table = rf.evaluate(losses, examples, [{"setting": s} for s in range(8)], progress=False)
        return bool(rf.calibrate(table, PROBLEM, method=METHOD, seed=trial))
    except InvalidInputError:
        return False


def daily_copies(trial: int) -> bool:
    """Labels come daily, the same ones again under new names. To refuse is right."""
    rng = np.random.default_rng([89, trial])
    configs = [{"s": s} for s in range(4)]
    run = rf.Sequential(configs, PROBLEM, examples=1000, method=METHOD)
    table = rf.LossTable(configs, _broken_by_a_hair(rng, 100, settings=4))
    for day in range(10):
        try:
            run.tell_table(table, ids=[f"day {day}, {i}" for i in range(100)])
        except InvalidInputError:
            break
        if run.certificate():
            return True
    return False


def many_orders(trial: int) -> bool:
    """One table in eight orders, each of which splits it in another way. Of the certificates that state a confidence of 1 -
    delta, one that is false is a miss."""
    rng = np.random.default_rng([90, trial])
    losses = _broken_by_a_hair(rng, 150)
    for _ in range(8):
        order = rng.permutation(150)
        table = rf.LossTable([{"s": s} for s in range(16)], {name: values[:, order] for name, values in losses.items()})
        found = rf.calibrate(table, PROBLEM, method=METHOD)
        if found and found.delta_of_all_looks <= DELTA + 1e-9:
            return True
    return False


class Fitted:
    """Stands for a model that was fitted elsewhere."""


def fit_copies(trial: int) -> bool:
    """The same through an estimator."""
    rng = np.random.default_rng([82, trial])
    X = rng.random((60, 2))[copied(rng, 60, trial % 4)]
    model = rf.RiskControlledEstimator(
        Fitted(),
        configs=[{"s": s} for s in range(8)],
        predict_with=lambda model, config, X: (X[:, 0] * 997 + config["s"] / 8) % 1 < ALPHA + HAIR,
        losses=lambda y, wrong, config: {"error": wrong, "cost": np.full(len(wrong), 1 / (1 + config["s"]))},
        limits=PROBLEM.limits,
        minimize="cost",
        method=METHOD,
        random_state=trial,
    )
    return _certified(model, X, np.zeros(len(X)))


def fit_measured_again(trial: int) -> bool:
    """Every example is measured twenty times: X is the same, y is as good as the same, and no row equals another."""
    rng = np.random.default_rng([88, trial])
    rows = rng.permutation(np.repeat(np.arange(60), 20))
    X, y = rng.random((60, 2))[rows], rng.random(60)[rows] + 1e-7 * rng.random(1200)
    model = rf.RiskControlledEstimator(
        Fitted(),
        configs=[{"s": s} for s in range(8)],
        predict_with=lambda model, config, X: np.zeros(len(X)),
        losses=lambda y, found, config: {"error": np.abs(y - found) < ALPHA + HAIR, "cost": np.ones(len(y))},
        limits=PROBLEM.limits,
        minimize="cost",
        method=METHOD,
        random_state=trial,
    )
    return _certified(model, X, y)


def copies_in_other_clusters(trial: int) -> bool:
    """Sixty rows come a hundred times each, five to a cluster: values are even between 0 and 1, and .8 must be held."""
    rng = np.random.default_rng([89, trial])
    rows = rng.permutation(np.repeat(np.arange(60), 100))
    X, y = rng.random((60, 2))[rows], rng.random(60)[rows]
    model = rf.RiskControlledIntervals(Zero(), limits="coverage >= 0.8", delta=DELTA)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NotCertifiedWarning)
        try:
            found = model.fit(X, y, clusters=np.arange(len(rows)) // 5)
        except InvalidInputError:
            return False
    return found.config_ is not None and found.config_["widening"] < 0.8 - 1e-8


def trained_on_copies(trial: int) -> bool:
    """Labels are coin flips, half of the rows come twice, and the user takes them for independent draws. A tree that has
    learnt some rows by heart must not be calibrated on their copies."""
    from sklearn.tree import DecisionTreeClassifier

    rng = np.random.default_rng([83, trial])
    rows = rng.permutation(np.concatenate([np.arange(300), np.arange(150)]))
    X, y = rng.random((300, 3))[rows], rng.integers(0, 2, 300)[rows]
    model = rf.RiskControlledClassifier(
        DecisionTreeClassifier(random_state=0),
        limits="error <= 0.4 given answered",
        train_fraction=0.5,
        repeats="independent",
        delta=DELTA,
        random_state=trial,
    )
    return _certified(model, X, y)


_FREQUENT, _ALL = 200, 200_000  # texts; half of what people write is one of the frequent ones
_HARD, _EASY = 0.85, 0.05  # risks of frequent texts and of others


def _two_sides(trial: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Which texts are frequent: of those to calibrate on, and of those without labels."""
    from riskfront.transformers._data.known_texts import Learnt, fresh_texts, unlabelled_contents, unlabelled_texts
    from riskfront.transformers._data.texts import Rows, split_texts

    rng = np.random.default_rng([84, trial, seed])

    def written(n: int) -> pd.DataFrame:
        drawn = np.where(rng.random(n) < 0.5, rng.integers(0, _FREQUENT, n), rng.integers(_FREQUENT, _ALL, n))
        return pd.DataFrame({"text": [f"text {trial} {seed} {k}" for k in drawn], "label": rng.integers(0, 2, n)})

    parts, others = split_texts(written(900), Rows(validation=20), seed=trial), written(3000)
    learnt = Learnt().and_from([*parts.train.contents, *parts.validation.contents])
    fresh = fresh_texts(parts, learnt, leave_out=True, unlabelled=unlabelled_contents(others))
    elsewhere = unlabelled_texts(others, parts, learnt, leave_out=True)
    first, second = (
        np.array([int(text.split()[-1]) < _FREQUENT for text in texts.first])
        for texts in (fresh.texts, elsewhere.texts)
    )
    return first, second


@cache
def _truth() -> float:
    """The mean risk of texts to calibrate on, each counted once, whatever riskfront takes them to be."""
    frequent = np.concatenate([_two_sides(trial, 1)[0] for trial in range(40)])
    return float(np.where(frequent, _HARD, _EASY).mean())


def unlabelled_repeats(trial: int) -> bool:
    """Frequent texts are hard, and every text counts once: so must it on the side without labels."""
    rng = np.random.default_rng([85, trial])
    error, elsewhere = (rng.random((1, len(side))) < np.where(side, _HARD, _EASY) for side in _two_sides(trial, 0))
    labelled = rf.LossTable([{"a": 0}], {"error": error, "judge": error, "cost": rng.random(error.shape)})
    limit = rf.Limit("error", at_most=_truth() - 0.004, proxy="judge")
    problem = rf.Problem([limit], minimize=["cost"], delta=DELTA)
    unlabelled = rf.LossTable([{"a": 0}], {"judge": elsewhere})
    return bool(rf.calibrate(labelled, problem, method=METHOD, seed=trial, unlabelled=unlabelled))


_SETTINGS = [{"s": s} for s in range(12)]
_WRITTEN: list[Callable[[np.ndarray], np.ndarray]] = [
    lambda cost: cost,
    lambda cost: cost.astype(np.float32),
    lambda cost: np.round(cost, 2),
    lambda cost: np.round(cost, 4),
    lambda cost: np.array([float(f"{value:.3g}") for value in cost.ravel()]).reshape(cost.shape),
]


def _costs(rng: np.random.Generator, n: int, kind: int) -> np.ndarray:
    """Latencies, bills by the token, scores and waiting times, at every setting."""
    shape = (len(_SETTINGS), n)
    return [
        rng.lognormal(6, 0.6, shape),
        1e-1 * np.rint(rng.lognormal(5, 0.8, n)) + 5e-1 * np.rint(rng.lognormal(4, 0.7, shape)),
        rng.beta(5, 2, shape),
        rng.gamma(2, 1, shape),
    ][kind]


def certify_on_planning_examples(trial: int, n: int = 200) -> bool:
    """The examples of the plan come again in another order, their losses written with fewer digits. Every setting breaks the
    limit by a hair. To refuse is right."""
    rng, shape = np.random.default_rng([91, trial]), (len(_SETTINGS), n)
    drawn = [rng.beta(1, 4, shape), rng.beta(0.5, 2, shape), 0.4 * rng.random(shape), rng.binomial(40, 0.2, shape) / 40]
    error, cost = np.minimum(drawn[trial % 4] + HAIR, 1), _costs(rng, n, trial % 4)
    plan = METHOD.plan(rf.LossTable(_SETTINGS, {"error": error, "cost": cost}), PROBLEM)
    order, written = rng.permutation(n), _WRITTEN[2 + trial % 3]
    losses = {"error": written(error[:, order]), "cost": written(cost[:, order])}
    try:
        return bool(rf.certify(plan, rf.LossTable(_SETTINGS, losses), PROBLEM))
    except InvalidInputError:
        return False


def check_on_calibration_examples(trial: int, n: int = 600) -> bool:
    """A setting that was picked because it looked good, checked on the examples it was picked by. To refuse is right."""
    rng = np.random.default_rng([92, trial])
    error, cost = rng.random((len(_SETTINGS), n)) < ALPHA + HAIR, _costs(rng, n, trial % 4)
    picked = rf.calibrate(
        rf.LossTable(_SETTINGS, {"error": error, "cost": cost}), PROBLEM, method="alpha-delta-constrained"
    )
    if not picked:
        return False
    order = rng.permutation(n)
    losses = {"error": error[:, order], "cost": _WRITTEN[trial % 5](cost[:, order])}
    try:
        return rf.check(picked, rf.LossTable(_SETTINGS, losses)).says == "holds"
    except InvalidInputError:
        return False


def honest_examples_refused(trial: int, n: int = 300) -> bool:
    """Planning, testing and new examples drawn independently, of inputs of which there are few, many, or a few frequent ones.
    To refuse them is a miss."""
    rng = np.random.default_rng([93, trial])
    inputs = [20, 300, 3000, 10**6][trial % 4]
    frequent = 1 / (1 + np.arange(inputs)) if trial % 3 else np.ones(inputs)
    cost_of, frequent = np.random.default_rng(94).random(inputs), frequent / frequent.sum()

    def drawn(written: int) -> rf.LossTable:
        seen = rng.choice(inputs, n, p=frequent)
        cost = np.linspace(1, 0.5, len(_SETTINGS))[:, None] * cost_of[seen]
        error = rng.random((len(_SETTINGS), n)) < 0.05
        return rf.LossTable(_SETTINGS, {"error": error, "cost": _WRITTEN[written](cost)})

    rounding = trial % 5
    try:
        found = rf.certify(METHOD.plan(drawn(0), PROBLEM), drawn(rounding), PROBLEM)
        rf.check(found, drawn(rounding))
    except InvalidInputError as error:
        return "part in the plan" in str(error) or "needs new examples" in str(error)
    return False


def _certified(model: Any, X: np.ndarray, y: np.ndarray) -> bool:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NotCertifiedWarning)
        try:
            return bool(model.fit(X, y).certificate_)
        except InvalidInputError:
            return False


SUITES = [
    Suite("calibrate: a resampled table", one_by_one(resampled_table), 300),
    Suite("calibrate: questions asked again", one_by_one(asked_again), 200),
    Suite("certify: copies on both sides of a split", one_by_one(copies_on_both_sides), 200),
    Suite("tune, evaluate: copies with names of their own", one_by_one(copies_with_names), 200),
    Suite("certify: planning examples with other digits", one_by_one(certify_on_planning_examples), 200),
    Suite("check: calibration examples with other digits", one_by_one(check_on_calibration_examples), 200),
    Suite("certify, check: honest examples are refused", one_by_one(honest_examples_refused), 200),
    Suite("sequential: daily copies", one_by_one(daily_copies), 200),
    Suite("calibrate: a table in many orders", one_by_one(many_orders), 400),
    Suite("tune: copies of examples", one_by_one(tune_copies), 200),
    Suite("evaluate: copies of examples", one_by_one(evaluate_copies), 200),
    Suite("tune: positions with sorted outcomes", one_by_one(sorted_positions), 300),
    Suite("estimator: copies of examples", one_by_one(fit_copies), 200),
    Suite("estimator: examples measured again", one_by_one(fit_measured_again), 200),
    Suite("intervals: copies in other clusters", one_by_one(copies_in_other_clusters), 200),
    Suite("classifier: copies of training rows", one_by_one(trained_on_copies), 100),
    Suite("accelerate: frequent texts without labels", one_by_one(unlabelled_repeats), 120, needs="torch"),
]
