"""Calls that failed and numbers that are missing: what is certified is what a policy does, row by row."""

import dataclasses

import numpy as np
import pytest

import riskfront as rf
from riskfront._cascades.policy import ModelsFailedError, Policy
from riskfront._cascades.replay import replay
from tests.support.runs import simulated_runs

pytestmark = pytest.mark.filterwarnings("ignore::riskfront.LeftOutWarning")
N = 120


def runs_with_failures(seed=0, n=N):
    """Calls that fail score 0 and have no confidence; some answers have no price, some no confidence, some no score."""
    runs = simulated_runs(seed=seed, n=n)
    rng = np.random.default_rng([seed, 6])
    failed = rng.random((3, n)) < 0.2
    values = {name: array.copy() for name, array in runs.values.items()}
    values["score"][failed] = 0
    values["score"][(rng.random((3, n)) < 0.05) & ~failed] = np.nan
    values["confidence"][failed | (rng.random((3, n)) < 0.1)] = np.nan
    values["cost"][rng.random((3, n)) < 0.1] = np.nan
    return dataclasses.replace(runs, values={**values, "failed": failed.astype(float)})


def deployed(policy, runs, example):
    """(score, models that were called): what a policy does if the models answer as they did in the logs."""

    def model(name):
        row = runs.row(name)

        def answer(prompt):
            if runs.value("failed")[row, example]:
                raise TimeoutError
            return {"answer": row, "confidence": runs.value("confidence")[row, example]}

        return answer

    try:
        found = policy.route(
            "?",
            {name: model(name) for name in policy.models},
            about={"length": runs.examples["length"].iloc[example]},
        )
    except ModelsFailedError:
        return 0.0, None
    return runs.value("score")[int(found.answer), example], [runs.row(name) for name in found.called]


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "confidence"), [(rf.Cascade, "confidence"), (rf.Router, "length")])
def test_every_setting_does_what_its_policy_does(kind, confidence):
    runs = runs_with_failures()
    made = kind(runs, stages=3, confidence=confidence, thresholds=[0.2, 40.0])
    table = made.table(reference="m2")
    found = {name: table.losses(name) for name in table.loss_names}
    certificate = rf.calibrate(
        rf.LossTable([{"m": 1}], {"error": [[0] * 300], "cost": [[1] * 300]}),
        rf.Problem("error <= 0.1", minimize="cost"),
    )
    price, reference = runs.value("cost"), runs.value("score")[2]
    for row in range(table.n_configs):
        config = table.config(row)
        models = tuple(str(config["models"]).split(" > "))
        limits = tuple(float(config[f"threshold {k + 1}"]) for k in range(len(models) - 1))
        policy = Policy(made.kind, models, limits, confidence, tuple(np.ones(len(models))), certificate)
        for example in range(N):
            score, called = deployed(policy, runs, example)
            np.testing.assert_equal(found["score"][row, example], score)
            np.testing.assert_equal(found["score drop"][row, example], reference[example] - score)
            if called is not None:
                assert found["calls"][row, example] == len(called)
                np.testing.assert_allclose(found["cost"][row, example], price[called, example].sum())


def test_nothing_is_left_out_and_everything_is_accounted_for():
    runs = runs_with_failures()
    made = rf.Cascade(runs, confidence="confidence", thresholds=4)
    assert made.runs.names == runs.names
    assert made.n_aside + made.runs.n_examples == N
    intake = made.table().intake
    lacking = np.isnan(made.runs.value("score")).sum() + made.runs.value("failed").sum()
    assert intake.read == 3 * N
    assert intake.worst == lacking
    assert intake.left_out == {"set aside for confidence and thresholds": 3 * made.n_aside}


def test_a_price_that_is_missing_touches_no_score():
    runs = simulated_runs(n=2000)
    priceless = {**runs.values, "cost": np.where(np.arange(2000) % 10 == 0, np.nan, runs.value("cost"))}
    problem = rf.Problem(["score >= 0.6"], minimize="cost")
    found = []
    for each in (runs, dataclasses.replace(runs, values=priceless)):
        table = rf.Cascade(each, thresholds=[0.1, 0.3]).table()
        assert table.n_examples == 2000
        found.append(rf.calibrate(table, problem, method="bonferroni").certified)
    assert found[0]["models"].tolist() == found[1]["models"].tolist()


def test_a_learnt_confidence_without_its_features_is_not_trusted():
    runs = runs_with_failures(n=400)
    learnt = rf.LearntConfidence(["confidence", "task"])
    made = rf.Cascade(runs, confidence=learnt, thresholds=[0.0])
    table = made.table()
    row = table.configs["models"].tolist().index("m0 > m2")
    goes_on = np.isnan(made.runs.value("confidence")[0])
    assert goes_on.any()
    np.testing.assert_array_equal(table.losses("calls")[row], 1 + goes_on)
    assert np.isnan(made.confidence.of("m0", {"confidence": np.nan, "task": "easy"})).all()


def test_a_confidence_that_no_answer_has():
    runs = simulated_runs()
    runs.values["confidence"][:] = np.nan
    with pytest.raises(rf.InvalidInputError, match="'confidence' must be known for some answers; all lack it"):
        rf.Cascade(runs, confidence="confidence")


def test_a_model_that_never_says_how_sure_it_is_comes_last_only():
    runs = simulated_runs()
    runs.values["confidence"][0] = np.nan
    orders = rf.Cascade(runs, confidence="confidence", thresholds=2).table().configs["models"]
    assert "m0" in set(orders)
    assert "m1 > m0" in set(orders)
    assert not orders.str.startswith("m0 >").any()


@pytest.mark.parametrize(("kind", "confidence"), [(rf.Cascade, "confidence"), (rf.Router, "length")])
def test_a_check_on_new_runs_counts_failures_too(kind, confidence):
    made = kind(simulated_runs(n=3000), confidence=confidence, thresholds=[0.2, 40.0], models=["m0", "m2"])
    certificate = rf.calibrate(made.table(), rf.Problem(["score drop <= 0.3"], minimize="cost", reference="m2"))
    policy = made.policy(certificate)
    fresh = runs_with_failures(seed=3, n=500)
    table = replay(policy, fresh)
    assert table.n_examples == 500
    for example in range(500):
        score, _ = deployed(policy, fresh, example)
        np.testing.assert_equal(table.losses("score")[0, example], score)
    assert table.intake.read == fresh.intake.read


@pytest.mark.parametrize("confidence", ["confidence", None])
def test_examples_that_a_run_lacks_count_as_the_worst(confidence):
    """The small model was run on easy questions alone: what it would have said of the others, and how sure, nobody knows."""
    runs = simulated_runs(n=800)
    hard = np.random.default_rng(3).random(800) < 0.3
    values = {name: array.copy() for name, array in runs.values.items()}
    for array in values.values():
        array[0, hard] = np.nan
    made = rf.Cascade(dataclasses.replace(runs, values=values), confidence=confidence)
    table = made.table()
    absent = np.isnan(made.runs.value("score")[0])
    assert absent.sum() > 100
    started = [row for row, models in enumerate(table.configs["models"]) if str(models).startswith("m0 > ")]
    assert started
    for name in ("score", "cost", "calls"):
        assert np.isnan(table.losses(name)[np.ix_(started, absent)]).all()
        assert not np.isnan(table.losses(name)[np.ix_(started, ~absent)]).any()


def test_what_is_paid_where_some_calls_failed_is_not_known():
    """Of three calls one failed: at work there is one, after which a router goes on or not."""
    failed = np.zeros((3, 400))
    failed[0, :40] = 1 / 3
    runs = simulated_runs(n=400, failed=failed, samples=np.full((3, 400), 3.0))
    router = rf.Router(runs, confidence="length", thresholds=[50.0])
    row = router.row_of({"models": "m0 > m2", "threshold 1": 50.0})
    _, missing = router._outcomes.column("cost")
    asked = router.runs.examples["length"].to_numpy() >= 50
    np.testing.assert_array_equal(missing[np.array([row])][0], asked & (np.arange(400) < 40))
    assert router._outcomes.column("score")[1] is None
    assert "Calls that failed: m0 3.33 %." in router.table().notes[0]
