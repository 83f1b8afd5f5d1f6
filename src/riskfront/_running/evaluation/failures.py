"""Settings at which the user's function failed: what is said about them, and where everything else is."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial

from riskfront._data.stores.loss_store import LossStore
from riskfront._problems.spaces.space import Config
from riskfront._running.evaluation.outcome import Failure
from riskfront._running.evaluation.result_rows import MemoryRows, RowsOf
from riskfront._running.evaluation.retries import TRIES, WorkersLostError
from riskfront.errors import EvaluationError

Failures = dict[str, tuple[Config, Failure]]  # by the name of the setting
SKIP_HINT = ", or go on with on_error='skip', which counts a failure as the worst outcome of its setting and example"


def with_evaluated(error_of: Callable[[str], EvaluationError], rows: RowsOf, hint: str) -> EvaluationError:
    """The error with what was evaluated before, and with a sentence that says where that is."""
    stored = isinstance(rows, LossStore)
    if stored:
        kept = f"The {len(rows)} settings evaluated before are in the store: correct it and run again to go on"
    else:
        kept = f"The {len(rows)} settings evaluated before are in this error's 'evaluated'"
    error = error_of(f"{kept}{hint}.")
    error.n_evaluated, error.in_store, error.can_skip = len(rows), stored, bool(hint)
    if isinstance(rows, MemoryRows) and len(rows):
        error.evaluated = rows.table(rows.configs)
    return error


def lost_workers(lost: WorkersLostError, configs: Sequence[Config], rows: RowsOf) -> EvaluationError:
    if lost.position is None:
        problem = f"workers must be there; in {TRIES} tries they were not ({lost.reason}). Look at the cluster."
        return with_evaluated(partial(EvaluationError, problem, {}), rows, "")
    config = configs[lost.position]
    problem = (
        f"workers must live until a setting is evaluated; they were lost ({lost.reason}) in all of {TRIES} tries of the "
        f"setting {config}, in the last with no other setting beside it."
    )
    if lost.healthy:
        problem += " They do other things: this setting ends its process, or needs more memory than there is."
    else:
        problem += (
            " They could not be reached afterwards: look at the cluster; nothing says that the setting is to blame."
        )
    return with_evaluated(partial(EvaluationError, problem, config), rows, "")


def warn_of(failures: Failures, total: int) -> None:
    """Say that outcomes are missing."""
    config, failure = next(iter(failures.values()))
    warnings.warn(
        f"the losses function failed at {len(failures)} of {total} settings, on some examples or on all. Those outcomes are "
        f"missing, and calibrate counts each as the worst there can be; the first: {failure.reason}, at the setting {config}.",
        stacklevel=3,
    )


def all_failed(failures: Failures) -> EvaluationError:
    """The error if no setting has any outcome."""
    config, failure = next(iter(failures.values()))
    reason = f"All {len(failures)} settings failed on every example, the first so: {failure.reason}"
    return replace(failure, reason=reason).error(config, "")
