"""Limits on more than a mean: texts, ranges, what is measured, and that nothing above its limit passes."""

import numpy as np
import pytest

import riskfront as rf
from riskfront._data import derived_losses
from riskfront._data.derived_losses import worst_means
from riskfront.methods._evidence.limit_tests import Evidence

ROWS = np.arange(12)
RNG = np.random.default_rng(3)
N = 900
GROUP = RNG.choice(["a", "b", "c"], N, p=[0.5, 0.3, 0.2])
WEIGHT = np.round(RNG.uniform(0, 2, N), 2)
SOLVED = RNG.random((12, N)) < np.linspace(0.9, 0.3, 12)[:, None]
COST = RNG.random((12, N)) * np.linspace(1, 3, 12)[:, None]
ERROR = RNG.random((12, N)) < np.linspace(0.02, 0.5, 12)[:, None]
TABLE = rf.LossTable(
    [{"k": row} for row in ROWS],
    {"solved": SOLVED, "cost": COST, "error": ERROR},
    groups={"g": GROUP, "w": WEIGHT, "known": (np.arange(N) % 2).astype(int)},
    bounds={"cost": (0, 3)},
)


def evidence(limit: rf.Limit | str, table: rf.LossTable = TABLE) -> Evidence:
    return Evidence(rf.Problem([limit], minimize="cost"), table)


@pytest.mark.parametrize(
    ("text", "limit"),
    [
        ("cost / solved <= 2", rf.Limit("cost", over="solved", at_most=2)),
        ("tp / (tp + fp) >= 90 %", rf.Limit.precision(at_least=0.9)),
        ("tp / (tp + fn) >= 0.9", rf.Limit.recall(at_least=0.9)),
        ("tp / (tp + 0.5 fp + 0.5 fn) >= 0.9", rf.Limit.f_score(at_least=0.9)),
        ("tp / (tp + 0.2 fp + 0.8 fn) >= 0.9", rf.Limit.f_score(at_least=0.9, beta=2)),
        ("error gap between country <= 5 %", rf.Limit("error", gap_per="country", at_most=0.05)),
        ("worst 2.5 % of latency <= 300", rf.Limit("latency", worst=0.025, at_most=300)),
        ("error weighted by w up to 10 <= 0.1", rf.Limit("error", weights="w", largest_weight=10, at_most=0.1)),
    ],
)
def test_texts(text: str, limit: rf.Limit) -> None:
    assert rf.Limit.parse(text) == limit
    assert rf.Limit.parse(str(limit)) == limit
    problem = rf.Problem([limit], minimize="cost")
    assert rf.Problem.from_dict(problem.to_dict()) == problem
    assert eval(repr(limit), {"Limit": rf.Limit}) == limit


def test_a_ratio_is_measured_as_one_and_tested_as_a_signed_mean() -> None:
    (test,) = evidence(rf.Limit("cost", over="solved", at_most=2)).tests
    assert (test.low, test.high, test.at, test.p_value) == (-2.0, 3.0, 0.0, "betting")
    np.testing.assert_allclose(test.measured(TABLE, None)[:, 0], COST.mean(axis=1) / SOLVED.mean(axis=1))
    sums = test.sums(TABLE, ROWS)
    np.testing.assert_allclose(test.shown(sums.means())[:, 0], (COST - 2 * SOLVED).mean(axis=1), atol=1e-12)


def test_a_ratio_in_groups_and_given_a_condition() -> None:
    (test,) = evidence(rf.Limit("cost", over={"solved": 2, "error": 0.5}, at_most=1, per="g", given="known")).tests
    for column, name in enumerate("abc"):
        kept = (name == GROUP) & (np.arange(N) % 2 == 1)
        below = (2 * SOLVED + 0.5 * ERROR)[:, kept].mean(axis=1)
        np.testing.assert_allclose(test.measured(TABLE, None)[:, column], COST[:, kept].mean(axis=1) / below)


def test_a_weighted_mean() -> None:
    (test,) = evidence("error weighted by w up to 2 <= 0.2").tests
    np.testing.assert_allclose(test.measured(TABLE, None)[:, 0], ERROR @ WEIGHT / WEIGHT.sum())
    assert (test.low, test.high) == pytest.approx((-0.4, 1.6))
    with pytest.raises(rf.InvalidInputError, match="largest_weight"):
        evidence(rf.Limit("error", weights="w", largest_weight=1.5, at_most=0.2))


def test_a_gap_compares_every_two_groups_both_ways() -> None:
    (test,) = evidence("error gap between g <= 0.1").tests
    means = np.stack([ERROR[:, name == GROUP].mean(axis=1) for name in "abc"], axis=1)
    expected = np.stack([means[:, a] - means[:, b] for a, b in derived_losses.pairs(3)], axis=1)
    np.testing.assert_allclose(test.measured(TABLE, None), expected, atol=1e-12)
    assert test.groups(TABLE)[:2] == ["a minus b", "a minus c"]


def test_pairs_use_every_example_of_both_groups_once() -> None:
    values = RNG.random((2, 10))
    one, other = np.arange(10) < 3, np.arange(10) >= 3
    (difference, kept), (opposite, _) = derived_losses.paired(values, None, [one, other])
    assert kept is None
    np.testing.assert_allclose(difference, -opposite)
    batches = [(3, 5), (5, 7), (7, 10)]
    np.testing.assert_allclose(
        difference, values[:, :3] - np.stack([values[:, a:b].mean(axis=1) for a, b in batches], axis=1)
    )


def test_pairs_given_a_condition_of_the_setting() -> None:
    values, condition = RNG.random((2, 8)), np.array([[1, 0, 1, 1, 0, 1, 1, 1], [1, 1, 1, 0, 1, 0, 0, 0]], dtype=bool)
    one, other = np.arange(4), np.arange(4, 8)
    difference, kept = derived_losses.paired(values, condition, [one, other])[0]
    assert kept is not None
    assert kept.sum(axis=1).tolist() == [3, 1]
    assert difference[1, 0] == pytest.approx(values[1, :3].mean() - values[1, 4])


@pytest.mark.parametrize("lower", [False, True])
def test_means_of_worst_cases(lower: bool) -> None:
    found = worst_means(np.array([[4.0, 1, 3, 2]]), None, 0.375, lower=lower)
    assert found == pytest.approx([(1 + 0.5 * 2) / 1.5 if lower else (4 + 0.5 * 3) / 1.5])
    grid = np.linspace(0, 3, 601)  # the mean of worst cases is the least bound that a threshold gives
    for row, measured in zip(COST[:3], worst_means(COST[:3], None, 0.1), strict=True):
        bounds = grid + np.maximum(row[:, None] - grid, 0).mean(axis=0) / 0.1
        assert measured == pytest.approx(bounds.min(), abs=1e-3)


def test_the_threshold_comes_from_planning_examples_alone() -> None:
    problem = rf.Problem(["worst 10 % of cost <= 1.5"], minimize="error")
    opt, test = TABLE.split(0.5)
    with pytest.raises(rf.InvalidInputError, match="planning examples"):
        Evidence(problem, test)
    certificate = rf.certify(rf.ParetoTesting(opt_fraction=0.5).plan(opt, problem), test, problem)
    other = rf.certify(rf.ParetoTesting(opt_fraction=0.5).plan(opt, problem), test.subset(np.arange(100)), problem)
    assert certificate.thresholds == other.thresholds
    assert 0.5 < certificate.thresholds["worst 10 % of cost <= 1.5"] < 1.5
    with pytest.raises(rf.InvalidInputError, match="threshold="):
        rf.calibrate(TABLE, problem, method="bonferroni")
    given = rf.Problem([rf.Limit("cost", worst=0.1, at_most=1.5, threshold=1.2)], minimize="error")
    assert rf.calibrate(TABLE, given, method="bonferroni").thresholds == {}


def test_a_threshold_of_planning_examples_allows_no_net_over_them() -> None:
    certificate = rf.calibrate(TABLE, rf.Problem(["worst 10 % of cost <= 1.5"], minimize="error"))
    assert certificate.parameters["holm_share"] == 0
    assert (certificate.path["tested_by"] == "path").all()


@pytest.mark.parametrize(
    "text",
    [
        "cost / solved <= 2",
        "solved / (solved + error) >= 0.8",
        "error gap between g <= 0.03",
        "worst 10 % of cost <= 1.8",
        "error weighted by w up to 2 <= 0.2",
        "worst 20 % of cost >= 0.02",
    ],
)
def test_certificates_are_verified_and_never_measure_above_the_limit(text: str, tmp_path) -> None:
    problem = rf.Problem([text], minimize="error" if "worst" in text else "cost")
    certificate = rf.calibrate(TABLE, problem)
    certificate.save(tmp_path / "c.json")
    assert rf.verify(rf.Certificate.load(tmp_path / "c.json"), TABLE) == []
    limit, measured = problem.limits[0], certificate.certified[problem.limit_names[0]]
    assert ((measured <= limit.value) if limit.at_most is not None else (measured >= limit.value)).all()


def test_every_p_value_of_what_measures_above_is_one() -> None:
    for text in ("cost / solved <= 2", "error gap between g <= 0.03", "error weighted by w up to 2 <= 0.2"):
        found = evidence(text)
        above = found.tests[0].worst_measured(TABLE, None) > found.tests[0].limit.value
        assert above.any()
        assert (found.p_values(ROWS)[above] == 1).all()


def test_one_group_has_no_gap() -> None:
    with pytest.raises(rf.InvalidInputError, match="only one"):
        evidence(
            "error gap between h <= 0.1",
            rf.LossTable(TABLE.configs, {"error": ERROR, "cost": COST / 3}, {"h": [1] * N}),
        )


@pytest.mark.parametrize("text", ["cost / solved <= 2", "worst 10 % of cost <= 2", "error gap between g <= 0.3"])
def test_new_examples_are_checked_in_the_same_way(text: str) -> None:
    certificate = rf.calibrate(TABLE.subset(np.arange(450)), rf.Problem([text], minimize="error"))
    new = rf.LossTable(
        TABLE.configs,
        {name: TABLE.losses(name)[:, 450:] for name in TABLE.loss_names},
        {"g": GROUP[450:], "w": WEIGHT[450:]},
        {"cost": (0, 3)},
    )
    found = rf.check(certificate, new)
    assert found.limits["measured"].notna().all()
    assert "broken" not in set(found.limits["says"])


def test_words() -> None:
    def verdict(text: str) -> str:
        return rf.calibrate(TABLE, rf.Problem([text], minimize="error")).verdict()

    assert "cost / solved stays at or below 2.5" in verdict("cost / solved <= 2.5")
    assert "solved / (solved + error) stays at or above 60 %" in verdict("solved / (solved + error) >= 0.6")
    gap = verdict("error gap between g <= 0.3")
    assert "the largest difference in error between two values of g (a, b and c) stays at or below 30 %" in gap
    assert "the mean of the worst 10 % of cost stays at or below 2.5" in verdict("worst 10 % of cost <= 2.5")
    assert "error weighted by w stays at or below 40 %" in verdict("error weighted by w up to 2 <= 0.4")
