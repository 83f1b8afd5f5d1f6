"""How an acceleration is to be done: rows, grid of thresholds, training, search and method."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, field

import pandas as pd

from riskfront._problems.problem import Problem
from riskfront.errors import InvalidInputError
from riskfront.methods import Method, make_method
from riskfront.search import STRATEGIES, Search
from riskfront.transformers._backbones.precision import PRECISIONS, check_precision, precisions_for
from riskfront.transformers._learning.training import Training
from riskfront.transformers._pruning.network import Network


@dataclass(frozen=True)
class Rows:
    """How many rows go where; None for all there are. Without a column `split`, half of the rows are for calibration."""

    train: int | None = None
    validation: int = 1000
    calibration: int | None = None


@dataclass(frozen=True)
class Grid:
    """How many thresholds of each kind, with 0 (off) among them, the values of lambda, and the precisions to choose from.

    ``depth`` is the number of depths at which the model may be cut, all its layers included: 1 for no cut. ``precision`` None
    is float32; where latency is an objective, every precision in which the model can run on this machine.
    """

    head: int = 18
    token: int = 20
    layer: int = 120
    abstain: Sequence[float] = (0.0,)
    precision: Sequence[str] | None = None
    depth: int = 1

    def __post_init__(self) -> None:
        for name in ("",) if self.precision is not None and not self.precision else self.precision or ():
            check_precision(name)

    def precisions(self, problem: Problem, network: Network) -> tuple[str, ...]:
        """The precisions to choose from; float32, the model's own, where nobody asked and no clock would tell."""
        if self.precision is not None:
            return tuple(self.precision)
        if all(objective.loss != "latency" for objective in problem.objectives):
            return PRECISIONS[:1]
        return precisions_for(network.layers(network.kept_heads(0.0)))


@dataclass(frozen=True)
class Plan:
    """Everything about an acceleration that is not the task itself.

    Args:
        training: of the encoder and of the small networks.
        rows: for training, validation and calibration.
        grid: the settings to choose from.
        method: how to plan the tests.
        search: "grid" traces every pair of head and token thresholds on opt examples; "random", "optuna", "guided" and the like
            try `budget` settings.
        seed: of all that is drawn at random.
        leave_out_repeats: go on without calibration rows whose text was learnt from or is that of another; an error otherwise.
        choose: which of the chosen settings to use, as in `certificate.choose`. By default the first; with
            several values of lambda, the cheapest if the full model had to answer whatever is left unanswered.
        learnt_from: files or data frames with texts that the model learnt from before.
    """

    training: Training = field(default_factory=Training)
    rows: Rows = field(default_factory=Rows)
    grid: Grid = field(default_factory=Grid)
    method: str | Method = "pareto-testing"
    search: str | Search = "grid"
    budget: int = 200
    seed: int = 0
    batch_size: int = 32
    leave_out_repeats: bool = False
    choose: str = ""
    learnt_from: Sequence[str | os.PathLike[str] | pd.DataFrame] = ()

    def __post_init__(self) -> None:
        """Before hours of training: what can be known to be wrong now."""
        if make_method(self.method).opt_fraction == 0:
            raise InvalidInputError(f"a method that plans on opt examples is needed; {self.method!r} uses none.")
        if isinstance(self.search, str) and self.search not in STRATEGIES:
            raise InvalidInputError(f"search must be one of {sorted(STRATEGIES)}; got {self.search!r}.")
