"""How many examples: the plan against calibrations of that size, the forecast against the truth."""

import doctest
import importlib
import json

import numpy as np
import pytest

import riskfront as rf
from riskfront.experiments import sample_planning
from riskfront.experiments.sample_planning import forecast_words
from riskfront.problems import limits
from tests.cli.test_cli import riskfront

frontier_module = importlib.import_module("riskfront.calibration.frontier")


def population(risks: list[float], n: int = 20_000, seed: int = 0) -> rf.LossTable:
    """Settings whose risks are exactly these, the later the cheaper."""
    rng = np.random.default_rng(seed)
    error = np.zeros((len(risks), n), dtype=bool)
    for row, risk in zip(error, risks, strict=True):
        row[rng.choice(n, round(risk * n), replace=False)] = True
    cost = np.linspace(1, 0, len(risks))[:, None] + 0.01 * rng.random((len(risks), n))
    return rf.LossTable([{"k": k} for k in range(len(risks))], {"error": error, "cost": cost})


def test_as_many_examples_certify_as_often_as_was_planned() -> None:
    plan = rf.plan_sample("error <= 0.05", 0.03, settings=2)
    assert plan.examples is not None
    world = population([0.03, 0.3])
    problem = rf.Problem("error <= 0.05", minimize="cost")
    found = rf.experiment.run(world, problem, methods=["pareto-testing"], trials=400, calibration=plan.examples)
    assert (found["n_certified"] > 0).mean() == pytest.approx(0.8, abs=0.08)


def test_curve_and_words() -> None:
    plan = rf.plan_sample(["error <= 0.05", "abstained <= 0.2 given hard"], {"error": 0.02, "abstained": 0.1})
    assert (np.diff(plan.curve["chance"]) > -0.1).all()  # counts are whole numbers: one example more may cost a little
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
    ("limit", "expected", "words"),
    [("error <= 0.05", {"cost": 1}, "must have a number"), ("cost / solved <= 1", 0.5, "pilot table")],
)
def test_bad_input(limit: str, expected: object, words: str) -> None:
    with pytest.raises(rf.InvalidInputError, match=words):
        rf.plan_sample(limit, expected)  # type: ignore[arg-type]


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


def test_command(tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    done = riskfront("plan", "--limit", "error <= 0.05", "--expect", "error=0.03", "--choices", "2", "--json")
    assert json.loads(done.stdout)["examples"] == rf.plan_sample("error <= 0.05", 0.03, settings=2).examples
    assert "About" in riskfront("plan", "--limit", "error <= 0.05", "--expect", "error=0.03").stdout
    population([0.01, 0.03, 0.2], n=300).save("pilot.parquet")
    done = riskfront("plan", "pilot.parquet", "--limit", "error <= 0.1", "--minimize", "cost", "--factors", "1,2")
    assert "600 examples certify something" in " ".join(done.stdout.split()), done.stderr
    assert riskfront("plan", "--limit", "error <= 0.05").returncode == 2


@pytest.mark.parametrize("module", [sample_planning, frontier_module, limits])
def test_examples_in_docstrings(module: object) -> None:
    found = doctest.testmod(module)  # type: ignore[arg-type]
    assert found.attempted > 0
    assert found.failed == 0
