"""Policy: what is deployed. Plain JSON with its certificate inside; ``route`` calls the models that it needs."""

from __future__ import annotations

import json
import os
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field, replace
from inspect import isawaitable, iscoroutine
from pathlib import Path
from typing import Any

import numpy as np

from riskfront.cascades.confidence import LearntConfidence
from riskfront.cascades.counts import Answer, Counts
from riskfront.certificates.certificate import Certificate
from riskfront.errors import InvalidInputError, RiskfrontError, StoreError
from riskfront.runtime.files import write_text

SCHEMA_VERSION = 1
_MOST_EXPLORED, _KEPT = 20_000, 5_000
#: prompt -> answer, or (answer, confidence), or {"answer": ..., "confidence": ..., "cost": ...}
Model = Callable[[Any], Any]
#: (prompt, answer, model) -> how sure one may be of the answer; a judge, say
Judge = Callable[[Any, Any, str], float]


class ModelsFailedError(RiskfrontError, RuntimeError):
    """The last model of a policy failed, so that there is no answer one could stand for."""


@dataclass(frozen=True, slots=True)
class Policy:
    """A certified cascade or router.

    Attributes:
        kind: "cascade" asks one model after the other; "router" decides before it calls one.
        models: in order. thresholds: one less: a model is trusted at its threshold or above.
        confidence: name of the number that is compared with the threshold, or how it is computed.
        shares: which share of examples each model answered when the policy was certified.
        certificate: what holds, and how it was tested.
        made_of: fingerprints of the examples it was made of.

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
    confidence: str | LearntConfidence
    shares: tuple[float, ...]
    certificate: Certificate
    made_of: Mapping[str, Any] | None = None
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
            prompt: handed to the models as it is.
            models: name -> function of the prompt. It returns the answer and how sure it is: a pair, or a dictionary with
                "answer", the confidence under its own name, and perhaps "cost". A plain answer will do for the last model,
                and wherever ``confidence`` judges.
            confidence: judges an answer, if the model does not; of a router, a function of the prompt alone.
            about: what a learnt confidence knows of the prompt.

        A model that raises an error, or is not sure of anything, is passed over: that counts as an escalation. If the last
        one fails there is no answer: ModelsFailedError.
        """
        steps = self._steps(prompt, models, confidence, about or {})
        reply: Any = None
        while True:
            try:
                call = steps.send(reply)
            except StopIteration as done:
                return self._counted(done.value)
            try:
                reply = call()
            except Exception as error:
                reply = error
            _must_not_wait(reply)

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
        reply: Any = None
        while True:
            try:
                call = steps.send(reply)
            except StopIteration as done:
                return self._counted(done.value)
            try:
                reply = call()
                reply = await reply if isawaitable(reply) else reply
            except Exception as error:
                reply = error

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
        called: list[str] = []
        errors: dict[str, str] = {}
        cost: float | None = 0.0
        for stage, name in enumerate(self.models):
            last = stage == len(self.models) - 1
            if self.kind == "router" and not last:
                sure = yield from self._before(prompt, name, judge, about)
                if not sure >= self.thresholds[stage]:
                    continue
            called.append(name)
            reply = yield lambda name=name: models[name](prompt)
            if isinstance(reply, Exception):
                errors[name] = f"{type(reply).__name__}: {reply}"
                continue
            answer, known = _unpacked(reply, self._number)
            cost = None if cost is None or "cost" not in known else cost + float(known["cost"])
            if last or self.kind == "router":
                return Answer(answer, name, tuple(called), errors, cost, None)
            sure = yield from self._after(prompt, answer, name, known, judge, about)
            if sure >= self.thresholds[stage]:  # never true of nan
                return Answer(answer, name, tuple(called), errors, cost, sure)
        self.counts.add(None, called, errors, cost)
        failed = "; ".join(f"{name} failed ({error})" for name, error in errors.items())
        raise ModelsFailedError(f"the last model of the policy must answer; {failed}.")

    @property
    def _number(self) -> str:
        return self.confidence if isinstance(self.confidence, str) else "confidence"

    def _before(self, prompt: Any, name: str, judge: Callable[..., Any] | None, about: Mapping[str, Any]) -> Any:
        """The score of a prompt, for a router."""
        if isinstance(self.confidence, LearntConfidence):
            return float(self.confidence.of(name, about)[0])
        if self.confidence in about:
            return float(about[self.confidence])
        if judge is None:
            raise InvalidInputError(
                f"a router needs the score of the prompt: about={{'{self.confidence}': ...}} or confidence=."
            )
        sure = yield lambda: judge(prompt)
        return _as_number(sure)

    def _after(
        self,
        prompt: Any,
        answer: Any,
        name: str,
        known: Mapping[str, Any],
        judge: Callable[..., Any] | None,
        about: Any,
    ) -> Any:
        """How sure one may be of an answer; nan if that cannot be said, which escalates."""
        if isinstance(self.confidence, LearntConfidence):
            return float(self.confidence.of(name, {**about, **known})[0])
        if judge is not None:
            sure = yield lambda: judge(prompt, answer, name)
            return _as_number(sure)
        if self.confidence not in known:
            raise InvalidInputError(
                f"the model '{name}' must say how sure it is: return (answer, confidence), or a dictionary with 'answer' and "
                f"'{self.confidence}'; or give confidence=, which judges answers."
            )
        return _as_number(known[self.confidence])

    # ---------------------------------------------------------------- files

    def to_dict(self) -> dict[str, Any]:
        learnt = self.confidence.to_dict() if isinstance(self.confidence, LearntConfidence) else None
        return {
            "schema": "riskfront.policy",
            "schema_version": SCHEMA_VERSION,
            "says": self.certificate.verdict(),
            "kind": self.kind,
            "models": list(self.models),
            "thresholds": list(self.thresholds),
            "confidence": self.confidence if learnt is None else {"learnt": learnt},
            "shares": list(self.shares),
            "made_of": None if self.made_of is None else dict(self.made_of),
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
            data["confidence"]
            if isinstance(data["confidence"], str)
            else LearntConfidence(**data["confidence"]["learnt"]),
            tuple(float(value) for value in data["shares"]),
            certificate,
            data["made_of"],
        )
        _must_be_certified(policy)
        return policy

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write as JSON."""
        write_text(path, json.dumps(self.to_dict(), indent=1, allow_nan=False) + "\n")

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Policy:
        """Read from JSON."""
        try:
            data = json.loads(Path(path).read_text(encoding="utf-8"))
        except OSError as error:
            raise StoreError(f"cannot read the policy '{path}': {error.strerror}.") from error
        except ValueError:
            raise InvalidInputError(f"the policy '{path}' must be JSON; it is not, or it was cut off.") from None
        try:
            return cls.from_dict(data)
        except (KeyError, TypeError, AttributeError) as error:
            raise InvalidInputError(f"the policy '{path}' is incomplete or malformed: {error}.") from None


def slim(certificate: Certificate) -> Certificate:
    """The certificate with few of the settings that were explored, where there were very many; all planned ones stay."""
    explored = certificate.explored
    if explored is None or len(explored) <= _MOST_EXPLORED:
        return certificate
    spread = np.linspace(0, len(explored) - 1, _KEPT).astype(np.int64)
    rows = np.union1d(spread, np.flatnonzero(explored["planned"].to_numpy()))
    return replace(certificate, explored=explored.iloc[rows].reset_index(drop=True))


def _must_be_certified(policy: Policy) -> None:
    """The models and thresholds must be those of a setting that the certificate inside chose."""
    from riskfront.cascades.settings import THEN

    limits = {f"threshold {stage + 1}": value for stage, value in enumerate(policy.thresholds)}
    wanted = {"models": THEN.join(policy.models), **limits}
    if len(policy.thresholds) != len(policy.models) - 1 or not any(
        all(config.get(name) == value for name, value in wanted.items()) for config in policy.certificate.configs
    ):
        raise InvalidInputError(
            f"a policy must run what its certificate chose; it says {wanted}, the certificate {policy.certificate.configs[0]}. "
            "It was changed after it was made."
        )


def _must_not_wait(reply: Any) -> None:
    if isawaitable(reply):
        if iscoroutine(reply):
            reply.close()
        raise InvalidInputError("route needs models, and judges, that answer at once; one must be awaited. Use aroute.")


def _unpacked(reply: Any, number: str) -> tuple[Any, Mapping[str, Any]]:
    if isinstance(reply, Mapping) and "answer" in reply:
        known = {name: value for name, value in reply.items() if name != "answer"}
        return reply["answer"], {number: known["confidence"], **known} if "confidence" in known else known
    if isinstance(reply, tuple) and len(reply) == 2:
        return reply[0], {number: reply[1]}
    return reply, {}


def _as_number(value: Any) -> float:
    """A confidence, nan when a judge failed or said nothing."""
    try:
        return float(value) if not isinstance(value, Exception) and value is not None else float("nan")
    except (TypeError, ValueError):
        return float("nan")
