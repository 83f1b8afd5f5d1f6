"""How many examples: the plan against calibrations of that size, the forecast against the truth."""

import json

import numpy as np
import pytest

import riskfront as rf
from riskfront.experiment._forecast import forecast_words
from tests.support.command_line import riskfront


def population(risks: list[float], n: int = 20_000, seed: int = 0) -> rf.LossTable:
    """Settings whose risks are exactly these, the later the cheaper."""
    rng = np.random.default_rng(seed)
    error = np.zeros((len(risks), n), dtype=bool)
    for row, risk in zip(error, risks, strict=True):
        row[rng.choice(n, round(risk * n), replace=False)] = True
    cost = np.linspace(1, 0, len(risks))[:, None] + 0.01 * rng.random((len(risks), n))
    return rf.LossTable([{"k": k} for k in range(len(risks))], {"error": error, "cost": cost})


@pytest.mark.slow
def test_as_many_examples_certify_as_often_as_was_planned() -> None:
    plan = rf.plan_sample("error <= 0.05", 0.03, settings=2)
    assert plan.examples is not None
    world = population([0.03, 0.3])
    problem = rf.Problem("error <= 0.05", minimize="cost")
    found = rf.experiment.run(world, problem, methods=["pareto-testing"], trials=400, calibration=plan.examples)
    assert (found["n_certified"] > 0).mean() == pytest.approx(0.8, abs=0.08)


@pytest.mark.slow
def test_curve_and_words() -> None:
    asked = ["error <= 0.05", "abstained <= 0.2 given hard"]
    plan = rf.plan_sample(asked, {"error": 0.02, "abstained": 0.1}, shares={"abstained": 0.5})
    assert (np.diff(plan.curve["chance"]) >= 0).all()  # with so many or more
    assert ((plan.curve["chance"] >= 0.8) == (plan.curve["examples"] >= plan.examples)).all()
    reached = plan.curve.loc[plan.curve["examples"] == plan.examples, "chance"].item()
    assert reached >= 0.8
    assert f"About {plan.examples:,} examples" in str(plan)
    rare = rf.plan_sample("error <= 0.05 given hard", 0.02, shares={"error": 0.1})
    whole = rf.plan_sample("error <= 0.05", 0.02)
    assert rare.examples == pytest.approx(10 * whole.examples, rel=0.1)


def test_more_settings_and_more_confidence_cost_more() -> None:
    sizes = [rf.plan_sample("error <= 0.05", 0.03, settings=m, delta=d).examples for m, d in [(2, 0.1), (2, 0.01)]]
    assert sizes[0] < sizes[1]
    assert "No number of examples" in str(rf.plan_sample("error <= 0.05", 0.06))


@pytest.mark.parametrize(
    ("limit", "expected", "more", "words"),
    [
        ("error <= 0.05", {"eror": 0.03}, {}, "no limit or loss for expected 'eror'.*Did you mean 'error'"),
        ("error <= 0.05", "0.03", {}, "must have a number"),
        ("error <= 0.05", {}, {}, "must have a number"),
        ("error <= 0.05", -0.1, {}, r"a mean in \[0, 1\]; got -0.1"),
        ("q0.95(latency) <= 300", 250, {}, "the share of examples above it; got 250"),
        ("latency <= 300", 200, {}, "strictly between its bounds"),
        (["error <= 0.05", "score >= 0.9"], 0.03, {}, "must name each of several limits"),
        ("cost / solved <= 1", 0.5, {}, "pilot table"),
        ("score >= 0.9", 0.93, {"spread": {"score": 0.9}}, "from 0 to 0.2551"),
        ("score >= 0.9", 0.93, {"spread": -0.1}, "from 0 to 0.2551"),
        ("error <= 0.05 per label", 0.03, {}, "does not speak of all examples"),
        ("error <= 0.05 given hard", 0.03, {}, "does not speak of all examples"),
        ("error <= 0.05 given hard", 0.03, {"shares": 0}, "at most 1 together"),
        ("error <= 0.05 per label", 0.03, {"shares": [0.6, 0.6]}, "at most 1 together"),
        ("error <= 0.05", 0.03, {"bounds": {"err": (0, 1)}}, "no limit or loss for bounds"),
    ],
)
def test_bad_input(limit: str, expected: object, more: dict[str, object], words: str) -> None:
    with pytest.raises(rf.InvalidInputError, match=words):
        rf.plan_sample(limit, expected, **more)  # type: ignore[arg-type]


def test_hardly_any_room_is_not_called_none() -> None:
    assert "more than a million million" in str(rf.plan_sample("error <= 0.05", 0.05 - 1e-9))


def test_an_ordered_knob_plans_on_no_examples() -> None:
    split, whole = (rf.plan_sample("error <= 0.05", 0.03, method=m) for m in ("pareto-testing", "ordered-knob"))
    assert whole.testing == whole.examples < split.examples
    assert whole.examples == pytest.approx(split.testing, rel=0.15)
    with pytest.raises(rf.InvalidInputError, match="forecast"):
        rf.plan_sample("error <= 0.05", 0.03, method="holm")


def test_an_ordered_knob_needs_what_its_limit_needs() -> None:
    found = rf.plan_sample("error <= 0.05", 0.03, method="ordered-knob")
    assert found.examples == found.limits["testing_examples"].item()


@pytest.mark.slow
def test_named_settings_certify_as_often_as_was_planned() -> None:
    """Planned as if names were numbers, only .6 of draws were certified: half of delta goes to the fallback test."""
    n = rf.plan_sample("error <= 0.1", 0.05, settings=60, named=True).examples
    assert n is not None
    assert n > (rf.plan_sample("error <= 0.1", 0.05, settings=60).examples or 0)
    rng, certified = np.random.default_rng(0), 0
    risks = np.array([0.05] + [0.3] * 59)[:, None]
    for _ in range(100):
        losses = {"error": rng.random((60, n)) < risks, "cost": np.repeat(rng.random((60, 1)), n, axis=1)}
        table = rf.LossTable([{"prompt": f"p{i}"} for i in range(60)], losses)
        certified += bool(rf.calibrate(table, rf.Problem("error <= 0.1", minimize="cost")))
    assert certified >= 75


@pytest.mark.slow
def test_every_group_must_pass() -> None:
    """Two groups of one size have two chances to fail; the share of one of them alone forgets that."""
    asked = "error <= 0.1 per label"
    one, both = (rf.plan_sample(asked, 0.05, settings=30, shares=s).examples for s in (0.5, [0.5, 0.5]))
    assert one < both
    rng = np.random.default_rng(3)
    error = np.ones((30, 20_000), dtype=bool)  # one good setting among hopeless ones
    error[0] = np.concatenate([rng.permutation(10_000) < 500 for _ in range(2)])
    losses = {"error": error, "cost": np.ones(error.shape, dtype=np.float32)}
    table = rf.LossTable([{"k": k} for k in range(30)], losses, {"label": np.repeat(["x", "y"], 10_000)})
    problem = rf.Problem("error <= 0.1 per label", minimize="cost")
    found = rf.experiment.run(table, problem, methods=["pareto-testing"], trials=300, calibration=both)
    assert (found["n_certified"] > 0).mean() == pytest.approx(0.8, abs=0.08)


@pytest.mark.slow
def test_signed_losses_certify_as_often_as_was_planned() -> None:
    drop = np.repeat([1.0, -1.0, 0.0], [1000, 800, 18_200])[None, :]
    plan = rf.plan_sample("drop <= 0.04", 0.01, settings=1, bounds={"drop": (-1, 1)}, spread=drop.std())
    table = rf.LossTable([{"k": 0}], {"drop": drop, "cost": np.ones(drop.shape)}, bounds={"drop": (-1, 1)})
    problem = rf.Problem("drop <= 0.04", minimize="cost")
    found = rf.experiment.run(table, problem, methods=["pareto-testing"], trials=200, calibration=plan.examples)
    assert (found["n_certified"] > 0).mean() == pytest.approx(0.8, abs=0.1)


def test_a_forecast_comes_true() -> None:
    world = population(np.linspace(0.01, 0.2, 30).tolist())
    problem = rf.Problem("error <= 0.1", minimize="cost")
    pilot = world.subset(np.random.default_rng(1).choice(20_000, 500, replace=False))
    found = rf.forecast(pilot, problem, factors=(2,), trials=60)
    truth = rf.experiment.run(world, problem, methods=["pareto-testing"], trials=60, calibration=1000)
    assert found["examples"].tolist() == [1000]
    assert found["certified"].item() > 0.9
    assert found["cost"].item() == pytest.approx(truth["cost"].mean(), abs=0.08)
    assert "1,000 examples certify something" in forecast_words(found, problem)


@pytest.mark.slow
def test_command(tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    done = riskfront("plan", "--limit", "error <= 0.05", "--expect", "error=0.03", "--choices", "2", "--json")
    assert json.loads(done.stdout)["examples"] == rf.plan_sample("error <= 0.05", 0.03, settings=2).examples
    assert "About" in riskfront("plan", "--limit", "error <= 0.05", "--expect", "error=0.03").stdout
    population([0.01, 0.03, 0.2], n=300).save("pilot.parquet")
    done = riskfront("plan", "pilot.parquet", "--limit", "error <= 0.1", "--minimize", "cost", "--factors", "1,2")
    assert "600 examples certify something" in " ".join(done.stdout.split()), done.stderr
    assert riskfront("plan", "--limit", "error <= 0.05").returncode == 2
    both = riskfront("plan", "pilot.parquet", "--limit", "error <= 0.1", "--minimize", "cost", "--expect", "error=0.03")
    assert (both.returncode, "a pilot table shows what to expect" in both.stderr) == (2, True)


def test_limits_on_one_class_ask_for_its_share() -> None:
    with pytest.raises(rf.InvalidInputError, match=r"prevalence=0\.1"):
        rf.plan_sample("recall >= 0.95", 0.98)
    with pytest.raises(rf.InvalidInputError, match="with one answer alone"):
        rf.plan_sample("precision >= 0.9", 0.95)
    with pytest.raises(rf.InvalidInputError, match="however many are positive"):
        rf.plan_sample("precision >= 0.9", 0.95, prevalence=0.3)
    every = rf.plan_sample("recall >= 0.95", 0.98, prevalence=1, method="ordered-knob").examples
    tenth = rf.plan_sample("recall >= 0.95", 0.98, prevalence=0.1, method="ordered-knob").examples
    assert 9 * every < tenth < 11 * every
    negative = rf.plan_sample("fpr <= 5 %", 0.02, prevalence=0.1, method="ordered-knob").examples
    assert every < negative < 1.3 * every
