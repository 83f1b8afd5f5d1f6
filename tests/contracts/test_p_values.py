"""What every p-value must do: the public contract, on every registered name; monotone in alpha; valid given a condition."""

import numpy as np
import pytest

import riskfront as rf
from riskfront.methods._evidence.limit_tests import Evidence
from riskfront.statistics._p_values import NAMES, P_VALUES
from riskfront.testing import check_p_value
from riskfront.testing._findings import too_many
from riskfront.testing._p_values import LEVELS
from tests.validity import broken

N_SETTINGS, N, ALPHA = 2000, 250, 0.1
ON_ITS_OWN = [name for name in NAMES if name != "auto"]  # auto is always one of the others


def p_values(table: rf.LossTable, name: str, alpha: float, **where: object) -> np.ndarray:
    problem = rf.Problem([rf.Limit("loss", at_most=alpha, p_value=name, **where)], ["loss"])
    return Evidence(problem, table).combined(np.arange(table.n_configs))


@pytest.mark.monte_carlo
@pytest.mark.parametrize("name", NAMES)
def test_the_contract(name: str) -> None:
    rates = check_p_value(name)
    assert len(rates) >= 4 * len(LEVELS)  # four kinds of 0/1 losses at least


@pytest.mark.parametrize("name", ON_ITS_OWN)
def test_monotone_in_alpha_and_in_the_losses(name: str) -> None:
    rng = np.random.default_rng(5)
    losses = rng.random((40, 120)) < rng.random((40, 1)) * 0.3
    worse = losses | (rng.random(losses.shape) < 0.05)
    alphas = np.concatenate([np.geomspace(1e-4, 0.5, 25), [0.7, 0.9, 0.999]])
    tables = [rf.LossTable([{"t": i} for i in range(40)], {"loss": x}) for x in (losses, worse)]
    better_p, worse_p = (np.stack([p_values(table, name, float(a)) for a in alphas]) for table in tables)
    if P_VALUES[name].needs != "sequence":  # both a loss and the limit also move later stakes
        assert (np.diff(better_p, axis=0) <= 1e-12).all()
        assert (better_p <= worse_p + 1e-12).all()
    assert ((better_p >= 0) & (better_p <= 1)).all()


@pytest.mark.monte_carlo
@pytest.mark.parametrize("padded", [False, True])
@pytest.mark.parametrize("name", ON_ITS_OWN)
def test_conditional_p_values_are_super_uniform(name: str, padded: bool) -> None:
    """Selection that depends on the setting and on the loss, each setting with its own examples."""
    rng = np.random.default_rng(7)
    answered = rng.random((N_SETTINGS, N)) < 0.3
    loss = rng.random((N_SETTINGS, N)) < np.where(answered, ALPHA, 0.6)
    table = rf.LossTable([{"t": i} for i in range(N_SETTINGS)], {"loss": loss, "answered": answered})
    try:
        p = p_values(table, name, ALPHA, given="answered", padded=padded)
    except rf.InvalidInputError:
        assert padded  # a padded loss is no 0/1 loss any more
        return
    for level in LEVELS:
        assert not too_many(int((p <= level).sum()), p.size, level)


def as_function(bets):
    """A p-value of tests.validity.broken as a function of losses and alpha."""

    def p_value(losses: np.ndarray, alpha: float) -> np.ndarray:
        return bets(losses, alpha) if losses.size else np.ones(len(losses))

    return p_value


BROKEN = {
    "a loss enters its own stake": broken.kelly,
    "two-sided": broken.two_sided,
    "maxima of halves added up": lambda losses, alpha: broken.halves_added_up(losses, alpha, 0.1),
    "always one": lambda losses, alpha: np.ones(len(losses)),
    "out of bounds": lambda losses, alpha: 2 * losses.mean(axis=1),
    "always zero": lambda losses, alpha: np.zeros(len(losses)),
}


@pytest.mark.monte_carlo
@pytest.mark.parametrize("fault", BROKEN)
def test_a_broken_p_value_fails_the_contract(fault: str) -> None:
    with pytest.raises(AssertionError, match=r"breaks .* rule") as found:
        check_p_value(as_function(BROKEN[fault]), tests=1000)
    assert any(character.isdigit() for character in str(found.value))


def test_what_has_no_value_is_said() -> None:
    def fails(losses: np.ndarray, alpha: float) -> np.ndarray:
        raise ZeroDivisionError("nothing to divide by")

    with pytest.raises(AssertionError, match="0/1, rare: it raised ZeroDivisionError: nothing to divide by"):
        check_p_value(fails)
    with pytest.raises(AssertionError, match=r"must give 2,000 p-values; got the shape \(\)"):
        check_p_value(lambda losses, alpha: 0.5)
    with pytest.raises(AssertionError, match=r"no examples: without evidence p must be 1; got \[0.5, 0.5, 0.5\]"):
        check_p_value(lambda losses, alpha: np.full(len(losses), 0.5 if losses.size == 0 else 1.0))
