"""calibrate, certify: from a table and a problem to a certificate."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pandas as pd

from riskfront._calibration.certificates.certificate import Certificate, chosen_configs
from riskfront._calibration.certificates.known_examples import data_digests, example_fingerprints
from riskfront._calibration.certificates.uses_of_test_set import ASKED, UseOfTestSet
from riskfront._calibration.decision import Decision, best_planned, decide
from riskfront._calibration.diagnosis import diagnose, near_misses
from riskfront._calibration.measured import covered_groups, measured_values
from riskfront._data.contents import (
    content_digests,
    content_order,
    contents_digest,
    refuse_repeats,
    shuffled_copy,
    shuffles,
)
from riskfront._data.intake import Intake
from riskfront._data.problem_fit import (
    account,
    check_fit,
    limited_losses,
    refuse_means,
    refuse_measured_order,
    warn_of_missing,
)
from riskfront._data.reading.sources import Bounds, Data, as_table, as_unlabelled, notes_of
from riskfront._data.splits import CONTENTS
from riskfront._data.stores.open_storage import storage_options as options_for_urls
from riskfront._data.sums import SINGLE_THREADED
from riskfront._data.table import LossTable
from riskfront._problems.problem import Problem, check_problem
from riskfront._support.arrays import IntArray
from riskfront._support.version import __version__
from riskfront.errors import InvalidInputError
from riskfront.methods import Method, Plan, make_method
from riskfront.methods._evidence.limit_tests import Evidence
from riskfront.methods._evidence.prediction_powered import what_proxies_brought, with_unlabelled
from riskfront.methods._evidence.ranges import warn_of_small_groups, with_thresholds
from riskfront.methods._plan import make_plan, parameters, resolve_defaults


def calibrate(
    table: Data,
    problem: Problem,
    *,
    method: str | Method = "pareto-testing",
    seed: int = 0,
    bounds: Bounds | None = None,
    clusters: str | None = None,
    unlabelled: Data | None = None,
    storage_options: Mapping[str, Any] | None = None,
) -> Certificate:
    """Split the examples, plan on one part, test on the other, and certify.

    Calibrate once. Another seed, limit or method on the same examples is another question to them: the deltas of all questions
    that this process put to the same table add up, the certificate lists them, and its verdict states the confidence that is
    left. To see many limits at the price of one question: ``frontier(..., simultaneous=True)``.

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
        storage_options: for fsspec, of data behind a URL, such as {"key": ..., "secret": ..., "endpoint_url": ...}.

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
    with options_for_urls(storage_options):
        notes = notes_of(table)
        check_problem(problem)
        table = as_table(table, problem, bounds, clusters)
        others = None if unlabelled is None else as_unlabelled(unlabelled, problem, table)
    refuse_repeats(table, limited_losses(problem))
    if others is not None:
        refuse_repeats(others)
    else:  # with unlabelled examples, columns of theirs are added first
        check_fit(problem, table)
        warn_of_small_groups(problem, table.bounds, table.group)
    refuse_means(problem, table, table.n_examples)
    chosen = resolve_defaults(make_method(method), table, table.n_examples)
    if safest := getattr(chosen, "safest", None):
        refuse_measured_order(safest, table, problem)
    found = split_and_test(table, problem, chosen, seed, unlabelled=others)
    warn_of_missing(found.intake)
    earlier = ASKED.before(data_digests(table, problem, table.fingerprint), UseOfTestSet.of_certificate(found))
    return replace(found, notes=(*notes, *found.notes)).after(earlier)


def split_and_test(
    table: LossTable,
    problem: Problem,
    method: Method,
    seed: int,
    split_by: str | None = None,
    unlabelled: LossTable | None = None,
) -> Certificate:
    """What ``calibrate`` does; ``split_by`` is what a certificate says of its split, None to find out."""
    labelled, source = table, dict[str, Any]()
    split_by = shuffles(labelled) if split_by is None else split_by
    with ThreadPoolExecutor(max_workers=1) as aside, SINGLE_THREADED:
        if not labelled.is_lazy:  # a digest of all losses takes as long as all the rest: on another core, meanwhile
            aside.submit(lambda: labelled.fingerprint)
        if unlabelled is not None:
            table, source = with_unlabelled(labelled, problem, unlabelled, seed)
        opt, test = table.split(method.opt_fraction, seed=seed, split_by=split_by)
        if getattr(method, "holm_share", 0):  # limits need the sums of all settings in both parts: one pass gives both
            limited = {loss for limit in problem.limits for loss in limit.term.losses}
            LossTable.sum_together([opt, test], None if table.is_lazy else limited)
        plan = make_plan(method, opt, problem, seed)
        everything = opt.joined_with(test) if plan.holm_share > 0 else None
        examples = _Examples(
            labelled, lambda _: (labelled.fingerprint, account(labelled, problem)), seed, split_by, source
        )
        return _certificate(plan, test, problem, examples, everything)


def certify(plan: Plan, test: LossTable, problem: Problem) -> Certificate:
    """Test the settings of a plan on examples that had no part in making it.

    The order of the examples does not matter: those that ``table.split`` did not put into random order are put into one that
    rests on their contents and on nothing else. Certify once: as with ``calibrate``, the deltas of all questions add up.

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
    if test.batch_size is None:
        check_fit(problem, test)
        warn_of_small_groups(problem, test.bounds, test.group)
        refuse_means(problem, test, plan.opt.n_examples + test.n_examples)
        refuse_measured_order(getattr(plan.method, "safest", None) or (), test, problem)
    certificate = certified(plan, test, problem)
    if test.batch_size is not None:  # evaluated on demand by tune, which records the question itself
        return certificate
    said = f"a plan of {len(plan)} settings"
    use = UseOfTestSet.of(problem, plan.method.name, certificate.parameters, plan.configs(), said)
    return certificate.after(ASKED.before(data_digests(test, problem, certificate.data_sha256), use))


def certified(
    plan: Plan, test: LossTable, problem: Problem, digest: Callable[[int], str] = lambda tested: ""
) -> Certificate:
    """What ``certify`` does, without a record of it. ``digest`` is that of losses that are evaluated on demand, as far as the
    first so many settings of the plan needed them."""
    if test.clusters != plan.opt.clusters:
        raise InvalidInputError(
            f"planning and testing examples must be of one kind; got means over {plan.opt.clusters or 'nothing'} and over "
            f"{test.clusters or 'nothing'}. Use table.by_cluster on both."
        )
    if test.n_examples == 0:
        raise InvalidInputError("testing needs at least one example; the test part has none.")
    limited = {loss for limit in problem.limits for loss in limit.term.losses}
    refuse_repeats(test, limited_losses(problem))
    if plan.method.opt_fraction > 0 and test.batch_size is None and test.shares_examples(plan.opt, limited):
        raise InvalidInputError(
            "the testing examples must have had no part in the plan; some of them are planning examples too, or have the very "
            "same losses and groups. Split one table: opt, test = table.split(method.opt_fraction)."
        )
    if plan.method.opt_fraction > 0 and test.batch_size is None and test.corresponds_to(plan.opt):
        refuse_repeats(plan.opt.joined_with(test), limited_losses(problem))  # a split hides how often examples come
    if test.batch_size is not None:  # evaluated on demand: what no test needed stays unevaluated

        def as_far_as_tested(n: int) -> tuple[str, Intake]:
            return digest(n), account(plan.opt, problem) + account(test, problem, plan.rows[:n])

        return _certificate(plan, test, problem, _Examples(test, as_far_as_tested))
    certificate = _test_all(plan, test, problem)
    warn_of_missing(certificate.intake)
    return certificate


def _test_all(plan: Plan, test: LossTable, problem: Problem) -> Certificate:
    """Test a plan on a table that is there already, in random order by content."""
    intake = account(plan.opt, problem) + account(test, problem)
    if test.in_content_order or len(plan) == 0:
        return _certificate(plan, test, problem, _Examples(test, lambda _: (test.sha256, intake)))
    check_fit(problem, test)
    references = [test.reference(limit.drop_from) for limit in problem.limits if limit.drop_from is not None]
    rows = np.array(list(dict.fromkeys([*plan.rows_in(test).tolist(), *references])), dtype=np.int64)
    # all settings tell examples apart, so that a p-value does not depend on the plan; a store is read along the plan only
    told_apart = rows if test.is_lazy else np.arange(test.n_configs)
    contents = content_digests(test, told_apart, test.loss_names, test.group_names)
    opt = plan.opt
    seen = content_digests(opt, plan.rows if opt.is_lazy else np.arange(opt.n_configs), opt.loss_names, opt.group_names)
    known_by = _Examples(test, lambda _: (contents_digest(test, told_apart, contents), intake))
    return _certificate(plan, shuffled_copy(test, rows, content_order(contents, seen)), problem, known_by)


@dataclass(frozen=True, slots=True)
class _Examples:
    """What a certificate says of its examples: a table of them; its digest and what became of the rows that it was made of,
    given how many settings were tested; how the examples were split; and where unlabelled ones came from."""

    table: LossTable
    account: Callable[[int], tuple[str, Intake]]
    seed: int | None = None
    split_by: str = CONTENTS
    unlabelled: Mapping[str, Any] = field(default_factory=dict)


def _certificate(
    plan: Plan, test: LossTable, problem: Problem, examples: _Examples, everything: LossTable | None = None
) -> Certificate:
    """Test the plan; with a table of all examples, planning and testing, also by the fallback test."""
    # a group that only the opt data has seen must hold too: without test examples it cannot be certified
    with_numbers = with_thresholds(problem, plan.opt)
    evidence = Evidence(with_numbers, test if test.same_settings(plan.opt) else test.with_groups_of(plan.opt))
    on_all = None if everything is None else Evidence(problem, everything)
    decision = decide(plan, evidence, on_all)
    test.check(decision.rows)  # sums of a store may have been taken in passing, but a guarantee rests on these
    columns = setting_columns(test, problem)
    path = path_frame(evidence, decision, columns, on_all)
    digest, intake = examples.account(len(path))
    brought = what_proxies_brought(plan.opt, plan.rows, problem, lambda: best_planned(plan, test, decision))
    # the certificate says what was done: no fallback test without a table of all examples
    without_fallback = {"holm_share": 0.0} if getattr(plan.method, "holm_share", 0) and on_all is None else {}
    return Certificate(
        problem=problem,
        method=plan.method.name,
        parameters=parameters(plan.method) | without_fallback,
        guaranteed=plan.method.guaranteed,
        n_opt=plan.opt.n_examples,
        n_test=test.n_examples,
        seed=examples.seed,
        data_sha256=digest,
        version=__version__,
        setting_columns=columns,
        path=path,
        measured=_by_test(evidence, decision, on_all),
        groups=covered_groups(evidence),
        explored=planning_means(plan.opt, problem, columns, plan.rows),
        diagnosis=None if decision.certified.any() else diagnose(plan, evidence, decision),
        near_misses=near_misses(evidence, decision) if plan.method.guaranteed else (),
        loss_bounds={loss: test.bounds(loss) for limit in problem.limits for loss in limit.bounded},
        clusters=test.clusters,
        notes=notes_on_clusters(test.clusters),
        thresholds={
            str(planned): float(planned.threshold)
            for asked, planned in zip(problem.limits, evidence.problem.limits, strict=True)
            if asked.threshold is None and planned.threshold is not None  # planning examples chose it
        },
        split_by=examples.split_by,
        example_fingerprints=example_fingerprints(problem, chosen_configs(path, columns), examples.table),
        unlabelled=None if brought is None else {**examples.unlabelled, **brought},
        intake=intake,
    )


def notes_on_clusters(name: str | None) -> tuple[str, ...]:
    """What a guarantee speaks of where examples are means."""
    if name is None:
        return ()
    return (
        f"Each example is the mean over all rows of one {name}: limits speak of the mean over new values of {name}.",
    )


def setting_columns(table: LossTable, problem: Problem, also: Sequence[str] = ()) -> dict[str, str]:
    """Setting name -> column; a setting with the name of another column is told apart."""
    taken = {
        *problem.limit_names,
        *(o.name for o in problem.objectives),
        "p_value",
        "tested_by",
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
    evidence: Evidence, decision: Decision, columns: dict[str, str], on_all: Evidence | None = None
) -> pd.DataFrame:
    """One row a tested setting. Values of settings that the fallback test certified are those on all examples."""
    rows, caught = decision.rows, decision.by_holm
    frame = evidence.table.configs.iloc[rows].rename(columns=columns).reset_index(drop=True)
    add_estimates(frame, evidence, rows)
    if on_all is not None and caught.any():
        seen = pd.DataFrame(index=frame.index[caught])
        add_estimates(seen, on_all, rows[caught])
        frame.loc[caught, seen.columns] = seen
    if len(evidence.tests) > 1:
        for name, p_values in zip(evidence.problem.limit_names, decision.p_values.T, strict=True):
            frame[f"p_value {name}"] = p_values
    frame["p_value"] = decision.p_values.max(axis=1)
    frame["tested_at"] = decision.levels
    frame["tested_by"] = decision.tested_by
    frame["certified"] = decision.certified
    ranks = np.zeros(len(rows), dtype=np.int64)
    ranks[decision.chosen] = np.arange(1, len(decision.chosen) + 1)
    frame["chosen"] = ranks
    return frame


def _by_test(evidence: Evidence, decision: Decision, on_all: Evidence | None) -> pd.DataFrame:
    """What the chosen settings measured, each by the evidence that certified it; ranked as they were."""
    if on_all is None or not decision.by_holm[decision.chosen].any():
        return measured_values(evidence, decision)
    parts = []
    for holm, seen in ((False, evidence), (True, on_all)):
        ranks = np.flatnonzero(decision.by_holm[decision.chosen] == holm)
        if ranks.size:
            frame = measured_values(seen, replace(decision, chosen=decision.chosen[ranks]))
            parts.append(frame.assign(chosen=ranks[frame["chosen"].to_numpy() - 1] + 1))
    return pd.concat(parts, ignore_index=True).sort_values("chosen", kind="stable", ignore_index=True)


def add_estimates(frame: pd.DataFrame, evidence: Evidence, rows: IntArray | None) -> None:
    """Put what these settings measured, (rows,) or all, into a frame: a column for each limit and objective."""
    for name, test in zip(evidence.problem.limit_names, evidence.tests, strict=True):
        frame[name] = test.worst_measured(evidence.table, rows)
    for objective, values in zip(evidence.problem.objectives, evidence.objectives(rows).T, strict=True):
        frame[objective.name] = np.where(np.isinf(values), np.nan, -values if objective.maximize else values)


def planning_means(opt: LossTable, problem: Problem, columns: dict[str, str], rows: IntArray) -> pd.DataFrame | None:
    """What every setting measured on planning examples, for pictures; which of them, ``rows``, were planned for testing."""
    if opt.n_examples == 0:
        return None
    frame = opt.configs.rename(columns=columns).reset_index(drop=True)
    add_estimates(frame, Evidence(with_thresholds(problem, opt), opt), None)
    return frame.assign(planned=np.isin(np.arange(opt.n_configs), rows))
