"""A certified policy behind an OpenAI-compatible endpoint, or as one more model of a LiteLLM proxy.

``configuration`` reads models.toml: how each model of the policy is reached. ``calls`` calls them through LiteLLM's client,
``service`` runs the policy with a bounded queue and counts for Prometheus, ``application`` is the endpoint, and
``litellm_provider`` the way into a LiteLLM proxy.
"""
