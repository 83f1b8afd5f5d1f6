"""The region of interest around a limit: the opt risks worth searching (guided search)."""

from bisect import bisect_left
from dataclasses import dataclass

from scipy.special import betainc, betaincc

from riskfront.errors import InvalidInputError


@dataclass(frozen=True, slots=True)
class Region:
    """Opt risks in [low, high] are compatible with a true risk of r_max, the largest test risk still rejected.

    r_max is 0 where even a setting without a loss fails the test: nothing will be certified, and none is more promising.
    """

    r_max: float
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class LimitTarget:
    """A limit as a search needs it: the objective's name, alpha in units of [0, 1], and the examples it is judged on.

    For a limit on some examples only (per class, given a condition), the counts are those of these examples.
    """

    name: str
    alpha: float
    n_opt: int
    n_test: int

    def __post_init__(self) -> None:
        if not 0 < self.alpha < 1:
            raise InvalidInputError(f"alpha must lie in (0, 1); got {self.alpha!r} for {self.name}.")
        if self.n_opt < 1 or self.n_test < 1:
            raise InvalidInputError(
                f"n_opt and n_test must be at least 1; got {self.n_opt!r} and {self.n_test!r} for {self.name}."
            )

    def region(self, delta: float, delta_prime: float = 0.01) -> Region:
        """The interval of opt risks that a setting of true risk r_max shows, but for delta_prime in either tail.

        Counts are binomial: exact for 0/1 losses, and on the wide side for other losses in [0, 1], which vary less.
        """
        for name, level in (("delta", delta), ("delta_prime", delta_prime)):
            if not 0 < level < 1:
                raise InvalidInputError(f"{name} must lie in (0, 1); got {level!r}.")
        # The number of counts whose p-value, P(Bin(n_test, alpha) <= k), is at most delta.
        rejected = bisect_left(range(self.n_test), True, key=lambda k: _at_most(k, self.n_test, self.alpha) > delta)
        r_max = max(rejected - 1, 0) / self.n_test
        n = self.n_opt
        low = bisect_left(range(n), True, key=lambda k: _at_most(k, n, r_max) >= delta_prime)
        above = bisect_left(range(1, n + 1), True, key=lambda k: _at_least(k, n, r_max) < delta_prime)
        return Region(r_max, low / n, above / n)


def _at_most(k: int, n: int, p: float) -> float:
    """P(Bin(n, p) <= k) for 0 <= k < n."""
    return float(betaincc(k + 1, n - k, p))


def _at_least(k: int, n: int, p: float) -> float:
    """P(Bin(n, p) >= k) for 1 <= k <= n."""
    return float(betainc(k, n - k + 1, p))
