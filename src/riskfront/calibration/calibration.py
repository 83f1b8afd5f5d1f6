"""calibrate, certify: from a table and a problem to a certificate."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd

from riskfront.arrays import Array, IntArray
from riskfront.calibration.decision import Decision, best_planned, decide
from riskfront.calibration.diagnosis import diagnose
from riskfront.calibration.measured import covered_groups, measured_values
from riskfront.calibration.near_misses import near_misses
from riskfront.certificates.certificate import Certificate
from riskfront.certificates.looks import ASKED, Look
from riskfront.certificates.made_of import made_of
from riskfront.errors import InvalidInputError
from riskfront.evidence.evidence import Evidence
from riskfront.evidence.unlabelled import what_proxies_brought, with_unlabelled
from riskfront.evidence.worst_cases import with_thresholds
from riskfront.losses.contents import content_digests, contents_digest, laid_out, own_order, refuse_repeats
from riskfront.losses.sums import SINGLE_THREADED
from riskfront.losses.table import LossTable
from riskfront.methods import Method, Plan, make_method, parameters, settled
from riskfront.problems.limits import Limit
from riskfront.problems.problem import Problem
from riskfront.reading.sources import Bounds, Data, as_table, as_unlabelled, notes_of
from riskfront.version import __version__


def calibrate(
    table: Data,
    problem: Problem,
    *,
    method: str | Method = "pareto-testing",
    seed: int = 0,
    bounds: Bounds | None = None,
    clusters: str | None = None,
    unlabelled: Data | None = None,
) -> Certificate:
    """Split the examples, plan on one part, test on the other, and certify.

    Calibrate once. Another seed, limit or method on the same examples is another question to them, and to keep the answer one
    likes best is not covered by the guarantee: the certificate lists what else this process asked of the same table.

    Args:
        table: the losses of all settings: a LossTable, a LossStore, or the path of a file or store.
        problem: limits, objectives and delta.
        method: a method or its name.
        seed: of the random split into planning and testing examples.
        bounds: name -> (low, high), the ranges of losses of a file; a LossTable has its own.
        clusters: the group whose rows belong together, such as "patient": they are averaged to one row each, and limits
            speak of the mean over patients (``LossTable.by_cluster``).
        unlabelled: outcomes of the same settings on other examples of the same source that have no labels: only the proxies
            that limits name are needed, and the groups and conditions of these limits. They make tests sharper, the more so
            the better the proxy; what is certified is as true as without them.

    Examples:
        >>> import numpy as np
        >>> import riskfront as rf
        >>> error = np.random.default_rng(0).random((20, 2000)) < np.linspace(0.01, 0.2, 20)[:, None]
        >>> cost = np.linspace(1, 0.05, 20)[:, None].repeat(2000, axis=1)
        >>> table = rf.LossTable([{"level": k} for k in range(20)], {"error": error, "cost": cost})
        >>> certificate = rf.calibrate(table, rf.Problem("error <= 0.1", minimize="cost"))
        >>> certificate.verdict()
        'With 90 % confidence, error stays at or below 10 %.'
        >>> certificate.config  # doctest: +ELLIPSIS
        {'level': ...}
    """
    notes = notes_of(table)
    table = as_table(table, problem, bounds, clusters)
    refuse_repeats(table)
    others = None if unlabelled is None else as_unlabelled(unlabelled, problem, table)
    if others is not None:
        refuse_repeats(others)
    chosen = settled(make_method(method), table, table.n_examples)
    found = split_and_test(table, problem, chosen, seed, unlabelled=others)
    return replace(
        found, earlier_looks=ASKED.before(table.fingerprint, Look.of_certificate(found)), notes=(*notes, *found.notes)
    )


def split_and_test(
    table: LossTable,
    problem: Problem,
    method: Method,
    seed: int,
    split_by: str = "contents",
    unlabelled: LossTable | None = None,
) -> Certificate:
    """What ``calibrate`` does; certificates of version 0.1 split by "positions"."""
    labelled, source = table, dict[str, Any]()
    with ThreadPoolExecutor(max_workers=1) as aside, SINGLE_THREADED:
        if not labelled.is_lazy:  # a digest of all losses takes as long as all the rest: on another core, meanwhile
            aside.submit(lambda: labelled.fingerprint)
        if unlabelled is not None:
            table, source = with_unlabelled(labelled, problem, unlabelled, seed)
        opt, test = table.split(method.opt_fraction, seed=seed, by_contents=split_by == "contents")
        if getattr(method, "net", 0):  # then limits need the sums of all settings in both parts: one pass gives both
            limited = {loss for limit in problem.limits for loss in limit.term.losses}
            LossTable.sum_together([opt, test], None if table.is_lazy else limited)
        plan = method.plan(opt, problem)
        everything = opt.joined_with(test) if plan.net > 0 else None
        found = _certificate(plan, test, problem, everything)
    said = None if found.unlabelled is None else {**source, **found.unlabelled}
    known_by = made_of(found, labelled)
    return replace(
        found, seed=seed, data_sha256=labelled.fingerprint, split_by=split_by, made_of=known_by, unlabelled=said
    )


def certify(plan: Plan, test: LossTable, problem: Problem) -> Certificate:
    """Test the settings of a plan on examples that had no part in making it.

    The order of the examples does not matter: those that ``table.split`` did not put into random order are put into one that
    rests on their contents and on nothing else. Certify once: the certificate lists what else this process asked of them.

    Args:
        plan: from ``method.plan(opt, problem)``.
        test: losses of at least the planned settings on the testing examples. Examples that the plan was made of, by
            position or by content, are refused.
        problem: the same problem.

    Examples:
        >>> import numpy as np
        >>> import riskfront as rf
        >>> error = np.random.default_rng(0).random((20, 2000)) < np.linspace(0.01, 0.2, 20)[:, None]
        >>> cost = np.linspace(1, 0.05, 20)[:, None].repeat(2000, axis=1)
        >>> table = rf.LossTable([{"level": k} for k in range(20)], {"error": error, "cost": cost})
        >>> opt, test = table.split(0.3)
        >>> problem = rf.Problem("error <= 0.1", minimize="cost")
        >>> bool(rf.certify(rf.ParetoTesting().plan(opt, problem), test, problem))
        True
    """
    if test.clusters != plan.opt.clusters:
        raise InvalidInputError(
            f"planning and testing examples must be of one kind; got means over {plan.opt.clusters or 'nothing'} and over "
            f"{test.clusters or 'nothing'}. Use table.by_cluster on both."
        )
    if test.n_examples == 0:
        raise InvalidInputError("testing needs at least one example; the test part has none.")
    refuse_repeats(test)
    limited = {loss for limit in problem.limits for loss in limit.term.losses}
    if plan.method.opt_fraction > 0 and test.at_once is None and test.shares_examples(plan.opt, limited):
        raise InvalidInputError(
            "the testing examples must have had no part in the plan; some of them are planning examples too, or have the very "
            "same losses and groups. Split one table: opt, test = table.split(method.opt_fraction)."
        )
    if test.at_once is not None:  # evaluated on demand: what no test needed stays unevaluated
        certificate = _certificate(plan, test, problem)
        return replace(certificate, made_of=made_of(certificate, test))
    certificate = _on_all_at_once(plan, test, problem)
    look = Look.of(problem, plan.method.name, certificate.parameters, plan.configs(), f"a plan of {len(plan)} settings")
    earlier = ASKED.before(certificate.data_sha256, look)
    return replace(certificate, earlier_looks=earlier, made_of=made_of(certificate, test))


def _on_all_at_once(plan: Plan, test: LossTable, problem: Problem) -> Certificate:
    """Test a plan on a table that is there already, in an order of riskfront's own."""
    if test.in_own_order or len(plan) == 0:
        return replace(_certificate(plan, test, problem), data_sha256=test.sha256)
    problem.check(test)
    references = [test.reference(limit.drop_from) for limit in problem.limits if limit.drop_from is not None]
    rows = np.array(list(dict.fromkeys([*plan.rows_in(test).tolist(), *references])), dtype=np.int64)
    # all settings tell examples apart, so that a p-value does not depend on the plan; a store is read along the plan only
    told_apart = rows if test.is_lazy else np.arange(test.n_configs)
    contents = content_digests(test, told_apart, test.loss_names, test.group_names)
    opt = plan.opt
    seen = content_digests(opt, plan.rows if opt.is_lazy else np.arange(opt.n_configs), opt.loss_names, opt.group_names)
    certificate = _certificate(plan, laid_out(test, rows, own_order(contents, seen)), problem)
    return replace(certificate, data_sha256=contents_digest(test, told_apart, contents))


def _certificate(plan: Plan, test: LossTable, problem: Problem, everything: LossTable | None = None) -> Certificate:
    """Test the plan; with a table of all examples, planning and testing, over its safety net."""
    # a group that only the opt data has seen must hold too: without test examples it cannot be certified
    settled_problem = with_thresholds(problem, plan.opt)
    evidence = Evidence(settled_problem, test if test.same_settings(plan.opt) else test.with_groups_of(plan.opt))
    net = None if everything is None else Evidence(problem, everything)
    decision = decide(plan, evidence, net)
    test.check(decision.rows)  # sums of a store may have been taken in passing, but a guarantee rests on these
    columns = setting_columns(test, problem)
    return Certificate(
        problem=problem,
        method=plan.method.name,
        parameters=_what_was_done(plan, net),
        guaranteed=plan.method.guaranteed,
        n_opt=plan.opt.n_examples,
        n_test=test.n_examples,
        seed=None,
        data_sha256="",
        version=__version__,
        setting_columns=columns,
        path=path_frame(evidence, decision, columns, net),
        measured=_by_arm(measured_values, evidence, decision, net),
        groups=covered_groups(evidence),
        explored=_explored(plan, problem, columns),
        diagnosis=None if decision.certified.any() else diagnose(plan, evidence, decision),
        near_misses=near_misses(evidence, decision) if plan.method.guaranteed else (),
        loss_bounds={loss: test.bounds(loss) for limit in problem.limits for loss in limit.bounded},
        clusters=test.clusters,
        notes=_of_clusters(test.clusters),
        thresholds={str(limit): float(limit.threshold or 0.0) for limit in _chosen_for(problem, evidence)},
        unlabelled=what_proxies_brought(plan.opt, plan.rows, problem, lambda: best_planned(plan, test, decision)),
    )


def _of_clusters(name: str | None) -> tuple[str, ...]:
    """What a guarantee speaks of where examples are means."""
    if name is None:
        return ()
    return (
        f"Each example is the mean over all rows of one {name}: limits speak of the mean over new values of {name}.",
    )


def _chosen_for(problem: Problem, evidence: Evidence) -> list[Limit]:
    """The limits whose thresholds the planning examples chose, with these thresholds."""
    pairs = zip(problem.limits, evidence.problem.limits, strict=True)
    return [with_it for limit, with_it in pairs if limit.threshold is None and with_it.threshold is not None]


def _what_was_done(plan: Plan, net: Evidence | None) -> dict[str, Any]:
    """The parameters of the method; without a table of all examples, or with thresholds of some of them, no net was cast."""
    return parameters(plan.method) | ({"net": 0.0} if getattr(plan.method, "net", 0) and net is None else {})


def setting_columns(table: LossTable, problem: Problem, also: Sequence[str] = ()) -> dict[str, str]:
    """Setting name -> column; a setting with the name of another column is told apart."""
    taken = {
        *problem.limit_names,
        *(o.name for o in problem.objectives),
        "p_value",
        "arm",
        *(f"p_value {name}" for name in problem.limit_names),
        *("tested_at", "level", "certified", "picked", "chosen", "planned", "weight"),
        *also,
    }
    columns: dict[str, str] = {}
    for name in table.config_names:
        column = name
        while column in taken or (column != name and column in table.config_names):
            column = f"setting {column}"
        columns[name] = column
    return columns


def path_frame(
    evidence: Evidence, decision: Decision, columns: dict[str, str], net: Evidence | None = None
) -> pd.DataFrame:
    """One row a tested setting. What the net caught is shown as the net saw it, on all examples."""
    rows, caught = decision.rows, decision.by_net
    frame = _settings(evidence.table, rows, columns)
    _add_estimates(frame, evidence, rows)
    if net is not None and caught.any():
        seen = pd.DataFrame(index=frame.index[caught])
        _add_estimates(seen, net, rows[caught])
        frame.loc[caught, seen.columns] = seen
    if len(evidence.tests) > 1:
        for name, p_values in zip(evidence.problem.limit_names, decision.p_values.T, strict=True):
            frame[f"p_value {name}"] = p_values
    frame["p_value"] = decision.p_values.max(axis=1)
    frame["tested_at"] = decision.levels
    frame["arm"] = decision.arms
    frame["certified"] = decision.certified
    ranks = np.zeros(len(rows), dtype=np.int64)
    ranks[decision.chosen] = np.arange(1, len(decision.chosen) + 1)
    frame["chosen"] = ranks
    return frame


def _by_arm(
    describe: Callable[[Evidence, Decision], pd.DataFrame],
    evidence: Evidence,
    decision: Decision,
    net: Evidence | None,
) -> pd.DataFrame:
    """What ``describe`` says about the chosen settings, each by the evidence that certified it; ranked as they were."""
    if net is None or not decision.by_net[decision.chosen].any():
        return describe(evidence, decision)
    parts = []
    for arm, seen in ((False, evidence), (True, net)):
        ranks = np.flatnonzero(decision.by_net[decision.chosen] == arm)
        if ranks.size:
            frame = describe(seen, replace(decision, chosen=decision.chosen[ranks]))
            parts.append(frame.assign(chosen=ranks[frame["chosen"].to_numpy() - 1] + 1))
    return pd.concat(parts, ignore_index=True).sort_values("chosen", kind="stable", ignore_index=True)


def _settings(table: LossTable, rows: IntArray, columns: dict[str, str]) -> pd.DataFrame:
    return table.configs.iloc[rows].rename(columns=columns).reset_index(drop=True)


def _add_estimates(frame: pd.DataFrame, evidence: Evidence, rows: IntArray | None) -> None:
    for name, test in zip(evidence.problem.limit_names, evidence.tests, strict=True):
        frame[name] = test.worst_measured(evidence.table, rows)
    for objective, values in zip(evidence.problem.objectives, evidence.objectives(rows).T, strict=True):
        shown = np.where(np.isinf(values), np.nan, -values if objective.maximize else values)
        frame[objective.name] = shown


def _explored(plan: Plan, problem: Problem, columns: dict[str, str]) -> pd.DataFrame | None:
    """Opt-data estimates of every setting, for pictures; which of them were planned for testing."""
    if plan.opt.n_examples == 0:
        return None
    everything = np.arange(plan.opt.n_configs)
    frame = _settings(plan.opt, everything, columns)
    _add_estimates(frame, Evidence(with_thresholds(problem, plan.opt), plan.opt), None)
    planned: Array = np.zeros(len(everything), dtype=bool)
    planned[plan.rows] = True
    frame["planned"] = planned
    return frame
