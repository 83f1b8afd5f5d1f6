"""A route by gain a dollar at run time: the same numbers, and so the same decisions, as in the certified table."""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping
from typing import Any

import numpy as np

from riskfront._cascades.comparison import net_values
from riskfront._cascades.gain import LearntGain
from riskfront._cascades.run_time import Answer, Call, as_number, failure_of, unpacked
from riskfront._support.arrays import FloatArray
from riskfront.errors import InvalidInputError


def steps(
    learnt: LearntGain,
    kind: str,
    level: float,
    models: Mapping[str, Callable[[], Any]],
    about: Mapping[str, Any],
    samples: int,
) -> Generator[Call, Any, tuple[Answer | None, list[str], dict[str, str], float | None]]:
    """What to call next, one at a time. Returns the answer, or None if the last model failed; who was called; errors; cost.

    Args:
        learnt, level: the route. models: name -> a call with the prompt. about: what is known of the prompt.
        samples: how often the first model of a cascade is asked.
    """
    missing = [name for name in learnt.fitted["before"] if about.get(name) is None]
    if missing:
        raise InvalidInputError(
            f"this {kind} decides by {', '.join(learnt.features)}; '{missing[0]}' is not known of the prompt. Give it: "
            f"about={{'{missing[0]}': ...}}."
        )
    scores, prices = learnt.before({name: [about[name]] for name in learnt.fitted["before"]})
    start = learnt.starts[0]
    chain = learnt.chain(start)
    order = [learnt.models.index(name) for name in chain]
    called: list[str] = []
    errors: dict[str, str] = {}
    cost: float | None = 0.0
    net = _net(scores, prices, level, None, order)
    at = 0 if start is not None else int(net.argmax())
    while True:
        name, first = chain[at], at == 0 and start is not None
        called.append(name)
        replies = yield Call(models[name], samples if first else 1)
        failure, answer, said = failure_of(replies), None, None
        if failure is None:
            (answer, *_), said = unpacked(replies, learnt)
            cost = None if cost is None or "cost" not in said else cost + float(said["cost"])
        else:
            errors[name] = f"{type(failure).__name__}: {failure}"
        trusted = failure is None
        if first and start is not None:
            known = None if said is None else {**about, **said}
            net, trusted = _after_first(learnt, start, scores, prices, level, order, known)
        if trusted:
            return Answer(answer, name, tuple(called), errors, cost, None), called, errors, cost
        if at == len(chain) - 1:
            return None, called, errors, cost
        at += 1 + int(net[at + 1 :].argmax())


def _net(scores: FloatArray, prices: FloatArray, level: float, start: int | None, order: list[int]) -> FloatArray:
    return np.asarray(net_values(scores, prices, level, start)[order, 0])


def _after_first(
    learnt: LearntGain,
    start: str,
    scores: FloatArray,
    prices: FloatArray,
    level: float,
    order: list[int],
    said: Mapping[str, Any] | None,
) -> tuple[FloatArray, bool]:
    """Net values once the first model has answered, and whether its answer stands; not if it failed or lacks a number."""
    names = list(learnt.fitted["after"][start]["encoder"])
    if said is not None:
        unsaid = [name for name in names if name not in said]
        if unsaid:
            raise InvalidInputError(
                f"the model '{start}' must say '{unsaid[0]}' with its answer: return a dictionary with 'answer' and "
                f"{', '.join(repr(name) for name in names)}."
            )
        seen = learnt.after(start, scores, {name: [as_number(said[name])] for name in names})
        if not np.isnan(seen).any():
            net = _net(seen, prices, level, order[0], order)
            return net, bool(net.argmax() == 0)
    return _net(scores, prices, level, None, order), False
