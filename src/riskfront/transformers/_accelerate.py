"""accelerate: from a pretrained encoder and labelled texts to a certified, faster classifier in one folder."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from riskfront._calibration.certificates.certificate import Certificate
from riskfront._calibration.certificates.choice import choose
from riskfront._calibration.certificates.uses_of_test_set import UseOfTestSet
from riskfront._data.table import LossTable
from riskfront._problems.problem import Problem
from riskfront._problems.spaces.space import Space
from riskfront._support.arrays import IntArray
from riskfront.errors import InvalidInputError
from riskfront.methods import Method, make_method
from riskfront.methods._evidence.limit_tests import Evidence
from riskfront.methods._plan import parameters
from riskfront.search import STRATEGIES, Search
from riskfront.transformers._adaptive_classifier import AdaptiveClassifier
from riskfront.transformers._certifying import (
    FROM_THE_FULL_MODEL,
    TRACES,
    UNLABELLED,
    Split,
    Traced,
    certify_in_order,
    certify_planned,
    has_known_order,
    keep_examples,
    record_question,
    settings_to_plan,
    usual_choice,
)
from riskfront.transformers._data.known_texts import Learnt, fresh_texts, unlabelled_contents, unlabelled_texts
from riskfront.transformers._data.texts import (
    LabelledTexts,
    Rows,
    TextParts,
    contents_learnt_from,
    read_texts,
    split_texts,
)
from riskfront.transformers._folder import encoder_of, must_be_free
from riskfront.transformers._learning.training import Training, train
from riskfront.transformers._pruning.disagreement import TraceWithUnlabelled, check_proxies, with_disagreement
from riskfront.transformers._pruning.latency import Clock, clocks_of
from riskfront.transformers._pruning.pruning_trace import PruningTrace
from riskfront.transformers._pruning.thresholds import Grid, Thresholds, make_thresholds
from riskfront.transformers._speed_up import alternatives, measure_gain, save_alternatives

BINARY = ("accuracy_drop_clipped", "error", "answered")
COLUMNS = (
    "accuracy_drop",
    "accuracy_drop_clipped",
    "error",
    "relative_cost",
    "flops",
    "latency",
    "answered",
    "confidence",
)


@dataclass(frozen=True)
class Plan:
    """Everything about an acceleration that is not the task itself.

    Args:
        training: of the encoder and of the small networks.
        rows: for training, validation and calibration.
        grid: the settings to choose from.
        method: how to plan the tests.
        search: "grid" traces every pair of head and token thresholds on planning examples; "random", "optuna", "guided" and the
            like try `budget` settings.
        seed: of all that is drawn at random.
        leave_out_repeats: go on without calibration rows whose text was learnt from or is that of another; an error otherwise.
        choose: which of the chosen settings to use, as in `certificate.choose`. By default the first; with
            several values of lambda, the cheapest if the full model had to answer whatever is left unanswered.
        learnt_from: files or data frames with texts that the model learnt from before.
    """

    training: Training = field(default_factory=Training)
    rows: Rows = field(default_factory=Rows)
    grid: Grid = field(default_factory=Grid)
    method: str | Method = "pareto-testing"
    search: str | Search = "grid"
    budget: int = 200
    seed: int = 0
    batch_size: int = 32
    leave_out_repeats: bool = False
    choose: str = ""
    learnt_from: Sequence[str | os.PathLike[str] | pd.DataFrame] = ()

    def __post_init__(self) -> None:
        """Before hours of training: what can be known to be wrong now."""
        if make_method(self.method).opt_fraction == 0:
            raise InvalidInputError(f"method must plan on planning examples; {self.method!r} uses none.")
        if isinstance(self.search, str) and self.search not in STRATEGIES:
            raise InvalidInputError(f"search must be one of {sorted(STRATEGIES)}; got {self.search!r}.")


def accelerate(
    model: str | os.PathLike[str],
    data: str | os.PathLike[str] | pd.DataFrame | Any,
    problem: Problem,
    out: str | os.PathLike[str],
    plan: Plan | None = None,
    *,
    unlabelled: str | os.PathLike[str] | pd.DataFrame | Any = None,
    device: str | None = None,
    say: Callable[[str], None] = lambda line: None,
    progress: bool | None = None,
) -> AdaptiveClassifier:
    """Train what is missing, find and certify thresholds, and write a folder that `AdaptiveClassifier.from_pretrained` loads.

    Args:
        model: a folder or hub name of an encoder, such as BERT, RoBERTa, DeBERTa-v3 or ModernBERT.
        data: a Parquet or CSV file, a data frame, or a Hugging Face data set (`Dataset`, `DatasetDict` or a name), with columns
            `text`, or `text_a` and `text_b`, and `label`, and optionally `split`.
        problem: limits and objectives on the columns of `PruningTrace`.
        out: the folder. Whatever was finished in it is not done again.
        plan: rows, training, thresholds, method and seed.
        unlabelled: texts without labels, at least as many as calibration texts, in a file, a data frame or a data set: whether
            a setting agrees with the full model on them sharpens the test of limits on the accuracy drop. They are traced at
            every setting, as the calibration texts are.
        device: such as "cuda"; by default CUDA where there is one.
        say: told in a line what is done.

    The result's `certificate` may be empty: then no setting keeps the limits for sure, and `predict` refuses.
    """
    plan, folder = plan or Plan(), Path(out)
    trained, parts = trained_parts(
        model, data, problem, folder, plan, unlabelled=unlabelled, device=device, say=say, progress=progress
    )
    return certify(trained, parts, problem, folder, plan, unlabelled=unlabelled, say=say, progress=progress)


def trained_parts(
    model: str | os.PathLike[str],
    data: str | os.PathLike[str] | pd.DataFrame | Any,
    problem: Problem,
    folder: Path,
    plan: Plan,
    *,
    unlabelled: str | os.PathLike[str] | pd.DataFrame | Any = None,
    device: str | None = None,
    say: Callable[[str], None] = lambda line: None,
    progress: bool | None = None,
) -> tuple[AdaptiveClassifier, TextParts]:
    """Read and check everything, then train what is missing."""
    check_problem(problem, plan.grid, unlabelled=unlabelled is not None)
    must_be_free(folder)
    parts = read_parts(data, plan)
    before = (declared(Learnt.load(encoder_of(model)), plan) or Learnt()).and_from(parts.train.contents)
    fresh_texts(parts, before, leave_out=plan.leave_out_repeats)  # said before hours of training, not after
    if unlabelled is not None:
        unlabelled_texts(unlabelled, parts, before, leave_out=plan.leave_out_repeats)
    return train_parts(model, parts, folder, plan, device=device, say=say, progress=progress), parts


def train_parts(
    model: str | os.PathLike[str],
    parts: TextParts,
    folder: Path,
    plan: Plan,
    *,
    device: str | None = None,
    say: Callable[[str], None] = lambda line: None,
    progress: bool | None = None,
) -> AdaptiveClassifier:
    """Train what is missing in the folder of an acceleration."""
    prunes = plan.grid.token > 1 or plan.grid.head > 1  # exits learn from texts with tokens and heads dropped
    options: dict[str, Any] = {"prunes": prunes, "device": device, "say": say, "progress": progress}
    trained = train(model, parts, folder / "training", plan.training, **options)
    return replace(trained, learnt=declared(trained.learnt, plan))


def declared(learnt: Learnt | None, plan: Plan) -> Learnt | None:
    """What a model learnt from, with the files that the user names; then nothing is unknown."""
    if not plan.learnt_from:
        return learnt
    named = [content for source in plan.learnt_from for content in contents_learnt_from(source)]
    return replace(learnt or Learnt(), elsewhere=False).and_from(named)


def read_parts(data: str | os.PathLike[str] | pd.DataFrame | Any, plan: Plan, *, learning: bool = True) -> TextParts:
    """The rows to train, validate and calibrate with; only the last two unless something is to be learnt."""
    return split_texts(read_texts(data), plan.rows, seed=plan.seed, learning=learning)


def certify(
    trained: AdaptiveClassifier,
    parts: TextParts,
    problem: Problem,
    folder: str | os.PathLike[str],
    plan: Plan | None = None,
    *,
    unlabelled: str | os.PathLike[str] | pd.DataFrame | Any = None,
    say: Callable[[str], None] = lambda line: None,
    progress: bool | None = None,
) -> AdaptiveClassifier:
    """Find thresholds on some calibration texts, certify them on the others, and write the classifier.

    Texts that the model learnt from are refused, wherever they come from, or left out, as the plan says.
    """
    plan, target = plan or Plan(), Path(folder)
    elsewhere = unlabelled_contents(unlabelled)
    fresh = fresh_texts(parts, trained.learnt, leave_out=plan.leave_out_repeats, unlabelled=elsewhere)
    thresholds = thresholds_of(trained, parts.validation, plan, problem)
    clocks = None
    if "latency" in problem.losses:
        clocks = clocks_of(trained.network, trained.max_length, thresholds.precision, target / "traces")
    own = trace_of(trained, fresh.texts, target, plan, progress=progress, clocks=clocks)
    trace: PruningTrace | TraceWithUnlabelled = own
    notes = fresh.notes
    if unlabelled is not None:
        problem = with_disagreement(problem)
        others = unlabelled_texts(unlabelled, parts, trained.learnt, leave_out=plan.leave_out_repeats)
        traced = trace_of(trained, others.texts, target, plan, progress=progress)
        trace, notes = TraceWithUnlabelled(own, traced, plan.seed), (*notes, *others.notes)
    space = thresholds.space
    ordered = unlabelled is None and has_known_order(plan.method, plan.search, thresholds, problem)
    asked: dict[str, Any] = {"notes": notes, "ordered": ordered, "say": say, "progress": progress}
    certificate, test = certify_trace(trace, space, problem, plan, target, fresh.texts.contents, **asked)
    if isinstance(trace, TraceWithUnlabelled):
        keep_examples(target, trace.elsewhere, plan.seed, UNLABELLED)
    used = frozenset(fresh.texts.contents).union(elsewhere)
    found = replace(trained, certificate=certificate, calibrated=used)
    keep_examples(target, own, plan.seed, notes=notes, configs=space.grid(1) if ordered else ())
    found.save_pretrained(target)
    if certificate:
        measure_gain(found, own, test).save(target)
        save_alternatives(target, alternatives(found, own, parts.train, fresh.texts))
    return found


def certify_trace(
    trace: Traced,
    space: Space,
    problem: Problem,
    plan: Plan,
    folder: Path,
    contents: Sequence[bytes],
    *,
    notes: tuple[str, ...],
    ordered: bool = False,
    say: Callable[[str], None],
    progress: bool | None,
) -> tuple[Certificate, IntArray]:
    """The certificate of the settings that the plan searches, or of all in their known order, and which texts tested them."""
    budget = (space.size or plan.budget) if plan.search == "grid" else plan.budget
    say(f"calibrating on {len(trace):,} texts, {budget:,} settings ...")
    method = FROM_THE_FULL_MODEL if ordered else make_method(plan.method)
    searched: dict[str, Any] = {"search": plan.search, "budget": budget, "seed": plan.seed}
    named = plan.search if isinstance(plan.search, str) else type(plan.search).__qualname__
    decided_by = [plan.seed, space.to_dict(), named, budget, trace.fingerprint]
    said = f"seed {plan.seed}, {budget} settings"
    use = UseOfTestSet.of(problem, method.name, parameters(method), decided_by=decided_by, said=said)
    earlier = record_question(folder, contents, use)
    split = Split.of(trace, method.opt_fraction, plan.seed)
    if ordered:
        certificate = certify_in_order(trace, space.grid(1), problem, plan.seed)
    else:
        configs = settings_to_plan(trace, space, problem, split, **searched, progress=progress)
        certificate = certify_planned(trace, configs, problem, method, split, progress=progress)
    certificate = replace(certificate, notes=notes, guaranteed=method.guaranteed).after(earlier)
    return choose(certificate, plan.choose or usual_choice(certificate, trace, split.test)), split.test


def thresholds_of(
    trained: AdaptiveClassifier, validation: LabelledTexts, plan: Plan, problem: Problem | None = None
) -> Thresholds:
    """The settings to choose from, laid out by validation texts; the problem says whether other precisions could pay."""
    grid = plan.grid
    precision = grid.precision or ("float32",) if problem is None else grid.precisions(problem, trained.network)
    return make_thresholds(trained.network, trained.tokenize(validation.examples), grid, precision, plan.batch_size)


def trace_of(
    trained: AdaptiveClassifier,
    texts: LabelledTexts,
    folder: Path,
    plan: Plan,
    *,
    progress: bool | None = None,
    clocks: Mapping[str, Clock] | None = None,
) -> PruningTrace:
    """A trace whose passes are kept in `folder`, so that a killed run goes on and another limit costs no pass."""
    if trained.learnt is not None:
        trained.learnt.check_new(texts.contents)
    return PruningTrace(
        trained.network,
        trained.tokenize(texts.examples),
        texts.reordered(trained.classes).labels,
        classes=trained.classes,
        folder=folder / TRACES,
        batch_size=plan.batch_size,
        progress=progress,
        clocks=clocks,
    )


def check_problem(problem: Problem, grid: Grid | None = None, *, unlabelled: bool = False) -> None:
    """Before hours of training: every name must be a column that a trace has."""
    if unlabelled or any(limit.proxy is not None for limit in problem.limits):
        check_proxies(problem, unlabelled=unlabelled)
    if unlabelled:
        with_disagreement(problem)
    problem = problem.with_limits([replace(limit, proxy=None) for limit in problem.limits])
    unknown = [name for name in problem.losses if name not in COLUMNS]
    if unknown:
        raise InvalidInputError(f"limits and objectives must be among {list(COLUMNS)}; got {unknown}.")
    groups = [term.per for term in problem.terms if term.per not in (None, "label")]
    if groups:
        raise InvalidInputError(f"limits can hold per label; got per {groups[0]}.")
    endless = [limit.loss for limit in problem.limits if limit.loss in ("flops", "latency") and limit.quantile is None]
    if endless:
        raise InvalidInputError(
            f"{endless[0]} can be minimised but not limited: it has no largest value; limit relative_cost."
        )
    if grid is not None and len(grid.abstain) > 1 and "answered" not in problem.losses:
        raise InvalidInputError(
            "abstaining must cost something: with several values of lambda, add the objective 'maximize answered', or a limit "
            "such as 'answered >= 0.8'."
        )
    kinds = {name: np.zeros((1, 2), dtype=bool if name in BINARY else np.float32) for name in COLUMNS}
    Evidence.of_planning(problem, LossTable([{"tau_layer": 0.0}], kinds, {"label": [0, 1]}, PruningTrace.bounds))
