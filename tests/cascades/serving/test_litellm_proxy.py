"""A real LiteLLM proxy serves the policy as one more model, and decides as was certified, row by row."""

import json
import sys
import urllib.request
from importlib.util import find_spec

import pytest

import riskfront as rf
from tests.cascades.serving.rig import KEY, LOCAL, certified, models_toml, record, recorded_server
from tests.support.processes import serving, wait_until

openai = pytest.importorskip("openai")
pytestmark = pytest.mark.skipif(
    find_spec("litellm") is None or find_spec("fastapi_sso") is None, reason="serving calls models through LiteLLM"
)
ROWS = 40

CONFIG = """
model_list:
  - model_name: certified by sure
    litellm_params: {model: riskfront/policy}
  - model_name: certified by gain
    litellm_params: {model: riskfront_gain/policy}
litellm_settings:
  custom_provider_map:
    - {provider: riskfront, custom_handler: certified.sure}
    - {provider: riskfront_gain, custom_handler: certified.gain}
"""


def is_alive(port):
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/health/liveliness", timeout=5):
            return True
    except OSError:
        return False


POLICIES = {"sure": "logprob", "gain": rf.LearntGain()}


def test_a_proxy_decides_as_certified(tmp_path):
    """One proxy serves two policies, each as one more model."""
    recorded = record(tmp_path, n=500)
    made = {name: certified(recorded, confidence=what, drop=0.12) for name, what in POLICIES.items()}
    for name, (policy, _) in made.items():
        assert len(policy.models) == 2
        policy.save(tmp_path / f"{name}.json")
    (tmp_path / "config.yaml").write_text(CONFIG)
    with (
        recorded_server(recorded.answers["small"]) as (_, first),
        recorded_server(recorded.answers["large"]) as (_, second),
    ):
        config = models_toml(tmp_path / "models.toml", {"small": first, "large": second})
        providers = [
            f"{name} = PolicyProvider({str(tmp_path / name)!r} + '.json', {str(config)!r})" for name in POLICIES
        ]
        (tmp_path / "certified.py").write_text(
            "\n".join(["from riskfront.serving import PolicyProvider", *providers, ""])
        )
        proxy = [sys.executable, "-c", "from litellm.proxy.proxy_cli import run_server; run_server()"]
        proxy += ["--config", tmp_path / "config.yaml", "--host", "127.0.0.1", "--port"]
        env = {**LOCAL, "RECORDED_KEY": KEY, "LITELLM_LOG": "ERROR"}
        here = tmp_path / "proxy" / "here"  # the proxy puts ../.. first on its path: nobody's modules must lie there
        here.mkdir(parents=True)
        with serving(lambda port: [*proxy, port], env=env, cwd=here) as (_, port):
            wait_until(lambda: is_alive(port), "the proxy is alive")
            client = openai.OpenAI(base_url=f"http://127.0.0.1:{port}", api_key="anything", max_retries=0, timeout=60)
            for name, (policy, trace) in made.items():
                check_decisions(client, f"certified by {name}", policy, trace)


def check_decisions(client, model, policy, trace):
    for question in list(trace)[:ROWS]:
        messages = [{"role": "user", "content": question}]
        reply = client.chat.completions.create(model=model, messages=messages)
        answered = policy.models[trace[question][0] - 1]
        assert reply.choices[0].message.content.startswith(f"{answered} says"), json.dumps(reply.model_dump())
    parts = client.chat.completions.create(model=model, messages=messages, stream=True)
    text = "".join(part.choices[0].delta.content or "" for part in parts if part.choices)
    assert text == reply.choices[0].message.content
