"""Faults of sequential testing."""

from __future__ import annotations

from typing import Any

import numpy as np

from riskfront._calibration.certificates.known_examples import example_fingerprints
from riskfront._calibration.sequential import certificates, path_test, taken_in
from riskfront._calibration.sequential.ask_tell import Sequential
from riskfront._calibration.sequential.inspect_stopping import InspectStopping
from riskfront._calibration.sequential.path_test import PathTest
from riskfront._running.tuning.recorded_uses import UsedExamples
from riskfront.statistics._e_processes import EProcesses
from tests.mutants.mutant import Mutant, everywhere, method


def stake_sees_its_loss() -> None:
    """Half of the stake where the outcome turns out to be bad."""

    def broken(real: Any) -> Any:
        def add(self: Any, bet: int, losses: list[float]) -> None:
            alpha = float(self.alpha[bet])
            real(self, bet, [x if x <= alpha else alpha + (x - alpha) / 2 for x in losses])

        return add

    method(EProcesses, "_add_to_one", broken)


def order_after_looking() -> None:
    """At every look the path begins anew with the setting that has the best outcomes so far."""

    def broken(real: Any) -> Any:
        def advance(self: Any) -> None:
            chunks = len(self._outcomes.edges) - 1
            if chunks and not self.certified:
                table = self._outcomes.table(range(len(self._outcomes.told.known)), slice(0, chunks))
                mean = table.losses("error").astype(float).mean(axis=1)
                self.path.sort(key=lambda row: float(mean[row]))
                self.tests, self.capital = [], 1.0
            real(self)

        return advance

    method(PathTest, "advance", broken)


def counted_twice_after_resume() -> None:
    """Each restart counts every outcome once more."""
    real_layout, real_load = path_test._test_inputs, Sequential.from_dict.__func__  # type: ignore[attr-defined]
    times = [1]

    def load(cls: Any, data: Any) -> Any:
        times[0] = data.get("restarts", 0) + 2
        run = real_load(cls, data)
        run._restarts = times[0] - 1
        return run

    def saved(real: Any) -> Any:
        return lambda self, told=None: {**real(self, told), "restarts": getattr(self, "_restarts", 0)}

    def begun(real: Any) -> Any:
        def start(self: Any, *given: Any, **named: Any) -> None:
            times[0] = 1
            real(self, *given, **named)

        return start

    def layout(tests: Any, table: Any) -> Any:
        losses, kept = real_layout(tests, table)
        return np.repeat(losses, times[0], axis=1), np.repeat(kept, times[0], axis=1)

    Sequential.from_dict = classmethod(load)  # type: ignore[assignment]
    method(Sequential, "to_dict", saved)
    method(Sequential, "__init__", begun)
    everywhere(real_layout, layout)


def repeat_counted_as_independent() -> None:
    """An outcome that is told again counts as that of the next example."""

    def broken(real: Any) -> Any:
        def tell(self: Any, trial: Any, outcome: Any) -> None:
            self._use(full=False)
            config, example = trial
            row, place = self._found(config, example)
            if self._told.known[row, place]:
                unknown = np.flatnonzero(~self._told.known[row])
                if len(unknown):
                    real(self, (config, int(self._order[unknown[0]])), outcome)
                return
            real(self, trial, outcome)

        return tell

    method(Sequential, "tell", broken)


def full_level_after_giving_up() -> None:
    """A setting that was given up leaves the whole level to the next."""

    def broken(real: Any) -> Any:
        def give_up(self: Any, test: Any) -> None:
            real(self, test)
            self.capital = 1.0

        return give_up

    method(PathTest, "_give_up", broken)


def same_examples_after_giving_up() -> None:
    """A setting after one that was given up bets on the same examples, with what is left of the level."""

    def broken(real: Any) -> Any:
        def give_up(self: Any, test: Any) -> None:
            real(self, test)
            self._start = 0

        return give_up

    method(PathTest, "_give_up", broken)


def earlier_runs_forgotten() -> None:
    """A run neither counts earlier questions nor is counted."""
    method(Sequential, "_record_use", lambda real: lambda self: None)


def order_drawn_at_each_telling() -> None:
    everywhere(taken_in.shuffle_of, lambda run, told, n: np.random.default_rng().permutation(n))


def names_not_needed() -> None:
    everywhere(taken_in._refuse_without_names, lambda table: None)


def planning_examples_forgotten() -> None:
    """A certificate knows the examples that it was tested on alone."""

    def broken(problem: Any, configs: Any, chosen: Any, opt: Any, levels: Any) -> Any:
        return example_fingerprints(problem, configs, chosen[0].table) if chosen else {}

    everywhere(certificates._fingerprints, broken)


def inspected_again() -> None:
    """A second run with the same object begins anew."""

    def broken(real: Any) -> Any:
        async def start_task(self: Any, task: Any, samples: Any, epochs: int) -> str:
            self._order, self._scores, self._counted = [], {}, 0
            return str(await real(self, task, samples, epochs))

        return start_task

    method(InspectStopping, "start_task", broken)


def functions_forgotten() -> None:
    """A function that holds something else after its calls is another one."""
    method(UsedExamples, "called", lambda real: lambda self: None)


DAILY = "sequential: labels come daily, forty rivals"
GIVEN_UP = "tune, adaptive: given up one after the other"
AGAIN = "sequential: told again after a restart"
ASKED = "sequential: asked and told, every batch looked at"
SAFE_FIRST = "tune, adaptive: safe ones first"
MUTANTS = [
    Mutant("sequential: a stake sees its own loss", "tune, adaptive: all break the limit", stake_sees_its_loss),
    Mutant("sequential: a stake sees its own loss, asked and told", ASKED, stake_sees_its_loss),
    Mutant("sequential: a stake sees its own loss, safe ones first", SAFE_FIRST, stake_sees_its_loss),
    Mutant("sequential: a stake sees its own loss, daily", "sequential: labels come daily", stake_sees_its_loss),
    Mutant("sequential: an order changed after looking", DAILY, order_after_looking),
    Mutant("sequential: counted twice after resume", AGAIN, counted_twice_after_resume),
    Mutant("sequential: a repeat counted as independent", AGAIN, repeat_counted_as_independent),
    Mutant("sequential: the full level after giving up", GIVEN_UP, full_level_after_giving_up),
    Mutant("sequential: the same examples after giving up", GIVEN_UP, same_examples_after_giving_up),
    Mutant(
        "sequential: a stake sees its own loss, Inspect", "sequential: Inspect's early stopping", stake_sees_its_loss
    ),
    Mutant(
        "sequential: earlier runs forgotten", "sequential: run after run on the same examples", earlier_runs_forgotten
    ),
    Mutant(
        "sequential: an order drawn at each telling",
        "sequential: told again until it passes",
        order_drawn_at_each_telling,
    ),
    Mutant("sequential: names not needed", "sequential: parts told again without names", names_not_needed),
    Mutant(
        "sequential: planning examples forgotten",
        "sequential: checked on planning examples",
        planning_examples_forgotten,
    ),
    Mutant("tune: functions forgotten", "tune: asked again by a function that counts", functions_forgotten),
    Mutant("sequential: Inspect, begun again", "sequential: Inspect, run until it passes", inspected_again),
]
