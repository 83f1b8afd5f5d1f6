"""One ordered knob: the declared order, all examples, and no direction that data could teach."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

import riskfront as rf
from riskfront.errors import InvalidInputError

PROBLEM = rf.Problem("error <= 0.1", minimize="size")
HIGH = rf.OrderedKnob(safest={"threshold": "high"})


def table_of(thresholds: list[float], n: int = 400, **more: list[object]) -> rf.LossTable:
    """The lower the threshold, the more errors and the smaller the sets."""
    rng = np.random.default_rng(0)
    settings = [{"threshold": t, **{k: v[i] for k, v in more.items()}} for i, t in enumerate(thresholds)]
    risk = 0.2 * (1 - np.array(thresholds))[:, None]
    size = np.array(thresholds)[:, None] * np.ones(n)
    return rf.LossTable(settings, {"error": rng.random((len(thresholds), n)) < risk, "size": size})


def test_walks_from_the_declared_end_over_every_value() -> None:
    table = table_of([0.3, 0.9, 0.1, 0.7, 0.5])
    assert HIGH.plan(table, PROBLEM).rows.tolist() == [1, 3, 4, 0, 2]
    assert rf.OrderedKnob(safest={"threshold": "low"}).plan(table, PROBLEM).rows.tolist() == [2, 0, 4, 3, 1]
    assert HIGH.plan(table.subset([]), PROBLEM).rows.tolist() == [1, 3, 4, 0, 2]  # no examples are needed


def test_tests_on_all_examples_and_stops_at_the_first_failure() -> None:
    found = rf.calibrate(table_of(np.linspace(0, 1, 21).tolist()), PROBLEM, method=HIGH)
    assert (found.n_opt, found.n_test) == (0, 400)
    assert found.tested["certified"].tolist() == [True] * (len(found.tested) - 1) + [False]
    assert len(found.tested) < 21
    assert found.tested["threshold"].is_monotonic_decreasing
    assert (found.tested["tested_at"] == 0.1).all()  # all of delta for every step
    assert found.config == {"threshold": found.certified["threshold"].min()}


def test_it_is_a_fixed_sequence_of_exact_tests() -> None:
    from scipy.stats import binom

    table = table_of(np.linspace(0, 1, 51).tolist())
    counts = table.losses("error").sum(axis=1)[::-1]
    passes = np.logical_and.accumulate(binom.cdf(counts, 400, 0.1) <= 0.1)
    assert len(rf.calibrate(table, PROBLEM, method=HIGH).certified) == passes.sum()


def test_a_second_start_shares_delta_with_the_first() -> None:
    table = table_of(np.linspace(0, 1, 21).tolist())
    early = np.linspace(0, 1, 21) > 0.88
    table = rf.LossTable(table.configs, {"error": table.losses("error") | early[:, None], "size": table.losses("size")})
    assert not rf.calibrate(table, PROBLEM, method=HIGH)
    method = replace(HIGH, second_start=0.86)
    found = rf.calibrate(table, PROBLEM, method=method)
    assert found.tested["threshold"].round(2).tolist()[:3] == [
        1.0,
        0.85,
        0.8,
    ]  # what lies behind a failure is not tested
    assert found.tested["tested_at"].round(4).tolist()[:2] == [0.0333, 0.0667]
    assert round(found.certified["threshold"].max(), 2) == 0.85
    assert rf.verify(found, table) == []
    # nothing is safer than the second start: its level is the same
    alone = rf.calibrate(table, PROBLEM, method=replace(method, second_start=1))
    assert alone.tested["tested_at"].round(4).tolist() == [0.0667]
    with pytest.raises(InvalidInputError, match=r"second_start must leave values of the knob to test; got -1"):
        rf.calibrate(table, PROBLEM, method=replace(method, second_start=-1))


def test_other_columns_come_along() -> None:
    found = rf.calibrate(table_of([0.5, 0.9, 1.0], bits=[4, 8, 16], model=["s", "m", "l"]), PROBLEM, method=HIGH)
    assert found.config in [{"threshold": t, "bits": b, "model": m} for t, b, m in [(0.5, 4, "s"), (0.9, 8, "m")]]


def test_saved_loaded_verified_and_made_again(tmp_path) -> None:
    table = table_of(np.linspace(0, 1, 21).tolist())
    found = rf.calibrate(table, PROBLEM, method=HIGH, seed=3)
    found.save(tmp_path / "certificate.json")
    loaded = rf.Certificate.load(tmp_path / "certificate.json")
    assert loaded.parameters == {"safest": {"threshold": "high"}, "start": None, "second_start": None}
    assert rf.verify(loaded, table) == []
    assert rf.verify(replace(loaded, parameters={"safest": {"threshold": "low"}}), table)


def test_a_classifier_with_one_threshold() -> None:
    from sklearn.datasets import make_classification
    from sklearn.linear_model import LogisticRegression

    X, y = make_classification(6000, n_informative=5, class_sep=0.8, random_state=0)
    model = LogisticRegression().fit(X[:1000], y[:1000])
    asked = {"limits": "recall >= 0.9", "minimize": "predicted_positive", "abstain_thresholds": [0]}
    grid = np.linspace(0.01, 0.99, 99)
    made = rf.RiskControlledClassifier(
        model, **asked, thresholds=grid, method=rf.OrderedKnob(safest={"threshold": "low"})
    ).fit(X[1000:3000], y[1000:3000])
    assert made.certificate_.n_test == 2000
    positive = y[3000:] == 1
    assert (made.predict(X[3000:])[positive] == 1).mean() > 0.88
    split = rf.RiskControlledClassifier(model, **asked, thresholds=grid).fit(X[1000:3000], y[1000:3000])
    assert made.config_["threshold"] >= split.config_["threshold"] - 0.02


def test_settings_without_the_knob() -> None:
    """A reference, which loses nothing against itself, is tested first; other settings without the knob are not tested."""
    configs = [{"model": "small", "level": "none"}, {"model": "large", "level": "none"}]
    configs += [{"model": "any", "level": level} for level in (3.0, 1.0, 2.0)]
    right = np.random.default_rng(0).random((5, 400)) < 0.9
    table = rf.LossTable(configs, {"score": right, "cost": np.ones((5, 400))})
    method = rf.OrderedKnob(safest={"level": "low"})
    problem = rf.Problem(["score drop <= 0.1"], minimize="cost", reference="large")
    assert method.plan(table, problem).rows.tolist() == [1, 3, 4, 2]
    assert method.plan(table, rf.Problem(["score >= 0.5"], minimize="cost")).rows.tolist() == [3, 4, 2]


def test_an_order_that_was_read_off_the_outcomes_is_refused() -> None:
    """A knob that states the measured accuracy begins at the luckiest setting (39 of 40 certificates were false)."""
    error = np.random.default_rng(0).random((60, 400)) < 0.1
    for stated in (1 - error.mean(axis=1), error.sum(axis=1), (100 * error.mean(axis=1)).round(2)):
        configs = [{"measured": float(value) + 1e-9 * at} for at, value in enumerate(stated)]
        table = rf.LossTable(configs, {"error": error, "size": np.random.default_rng(1).random(error.shape)})
        method = rf.OrderedKnob(safest={"measured": "high"})
        with pytest.raises(InvalidInputError, match="'measured' states the mean 'error' of each setting"):
            rf.calibrate(table, PROBLEM, method=method)
        with pytest.raises(InvalidInputError, match="order of testing must be known beforehand"):
            rf.certify(method.plan(table, PROBLEM), table, PROBLEM)


def planned(table: rf.LossTable, method: object = "ordered-knob") -> Callable[[], object]:
    return lambda: rf.calibrate(table, PROBLEM, method=method)  # type: ignore[arg-type]


def safest(**ends: str) -> rf.OrderedKnob:
    return rf.OrderedKnob(safest=ends)


TWO = table_of([0.1, 0.9])
REFUSED = {
    "no direction": (planned(TWO), "told which end of the knob is safest.*cannot be learned"),
    "no direction of a method": (planned(TWO, rf.OrderedKnob()), r"OrderedKnob\(safest=\{'threshold': 'high'\}\)"),
    "no knob": (safest, "safest must name one knob and its safest end"),
    "two knobs": (lambda: safest(a="low", b="low"), "safest must name one knob"),
    "an end alone": (lambda: rf.OrderedKnob(safest="high"), "safest must name one knob"),
    "an end that is none": (lambda: safest(threshold="up"), "must be 'low' or 'high'; got 'up'"),
    "an unknown knob": (planned(TWO, safest(treshold="high")), "no knob 'treshold'.*Did you mean 'threshold'"),
    "two settings of one value": (
        planned(table_of([0.1, 0.1, 0.9, 0.9], model=["a", "b", "a", "b"]), HIGH),
        "'threshold' has 2 values in 4 settings, which differ in model too",
    ),
    "a knob of texts": (
        planned(table_of([0.1, 0.9], model=["a", "b"]), safest(model="low")),
        "numbers as values; 'model' has 'a'",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_refusals(case: str) -> None:
    use, message = REFUSED[case]
    with pytest.raises(InvalidInputError, match=message):
        use()
