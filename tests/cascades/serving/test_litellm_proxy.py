"""A real LiteLLM proxy serves the policy as one more model, and decides as was certified, row by row."""

import contextlib
import json
import sys
import urllib.request
from importlib.util import find_spec

import pytest

import riskfront as rf
from tests.cascades.serving.rig import KEY, LOCAL, certified, models_toml, record, record_samples, recorded_server
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
CACHED = """
model_list:
  - model_name: certified
    litellm_params: {model: riskfront/policy}
litellm_settings:
  cache: true
  cache_params: {type: local}
  custom_provider_map:
    - {provider: riskfront, custom_handler: certified.policy}
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
    with proxy(tmp_path, recorded, CONFIG, POLICIES) as client:
        for name, (policy, trace) in made.items():
            check_decisions(client, f"certified by {name}", policy, trace)
        check_refusals(client)


def test_a_cache_of_the_proxy_does_not_answer_for_the_models(tmp_path):
    """Samples of an answer that came from a cache would all agree, and the first model would always be trusted."""
    recorded = record_samples(tmp_path)
    with pytest.warns(UserWarning, match="means over several answers"):
        policy, trace = certified(recorded, confidence="agreement", drop=0.12)
    assert policy.samples == 3
    assert 0.05 < policy.shares[0] < 0.95
    policy.save(tmp_path / "policy.json")
    with proxy(tmp_path, recorded, CACHED, ["policy"]) as client:
        for user in ("one", "another"):  # an answer to the same request would come from the cache as a whole
            for question in list(trace)[:ROWS]:
                messages = [{"role": "user", "content": question}]
                reply = client.chat.completions.create(model="certified", messages=messages, user=user)
                told, (calls, cost) = reply.model_dump()["riskfront"], trace[question]
                assert (told["called"], told["cost"]) == (list(policy.models[:calls]), pytest.approx(cost))


@contextlib.contextmanager
def proxy(folder, recorded, config, policies):
    """An OpenAI client of a proxy with these policies, each a name in its file certified.py and of a JSON file."""
    (folder / "config.yaml").write_text(config)
    with (
        recorded_server(recorded.answers["small"]) as (_, first),
        recorded_server(recorded.answers["large"]) as (_, second),
    ):
        models = models_toml(folder / "models.toml", {"small": first, "large": second})
        providers = [f"{name} = PolicyProvider({str(folder / name)!r} + '.json', {str(models)!r})" for name in policies]
        lines = ["from riskfront.serving import PolicyProvider", *providers, ""]
        (folder / "certified.py").write_text("\n".join(lines))
        command = [sys.executable, "-c", "from litellm.proxy.proxy_cli import run_server; run_server()"]
        command += ["--config", folder / "config.yaml", "--host", "127.0.0.1", "--port"]
        env = {**LOCAL, "RECORDED_KEY": KEY, "LITELLM_LOG": "ERROR"}
        here = folder / "proxy" / "here"  # the proxy puts ../.. first on its path: nobody's modules must lie there
        here.mkdir(parents=True)
        with serving(lambda port: [*command, port], env=env, cwd=here) as (running, port):
            wait_until(lambda: is_alive(port), "the proxy is alive")
            yield openai.OpenAI(base_url=f"http://127.0.0.1:{port}", api_key="anything", max_retries=0, timeout=60)
            assert KEY not in running.out + running.err


def check_decisions(client, model, policy, trace):
    for question in list(trace)[:ROWS]:
        messages = [{"role": "user", "content": question}]
        found = client.chat.completions.with_raw_response.create(model=model, messages=messages)
        reply, (calls, cost) = found.parse(), trace[question]
        answered = policy.models[calls - 1]
        assert reply.choices[0].message.content.startswith(f"{answered} says"), json.dumps(reply.model_dump())
        assert float(found.headers["x-litellm-response-cost"]) == pytest.approx(cost)  # what its budgets count
    parts = client.chat.completions.create(model=model, messages=messages, stream=True)
    text = "".join(part.choices[0].delta.content or "" for part in parts if part.choices)
    assert text == reply.choices[0].message.content


def check_refusals(client):
    """What a policy does not serve is the client's error, and no proxy tries it again."""
    asked = {"model": "certified by sure", "messages": [{"role": "user", "content": "Question 0?"}]}
    with pytest.raises(openai.BadRequestError, match="must not change what was certified; it sets 'temperature'"):
        client.chat.completions.create(**asked, temperature=0.7)
    with pytest.raises(openai.BadRequestError, match="'prompt_chars' is computed from the request"):
        client.chat.completions.create(**asked, extra_body={"about": {"prompt_chars": 3}})
    with pytest.raises(openai.APIStatusError, match="the last model of the policy must answer") as failed:
        client.chat.completions.create(**asked)  # of which nothing was recorded
    assert failed.value.status_code == 502
