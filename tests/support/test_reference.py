"""The oracle itself, against values worked out by hand, scipy and statsmodels."""

import math
from fractions import Fraction
from itertools import permutations

import numpy as np
import pytest
from scipy import stats
from statsmodels.stats.multitest import multipletests

from tests.support import reference as ref


def test_binomial_by_hand() -> None:
    assert ref.binomial(0, 3, Fraction(1, 2)) == 1 / 8
    assert ref.binomial(1, 3, Fraction(1, 2)) == 4 / 8
    assert ref.binomial(3, 3, Fraction(1, 2)) == 1
    assert ref.binomial(1, 2, Fraction(1, 10)) == 0.99


def test_binomial_as_scipy() -> None:
    for n in (1, 7, 40, 150):
        for alpha in (0.01, 0.05, 0.3, 0.9):
            ours = [ref.binomial(k, n, alpha) for k in range(n + 1)]
            np.testing.assert_allclose(ours, stats.binom.cdf(range(n + 1), n, alpha), rtol=1e-9)


def test_hoeffding_by_hand() -> None:
    # R = 0 leaves the term of 1 - R: (1 - alpha)^n.
    assert ref.hoeffding(0, 20, 0.1) == pytest.approx(0.9**20)
    assert ref.hoeffding(2, 20, 0.1) == 1
    assert ref.hoeffding(9, 20, 0.1) == 1
    # R = 1/4 against 1/2: h = 1/4 ln(1/2) + 3/4 ln(3/2), so exp(-4 h) = 2 (2/3)^3.
    assert ref.hoeffding(1, 4, 0.5) == pytest.approx(16 / 27)
    assert ref.hoeffding_simple(1, 4, 0.5) == pytest.approx(math.exp(-0.5))
    assert ref.hoeffding_simple(3, 4, 0.5) == 1


def test_bentkus_by_hand() -> None:
    assert ref.bentkus(0, 10, 0.5) == pytest.approx(math.e / 1024)
    assert ref.bentkus(0.5, 10, 0.5) == ref.bentkus(1, 10, 0.5) == pytest.approx(math.e * 11 / 1024)
    assert ref.bentkus(9, 10, 0.5) == 1
    assert ref.hoeffding_bentkus(0, 10, 0.5) == pytest.approx(1 / 1024)
    assert ref.hoeffding_bentkus(0, 20, 0.1) == pytest.approx(0.9**20)
    # "Hoeffding part lost at mean 0" in figures: e * 0.9^20 = 0.33 in place of 0.12.
    assert ref.bentkus(0, 20, 0.1) == pytest.approx(0.33, abs=0.005)
    assert ref.hoeffding_bentkus(0, 20, 0.1) == pytest.approx(0.12, abs=0.005)


def test_sum_is_exact() -> None:
    assert ref.total([0.1] * 10) == 10 * Fraction(0.1)
    assert ref.total([True, False, np.int8(-1), np.float32(0.5)]) == Fraction(1, 2)


def test_fixed_stakes_by_hand() -> None:
    # n = 2, alpha = 1/2, delta = exp(-1/4): sqrt(2 * 1/4 / (2 s2)) = sqrt(1 / (4 s2)); s2_0 = 1/4 stakes 1.
    # x_1 = 0: K_1 = 1 + 1 * 1/2. mu_1 = 1/4, s2_1 = (1/4 + 1/16) / 2 = 5/32 stakes sqrt(8/5) = 1.265 < cap 1.5.
    delta = math.exp(-0.25)
    assert ref.betting_fixed([0], 0.5, math.exp(-0.125)) == pytest.approx(1 / 1.5)
    assert ref.betting_fixed([0, 0], 0.5, delta) == pytest.approx(1 / (1.5 * (1 + math.sqrt(8 / 5) / 2)))
    # The second loss lowers the wealth: its maximum stays at the first.
    assert ref.betting_fixed([0, 1], 0.5, delta) == pytest.approx(1 / 1.5)
    assert ref.betting_fixed([1, 1], 0.5, delta) == 1


def test_fixed_stakes_caps_the_stake() -> None:
    # sqrt(2 ln(1000) / (1/4)) is far above the cap of 0.75 / (1 - 0.2).
    assert ref.betting_fixed([0], 0.2, 0.001) == pytest.approx(1 / (1 + 0.9375 * 0.2))


def test_betting_by_hand() -> None:
    """alpha = .5, one loss of 0: S = 1/4, stake = min(1.998, sqrt(2 L / (1/4))); then wealth 1 + stake / 2."""
    assert ref.betting([0], 0.5, math.exp(-0.125)) == pytest.approx(1 / 1.5)
    assert ref.betting([1], 0.5, math.exp(-0.125)) == 1
    # two losses: the first stake is sqrt(2 * 2 / (2 / 4)), capped; the second is aimed at what is missing
    first = min(1.998, math.sqrt(8))
    missing = 2 - math.log(1 + first / 2)
    second = min(1.998, math.sqrt(2 * missing / 0.25))
    assert ref.betting([0, 0], 0.5, math.exp(-2)) == pytest.approx(1 / ((1 + first / 2) * (1 + second / 2)))


def test_betting_on_signed_losses_is_betting_on_the_rescaled_ones() -> None:
    drops = [0, -1, 0, 1, 0, 0, -1]
    moved = [(d + 1) / 2 for d in drops]
    assert ref.betting(drops, 0.1, 0.1, low=-1, high=1) == pytest.approx(ref.betting(moved, 0.55, 0.1))


def test_betting_knows_only_the_past() -> None:
    """The wealth after t losses does not change with what follows, for a fixed n."""
    first = ref.betting([0, 0, 0, 1, 1, 1], 0.5, 0.1)
    assert first == ref.betting([0, 0, 0, 1, 1, 0.9], 0.5, 0.1)
    assert first < 1


def test_conditional_risk_by_hand() -> None:
    losses, labels = [1, 0, 0, 0, 1], ["a", "b", "b", "a", "b"]
    in_b = [label == "b" for label in labels]
    assert ref.selected(losses, in_b) == [0, 0, 1]
    assert ref.padded(losses, in_b, 0.2) == [0.2, 0, 0, 0.2, 1]

    def p_value(kept: list[ref.Number]) -> float:
        return ref.binomial(sum(kept), len(kept), Fraction(1, 2))

    assert ref.p_value_given(losses, in_b, p_value) == 4 / 8
    assert ref.p_value_given(losses, [False] * 5, p_value) == 1
    assert ref.p_value_per(losses, labels, ["a", "b"], p_value) == 3 / 4
    assert ref.p_value_per(losses, labels, ["a", "b", "c"], p_value) == 1
    assert ref.combined([[0.1, 0.3], [0.2, 0.05]]) == [0.3, 0.2]


@pytest.mark.parametrize(("ours", "theirs"), [(ref.holm, "holm"), (ref.bonferroni, "bonferroni")])
def test_procedures_as_statsmodels(ours, theirs, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        "gc.collect", lambda: 0
    )  # statsmodels collects garbage in every call: seconds in a large process
    rng = np.random.default_rng(0)
    for size in range(1, 21):
        p_values = rng.beta(0.3, 3, size=size)
        assert ours(p_values, 0.1) == multipletests(p_values, 0.1, theirs)[0].tolist()


def test_fixed_sequence_stops_for_good() -> None:
    assert ref.fixed_sequence([0.01, 0.1, 0.2, 0.0], 0.1) == [True, True, False, False]
    assert ref.fixed_sequence([0.2, 0.0], 0.1) == [False, False]
    assert ref.fixed_sequence([], 0.1) == []


def test_graphical_by_hand() -> None:
    # Two nodes share delta = 0.1; the first, once rejected, hands its half over: 0.08 <= 0.1 but 0.08 > 0.05.
    graph = ([0.5, 0.5], [[0, 1], [1, 0]])
    assert ref.graphical([0.04, 0.08], *graph, 0.1) == [True, True]
    assert ref.graphical([0.06, 0.08], *graph, 0.1) == [False, False]
    # Without the edge nothing is handed over.
    assert ref.graphical([0.04, 0.08], [0.5, 0.5], [[0, 0], [0, 0]], 0.1) == [True, False]


def test_graphical_rewires() -> None:
    # 0 -> 1 (1/2), 1 -> 0 (1/2), 1 -> 2 (1/2), all weight on 1. Reject 1: w_0 = w_2 = 1/2, and 0 now leads to
    # 2 with (0 + 1/2 * 1/2) / (1 - 1/4) = 1/3. Reject 0: w_2 = 1/2 + 1/2 * 1/3 = 2/3.
    weights = [Fraction(0), Fraction(1), Fraction(0)]
    half = Fraction(1, 2)
    transitions = [[0, half, 0], [half, 0, half], [0, 0, 0]]
    assert ref.graphical([0.05, 0.1, 0.066], weights, transitions, 0.1) == [True, True, True]
    assert ref.graphical([0.05, 0.1, 0.067], weights, transitions, 0.1) == [True, True, False]


def test_graphical_is_the_fixed_sequence_on_a_chain_and_holm_on_a_complete_graph() -> None:
    rng = np.random.default_rng(1)
    for _ in range(100):
        p_values = rng.beta(0.3, 3, size=rng.integers(2, 7)).tolist()
        v = len(p_values)
        assert ref.graphical(p_values, *ref.chain(v), 0.1) == ref.fixed_sequence(p_values, 0.1)
        assert ref.graphical(p_values, *ref.holm_graph(v), 0.1) == ref.holm(p_values, 0.1)


def test_graphical_does_not_depend_on_the_order_of_rejections() -> None:
    rng = np.random.default_rng(2)
    for _ in range(30):
        raw = rng.integers(0, 4, size=(4, 4))
        np.fill_diagonal(raw, 0)
        transitions = [[Fraction(int(x), max(int(row.sum()), 1)) for x in row] for row in raw]
        weights = [Fraction(int(x), 8) for x in rng.multinomial(8, [0.25] * 4)]
        p_values = (rng.beta(0.5, 3, size=4) * 0.2).tolist()
        outcomes = {
            tuple(ref.graphical(p_values, weights, transitions, 0.1, preference=order))
            for order in permutations(range(4))
        }
        assert len(outcomes) == 1


def test_hamming_grid_by_hand() -> None:
    weights, transitions = ref.hamming((2, 3))
    half = Fraction(1, 2)
    assert weights == [1, 0, 0, 0, 0, 0]
    assert transitions == [
        [0, half, 0, half, 0, 0],
        [0, 0, half, 0, half, 0],
        [0, 0, 0, 0, 0, 1],
        [0, 0, 0, 0, 1, 0],
        [0, 0, 0, 0, 0, 1],
        [0, 0, 0, 0, 0, 0],
    ]
    weights, transitions = ref.hamming((2, 2, 2))
    assert transitions[0] == [0, Fraction(1, 3), Fraction(1, 3), 0, Fraction(1, 3), 0, 0, 0]


def test_hamming_grid_passes_all_the_budget_to_the_far_corner() -> None:
    p_values = [0.0] * 11 + [0.1]
    assert all(ref.graphical(p_values, *ref.hamming((2, 3, 2)), 0.1))


def test_pareto_front_by_hand() -> None:
    points = [(1, 3), (2, 2), (2, 3), (3, 1), (2, 2), (1, 4)]
    assert ref.pareto_front(points) == [True, True, False, True, True, False]
    assert ref.pareto_front([(1,), (1,), (2,)]) == [True, True, False]
    assert ref.pareto_front([]) == []


def test_pareto_testing_order_by_hand() -> None:
    risks, cost = [[0.3], [0.1], [0.2], [0.25]], [[1], [3], [2], [2.5]]
    assert ref.pareto_testing_order(risks, cost, [0.9, 0.01, 0.2, 0.5]) == [1, 2, 0]


def test_split_fst_by_hand() -> None:
    p_values = [[0.9, 0.1], [0.4, 0.6], [0.02, 0.01], [1.0, 1.0]]
    # beta = 0.5 is 0.4 from setting 0, 0.1 from 1; beta = 0.75: 0.65, 0.35, 0.74, 0.25.
    assert ref.split_fst_order(p_values, [0, 0.25, 0.5, 0.75, 1]) == [2, 1, 3]
    assert ref.split_fst_order([[0.5], [0.5]], [0.5]) == [0]


def test_constrained_optimum_by_hand() -> None:
    risks, cost = [[0.0], [0.04], [0.05], [0.2]], [1.0, 0.6, 0.4, 0.1]
    assert ref.constrained_optimum(risks, cost, [0.05]) == 1
    assert ref.constrained_optimum(risks, cost, [0.06]) == 2
    assert ref.constrained_optimum(risks, cost, [0.0]) is None


def test_constrained_path_by_hand() -> None:
    risks, cost = [[0.0], [0.04], [0.05], [0.2]], [1.0, 0.6, 0.4, 0.1]
    alpha = [0.06]
    # eps = alpha leaves nothing below 0; then limits 0.03, 0.045, 0.06.
    assert ref.constrained_path(risks, cost, alpha, [0.06, 0.03, 0.015, 0.0]) == [0, 1, 2]
    assert ref.constrained_path(risks, cost, alpha, [0.0, 0.06]) == [2]


def test_low_risk_path_by_hand() -> None:
    #  p_opt on a 3 x 3 grid; the optimum is the middle of the last row.
    p_opt = [0.0, 0.3, 0.5, 0.2, 0.1, 0.9, 0.4, 0.6, 1.0]
    # (0,0): down 0.2 < right 0.3; (1,0): down 0.4 > right 0.1; (1,1): column reached, down; then right to the corner.
    assert ref.low_risk_path((3, 3), p_opt, 7) == [0, 3, 4, 7, 8]
    assert ref.low_risk_path((3, 3), p_opt, 0) == [0, 3, 4, 7, 8]
    assert ref.low_risk_path((3, 3), p_opt, 2) == [0, 1, 2, 5, 8]
    assert ref.low_risk_path((2, 2), [0.5] * 4, 3) == [0, 2, 3]


def test_low_risk_path_climbs_one_step_at_a_time() -> None:
    p_opt = np.random.default_rng(3).random(24).tolist()
    path = ref.low_risk_path((2, 3, 4), p_opt, 10)
    cells = np.array(np.unravel_index(path, (2, 3, 4))).T
    assert path[0] == 0
    assert path[-1] == 23
    assert 10 in path
    assert (np.diff(cells, axis=0).sum(axis=1) == 1).all()
    assert (np.diff(cells, axis=0) >= 0).all()
