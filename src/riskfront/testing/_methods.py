"""The contract of a method: a certificate contains a setting that truly breaks a limit with probability at most delta."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

import numpy as np
import pandas as pd

from riskfront._calibration.calibrate import calibrate
from riskfront._data.table import LossTable
from riskfront._problems.problem import Problem
from riskfront.errors import InvalidInputError
from riskfront.methods import Method
from riskfront.methods._plan import check_method as check_parts
from riskfront.testing._findings import Findings, too_many
from riskfront.testing._populations import POPULATIONS, STEPS, Population

#: the misses are counted after these shares of the trials, so that what is badly broken is found soon
STAGES = (0.125, 0.25, 0.5, 1.0)
_LEVEL = 1e-6  # the probability that a correct method fails the check
_EVERY = 4  # one population in so many is calibrated on twice with the same seed


def check_method(
    method: Method, *, configs: Sequence[Mapping[str, Any]] | None = None, trials: int = 300, seed: int = 0
) -> pd.DataFrame:
    """Check that a method of your own keeps delta on populations whose truth is known and hard.

    Each population is a grid of 4 x 6 settings. Those near one corner hold the limits with room to spare; all others break a
    limit by a hair, and are cheaper. ``trials`` calibration samples are drawn from it; a certificate that contains a setting
    which breaks a limit is a miss, and misses may happen in a share delta = 0.1 of the trials. 300 trials find a true rate
    of .3; 1,000 find one of .2.

    The same seed must give the same certificate, nothing may be certified where every setting always fails or where there are
    too few examples, and something must be certified where it is easy. A method may refuse a population by an
    InvalidInputError, such as a kind of limit that it is not for, but not all of them.

    Args:
        method: the method. If its ``guaranteed`` is False its misses are counted and not judged.
        configs: 24 settings, from the safest to the riskiest, in place of the grid; for a method that needs settings of its own
            kind.
        trials: calibrations on each population.
        seed: of the samples.

    Returns:
        Misses, trials and rate on each population.

    Raises:
        AssertionError: a rule is broken; says on which population, how often, and how often is allowed.

    Examples:
        >>> import riskfront as rf
        >>> from riskfront.testing import check_method
        >>> check_method(rf.HolmTesting(), trials=20)["where"].head(2).tolist()
        ['0/1, independent', '0/1, equal']
    """
    try:
        check_parts(method, "the method")
    except InvalidInputError as error:
        raise AssertionError(str(error)) from error
    found = Findings(f"the method '{method.name}'", _LEVEL / len(STAGES) / len(POPULATIONS))
    certified = done = 0
    refusals = {}
    for number, where in enumerate(POPULATIONS):
        population = _population(where) if configs is None else _population(where).with_settings(configs)
        try:
            certified += _trials(method, population, where, trials, seed, found)
            if number % _EVERY == 0:
                _same_again(method, population, where, seed, found)
            done += 1
        except InvalidInputError as error:
            refusals[where] = str(error)
            if error.__cause__ is not None:  # plan raised something else, which riskfront passes on in its own words
                found.broken.append(f"{where}: {error}")
        except Exception as error:  # the user's method may raise anything
            found.broken.append(f"{where}: it raised {type(error).__name__}: {error}")
    if not found.broken and not done:
        first, words = next(iter(refusals.items()))
        found.broken.append(f"every population was refused; '{first}' in these words: {words}")
    if done:
        found.require(
            certified > 0,
            f"nothing was certified in {trials:,} trials on each of {done} populations, some of them easy.",
        )
        if method.guaranteed:
            _abstains(method, configs, found)
    return found.end()


@cache
def _population(where: str) -> Population:
    return POPULATIONS[where]()


def _trials(method: Method, of: Population, where: str, trials: int, seed: int, found: Findings) -> int:
    """Count the misses, stage by stage; how many trials certified something."""
    misses = certified = made = 0
    for stage in STAGES:
        upto = max(round(stage * trials), 1)
        if upto > made:
            rows = of.trials([method], of.p_values[0], range(made, upto), seed)
            misses += int(rows["any_violated"].sum())
            certified += int((rows["n_certified"] > 0).sum())
            made = upto
        if too_many(misses, made, of.problem.delta, found.level):
            break
    event = "a certificate contained a setting that breaks a limit"
    found.rate(where, event, misses, made, of.problem.delta, judged=method.guaranteed)
    return certified


def _same_again(method: Method, of: Population, where: str, seed: int, found: Findings) -> None:
    """The same examples and seed, the same certificate."""
    order = np.random.default_rng([seed, 12]).permutation(of.table.n_examples)[: of.calibration]
    one, two = (calibrate(of.table.subset(np.sort(order)), of.problem, method=method, seed=seed) for _ in range(2))
    found.require(
        one.tested.equals(two.tested) and one.certified.equals(two.certified),
        f"{where}: the same examples and the same seed gave two certificates, of {len(one.certified)} and {len(two.certified)} "
        "settings; a plan must be decided by the planning examples and the method's parameters.",
    )


def _abstains(method: Method, configs: Sequence[Mapping[str, Any]] | None, found: Findings) -> None:
    """No certificate where every setting always fails, nor from nine examples without a loss."""
    template = _population("0/1, independent")
    settings = (template if configs is None else template.with_settings(configs)).table.configs
    problem = Problem("loss <= 0.1", ["cost"])
    for where, value, n in (("every setting always fails", 1, 400), ("nine examples", 0, 9)):
        losses = {"loss": np.full((STEPS.size, n), value, dtype=bool), "cost": np.ones((STEPS.size, n))}
        certificate = calibrate(LossTable(settings, losses), problem, method=method)
        found.require(not certificate, f"{where}: {len(certificate.certified)} settings were certified.")
