"""The exceptions of riskfront. Each is also the builtin a caller would expect.

RiskfrontError
├── InvalidInputError (ValueError)     something given to riskfront cannot be used
├── NotCertifiedError (LookupError)    a setting was asked for and none was certified
├── MissingExtraError (ImportError)    an optional dependency is not installed
└── StoreError (OSError)               a file or store cannot be read, written or continued

NotCertifiedWarning (UserWarning)      a calibration ended without a certified setting
"""


class RiskfrontError(Exception):
    """Root of all errors that riskfront raises on purpose."""


class InvalidInputError(RiskfrontError, ValueError):
    """Says what must hold, what was found and where, and what to do."""


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
    """Given by the ``fit`` of an estimator whose settings could not be certified; its ``predict`` raises NotCertifiedError."""
