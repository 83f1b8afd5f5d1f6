"""The Monte-Carlo check has the error rates its docstring claims."""

from scipy import stats

from riskfront.testing._findings import LEVEL, most_allowed, too_many


def test_figures_of_the_docstring() -> None:
    most = most_allowed(1000, 0.1)
    assert most == 161
    assert stats.binom.sf(most, 1000, 0.1) < LEVEL  # a correct method fails one check
    assert 999 * LEVEL < 1e-6  # a correct library fails any of them
    assert stats.binom.sf(most, 1000, 0.2) > 0.99  # a method at twice its level is caught


def test_the_check_is_the_bound() -> None:
    assert too_many(162, 1000, 0.1)
    assert not too_many(161, 1000, 0.1)
    assert not too_many(0, 10, 0.1)
    assert too_many(10, 10, 0.1)
