"""Certificate: the result. It holds plain values and data frames, knows nothing of plots, and can be recomputed."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pandas as pd

from riskfront._calibration.certificates.choice import mixture_weights
from riskfront._calibration.certificates.uses_of_test_set import UseOfTestSet, delta_of_all
from riskfront._calibration.certificates.verdict import certified_sentences, no_confidence, picked_sentences
from riskfront._data.intake import Intake
from riskfront._problems.problem import Problem
from riskfront._support.checked_json import parse_json, reading, with_digest, without_digest
from riskfront._support.files import write_text
from riskfront._support.values import from_columns, plain, to_columns
from riskfront._support.version import __version__
from riskfront.errors import InvalidInputError, NotCertifiedError

#: methods that must never be shown as guaranteed, whatever a file says
NEVER_GUARANTEED = ("alpha-constrained", "alpha-delta-constrained")
_FLAGS = ["certified", "chosen"]


def configs_in(frame: pd.DataFrame, setting_columns: Mapping[str, str]) -> list[dict[str, Any]]:
    """The settings in the rows of a frame, as plain values."""
    rows = frame[list(setting_columns.values())].itertuples(index=False, name=None)
    return [dict(zip(setting_columns, map(plain, row), strict=True)) for row in rows]


def chosen_configs(path: pd.DataFrame, setting_columns: Mapping[str, str]) -> list[dict[str, Any]]:
    """The chosen settings of a testing path, best first."""
    return configs_in(path[path["chosen"] > 0].sort_values("chosen"), setting_columns)


@dataclass(frozen=True, slots=True, eq=False)
class Certificate:
    """What was tested, what was certified, what was chosen, and how it was made.

    Attributes:
        problem: the limits, objectives and delta.
        method: name of the method.
        parameters: its parameters.
        guaranteed: False for the baselines that carry no guarantee, and where earlier uses of the testing examples leave no
            confidence.
        n_opt: number of planning examples. n_test: number of testing examples.
        seed: of the split; None when the parts were given.
        data_sha256: fingerprint of the table: SHA-256, or BLAKE3 with "blake3:" in front.
        version: of riskfront.
        setting_columns: setting name -> its column in the data frames.
        path: the whole testing path, one row a tested setting: the setting, what was measured for each limit and objective
            on the testing examples, p-values, the share of delta it was tested at, which test judged it ("path", the plan on
            testing examples, or "holm", the fallback test on all examples: only those that it certified), and whether it was
            certified and chosen. Chosen rows are ranked from 1.
        measured: one row for each chosen setting, limit and group: how many testing examples speak of it, their mean, the
            number it compares with, the p-value, and the share of delta it was tested at. What holds on new examples is the
            limit, for all certified settings together; a bound for the chosen setting alone would ignore that it was chosen.
        groups: group -> its values, for limits that hold in each group. No other value is covered.
        loss_bounds: the declared range of each limited loss; a negative low end means that a signed mean is controlled.
        source: how the command line read the table, so that ``verify`` can read it in the same way; None elsewhere.
        split_by: what shuffled the examples besides the seed: "contents", their content; "drawn ...", a draw from the operating
            system, where examples hold too little, or a digest of an estimator's X and y; "positions", nothing else.
        choice: the rule that says which of the chosen settings comes first; "" for the order of the objectives.
        notes: sentences on what the guarantee speaks of, where that is not every new example: what was left out of the data.
        near_misses: the best setting that was tested and failed although it measures within the limits, if it would have been
            chosen: which limit stopped it, and about how many testing examples would do. None where it was not looked for.
        thresholds: limit -> the threshold that the planning examples chose for it, for limits on the worst cases.
        clusters: the group over whose rows each example is a mean, such as "patient"; None where examples are rows.
        example_fingerprints: for each chosen setting a few contents of the examples, by which ``check`` knows them again.
        unlabelled: which unlabelled examples helped to test limits with proxies: how many there are, how many were used, their
            fingerprint, and for each such limit the share of the variance of its labels that the proxy left on the planning
            examples at the best setting (1: it brought nothing). None where no limit names a proxy.
        frontier: the frontier that this was chosen from: the values of its limits, which all hold together, and those that were
            chosen; None where the limits were fixed beforehand. The path then holds the chosen settings alone.
        intake: what became of every row: rows read = used + counted as the worst + left out for a declared reason.
        evaluations: of a sequential test, how many outcomes of a setting on an example were paid for ("made": on "planning" and
            on "testing" examples), and how many a table of all settings on all examples has ("full"); with a price also what
            was "spent" of what "full table" costs. None for a test of a whole table.
        explored: means of every setting on the planning examples; None when the method used none.
        diagnosis: why nothing was certified and what would help; None when something was.
        earlier_looks: earlier uses of the same testing examples, as far as is known: other questions that they had answered
            before. Their deltas count, and the verdict states the confidence that is left. Where none is left, there is no
            guarantee.

    Examples:
        >>> import riskfront as rf
        >>> table = rf.LossTable([{"k": 0}], {"error": [[0] * 300], "cost": [[1] * 300]})
        >>> certificate = rf.calibrate(table, rf.Problem("error <= 0.1", minimize="cost"))
        >>> bool(certificate), certificate.config, certificate.n_opt + certificate.n_test
        (True, {'k': 0}, 300)
    """

    problem: Problem
    method: str
    parameters: Mapping[str, Any]
    guaranteed: bool
    n_opt: int
    n_test: int
    seed: int | None
    data_sha256: str
    version: str
    setting_columns: Mapping[str, str]
    path: pd.DataFrame
    measured: pd.DataFrame
    groups: Mapping[str, Sequence[Any]]
    explored: pd.DataFrame | None
    diagnosis: Mapping[str, Any] | None
    loss_bounds: Mapping[str, Sequence[float]]
    source: Mapping[str, Any] | None = None
    earlier_looks: tuple[UseOfTestSet, ...] = ()
    notes: Sequence[str] = ()
    choice: str = ""
    split_by: str = "contents"
    near_misses: Sequence[Mapping[str, Any]] | None = None
    thresholds: Mapping[str, float] = field(default_factory=dict)
    clusters: str | None = None
    example_fingerprints: Mapping[str, Any] = field(default_factory=dict)
    unlabelled: Mapping[str, Any] | None = None
    intake: Intake = field(default_factory=lambda: Intake.whole(0))
    evaluations: Mapping[str, Any] | None = None
    frontier: Mapping[str, Any] | None = None

    def __bool__(self) -> bool:
        return bool(self.path["certified"].any())

    @property
    def tested(self) -> pd.DataFrame:
        """The whole testing path: every tested setting with measured values, p-values, and whether it was certified.

        A method without a guarantee certifies nothing: its column says ``picked`` instead of ``certified``.
        """
        return self._said(self.path).drop(columns="chosen")

    @property
    def certified(self) -> pd.DataFrame:
        """Every certified setting; without a guarantee, every setting that the method would have picked from."""
        return self.path[self.path["certified"]].drop(columns=_FLAGS)

    @property
    def chosen(self) -> pd.DataFrame:
        """The certified settings that are best in the free objectives, best first; one row when there is one objective."""
        ranked = self.path[self.path["chosen"] > 0].sort_values("chosen")
        return ranked.drop(columns=_FLAGS)

    @property
    def config(self) -> dict[str, Any]:
        """The best setting. Raises NotCertifiedError when there is none."""
        return self.configs[0]

    @property
    def configs(self) -> list[dict[str, Any]]:
        """The chosen settings, best first. Raises NotCertifiedError when there is none."""
        if not self:
            reason = self.diagnosis["message"] if self.diagnosis else "No setting was certified."
            raise NotCertifiedError(f"there is no certified setting to use. {reason}")
        return chosen_configs(self.path, self.setting_columns)

    @property
    def searched(self) -> list[dict[str, Any]] | None:
        """The settings that were planned over, in their order, which breaks ties; None without planning examples."""
        return None if self.explored is None else configs_in(self.explored, self.setting_columns)

    def mixture(self, targets: Mapping[str, float]) -> pd.DataFrame:
        """The chosen settings with time-sharing weights that meet targets on free objectives, such as {"cost": 0.3}.

        Drawing a setting with these probabilities for each new example keeps every limit, with the same probability.
        """
        if not self:
            raise NotCertifiedError("there is no certified setting to mix.")
        if self.intake.known:
            raise InvalidInputError(
                f"mixtures need objectives that are known for every example; '{next(iter(self.intake.known))}' is missing for "
                "some, and a mean over what is known does not mix with the weights."
            )
        chosen = self.chosen
        values = chosen[[objective.name for objective in self.problem.objectives]].to_numpy(dtype=float)
        return chosen.assign(weight=mixture_weights(self.problem, values, targets))

    def verdict(self) -> str:
        """The result in plain words."""
        return " ".join(self.sentences()).strip()

    def sentences(self) -> list[str]:
        """The verdict, one sentence a time."""
        if not self:
            return ["Nothing could be certified.", self.diagnosis["message"] if self.diagnosis else ""]
        uses = 1 + len(self.earlier_looks)
        if self.is_used_up:
            return no_confidence(uses, self.problem, self.loss_bounds, self.groups)
        if not self.guaranteed:
            return picked_sentences(self.method, self.problem, self.loss_bounds, self.groups)
        return certified_sentences(self.problem, self.loss_bounds, self.groups, self.delta_of_all_looks, uses)

    def after(self, earlier: Sequence[UseOfTestSet]) -> Certificate:
        """The same after earlier uses of the testing examples; where these leave no confidence, there is no guarantee."""
        left = delta_of_all(self.problem.delta, earlier) < 1
        return replace(self, earlier_looks=tuple(earlier), guaranteed=self.guaranteed and left)

    @property
    def is_used_up(self) -> bool:
        """Whether earlier uses of the testing examples leave no confidence to a method that has a guarantee."""
        return self.delta_of_all_looks >= 1 and self.method not in NEVER_GUARANTEED

    @property
    def delta_of_all_looks(self) -> float:
        """The sum of delta and of those of all earlier uses of the same testing examples, at most 1."""
        return delta_of_all(self.problem.delta, self.earlier_looks)

    def __repr__(self) -> str:
        count = int(self.path["certified"].sum())
        best = f", best {self.config}" if self else ""
        if not self.guaranteed:
            return f"Certificate(NO GUARANTEE, {self.method}: {count} of {len(self.path)} settings picked from{best})"
        if self.frontier is not None:  # the path holds the chosen settings alone
            return f"Certificate({self.method}, {'chosen from a frontier' if self else 'nothing certified'}{best})"
        return f"Certificate({self.method}: {count} of {len(self.path)} tested settings certified{best})"

    def _repr_html_(self) -> str:
        from riskfront._support import notebook

        facts = {
            "method": self.method if self.guaranteed else f"{self.method} (NO GUARANTEE)",
            "tested": len(self.path),
            self._flag: int(self.path["certified"].sum()),
            "examples": f"{self.n_opt:,} planning, {self.n_test:,} testing",
        }
        if not self:
            return notebook.card("Nothing certified", facts, note=self.verdict())
        best = self.measured[self.measured["chosen"] == 1].drop(columns=["chosen", "compared_with", "test"])
        return notebook.card(
            "Certificate" if self.guaranteed else "No guarantee",
            facts,
            notebook.frame("Chosen, best first", self.chosen),
            notebook.frame("Measured on the testing examples for the best setting; what holds is the limit", best),
            note=self.verdict(),
        )

    def to_dict(self) -> dict[str, Any]:
        return {
            "schema": SCHEMA,
            "schema_version": SCHEMA_VERSION,
            "verdict": self.verdict(),
            "config": self._best(),
            "problem": self.problem.to_dict(),
            "method": self.method,
            "parameters": dict(self.parameters),
            "guaranteed": self.guaranteed,
            "n_opt": self.n_opt,
            "n_test": self.n_test,
            "seed": self.seed,
            "data_sha256": self.data_sha256,
            "version": self.version,
            "setting_columns": dict(self.setting_columns),
            "groups": {name: list(values) for name, values in self.groups.items()},
            "path": to_columns(self._said(self.path)),
            "measured": to_columns(self.measured),
            "explored": None if self.explored is None else to_columns(self.explored),
            "diagnosis": None if self.diagnosis is None else dict(self.diagnosis),
            "loss_bounds": {name: list(pair) for name, pair in self.loss_bounds.items()},
            "source": None if self.source is None else dict(self.source),
            "earlier_looks": [use.to_dict() for use in self.earlier_looks],
            "notes": list(self.notes),
            "choice": self.choice,
            "split_by": self.split_by,
            "near_misses": None if self.near_misses is None else [dict(found) for found in self.near_misses],
            "thresholds": dict(self.thresholds),
            "clusters": self.clusters,
            "example_fingerprints": dict(self.example_fingerprints),
            "unlabelled": None if self.unlabelled is None else dict(self.unlabelled),
            "intake": self.intake.to_dict(),
            "evaluations": None if self.evaluations is None else dict(self.evaluations),
            "frontier": None if self.frontier is None else dict(self.frontier),
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Certificate:
        check_schema(data)
        certificate = cls._of(data)
        honest = certificate.guaranteed and certificate.method not in NEVER_GUARANTEED and not certificate.is_used_up
        own: dict[str, Any] = {"config": certificate._best(), "guaranteed": honest}
        if certificate.version == __version__:  # another version may say the same in other words
            own["verdict"] = certificate.verdict()
        for name, again in own.items():
            if again != (data[name].strip() if name == "verdict" else data[name]):
                raise InvalidInputError(
                    f"a certificate must agree with itself; its {name} says {data[name]!r}, but its testing path gives "
                    f"{again!r}. It was changed after it was made."
                )
        return certificate

    @classmethod
    def _of(cls, data: Mapping[str, Any]) -> Certificate:
        path = from_columns(data["path"])
        if "certified" not in path:
            path = path.rename(columns={"picked": "certified"})
        return cls(
            problem=Problem.from_dict(data["problem"]),
            path=path.astype({"certified": bool, "chosen": "int64"}),
            measured=from_columns(data["measured"]),
            explored=None if data["explored"] is None else from_columns(data["explored"]),
            **{name: data[name] for name in _AS_WRITTEN},
            earlier_looks=tuple(UseOfTestSet(**use) for use in data["earlier_looks"]),
            notes=tuple(data["notes"]),
            intake=Intake(**data["intake"]),
            evaluations=data.get("evaluations"),
            frontier=data.get("frontier"),
        )

    @property
    def _flag(self) -> str:
        """What a setting that passed is called: nothing is certified without a guarantee."""
        return "certified" if self.guaranteed else "picked"

    def _said(self, path: pd.DataFrame) -> pd.DataFrame:
        return path.rename(columns={"certified": self._flag})

    def _best(self) -> dict[str, Any] | None:
        return self.config if self else None

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write as JSON, with a digest of its content."""
        write_text(path, json.dumps(with_digest(self.to_dict()), indent=1, allow_nan=False) + "\n")

    @classmethod
    def load(cls, path: str | os.PathLike[str], *, check_digest: bool = True) -> Certificate:
        """Read from JSON; an error if it is not what was written. ``verify`` needs no digest: it recomputes everything."""
        with reading("certificate", path):
            data = parse_json(Path(path).read_bytes())
            found = cls.from_dict(data)  # first: what contradicts itself is named
            if check_digest:
                without_digest(data, required=False)
            return found


SCHEMA, SCHEMA_VERSION = "riskfront.certificate", 3
#: fields that stand in a file as they are
_AS_WRITTEN = (
    *("method", "parameters", "guaranteed", "n_opt", "n_test", "seed", "data_sha256", "version", "setting_columns"),
    *("groups", "diagnosis", "loss_bounds", "source", "choice", "split_by", "near_misses", "thresholds", "clusters"),
    *("example_fingerprints", "unlabelled"),
)
_OBJECTS = ("diagnosis", "source", "unlabelled", "frontier", "evaluations")  # or null


def check_schema(data: Mapping[str, Any]) -> None:
    """An error if this is no certificate, or one that this version does not read."""
    if not isinstance(data, Mapping) or data.get("schema") != SCHEMA:
        of_frontier = isinstance(data, Mapping) and data.get("schema") == "riskfront.frontier"
        what = "it is a frontier. Take one from it by riskfront choose" if of_frontier else "this is not one"
        raise InvalidInputError(f"a certificate must be a JSON object with schema '{SCHEMA}'; {what}.")
    version = data.get("schema_version")
    if version != SCHEMA_VERSION:
        raise InvalidInputError(
            f"this version reads certificates of schema version {SCHEMA_VERSION}; got {version!r}. Make it anew from its data, "
            "or use the version of riskfront that wrote it."
        )
    for name in _OBJECTS:
        if not isinstance(data.get(name), Mapping | None):
            raise InvalidInputError(f"the {name} of a certificate must be an object or null; got {data[name]!r}.")
