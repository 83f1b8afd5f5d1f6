"""Certificate: the result. It holds plain values and data frames, knows nothing of plots, and can be recomputed."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from riskfront.calibration.looks import Look, delta_of_all
from riskfront.calibration.mixture import mixture_weights
from riskfront.errors import InvalidInputError, NotCertifiedError, StoreError
from riskfront.losses.values import plain
from riskfront.problems.limits import Limit
from riskfront.problems.problem import Problem
from riskfront.runtime.files import write_text

SCHEMA_VERSION = 1
#: methods that must never be shown as guaranteed, whatever a file says
NEVER_GUARANTEED = ("alpha-constrained", "alpha-delta-constrained")
_FLAGS = ["certified", "chosen"]


@dataclass(frozen=True, slots=True, eq=False)
class Certificate:
    """What was tested, what was certified, what was chosen, and how it was made.

    Attributes:
        problem: the limits, objectives and delta.
        method: name of the method.
        parameters: its parameters.
        guaranteed: False for the baselines that carry no guarantee.
        n_opt: examples that planned. n_test: examples that tested.
        seed: of the split; None when the parts were given.
        data_sha256: fingerprint of the table: SHA-256, or BLAKE3 with "blake3:" in front.
        version: of riskfront.
        setting_columns: setting name -> its column in the data frames.
        path: the whole testing path, one row a tested setting: the setting, the empirical value of each limit and objective
            on test data, p-values, the level, the arm that judged it ("path", the plan on test examples, or "net", the test of
            all settings on all examples; only those that it certified), and whether it was certified and chosen. Chosen
            rows are ranked from 1.
        bounds: one row for each chosen setting, limit and group: examples, empirical risk, an upper confidence bound (the
            strictest limit the setting would still have passed, at the level at which it was tested), limit and margin. Each
            bound is for its setting, limit and group alone; what holds for all of them together are the limits.
        loss_bounds: the declared range of each limited loss; a negative low end means that a signed mean is controlled.
        source: how the command line read the table, so that ``verify`` can read it in the same way; None elsewhere.
        explored: opt-data estimates of every setting; None when the method used no opt data.
        diagnosis: why nothing was certified and what would help; None when something was.
        earlier_looks: other questions that the same testing examples had answered before, as far as is known. To choose among
            their answers is not covered, unless their deltas count: then the verdict states what is left of the confidence.
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
    bounds: pd.DataFrame
    explored: pd.DataFrame | None
    diagnosis: Mapping[str, Any] | None
    loss_bounds: Mapping[str, Sequence[float]]
    source: Mapping[str, Any] | None = None
    earlier_looks: tuple[Look, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.path["certified"].any())

    @property
    def tested(self) -> pd.DataFrame:
        """The whole testing path with risks, p-values and verdicts."""
        return self.path.drop(columns="chosen")

    @property
    def certified(self) -> pd.DataFrame:
        """Every certified setting."""
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
        rows = self.chosen[list(self.setting_columns.values())].to_dict("records")
        return [dict(zip(self.setting_columns, map(plain, row.values()), strict=True)) for row in rows]

    def mixture(self, targets: Mapping[str, float]) -> pd.DataFrame:
        """The chosen settings with time-sharing weights that meet targets on free objectives, such as {"cost": 0.3}.

        Drawing a setting with these probabilities for each new example keeps every limit, with the same probability.
        """
        if not self:
            raise NotCertifiedError("there is no certified setting to mix.")
        chosen = self.chosen
        values = chosen[[objective.name for objective in self.problem.objectives]].to_numpy(dtype=float)
        return chosen.assign(weight=mixture_weights(self.problem, values, targets))

    def verdict(self) -> str:
        """The result in a sentence of plain words."""
        if not self:
            return "Nothing could be certified. " + (self.diagnosis["message"] if self.diagnosis else "")
        limits = _listed([_in_words(limit, self.loss_bounds.get(limit.loss)) for limit in self.problem.limits])
        if not self.guaranteed:
            return f"NO GUARANTEE: the method {self.method} only picked a setting that looks as if {limits}."
        return f"With {confidence(self.delta_of_all_looks)} confidence{self._counted()}, {limits}."

    @property
    def delta_of_all_looks(self) -> float:
        """delta, and that of every earlier look at the same testing examples that counts."""
        return delta_of_all(self.problem.delta, self.earlier_looks)

    def _counted(self) -> str:
        looks = 1 + sum(look.counts for look in self.earlier_looks)
        return f", counting all {looks} looks at the same testing examples" if looks > 1 else ""

    def __repr__(self) -> str:
        count = int(self.path["certified"].sum())
        best = f", best {self.config}" if self else ""
        if not self.guaranteed:
            return f"Certificate(NO GUARANTEE, {self.method}: {count} of {len(self.path)} settings accepted{best})"
        return f"Certificate({self.method}: {count} of {len(self.path)} tested settings certified{best})"

    def _repr_html_(self) -> str:
        from riskfront.runtime import notebook

        facts = {
            "method": self.method if self.guaranteed else f"{self.method} (NO GUARANTEE)",
            "tested": len(self.path),
            "certified": int(self.path["certified"].sum()),
            "examples": f"{self.n_opt:,} to plan, {self.n_test:,} to test",
        }
        if not self:
            return notebook.card("Nothing certified", facts, note=self.verdict())
        best = self.bounds[self.bounds["chosen"] == 1].drop(columns=["chosen", "p_value_used"])
        return notebook.card(
            "Certificate" if self.guaranteed else "No guarantee",
            facts,
            notebook.frame("Chosen, best first", self.chosen),
            notebook.frame("Limits at the best setting", best),
            note=self.verdict(),
        )

    def to_dict(self) -> dict[str, Any]:
        return {
            "schema": "riskfront.certificate",
            "schema_version": SCHEMA_VERSION,
            "verdict": self.verdict(),
            "config": self.config if self else None,
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
            "path": _to_columns(self.path),
            "bounds": _to_columns(self.bounds),
            "explored": None if self.explored is None else _to_columns(self.explored),
            "diagnosis": None if self.diagnosis is None else dict(self.diagnosis),
            "loss_bounds": {name: list(pair) for name, pair in self.loss_bounds.items()},
            "source": None if self.source is None else dict(self.source),
            "earlier_looks": [look.to_dict() for look in self.earlier_looks],
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Certificate:
        if not isinstance(data, Mapping) or data.get("schema") != "riskfront.certificate":
            raise InvalidInputError(
                "a certificate must be a JSON object with schema 'riskfront.certificate'; this is not one."
            )
        if data.get("schema_version") != SCHEMA_VERSION:
            raise InvalidInputError(
                f"this version reads certificates of schema version {SCHEMA_VERSION}; got {data.get('schema_version')!r}. "
                "Install the version of riskfront that wrote it."
            )
        certificate = cls(
            problem=Problem.from_dict(data["problem"]),
            path=_with_arm(_from_columns(data["path"]).astype({"certified": bool, "chosen": "int64"})),
            bounds=_from_columns(data["bounds"]),
            explored=None if data["explored"] is None else _from_columns(data["explored"]),
            **{
                name: data[name]
                for name in ("method", "parameters", "guaranteed", "n_opt", "n_test", "seed", "data_sha256", "version")
            },
            setting_columns=data["setting_columns"],
            diagnosis=data["diagnosis"],
            loss_bounds=data["loss_bounds"],
            source=data["source"],
            earlier_looks=tuple(Look(**look) for look in data.get("earlier_looks", ())),
        )
        honest = certificate.guaranteed and certificate.method not in NEVER_GUARANTEED
        again = certificate.to_dict() | {"guaranteed": honest}
        for name in ("config", "verdict", "guaranteed"):
            if again[name] != data[name]:
                raise InvalidInputError(
                    f"a certificate must agree with itself; its {name} says {data[name]!r}, but its testing path gives "
                    f"{again[name]!r}. It was changed after it was made."
                )
        return certificate

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write as JSON."""
        write_text(path, json.dumps(self.to_dict(), indent=1, allow_nan=False) + "\n")

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Certificate:
        """Read from JSON."""
        try:
            data = json.loads(Path(path).read_text(encoding="utf-8"))
        except OSError as error:
            raise StoreError(f"cannot read the certificate '{path}': {error.strerror}.") from error
        except ValueError:
            raise InvalidInputError(f"the certificate '{path}' must be JSON; it is not, or it was cut off.") from None
        try:
            return cls.from_dict(data)
        except (KeyError, TypeError, AttributeError) as error:
            raise InvalidInputError(f"the certificate '{path}' is incomplete or malformed: {error}.") from None


def _to_columns(frame: pd.DataFrame) -> dict[str, list[Any]]:
    """A data frame as lists of plain values; missing numbers become null."""
    return {
        str(name): [None if value != value else value for value in map(plain, frame[name].tolist())]
        for name in frame.columns
    }


def _with_arm(path: pd.DataFrame) -> pd.DataFrame:
    """Certificates that are older than the safety net do not say what certified a setting: it was the plan."""
    if "arm" not in path:
        path.insert(path.columns.get_loc("certified"), "arm", "path")  # type: ignore[arg-type]
    return path


def _from_columns(columns: Mapping[str, list[Any]]) -> pd.DataFrame:
    """The opposite of ``_to_columns``. A missing group stays None; a missing number becomes nan."""
    return pd.DataFrame({name: pd.Series(values, dtype=_kind(name, values)) for name, values in columns.items()})


def _kind(name: str, values: list[Any]) -> Any:
    """The type of a column with gaps: numbers, or anything else; None lets pandas see for itself."""
    if name == "group":
        return object
    return float if None in values and all(value is None or isinstance(value, float) for value in values) else None


def confidence(delta: float) -> str:
    """1 - delta in words, never rounded up to certainty."""
    percent = f"{100 * (1 - delta):.12g}"
    return f"{percent} %" if percent != "100" else f"1 - {delta:g}"


def _in_words(limit: Limit, bounds: Sequence[float] | None) -> str:
    side = "stays at or below" if limit.at_least is None else "stays at or above"
    share = bounds is not None and bounds[0] in (0, -1) and bounds[1] == 1 and limit.quantile is None
    value = f"{100 * limit.value:.10g} %" if share else f"{limit.value:.10g}"
    name = limit.loss if limit.quantile is None else f"the {limit.quantile:g}-quantile of {limit.loss}"
    name += " (signed)" if bounds is not None and bounds[0] < 0 and limit.quantile is None else ""
    name += f" in every {limit.per}" if limit.per else ""
    name += f" given {limit.given}" if limit.given else ""
    return f"{name} {side} {value}"


def _listed(parts: list[str]) -> str:
    return parts[0] if len(parts) == 1 else ", ".join(parts[:-1]) + " and " + parts[-1]
