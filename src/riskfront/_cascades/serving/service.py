"""Service: a policy that answers chat requests, as many at a time as it was told, and counts what it did."""

from __future__ import annotations

import asyncio
import importlib
import json
import os
import sys
import time
import uuid
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from riskfront._cascades.counts import Answer
from riskfront._cascades.policy import ModelsFailedError, Policy
from riskfront._cascades.serving.calls import CallFailedError, callers
from riskfront._cascades.serving.configuration import HARMLESS, Configuration, configuration, read_configuration
from riskfront._cascades.serving.metrics import Metrics
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
        found: Answer | None = None
        try:
            found = await self.policy.aroute(messages, models, confidence=self._judge, about=about)
            self.metrics.requests["answered"] += 1
            self.metrics.answers[found.model] += 1
            served = Served(self._completion(name, found), False)
        except ModelsFailedError:
            self.metrics.requests["abstained"] += 1
            self._write(name, None, time.monotonic() - start)
            if self.configuration.server.failed_answer is None:
                raise
            return Served(self._declared(name), True)
        except InvalidInputError:
            self.metrics.requests["invalid"] += 1
            raise
        self.metrics.took(time.monotonic() - start)
        self._write(name, found, time.monotonic() - start)
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
        about = request.get("about") or {}
        if not isinstance(about, Mapping):
            raise InvalidInputError("'about' must be an object: what is known of the request, by name.")
        lacking = [] if self._judge is not None else [name for name in self.policy.needs.supplied if name not in about]
        if lacking:
            raise InvalidInputError(
                f'the policy needs \'{lacking[0]}\' of every request: {{"about": {{"{lacking[0]}": ...}}}}, in the body.'
            )
        return messages, about, {name: value for name, value in given.items() if name in server.allow}

    def _completion(self, name: str, found: Answer) -> dict[str, Any]:
        told = {
            "model": found.model,
            "called": list(found.called),
            "failed": list(found.errors),
            "confidence": found.confidence,
            "cost": found.cost,
            "abstained": False,
        }
        choice = dict(found.answer["choices"][0])
        message = {key: value for key, value in choice["message"].items() if value is not None or key == "content"}
        return {
            "id": name,
            "object": "chat.completion",
            "created": int(time.time()),
            "model": self.configuration.server.name,
            "choices": [{"index": 0, "message": message, "finish_reason": choice.get("finish_reason") or "stop"}],
            "usage": found.answer.get("usage"),
            "riskfront": told,
        }

    def _declared(self, name: str) -> dict[str, Any]:
        message = {"role": "assistant", "content": self.configuration.server.failed_answer}
        return {
            "id": name,
            "object": "chat.completion",
            "created": int(time.time()),
            "model": self.configuration.server.name,
            "choices": [{"index": 0, "message": message, "finish_reason": "stop"}],
            "usage": None,
            "riskfront": {"model": None, "abstained": True},
        }

    def _write(self, name: str, found: Answer | None, seconds: float) -> None:
        """One line a request: who answered, and nothing of what was said."""
        if self._log is None:
            return
        told: dict[str, Any] = {
            "id": name,
            "time": time.time(),
            "seconds": round(seconds, 4),
            "abstained": found is None,
            "model": None,
        }
        if found is not None:
            told |= {"model": found.model, "calls": len(found.called), "failed": list(found.errors)}
            told |= {"confidence": found.confidence, "cost": found.cost}
        self._log.write(json.dumps(told, allow_nan=False) + "\n")
        self._log.flush()

    def close(self) -> None:
        if self._log is not None:
            self._log.close()


def _opened(path: str | None) -> Any:
    if path is None:
        return None
    try:
        return Path(path).open("a", encoding="utf-8")
    except OSError as error:
        raise StoreError(f"the log '{path}' must be writable; {error.strerror}.") from error


def _judge(policy: Policy, named: str | None) -> Judge | None:
    """The function that judges answers, where the policy needs one; it gets the text of an answer."""
    alone = policy.kind == "cascade" and policy.rests_on_one_number and bool(policy.needs.supplied)
    if named is None:
        if alone:
            raise InvalidInputError(
                f"the policy decides by '{policy.needs.supplied[0]}', which no response holds; name the function that computes "
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
