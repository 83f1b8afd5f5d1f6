"""accelerate_cascade: from a small model, a pretrained encoder and labelled texts to a certified cascade in one folder."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd

from riskfront._problems.problem import Problem
from riskfront.errors import InvalidInputError
from riskfront.transformers._accelerate import (
    Plan,
    certify_trace,
    check_problem,
    declared,
    read_parts,
    thresholds_of,
    trace_of,
    train_parts,
)
from riskfront.transformers._adaptive_classifier import AdaptiveClassifier
from riskfront.transformers._cascade.cascade_classifier import CascadeClassifier, both_learnt, class_order
from riskfront.transformers._cascade.cascade_trace import COLUMNS, CascadeTrace, cascade_space, small_thresholds
from riskfront.transformers._cascade.small_pipeline import PipelineTrace, SmallPipeline
from riskfront.transformers._certifying import CALIBRATION, keep_examples
from riskfront.transformers._data.known_texts import Learnt, fresh_texts
from riskfront.transformers._data.texts import TextParts
from riskfront.transformers._folder import encoder_of, must_be_free
from riskfront.transformers._pruning.pruning_trace import PruningTrace
from riskfront.transformers._pruning.thresholds import Grid
from riskfront.transformers._speed_up import alternatives, measure_gain, save_alternatives

MOST = 100_000  # settings on a grid: minutes, where each takes milliseconds


def accelerate_cascade(
    small: str | os.PathLike[str] | Any,
    large: str | os.PathLike[str],
    data: str | os.PathLike[str] | pd.DataFrame | Any,
    problem: Problem,
    out: str | os.PathLike[str],
    plan: Plan | None = None,
    *,
    n_small: int = 30,
    device: str | None = None,
    say: Callable[[str], None] = lambda line: None,
    progress: bool | None = None,
) -> CascadeClassifier:
    """Train both models on the same rows, find and certify thresholds, and write a folder.

    Args:
        small: folder or hub name of an encoder, or a scikit-learn pipeline from texts to probabilities, such as
            `make_pipeline(TfidfVectorizer(), LogisticRegression())`. A copy of it is fitted, `cascade.small.model`; pass it
            to `from_pretrained`. Its cost is counted as that of a linear classifier on words.
        large: folder or hub name of an encoder; accuracy drops are measured against it alone.
        problem: limits and objectives on the columns of `CascadeTrace`.
        plan: as for `accelerate`; by default 30 exit thresholds and neither heads nor tokens pruned, which needs one pass
            through each encoder.
        n_small: thresholds at which texts stay with the small encoder, 0 (never) included.
        data: as for `accelerate`, and so are ``out``, ``device`` and ``say``.
    """
    plan, folder = plan or Plan(grid=Grid(head=1, token=1, layer=30)), Path(out)
    check_cascade_problem(problem, plan.grid)
    check_size(plan, n_small)
    must_be_free(folder)
    parts = read_parts(data, plan)
    by_words = not isinstance(small, str | os.PathLike)
    known = [declared(Learnt.load(encoder_of(m)), plan) or Learnt() for m in ((large,) if by_words else (small, large))]
    before = known[0].and_from(known[-1].contents).and_from(parts.train.contents)
    fresh_texts(parts, before, leave_out=plan.leave_out_repeats)  # said before hours of training, not after

    def trained(name: str, model: str | os.PathLike[str]) -> AdaptiveClassifier:
        say(f"{name}: {os.fspath(model)}")
        return train_parts(model, parts, folder / name, plan, device=device, say=say, progress=progress)

    first = SmallPipeline.fit(small, parts.train) if by_words else trained("small", small)
    second = trained("large", large)
    return certify_cascade(first, second, parts, problem, folder, plan, n_small=n_small, say=say, progress=progress)


def certify_cascade(
    small: AdaptiveClassifier | SmallPipeline,
    large: AdaptiveClassifier,
    parts: TextParts,
    problem: Problem,
    folder: str | os.PathLike[str],
    plan: Plan,
    *,
    n_small: int = 30,
    say: Callable[[str], None] = lambda line: None,
    progress: bool | None = None,
) -> CascadeClassifier:
    """Find thresholds on some calibration texts, certify them on the others, and write the cascade.

    Texts that either encoder learnt from are refused, or left out, as the plan says.
    """
    target = Path(folder)
    check_cascade_problem(problem, plan.grid)
    learnt = large.learnt if isinstance(small, SmallPipeline) else both_learnt(small.learnt, large.learnt)
    fresh = fresh_texts(parts, learnt, leave_out=plan.leave_out_repeats)
    held: PruningTrace | PipelineTrace
    first: PruningTrace | PipelineTrace
    if isinstance(small, SmallPipeline):
        held, first = small.trace_of(parts.validation), small.trace_of(fresh.texts)
    else:
        validation = parts.validation.reordered(small.classes)
        held = PruningTrace(small.network, small.tokenize(validation.examples), validation.labels, progress=progress)
        first = trace_of(small, fresh.texts, target / "small", plan, progress=progress)
    space = cascade_space(thresholds_of(large, parts.validation, plan), small_thresholds(held, n_small))
    second = trace_of(large, fresh.texts, target / "large", plan, progress=progress)
    trace = CascadeTrace(first, second, class_order(small.classes, large.classes))
    asked: dict[str, Any] = {"notes": fresh.notes, "say": say, "progress": progress}
    certificate, test = certify_trace(trace, space, problem, plan, target, fresh.texts.contents, **asked)
    found = CascadeClassifier(small, large, certificate, calibrated=frozenset(fresh.texts.contents))
    if isinstance(first, PipelineTrace):
        first.save(target / "small" / CALIBRATION)
    else:
        keep_examples(target / "small", first, plan.seed)
    keep_examples(target / "large", second, plan.seed, notes=fresh.notes)
    found.save_pretrained(target)
    if certificate:
        measure_gain(found, trace, test, fresh.texts).save(target)
        rows = alternatives(found, trace, parts.train, fresh.texts, full=(found.large, second))
        save_alternatives(target, rows)
    return found


def check_size(plan: Plan, n_small: int) -> None:
    """Before hours of training: the thresholds of both encoders multiply."""
    grid = plan.grid
    others = len(grid.abstain) * len(grid.precision or ("float32",)) * grid.depth
    n = grid.head * grid.token * grid.layer * n_small * others
    if plan.search == "grid" and n > MOST:
        raise InvalidInputError(
            f"the grid of a cascade can have at most {MOST:,} settings; {n:,} were asked for. Take fewer thresholds, such as 1 "
            "for heads, 1 for tokens and 30 for exits, or search='guided'."
        )


def check_cascade_problem(problem: Problem, grid: Grid) -> None:
    """Before hours of training: every name must be a column that a cascade has."""
    check_problem(problem, grid)
    missing = [name for name in problem.losses if name not in COLUMNS]
    if missing:
        raise InvalidInputError(
            f"limits and objectives of a cascade must be among {list(COLUMNS)}; got {missing}, which compare or clock a single "
            "model: minimise flops."
        )
