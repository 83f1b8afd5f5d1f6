"""Policy: what is deployed. Plain JSON with its certificate inside; ``route`` calls the models that it needs."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from inspect import isawaitable, iscoroutine
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from riskfront._calibration.certificates.certificate import Certificate
from riskfront._calibration.monitoring.monitor import Monitor
from riskfront._cascades.comparison import net_values
from riskfront._cascades.confidence import LearntConfidence
from riskfront._cascades.gain import LearntGain
from riskfront._cascades.routes import LEVEL, THEN, setting_name
from riskfront._cascades.run_time import Answer, Call, Calls, Counts, Needs, as_number, mean_of, one_number
from riskfront._data.logs.responses import about_prompt, prompt_text
from riskfront._support.arrays import FloatArray
from riskfront._support.checked_json import parse_json, reading, to_bytes, without_digest
from riskfront._support.files import write_text
from riskfront.errors import InvalidInputError, RiskfrontError

SCHEMA_VERSION = 1
_MOST_EXPLORED, _KEPT = 20_000, 5_000
#: prompt -> the response of a provider, or an answer, (answer, confidence), {"answer": ..., "confidence": ..., "cost": ...}
Model = Callable[[Any], Any]
#: (prompt, answer, model) -> how sure one may be of the answer; a judge, say
Judge = Callable[[Any, Any, str], float]


class ModelsFailedError(RiskfrontError, RuntimeError):
    """The last model of a policy failed, so that there is no answer one could stand for.

    Attributes:
        called: the models that were called. errors: model -> how it failed. cost: of the calls, None if one is unknown.
    """

    def __init__(
        self, called: Sequence[str] = (), errors: Mapping[str, str] | None = None, cost: float | None = None
    ) -> None:
        self.called, self.errors, self.cost = tuple(called), dict(errors or {}), cost
        failed = "; ".join(f"{name} failed ({error})" for name, error in self.errors.items())
        super().__init__(f"the last model of the policy must answer; {failed}.")


@dataclass(frozen=True, slots=True)
class Policy:
    """A certified cascade or router.

    Attributes:
        kind: "cascade" asks one model after the other; "router" decides before it calls one.
        models: in order. thresholds: one less: a model is trusted at its threshold or above. Of a route by gain a dollar, the
            cheapest first, and one threshold: what a dearer model must add for each unit of price.
        confidence: name of the number that is compared with the threshold, or how it is computed.
        shares: the share of examples that each model answered when the policy was certified.
        certificate: what holds, and how it was tested.
        example_fingerprints: fingerprints of the examples it was made of.
        samples: how often a model is asked, where the logs hold several answers to a prompt and the confidence rests on them.

    Examples:
        >>> import riskfront as rf
        >>> table = rf.LossTable([{"models": "small > large"}], {"error": [[0] * 300], "cost": [[1] * 300]})
        >>> certificate = rf.calibrate(table, rf.Problem("error <= 0.1", minimize="cost"))
        >>> policy = Policy("cascade", ("small", "large"), (0.8,), "sure", (0.5, 0.5), certificate)  # Cascade.policy makes it
        >>> models = {"small": lambda prompt: ("a guess", 0.3), "large": lambda prompt: "the answer"}
        >>> policy.route("a question", models).answer
        'the answer'
    """

    kind: str
    models: tuple[str, ...]
    thresholds: tuple[float, ...]
    confidence: str | LearntConfidence | LearntGain
    shares: tuple[float, ...]
    certificate: Certificate
    example_fingerprints: Mapping[str, Any] | None = None
    samples: int | None = None
    counts: Counts = field(default_factory=Counts, compare=False)

    def route(
        self,
        prompt: Any,
        models: Mapping[str, Model],
        *,
        confidence: Judge | None = None,
        about: Mapping[str, Any] | None = None,
    ) -> Answer:
        """Answer a prompt with the first model that is sure enough; the last one always answers.

        Args:
            prompt: handed to the models as it is: a text, or messages.
            models: name -> function of the prompt. It returns the response of a provider (a chat completion), of which the
                policy computes what ``needs.response`` names; or the answer and how sure it is: a pair, or a dictionary with
                "answer", the confidence under its own name, and perhaps "cost". A plain answer will do for the last model,
                and wherever ``confidence`` judges.
            confidence: judges an answer, if the model does not; of a router, a function of the prompt alone.
            about: the values that ``needs.supplied`` names, by name; those that ``needs.answers`` names come with each answer,
                from the model's function or the judge.

        A model that raises an error, or is not sure of anything, is passed over: that counts as an escalation. If the last
        one fails there is no answer: ModelsFailedError.
        """
        steps = self._steps(prompt, models, confidence, about or {})
        replies: Any = None
        while True:
            try:
                call = steps.send(replies)
            except StopIteration as done:
                return self._counted(done.value)
            replies = [_tried(call.function) for _ in range(call.times)]
            _must_not_wait(replies)

    async def aroute(
        self,
        prompt: Any,
        models: Mapping[str, Callable[[Any], Awaitable[Any] | Any]],
        *,
        confidence: Callable[[Any, Any, str], Any] | None = None,
        about: Mapping[str, Any] | None = None,
    ) -> Answer:
        """The same with models, and perhaps a judge, that are awaited."""
        steps = self._steps(prompt, models, confidence, about or {})
        replies: Any = None
        while True:
            try:
                call = steps.send(replies)
            except StopIteration as done:
                return self._counted(done.value)
            replies = await asyncio.gather(*(_awaited(call.function) for _ in range(call.times)))

    @property
    def needs(self) -> Needs:
        """What the policy computes from requests and responses, and what people must supply."""
        return Needs.of(self.kind, self.models, self.confidence, self.samples)

    @property
    def asked_how_sure(self) -> tuple[str, ...]:
        """The models whose answers need a confidence: none of a router; of a route by gain a dollar only the first."""
        if self.kind == "router":
            return ()
        return self.models[:1] if isinstance(self.confidence, LearntGain) else self.models[:-1]

    @property
    def rests_on_one_number(self) -> bool:
        """Whether one number of an answer decides, as it is or turned into a probability, so that a judge can supply it."""
        if isinstance(self.confidence, LearntConfidence):
            fitted = self.confidence.models.values()
            return len(self.confidence.features) == 1 and not any(model["levels"] for model in fitted)
        return isinstance(self.confidence, str)

    def _counted(self, answer: Answer) -> Answer:
        self.counts.add(answer.model, answer.called, answer.errors, answer.cost)
        return answer

    def _steps(
        self, prompt: Any, models: Mapping[str, Model], judge: Callable[..., Any] | None, about: Mapping[str, Any]
    ) -> Any:
        """What to call next, one at a time; whoever drives it sends back what the call returned, or the error it raised."""
        missing = [name for name in self.models if name not in models]
        if missing:
            raise InvalidInputError(
                f"every model of the policy must be given; '{missing[0]}' is missing. Got {list(models)}."
            )
        computed = about_prompt(prompt_text(prompt))
        for name in computed:
            if name in about and about[name] != computed[name]:
                raise InvalidInputError(
                    f"'{name}' is computed from the request, as from the prompts of the logs, and must not be given as another "
                    f"one; got {about[name]!r}. Leave it out of 'about'."
                )
        # one number for all models would not be that of any answer, and whoever asks could choose the model by it
        early = [name for name in self.needs.answers if name in about and not isinstance(self.confidence, str)]
        if early:
            raise InvalidInputError(
                f"'{early[0]}' is known with an answer, and must not be given with the request. Let the model's function "
                f"return it: a dictionary with 'answer' and '{early[0]}'."
            )
        about = {**about, **computed}
        made = Calls()
        if isinstance(self.confidence, LearntGain):
            return (yield from self._steps_by_gain(self.confidence, prompt, models, about, made))
        for stage, name in enumerate(self.models):
            last = stage == len(self.models) - 1
            if self.kind == "router" and not last:
                sure = yield from self._before(prompt, name, judge, about)
                if not sure >= self.thresholds[stage]:
                    continue
            replies = yield Call(partial(models[name], prompt), 1 if last else self.needs.samples)
            found = made.take(name, replies, self.confidence)
            if found is None:
                continue
            answers, known = found
            if last or self.kind == "router":
                return made.answer(answers[0], name)
            sure = yield from self._after(prompt, answers, len(replies), name, known, judge, about)
            if sure >= self.thresholds[stage]:  # never true of nan
                return made.answer(answers[0], name, sure)
        raise self._failed(made)

    def _steps_by_gain(
        self, learnt: LearntGain, prompt: Any, models: Mapping[str, Model], about: Mapping[str, Any], made: Calls
    ) -> Any:
        """The same of a route by gain a dollar: the same numbers, and so the same decisions, as in the certified table."""
        missing = [name for name in learnt.fitted["before"] if about.get(name) is None]
        if missing:
            raise InvalidInputError(
                f"this {self.kind} decides by {', '.join(learnt.features)}; '{missing[0]}' is not known of the prompt. Give "
                f"it: about={{'{missing[0]}': ...}}."
            )
        scores, prices = learnt.before({name: [about[name]] for name in learnt.fitted["before"]})
        start, level = learnt.starts[0], self.thresholds[0]
        order = [learnt.models.index(name) for name in self.models]
        net = net_values(scores, prices, level, None)[order, 0]
        at = 0 if start is not None else int(net.argmax())
        while True:
            name, first = self.models[at], start if at == 0 else None
            call = Call(partial(models[name], prompt), 1 if first is None else self.needs.samples)
            found = made.take(name, (yield call), learnt)
            if found is not None:
                (answer, *_), said = found
                if first is None:
                    return made.answer(answer, name)
                seen = _scores_after(learnt, first, scores, {**about, **said})
                if not np.isnan(seen).any():  # an answer that lacks a number does not stand
                    net = net_values(seen, prices, level, order[0])[order, 0]
                    if net.argmax() == 0:
                        return made.answer(answer, name)
            if at == len(order) - 1:
                raise self._failed(made)
            at += 1 + int(net[at + 1 :].argmax())

    def _failed(self, made: Calls) -> ModelsFailedError:
        self.counts.add(None, made.called, made.errors, made.cost)
        return ModelsFailedError(made.called, made.errors, made.cost)

    @property
    def _number(self) -> str:
        return one_number(self.confidence)

    def _before(self, prompt: Any, name: str, judge: Callable[..., Any] | None, about: Mapping[str, Any]) -> Any:
        """The score of a prompt, for a router."""
        if isinstance(self.confidence, LearntConfidence) and (judge is None or len(self.confidence.features) > 1):
            return float(self.confidence.of(name, about)[0])
        if self._number in about:
            return self._as_confidence(name, about[self._number])
        if judge is None:
            raise InvalidInputError(
                f"a router needs the score of the prompt: about={{'{self._number}': ...}} or confidence=."
            )
        (sure,) = yield Call(partial(judge, prompt))
        return self._as_confidence(name, sure)

    def _as_confidence(self, name: str, value: Any) -> float:
        """The number that is compared with a threshold, from the one column that it rests on; nan if that is missing."""
        if not isinstance(self.confidence, LearntConfidence):
            return as_number(value)
        if self._number not in self.confidence.models[name]["levels"]:
            value = as_number(value)
        elif value is None or isinstance(value, Exception):
            return float("nan")
        return float(self.confidence.of(name, {self._number: value})[0])

    def _after(
        self,
        prompt: Any,
        answers: Sequence[Any],
        calls: int,
        name: str,
        known: Mapping[str, Any],
        judge: Callable[..., Any] | None,
        about: Any,
    ) -> Any:
        """How sure one may be of the answers to some calls; nan if that cannot be said, which escalates."""
        if isinstance(self.confidence, LearntConfidence) and len(self.confidence.features) > 1:
            return float(self.confidence.of(name, {**about, **known})[0])
        if judge is not None:
            said = []
            for answer in answers:
                said += yield Call(partial(judge, prompt, answer, name))
            return self._as_confidence(name, said[0] if calls == 1 else mean_of(said, calls))
        known = {**about, **known}
        if self._number not in known:
            raise InvalidInputError(
                f"the model '{name}' must say how sure it is: return (answer, confidence), or a dictionary with 'answer' and "
                f"'{self._number}'; or give confidence=, which judges answers."
            )
        return self._as_confidence(name, known[self._number])

    def monitor(self, **options: Any) -> Monitor:
        """Watch the certified limits after deployment; ``options`` are those of ``riskfront.Monitor``."""
        return Monitor(self.certificate, **options)

    def to_dict(self) -> dict[str, Any]:
        return {
            "schema": "riskfront.policy",
            "schema_version": SCHEMA_VERSION,
            "says": self.certificate.verdict(),
            "kind": self.kind,
            "models": list(self.models),
            "thresholds": list(self.thresholds),
            "confidence": _confidence_to_json(self.confidence),
            "shares": list(self.shares),
            "samples": self.samples,
            "example_fingerprints": None if self.example_fingerprints is None else dict(self.example_fingerprints),
            "certificate": slim(self.certificate).to_dict(),
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Policy:
        if not isinstance(data, Mapping) or data.get("schema") != "riskfront.policy":
            raise InvalidInputError("a policy must be a JSON object with schema 'riskfront.policy'; this is not one.")
        if data.get("schema_version") != SCHEMA_VERSION:
            raise InvalidInputError(
                f"this version reads policies of schema version {SCHEMA_VERSION}; got {data.get('schema_version')!r}."
            )
        certificate = Certificate.from_dict(data["certificate"])
        policy = cls(
            str(data["kind"]),
            tuple(data["models"]),
            tuple(float(value) for value in data["thresholds"]),
            _confidence_from_json(data["confidence"]),
            tuple(float(value) for value in data["shares"]),
            certificate,
            data["example_fingerprints"],
            None if data["samples"] is None else int(data["samples"]),
        )
        _must_make_sense(policy)
        _must_be_certified(policy)
        return policy

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write as JSON."""
        write_text(path, to_bytes(self.to_dict()).decode())

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Policy:
        """Read from JSON."""
        with reading("policy", path):
            data = parse_json(Path(path).read_bytes())
            policy = cls.from_dict(data)
            without_digest(data, required=False)
            return policy


def _scores_after(learnt: LearntGain, start: str, scores: FloatArray, said: Mapping[str, Any]) -> FloatArray:
    """(models, 1): scores, predicted again from what the answer of the first model says."""
    names = list(learnt.fitted["after"][start]["encoder"])
    unsaid = [name for name in names if name not in said]
    if unsaid:
        raise InvalidInputError(
            f"the model '{start}' must say '{unsaid[0]}' with its answer: return a dictionary with 'answer' and "
            f"{', '.join(repr(name) for name in names)}."
        )
    return learnt.after(start, scores, {name: [as_number(said[name])] for name in names})


def slim(certificate: Certificate) -> Certificate:
    """The certificate with few of the settings that were explored, where there were very many; all planned ones stay."""
    return replace(certificate, explored=few_explored(certificate.explored))


def few_explored(explored: pd.DataFrame | None) -> pd.DataFrame | None:
    """Few of the settings that were explored, where there were very many; all planned ones stay."""
    if explored is None or len(explored) <= _MOST_EXPLORED:
        return explored
    spread = np.linspace(0, len(explored) - 1, _KEPT).astype(np.int64)
    rows = np.union1d(spread, np.flatnonzero(explored["planned"].to_numpy()))
    return explored.iloc[rows].reset_index(drop=True)


def _confidence_to_json(confidence: str | LearntConfidence | LearntGain) -> Any:
    if isinstance(confidence, str):
        return confidence
    return {"gain" if isinstance(confidence, LearntGain) else "learnt": confidence.to_dict()}


def _confidence_from_json(data: Any) -> str | LearntConfidence | LearntGain:
    if isinstance(data, str):
        return data
    return LearntGain(**data["gain"]) if "gain" in data else LearntConfidence(**data["learnt"])


def _must_make_sense(policy: Policy) -> None:
    if policy.kind not in ("cascade", "router"):
        raise InvalidInputError(f"the kind of a policy must be 'cascade' or 'router'; got {policy.kind!r}.")
    shares = policy.shares
    if len(shares) != len(policy.models) or min(shares) < 0 or not abs(sum(shares) - 1) < 1e-6:
        raise InvalidInputError(f"the shares of a policy must be one for each model and add up to 1; got {shares}.")


def _must_be_certified(policy: Policy) -> None:
    """The models and thresholds must be those of a setting that the certificate inside chose."""
    if isinstance(policy.confidence, LearntGain):
        learnt, start = policy.confidence, policy.confidence.starts[0]
        wanted: dict[str, Any] = {"models": setting_name(learnt, start), LEVEL: policy.thresholds[0]}
        fits = (
            len(policy.thresholds) == 1
            and list(policy.models) == learnt.chain(start)
            and learnt.fitted["kind"] == policy.kind
        )
    else:
        limits = {f"threshold {stage + 1}": value for stage, value in enumerate(policy.thresholds)}
        wanted = {"models": THEN.join(policy.models), **limits}
        fits = len(policy.thresholds) == len(policy.models) - 1
    if not fits or not any(
        all(config.get(name) == value for name, value in wanted.items()) for config in policy.certificate.configs
    ):
        raise InvalidInputError(
            f"a policy must run what its certificate chose; it says {wanted}, the certificate {policy.certificate.configs[0]}. "
            "It was changed after it was made."
        )


def _must_not_wait(replies: Sequence[Any]) -> None:
    waiting = [part for part in replies if isawaitable(part)]
    if waiting:
        for part in waiting:
            if iscoroutine(part):
                part.close()
        raise InvalidInputError("route needs models, and judges, that answer at once; one must be awaited. Use aroute.")


def _tried(call: Callable[[], Any]) -> Any:
    try:
        return call()
    except Exception as error:
        return error


async def _awaited(call: Callable[[], Any]) -> Any:
    try:
        reply = call()
        return await reply if isawaitable(reply) else reply
    except Exception as error:
        return error
