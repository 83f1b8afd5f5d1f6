"""Simulated tables of losses with exactly known risks, made to break what can be broken.

Each function returns a `HardWorld`. Its ``sample(rng, n)`` draws n fresh examples under all settings at once, and
``true_risks`` says what every setting's risk truly is. The settings worth certifying come first and cost the most; the
settings at or above the limit come last and cost the least, so that whoever certifies one of them also ships it.

Settings at exactly alpha count as null: they do not violate the limit, but a p-value must be valid up to there, and
there a wrong one shows first. With ``safe=0`` all settings are null, and, where they are independent, one sample of
many settings is as many independent p-values.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]
Losses = dict[str, Array]
Sampler = Callable[[np.random.Generator, int], Losses]


@dataclass(frozen=True)
class HardWorld:
    """Settings with known risks, m of them.

    sampler: (rng, n) -> {"loss": (m, n), "cost": (m, n)}, and where the world has them "answered": (m, n) bool,
        "label": (n,) integers.
    true_risks: (m,) the controlled risk: the mean, the worst class's mean, or the mean given answered.
    cost: (m,) the true cost, falling from the first setting to the last.
    bounds: of the loss.
    shape: of the grid, in C order with the safest setting first, where the settings form one.
    class_risks: (m, classes), where there are labels.
    """

    sampler: Sampler
    true_risks: Array
    alpha: float
    cost: Array
    bounds: tuple[float, float] = (0.0, 1.0)
    shape: tuple[int, ...] | None = None
    class_risks: Array | None = None

    @property
    def null(self) -> Array:
        """(m,) True where certifying counts as a miss: a true risk of alpha or more."""
        return self.true_risks >= self.alpha

    def sample(self, rng: np.random.Generator, n: int) -> Losses:
        drawn = self.sampler(rng, n)
        return {**drawn, "cost": np.broadcast_to(self.cost[:, None], (self.cost.size, n))}


# 0/1 losses -----------------------------------------------------------------------------------------


def independent(alpha: float = 0.1, *, settings: int = 20, safe: int = 5, excess: float = 0.0) -> HardWorld:
    """0/1 losses, every setting independent of the others; nulls at alpha + excess (0 or a hair)."""
    risks = _risks(alpha, settings, safe, excess)

    def sampler(rng: np.random.Generator, n: int) -> Losses:
        return {"loss": rng.random((settings, n)) < risks[:, None]}

    return HardWorld(sampler, risks, alpha, _cost(settings))


def correlated(
    alpha: float = 0.1, *, settings: int = 20, safe: int = 5, excess: float = 0.0, blocks: int = 1
) -> HardWorld:
    """0/1 losses from one uniform per example and block, thresholded at each setting's risk.

    One block: what a riskier setting gets right the safer ones do too, and nulls of equal risk fail on the same
    examples. Several blocks: settings with equal index modulo `blocks` move together, blocks are independent.
    """
    risks = _risks(alpha, settings, safe, excess)
    block = np.arange(settings) % blocks

    def sampler(rng: np.random.Generator, n: int) -> Losses:
        return {"loss": rng.random((blocks, n))[block] < risks[:, None]}

    return HardWorld(sampler, risks, alpha, _cost(settings))


def rare_class(
    alpha: float = 0.1,
    *,
    shares: Sequence[float] = (0.85, 0.12, 0.03),
    settings: int = 10,
    safe: int = 3,
    excess: float = 0.0,
) -> HardWorld:
    """0/1 losses and labels; only the rarest class reaches alpha + excess, the others stay at a quarter of alpha.

    The mean over all examples is far below alpha, so a test that forgets the classes certifies everything; with few
    examples the rare class may not be seen at all. The controlled risk is the worst class's.
    """
    worst = _risks(alpha, settings, safe, excess)
    class_risks = np.full((settings, len(shares)), alpha / 4)
    class_risks[:, int(np.argmin(shares))] = worst

    def sampler(rng: np.random.Generator, n: int) -> Losses:
        label = rng.choice(len(shares), size=n, p=shares)
        return {"loss": rng.random((settings, n)) < class_risks[:, label], "label": label}

    return HardWorld(sampler, worst, alpha, _cost(settings), class_risks=class_risks)


def selective(
    alpha: float = 0.1, *, settings: int = 10, safe: int = 3, excess: float = 0.0, error_if_unanswered: float = 0.6
) -> HardWorld:
    """0/1 losses with heavy selection: the risk given answered is alpha + excess, and far higher among the others.

    Settings answer 90 % down to 20 % of the examples, the most confident first (one shared confidence per example), so
    answered and loss are dependent, and so are settings. Two wrong tests go wrong here: the mean of loss * answered is
    P(answered) * alpha, certified although the risk is not controlled; the mean of all losses is far above alpha.
    """
    risks = _risks(alpha, settings, safe, excess)
    rates = np.linspace(0.9, 0.2, settings)

    def sampler(rng: np.random.Generator, n: int) -> Losses:
        answered = rng.random(n) < rates[:, None]
        threshold = np.where(answered, risks[:, None], error_if_unanswered)
        return {"loss": rng.random(n) < threshold, "answered": answered}

    return HardWorld(sampler, risks, alpha, _cost(settings))


def bordered_grid(alpha: float = 0.1, *, shape: tuple[int, ...] = (4, 4, 4), excess: float = 0.01) -> HardWorld:
    """A grid of 0/1 losses: a contiguous safe corner, and just past its border true nulls at alpha + excess.

    Settings up to half the grid's steps from the origin are safe, their risk rising from alpha / 10 to alpha / 2: with
    enough examples the border is nearly always reached and the whole budget arrives there. Past it all are null: excess
    above alpha at the border, as much again with each further step. On a random half of the examples all settings
    share one uniform, on the others each has its own. Cost falls with each step.
    """
    steps = np.indices(shape).reshape(len(shape), -1).sum(axis=0)
    border = (sum(shape) - len(shape)) // 2 + 1
    inside = alpha * (0.1 + 0.4 * steps / max(border - 1, 1))
    risks = np.where(steps < border, inside, alpha + excess * (1 + steps - border))

    def sampler(rng: np.random.Generator, n: int) -> Losses:
        own = rng.random((risks.size, n))
        shared = np.where(rng.random(n) < 0.5, rng.random(n), own)
        return {"loss": shared < risks[:, None]}

    cost = 1 - 0.9 * steps / steps.max()
    return HardWorld(sampler, risks, alpha, cost, shape=shape)


# Losses in [0, 1] that are not 0/1 ------------------------------------------------------------------


def beta_losses(
    alpha: float = 0.1, *, concentration: float = 2.0, settings: int = 20, safe: int = 5, excess: float = 0.0
) -> HardWorld:
    """Beta losses with the wanted mean; a small concentration is nearly 0/1, a large one nearly constant."""
    risks = _risks(alpha, settings, safe, excess)

    def sampler(rng: np.random.Generator, n: int) -> Losses:
        a, b = risks[:, None] * concentration, (1 - risks[:, None]) * concentration
        return {"loss": rng.beta(a, b, size=(settings, n))}

    return HardWorld(sampler, risks, alpha, _cost(settings))


def uniform_losses(alpha: float = 0.1, *, settings: int = 20, safe: int = 5, excess: float = 0.0) -> HardWorld:
    """Losses uniform on [0, 2 risk] (needs risks up to 1/2)."""
    risks = _risks(alpha, settings, safe, excess)

    def sampler(rng: np.random.Generator, n: int) -> Losses:
        return {"loss": 2 * risks[:, None] * rng.random((settings, n))}

    return HardWorld(sampler, risks, alpha, _cost(settings))


def nearly_constant(
    alpha: float = 0.1, *, noise: float = 1e-3, settings: int = 20, safe: int = 5, excess: float = 0.0
) -> HardWorld:
    """The risk plus uniform noise of half-width `noise`: a test that trusts a small variance bets everything here."""
    risks = _risks(alpha, settings, safe, excess)
    width = np.minimum(noise, risks)[:, None]

    def sampler(rng: np.random.Generator, n: int) -> Losses:
        return {"loss": risks[:, None] + width * (2 * rng.random((settings, n)) - 1)}

    return HardWorld(sampler, risks, alpha, _cost(settings))


def two_point(
    alpha: float = 0.1, *, share: float = 0.05, settings: int = 20, safe: int = 5, excess: float = 0.0
) -> HardWorld:
    """Mostly a constant a little below the risk, and with probability share * risk a loss of 1 that makes up for it.

    Most samples of fewer than 1 / (share * risk) examples see no 1 at all: no variance, a mean below alpha.
    The worst case for empirical-Bernstein-like tests and for normal approximations.
    """
    risks = _risks(alpha, settings, safe, excess)
    rare = share * risks[:, None]
    low = (risks[:, None] - rare) / (1 - rare)

    def sampler(rng: np.random.Generator, n: int) -> Losses:
        return {"loss": np.where(rng.random((settings, n)) < rare, 1.0, low)}

    return HardWorld(sampler, risks, alpha, _cost(settings))


# Signed losses --------------------------------------------------------------------------------------


def signed(
    alpha: float = 0.1, *, flips: float = 0.1, settings: int = 20, safe: int = 5, excess: float = 0.0
) -> HardWorld:
    """The signed drop in {-1, 0, 1}: a share `flips` turns correct, flips + risk turn wrong, so the mean is the risk.

    Its variance is far above that of a 0/1 loss with the same mean, which a bound made for [0, 1] does not know.
    """
    risks = _risks(alpha, settings, safe, excess)

    def sampler(rng: np.random.Generator, n: int) -> Losses:
        u = rng.random((settings, n))
        to_wrong = u < flips + risks[:, None]
        to_correct = u >= 1 - flips
        return {"loss": to_wrong.astype(np.int8) - to_correct.astype(np.int8)}

    return HardWorld(sampler, risks, alpha, _cost(settings), bounds=(-1.0, 1.0))


def hard_worlds(alpha: float = 0.1) -> dict[str, HardWorld]:
    """One of each kind, and the variants worth having, by name: for parametrised tests."""
    hair = 1e-4
    return {
        "independent": independent(alpha),
        "independent, a hair above": independent(alpha, excess=hair),
        "independent, all null": independent(alpha, safe=0),
        "one shared uniform": correlated(alpha),
        "one shared uniform, all null": correlated(alpha, safe=0),
        "block-correlated": correlated(alpha, blocks=4, excess=hair),
        "rare class": rare_class(alpha),
        "selective": selective(alpha),
        "bordered grid": bordered_grid(alpha),
        "bordered grid, two dimensions": bordered_grid(alpha, shape=(6, 7), excess=hair),
        "beta": beta_losses(alpha),
        "beta, nearly 0/1": beta_losses(alpha, concentration=0.1),
        "uniform": uniform_losses(alpha),
        "nearly constant": nearly_constant(alpha),
        "two-point": two_point(alpha),
        "signed, 5 % flips": signed(alpha, flips=0.05),
        "signed, 30 % flips": signed(alpha, flips=0.3),
    }


def _risks(alpha: float, settings: int, safe: int, excess: float) -> Array:
    """`safe` settings from alpha / 10 to alpha / 2, then nulls at exactly alpha + excess."""
    return np.concatenate([np.linspace(0.1, 0.5, safe) * alpha, np.full(settings - safe, alpha + excess)])


def _cost(settings: int) -> Array:
    return np.linspace(1, 0.1, settings)
