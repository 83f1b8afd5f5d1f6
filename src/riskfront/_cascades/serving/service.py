"""Service: a policy that answers chat requests, as many at a time as it was told; and what Prometheus reads of it."""

from __future__ import annotations

import asyncio
import importlib
import json
import math
import os
import sys
import time
import uuid
from bisect import bisect_left
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from riskfront._calibration.monitoring.words import metric
from riskfront._cascades.policy import ModelsFailedError, Policy
from riskfront._cascades.run_time import Answer
from riskfront._cascades.serving.calls import CallFailedError, callers
from riskfront._cascades.serving.configuration import HARMLESS, Configuration, configuration, read_configuration
from riskfront._data.logs.responses import answer_text
from riskfront.errors import InvalidInputError, RiskfrontError, StoreError

Judge = Callable[[Any, Any, str], Any]


class OverloadedError(RiskfrontError, RuntimeError):
    """As many requests wait as may wait."""


@dataclass(frozen=True, slots=True)
class Served:
    """A chat completion, and whether it is the answer that was declared for the case that no model answers."""

    completion: Mapping[str, Any]
    abstained: bool


class Service:
    """A policy with its models.

    Args:
        policy: a policy, or its JSON file.
        models: models.toml, or what it holds.
    """

    def __init__(
        self, policy: Policy | str | os.PathLike[str], models: Mapping[str, Any] | str | os.PathLike[str]
    ) -> None:
        self.policy = policy if isinstance(policy, Policy) else Policy.load(policy)
        self.configuration: Configuration = (
            configuration(models, self.policy)
            if isinstance(models, Mapping)
            else read_configuration(models, self.policy)
        )
        self.metrics = Metrics()
        self._judge = _judge(self.policy, self.configuration.server.judge)
        self._callers = callers(self.policy, self.configuration, {})
        self._places = asyncio.Semaphore(self.configuration.server.most_running)
        self.running = self.waiting = 0
        self._log = _opened(self.configuration.server.log)

    async def answer(self, request: Mapping[str, Any]) -> Served:
        """Answer a chat request, in the format of OpenAI's chat completions.

        Raises InvalidInputError for a request that the policy cannot serve, OverloadedError if too many wait, and
        ModelsFailedError if no model answered and no answer is declared for that.
        """
        try:
            messages, about, parameters = self._checked(request)
        except InvalidInputError:
            self.metrics.requests["invalid"] += 1
            raise
        server = self.configuration.server
        if self.running >= server.most_running and self.waiting >= server.most_waiting:
            self.metrics.requests["refused"] += 1
            raise OverloadedError(f"{self.running} requests are worked on and {self.waiting} wait; try again later.")
        start = time.monotonic()
        self.waiting += 1
        try:
            await self._places.acquire()
        finally:
            self.waiting -= 1
        self.running += 1
        try:
            return await self._served(messages, about, parameters, start)
        finally:
            self.running -= 1
            self._places.release()

    async def _served(
        self, messages: Any, about: Mapping[str, Any], parameters: Mapping[str, Any], start: float
    ) -> Served:
        name = f"chatcmpl-{uuid.uuid4().hex}"
        known = self._callers if not parameters else callers(self.policy, self.configuration, parameters)
        models = {model: self._counted(model, caller) for model, caller in known.items()}
        try:
            found = await self.policy.aroute(messages, models, confidence=self._judge, about=about)
            self.metrics.requests["answered"] += 1
            self.metrics.answers[found.model] += 1
            served = Served(self._completion(name, found), False)
        except ModelsFailedError as error:
            self.metrics.requests["abstained"] += 1
            self._write(name, _told(error), time.monotonic() - start)
            if self.configuration.server.failed_answer is None:
                raise
            return Served(self._completion(name, error), True)
        except InvalidInputError:
            self.metrics.requests["invalid"] += 1
            raise
        self.metrics.took(time.monotonic() - start)
        self._write(name, _told(found), time.monotonic() - start)
        return served

    def _counted(
        self, model: str, caller: Callable[[Any], Awaitable[dict[str, Any]]]
    ) -> Callable[[Any], Awaitable[Any]]:
        async def call(messages: Any) -> dict[str, Any]:
            self.metrics.calls[model] += 1
            try:
                reply = await caller(messages)
            except CallFailedError:
                self.metrics.errors[model] += 1
                raise
            self.metrics.paid(model, reply.get("cost"))
            return reply

        return call

    def _checked(self, request: Mapping[str, Any]) -> tuple[Any, Mapping[str, Any], dict[str, Any]]:
        """Messages, what is supplied with them, and the parameters that the configuration allows."""
        messages = request.get("messages")
        if not isinstance(messages, list) or not messages or not all(isinstance(part, Mapping) for part in messages):
            raise InvalidInputError("a request must have messages, a list of objects with role and content.")
        server = self.configuration.server
        if request.get("model") not in (None, server.name):
            raise InvalidInputError(
                f"the model must be '{server.name}', which is all that is served here; got {request['model']!r}."
            )
        given = {name: value for name, value in request.items() if name not in HARMLESS and value is not None}
        if given.get("n") == 1:
            del given["n"]
        entries = self.configuration.models.values()
        unasked = [
            name
            for name, value in given.items()
            if name not in server.allow and any(entry.parameters.get(name) != value for entry in entries)
        ]
        if unasked:
            raise InvalidInputError(
                f"a request must not change what was certified; it sets '{unasked[0]}'. Leave it out, set it for every model "
                f"in the configuration, or allow it there, which the certificate does not cover ([server] allow)."
            )
        if not isinstance(request.get("stream_options") or {}, Mapping):
            raise InvalidInputError("'stream_options' must be an object, such as {\"include_usage\": true}.")
        about = request.get("about") or {}
        if not isinstance(about, Mapping):
            raise InvalidInputError("'about' must be an object: what is known of the request, by name.")
        lacking = [name for name in self.policy.needs.supplied if name not in about]
        if lacking:
            raise InvalidInputError(
                f'the policy needs \'{lacking[0]}\' of every request: {{"about": {{"{lacking[0]}": ...}}}}, in the body.'
            )
        return messages, about, {name: value for name, value in given.items() if name in server.allow}

    def _completion(self, name: str, told: Answer | ModelsFailedError) -> dict[str, Any]:
        """A model's answer, or what is declared for the case that there is none, as a chat completion."""
        message: dict[str, Any] = {"role": "assistant", "content": self.configuration.server.failed_answer}
        reason, usage = "stop", None
        if isinstance(told, Answer):
            choice = told.answer["choices"][0]
            message = {key: value for key, value in choice["message"].items() if value is not None or key == "content"}
            reason, usage = choice.get("finish_reason") or "stop", told.answer.get("usage")
        return {
            "id": name,
            "object": "chat.completion",
            "created": int(time.time()),
            "model": self.configuration.server.name,
            "choices": [{"index": 0, "message": message, "finish_reason": reason}],
            "usage": usage,
            "riskfront": _told(told),
        }

    def _write(self, name: str, told: Mapping[str, Any], seconds: float) -> None:
        """One line a request: who answered, and nothing of what was said."""
        if self._log is None:
            return
        line = {"id": name, "time": time.time(), "seconds": round(seconds, 4), **told, "calls": len(told["called"])}
        del line["called"]
        self._log.write(json.dumps(line, allow_nan=False) + "\n")
        self._log.flush()

    def close(self) -> None:
        if self._log is not None:
            self._log.close()


def _told(found: Answer | ModelsFailedError) -> dict[str, Any]:
    """How a request went; model and confidence are None where nobody answered."""
    answer = found if isinstance(found, Answer) else None
    return {
        "model": None if answer is None else answer.model,
        "called": list(found.called),
        "failed": list(found.errors),
        "confidence": None if answer is None else answer.confidence,
        "cost": found.cost,
        "abstained": answer is None,
    }


def _opened(path: str | None) -> Any:
    if path is None:
        return None
    try:
        return Path(path).open("a", encoding="utf-8")
    except OSError as error:
        raise StoreError(f"the log '{path}' must be writable; {error.strerror}.") from error


def _judge(policy: Policy, named: str | None) -> Judge | None:
    """The function that judges answers, where the policy needs one; it gets the text of an answer."""
    answers = policy.needs.answers
    alone = policy.rests_on_one_number and bool(answers)
    if answers and not alone:
        raise InvalidInputError(
            f"the policy decides by '{answers[0]}' beside other numbers; it is known with an answer, no response holds it, and "
            "a judge supplies the only number that a policy rests on. Certify a policy that rests on what a response holds "
            "(--confidence), on the prompt (--router), or on this number alone; or call policy.route in a program of your own."
        )
    if named is None:
        if alone:
            raise InvalidInputError(
                f"the policy decides by '{answers[0]}', which no response holds; name the function that computes "
                'it: [server] judge = "module:function", of the prompt, the text of the answer and the model.'
            )
        return None
    if not alone:
        raise InvalidInputError(
            f"a judge is for a cascade on a confidence that no response holds; this {policy.kind} computes its own. Remove it."
        )
    module, _, name = named.partition(":")
    if os.getcwd() not in sys.path:
        sys.path.insert(0, os.getcwd())
    try:
        function = getattr(importlib.import_module(module), name)
    except (ImportError, AttributeError, ValueError) as error:
        raise InvalidInputError(f"judge must be 'module:function'; '{named}' cannot be loaded: {error}.") from None
    return lambda prompt, answer, model: function(prompt, answer_text(answer), model)


_SECONDS = (0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)


@dataclass(slots=True)
class Metrics:
    """Counts since the endpoint was started; one event loop adds to them.

    Attributes:
        requests: outcome -> requests: answered, abstained (no model could), refused (the queue was full), invalid.
        answers, calls, errors: model -> how often. dollars: model -> price of its calls, as far as it is known.
        unpriced: calls whose price nobody knows.
    """

    requests: Counter[str] = field(default_factory=Counter)
    answers: Counter[str] = field(default_factory=Counter)
    calls: Counter[str] = field(default_factory=Counter)
    errors: Counter[str] = field(default_factory=Counter)
    dollars: dict[str, float] = field(default_factory=dict)
    unpriced: Counter[str] = field(default_factory=Counter)
    seconds: list[int] = field(default_factory=lambda: [0] * (len(_SECONDS) + 1))
    seconds_sum: float = 0.0

    def took(self, seconds: float) -> None:
        self.seconds[bisect_left(_SECONDS, seconds)] += 1
        self.seconds_sum += seconds

    def paid(self, model: str, price: float | None) -> None:
        if price is None:
            self.unpriced[model] += 1
        else:
            self.dollars[model] = self.dollars.get(model, 0.0) + price

    def text(self, policy: Policy, running: int, waiting: int) -> str:
        """The Prometheus text format."""
        answered, certified = sum(self.answers.values()), dict(zip(policy.models, policy.shares, strict=True))
        outcomes = ("answered", "abstained", "refused", "invalid")
        lines: list[str] = []

        def add(name: str, about: str, rows: list[tuple[dict[str, str], float]], kind: str = "counter") -> None:
            lines.extend(metric(f"serve_{name}", kind, about, rows))

        def of_models(value: Callable[[str], float]) -> list[tuple[dict[str, str], float]]:
            return [({"model": model}, value(model)) for model in policy.models]

        def share(model: str) -> float:
            return self.answers[model] / answered if answered else math.nan

        add("requests_total", "Requests by outcome", [({"outcome": o}, self.requests[o]) for o in outcomes])
        add("abstentions_total", "Requests that no model could answer", [({}, self.requests["abstained"])])
        add("answers_total", "Answers by model", of_models(self.answers.__getitem__))
        add("calls_total", "Calls by model", of_models(self.calls.__getitem__))
        add("model_errors_total", "Failed calls by model", of_models(self.errors.__getitem__))
        add("share", "Share of the answers that a model gave", of_models(share), "gauge")
        add("certified_share", "That share when the policy was certified", of_models(certified.__getitem__), "gauge")
        unit = "Price of the calls, in the unit of the price table, as far as known"
        add("price_total", unit, of_models(lambda model: self.dollars.get(model, 0.0)))
        add("unpriced_calls_total", "Calls whose price is unknown", of_models(self.unpriced.__getitem__))
        add("running", "Requests that are worked on", [({}, running)], "gauge")
        add("waiting", "Requests that wait", [({}, waiting)], "gauge")
        return "\n".join([*lines, *self._histogram()]) + "\n"

    def _histogram(self) -> list[str]:
        lines = ["# HELP riskfront_serve_seconds Time to the answer.", "# TYPE riskfront_serve_seconds histogram"]
        total = 0
        for limit, count in zip((*map(str, _SECONDS), "+Inf"), self.seconds, strict=True):
            total += count
            lines.append(f'riskfront_serve_seconds_bucket{{le="{limit}"}} {total}')
        lines += [f"riskfront_serve_seconds_sum {self.seconds_sum!r}", f"riskfront_serve_seconds_count {total}"]
        return lines
