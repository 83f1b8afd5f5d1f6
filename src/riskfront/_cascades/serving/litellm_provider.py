"""A policy as a provider of LiteLLM, so that a LiteLLM proxy serves it as one more model: docs/howto/serve.md says how."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Iterator, Mapping
from typing import Any

from riskfront._cascades.policy import ModelsFailedError, Policy
from riskfront._cascades.serving.application import chunks
from riskfront._cascades.serving.calls import load_litellm
from riskfront._cascades.serving.service import OverloadedError, Served, Service
from riskfront.errors import InvalidInputError

load_litellm()

from litellm.exceptions import BadGatewayError, BadRequestError, ServiceUnavailableError  # noqa: E402
from litellm.llms.custom_llm import CustomLLM  # noqa: E402
from litellm.types.utils import ModelResponse  # noqa: E402

_PROVIDER = "riskfront"  # in errors
#: what LiteLLM tells its providers of how to call, which changes no answer
_OF_LITELLM = frozenset({"extra_body", "max_retries", "timeout", "api_key", "api_base", "model"})


class PolicyProvider(CustomLLM):
    """A certified policy for LiteLLM: ``acompletion``, ``astreaming`` and their forms that wait.

    Args:
        policy: a policy, or its JSON file.
        models: models.toml, or what it holds.
    """

    def __init__(
        self, policy: Policy | str | os.PathLike[str], models: Mapping[str, Any] | str | os.PathLike[str]
    ) -> None:
        super().__init__()
        self.service = Service(policy, models)

    async def acompletion(self, *_: Any, messages: Any, optional_params: Mapping[str, Any], **__: Any) -> ModelResponse:
        return _response(await self._answered(messages, optional_params))

    def completion(self, *_: Any, messages: Any, optional_params: Mapping[str, Any], **__: Any) -> ModelResponse:
        return _response(asyncio.run(self._answered(messages, optional_params)))

    async def astreaming(
        self, *_: Any, messages: Any, optional_params: Mapping[str, Any], **__: Any
    ) -> AsyncIterator[dict[str, Any]]:
        for piece in _pieces(await self._answered(messages, optional_params)):
            yield piece

    def streaming(
        self, *_: Any, messages: Any, optional_params: Mapping[str, Any], **__: Any
    ) -> Iterator[dict[str, Any]]:
        yield from _pieces(asyncio.run(self._answered(messages, optional_params)))

    async def _answered(self, messages: Any, parameters: Mapping[str, Any]) -> Served:
        given = {**parameters, **(parameters.get("extra_body") or {}), "messages": messages}
        given = {name: value for name, value in given.items() if name not in _OF_LITELLM}
        # other errors than LiteLLM's own would reach clients as status 500
        name = self.service.configuration.server.name
        try:
            return await self.service.answer(given)
        except InvalidInputError as error:
            raise BadRequestError(str(error), model=name, llm_provider=_PROVIDER) from None
        except OverloadedError as error:
            raise ServiceUnavailableError(str(error), model=name, llm_provider=_PROVIDER) from None
        except ModelsFailedError as error:
            raise BadGatewayError(str(error), model=name, llm_provider=_PROVIDER) from None


def _response(served: Served) -> ModelResponse:
    told = {name: value for name, value in served.completion.items() if value is not None}
    response = ModelResponse(**told)
    response._hidden_params["response_cost"] = served.completion["riskfront"]["cost"]  # what budgets of a proxy count
    return response


def _pieces(served: Served) -> Iterator[dict[str, Any]]:
    usage = served.completion["usage"]
    for chunk in chunks(served):
        choice = chunk["choices"][0]
        yield {
            "text": choice["delta"].get("content") or "",
            "is_finished": choice["finish_reason"] is not None,
            "finish_reason": choice["finish_reason"] or "",
            "usage": usage if choice["finish_reason"] is not None else None,
            "index": 0,
            "tool_use": None,
        }
