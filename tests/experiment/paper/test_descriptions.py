"""The descriptions say what the paper says: limits, numbers, who takes part."""

import numpy as np
import pytest

from riskfront.experiment._paper.descriptions import DROP, EXPERIMENTS
from riskfront.experiment._paper.stored_tables import ALPHAS, CALIBRATION
from tests.support.experiment_tables import simulated_table

TABLE = simulated_table(20)
GUARANTEED = ["pareto-testing", "split-fst", "sgt", "low-risk-path", "constrained-path"]
UNGUARDED = ["alpha-constrained", "alpha-delta-constrained"]


@pytest.mark.parametrize("name", ["two-objectives", "cost-controlled", "flops", "worst-class"])
def test_all_of_the_papers_methods_take_part(name: str) -> None:
    papers = EXPERIMENTS[name].lineups[0].made_for(TABLE)
    assert [method.name for method in papers] == GUARANTEED + UNGUARDED
    assert [method.guaranteed for method in papers] == [True] * 5 + [False] * 2


def test_four_dimensions_have_no_grid_methods() -> None:
    """As the paper says of abstention: 3D SGT and the low-risk path do not apply."""
    papers = EXPERIMENTS["selective-two-controlled"].lineups[0].made_for(TABLE)
    assert [method.name for method in papers] == ["pareto-testing", "split-fst", "constrained-path", *UNGUARDED]


def test_the_papers_form() -> None:
    for experiment in EXPERIMENTS.values():
        for limit in experiment.lineups[0].limits if experiment.lineups else ():
            assert limit.p_value == "hoeffding-bentkus"
            assert limit.padded == (limit.per is not None or limit.given is not None)
        for method in experiment.lineups[0].made_for(TABLE) if experiment.lineups else ():
            assert method.opt_fraction in (0.0, 0.5)


def test_numbers() -> None:
    np.testing.assert_allclose(ALPHAS, np.arange(1, 9) * 0.025)
    assert CALIBRATION == {"ag_news": 5000, "imdb": 5000, "qnli": 3400, "qqp": 5000, "mnli": 10_000}
    assert all(experiment.delta == 0.1 for experiment in EXPERIMENTS.values())
    assert EXPERIMENTS["cost-controlled"].alphas == (0.1, 0.2, 0.3)
    assert EXPERIMENTS["flops"].alphas == (0.025, 0.05, 0.1)
    assert {alpha[1] for alpha in EXPERIMENTS["worst-class"].alphas} == {0.15}  # type: ignore[index]
    assert {alpha[1] for alpha in EXPERIMENTS["selective-two-controlled"].alphas} == {0.9}  # type: ignore[index]
    assert EXPERIMENTS["selective-two-free"].alphas == (0.05,)
    assert all(EXPERIMENTS[name].trials == 100 for name in ("two-objectives", "cost-controlled", "worst-class"))


def test_grid_methods_start_where_the_limited_risk_is_lowest() -> None:
    for name, end in (("two-objectives", "low"), ("worst-class", "low"), ("cost-controlled", "high")):
        for method in EXPERIMENTS[name].lineups[0].made_for(TABLE):
            if method.name in ("sgt", "low-risk-path"):
                assert set(method.safest.values()) == {end}  # type: ignore[attr-defined]


def test_riskfronts_rows_stand_beside() -> None:
    forms = [lineup.form for lineup in EXPERIMENTS["two-objectives"].lineups]
    assert forms == ["", "exact p-values", "riskfront's default", "riskfront's default, signed drop"]
    assert EXPERIMENTS["two-objectives"].lineups[1].limits[0].loss == DROP
