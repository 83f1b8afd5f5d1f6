"""What a policy would have done on other runs of its models, to check it on examples that it was not made of."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd

from riskfront._cascades import confidence as confidences
from riskfront._cascades.confidence import LearntConfidence
from riskfront._cascades.gain import LearntGain
from riskfront._cascades.outcomes import (
    Outcomes,
    accounted,
    must_be_asked_as_often,
    said_by_answers,
    table_of,
    usual_times,
)
from riskfront._cascades.policy import Policy
from riskfront._cascades.routes import Stages, described
from riskfront._cascades.run_time import OF_A_CALLER
from riskfront._data.identity.copies import n_copies
from riskfront._data.identity.fingerprints import (
    COPIES,
    ExampleFingerprints,
    Repeats,
    check_repeats,
    numbers_of,
    order_free_digest,
    readable,
)
from riskfront._data.intake import Intake
from riskfront._data.logs.runs import QUESTIONS, Runs, is_text
from riskfront._data.table import LossTable
from riskfront._support.arrays import Array, FloatArray, IntArray
from riskfront.errors import InvalidInputError


def replay(policy: Policy, runs: Runs, repeats: Repeats = "refuse") -> LossTable:
    """A table of the policy, and of the references its limits compare with, on new runs of their models; or on the log of a
    policy at work, which holds one answer a request. ``repeats``: as for ``Cascade``."""
    runs, _ = runs_that_count(runs, repeats)
    if _one_answer_each(policy, runs):
        return _as_answered(policy, runs)
    limits = policy.certificate.problem.limits
    references = [limit.drop_from for limit in limits if limit.drop_from is not None]
    alone = [name for name in references if name in runs.names and (name,) != policy.models]
    lacking = [name for name in (*policy.models, *references) if name not in runs.names]
    if lacking:
        raise InvalidInputError(
            f"the new runs must hold every model of the policy and every reference; '{lacking[0]}' is missing. "
            f"Runs: {', '.join(runs.names)}."
        )
    if policy.example_fingerprints is not None:
        must_be_new(runs, policy.models, policy.example_fingerprints)
    bounds = {name: (low, high) for name, (low, high) in policy.certificate.loss_bounds.items()}
    losses = [name for name in policy.certificate.problem.losses if name in runs.values]
    runs = runs.only(list(dict.fromkeys([*policy.models, *alone])))
    outcomes, configs = _outcomes(policy, runs, alone)
    found = {name: outcomes.column(name) for name in losses}
    return table_of(configs, found, _groups(policy, runs), bounds, accounted(runs, "score"))


def _groups(policy: Policy, runs: Runs) -> dict[str, Any]:
    """Column of examples -> (examples,), of those that the limits of the policy name."""
    limits = policy.certificate.problem.limits
    used = {limit.per for limit in limits} | {limit.given for limit in limits}
    return {str(name): runs.examples[name].to_numpy() for name in runs.examples if name in used}


def _one_answer_each(policy: Policy, runs: Runs) -> bool:
    """Whether every request was answered once, by whichever model: a log of the policy at work, not of its models."""
    answered = np.sum([~np.isnan(array) for array in runs.values.values()], axis=0) > 0
    return len(policy.models) > 1 and bool((answered.sum(axis=0) == 1).all())


def _as_answered(policy: Policy, runs: Runs) -> LossTable:
    """A table of the answers that were given, and of the reference where its score stands beside them, "score of large".

    Requests that the reference was not asked on say nothing of a drop and are left out. An answer that nobody scored, such as
    that of a request which no model answered, counts as the worst.
    """
    limits = policy.certificate.problem.limits
    nobody = ("", "nan", "none")  # who answered a request that no model answered
    strange = [name for name in runs.names if name not in policy.models and name.strip().lower() not in nobody]
    if strange:
        raise InvalidInputError(
            f"a log with one answer a request must hold answers of the policy's models, {', '.join(policy.models)}; "
            f"'{strange[0]}' is none of them. Leave out what another policy answered: --where 'model != {strange[0]}'."
        )
    drops = [limit for limit in limits if limit.drop_from is not None]
    references = list(dict.fromkeys(limit.drop_from for limit in drops))
    needed = {loss for limit in limits for loss in limit.term.losses}
    own = {name: values for name in needed if (values := _logged(runs, name)) is not None}
    beside = {name: _logged(runs, name) for name in (f"{limit.loss} of {limit.drop_from}" for limit in drops)}
    lacking = [*sorted(needed - set(own)), *(name for name, column in beside.items() if column is None)]
    if lacking:
        raise InvalidInputError(
            f"a log with one answer a request must have a column '{lacking[0]}', which a limit of the policy needs; it has "
            f"{', '.join(runs.values)}. A reference is asked beside the policy on some requests, drawn at random."
        )
    read = runs.n_examples
    asked = np.logical_and.reduce([np.ones(read, bool), *(~np.isnan(c) for c in beside.values() if c is not None)])
    if not asked.any():
        raise InvalidInputError(
            f"a log with one answer a request must hold the reference's score on some requests; '{limits[0].loss} of "
            f"{references[0]}' is empty. Ask it beside the policy on some, drawn at random."
        )
    runs, own = runs.at(np.flatnonzero(asked)), {name: values[asked] for name, values in own.items()}
    unscored = int(np.logical_or.reduce([np.isnan(own[name]) for name in needed]).sum())
    intake = Intake.whole(read).without("the reference was not asked", read - runs.n_examples).with_worst(unscored)
    for name in policy.certificate.problem.losses:  # what is only minimised may be unknown
        minimised = _logged(runs, name)
        own.setdefault(name, np.full(runs.n_examples, np.nan) if minimised is None else minimised)
    losses = {}
    for name, values in own.items():
        logged = [_logged(runs, f"{name} of {reference}") for reference in references]
        # the answers' own where no limit compares this column
        losses[name] = np.stack([values, *(values if column is None else column for column in logged)])
    own_config = policy.certificate.config
    configs = [own_config, *({**dict.fromkeys(own_config, "none"), "models": name} for name in references)]
    bounds = {name: (low, high) for name, (low, high) in policy.certificate.loss_bounds.items() if name in losses}
    return LossTable(configs, losses, _groups(policy, runs), bounds).with_intake(intake)


def _logged(runs: Runs, name: str) -> FloatArray | None:
    """(examples,): a column of a log with one answer a request; None if it has none."""
    if name in runs.values:
        return np.asarray(np.fmax.reduce(runs.values[name], axis=0))
    there = name in runs.examples and runs.examples[name].dtype.kind in "biuf"
    return runs.examples[name].to_numpy(dtype=np.float64) if there else None


def _outcomes(policy: Policy, runs: Runs, alone: list[str]) -> tuple[Outcomes, pd.DataFrame]:
    """What the policy, first, and each reference by itself would have scored and taken, and the settings they are."""
    times = _times(policy, runs)
    if isinstance(policy.confidence, LearntGain):
        outcomes, routes = Outcomes.by_gain(policy.kind, runs, policy.confidence, alone, times)
        order = np.roll(np.arange(len(routes.configs)), -len(alone))  # single models come first there
        configs = routes.configs.iloc[order].reset_index(drop=True)
        return replace(outcomes, stages=outcomes.stages.at(order)), configs
    if policy.kind == "router":
        runs = confidences.known_of_prompts(runs, policy.confidence)
    limits = [np.array([t]) for t in (*policy.thresholds, *[0.0] * (len(runs) - len(policy.thresholds)))]
    stages = _stages(policy, runs, alone)
    known = _confidences(policy.confidence, policy.models, runs)
    outcomes = Outcomes.by_confidence(policy.kind, runs, policy.confidence, known, limits, stages, times)
    return outcomes, described(stages, runs.names, limits)


def _times(policy: Policy, runs: Runs) -> IntArray | None:
    """(runs,): how often the policy asks, if these runs hold several answers or it asks several times."""
    said = said_by_answers(policy.kind, runs, policy.confidence) if len(policy.models) > 1 else set()
    if said <= {OF_A_CALLER}:
        return usual_times(runs)
    must_be_asked_as_often(runs, policy.asked_how_sure, policy.samples or 1)
    return np.full(len(runs), policy.samples or 1) if "samples" in runs.values else None


def _confidences(confidence: str | LearntConfidence, models: Sequence[str], runs: Runs) -> FloatArray:
    """(runs, examples); a reference that is no stage, and a model that is alone, is never asked how sure it is."""
    unasked = np.ones(runs.n_examples)
    if isinstance(confidence, LearntConfidence):
        rows = [
            confidence.of(name, confidence.features_of(runs, name)) if name in models else unasked
            for name in runs.names
        ]
        return np.stack(rows)
    return np.tile(unasked, (len(runs), 1)) if len(models) == 1 else confidences.column(runs, confidence)


def _stages(policy: Policy, runs: Runs, alone: list[str]) -> Stages:
    """The policy first, then each reference by itself."""
    most, always = len(policy.models), len(runs)
    models = [[*range(most)], *([runs.row(name), *[-1] * (most - 1)] for name in alone)]
    gates = [[*range(most - 1)], *([always] * (most - 1) for _ in alone)]
    return Stages(np.array(models, dtype=np.int64), np.array(gates, dtype=np.int64).reshape(len(models), most - 1))


_SAME = 0.9  # from this share on, equal names and numbers are no accident


def fingerprints(runs: Runs, models: Sequence[str], columns: Sequence[str]) -> dict[str, Any]:
    """A few bytes an example, of its name and of what was logged of these models; and of its prompt, where that tells
    examples apart."""
    found = {"columns": list(columns), "examples": _packed(_first_bytes(_numbers(runs, models, columns, "<f8")))}
    prompts = _prompts(runs)
    return found if prompts is None else {**found, "prompts": _packed(prompts)}


def _packed(digests: Array) -> str:
    return base64.b64encode(digests.tobytes()).decode("ascii")


def _prompts(runs: Runs) -> Array | None:
    """A few bytes a prompt; None where prompts are not known, or of few kinds."""
    question = _question(runs)
    if question is None or question.isna().any():
        return None
    numbers = numbers_of([readable(question.to_numpy(dtype=object))])
    return None if len(np.unique(numbers)) < _SAME * len(numbers) else _first_bytes(numbers)


def contents(runs: Runs, columns: Sequence[str]) -> bytes:
    """A digest of all examples, for splits: a seed alone would pick the same positions in every file, sorted or not. In single
    precision: the last digits of a computed confidence differ between machines."""
    return hashlib.sha256(_first_bytes(_numbers(runs, sorted(runs.names), columns, "<f4")).tobytes()).digest()


def examples_digest(runs: Runs) -> str | None:
    """Of all examples in any order, by what is known of them before a call, such as prompts; None where that is little: names
    alone say nothing, because other logs count their examples in the same way."""
    known = [readable(runs.examples[name].to_numpy()) for name in runs.examples if name != "example"]
    return order_free_digest(numbers_of(known)) if known else None


def digests_of_logs(runs: Runs, score: str) -> list[str]:
    """What tells logs apart from those of other examples: the examples, and what each model scored on them, in any order."""
    names = numbers_of([readable(runs.examples["example"].astype(str).to_numpy(dtype=object))])
    scored = [
        order_free_digest(numbers_of([names, row]), named=model)
        for model, row in zip(runs.names, np.nan_to_num(runs.value(score), nan=-1.0), strict=True)
    ]
    return [digest for digest in (examples_digest(runs), *scored) if digest is not None]


def must_be_new(runs: Runs, models: Sequence[str], example_fingerprints: Mapping[str, Any]) -> None:
    """An error if nearly all of these examples are those a policy was made of."""
    columns = [name for name in example_fingerprints["columns"] if name in runs.values]
    if columns == list(example_fingerprints["columns"]):  # otherwise other things were logged: these are other logs
        _must_be_unknown(_first_bytes(_numbers(runs, models, columns, "<f8")), example_fingerprints["examples"])
    prompts = _prompts(runs)
    if prompts is not None and "prompts" in example_fingerprints:
        _must_be_unknown(prompts, example_fingerprints["prompts"])


def _must_be_unknown(digests: Array, packed: str) -> None:
    found = np.isin(digests, np.frombuffer(base64.b64decode(packed), dtype="<u4"))
    if len(found) and found.mean() >= _SAME:
        raise InvalidInputError(
            f"a check needs new examples; {found.sum():,} of these {len(found):,} are among those the policy was made of. To "
            "recompute its certificate, use verify."
        )


def runs_that_count(runs: Runs, repeats: Repeats) -> tuple[Runs, tuple[str, ...]]:
    """The runs at the examples that count, and sentences on what a guarantee on them speaks of.

    "refuse": an error if prompts come again under other names, with the same numbers of every model (a log that was copied), or
    so often that independent draws do not explain it (several answers to one prompt, each with a name of its own). "keep-one":
    without copies of the first kind. "independent": all, because the user says that equal requests came independently.
    """
    check_repeats(repeats)
    question = _question(runs)
    if question is None or not runs.values:
        return runs, ()
    known = runs.examples.drop(columns="example")
    logged = [row for values in runs.values.values() for row in values]
    found = ExampleFingerprints.of(known.astype(str), np.nan_to_num(np.stack(logged, axis=1), nan=-1.0))
    found = None if found is None else replace(found, to_the_last_digit=True)
    if found is not None and repeats != "refuse":
        kept = found.kept(repeats)
        runs, notes = (runs.at(kept.positions, COPIES) if kept.copies.any() else runs), kept.notes
        if repeats == "independent":
            return runs, notes
    else:
        notes = ()
    if repeats == "refuse" and found is not None and found.n_copies:
        raise InvalidInputError(
            f"a guarantee needs every example once; of {runs.n_examples:,} examples {found.n_copies:,} have the prompt and all "
            "numbers of another under a name of their own. Say what they are: repeats='keep-one' leaves copies of a log out; "
            "repeats='independent' declares that users sent the same prompt independently of each other."
        )
    prompts = ExampleFingerprints.of(question.dropna().astype(str))
    # how often each comes, and no more: users do send the same prompt independently of each other
    if prompts is not None and (repeated := n_copies(prompts.numbers)):
        raise InvalidInputError(
            f"a guarantee needs every example once; of {runs.n_examples:,} examples {repeated:,} have the prompt of another "
            "under a name of their own, which independent draws do not explain. Give all answers to one prompt one name: their "
            "mean counts then."
        )
    return runs, notes


def _question(runs: Runs) -> pd.Series[Any] | None:
    """(examples,): what was asked, where a column of texts tells it."""
    named = [runs.examples[name] for name in QUESTIONS if name in runs.examples]
    return next((column for column in named if is_text(column)), None)


def must_be_others(labelled: Runs, unlabelled: Runs, score: str, repeats: Repeats) -> None:
    """An error if some unlabelled examples are among the labelled ones, those included that thresholds were set on; prompts and
    numbers tell that under other names too."""
    both = [labelled, unlabelled]
    columns = [name for name in unlabelled.values if name in labelled.values and name != score]
    asked = [question.astype(str) for runs in both if (question := _question(runs)) is not None]
    if len(asked) == 2 and repeats == "refuse":
        prompts = pd.concat(asked)
        rows = [
            np.concatenate([runs.value(name)[runs.row(model)] for runs in both])
            for name in columns
            for model in unlabelled.names
        ]
        found = ExampleFingerprints.of(prompts, np.nan_to_num(np.stack(rows, axis=1), nan=-1.0)) if rows else None
        if found is not None and found.n_copies:
            raise InvalidInputError(
                "unlabelled examples must be others than the labelled ones; "
                f"{found.n_copies:,} have the prompt and all numbers of another. Leave these out."
            )
    models = sorted(unlabelled.names)
    if not columns:
        return
    shared = np.isin(_numbers(unlabelled, models, columns, "<f8"), _numbers(labelled, models, columns, "<f8"))
    if shared.any():
        raise InvalidInputError(
            "unlabelled examples must be others than the labelled ones, and than those set aside for confidence and "
            f"thresholds; {int(shared.sum()):,} are among them. Leave these out."
        )


def _first_bytes(numbers: Array) -> Array:
    """(n,): the first four of the eight bytes of each number."""
    return numbers.astype("<u8").view("<u4")[::2]


def _numbers(runs: Runs, models: Sequence[str], columns: Sequence[str], kind: str) -> Array:
    """(examples,): a number of 64 bits for each, of its name and of what was logged of these models."""
    own = runs.only(list(models))
    numbers = np.concatenate([own.value(name) for name in columns]).astype(kind)
    numbers[np.isnan(numbers)] = np.nan  # the same bytes for every kind of nan
    names = readable(own.examples["example"].astype(str).to_numpy(dtype=object))
    return numbers_of([names, *numbers])
