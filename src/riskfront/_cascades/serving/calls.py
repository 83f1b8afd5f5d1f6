"""Calls of models through LiteLLM's client, with timeouts, retries and prices; no message ever holds a key."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from riskfront._cascades.policy import Policy
from riskfront._cascades.serving.configuration import Configuration, ModelEntry
from riskfront._data.logs.responses import prompt_text
from riskfront.errors import MissingExtraError, RiskfrontError

_PAUSE = 0.1  # seconds before the first retry; doubles
#: seconds that an idle connection is used again. LiteLLM keeps one for 120, while servers close it sooner (uvicorn, and so
#: vLLM, after 5): a call that goes out on it at that moment is reset, and its retry may meet the next such connection
_IDLE = "2"
Messages = Sequence[Mapping[str, Any]]


class CallFailedError(RiskfrontError, RuntimeError):
    """A model gave no answer, in words without keys."""


def load_litellm() -> Any:
    """The module, which asks nobody for prices or news, and drops idle connections before model servers do."""
    os.environ.setdefault("LITELLM_LOCAL_MODEL_COST_MAP", "True")
    os.environ.setdefault("AIOHTTP_KEEPALIVE_TIMEOUT", _IDLE)
    try:
        import litellm
    except ImportError as error:
        raise MissingExtraError("litellm", "serve") from error
    litellm.telemetry = False
    litellm.suppress_debug_info = True
    litellm.drop_params = False
    return litellm


@dataclass(frozen=True, slots=True)
class Caller:
    """One model of a policy as a function of messages.

    Args:
        entry: how it is reached. logprobs: whether the policy needs log-probabilities of it.
        parameters: of this request, as far as the configuration allows any.
        secrets: what must not stand in an error.
    """

    entry: ModelEntry
    logprobs: bool
    parameters: Mapping[str, Any]
    secrets: Sequence[str]
    complete: Callable[..., Awaitable[Any]]
    price_of: Callable[..., float]

    async def __call__(self, messages: Messages) -> dict[str, Any]:
        """{"answer": the chat completion as a dictionary, "cost": its price, if that is known}."""
        for attempt in range(self.entry.retries + 1):
            try:
                # LiteLLM's own timeout is that of one socket operation; this one is of the whole call
                reply = await asyncio.wait_for(self._once(messages), self.entry.timeout)
                break
            except Exception as error:
                if attempt == self.entry.retries or not _may_pass(error):
                    raise CallFailedError(self._said(error)) from None
                await asyncio.sleep(_PAUSE * 2**attempt)
        completion = reply.model_dump()
        price = self._price(reply, completion)
        return {"answer": completion} if price is None else {"answer": completion, "cost": price}

    async def _once(self, messages: Messages) -> Any:
        entry = self.entry
        given = {"api_base": entry.api_base, "api_key": entry.key()}
        return await self.complete(
            model=entry.model,
            messages=prepared(messages, entry),
            timeout=entry.timeout,
            max_retries=0,
            # the cache of a LiteLLM proxy would answer each of several samples alike, and they would agree
            caching=False,
            **{name: value for name, value in given.items() if value is not None},
            **{**entry.parameters, **self.parameters, **({"logprobs": True} if self.logprobs else {})},
        )

    def _price(self, reply: Any, completion: Mapping[str, Any]) -> float | None:
        declared = self.entry.price
        if declared is not None:
            usage = completion.get("usage") or {}
            counts = {"per_million_input": "prompt_tokens", "per_million_output": "completion_tokens"}
            took = [usage.get(count) for name, count in counts.items() if declared.get(name)]
            if any(count is None for count in took):
                return None
            by_token = (declared.get(name, 0.0) * (usage.get(count) or 0) * 1e-6 for name, count in counts.items())
            return float(declared.get("per_call", 0.0) + sum(by_token))
        try:
            return float(self.price_of(completion_response=reply)) or None
        except Exception:  # LiteLLM raises errors of many kinds for models that it has no price of
            return None

    def _said(self, error: Exception) -> str:
        text = "no answer in time" if isinstance(error, asyncio.TimeoutError) else " ".join(str(error).split())
        for secret in self.secrets:
            text = text.replace(secret, "***")
        return f"{type(error).__name__}: {text[:300]}"


def callers(policy: Policy, configuration: Configuration, parameters: Mapping[str, Any]) -> dict[str, Caller]:
    """Every model of a policy, for one request."""
    litellm = load_litellm()
    secrets, asked = configuration.secrets(), "logprob" in policy.needs.response
    return {
        name: Caller(
            configuration.models[name],
            asked and name in policy.asked_how_sure,
            parameters,
            secrets,
            litellm.acompletion,
            litellm.completion_cost,
        )
        for name in policy.models
    }


def prepared(messages: Messages, entry: ModelEntry) -> list[dict[str, Any]]:
    """Messages as a model gets them: its template around the last one, its system message before all."""
    found = [dict(message) for message in messages]
    content = found[-1].get("content") if found else None
    if entry.template is not None and isinstance(content, str | list):
        text = entry.template.replace("{prompt}", prompt_text([found[-1]]) or "")
        others = [part for part in content if "text" not in part] if isinstance(content, list) else []
        found[-1]["content"] = [{"type": "text", "text": text}, *others] if others else text
    return found if entry.system is None else [{"role": "system", "content": entry.system}, *found]


def _may_pass(error: Exception) -> bool:
    """Whether another try makes sense: not where the request or the key is wrong."""
    status = getattr(error, "status_code", None)
    return not isinstance(status, int) or status in (408, 409, 425, 429) or status >= 500
