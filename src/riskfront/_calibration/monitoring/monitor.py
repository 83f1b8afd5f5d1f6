"""Monitor: watches a deployed setting and raises an alarm when a limit no longer holds."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from riskfront._calibration.certificates.certificate import Certificate
from riskfront._calibration.monitoring import words
from riskfront._calibration.monitoring.accounts import Accounts
from riskfront._calibration.monitoring.detector import Detector
from riskfront._calibration.monitoring.input_change import InputChange
from riskfront._calibration.monitoring.outcome_files import write_durably
from riskfront._calibration.monitoring.promise import Promise, Rules, check_delta, chosen_limits, notes_on
from riskfront._calibration.monitoring.watched_limit import Columns, WatchedLimit, by_group, label
from riskfront._problems.problem import Problem
from riskfront._support.checked_json import check_schema, from_bytes, reading, to_bytes
from riskfront.errors import InvalidInputError, NotCertifiedError

SCHEMA, SCHEMA_VERSION = "riskfront.monitor", 1
_POINTS, _FEWEST = 1024, 16  # stretches of the record of the evidence, shared by all that is watched


@dataclass(slots=True)
class Watch:
    """A limit in one group, or on all outcomes, and the evidence about it."""

    limit: WatchedLimit
    group: str | None
    detector: Detector

    @property
    def name(self) -> str:
        return str(self.limit.limit) + (f", {self.limit.limit.per} = {self.group}" if self.group is not None else "")


class Monitor:
    """Watches the limits of a certificate on outcomes of the deployed setting, as they come.

    One e-process for each limit and group. It may be looked at after every outcome, for as long as one likes, and costs the
    same work and memory at every outcome. What it promises while every limit holds is one of two things, by name:

    - ``promise="no-false-alarm"``: with probability at least 1 - delta there is never a false alarm; delta is divided equally
      among limits and groups;
    - ``promise="run-length"``: a false alarm comes after ``run_length`` outcomes or more on average. Alarms are faster.

    An alarm stays: it names the limit, the outcome that raised it, and an estimate of where the change was. The promises
    need no independence: they hold as long as the risk given the past is within the limit at every outcome.

    Args:
        certificate: what was certified.
        delta: the chance of ever raising a false alarm.
        promise: "no-false-alarm" or "run-length".
        run_length: outcomes until a false alarm, on average, for the second promise.
        missing: how an outcome counts whose label should be there and is missing: "worst" (the default), or "leave-out", which
            needs that labels go missing whatever their value. An outcome whose group is missing may belong to any: as "worst"
            it counts in every group of the limit if its loss is above the limit, and in none if not.
        audit: the probability with which an outcome gets a label at random; outcomes without one then do not count, except
            through the proxy of a limit that names one. A number for all limited losses, which one audit labels together, or
            column -> number, each with an audit of its own, such as ``{"score of full": 0.05}`` for a reference that is run on
            a sample only.
        audit_column: instead, a column with each outcome's own probability of the audit, 0 where it was not audited.
        least_audit: the smallest probability in it.
        limits: which limits to watch, as texts or Limits; all of them by default.
        time: a column to tell times by, such as "date"; only shown.
        warn_on: a column of scores or confidences: a test of whether they stay exchangeable warns without labels that inputs
            changed. It is a warning with a delta of its own, never an alarm.
        warn_delta: the chance of ever giving a false warning.

    For a drop from a reference, the column "<loss> of <reference>" holds what the reference lost on the same request.
    With the proxy of a limit and an audit, outcomes must come in an order that does not depend on which were audited.

    Examples:
        >>> import riskfront as rf
        >>> table = rf.LossTable([{"k": 0}], {"error": [[0] * 300], "cost": [[1] * 300]})
        >>> certificate = rf.calibrate(table, rf.Problem("error <= 0.1", minimize="cost"))
        >>> monitor = rf.Monitor(certificate, delta=0.05)
        >>> monitor.update({"error": [0, 1, 0, 0, 0]})
        False
        >>> monitor.update({"error": [1] * 10})
        True
        >>> print(*monitor.verdict().split(". "), sep="\\n")
        ALARM: 'error <= 0.1' is broken, seen at outcome 9
        The change is estimated at outcome 6
        The risk since then: 1 over 4 outcomes.
    """

    def __init__(
        self,
        certificate: Certificate,
        *,
        delta: float = 0.05,
        promise: str = "no-false-alarm",
        run_length: int = 10_000,
        missing: str = "worst",
        audit: float | Mapping[str, float] | None = None,
        audit_column: str | None = None,
        least_audit: float | None = None,
        limits: Sequence[Any] | None = None,
        time: str | None = None,
        warn_on: str | None = None,
        warn_delta: float = 0.05,
    ) -> None:
        if not isinstance(certificate, Certificate):
            raise InvalidInputError(
                f"a monitor needs a certificate, as rf.calibrate returns it or Certificate.load reads it; got "
                f"{type(certificate).__name__}."
            )
        if not certificate:
            raise NotCertifiedError("there is no certified setting to watch.")
        if warn_on is not None:
            check_delta("warn_delta", warn_delta)
        self._set(
            chosen_limits(certificate.problem, limits),
            {name: [float(end) for end in pair] for name, pair in certificate.loss_bounds.items()},
            {name: [label(value) for value in values] for name, values in certificate.groups.items()},
            Rules(missing, audit, audit_column, least_audit),
            Promise(promise, delta, run_length),
        )
        self.time, self.certificate_sha256 = time, certificate.data_sha256
        self.notes = notes_on(certificate, self.problem)
        self.input_change = None if warn_on is None else InputChange(warn_on, warn_delta)

    def _set(
        self,
        problem: Problem,
        bounds: Mapping[str, list[float]],
        groups: Mapping[str, list[str]],
        rules: Rules,
        promise: Promise,
    ) -> None:
        """Before the first outcome."""
        self.problem, self.rules, self.promise = problem, rules, promise
        self._bounds, self._groups = bounds, groups
        self._limits = [WatchedLimit(limit, bounds, rules, groups.get(str(limit.per), ())) for limit in problem.limits]
        places = [(w, g) for w in self._limits for g in ([None] if w.limit.per is None else groups[w.limit.per])]
        self.watches = [Watch(watched, group, self._detector(watched, len(places))) for watched, group in places]
        self.outcomes = 0
        self.accounts = Accounts(self._limits)
        #: where reading of each file ended; kept for the command line
        self.sources: dict[str, Any] = {}

    def _detector(self, watched: WatchedLimit, watches: int) -> Detector:
        return Detector(
            watched.alpha,
            self.promise.threshold(watches, len(self._limits)),
            weighted=self.promise.weighted,
            rate=watched.rate,
            by_proxy=watched.by_proxy,
            points=max(_FEWEST, min(128, _POINTS // watches)),
        )

    # ---------------------------------------------------------------- outcomes

    @property
    def columns(self) -> list[str]:
        """The columns that outcomes must have."""
        names = [name for watched in self._limits for name in watched.columns]
        optional = [self.time, None if self.input_change is None else self.input_change.column]
        return list(dict.fromkeys([*names, *(name for name in optional if name is not None)]))

    @property
    def group_columns(self) -> list[str]:
        """The columns that hold names of groups."""
        return list(dict.fromkeys(w.limit.per for w in self._limits if w.limit.per is not None))

    def update(self, outcomes: Mapping[str, Any] | pd.DataFrame) -> bool:
        """Take outcomes in, in the order in which they became known, one or many at a time; returns whether there is an alarm.

        Args:
            outcomes: columns by name, or a data frame, a row an outcome: the losses that limits speak of, groups and
                conditions, and what ``audit_column``, ``time`` and ``warn_on`` name. An empty cell is a missing outcome.
        """
        columns = Columns(outcomes)
        lacking = [name for name in self.columns if name not in columns]
        if lacking:
            raise InvalidInputError(
                f"outcomes must have the columns {', '.join(map(repr, self.columns))}; {', '.join(map(repr, lacking))} "
                f"is not among {', '.join(map(repr, columns.names)) or 'none'}."
            )
        # everything is read, and so checked, before anything counts
        read = [watched.read(columns) for watched in self._limits]
        times = None if self.time is None else columns.texts(self.time)
        scores = None if self.input_change is None else columns.numbers(self.input_change.column)
        first, detectors = self.outcomes, {(id(watch.limit), watch.group): watch.detector for watch in self.watches}
        uncovered: dict[tuple[str, str], int] = {}  # an outcome is one, however many limits speak of its group
        for watched, counted in zip(self._limits, read, strict=True):
            self.accounts.count(watched, counted)
            for group, part in by_group(counted, watched.groups).items():
                detector = detectors.get((id(watched), group))
                if detector is None:
                    place = str(watched.limit.per), str(group)
                    uncovered[place] = max(uncovered.get(place, 0), len(part.rows))
                else:
                    when = None if times is None else [times[place] for place in part.rows]
                    detector.add(part, part.rows + first, when)
        for (per, name), outcomes_of in uncovered.items():
            self.accounts.count_uncovered(per, name, outcomes_of)
        if self.input_change is not None and scores is not None:
            self.input_change.add(scores, np.arange(first, first + columns.number))
        self.outcomes += columns.number
        return self.alarm

    # ---------------------------------------------------------------- what was found

    @property
    def alarm(self) -> bool:
        """Whether a limit was found to be broken. It stays so."""
        return any(watch.detector.alarm is not None for watch in self.watches)

    @property
    def warning(self) -> bool:
        """Whether the scores of ``warn_on`` changed: a warning, no broken limit."""
        return self.input_change is not None and self.input_change.warns

    @property
    def status(self) -> pd.DataFrame:
        """One row for each limit and group: outcomes that counted, their risk, the evidence and the threshold that it must
        reach for an alarm, where the alarm was, where the change is estimated to be, and the risk since then."""
        found = pd.DataFrame([words.row(watch) for watch in self.watches])
        return found.assign(group=pd.Series([watch.group for watch in self.watches], dtype=object))

    def verdict(self) -> str:
        """Whether there is an alarm, in plain words, and what limits what can be said."""
        return " ".join(self.sentences())

    def sentences(self) -> list[str]:
        """The verdict, one sentence a time."""
        return [*words.verdict(self), *words.cautions(self)]

    def doubtful_audits(self) -> dict[str, tuple[int, int, float]]:
        """Limit -> outcomes with a label, all outcomes, the declared share, where the two disagree beyond chance."""
        return self.accounts.doubtful_audits(self._limits)

    def __repr__(self) -> str:
        return (
            f"Monitor({len(self.watches)} watched, {self.outcomes:,} outcomes, {'ALARM' if self.alarm else 'no alarm'})"
        )

    # ---------------------------------------------------------------- files

    def asked(self) -> dict[str, Any]:
        """What is watched and promised, to compare a state with."""
        return {
            "limits": [str(limit) for limit in self.problem.limits],
            "bounds": {name: list(pair) for name, pair in self._bounds.items()},
            "groups": {name: list(values) for name, values in self._groups.items()},
            "certificate": self.certificate_sha256,
            "promise": {**self.promise.to_dict(), ("run_length" if self.promise.weighted else "delta"): None},
            "rules": self.rules.to_dict(),
            "time": self.time,
            "warn_on": None if self.input_change is None else (self.input_change.column, self.input_change.delta),
        }

    def to_dict(self) -> dict[str, Any]:
        return {
            "schema": SCHEMA,
            "schema_version": SCHEMA_VERSION,
            "verdict": self.verdict(),
            "outcomes": self.outcomes,
            "sources": self.sources,
            "problem": self.problem.to_dict(),
            "bounds": dict(self._bounds),
            "groups": dict(self._groups),
            "rules": self.rules.to_dict(),
            "promise": self.promise.to_dict(),
            "time": self.time,
            "certificate_sha256": self.certificate_sha256,
            "notes": list(self.notes),
            "accounts": self.accounts.to_dict(),
            "watches": [{"group": watch.group, **watch.detector.to_dict()} for watch in self.watches],
            "input_change": None if self.input_change is None else self.input_change.to_dict(),
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Monitor:
        check_schema(data, SCHEMA, SCHEMA_VERSION, "a monitor", "monitors")
        made = cls.__new__(cls)
        rules, promise = Rules(**data["rules"]), Promise(**data["promise"])
        made._set(Problem.from_dict(data["problem"]), data["bounds"], data["groups"], rules, promise)
        made.outcomes, made.sources, made.time = int(data["outcomes"]), dict(data["sources"]), data["time"]
        made.certificate_sha256, made.notes = data["certificate_sha256"], list(data["notes"])
        made.accounts.restore(data["accounts"])
        made.input_change = None if data["input_change"] is None else InputChange.from_dict(data["input_change"])
        if [watch.group for watch in made.watches] != [saved["group"] for saved in data["watches"]]:
            raise InvalidInputError("a monitor must agree with itself; its limits and groups are not those it watched.")
        for watch, saved in zip(made.watches, data["watches"], strict=True):
            watch.detector = Detector.from_dict(saved)
        return made

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write as JSON, whole or not at all, and on the disk when this returns."""
        write_durably(path, to_bytes(self.to_dict()))

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Monitor:
        """Read from JSON, to go on where it was saved."""
        with reading("monitor", path):
            return cls.from_dict(from_bytes(Path(path).read_bytes()))
