"""The service without a network: the queue, timeouts, retries, failures, and what a configuration must hold."""

import asyncio
import json
import types

import pytest

import riskfront as rf
from riskfront._cascades.policy import ModelsFailedError
from riskfront._cascades.serving.application import chunks
from riskfront._cascades.serving.calls import prepared
from riskfront._cascades.serving.configuration import ModelEntry
from riskfront._cascades.serving.service import OverloadedError, Service

SMALL = {"model": "openai/small"}
GOOD = {"small": SMALL, "large": {"model": "openai/large"}}
REQUEST = {"messages": [{"role": "user", "content": "Hello?"}]}


class Reply:
    def __init__(self, text, logprob=-0.1):
        self.text, self.logprob = text, logprob

    def model_dump(self):
        content = [{"token": "x", "logprob": self.logprob}]
        choice = {"message": {"role": "assistant", "content": self.text}, "logprobs": {"content": content}}
        usage = {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15}
        return {"choices": [{**choice, "finish_reason": "stop"}], "usage": usage}


class BrokenError(Exception):
    status_code = 500


@pytest.fixture
def make(monkeypatch):
    """A service whose models are functions of a call's arguments, in place of LiteLLM's client."""

    def made(call, confidence="logprob", threshold=-1.0, **server):
        fake = types.SimpleNamespace(acompletion=call, completion_cost=lambda **_: 0.25)
        monkeypatch.setattr("riskfront._cascades.serving.calls.load_litellm", lambda: fake)
        table = rf.LossTable(
            [{"models": "small > large", "threshold 1": threshold}], {"error": [[0] * 300], "cost": [[1] * 300]}
        )
        certificate = rf.calibrate(table, rf.Problem("error <= 0.1", minimize="cost"))
        policy = rf.Policy("cascade", ("small", "large"), (threshold,), confidence, (0.5, 0.5), certificate)
        entry = {"timeout": 0.2, "retries": 1}
        models = {name: {"model": f"openai/{name}", **entry} for name in ("small", "large")}
        return Service(policy, {"models": models, "server": server})

    return made


def test_retries_and_timeouts(make):
    calls = []

    async def call(model, **_):
        calls.append(model)
        if model == "openai/small":
            raise BrokenError("down")
        if calls.count(model) == 1:
            await asyncio.sleep(5)
        return Reply("late")

    served = asyncio.run(make(call).answer(REQUEST))
    assert calls == ["openai/small"] * 2 + ["openai/large"] * 2
    assert served.completion["choices"][0]["message"]["content"] == "late"
    assert served.completion["riskfront"]["failed"] == ["small"]


def test_a_template_is_put_around_the_texts_of_a_message():
    entry = ModelEntry("a/b", template="Question: {prompt}")
    image = {"type": "image_url", "image_url": {"url": "x"}}
    texts = [{"type": "text", "text": "Why?"}]
    for content, asked in (
        ("Why?", "Question: Why?"),
        (texts, "Question: Why?"),
        ([*texts, image], [{"type": "text", "text": "Question: Why?"}, image]),
    ):
        assert prepared([{"role": "user", "content": content}], entry) == [{"role": "user", "content": asked}]


def test_log_probabilities_that_the_configuration_asks_for_too(make):
    asked = []

    async def call(model, logprobs=None, **_):
        asked.append(logprobs)
        return Reply("yes")

    service = make(call)
    service.configuration.models["small"].parameters["logprobs"] = False
    found = asyncio.run(service.answer(REQUEST)).completion["riskfront"]
    assert (found["model"], asked) == ("small", [True])


def test_a_request_that_is_wrong_is_not_sent_again(make):
    calls = []

    async def call(model, **_):
        calls.append(model)
        error = BrokenError("bad key sk-very-secret")
        error.status_code = 401
        raise error

    service = make(call)
    with pytest.raises(ModelsFailedError, match="the last model of the policy must answer"):
        asyncio.run(service.answer(REQUEST))
    assert calls == ["openai/small", "openai/large"]
    assert service.metrics.requests["abstained"] == 1


def test_keys_never_stand_in_errors(make, monkeypatch):
    monkeypatch.setenv("SOME_API_KEY", "sk-very-secret")

    async def call(model, **_):
        raise BrokenError("bad key sk-very-secret")

    with pytest.raises(ModelsFailedError, match=r"bad key \*\*\*"):
        asyncio.run(make(call).answer(REQUEST))


def test_the_declared_answer(make, tmp_path):
    async def call(model, **_):
        raise BrokenError("down")

    service = make(call, failed_answer="Ask a person.", log=str(tmp_path / "requests.jsonl"))
    served = asyncio.run(service.answer(REQUEST))
    service.close()
    assert served.abstained
    assert served.completion["riskfront"]["failed"] == ["small", "large"]
    line = json.loads((tmp_path / "requests.jsonl").read_text())
    assert (line["calls"], line["failed"], line["model"], line["abstained"]) == (2, ["small", "large"], None, True)
    assert [chunk["choices"][0]["delta"].get("content") for chunk in chunks(served)] == ["", "Ask a person.", None]


def test_the_queue_is_bounded(make):
    release = asyncio.Event()

    async def call(model, **_):
        await asyncio.wait_for(release.wait(), 60)
        return Reply("done")

    async def run():
        service = make(call, most_running=2, most_waiting=1)
        for name in ("small", "large"):
            object.__setattr__(service.configuration.models[name], "timeout", 100.0)
        begun = [asyncio.create_task(service.answer(REQUEST)) for _ in range(3)]
        while service.waiting == 0:
            await asyncio.sleep(0.01)
        assert (service.running, service.waiting) == (2, 1)
        with pytest.raises(OverloadedError):
            await service.answer(REQUEST)
        release.set()
        assert len(await asyncio.gather(*begun)) == 3
        assert (service.running, service.waiting) == (0, 0)
        assert service.metrics.requests == {"answered": 3, "refused": 1}

    asyncio.run(asyncio.wait_for(run(), 60))


def test_a_judge_is_asked_where_no_response_holds_the_confidence(make, tmp_path, monkeypatch):
    async def call(model, **_):
        return Reply(f"by {model}")

    with pytest.raises(rf.InvalidInputError, match="decides by 'judge', which no response holds"):
        make(call, "judge", 0.5)
    (tmp_path / "my_judge_of_tests.py").write_text("async def sure(prompt, text, model):\n    return len(text) / 100\n")
    monkeypatch.syspath_prepend(tmp_path)
    served = asyncio.run(make(call, "judge", 0.5, judge="my_judge_of_tests:sure").answer(REQUEST))
    assert served.completion["riskfront"]["model"] == "large"
    with pytest.raises(rf.InvalidInputError, match="cannot be loaded"):
        make(call, "judge", 0.5, judge="my_judge_of_tests:nothing")


def test_requests_that_cannot_be_served(make):
    async def call(model, **_):
        return Reply("yes")

    service = make(call, allow=["max_tokens"])
    for wrong, words in (
        ({}, "must have messages"),
        ({**REQUEST, "temperature": 1}, "it sets 'temperature'"),
        ({**REQUEST, "about": 3}, "'about' must be an object"),
        ({**REQUEST, "n": 2}, "it sets 'n'"),
        ({**REQUEST, "stream": True, "stream_options": 5}, "'stream_options' must be an object"),
    ):
        with pytest.raises(rf.InvalidInputError, match=words):
            asyncio.run(service.answer(wrong))
    assert asyncio.run(service.answer({**REQUEST, "max_tokens": 5, "n": 1, "user": "me"})).abstained is False


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"models": {"small": {"model": "a/b"}}}, "'large' is missing"),
        ({"server": {"port": 1}}, "has no 'port'"),
        ({"extra": 1}, "it also has 'extra'"),
        ({"models": {"small": {"model": "a/b", "api_key": "sk"}, "large": {"model": "a/b"}}}, "never from a file"),
        ({"models": {"small": {"model": "a/b", "timeout": "1"}, "large": {"model": "a/b"}}}, "'timeout' must be"),
        ({"models": {"small": {"model": "a/b", "timeout": 0}, "large": {"model": "a/b"}}}, "must be positive"),
        ({"models": {"small": {}, "large": {"model": "a/b"}}}, "must have 'model'"),
        ({"models": {"small": {"model": "a/b", "template": "x"}, "large": {"model": "a/b"}}}, "must hold {prompt}"),
        ({"models": {"small": {"model": "a/b", "api_key_env": "NOT_THERE"}, "large": {"model": "a/b"}}}, "NOT_THERE"),
        ({"models": {**GOOD, "small": {**SMALL, "api_base": "https://me:sk-1@host/v1"}}}, "'api_base' holds one"),
        ({"models": {**GOOD, "small": {**SMALL, "api_base": "https://host/v1?api-key=1"}}}, "'api_base' holds one"),
        (
            {"models": {**GOOD, "small": {**SMALL, "parameters": {"extra_headers": {"Authorization": "Bearer sk"}}}}},
            "'Authorization' holds one",
        ),
        ({"models": {**GOOD, "small": {**SMALL, "parameters": {"api_key": "sk"}}}}, "'api_key' holds one"),
        ({"models": {**GOOD, "small": {**SMALL, "api_key_env": "sk-1234"}}}, "must be the name of an environment"),
        ({"server": {"most_running": 0}}, "at least 1"),
        ({"server": {"allow": ["n"]}}, "allow must not name n"),
        (
            {"models": {"small": {"model": "a/b", "parameters": {"n": 3}}, "large": {"model": "a/b"}}},
            "one answer a call",
        ),
    ],
)
def test_configurations_that_are_refused(make, change, words):
    from riskfront._cascades.serving.configuration import configuration

    service = make(None)
    good = {"models": {name: {"model": f"openai/{name}"} for name in ("small", "large")}, "server": {}}
    with pytest.raises(rf.InvalidInputError, match=words):
        configuration({**good, **change}, service.policy)
