"""What is declared before outcomes are seen: how rare false alarms are, and what an outcome without a label counts as."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from riskfront._calibration.certificates.certificate import Certificate
from riskfront._problems.problem import Problem
from riskfront._support.values import is_number, known, whole_number
from riskfront.errors import InvalidInputError

KINDS = ("no-false-alarm", "run-length")


@dataclass(frozen=True, slots=True)
class Promise:
    """kind: "no-false-alarm", never with probability 1 - delta, or "run-length", after ``run_length`` outcomes on average."""

    kind: str
    delta: float
    run_length: int

    def __post_init__(self) -> None:
        check_delta("delta", self.delta)
        known(self.kind, KINDS, "promise")
        object.__setattr__(self, "delta", float(self.delta))
        object.__setattr__(self, "run_length", whole_number("run_length", self.run_length, 2))

    @property
    def weighted(self) -> bool:
        """Whether the weights of all starts add up to 1."""
        return self.kind == "no-false-alarm"

    def threshold(self, watches: int, limits: int) -> float:
        """The evidence at which an alarm is raised.

        delta is divided among all that is watched. For the run length, each outcome adds 1 to the mean evidence of at most
        one group of each limit, so that the evidence of all together has the mean ``limits`` times the number of outcomes.
        """
        return watches / self.delta if self.weighted else float(self.run_length * limits)

    def to_dict(self) -> dict[str, Any]:
        return {"kind": self.kind, "delta": self.delta, "run_length": self.run_length}


def check_delta(name: str, value: Any) -> None:
    if not is_number(value) or not 0 < value < 1:
        raise InvalidInputError(f"{name} must lie in (0, 1); got {value!r}.")


MISSING = ("worst", "leave-out")


@dataclass(frozen=True, slots=True)
class Rules:
    """missing: "worst" or "leave-out". audit: the share of outcomes that get a label at random; for all limited losses, or
    column -> share. audit_column: a column that holds the probability with which an audited outcome was audited.
    least_audit: the smallest such probability."""

    missing: str = "worst"
    audit: float | Mapping[str, float] | None = None
    audit_column: str | None = None
    least_audit: float | None = None

    def __post_init__(self) -> None:
        known(self.missing, MISSING, "rule for missing outcomes")
        given = self.audit
        for rate in given.values() if isinstance(given, Mapping) else [] if given is None else [given]:
            _check_probability("audit", rate)
        if (self.audit_column is None) != (self.least_audit is None):
            raise InvalidInputError(
                "audit_column and least_audit, the smallest probability in that column, must be given together; got "
                f"audit_column={self.audit_column!r}, least_audit={self.least_audit!r}."
            )
        if self.least_audit is not None:
            _check_probability("least_audit", self.least_audit)
            if given is not None:
                raise InvalidInputError(
                    "give audit, one rate for all outcomes, or audit_column, one for each; not both."
                )

    @property
    def audits(self) -> bool:
        return self.audit is not None or self.audit_column is not None

    def rate_of(self, column: str, *, is_reference: bool = False) -> float | None:
        """The share of outcomes in which this column is known by design; None where it should always be known."""
        if isinstance(self.audit, Mapping):
            return self.audit.get(column)
        if is_reference and self.audit is None:
            return None
        return float(self.audit) if self.audit is not None else self.least_audit

    def to_dict(self) -> dict[str, Any]:
        audit = dict(self.audit) if isinstance(self.audit, Mapping) else self.audit
        return {
            "missing": self.missing,
            "audit": audit,
            "audit_column": self.audit_column,
            "least_audit": self.least_audit,
        }


def _check_probability(name: str, value: Any) -> None:
    if not is_number(value) or not 0 < value <= 1:
        raise InvalidInputError(f"{name} must be a probability in (0, 1]; got {value!r}.")


def chosen_limits(problem: Problem, limits: Sequence[Any] | None) -> Problem:
    """The problem with those limits only; with all of them where none is named."""
    if limits is None:
        return problem
    texts = [str(limit) for limit in problem.limits]
    wanted = [known(str(limit), texts, "limit") for limit in limits]
    return problem.with_limits([limit for limit, text in zip(problem.limits, texts, strict=True) if text in wanted])


def notes_on(certificate: Certificate, problem: Problem) -> list[str]:
    """Sentences on what an outcome must be, and what its limits do not say."""
    found = []
    if not certificate.guaranteed:
        found.append(
            f"The setting carries no guarantee ({certificate.method}): a limit may have been broken from the start."
        )
    if certificate.clusters is not None:
        found.append(f"An outcome must be the mean over one {certificate.clusters}: this is what was certified.")
    for limit in problem.limits:
        if limit.weights is not None:
            found.append(f"'{limit}' is watched without weights, on outcomes as they come now.")
    return found
