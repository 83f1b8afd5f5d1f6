"""Everyday words for a classifier's limits and objectives, spelled out in its 0/1 outcomes.

As in scikit-learn, an example without an answer is no positive answer: a positive one is missed. Accuracy is that of
the answers.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from difflib import get_close_matches
from itertools import combinations

from riskfront._problems.limits import Limit, split_limits
from riskfront._problems.objectives import Objective
from riskfront._problems.problem import Problem
from riskfront.errors import InvalidInputError
from riskfront.estimators._decision_thresholds import COMMON, TWO_CLASSES
from riskfront.estimators._known_order import known_order

#: word -> outcome and condition whose mean it is. F1 is a ratio of means and has none
_WORDS: dict[str, tuple[str, str | None]] = {
    "precision": ("true_positive", "predicted_positive"),
    "ppv": ("true_positive", "predicted_positive"),
    "positive_predictive_value": ("true_positive", "predicted_positive"),
    "npv": ("true_negative", "predicted_negative"),
    "negative_predictive_value": ("true_negative", "predicted_negative"),
    "recall": ("true_positive", "positive"),
    "sensitivity": ("true_positive", "positive"),
    "tpr": ("true_positive", "positive"),
    "true_positive_rate": ("true_positive", "positive"),
    "specificity": ("true_negative", "negative"),
    "tnr": ("true_negative", "negative"),
    "true_negative_rate": ("true_negative", "negative"),
    "fpr": ("false_positive", "negative"),
    "false_positive_rate": ("false_positive", "negative"),
    "fnr": ("missed_positive", "positive"),
    "false_negative_rate": ("missed_positive", "positive"),
    "fdr": ("false_positive", "predicted_positive"),
    "false_discovery_rate": ("false_positive", "predicted_positive"),
    "accuracy": ("correct", "answered"),
    "error_rate": ("error", None),
    "coverage": ("answered", None),
    "abstention": ("abstained", None),
}
#: outcomes of which an example has at most one; exactly one; and exactly one among the examples of a condition
_COMPLEMENTS = ({"answered", "abstained"},)
_EXCLUDE = (
    *({"error", "correct"}, {"abstained", "error"}, {"abstained", "correct"}, *_COMPLEMENTS),
    *({"true_negative", "false_positive"}, {"true_positive", "false_positive"}, {"true_negative", "false_negative"}),
    *({"true_positive", "false_negative"}, {"true_positive", "missed_positive"}),
    {"predicted_positive", "predicted_negative"},
)
_AMONG: dict[str | None, tuple[set[str], ...]] = {
    "answered": ({"error", "correct"},),
    "positive": ({"true_positive", "missed_positive"},),
    "predicted_positive": ({"true_positive", "false_positive"},),
    "predicted_negative": ({"true_negative", "false_negative"},),
}
_F1 = {"true_positive": 1.0, "false_positive": 0.5, "missed_positive": 0.5}
_F1_WORDS = ("f1", "f1_score")
#: the words that limits may use beside the names of outcomes
WORDS = (*_WORDS, *_F1_WORDS)
#: what to write instead of a measure that has no limit here
_INSTEAD = {
    "balanced_accuracy": "Limit its two parts: 'recall >= 0.9 and specificity >= 0.9'.",
    "auc": "No threshold changes it: limit what the threshold decides, such as recall or precision.",
    "roc_auc": "No threshold changes it: limit what the threshold decides, such as recall or precision.",
    "average_precision": "No threshold changes it: limit what the threshold decides, such as recall or precision.",
}


def spelled_out(limits: str | Limit | Sequence[str | Limit]) -> list[Limit]:
    """The limits in terms of outcomes; each keeps the words by which it was asked for."""
    # what is no limit at all is left for the problem to refuse
    listed = [limits] if isinstance(limits, str | Limit) or not isinstance(limits, Iterable) else list(limits)
    parts = [part for limit in listed for part in (split_limits(limit) if isinstance(limit, str) else [limit])]
    made = [_limit(Limit.parse(part) if isinstance(part, str) else part) for part in parts]
    limited = [limit for limit in made if isinstance(limit, Limit)]
    for limit in limited:
        _check_share(limit)
    _check_together(limited)
    return made


def objectives_spelled_out(objectives: str | Objective | Sequence[str | Objective]) -> list[str | Objective]:
    """The same for objectives."""
    if isinstance(objectives, str | Objective) or not isinstance(objectives, Iterable):
        return [_objective(objectives)]
    return [_objective(objective) for objective in objectives]


def default_objectives(
    limits: Sequence[Limit], maximize: Sequence[str | Objective]
) -> tuple[list[str | Objective], list[str | Objective]]:
    """(minimize, maximize) where the user named nothing to minimise."""
    if maximize:
        return [], list(maximize)
    named = {name for limit in limits if isinstance(limit, Limit) for name in (*limit.term.losses, limit.given)}
    if named.isdisjoint(TWO_CLASSES) or "answered" in named or "abstained" in named:
        return ["abstained"], []
    order = known_order(Problem(limits, "error"), "threshold")
    if order is None:
        return ["error"], []
    return [], [_objective("precision" if order.safest == "low" else "recall")]


def unknown_word(said: str, losses: Sequence[str], *, two: bool) -> InvalidInputError:
    """The error for what a limit or an objective names and the model's answers do not have, with what to write instead."""
    word = _word(said)
    if word in _INSTEAD:
        return InvalidInputError(f"there is no loss '{said}'. {_INSTEAD[word]}")
    if not two and (said in TWO_CLASSES or word in WORDS):
        return InvalidInputError(
            f"'{said}' is for two classes, and the model has more. The recall of every class is 'correct >= 0.9 per label'; "
            "accuracy, error, coverage and abstention are for any number of classes."
        )
    if word in _F1_WORDS:
        return InvalidInputError(f"'{said}' may be limited, and is no mean to optimise. Maximise recall or precision.")
    names = [*WORDS, *losses] if two else ["accuracy", "coverage", "abstention", *losses]
    near = get_close_matches(word, names, n=1)
    hint = f" Did you mean '{near[0]}'?" if near else ""
    return InvalidInputError(f"there is no loss '{said}'; known: {', '.join(names)}.{hint}")


def _word(loss: str) -> str:
    return loss.strip().lower().replace(" ", "_").replace("-", "_")


def _limit(limit: Limit) -> Limit:
    if not isinstance(limit, Limit) or limit.over:
        return limit
    word = _word(limit.loss)
    if word in _F1_WORDS and limit.given is None:
        return replace(limit, loss="true_positive", over=_F1, said=limit.loss)
    if word not in _WORDS:
        return limit
    loss, given = _WORDS[word]
    if given is not None and limit.given is not None:
        raise InvalidInputError(
            f"'{limit.loss}' has a condition of its own ({given}); got 'given {limit.given}' too. Write "
            f"'{loss} ... given ...' with the one condition that you mean."
        )
    return replace(limit, loss=loss, given=given or limit.given, said=limit.loss)


def _check_share(limit: Limit) -> None:
    """All outcomes of a classifier are shares."""
    other_kinds = (limit.drop_from, limit.quantile, limit.worst)
    if limit.loss not in (*COMMON, *TWO_CLASSES):  # a cost, or an unknown word, which the table refuses by name
        return
    if any(one is not None for one in other_kinds) or 0 <= limit.value <= 1:
        return
    raise InvalidInputError(
        f"a limit on '{limit.name}' must lie between 0 and 1, or be a percentage; got {limit.value:g}."
        f"{limit.meant_percentage(0, 1)}"
    )


def _check_together(limits: Sequence[Limit]) -> None:
    """Raise an error where no rule could keep two limits, such as "recall >= 0.9" and "fnr >= 0.5"."""
    for limit, other in combinations(limits, 2):
        if (limit.given, limit.per) != (other.given, other.per) or any((limit.over, other.over)):
            continue
        least, most = (limit.at_least, other.at_least), (limit.at_most, other.at_most)
        pair = {limit.loss, other.loss}
        same = len(pair) == 1 and any(
            low is not None and high is not None and low > high
            for low, high in (least[:1] + most[1:], least[1:] + most[:1])
        )
        both_large = pair in _EXCLUDE and None not in least and sum(least) > 1  # type: ignore[arg-type]
        both_small = (pair in _COMPLEMENTS or (pair in _AMONG.get(limit.given, ()))) and None not in most
        if same or both_large or (both_small and sum(most) < 1):  # type: ignore[arg-type]
            raise InvalidInputError(f"limits must not contradict each other; got '{limit}' and '{other}'.")


def _objective(objective: str | Objective) -> str | Objective:
    made = Objective.parse(objective) if isinstance(objective, str) else objective
    if not isinstance(made, Objective) or made.given is not None or _word(made.loss) not in _WORDS:
        return objective
    loss, given = _WORDS[_word(made.loss)]
    return replace(made, loss=loss, given=given, said=made.loss)


def of_clusters(problem: Problem) -> Problem:
    """The problem for rows that are averaged by cluster: a mean among selected rows becomes a ratio of two means.

    Objectives have no ratios: precision becomes few false alarms, recall many hits, and others lose their condition.
    """
    limits = [
        limit if limit.given is None else replace(limit, given=None, over=limit.given, said=limit.name, p_value="auto")
        for limit in problem.limits
    ]
    objectives = [
        objective if objective.given is None else _without_condition(objective) for objective in problem.objectives
    ]
    small, large = ([one for one in objectives if one.maximize is side] for side in (False, True))
    return Problem(limits, small, large, delta=problem.delta)


def _without_condition(objective: Objective) -> Objective:
    if (objective.loss, objective.given) == ("true_positive", "predicted_positive"):
        return Objective("false_positive", per=objective.per)
    return replace(objective, given=None, said=None)
