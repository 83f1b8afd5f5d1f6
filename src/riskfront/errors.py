"""The exceptions of riskfront. Each is also the builtin a caller would expect.

RiskfrontError
├── InvalidInputError (ValueError)     something given to riskfront cannot be used
│   ├── EvaluationError                the user's function failed, or returned something that is no loss
│   └── SpentExamplesError             testing examples were used for another question already
├── NotCertifiedError (LookupError)    a setting was asked for and none was certified
├── MissingExtraError (ImportError)    an optional dependency is not installed
└── StoreError (OSError)               a file or store cannot be read, written or continued

NotCertifiedWarning (UserWarning)      a calibration ended without a certified setting or without confidence, or must
DependentRowsWarning (UserWarning)     neighbouring rows are alike, so that they are no independent draws
LeftOutWarning (UserWarning)           outcomes of a file are missing: they count as the worst, or were left out
"""

from collections.abc import Mapping
from typing import Any


class RiskfrontError(Exception):
    """Root of all errors that riskfront raises on purpose."""


class InvalidInputError(RiskfrontError, ValueError):
    """Says what must hold, what was found and where, and what to do.

    Examples:
        >>> import riskfront as rf
        >>> rf.Limit("error", at_most=0.05, quantile=1.2)
        Traceback (most recent call last):
            ...
        riskfront.errors.InvalidInputError: quantile must lie in (0, 1); got 1.2.
    """


class EvaluationError(InvalidInputError):
    """The user's function failed at a setting.

    Attributes:
        problem: what went wrong and where, without advice on how to go on.
        config: the setting.
        n_evaluated: how many settings were evaluated before.
        evaluated: a table of them, if they are not in a store.
        in_store: whether they are.
        can_skip: whether the failure could have been counted as the worst outcome instead.
    """

    def __init__(self, problem: str, config: Mapping[str, Any], advice: str = "") -> None:
        super().__init__(f"{problem} {advice}".strip())
        self.problem = problem
        self.config = dict(config)
        self.n_evaluated = 0
        self.evaluated: Any = None
        self.in_store = False
        self.can_skip = False


class SpentExamplesError(InvalidInputError):
    """Testing examples were already used for another question."""


class NotCertifiedError(RiskfrontError, LookupError):
    """Raised when a setting is asked of a certificate that has none. Abstaining is a result; using it is the error."""


class MissingExtraError(RiskfrontError, ImportError):
    """Names the extra to install."""

    def __init__(self, package: str, extra: str) -> None:
        super().__init__(
            f"{package} is needed here and is not installed. Install it with: pip install 'riskfront[{extra}]'"
        )


class StoreError(RiskfrontError, OSError):
    """A file or store that cannot be read, written or continued."""


class NotCertifiedWarning(UserWarning):
    """Says that nothing was certified (``fit`` of an estimator, whose ``predict`` then raises NotCertifiedError), that earlier
    questions to the same rows leave ``fit`` no confidence, or, before anything is tested, that nothing can be certified: a
    group has too few examples for a limit."""


class DependentRowsWarning(UserWarning):
    """Given by the ``fit`` of an estimator whose neighbouring rows are clearly alike: no independent draws."""


class LeftOutWarning(UserWarning):
    """Says which settings or examples lack outcomes, and what became of them."""
