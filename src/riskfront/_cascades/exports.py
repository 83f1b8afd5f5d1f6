"""Other routers, and why a policy cannot be written for them: an export exists only if it decides as the policy does."""

from __future__ import annotations

from collections.abc import Sequence

from riskfront.errors import InvalidInputError

_INSTEAD = "Serve the policy itself: riskfront serve policy.json --config models.toml"
#: router -> why its configuration cannot hold a policy, and what to use
_WHY = {
    "litellm": "the fallbacks of LiteLLM fire on errors, never on low confidence: every request would stay on the first "
    f"model. {_INSTEAD}, or let a LiteLLM proxy call it: riskfront.serving.PolicyProvider",
    "semantic-router": "the confidence of the vLLM Semantic Router is a number of its own, with one threshold for "
    f"all models, and no test here can show that it decides as the policy does. {_INSTEAD}",
}


def refuse_exports(names: Sequence[str]) -> None:
    """Raise an error that says why, if a policy is to be written for another router."""
    for name in names:
        why = _WHY.get(name, f"nothing shows that it would decide as the policy does. {_INSTEAD}")
        raise InvalidInputError(f"a policy cannot be exported to '{name}': {why}.")
