"""What happens where the user's function fails: retries, the examples that fail, and what is said about them."""

from __future__ import annotations

import itertools
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np

from riskfront._data.stores.loss_store import LossStore
from riskfront._data.stores.stored_rows import missing_of
from riskfront._problems.spaces.space import Config
from riskfront._running.evaluation.example_parts import take
from riskfront._running.evaluation.outcome import (
    Evaluated,
    Failure,
    Losses,
    MemoryRows,
    Outcome,
    RowsOf,
    masked,
    outcome_of,
)
from riskfront._support.arrays import Array
from riskfront.errors import EvaluationError, InvalidInputError

PARTS = 16
MOST_CALLS = (
    2_000  # at a setting, and one more for each example; parts that are not looked into by then are missing as a whole
)
MOST_PASSES = 12  # over all examples, likewise
_ONCE = "(on all examples together, and on none of 16 parts of them, called again and again: all count as failed)"


def outcome_with_gaps(losses: Losses, config: Config, examples: Any) -> Outcome:
    """The losses of a setting, masked at the examples on which the function fails; a failure if these are all."""
    whole = outcome_of(losses, config, examples, gaps=True)
    if isinstance(whole, Evaluated) or len(examples) == 1:
        return whole
    parts = _Parts(losses, config, examples)
    try:
        known = parts.search()
    except InvalidInputError as error:  # examples of which no part can be taken
        return Failure(str(error).rstrip("."), fatal=True)
    if known:
        return Evaluated(_joined(known, len(examples)), whole)
    return replace(whole, reason=f"{whole.reason} {_ONCE}") if parts.failed_once else whole


@dataclass(slots=True)
class _Parts:
    """Calls of the function on parts of the examples, at one setting."""

    losses: Losses
    config: Config
    examples: Any
    calls: int = 0
    called_with: int = 0  # examples, summed over calls
    failed_once: bool = False  # all examples together, and no part of them
    names: set[str] = field(default_factory=set)

    def search(self) -> dict[range, Evaluated]:
        """Parts on which the function did not fail, with their losses."""
        known, failed = self.look_into(range(len(self.examples)))
        self.failed_once = not failed
        if not known and self.fails_everywhere(failed):
            return {}
        while failed:
            found = [self.look_into(part) for part in failed]
            failed = [smaller for _, failed_inside in found for smaller in failed_inside]
            for known_inside, _ in found:
                known |= known_inside
        return known

    def look_into(self, part: range) -> tuple[dict[range, Evaluated], list[range]]:
        """Of a part that failed: the smaller parts that do not fail, with their losses, and those that do."""
        smaller = _split(part)
        failed: list[range] = []
        known: dict[range, Evaluated] = {}
        while len(part) > 1 and not failed and self.may_call(smaller):
            found = {inner: self.outcome(inner) for inner in smaller}
            known = {inner: outcome for inner, outcome in found.items() if isinstance(outcome, Evaluated)}
            failed = [inner for inner in smaller if inner not in known]
        return (known, failed) if failed else ({}, [])

    def may_call(self, parts: list[range]) -> bool:
        n = len(self.examples)
        in_time = self.calls + len(parts) <= MOST_CALLS + n
        return in_time and self.called_with + sum(map(len, parts)) <= MOST_PASSES * n

    def outcome(self, part: range) -> Outcome:
        self.calls, self.called_with = self.calls + 1, self.called_with + len(part)
        outcome = outcome_of(self.losses, self.config, take(self.examples, np.array(part)), gaps=True)
        if isinstance(outcome, Evaluated):
            self.names = self.names or set(outcome.losses)
            if outcome.losses.keys() != self.names:
                return Failure("other losses than for other examples")
        return outcome

    def fails_everywhere(self, parts: list[range]) -> bool:
        """Whether the function fails on one example of each part, called on it alone: then it is not called on all others."""
        return all(isinstance(self.outcome(part[len(part) // 2 :][:1]), Failure) for part in parts)


def _split(part: range) -> list[range]:
    edges = np.linspace(0, len(part), min(PARTS, len(part)) + 1).astype(int)
    return [part[start:stop] for start, stop in itertools.pairwise(edges)]


def _joined(known: dict[range, Evaluated], n_examples: int) -> dict[str, Array]:
    """(examples,) of each loss, masked where no part is known, or where a known part has a gap."""
    first = next(iter(known.values()))
    found = {}
    for name in first.losses:
        values = np.zeros(n_examples, np.result_type(*(part.losses[name].dtype for part in known.values())))
        missing = np.ones(n_examples, dtype=np.bool_)
        for examples, part in known.items():
            place = slice(examples.start, examples.stop)
            values[place] = np.ma.getdata(part.losses[name])
            gaps = missing_of(part.losses[name])
            missing[place] = False if gaps is None else gaps
        found[name] = masked(values, missing)
    return found


def all_missing(names: Sequence[str], n_examples: int) -> dict[str, Array]:
    """The losses of a setting at which the function failed on every example. Booleans become whatever others have."""
    gaps = np.ones(n_examples, dtype=np.bool_)
    return {name: masked(np.zeros(n_examples, dtype=np.bool_), gaps) for name in names}


Failures = dict[str, tuple[Config, Failure]]  # by the name of the setting
SKIP_HINT = ", or go on with on_error='skip', which counts a failure as the worst outcome of its setting and example"


def with_evaluated(error_of: Callable[[str], EvaluationError], rows: RowsOf, hint: str) -> EvaluationError:
    """The error with what was evaluated before, and with a sentence that says where that is."""
    stored = isinstance(rows, LossStore)
    if stored:
        kept = f"The {len(rows)} settings evaluated before are in the store: correct it and run again to go on"
    else:
        kept = f"The {len(rows)} settings evaluated before are in this error's 'evaluated'"
    error = error_of(f"{kept}{hint}.")
    error.n_evaluated, error.in_store, error.can_skip = len(rows), stored, bool(hint)
    if isinstance(rows, MemoryRows) and len(rows):
        error.evaluated = rows.table(rows.configs)
    return error


def lost_workers(lost: WorkersLostError, configs: Sequence[Config], rows: RowsOf) -> EvaluationError:
    if lost.position is None:
        problem = f"workers must be reachable; they were not ({lost.reason}). Check the cluster."
        return with_evaluated(partial(EvaluationError, problem, {}), rows, "")
    config = configs[lost.position]
    problem = (
        f"workers must live until a setting is evaluated; they were lost ({lost.reason}) in all of {TRIES} tries of the "
        f"setting {config}, in the last with no other setting beside it."
    )
    if lost.healthy:
        problem += " The workers do other work: this setting ends its process, or needs more memory than there is."
    else:
        problem += (
            " They could not be reached afterwards: check the cluster. Whether the setting is to blame is not known."
        )
    return with_evaluated(partial(EvaluationError, problem, config), rows, "")


def warn_of(failures: Failures, total: int) -> None:
    """Say that outcomes are missing."""
    config, failure = next(iter(failures.values()))
    warnings.warn(
        f"the losses function failed at {len(failures)} of {total} settings, on some examples or on all. Those outcomes are "
        f"missing, and calibrate counts each as the worst there can be; the first: {failure.reason}, at the setting {config}.",
        stacklevel=3,
    )


def all_failed(failures: Failures) -> EvaluationError:
    """The error if no setting has any outcome."""
    config, failure = next(iter(failures.values()))
    reason = f"All {len(failures)} settings failed on every example, the first so: {failure.reason}"
    return replace(failure, reason=reason).error(config, "")


TRIES = 3  # of a setting whose worker is lost, the last one without others beside it


class WorkersLostError(Exception):
    """Workers were lost again and again while a setting was evaluated, at last with no other setting beside it.

    ``position`` is the setting's, None if no setting was begun; ``healthy`` says whether the workers do other things, so that
    the setting is to blame.
    """

    def __init__(self, reason: str, position: int | None, healthy: bool) -> None:
        super().__init__(reason)
        self.reason, self.position, self.healthy = reason, position, healthy


class LossOfWorkersError(Exception):
    """Workers ended, or could not be reached, before all settings were evaluated."""


class Retries:
    """The settings that were lost, by position. To evaluate a setting twice is harmless."""

    def __init__(self) -> None:
        self._tries: Counter[int | None] = Counter()
        self._again: dict[int, Config] = {}
        self._alone: dict[int, Config] = {}

    def __len__(self) -> int:
        return len(self._again) + len(self._alone)

    def lost(self, under_way: dict[int, Config]) -> list[int | None]:
        """Take what was under way when workers were lost; the positions that were tried too often."""
        positions: list[int | None] = [*under_way] or [None]
        self._tries.update(positions)
        exhausted = [position for position in positions if self._tries[position] >= TRIES]
        for position, config in under_way.items():
            if position not in exhausted:
                (self._again if self._tries[position] < TRIES - 1 else self._alone)[position] = config
        return exhausted

    def together(self) -> Iterator[tuple[int, Config]]:
        """Take out, one by one, what may be tried beside others; what is not taken stays."""
        while self._again:
            position = next(iter(self._again))
            yield position, self._again.pop(position)

    def alone(self) -> list[tuple[int, Config]]:
        """Take out a setting that is tried without others, if there is one."""
        return [self._alone.popitem()] if self._alone else []
