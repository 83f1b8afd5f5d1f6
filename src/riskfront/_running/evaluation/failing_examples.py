"""Which examples does the user's function fail on, at one setting? The others keep their outcomes.

The examples are split into 16 parts, and a part on which the function fails into 16 again, down to single examples. If a part
failed and none of its own parts does, these are called again until one fails.

Failures of chance (a time-out, a lost connection) stay what they are by this. Let example i fail with probability c_i at
every call, independently of others, and let F be the set of examples that are missing in the end. A call on a part succeeds
with probability prod (1 - c_i), which is the probability that F contains none of it. If the call fails, the parts that fail
are drawn from their distribution given that there is one, by rejection sampling. So each example is in F with probability
c_i, independently of others, as if each had been called once and alone. To take the first successful try for the outcome
would count failures too rarely. To count the whole part as failed would tie examples to each other, planning examples to
testing examples among them.

Calls are bounded. A part whose failure was not found again by then is missing as a whole. With independent failures that
happens only where they are so rare (c_i n well below 1) that no test of n examples could tell such a rate from zero.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from riskfront._data.stores.stored_rows import missing_of
from riskfront._problems.spaces.space import Config
from riskfront._running.evaluation.example_parts import take
from riskfront._running.evaluation.outcome import Evaluated, Failure, Losses, Outcome, masked, outcome_of
from riskfront._support.arrays import Array
from riskfront.errors import InvalidInputError

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
