"""Repeated trials against calibrating by hand, and against a known truth."""

import numpy as np
import pandas as pd
import pytest

import riskfront as rf
from riskfront import experiment
from riskfront._calibration.calibrate import split_and_test
from riskfront.errors import InvalidInputError
from riskfront.experiment._repeated_splits import _STREAM, calibration_examples
from riskfront.methods import make_method
from riskfront.methods._plan import resolve_defaults
from riskfront.methods._registry import BY_NAME
from tests.support.tables import random_table

PROBLEM = rf.Problem([rf.Limit("error", at_most=0.12), rf.Limit("drop", at_most=0.4)], ["cost"])
TABLE = random_table(n=500)


@pytest.mark.slow
def test_a_tidy_frame() -> None:
    frame = experiment.run(TABLE, PROBLEM, alphas=[0.1, 0.12], trials=3, calibration=300)
    assert len(frame) == len(BY_NAME) * 2 * 3
    assert set(frame["method"]) == set(BY_NAME)
    assert {"p_value", "alpha", "trial", "error", "drop", "cost", "violated", "any_violated", "n_certified"} <= set(
        frame
    )
    again = experiment.run(TABLE, PROBLEM, alphas=[0.1, 0.12], trials=3, calibration=300)
    assert frame.equals(again)
    assert not frame.equals(experiment.run(TABLE, PROBLEM, alphas=[0.1, 0.12], trials=3, calibration=300, seed=1))


@pytest.mark.parametrize("held_out", [False, True])
@pytest.mark.parametrize("name", BY_NAME)
def test_a_trial_is_a_call_of_calibrate(name: str, held_out: bool) -> None:
    """What the simulations of this harness show is shown of ``calibrate``: same plan, same tests, on a draw that is random
    already, so that its split need not look at contents."""
    found = experiment.run(TABLE, PROBLEM, methods=[name], trials=3, calibration=300, held_out=held_out)
    for trial, row in enumerate(found.itertuples()):
        sample, rest = calibration_examples(500, 300, trial, held_out)
        drawn = TABLE.subset(sample)
        method = resolve_defaults(make_method(name), drawn, drawn.n_examples)
        certificate = split_and_test(drawn, PROBLEM, method, trial, split_by="positions")
        assert (row.trial, row.n_tested, row.n_certified) == (
            trial,
            len(certificate.tested),
            len(certificate.certified),
        )
        if not certificate:
            continue
        judge = TABLE.subset(rest) if held_out else TABLE
        risks = {loss: judge.losses(loss).mean(axis=1) for loss in ("error", "drop")}
        broken = (risks["error"] > 0.12 + 1e-12) | (risks["drop"] > 0.4 + 1e-12)
        best = row_of(certificate.config)
        assert row.error == pytest.approx(risks["error"][best])
        assert row.cost == pytest.approx(judge.losses("cost")[best].mean())
        assert (row.held_out_above if held_out else row.violated) == broken[best]
        if not held_out:
            certified = certificate.certified[["a", "b"]].to_dict("records")
            assert row.any_violated == broken[[row_of(config) for config in certified]].any()


def row_of(config: dict[str, int]) -> int:
    return int(np.flatnonzero((TABLE.configs == pd.Series(config)).all(axis=1))[0])


def crowded(seed: int) -> tuple[rf.LossTable, np.ndarray]:
    """1,000 examples of 40 settings whose true errors are known: a whole crowd of them lies just below or above .1."""
    rng = np.random.default_rng([seed, 3])
    risks = np.linspace(0.04, 0.12, 40)
    u = np.where(rng.random(1000) < 0.7, rng.random(1000), rng.random((40, 1000)))
    cost = np.repeat(np.linspace(1, 0.2, 40)[:, None], 1000, axis=1)
    return rf.LossTable([{"t": i} for i in range(40)], {"error": u < risks[:, None], "cost": cost}), risks


@pytest.mark.slow
def test_violated_is_the_truth_and_held_out_is_noise() -> None:
    """Calibrated on nine tenths, a setting measures above its limit on the last tenth far more often than it breaks it."""
    problem = rf.Problem("error <= 0.1", minimize="cost")
    options = {"methods": ["pareto-testing"], "trials": 40, "calibration": 0.9}
    truly, rates = 0, []
    for seed in range(10):
        table, risks = crowded(seed)
        splits = experiment.run(table, problem, held_out=True, **options)
        draws = experiment.run(table, problem, **options)
        rates.append((draws["violated"].mean(), splits["held_out_above"].mean(), splits["held_out_shown"].mean()))
        for trial in range(40):
            sample, _ = calibration_examples(1000, 900, trial, True)
            certificate = rf.calibrate(table.subset(sample), problem, seed=trial)
            truly += bool(certificate) and risks[certificate.config["t"]] > 0.1
    violated, above, shown = np.mean(rates, axis=0)
    assert above > 0.15  # would read as a broken promise next to delta = .1
    assert violated <= 0.1
    assert truly / 400 <= 0.1
    assert abs(violated - truly / 400) < 0.06
    assert shown <= 0.1 + 0.05


def test_held_out_columns_have_names_of_their_own() -> None:
    found = experiment.run(TABLE, PROBLEM, methods=["holm", "alpha-constrained"], trials=5, held_out=True)
    assert {"held_out_above", "held_out_shown"} <= set(found)
    assert not {"violated", "any_violated"} & set(found)
    assert {"held_out_above", "held_out_shown"} <= set(experiment.summarize(found))


def test_held_out_examples_show_what_is_grossly_broken() -> None:
    """A setting picked without a test on few examples, far above its limit: the held-out examples prove it."""
    rng = np.random.default_rng(0)
    error = rng.random((200, 2000)) < 0.3
    table = rf.LossTable([{"t": i} for i in range(200)], {"error": error, "cost": np.ones((200, 2000))})
    problem = rf.Problem("error <= 0.2", minimize="cost")
    found = experiment.run(table, problem, methods=["alpha-constrained"], trials=20, calibration=20, held_out=True)
    assert found["held_out_shown"].mean() > 0.9


def test_variants_of_one_method_are_told_apart() -> None:
    methods = [rf.ParetoTesting(opt_fraction=0.3), rf.ParetoTesting(opt_fraction=0.5), rf.HolmTesting()]
    frame = experiment.run(TABLE, PROBLEM, methods=methods, trials=2)
    names = ["pareto-testing (opt_fraction=0.3)", "pareto-testing (opt_fraction=0.5)", "holm"]
    assert list(dict.fromkeys(frame["method"])) == names
    assert experiment.summarize(frame)["method"].tolist() == names


def test_summary() -> None:
    frame = experiment.run(
        TABLE, PROBLEM, methods=["holm"], alphas=[0.001, 0.12], trials=5, p_values=["hoeffding-bentkus"]
    )
    summary = experiment.summarize(frame)
    assert summary["alpha"].tolist() == [0.001, 0.12]
    assert summary["certified_something"].tolist()[0] == 0
    assert set(summary["p_value"]) == {"hoeffding-bentkus"}
    assert summary["cost"].iloc[1] == pytest.approx(frame[frame["alpha"] == 0.12]["cost"].mean())


def test_nothing_certified_is_no_violation() -> None:
    hopeless = rf.Problem([rf.Limit("error", at_most=0.0001)], ["cost"])
    frame = experiment.run(TABLE, hopeless, methods=["pareto-testing"], trials=2)
    assert not frame["violated"].any()
    assert frame["cost"].isna().all()


def test_the_summary_says_how_sure_its_share_is() -> None:
    summary = experiment.summarize(experiment.run(TABLE, PROBLEM, methods=["holm"], trials=10))
    row = summary.iloc[0]
    assert row["trials"] == 10
    assert row["violated_low"] <= row["violated"] <= row["violated_high"]
    assert row["violated_high"] - row["violated_low"] > 0.2  # ten trials do not say much


def test_calibration_sizes() -> None:
    for bad in (0, 1, 500, 1000, 0.0):
        with pytest.raises(
            InvalidInputError, match=r"calibration must take at least 2 examples and leave at least one"
        ):
            experiment.run(TABLE, PROBLEM, calibration=bad, trials=1, held_out=True)
    for bad in (0, 1, 0.0):
        with pytest.raises(InvalidInputError, match=r"calibration must take at least 2 examples; got"):
            experiment.run(TABLE, PROBLEM, calibration=bad, trials=1)
    assert len(experiment.run(TABLE, PROBLEM, methods=["holm"], calibration=1000, trials=1)) == 1


def test_draws_are_independent_of_data_simulated_with_the_same_seed() -> None:
    """default_rng([0, 0]) is default_rng(0): numpy pads seeds with zeros. The harness has a stream of its own."""
    assert np.random.default_rng([0, 0]).random() == np.random.default_rng(0).random()
    assert np.random.default_rng([_STREAM, 0, 0]).random() != np.random.default_rng(0).random()
