"""What every p-value must do: super-uniform on hard nulls, near 1 far above alpha, monotone in alpha, 1 without examples."""

from functools import partial

import numpy as np
import pytest

import riskfront as rf
from riskfront.evidence.evidence import Evidence
from riskfront.statistics.p_values import NAMES
from tests.support import worlds
from tests.support.checks import too_many
from tests.support.tables import table_of

N_SETTINGS, N = 2000, 250  # null settings are independent: one table holds 2,000 independent p-values
LEVELS = (0.01, 0.05, 0.1, 0.2, 0.5)
ALPHA = 0.1
#: all settings are null, as many as are asked for
NULLS = {
    "0/1": partial(worlds.independent, ALPHA, safe=0),
    "0/1, rare": partial(worlds.independent, 0.01, safe=0),
    "beta": partial(worlds.beta_losses, ALPHA, safe=0),
    "beta, nearly 0/1": partial(worlds.beta_losses, ALPHA, concentration=0.1, safe=0),
    "uniform": partial(worlds.uniform_losses, ALPHA, safe=0),
    "nearly constant": partial(worlds.nearly_constant, ALPHA, safe=0),
    "two-point": partial(worlds.two_point, ALPHA, safe=0),
    "signed, 5 % flips": partial(worlds.signed, ALPHA, flips=0.05, safe=0),
    "signed, 30 % flips": partial(worlds.signed, ALPHA, flips=0.3, safe=0),
    "signed, small limit": partial(worlds.signed, 0.025, flips=0.3, safe=0),
}
APPLIES = [
    (null, name)
    for null in NULLS
    for name in NAMES
    if name != "binomial" or null.startswith("0/1")
    if name != "auto"  # always one of the others
]


def p_values(table: rf.LossTable, name: str, alpha: float, **where: object) -> np.ndarray:
    problem = rf.Problem([rf.Limit("loss", at_most=alpha, p_value=name, **where)], ["cost"])
    return Evidence(problem, table).combined(np.arange(table.n_configs))


@pytest.fixture(scope="module")
def tables() -> dict[str, rf.LossTable]:
    rng = np.random.default_rng(11)
    return {name: table_of(make(settings=N_SETTINGS), rng, N) for name, make in NULLS.items()}


@pytest.mark.monte_carlo
@pytest.mark.parametrize(("null", "name"), APPLIES)
def test_super_uniform_on_hard_nulls(tables: dict[str, rf.LossTable], null: str, name: str) -> None:
    alpha = NULLS[null]().alpha
    p = p_values(tables[null], name, alpha)
    for level in LEVELS:
        assert not too_many(int((p <= level).sum()), p.size, level)


@pytest.mark.parametrize(("null", "name"), APPLIES)
def test_near_one_when_the_risk_is_far_above(tables: dict[str, rf.LossTable], null: str, name: str) -> None:
    """The losses of risk alpha are tested against a limit of a fifth of it (signed ones: against -0.3)."""
    alpha = NULLS[null]().alpha
    p = p_values(tables[null], name, -0.3 if null.startswith("signed") else alpha / 5)
    # a bet may win its first rounds before it loses them: its p-value is the best moment's, and seldom quite 1
    enough = 0.35 if "rare" in null else 0.6 if name == "betting" else 0.99
    assert np.median(p) >= enough


@pytest.mark.parametrize("name", [name for name in NAMES if name != "auto"])
def test_monotone_in_alpha_and_in_the_losses(name: str) -> None:
    rng = np.random.default_rng(5)
    losses = rng.random((40, 120)) < rng.random((40, 1)) * 0.3
    worse = losses | (rng.random(losses.shape) < 0.05)
    alphas = np.concatenate([np.geomspace(1e-4, 0.5, 25), [0.7, 0.9, 0.999]])
    tables = [
        rf.LossTable([{"t": i} for i in range(40)], {"loss": x, "cost": np.ones(x.shape)}) for x in (losses, worse)
    ]
    better_p, worse_p = (np.stack([p_values(table, name, float(a)) for a in alphas]) for table in tables)
    if name != "betting":  # both a loss and the limit also move later stakes
        assert (np.diff(better_p, axis=0) <= 1e-12).all()
        assert (better_p <= worse_p + 1e-12).all()
    assert ((better_p >= 0) & (better_p <= 1)).all()


@pytest.mark.parametrize("name", NAMES)
def test_one_without_examples(name: str) -> None:
    shape = (3, 20)
    nobody = {"loss": np.zeros(shape, dtype=bool), "cost": np.ones(shape), "on": np.zeros(shape, dtype=bool)}
    table = rf.LossTable([{"t": i} for i in range(3)], nobody)
    assert p_values(table, name, 0.1, given="on").tolist() == [1, 1, 1]


@pytest.mark.monte_carlo
@pytest.mark.parametrize("name", [name for name in NAMES if name not in ("auto", "binomial")])
@pytest.mark.parametrize("padded", [False, True])
def test_conditional_p_values_are_super_uniform(name: str, padded: bool) -> None:
    """Selection that depends on the setting and on the loss, each setting with its own examples."""
    rng = np.random.default_rng(7)
    answered = rng.random((N_SETTINGS, N)) < 0.3
    loss = rng.random((N_SETTINGS, N)) < np.where(answered, ALPHA, 0.6)
    losses = {"loss": loss, "cost": np.ones((N_SETTINGS, 1)) * np.ones(N), "answered": answered}
    table = rf.LossTable([{"t": i} for i in range(N_SETTINGS)], losses)
    p = p_values(table, name, ALPHA, given="answered", padded=padded)
    for level in LEVELS:
        assert not too_many(int((p <= level).sum()), p.size, level)
    if not padded:
        exact = p_values(table, "binomial", ALPHA, given="answered")
        assert not too_many(int((exact <= 0.1).sum()), p.size, 0.1)
        assert (exact <= 0.1).mean() > 0.04  # and not because it never rejects
