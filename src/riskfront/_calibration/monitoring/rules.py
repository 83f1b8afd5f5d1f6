"""What counts when an outcome has no label: declared before outcomes are seen, and kept in the state."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from riskfront._support.values import is_number, known
from riskfront.errors import InvalidInputError

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
                "audit_column needs least_audit, the smallest probability in it, and the other way round; got "
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
