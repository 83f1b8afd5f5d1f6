"""Slow, plain-loop versions of the statistics, to check the library against.

Nothing here imports riskfront or vectorises anything: each function is its definition written down. Arrays are lists
(or anything that indexes like one); n examples, m settings, c limits, v nodes of a graph. Sums are exact fractions.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Sequence
from fractions import Fraction
from itertools import product

Number = int | float | Fraction
Matrix = Sequence[Sequence[Number]]


# p-values of a sum of losses in [0, 1] -------------------------------------------------------------


def total(losses: Sequence[Number]) -> Fraction:
    """Exact sum of n losses."""
    result = Fraction(0)
    for loss in losses:
        result += Fraction(_plain(loss))
    return result


def binomial(k: int, n: int, alpha: Number) -> float:
    """P(Bin(n, alpha) <= k), in integers over d^n, alpha = a/d exactly (the double itself when it is a float)."""
    a, whole = Fraction(_plain(alpha)).as_integer_ratio()
    result = 0
    for i in range(min(int(k), n) + 1):
        result += math.comb(n, i) * a**i * (whole - a) ** (n - i)
    return result / whole**n


def hoeffding(losses_total: Number, n: int, alpha: Number) -> float:
    """exp(-n h(min(R, alpha), alpha)), h(a, b) = a ln(a/b) + (1-a) ln((1-a)/(1-b)), 0 ln 0 = 0."""
    a, b = min(float(Fraction(_plain(losses_total)) / n), float(alpha)), float(alpha)
    h = 0.0
    if a > 0:
        h += a * math.log(a / b)
    if a < 1:
        h += (1 - a) * math.log((1 - a) / (1 - b))
    return math.exp(-n * h)


def hoeffding_simple(losses_total: Number, n: int, alpha: Number) -> float:
    """exp(-2 n max(alpha - R, 0)^2), the form in the paper's Algorithm "Learn then Test"."""
    gap = max(float(Fraction(_plain(alpha)) - Fraction(_plain(losses_total)) / n), 0.0)
    return math.exp(-2 * n * gap**2)


def bentkus(losses_total: Number, n: int, alpha: Number) -> float:
    """e * P(Bin(n, alpha) <= ceil(k)), capped at 1; the ceiling is taken of the sum, never of n * mean."""
    return min(1.0, math.e * binomial(math.ceil(Fraction(_plain(losses_total))), n, alpha))


def hoeffding_bentkus(losses_total: Number, n: int, alpha: Number) -> float:
    return min(1.0, hoeffding(losses_total, n, alpha), bentkus(losses_total, n, alpha))


def betting(losses: Sequence[Number], alpha: float, level: float, *, low: float = 0.0, high: float = 1.0) -> float:
    """min(1, 1 / max_t W_t) for n losses in [low, high], in their given order, with stakes re-aimed at 1 / level.

    stake_{t+1} = min(.999 / (1 - a), sqrt(2 (L - ln W_t) / ((n - t) S_t))), S_t = min(Q_t / t + m n / t^2, m (1 - m)); when
    the target e^L is reached, the next is the square of the wealth then.
    """
    n = len(losses)
    a = (alpha - low) / (high - low)
    m, target, squares = 1 - a, math.log(1 / level), 0.0
    log_wealth = best = 0.0
    for t in range(n):
        spread = min(squares / t + m * n / t**2, m * (1 - m)) if t else m * (1 - m)
        stake = min(0.999 / (1 - a), math.sqrt(2 * (target - log_wealth) / ((n - t) * spread)))
        x = (float(losses[t]) - low) / (high - low)
        log_wealth += math.log(1 + stake * (a - x))
        squares += (x - a) ** 2
        best = max(best, log_wealth)
        if best >= target:
            target = 2 * best
    return math.exp(-best)


def betting_fixed(
    losses: Sequence[Number],
    alpha: float,
    delta: float,
    *,
    low: float = 0.0,
    high: float = 1.0,
    c: float = 0.75,
) -> float:
    """min(1, 1 / max_t K_t) for n losses in [low, high], in their given order.

    K_t = prod_{i<=t} (1 - nu_i (x_i - a)) with x, a the losses and alpha moved to [0, 1], and
    nu_i = min(c / (1 - a), sqrt(2 ln(1/delta) / (n s2_{i-1}))), which only knows x_1 .. x_{i-1}.
    """
    n = len(losses)
    a = (alpha - low) / (high - low)
    log_wealth = best = 0.0
    sum_x, sum_squares, variance = 0.0, 0.0, 0.25
    for t in range(1, n + 1):
        x = (float(losses[t - 1]) - low) / (high - low)
        stake = min(c / (1 - a), math.sqrt(2 * math.log(1 / delta) / (n * variance)))
        log_wealth += math.log(1 - stake * (x - a))
        best = max(best, log_wealth)
        sum_x += x
        mean = (0.5 + sum_x) / (t + 1)
        sum_squares += (x - mean) ** 2
        variance = (0.25 + sum_squares) / (t + 1)
    return math.exp(-best)


# Conditional risks and several limits --------------------------------------------------------------


def selected(losses: Sequence[Number], condition: Sequence[bool]) -> list[Number]:
    """The losses of the examples where the condition holds, in their order; (n,), (n,) -> (n_S,)."""
    return [losses[i] for i in range(len(losses)) if condition[i]]


def p_value_given(
    losses: Sequence[Number], condition: Sequence[bool], p_value: Callable[[list[Number]], float]
) -> float:
    """p-value of the risk given a condition: the test on the selected rows alone, 1 when there are none."""
    kept = selected(losses, condition)
    return p_value(kept) if kept else 1.0


def p_value_per(
    losses: Sequence[Number],
    labels: Sequence[Hashable],
    classes: Sequence[Hashable],
    p_value: Callable[[list[Number]], float],
) -> float:
    """p-value of "the risk of every class holds": the largest over the declared classes; 1 for a class never seen."""
    largest = 0.0
    for y in classes:
        largest = max(largest, p_value_given(losses, [label == y for label in labels], p_value))
    return largest


def padded(losses: Sequence[Number], condition: Sequence[bool], alpha: Number) -> list[Number]:
    """The paper's conditional loss: the loss where the condition holds, alpha elsewhere; (n,) -> (n,)."""
    return [losses[i] if condition[i] else alpha for i in range(len(losses))]


def combined(p_values: Matrix) -> list[float]:
    """The p-value of each setting over its limits, their maximum; (m, c) -> (m,)."""
    return [max(float(p) for p in row) for row in p_values]


# Procedures: p-values (m,) -> verdicts (m,), True is rejected --------------------------------------


def bonferroni(p_values: Sequence[float], delta: float) -> list[bool]:
    return [p <= delta / len(p_values) for p in p_values]


def holm(p_values: Sequence[float], delta: float) -> list[bool]:
    """The smallest p-value against delta/m, the next against delta/(m-1), ...; stop at the first failure."""
    m = len(p_values)
    verdicts = [False] * m
    for rank, j in enumerate(sorted(range(m), key=lambda j: p_values[j])):
        if p_values[j] > delta / (m - rank):
            break
        verdicts[j] = True
    return verdicts


def fixed_sequence(p_values: Sequence[float], delta: float) -> list[bool]:
    """Full delta for each in the given order; stop at the first failure."""
    verdicts = [False] * len(p_values)
    for j, p in enumerate(p_values):
        if p > delta:
            break
        verdicts[j] = True
    return verdicts


def graphical(
    p_values: Sequence[float],
    weights: Sequence[Number],
    transitions: Matrix,
    delta: float,
    *,
    preference: Sequence[int] | None = None,
) -> list[bool]:
    """Bretz et al. (2009) with dense weights (v,) and transitions (v, v); exact when these are fractions.

    Among the nodes that can be rejected the first in `preference` (default: index order) goes first; the outcome
    must not depend on it. A node of weight 0 is rejected only if its p-value is 0.
    """
    v = len(p_values)
    w = list(weights)
    g = [list(row) for row in transitions]
    left = list(range(v)) if preference is None else list(preference)
    verdicts = [False] * v
    while True:
        i = next((j for j in left if p_values[j] <= w[j] * delta), None)
        if i is None:
            return verdicts
        verdicts[i] = True
        left.remove(i)
        old_w, old_g = list(w), [list(row) for row in g]
        for j in left:
            w[j] = old_w[j] + old_w[i] * old_g[i][j]
            for k in left:
                if j == k:
                    continue
                denominator = 1 - old_g[j][i] * old_g[i][j]
                if denominator > 0:
                    g[j][k] = (old_g[j][k] + old_g[j][i] * old_g[i][k]) / denominator
                else:
                    g[j][k] = 0


def chain(v: int) -> tuple[list[Fraction], list[list[Fraction]]]:
    """The graph of the fixed sequence: weights (v,), transitions (v, v)."""
    weights = [Fraction(int(j == 0)) for j in range(v)]
    return weights, [[Fraction(int(k == j + 1)) for k in range(v)] for j in range(v)]


def holm_graph(v: int) -> tuple[list[Fraction], list[list[Fraction]]]:
    """The graph of Holm's procedure: equal weights (v,), equal transitions to all others (v, v)."""
    weights = [Fraction(1, v)] * v
    return weights, [[Fraction(0) if j == k else Fraction(1, v - 1) for k in range(v)] for j in range(v)]


def hamming(shape: Sequence[int]) -> tuple[list[Fraction], list[list[Fraction]]]:
    """The n-dimensional Hamming grid, nodes in C order, the safest at the origin: weights (v,), transitions (v, v).

    All weight on the origin; a node passes its own in equal parts to the neighbours one step further along one axis.
    Where the grid ends there is no neighbour and the others share; the last corner keeps what it has.
    """
    cells = list(product(*(range(length) for length in shape)))
    weights = [Fraction(int(cell == cells[0])) for cell in cells]
    transitions = []
    for cell in cells:
        ahead = []
        for axis in range(len(shape)):
            if cell[axis] + 1 < shape[axis]:
                step = list(cell)
                step[axis] += 1
                ahead.append(tuple(step))
        transitions.append([Fraction(1, len(ahead)) if other in ahead else Fraction(0) for other in cells])
    return weights, transitions


# Plans: settings in testing order ------------------------------------------------------------------


def dominates(a: Sequence[Number], b: Sequence[Number]) -> bool:
    """Standard dominance, all objectives minimised: no worse anywhere, better somewhere."""
    no_worse = all(a[i] <= b[i] for i in range(len(a)))
    better = any(a[i] < b[i] for i in range(len(a)))
    return no_worse and better


def pareto_front(points: Matrix) -> list[bool]:
    """Which of m points (m, objectives) no other dominates. Equal points do not dominate each other: all are kept."""
    return [not any(dominates(other, point) for other in points) for point in points]


def pareto_testing_order(risks: Matrix, free: Matrix, p_opt: Sequence[float]) -> list[int]:
    """The front of all objectives, risks (m, c) and free (m, k), by p_opt (m,), low to high; ties in index order."""
    front = pareto_front([[*risks[j], *free[j]] for j in range(len(p_opt))])
    return sorted((j for j in range(len(p_opt)) if front[j]), key=lambda j: p_opt[j])


def split_fst_order(p_values: Matrix, betas: Sequence[float]) -> list[int]:
    """For each beta the setting whose p-values (m, c) are nearest to it in the infinity norm; ties to the lower index.

    A setting met again is dropped, so that it stands where it came first.
    """
    order: list[int] = []
    for beta in betas:
        best, nearest = 0, math.inf
        for j, row in enumerate(p_values):
            distance = max(abs(float(p) - beta) for p in row)
            if distance < nearest:
                best, nearest = j, distance
        if best not in order:
            order.append(best)
    return order


def constrained_optimum(risks: Matrix, free: Sequence[Number], alphas: Sequence[Number]) -> int | None:
    """The lowest free objective (m,) among the settings with every risk (m, c) strictly below its alpha (c,).

    Ties to the lower index; None when no setting qualifies.
    """
    best = None
    for j in range(len(free)):
        holds = all(risks[j][i] < alphas[i] for i in range(len(alphas)))
        if holds and (best is None or free[j] < free[best]):
            best = j
    return best


def constrained_path(
    risks: Matrix, free: Sequence[Number], alphas: Sequence[Number], epsilons: Sequence[Number]
) -> list[int]:
    """Constrained optima with limits alpha_i - eps, eps falling from min alpha to 0; repeats and gaps are dropped."""
    order: list[int] = []
    for eps in sorted(epsilons, reverse=True):
        best = constrained_optimum(risks, free, [alpha - eps for alpha in alphas])
        if best is not None and best not in order:
            order.append(best)
    return order


def low_risk_path(shape: Sequence[int], p_opt: Sequence[float], optimum: int) -> list[int]:
    """From the origin to the optimum and on to the far corner of a grid, settings in C order, p_opt (m,).

    Each step goes along the one axis, not yet at the end's coordinate, whose next setting has the lowest p_opt;
    ties to the lower axis. The paper's "Shortest-Path Testing" without its slip of moving while it compares.
    """
    cells = list(product(*(range(length) for length in shape)))
    here = cells[0]
    path = [here]
    for end in (cells[optimum], cells[-1]):
        while here != end:
            best: tuple[int, ...] | None = None
            for axis in range(len(shape)):
                if here[axis] == end[axis]:
                    continue
                step = list(here)
                step[axis] += 1
                ahead = tuple(step)
                if best is None or p_opt[cells.index(ahead)] < p_opt[cells.index(best)]:
                    best = ahead
            assert best is not None  # here != end, so some axis is short of it
            here = best
            path.append(here)
    return [cells.index(cell) for cell in path]


def _plain(value: Number) -> Number:
    """numpy scalars and bools as the Python numbers that Fraction takes."""
    return value.item() if hasattr(value, "item") else value
