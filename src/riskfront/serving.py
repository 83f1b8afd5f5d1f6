"""A certified policy behind an OpenAI-compatible endpoint, or as one more model of a LiteLLM proxy.

``Service`` runs a policy with the models of models.toml, ``application`` is the ASGI application of ``riskfront serve``, and
``PolicyProvider`` the custom provider for LiteLLM.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from riskfront._cascades.serving.application import application
from riskfront._cascades.serving.service import Service

if TYPE_CHECKING:
    from riskfront._cascades.serving.litellm_provider import PolicyProvider

__all__ = ["PolicyProvider", "Service", "application"]


def __getattr__(name: str) -> Any:
    if name == "PolicyProvider":  # it needs LiteLLM, which takes seconds to load
        from riskfront._cascades.serving.litellm_provider import PolicyProvider

        return PolicyProvider
    raise AttributeError(f"riskfront.serving has no '{name}'.")
