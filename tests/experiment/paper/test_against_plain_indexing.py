"""Sums of all trials come from matrix products; here the same from plain indexing, one trial after the other."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

import riskfront as rf
from riskfront._calibration.calibrate import split_and_test
from riskfront._data.splits import split_examples
from riskfront.experiment._paper import chosen_sets, clouds, optimizers, trials
from riskfront.experiment._paper.descriptions import DROP, EXPERIMENTS, SIGNED
from riskfront.experiment._paper.stored_tables import full_row, with_abstaining, with_fewer_exits
from riskfront.experiment._repeated_splits import calibration_examples
from riskfront.methods._plan import resolve_defaults
from tests.support.experiment_tables import simulated_table

TABLE = simulated_table(300, exits=7)
SIZE, TRIALS = 500, 3  # more draws than rows, as where the paper's numbers exceed ours


def results(name: str, table: rf.LossTable = TABLE) -> pd.DataFrame:
    experiment = replace(EXPERIMENTS[name], calibration={"here": SIZE})
    return trials.measure(experiment, "here", table, trials=TRIALS)


def losses(name: str, rows: np.ndarray) -> np.ndarray:
    """As floats, of these examples."""
    return np.array([[float(row[example]) for example in rows] for row in TABLE.losses(name)])


def test_the_best_that_looks_good() -> None:
    found = results("two-objectives")
    picked = found[found["method"] == "alpha-constrained"]
    for row in picked.itertuples():
        drawn, _ = calibration_examples(300, SIZE, row.trial)
        risk, cost = losses(DROP, drawn).mean(axis=1), losses("relative_cost", drawn).mean(axis=1)
        best = min(
            (at for at in range(len(risk)) if risk[at] < row.alpha), key=lambda at: (round(cost[at], 9), risk[at])
        )
        truth = float(TABLE.losses("relative_cost")[best].mean())
        assert row._asdict()["violated"] == (TABLE.losses(DROP)[best].mean() > row.alpha)
        np.testing.assert_allclose(picked.loc[row.Index, "relative cost"], truth, rtol=1e-6)


def test_the_path_of_the_paper() -> None:
    """Front on planning examples, order by risk, Hoeffding-Bentkus tests until the first failure."""
    from riskfront.statistics import hoeffding_bentkus

    found = results("two-objectives").query("method == 'pareto-testing'")
    for row in found.itertuples():
        drawn, _ = calibration_examples(300, SIZE, row.trial)
        opt, test = (drawn[part] for part in split_examples(SIZE, 0.5, row.trial))
        risk, cost = losses(DROP, opt).sum(axis=1), losses("relative_cost", opt).mean(axis=1).round(9)
        everyone = range(len(risk))
        front = [
            a
            for a in everyone
            if not any(
                (risk[b], cost[b]) != (risk[a], cost[a]) and risk[b] <= risk[a] and cost[b] <= cost[a] for b in everyone
            )
        ]
        certified: list[int] = []
        for setting in sorted(dict.fromkeys(front), key=lambda at: risk[at]):
            total = losses(DROP, test)[setting].sum()
            if hoeffding_bentkus(total, len(test), row.alpha) > 0.1:
                break
            certified.append(setting)
        assert (len(certified) > 0) == (row.n_certified > 0)
        if certified:
            best = min(certified, key=lambda at: losses("relative_cost", test)[at].mean())
            truth = float(TABLE.losses("relative_cost")[best].mean())
            np.testing.assert_allclose(found.loc[row.Index, "relative cost"], truth, rtol=1e-5)


@pytest.mark.parametrize("name", ["two-objectives", "cost-controlled", "worst-class"])
def test_every_method_as_one_calibration_would(name: str) -> None:
    found, experiment = results(name), EXPERIMENTS[name]
    alpha, trial = experiment.alphas[2], 1
    drawn = TABLE.subset(calibration_examples(300, SIZE, trial)[0])
    for lineup in experiment.lineups:
        problem = trials.problem_of(experiment, lineup).at(alpha)
        for method in lineup.made_for(TABLE):
            certificate = split_and_test(
                drawn, problem, resolve_defaults(method, TABLE, SIZE), trial, split_by="positions"
            )
            rows = found[(found["method"] == lineup.label(method.name)) & (found["trial"] == trial)]
            row = rows[[value == alpha for value in rows["alpha"]]].iloc[0]
            assert (row["n_certified"] > 0) == bool(certificate)
            if certificate:
                at = next(
                    at for at, config in enumerate(TABLE.configs.to_dict("records")) if config == certificate.config
                )
                objective = SIGNED if name == "cost-controlled" else "relative_cost"
                wanted = float(TABLE.losses(objective)[at].astype(float).mean())
                np.testing.assert_allclose(row[experiment.objectives[0]], wanted, rtol=1e-6, atol=1e-9)


def test_processes_share_trials_and_change_nothing() -> None:
    experiment = replace(EXPERIMENTS["flops"], calibration={"here": SIZE})
    alone, shared = (trials.measure(experiment, "here", TABLE, trials=3, jobs=jobs) for jobs in (1, 2))
    pd.testing.assert_frame_equal(alone, shared)


def test_padded_limits_are_judged_by_the_mean_of_the_class() -> None:
    found = results("worst-class").dropna(subset=["relative cost"])
    cost = TABLE.losses("relative_cost").astype(float).mean(axis=1)
    labels = np.asarray(TABLE.group("label").levels)[TABLE.group("label").codes]
    worst = np.array([max(row[labels == label].mean() for label in np.unique(labels)) for row in TABLE.losses(DROP)])
    padded = found[found["method"] == "pareto-testing"]
    assert len(padded)
    for row in padded.to_dict("records"):
        at = int(np.argmin(np.abs(cost - row["relative cost"])))
        np.testing.assert_allclose(row["worst-class accuracy reduction"], worst[at], atol=1e-9)


def test_chosen_sets_hold_the_truth_of_each_setting() -> None:
    table = with_abstaining(TABLE, (0.0, 0.7))
    experiment = replace(EXPERIMENTS["selective-two-free"], calibration={"here": SIZE})
    found = chosen_sets.measure(experiment, "here", table, trials=1)
    answered = table.losses("answered")
    cost = np.array([c[a].mean() for c, a in zip(table.losses("relative_cost"), answered, strict=True) if a.any()])
    for row in found.dropna(subset=["selective cost"]).to_dict("records"):
        at = int(np.argmin(np.abs(cost - row["selective cost"]) + np.abs(answered.mean(axis=1) - row["answered"])))
        dropped = table.losses(DROP)[at][answered[at]].mean()
        np.testing.assert_allclose(row["accuracy reduction"], dropped, atol=1e-9)
    assert (found["covered"] <= 1).all()


def test_the_grid_of_a_search_is_pareto_testing_on_all_settings() -> None:
    experiment = replace(EXPERIMENTS["optimizer"], calibration={"here": SIZE}, alphas=(0.1, 0.2))
    found = optimizers.measure(experiment, "here", TABLE, trials=1, strategies=("random",), budgets=(10,))
    grid = found[found["method"] == optimizers.GRID].set_index("alpha")["relative cost"]
    wanted = results("two-objectives").query("method == 'pareto-testing' and trial == 0").set_index("alpha")
    full = float(TABLE.losses("relative_cost")[full_row(TABLE.configs)].mean())
    for alpha in (0.1, 0.2):
        np.testing.assert_allclose(grid[alpha], np.nan_to_num(wanted.loc[alpha, "relative cost"], nan=full), rtol=1e-6)
    assert set(found["evaluations"]) == {10, TABLE.n_configs}


def test_the_cloud_and_its_front() -> None:
    found = clouds.measure(EXPERIMENTS["cloud"], "here", TABLE)
    error, cost = 1 - found["accuracy"].to_numpy(), found["relative cost"].to_numpy()
    for at in np.flatnonzero(found["front"]):
        assert not ((error < error[at]) & (cost < cost[at])).any()
    assert found.loc[full_row(TABLE.configs), "pruned"] == "nothing"


def test_abstaining_and_fewer_exits() -> None:
    fewer = with_fewer_exits(TABLE, 3)
    assert sorted(set(fewer.configs["tau_layer"])) == [0.0, 0.5, 1.0]
    table = with_abstaining(fewer, (0.0, 0.8))
    assert table.n_configs == 2 * fewer.n_configs
    np.testing.assert_array_equal(table.losses("answered")[1::2], fewer.losses("confidence") >= np.float32(0.8))
    assert table.losses("answered")[::2].all()
