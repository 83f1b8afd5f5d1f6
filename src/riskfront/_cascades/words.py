"""A cascade or router in words: the rule, what it was learnt from, who answers, and what it saves."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from riskfront._calibration.certificates.certificate import Certificate
from riskfront._calibration.certificates.verdict import PRICES, listed
from riskfront._calibration.frontier_result import Frontier
from riskfront._cascades.comparison import DROPS
from riskfront._cascades.confidence import LearntConfidence
from riskfront._cascades.gain import LearntGain
from riskfront._cascades.routes import LEVEL, THEN
from riskfront._support.values import plain

if TYPE_CHECKING:
    from riskfront._cascades.cascade import Cascade
    from riskfront._cascades.policy import Policy

_MOST_LEVELS, _MOST_NAMED = 6, 3
_SELDOM = 0.005


def what_decides(made: Cascade) -> list[str]:
    """What the confidence or the gain is, what it was learnt from, and which columns were left out."""
    learnt, aside = made.confidence, f"{made.n_aside:,} examples that are set aside"
    if isinstance(learnt, str):
        return [f"Confidence: '{learnt}' as it was logged."]
    if isinstance(learnt, LearntConfidence):
        return [
            f"Confidence: the probability that an answer is right, learnt from {listed(list(learnt.features))} on {aside}."
        ]
    named = listed(list(learnt.features)) if learnt.features else "nothing but the means of each model"
    learner = "linear model" if learnt.fitted["learner"] == "linear" else "model of boosted trees"
    said = [f"What each model would score and cost is learnt from {named} on {aside} (by a {learner}, cross-fitted)."]
    if learnt.left_out:
        said.append("Left out: " + "; ".join(f"{name} ({why})" for name, why in learnt.left_out.items()) + ".")
    return said


def filtered_by(filters: Sequence[str]) -> list[str]:
    """A sentence on the examples that filters left, of which alone a guarantee speaks."""
    return [f"This holds where {' and '.join(filters)}: other examples were left out (--where)."] if filters else []


def comparison_rows(made: Cascade) -> tuple[str, list[str], list[list[Any]]] | None:
    """Title, headers and rows: the learnt rule beside trivial ones, on the examples it was learnt from."""
    if not isinstance(made.confidence, LearntGain):
        return None
    title = f"\nPrice relative to the best model, on the {made.n_aside:,} examples set aside, by cross-fitting"
    rows = [[rule, *prices.values()] for rule, prices in made.confidence.comparison.items()]
    return title, ["rule", *(f"drop {drop:g}" for drop in DROPS)], rows


def rule(policy: Policy) -> str:
    """The rule of a policy."""
    if isinstance(policy.confidence, LearntGain):
        return _rule_by_gain(policy.confidence, policy.confidence.starts[0], policy.thresholds[0])
    return _rule_by_confidence(policy.kind, policy.confidence, policy.models, policy.thresholds)


def rules_in_words(made: Cascade, frontier: Frontier) -> dict[str, str]:
    """Setting as JSON -> its rule, for every setting that is chosen somewhere on the frontier."""
    columns = list(frontier.setting_columns.values())
    found = {}
    for record in frontier.path[columns].drop_duplicates().to_dict("records"):
        config = {name: plain(record[column]) for name, column in zip(frontier.setting_columns, columns, strict=True)}
        found[json.dumps(config, ensure_ascii=False)] = rule_in_words(made.kind, made.confidence, config)
    return found


def rule_in_words(kind: str, confidence: str | LearntConfidence | LearntGain, config: Mapping[str, Any]) -> str:
    """The rule of one setting: "Ask small; if its 'sure' is below 0.5, ask large."."""
    models = str(config["models"]).split(THEN)
    if isinstance(confidence, LearntGain):
        if config[LEVEL] == "none":
            return _always(models[0])
        return _rule_by_gain(confidence, models[0] if kind == "cascade" else None, float(config[LEVEL]))
    limits = [float(config[f"threshold {stage + 1}"]) for stage in range(len(models) - 1)]
    return _rule_by_confidence(kind, confidence, models, limits)


def _always(model: str) -> str:
    return f"Always ask {model}."


def _rule_by_confidence(
    kind: str, confidence: str | LearntConfidence, models: Sequence[str], limits: Sequence[float]
) -> str:
    if len(models) == 1:
        return _always(models[0])
    learnt = isinstance(confidence, LearntConfidence)
    if kind == "router":
        parts = [
            f"go to {name} if it is at least {100 * limit:.4g} % sure to be right"
            if learnt
            else f"go to {name} if '{confidence}' is at least {limit:.6g}"
            for name, limit in zip(models, limits, strict=False)
        ]
        return f"Prompts {', else '.join(parts)}; the others go to {models[-1]}."
    text = f"Ask {models[0]}"
    for limit, following in zip(limits, models[1:], strict=True):
        sure = f"it is less than {100 * limit:.4g} % sure" if learnt else f"its '{confidence}' is below {limit:.6g}"
        text += f"; if {sure}, ask {following}"
    return text + "."


def _rule_by_gain(learnt: LearntGain, start: str | None, level: float) -> str:
    score = learnt.fitted["score"]
    unit, dollar = ("$", "dollar") if learnt.price in PRICES else ("", f"unit of {learnt.price}")
    if level <= 0:
        adds = f"is predicted to add at least {-level:.4g} of {score} for each {dollar} that it saves"
        others = f"goes to {learnt.chain(start)[-1]}, unless a cheaper model {adds}"
        return (
            f"A prompt {others}."
            if start is None
            else f"Ask {start}; if another model is worth it, ask it: a prompt {others}."
        )
    worth = f", that is, for at most {unit}{1 / level:.3g} a point of {score}"
    adds = f"is predicted to add at least {level:.4g} of {score} a {dollar}{worth}"
    if start is None:
        return f"A prompt goes to the cheapest model, unless a dearer one {adds}; then it goes to the best of these."
    if len(learnt.models) == 2:
        return f"Ask {start}; if {learnt.chain(start)[1]} {adds}, ask it."
    return f"Ask {start}; if another model {adds}, ask the best of these."


def rule_and_saving(made: Cascade, certificate: Certificate) -> list[str]:
    """Sentences for the page and the terminal: the rule, what it rests on, shares of answers, the price and the saving."""
    policy, at = made.answered(certificate)
    said = [rule(policy)]
    if len(policy.models) > 1:
        said += _by_level(made, policy, at)
        said += what_decides(made)[:1]
    if policy.needs.answers:
        said.append(f"No response of a model holds {listed(list(policy.needs.answers))}: supply it with every answer.")
    said.append(f"Answered by {_shares(policy.models, np.asarray(policy.shares))}.")
    return said + _saving(made, certificate)


def _shares(models: Any, shares: Any, most: int = 12) -> str:
    ranked = sorted(zip(shares, models, strict=True), key=lambda pair: -pair[0])
    kept = [(share, name) for share, name in ranked if share >= _SELDOM][:most] or ranked[:1]
    parts = [f"{name} ({100 * share:.3g} %)" for share, name in kept]
    rest = 1 - sum(share for share, _ in kept)
    return listed([*parts, *([f"others ({100 * rest:.2g} %)"] if rest > 1e-9 and len(kept) < len(ranked) else [])])


def _by_level(made: Cascade, policy: Policy, at: Any) -> list[str]:
    """Where prompts go, by the levels of the first column that has few and was learnt from."""
    if not isinstance(policy.confidence, LearntGain):
        return []
    for name, how in policy.confidence.fitted["before"].items():
        levels = how.get("levels", [])
        if 1 < len(levels) <= _MOST_LEVELS and name in made.runs.examples:
            column = made.runs.examples[name].astype(str).to_numpy()
            parts = []
            for level in levels:
                inside = column == level
                if inside.any():
                    shares = np.bincount(at[inside], minlength=len(policy.models)) / inside.sum()
                    verb = "go to" if policy.kind == "router" else "are answered by"
                    parts.append(f"prompts with {name} = {level} {verb} {_shares(policy.models, shares, _MOST_NAMED)}")
            text = "; ".join(parts)
            return [text[:1].upper() + text[1:] + "."]
    return []


def _saving(made: Cascade, certificate: Certificate) -> list[str]:
    """The price beside that of the reference, on the same examples."""
    references = [limit.drop_from for limit in certificate.problem.limits if limit.drop_from in made.runs.names]
    name = next((name for name in PRICES if name in made.runs.values), None)
    if not references or name is None:
        return []
    table = made.table()
    row, whole = made.row_of(certificate.configs[0]), table.reference(str(references[0]))
    own, full = (float(table.means(name, np.array([each]))[0, 0]) for each in (row, whole))
    if not np.isfinite(own) or not full > 0:
        return []
    saved = f"The saving is {100 * (1 - own / full):.3g} % on {made.runs.n_examples:,} examples."
    return [f"Mean {name}: {own:.3g}; always asking {references[0]} has {full:.3g}. {saved}"]
