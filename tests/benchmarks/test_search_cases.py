"""The comparison of search strategies counts what it says: the longest run of each seed, against the full grid on its split."""

import csv

import numpy as np
import pytest

import riskfront as rf
from benchmarks import search_strategies
from benchmarks.search_cases import SHAPE, draw


@pytest.fixture(scope="module")
def case():
    return draw("cascade", 100)


def test_a_case_tells_opt_values_and_knows_the_truth(case):
    assert case.told.shape == (np.prod(SHAPE), 3)
    assert case.space.size == len(case.true_cost) == np.prod(SHAPE)
    config = {"exit_1": 17, "exit_2": 3, "abstain": 5}
    assert case.table.config(case.row(config)) == config
    opt, _ = case.table.split(rf.ParetoTesting().opt_fraction, seed=100)
    assert case.told[case.row(config), 2] == pytest.approx(opt.means("cost")[case.row(config), 0])
    assert case.targets[0].n_opt + case.targets[0].n_test == case.table.n_examples


def test_the_certified_cost_is_that_of_calibrate(case):
    rows = list(range(0, 6480, 7))
    certificate = rf.calibrate(case.table.select(rows), case.problem, seed=100)
    assert certificate
    assert case.certified_cost(rows) == case.true_cost[case.row(certificate.config)]
    assert case.certified_cost([0]) == 1.0  # leaving at once on a coin's toss
    assert case.certified_cost(list(range(6480))) == case.certified_cost()


def test_runs_are_resumed_and_the_longest_counts(case, tmp_path, monkeypatch):
    monkeypatch.setattr(search_strategies, "draw", lambda name, seed: case)
    out = tmp_path / "search.csv"
    for most in (25, 50, 50):
        search_strategies.run(["cascade"], ["random", "grid"], range(1), most, out)
    with out.open() as file:
        lines = [(line["strategy"], line["evaluations"]) for line in csv.DictReader(file)]
    assert lines == [("full grid", "6480"), ("random", "25"), ("grid", "25"), ("random", "50"), ("grid", "50")]
    results = search_strategies.read_results(out)
    assert sorted(results[results["strategy"] == "random"]["budget"]) == [25, 50]
    summary = search_strategies.summarise(results).set_index(["strategy", "budget"])
    assert summary.loc[("full grid", 25), "excess"] == 0
    assert summary.loc[("random", 50), "over_random"] == 0
    text = search_strategies.markdown(out)
    assert "1 seeds" in text
    assert "| random |" in text
