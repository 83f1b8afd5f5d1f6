"""Certify settings on a trace: planned on some texts and tested on the others, or tested in an order that is known beforehand.

A trace knows the outcomes of every setting once its passes are made, so nothing is run in parallel or kept in a store here.

With exits only, the order is known before any text is seen. At the exit threshold 0 nothing leaves early: the pruned model is
the full model, and no accuracy is lost in any class. That end is the safest for certain, so thresholds are tested from there
on, all of them, on all calibration texts, until the first failure, and no text is needed to learn an order.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from threading import Lock
from typing import Any

import numpy as np

from riskfront._calibration.calibrate import calibrate
from riskfront._calibration.calibrate import certify as test_plan
from riskfront._calibration.certificates.certificate import Certificate
from riskfront._calibration.certificates.uses_of_test_set import UseOfTestSet
from riskfront._calibration.frontier_making import make_frontier
from riskfront._calibration.frontier_plan import ValueGrid
from riskfront._calibration.frontier_result import Frontier
from riskfront._data.groups import Groups, all_groups
from riskfront._data.problem_fit import check_fit
from riskfront._data.splits import split_examples
from riskfront._data.stores.open_storage import open_storage
from riskfront._data.table import LossTable
from riskfront._problems.limits import Limit
from riskfront._problems.problem import Problem
from riskfront._problems.spaces.space import Config, Space
from riskfront._running.evaluation.outcome import MemoryRows
from riskfront._running.evaluation.workers import Workers
from riskfront._running.tuning.opt_and_test_rows import Part, Parts, shuffles
from riskfront._running.tuning.planned_losses import PlannedColumn
from riskfront._running.tuning.recorded_uses import record_use
from riskfront._running.tuning.search_loop import search_settings, start_search
from riskfront._support.array_digest import fingerprint
from riskfront._support.arrays import Array, IntArray
from riskfront._support.progress import ProgressBar
from riskfront._support.sealed_tensors import save_sealed
from riskfront.methods import Method, OrderedKnob, ParetoTesting
from riskfront.methods._evidence.ranges import warn_of_small_groups
from riskfront.methods._plan import Plan as TestPlan
from riskfront.methods._plan import resolve_defaults
from riskfront.search import Search
from riskfront.transformers._cascade.cascade_trace import CascadeTrace
from riskfront.transformers._data.known_texts import load_contents, save_contents
from riskfront.transformers._pruning.disagreement import DROPS, TraceWithUnlabelled
from riskfront.transformers._pruning.pruning_trace import PruningTrace
from riskfront.transformers._pruning.thresholds import Thresholds

FROM_THE_FULL_MODEL = OrderedKnob(safest={"tau_layer": "low"})
TRACES = "traces"
UNLABELLED = f"{TRACES}/unlabelled.safetensors"
ASKED = "uses/texts"  # which texts questions were put to
#: by this process: question -> to which texts, and what
ASKED_HERE: dict[str, tuple[frozenset[bytes], UseOfTestSet]] = {}
ASKING = Lock()
SHARED, REMEMBERED = 0.05, 200
CALIBRATION = f"{TRACES}/calibration.safetensors"  # not needed to answer: a deployed folder may lack it
_PASS = ("precision", "tau_head", "tau_token")  # what a pass depends on


Traced = PruningTrace | CascadeTrace | TraceWithUnlabelled


@dataclass(frozen=True)
class Split:
    """Positions of planning and of testing texts, and what shuffled them beside the seed."""

    opt: IntArray
    test: IntArray
    by: str

    @classmethod
    def of(cls, trace: Traced, opt_fraction: float, seed: int) -> Split:
        by, salt = shuffles(trace.examples, trace.groups, seed)
        return cls(*split_examples(len(trace.examples), opt_fraction, seed, salt), by)


def settings_to_plan(
    trace: Traced,
    space: Space,
    problem: Problem,
    split: Split,
    *,
    search: str | Search,
    budget: int,
    seed: int,
    progress: bool | None = None,
) -> list[Config]:
    """All settings of the grid, in the order of `GridSearch`, or those that another search proposes on planning texts."""
    if search == "grid" and space.size is not None:
        return [space.at(int(i)) for i in np.random.default_rng(seed).permutation(space.size)]
    groups = [_part(all_groups(trace.groups, len(trace.examples)), positions) for positions in (split.opt, split.test)]
    rows = [MemoryRows(len(of), found, trace.bounds) for of, found in zip((split.opt, split.test), groups, strict=True)]
    parts = Parts(Part(split.opt, groups[0], rows[0]), Part(split.test, groups[1], rows[1]))
    searcher = start_search(search, space, problem, parts, trace.bounds, seed, budget, {}, dict)
    with Workers(trace.losses, split.opt, 1) as workers, ProgressBar("searching", budget, shown=progress) as bar:
        return search_settings(searcher, space, problem, rows[0], workers, bar, budget, trace.bounds)


def certify_planned(
    trace: Traced,
    configs: Sequence[Config],
    problem: Problem,
    method: Method,
    split: Split,
    *,
    progress: bool | None = None,
) -> Certificate:
    """Plan on the planning texts, and test along the plan: passes of testing texts are made where a test asks for them."""
    groups = all_groups(trace.groups, len(trace.examples))
    warn_of_small_groups(problem, lambda name: trace.bounds.get(name, (0.0, 1.0)), groups.__getitem__)
    with ProgressBar("planning", len(configs), shown=progress) as bar:
        planning = _table(trace, configs, split.opt, groups, bar)
    plan = method.plan(planning, problem)
    certificate = test_plan(plan, _on_demand(trace, plan, configs, split.test, groups), problem)
    tested = [configs[row] for row in plan.rows[: len(certificate.path)]]
    digests = {"opt": planning.sha256, "test": _table(trace, tested, split.test, groups).sha256 if tested else None}
    certificate = replace(certificate, data_sha256=fingerprint(digests, {}), split_by=split.by)
    if not isinstance(trace, TraceWithUnlabelled):
        return certificate
    return replace(certificate, unlabelled={**trace.described, **(certificate.unlabelled or {})})


def _table(
    trace: Traced,
    configs: Sequence[Config],
    positions: IntArray,
    groups: Mapping[str, Groups],
    bar: ProgressBar | None = None,
    names: Sequence[str] = (),
) -> LossTable:
    """These columns or all; settings with the same passes are asked for one after the other."""
    columns: dict[str, Array] = {}
    for place in sorted(range(len(configs)), key=lambda i: [str(configs[i].get(name)) for name in _PASS]):
        losses = trace.losses(configs[place], positions)
        for name in columns or names or losses:
            if name not in columns:
                columns[name] = np.empty((len(configs), len(positions)), dtype=losses[name].dtype)
            columns[name][place] = losses[name]
        if bar is not None:
            bar.advance(1)
    bounds = {name: ends for name, ends in trace.bounds.items() if name in columns}
    return LossTable([dict(config) for config in configs], columns, _part(groups, positions), bounds)


def _part(groups: Mapping[str, Groups], positions: IntArray) -> dict[str, Groups]:
    """Levels that none of these texts has stay: a limit in every class speaks of them too."""
    return {name: Groups(whole.levels, whole.codes[positions]) for name, whole in groups.items()}


def _on_demand(
    trace: Traced, plan: TestPlan, configs: Sequence[Config], positions: IntArray, groups: Mapping[str, Groups]
) -> LossTable:
    """The outcomes of planned settings on testing texts, each found when a test asks for it."""
    known: dict[int, dict[str, Array]] = {}
    opt, shape = plan.opt, (plan.opt.n_configs, len(positions))

    def losses(name: str, rows: IntArray) -> Array:
        """(rows, testing texts)"""
        for row in map(int, rows):
            if row not in known:
                known[row] = trace.losses(configs[row], positions)
        return np.stack([known[int(row)][name] for row in rows]) if len(rows) else np.empty((0, len(positions)))

    columns = {name: PlannedColumn(partial(losses, name), shape, opt.is_binary(name)) for name in opt.loss_names}
    return opt.on_demand(columns, _part(groups, positions), batch_size=1)


def has_known_order(method: str | Method, search: Any, thresholds: Thresholds, problem: Problem) -> bool:
    """Whether only exit thresholds are to be chosen, by the default method, under limits on the accuracy that is lost."""
    default = method == ParetoTesting.name or method == ParetoTesting()
    others = (thresholds.tau_head, thresholds.tau_token, thresholds.abstain, thresholds.depth)
    alone = all(len(values) == 1 for values in others) and thresholds.precision == ("float32",)
    several = len(thresholds.tau_layer) > 1 and search == "grid"
    return default and alone and several and all(_is_plain_drop(limit) for limit in problem.limits)


def _is_plain_drop(limit: Limit) -> bool:
    """A limit on the mean drop, over all texts or in every class: 0 where nothing leaves early."""
    plain = Limit(limit.loss, at_most=limit.at_most, per=limit.per, p_value=limit.p_value) if limit.at_most else None
    return limit.loss in DROPS and limit == plain


def certify_in_order(trace: Traced, configs: Sequence[Config], problem: Problem, seed: int) -> Certificate:
    """Test these exit thresholds from 0 on, on all texts of the trace."""
    table = _table(trace, configs, trace.examples, all_groups(trace.groups, len(trace.examples)))
    return calibrate(table.with_compared_examples(), problem, method=FROM_THE_FULL_MODEL, seed=seed)


def frontier_of(
    trace: Traced, configs: Sequence[Config], grid: ValueGrid, method: Method, seed: int, progress: bool | None = None
) -> Frontier:
    """The frontier of these settings on all texts of a trace."""
    groups = all_groups(trace.groups, len(trace.examples))
    with ProgressBar("settings", len(configs), shown=progress) as bar:
        table = _table(trace, configs, trace.examples, groups, bar, list(grid.problem.losses)).with_compared_examples()
    check_fit(grid.at([0] * len(grid.varying)), table)
    return make_frontier(table, grid, resolve_defaults(method, table, table.n_examples), seed)


def record_question(folder: Path, contents: Sequence[bytes], use: UseOfTestSet) -> tuple[UseOfTestSet, ...]:
    """Write a question to these texts down in the folder before it is asked; returns the others that they have answered, by the
    folder or to this process, whatever folder it wrote to. All their deltas count.

    Texts are known by their content: another seed, other thresholds or a model that was trained again are new questions to
    them, whose thresholds may be the same. Questions to other texts count where many are the same: another seed, or another
    number of rows of the same file, draws these again.
    """
    texts, name = frozenset(contents), hashlib.sha256(b"".join(sorted(contents))).hexdigest()
    use = replace(use, question=hashlib.sha256(f"{use.question} {name}".encode()).hexdigest())
    storage, before = open_storage(folder), dict[str, UseOfTestSet]()
    for group in _groups_of_texts(folder / ASKED, texts, name):
        before |= {one.question: one for one in record_use(storage, {"texts": group}, use, "", [], again=True)}
    with ASKING:
        ASKED_HERE.setdefault(use.question, (texts, use))
        here = list(ASKED_HERE)
        for question in here[: here.index(use.question)]:
            others, earlier = ASKED_HERE[question]
            if _are_shared(texts, others):
                before[question] = earlier
        if len(ASKED_HERE) > REMEMBERED:
            del ASKED_HERE[next(iter(ASKED_HERE))]
    return tuple(before.values())


def _groups_of_texts(folder: Path, contents: frozenset[bytes], name: str) -> list[str]:
    """The groups that these texts belong to from now on: those of all earlier texts that share many, or one of their own.

    The file GROUP.NAME.safetensors holds the digests of the texts called NAME. Of two processes that bring texts at the same
    moment, the one that writes later finds the texts of the other when it looks once more, and joins its groups.
    """
    folder.mkdir(parents=True, exist_ok=True)
    groups: list[str] = []
    for _ in ("before these texts are written", "afterwards"):
        joined = [group for group in _groups_that_share(folder, contents, name) if group not in groups]
        groups += joined or ([] if groups else [name])
        for group in groups:
            if not (place := folder / f"{group}.{name}.safetensors").exists():
                save_contents(place, contents)
    return groups


def _groups_that_share(folder: Path, contents: frozenset[bytes], name: str) -> list[str]:
    """The groups of all written texts that share many with these."""
    known = {path: path.stem.split(".") for path in sorted(folder.glob("[!.]*.safetensors"))}
    shared = (
        group
        for path, (group, of) in known.items()
        if of == name or _are_shared(contents, load_contents(path) or frozenset())
    )
    return list(dict.fromkeys(shared))


def _are_shared(some: frozenset[bytes], others: frozenset[bytes]) -> bool:
    """Whether more than a twentieth of the smaller set is in both. A few frequent texts come in every new sample."""
    return len(some & others) > SHARED * min(len(some), len(others))


def usual_choice(certificate: Certificate, trace: Traced, test: IntArray) -> str:
    """Where settings abstain, a condition that the cheapest meets if the full model had to answer what they leave."""
    if not certificate or "answered" not in certificate.chosen or len(certificate.chosen) < 2:
        return ""
    full = trace.losses({}, test)["flops"].mean()
    found = [trace.losses(config, test) for config in certificate.configs]
    costs = [losses["flops"].mean() + (1 - losses["answered"].mean()) * full for losses in found]
    answered = float(certificate.chosen["answered"].iloc[int(np.argmin(costs))])
    return f"answered >= {math.floor(1e4 * answered) / 1e4:g}"


def keep_examples(
    folder: str | os.PathLike[str],
    trace: PruningTrace,
    seed: int,
    name: str = CALIBRATION,
    notes: Sequence[str] = (),
    configs: Sequence[Config] = (),
) -> None:
    """Beside a certificate: tokens and labels of the calibration texts, or of unlabelled ones, the seed of the split, what
    was noted when texts were left out, and the settings where the certificate names only those that were tested."""
    tokens = trace.tokens
    arrays = {"ids": np.concatenate(list(tokens.ids)), "lengths": tokens.lengths, "labels": np.asarray(trace.labels)}
    for part, values in (("types", tokens.types), ("texts", tokens.texts)):
        if values is not None:
            arrays[part] = np.concatenate(list(values))
    about = {"seed": str(seed), "padding": str(tokens.padding), "notes": json.dumps(list(notes))}
    if configs:
        about["configs"] = json.dumps(list(configs))
    save_sealed(arrays, Path(folder) / name, about)
