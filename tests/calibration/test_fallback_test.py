"""The fallback test under the path: what it catches, what it costs, and that its share is paid for."""

from dataclasses import replace

import numpy as np
import pytest

import riskfront as rf
from riskfront._calibration import decision as decisions
from riskfront._calibration.decision import decide
from riskfront.methods import Plan
from riskfront.methods._evidence.limit_tests import Evidence
from riskfront.statistics._procedures import FixedSequence, Holm
from riskfront.testing._findings import too_many
from tests.support.tables import random_table

PROBLEM = rf.Problem([rf.Limit("error", at_most=0.12)], ["cost"])


def by_hand(held: np.ndarray, along: np.ndarray, path: list[int], share: float, delta: float = 0.1) -> dict[int, str]:
    """The two tests one rejection at a time: setting -> the test that certified it first or could have."""
    certified: dict[int, str] = {}
    while True:
        open_holm = [i for i in range(len(held)) if i not in certified]
        found = {i: "holm" for i in open_holm if held[i] <= share * delta / len(open_holm)}
        for i in path:
            if i not in certified and i not in found:
                if along[i] > (1 - share) * delta:
                    break
                found[i] = "path"
        if not found:
            return certified
        certified |= found


@pytest.mark.parametrize("share", [0.1, 0.5])
@pytest.mark.parametrize("seed", range(8))
def test_as_by_hand(seed: int, share: float) -> None:
    table = random_table(seed, n=400)
    opt, test = table.split(0.3, seed=seed)
    path = np.random.default_rng(seed).permutation(20)[:12]  # not in order, so that the path fails early
    plan = Plan(rf.ParetoTesting(), opt, path, FixedSequence(), holm_share=share)
    everything = Evidence(PROBLEM, opt.joined_with(test))
    found = decide(plan, Evidence(PROBLEM, test), everything)
    every = np.arange(20)
    held, along = everything.combined(every), Evidence(PROBLEM, test).combined(every)
    expected = by_hand(held, along, path.tolist(), share)
    assert set(found.rows[found.certified].tolist()) == set(expected)
    p = found.p_values.max(axis=1)
    assert (p[found.certified] <= found.levels[found.certified]).all()
    assert (p == np.where(found.by_holm, held[found.rows], along[found.rows])).all()
    assert np.allclose(found.levels[~found.by_holm], (1 - share) * 0.1)
    assert (found.levels[found.by_holm] <= share * 0.1).all()


def test_without_a_table_of_everything_the_path_has_all_of_delta() -> None:
    opt, test = random_table(n=400).split(0.3)
    plan = rf.ParetoTesting().plan(opt, PROBLEM)
    assert plan.holm_share > 0
    found = rf.certify(plan, test, PROBLEM)
    assert set(found.tested["tested_at"]) == {0.1}
    assert set(found.tested["tested_by"]) == {"path"}
    assert found.parameters["holm_share"] == 0  # what was done


def prompts(rng: np.random.Generator, n: int, m: int = 60) -> tuple[rf.LossTable, np.ndarray]:
    """Settings without structure, risk unrelated to cost: many are safe, and few examples plan."""
    risk, cost = rng.choice([0.01, 0.03, 0.2], m), rng.random(m)
    error = rng.random((m, n)) < risk[:, None]
    losses = {"error": error, "cost": np.repeat(cost[:, None], n, axis=1)}
    return rf.LossTable([{"prompt": f"p{i}"} for i in range(m)], losses), risk


@pytest.mark.slow
def test_never_fewer_certificates_than_bonferroni_by_more_than_a_hair() -> None:
    problem = rf.Problem([rf.Limit("error", at_most=0.1)], ["cost"])
    nothing = {"with": 0, "without": 0, "bonferroni": 0}
    for seed in range(25):
        table, _ = prompts(np.random.default_rng(seed), 90)
        for name, method in (
            ("with", rf.ParetoTesting(holm_share=0.2)),
            ("without", rf.ParetoTesting(holm_share=0)),
            ("bonferroni", rf.BonferroniTesting()),
        ):
            nothing[name] += not rf.calibrate(table, problem, method=method)
    assert nothing["with"] <= min(nothing["without"], nothing["bonferroni"] + 2)


def test_what_the_net_caught_is_shown_as_it_saw_it() -> None:
    table, _ = prompts(np.random.default_rng(0), 300)
    problem = rf.Problem([rf.Limit("error", at_most=0.1)], ["cost"])
    found = rf.calibrate(table, problem, method=rf.ParetoTesting(holm_share=0.5))
    caught = found.tested[found.tested["tested_by"] == "holm"]
    assert len(caught) > 3
    rows = [int(name[1:]) for name in caught["prompt"]]
    np.testing.assert_allclose(caught["error"], table.losses("error")[rows].mean(axis=1))
    np.testing.assert_allclose(caught["cost"], table.losses("cost")[rows].mean(axis=1))
    assert (caught["p_value"] <= caught["tested_at"]).all()
    assert rf.verify(found, table) == []
    assert rf.Certificate.from_dict(found.to_dict()).to_dict() == found.to_dict()


def null_trials(method: rf.ParetoTesting, trials: int, *, continuous: bool = False) -> int:
    """Trials in which anything was certified, of 40 settings that all break the limit by a hair."""
    rng, n = np.random.default_rng(7), 4000
    ranks = np.argsort(rng.random((40, n)), axis=1)
    error = ranks < np.ceil(0.1 * n + 1)
    if continuous:
        error = rng.beta(0.3, 2.7, (40, n))
        error *= 0.1000001 / error.mean(axis=1, keepdims=True)
    table = rf.LossTable(
        [{"prompt": f"p{i}"} for i in range(40)],
        {"error": error, "cost": np.ones((40, n))},
        bounds={"error": (0, max(1, error.max()))} if continuous else None,
    )
    problem = rf.Problem([rf.Limit("error", at_most=0.1)], ["cost"])
    found = rf.experiment.run(table, problem, methods=[method], trials=trials, calibration=150)
    return int(found["any_violated"].sum())


@pytest.mark.monte_carlo
@pytest.mark.parametrize("continuous", [False, True])
def test_both_arms_together_err_at_most_delta(continuous: bool) -> None:
    assert not too_many(null_trials(rf.ParetoTesting(holm_share=0.5), 2000, continuous=continuous), 2000, 0.1)


@pytest.mark.monte_carlo
def test_a_net_that_forgets_its_share_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """The mutant: the path keeps all of delta, and so does the fallback test."""

    def forgetful(plan: Plan, evidence: Evidence, everything: Evidence) -> decisions.Decision:
        path = decide(replace(plan, holm_share=0.0), evidence)
        holm = decide(Plan(plan.method, plan.opt, np.arange(40), Holm()), everything)
        return path if path.certified.any() else holm

    monkeypatch.setattr("riskfront.experiment._repeated_splits.decide", forgetful)
    assert too_many(null_trials(rf.ParetoTesting(holm_share=0.5), 4000), 4000, 0.1)
