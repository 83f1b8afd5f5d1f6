"""frontier: the best certified settings for a whole list of limits."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd

from riskfront.calibration.calibration import path_frame, setting_columns
from riskfront.calibration.decision import Decision, decide
from riskfront.calibration.simultaneous import decide_together
from riskfront.certificates.looks import ASKED, Look
from riskfront.errors import InvalidInputError
from riskfront.evidence.evidence import Evidence
from riskfront.evidence.unlabelled import with_unlabelled
from riskfront.evidence.worst_cases import with_thresholds
from riskfront.losses.contents import refuse_repeats
from riskfront.methods import Method, make_method, parameters, settled
from riskfront.problems.problem import Problem
from riskfront.reading.sources import Bounds, Data, as_table, as_unlabelled

#: where a frame says that its rows hold together
TOGETHER = "simultaneous"


def frontier(
    table: Data,
    problem: Problem,
    alphas: Sequence[float | Sequence[float]],
    *,
    method: str | Method = "pareto-testing",
    seed: int = 0,
    bounds: Bounds | None = None,
    clusters: str | None = None,
    simultaneous: bool = False,
    unlabelled: Data | None = None,
) -> pd.DataFrame:
    """The calibrated Pareto frontier: the chosen settings for a whole list of alphas, as one data frame.

    Each alpha goes to the first limit (a tuple: one for each limit). All share one split and its sums. The guarantee holds
    for an alpha that was fixed before looking; choosing an alpha from the outcome is not covered, unless they are
    ``simultaneous``.

    Args:
        table: as for ``calibrate``, and so are ``method``, ``seed``, ``bounds`` and ``clusters``.
        problem: limits, objectives and delta.
        alphas: numbers for the first limit, or tuples with one for each limit.
        simultaneous: all rows hold together with probability at least 1 - delta, so that alpha may be chosen after looking.
            Alphas then share delta, and what keeps a tight limit keeps the looser ones (``calibration/simultaneous.py`` has the
            proof): each row may be a little worse than by itself. Not worth it for an alpha that is known beforehand.
            For methods that test in a sequence, and bonferroni.
        unlabelled: as for ``calibrate``.

    Examples:
        >>> import numpy as np
        >>> import riskfront as rf
        >>> random = np.random.default_rng(0)
        >>> error = random.random((30, 2000)) < np.linspace(0.01, 0.3, 30)[:, None]
        >>> cost = np.linspace(1, 0, 30)[:, None] + 0.01 * random.random((30, 2000))
        >>> table = rf.LossTable([{"k": k} for k in range(30)], {"error": error, "cost": cost})
        >>> found = rf.frontier(table, rf.Problem("error <= 0.1", minimize="cost"), [0.05, 0.1, 0.2], simultaneous=True)
        >>> bool(found["cost"].is_monotonic_decreasing)
        True
    """
    if len(alphas) == 0:
        raise InvalidInputError("a frontier must have at least one alpha; got none.")
    table = as_table(table, problem, bounds, clusters)
    refuse_repeats(table)
    if unlabelled is not None:
        table, _ = with_unlabelled(table, problem, as_unlabelled(unlabelled, problem, table), seed)
    planner = settled(make_method(method), table, table.n_examples)
    opt, test = table.split(planner.opt_fraction, seed=seed)
    stricter = [problem.at(alpha) for alpha in alphas]
    if simultaneous:
        found = decide_together(planner, opt, test, stricter)
        decided = list(zip(alphas, found.evidence, found.nets, found.decisions, strict=True))
    else:
        everything = opt.joined_with(test)
        decided = []
        for alpha, one in zip(alphas, stricter, strict=True):
            plan, evidence = planner.plan(opt, one), Evidence(with_thresholds(one, opt), test)
            net = Evidence(one, everything) if plan.net > 0 else None
            decided.append((alpha, evidence, net, decide(plan, evidence, net)))
    for one in stricter:
        said = f"seed {seed}, one of {len(alphas)} limits of a frontier{' that hold together' if simultaneous else ''}"
        decided_by = [seed, [list(map(float, np.ravel(alpha))) for alpha in alphas]] if simultaneous else seed
        ASKED.before(table.fingerprint, Look.of(one, planner.name, parameters(planner), decided_by, said))
    count = "n_certified" if planner.guaranteed else "n_picked"
    frame = pd.concat([_rows(*one, count) for one in decided], ignore_index=True)
    frame.attrs[TOGETHER] = simultaneous
    return frame


def _rows(
    alpha: float | Sequence[float], evidence: Evidence, net: Evidence | None, decision: Decision, count: str
) -> pd.DataFrame:
    """The chosen settings of one alpha; one row without a setting where there is none."""
    columns = setting_columns(evidence.table, evidence.problem, ("alpha", "n_certified", "n_picked"))
    frame = path_frame(evidence, decision, columns, net)
    frame = frame[frame["chosen"] > 0].sort_values("chosen").drop(columns=["certified", "chosen"])
    frame.insert(0, "alpha", [alpha] * len(frame))
    frame.insert(1, count, int(decision.certified.sum()))
    return frame if len(frame) else pd.DataFrame({"alpha": [alpha], count: [0]})
