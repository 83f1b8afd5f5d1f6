"""Whether a problem fits a table: its losses, groups and conditions are there, and mean what its limits need."""

from __future__ import annotations

from riskfront._data.table import LossTable
from riskfront._problems import proxies
from riskfront._problems.limits import Limit
from riskfront._problems.problem import Problem
from riskfront.errors import InvalidInputError


def check_fit(problem: Problem, table: LossTable) -> None:
    """Raise a clear error if a problem does not fit a table."""
    for loss in (loss for limit in problem.limits for loss in limit.term.losses):
        if table.belongs_to_settings(loss):
            raise InvalidInputError(
                f"a limit must be on a loss; '{loss}' is a column of the settings, which needs no test. "
                "Keep only the settings you want, with where= or --where, or make it an objective."
            )
    for limit in problem.limits:
        if limit.drop_from is not None:
            table.reference(limit.drop_from)
        if table.clusters is not None:
            _check_means(limit, table.clusters)
        proxies.check_batches(limit, table.loss_names)
        _check_failures(limit, table)
        if limit.quantile is None and all(loss in table.loss_names for loss in limit.term.losses):
            for loss in limit.term.losses:
                table.bounds(loss)  # an error before anything is tested
    own = [o.loss for o in problem.objectives if table.belongs_to_settings(o.loss)]
    problem.check_names([*table.loss_names, *own], table.group_names)


def _check_failures(limit: Limit, table: LossTable) -> None:
    """Failed calls must have been recorded as the worst for this limit, not as the best."""
    recorded = table.failures.get(limit.loss)
    if recorded is None:
        return
    low, high = table.observed_range(limit.loss)
    large_is_bad = (limit.at_least is None) is (limit.drop_from is None)
    if recorded < high if large_is_bad else recorded > low:
        raise InvalidInputError(
            f"calls that failed were recorded with '{limit.loss}' = {recorded:g}, which is not the worst for '{limit}'. Import "
            "the logs again and name the worst: read_runs(..., worst=), or riskfront import ... --worst."
        )


def _check_means(limit: Limit, clusters: str) -> None:
    """A quantile of means, or a mean of the worst of them, is not that of the rows: averages hide the extremes."""
    if limit.quantile is not None:
        raise InvalidInputError(
            f"rows of one {clusters} are averaged, and a quantile of averages is not one of rows; got '{limit}'. Limit a 0/1 "
            f"column that says whether '{limit.loss}' is above {limit.value:.10g}, at most {limit.compared_with:.10g}; "
            f"or average the rows yourself, one row a {clusters}, if you mean the averages."
        )
    if limit.worst is not None:
        raise InvalidInputError(
            f"rows of one {clusters} are averaged, which hides the worst of them; got '{limit}'. Keep one row of each "
            f"{clusters}; or average the rows yourself, if you mean the averages."
        )
