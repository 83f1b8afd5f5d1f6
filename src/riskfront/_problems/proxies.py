"""Limits that a proxy helps to test: what they may ask for, and the columns that a table must have for them.

A table that was given unlabelled examples has for every proxy a second column: the mean proxy over the batch of unlabelled
examples that belongs to each labelled one. A limit in groups, or under a condition, needs batches of the same kind, so they
have a column of their own.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from riskfront._problems.targets import asked_for
from riskfront._support.values import known
from riskfront.errors import InvalidInputError

if TYPE_CHECKING:
    from riskfront._problems.limits import Limit


def check(limit: Limit) -> None:
    """Raise a clear error if a limit names a proxy where no valid test is known."""
    if limit.proxy is None:
        if limit.proxy_weight is not None:
            raise InvalidInputError("proxy_weight belongs to a limit with a proxy; this one has none.")
        return
    if not isinstance(limit.proxy, str) or not limit.proxy.strip() or limit.proxy == limit.loss:
        raise InvalidInputError(
            f"proxy must name another loss than '{limit.loss}', one that is known without labels; got {limit.proxy!r}."
        )
    asked = asked_for(limit, "quantile", "over", "gap_per", "worst", "weights", "padded")
    if asked:
        raise InvalidInputError(
            f"a proxy helps with limits on a mean, in groups, under a condition or as a drop; '{limit.loss}' asks for "
            f"{', '.join(asked)}, for which no valid test with a proxy is built. Leave the proxy out."
        )
    if limit.p_value not in ("auto", "betting"):
        raise InvalidInputError(
            f"a limit with a proxy is tested by betting; use p_value='auto' or 'betting'; got '{limit.p_value}'."
        )


def columns_of(limit: Limit) -> tuple[str, str]:
    """The column of the proxy, and that of its means over batches of unlabelled examples."""
    return str(limit.proxy), batch_column(str(limit.proxy), limit.per, limit.given)


def batch_column(proxy: str, per: str | None = None, given: str | None = None) -> str:
    """What the means of a proxy over batches are called in a table."""
    kind = (f" per {per}" if per else "") + (f" given {given}" if given else "")
    return f"{proxy} (unlabelled{kind})"


def check_batches(limit: Limit, losses: Sequence[str]) -> None:
    """Raise a clear error if a table lacks what a limit with a proxy needs."""
    if limit.proxy is None:
        return
    known(limit.proxy, losses, "proxy")
    if columns_of(limit)[1] not in losses:
        raise InvalidInputError(
            f"the limit '{limit}' names a proxy, which needs unlabelled examples; got none. Give them: "
            "calibrate(..., unlabelled=...), or --unlabelled FILE. Without any, leave the proxy out."
        )
