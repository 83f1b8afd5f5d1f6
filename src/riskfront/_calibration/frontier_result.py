"""Frontier: what is certified for every combination of limits, with one confidence; a certificate is chosen from it."""

from __future__ import annotations

import importlib
import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pandas as pd

from riskfront._calibration.certificates.certificate import NEVER_GUARANTEED, Certificate
from riskfront._calibration.certificates.choice import choose as choose_setting
from riskfront._calibration.certificates.uses_of_test_set import UseOfTestSet, delta_of_all, uses_in_words
from riskfront._calibration.certificates.verdict import confidence
from riskfront._calibration.frontier_plan import ValueGrid
from riskfront._data.intake import Intake
from riskfront._problems.problem import Problem
from riskfront._support import notebook
from riskfront._support.checked_json import check_schema, parse_json, reading, with_digest, without_digest
from riskfront._support.files import write_text
from riskfront._support.values import from_columns, to_columns
from riskfront.errors import InvalidInputError, MissingExtraError

SCHEMA, SCHEMA_VERSION = "riskfront.frontier", 1
#: the column that says which combination of values a row belongs to
COMBINATION = "combination"
_PLAIN = ("method", "n_opt", "n_test", "seed", "data_sha256", "version", "split_by", "clusters")
_MAPPINGS = ("parameters", "setting_columns", "groups", "loss_bounds", "thresholds", "example_fingerprints", "rules")


@dataclass(frozen=True, slots=True, eq=False)
class Frontier:
    """The best certified settings for every combination of values of the limits, all true together with one confidence.

    With probability at least 1 - delta, every statement "this setting keeps these limits" is true, so that the values may be
    chosen after looking. ``choose`` gives the certificate of a combination.

    Attributes:
        problem: limits, objectives and delta; limits that vary stand there with the number they were given.
        values: limit -> its values, from the loosest to the tightest.
        path: the chosen settings of every combination, best first, with what was measured, p-values and levels.
        measured: a row for each combination, chosen setting, limit and group.
        counts: (combinations,) how many settings are certified; the last limit changes fastest.
        failures: combination -> why nothing was certified there, and how many examples it would take.
        rules: setting as JSON -> what it does, in words; for cascades and routers.
        unlabelled: as in a Certificate, at the best setting of the loosest values that have one.
        n_opt, n_test, seed, data_sha256, explored, intake, ...: as in a Certificate.

    Examples:
        >>> import numpy as np
        >>> import riskfront as rf
        >>> random = np.random.default_rng(0)
        >>> error = random.random((30, 2000)) < np.linspace(0.01, 0.3, 30)[:, None]
        >>> cost = np.linspace(1, 0, 30)[:, None] + 0.01 * random.random((30, 2000))
        >>> table = rf.LossTable([{"k": k} for k in range(30)], {"error": error, "cost": cost})
        >>> problem = rf.Problem("error <= 0.1", minimize="cost")
        >>> frontier = rf.frontier(table, problem, {"error": [0.05, 0.1, 0.2]}, simultaneous=True)
        >>> frontier.choose({"error": 0.1}).verdict()
        'With 90 % confidence, error stays at or below 10 %.'
    """

    problem: Problem
    values: Mapping[str, Sequence[float]]
    method: str
    parameters: Mapping[str, Any]
    n_opt: int
    n_test: int
    seed: int
    data_sha256: str
    version: str
    setting_columns: Mapping[str, str]
    path: pd.DataFrame
    measured: pd.DataFrame
    counts: Sequence[int]
    failures: Mapping[str, Mapping[str, Any]]
    groups: Mapping[str, Sequence[Any]]
    explored: pd.DataFrame | None
    loss_bounds: Mapping[str, Sequence[float]]
    split_by: str = "contents"
    thresholds: Mapping[str, float] = field(default_factory=dict)
    clusters: str | None = None
    example_fingerprints: Mapping[str, Any] = field(default_factory=dict)
    notes: Sequence[str] = ()
    source: Mapping[str, Any] | None = None
    earlier_looks: tuple[UseOfTestSet, ...] = ()
    intake: Intake = field(default_factory=lambda: Intake.whole(0))
    rules: Mapping[str, str] = field(default_factory=dict)
    unlabelled: Mapping[str, Any] | None = None

    @property
    def grid(self) -> ValueGrid:
        """The values of the limits, and their combinations."""
        return ValueGrid.of(self.problem, self.values)

    def __bool__(self) -> bool:
        return any(count > 0 for count in self.counts)

    @property
    def guaranteed(self) -> bool:
        """Whether earlier uses of the testing examples leave any confidence."""
        return delta_of_all(self.problem.delta, self.earlier_looks) < 1

    @property
    def frame(self) -> pd.DataFrame:
        """One row a combination: the values, how many settings are certified, and the best of them."""
        grid = self.grid
        columns = [one.name for one in grid.varying]
        every = [
            [one.values[at] for one, at in zip(grid.varying, places, strict=True)] for places in grid.combinations()
        ]
        frame = pd.DataFrame(every, columns=[f"limit on {name}" for name in columns])
        frame["n_certified"] = list(self.counts)
        best = self.path[self.path["chosen"] == 1].drop(columns=["certified", "chosen"]).set_index(COMBINATION)
        return frame.join(best)

    def choose(self, limits: Mapping[str, float], choice: str = "") -> Certificate:
        """The certificate of one combination of values. It costs nothing: all combinations hold together.

        Args:
            limits: limit -> one of its values, such as {"error": 0.05, "error per label": 0.15}.
            choice: which of several chosen settings comes first, as for ``riskfront calibrate --choose``.
        """
        grid = self.grid
        places = grid.places(limits)
        combination = list(grid.combinations()).index(places)
        problem = grid.at(places)
        named = {one.name: one.values[at] for one, at in zip(grid.varying, places, strict=True)}
        own = {str(limit) for limit in problem.limits}
        certificate = Certificate(
            problem=problem,
            **{
                name: getattr(self, name) for name in (*_PLAIN, "groups", "explored", "loss_bounds", "source", "intake")
            },
            parameters=dict(self.parameters),
            guaranteed=True,
            setting_columns=dict(self.setting_columns),
            path=_of(self.path, combination),
            measured=_of(self.measured, combination),
            diagnosis=self.failures.get(str(combination)),
            notes=tuple(self.notes),
            thresholds={name: at for name, at in self.thresholds.items() if name in own},
            example_fingerprints=self.example_fingerprints if self.counts[combination] else {},
            unlabelled=self._unlabelled_at(problem),
            frontier={"values": {name: list(values) for name, values in self.values.items()}, "chosen": named},
        )
        return choose_setting(certificate.after(self.earlier_looks), choice)

    def _unlabelled_at(self, problem: Problem) -> dict[str, Any] | None:
        """What a certificate says of unlabelled examples, its limits with their chosen values."""
        if self.unlabelled is None:
            return None
        limits = [limit for limit in problem.limits if limit.proxy is not None]
        named = zip(self.unlabelled["limits"], limits, strict=True)
        return {**self.unlabelled, "limits": [{**found, "limit": str(limit)} for found, limit in named]}

    def guarantee(self) -> str:
        """What is guaranteed for everything on the frontier together, in one sentence."""
        delta, uses = delta_of_all(self.problem.delta, self.earlier_looks), 1 + len(self.earlier_looks)
        counted = f", counting {uses_in_words(uses)} of the same testing examples" if uses > 1 else ""
        if delta >= 1:
            return f"NO GUARANTEE: no confidence is left{counted}. Use new examples."
        return (
            f"With {confidence(delta)} confidence{counted}, every statement here that a setting keeps its limits is true, for "
            f"all {len(self.counts):,} combinations together: choose after looking."
        )

    def __repr__(self) -> str:
        held = sum(count > 0 for count in self.counts)
        varied = ", ".join(f"{name}: {len(values)} values" for name, values in self.values.items())
        return f"Frontier({varied}; something is certified for {held} of {len(self.counts)} combinations)"

    def _repr_html_(self) -> str:
        try:  # drawing sits above results, so it is loaded by name
            page = importlib.import_module("riskfront._reporting.decide_page")
            return str(page.in_notebook(self))
        except (MissingExtraError, ImportError):
            return notebook.card("Frontier", {"examples": self.n_test}, notebook.frame("Best settings", self.frame))

    def to_dict(self) -> dict[str, Any]:
        return {
            "schema": SCHEMA,
            "schema_version": SCHEMA_VERSION,
            "guarantee": self.guarantee(),
            "problem": self.problem.to_dict(),
            "values": {name: list(values) for name, values in self.values.items()},
            **{name: getattr(self, name) for name in _PLAIN},
            **{name: dict(getattr(self, name)) for name in _MAPPINGS},
            "path": to_columns(self.path),
            "measured": to_columns(self.measured),
            "counts": [int(count) for count in self.counts],
            "failures": {key: dict(one) for key, one in self.failures.items()},
            "explored": None if self.explored is None else to_columns(self.explored),
            "notes": list(self.notes),
            "source": None if self.source is None else dict(self.source),
            "earlier_looks": [use.to_dict() for use in self.earlier_looks],
            "intake": self.intake.to_dict(),
            "unlabelled": None if self.unlabelled is None else dict(self.unlabelled),
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Frontier:
        check_schema(data, SCHEMA, SCHEMA_VERSION, "a frontier", "frontiers")
        path = from_columns(data["path"])
        found = cls(
            problem=Problem.from_dict(data["problem"]),
            values=data["values"],
            **{name: data[name] for name in (*_PLAIN, *_MAPPINGS)},
            path=path.astype({"certified": bool, "chosen": "int64", COMBINATION: "int64"}),
            measured=from_columns(data["measured"]),
            counts=data["counts"],
            failures=data["failures"],
            explored=None if data["explored"] is None else from_columns(data["explored"]),
            notes=tuple(data["notes"]),
            source=data["source"],
            earlier_looks=tuple(UseOfTestSet(**use) for use in data["earlier_looks"]),
            intake=Intake(**data["intake"]),
            unlabelled=data.get("unlabelled"),
        )
        found._check(str(data["guarantee"]))
        return found

    def _check(self, guarantee: str) -> None:
        """An error if the parts of a file do not agree with each other."""
        combinations = len(list(self.grid.combinations()))
        chosen = set(self.path[COMBINATION]) | set(self.measured[COMBINATION])
        held = {place for place, count in enumerate(self.counts) if count > 0}
        agrees = chosen == held and guarantee == self.guarantee() and self.method not in NEVER_GUARANTEED
        if len(self.counts) != combinations or not agrees:
            raise InvalidInputError("a frontier must agree with itself; this file was changed after it was made.")

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write as JSON, with a digest of its content."""
        write_text(path, json.dumps(with_digest(self.to_dict()), allow_nan=False) + "\n")

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Frontier:
        """Read from JSON; an error if it is not what was written."""
        with reading("frontier", path):
            data = parse_json(Path(path).read_bytes())
            found = cls.from_dict(data)  # first: what contradicts itself is named
            without_digest(data)
            return found


def _of(frame: pd.DataFrame, combination: int) -> pd.DataFrame:
    return frame[frame[COMBINATION] == combination].drop(columns=COMBINATION).reset_index(drop=True)
