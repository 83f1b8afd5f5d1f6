"""Policies in the configuration of other routers, as far as their formats allow."""

from __future__ import annotations

import json
from typing import Any

from riskfront.cascades.policy import Policy
from riskfront.errors import InvalidInputError


def litellm(policy: Policy) -> dict[str, Any]:
    """``config.yaml`` of the LiteLLM proxy, as a dictionary (JSON is YAML).

    LiteLLM falls back when a call fails, not when an answer is unsure: the order of the models and the escape on errors are
    what its format holds. The thresholds stand in ``model_info``, where a callback of your own can read them.
    """
    limits = [*policy.thresholds, None]
    listed = [
        {
            "model_name": name,
            "litellm_params": {"model": name},
            "model_info": {
                "riskfront_stage": stage + 1,
                "riskfront_threshold": limit,
                "riskfront_confidence": _said(policy),
            },
        }
        for stage, (name, limit) in enumerate(zip(policy.models, limits, strict=True))
    ]
    later = [{name: list(policy.models[stage + 1 :])} for stage, name in enumerate(policy.models[:-1])]
    return {"model_list": listed, "router_settings": {"fallbacks": later}}


def semantic_router(policy: Policy, decision: str = "riskfront") -> dict[str, Any]:
    """A decision of the vLLM Semantic Router with its ``confidence`` algorithm, as a dictionary (JSON is YAML).

    Its format has one threshold for all stages, and a confidence of its own: a policy on the mean log-probability of the
    tokens, with equal thresholds, can be written; any other cannot.
    """
    if policy.kind != "cascade" or policy.confidence not in ("logprob", "avg_logprob", "margin"):
        raise InvalidInputError(
            "the confidence algorithm of semantic-router decides by the mean log-probability of an answer ('logprob') or its "
            f"'margin'; this {policy.kind} decides by {_said(policy)}."
        )
    if len(set(policy.thresholds)) != 1:
        raise InvalidInputError(
            f"semantic-router has one threshold for all stages; this policy has {list(policy.thresholds)}. "
            "Calibrate with stages=2, which needs one."
        )
    method = "margin" if policy.confidence == "margin" else "avg_logprob"
    return {
        "decisions": [
            {
                "name": decision,
                "description": policy.certificate.verdict(),
                "modelRefs": [{"model": name} for name in policy.models],
                "algorithm": {
                    "type": "confidence",
                    "confidence": {
                        "confidence_method": method,
                        "threshold": policy.thresholds[0],
                        "escalation_order": "declared",
                        "on_error": "skip",
                    },
                },
            }
        ]
    }


#: format -> what writes it
FORMATS = {"litellm": litellm, "semantic-router": semantic_router}


def as_text(configuration: dict[str, Any]) -> str:
    return json.dumps(configuration, indent=1, ensure_ascii=False) + "\n"


def _said(policy: Policy) -> str:
    return policy.confidence if isinstance(policy.confidence, str) else "a learnt confidence"
