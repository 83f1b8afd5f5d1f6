"""riskfront serve with real processes: two servers of recorded answers, the endpoint, and the clients that people use."""

import asyncio
import contextlib
import json
import math
import re
import signal
import time
import urllib.error
import urllib.request
from importlib.util import find_spec

import numpy as np
import pytest

import riskfront as rf
from riskfront.serving import Service
from tests.cascades.serving.rig import KEY, certified, models_toml, record, recorded_server, served
from tests.support.command_line import riskfront

aiohttp = pytest.importorskip("aiohttp")
openai = pytest.importorskip("openai")
pytestmark = pytest.mark.skipif(find_spec("litellm") is None, reason="serving calls models through LiteLLM")
REQUESTS, GAINS = 2000, 100


def body(question, **more):
    return {"model": "riskfront", "messages": [{"role": "user", "content": question}], **more}


def post(port, content, key=KEY):
    url, headers = f"http://127.0.0.1:{port}/v1/chat/completions", {"Authorization": f"Bearer {key}"}
    request = urllib.request.Request(url, json.dumps(content).encode(), headers=headers)
    try:
        with urllib.request.urlopen(request, timeout=60) as reply:
            return reply.status, json.load(reply)
    except urllib.error.HTTPError as error:
        return error.code, json.load(error)


async def all_at_once(port, questions):
    """All requests are sent before any is answered."""
    limits = aiohttp.TCPConnector(limit=0)
    headers, timeout = {"Authorization": f"Bearer {KEY}"}, aiohttp.ClientTimeout(150)
    async with aiohttp.ClientSession(connector=limits, timeout=timeout, headers=headers) as session:

        async def ask(question):
            url = f"http://127.0.0.1:{port}/v1/chat/completions"
            async with session.post(url, json=body(question)) as reply:
                return reply.status, await reply.json()

        return await asyncio.gather(*(ask(question) for question in questions))


def check_decisions(port, policy, trace):
    """2,000 requests at the same time; each is decided, and paid, as the certified table says."""
    questions = (list(trace) * 3)[:REQUESTS]
    replies = asyncio.run(all_at_once(port, questions))
    assert {status for status, _ in replies} == {200}
    for question, (_, reply) in zip(questions, replies, strict=True):
        told, (calls, cost) = reply["riskfront"], trace[question]
        assert told["failed"] == [], metrics(port)
        assert told["called"] == list(policy.models[:calls])
        assert told["model"] == policy.models[calls - 1]
        assert told["cost"] == pytest.approx(cost)
        assert reply["choices"][0]["message"]["content"].startswith(f"{told['model']} says")
    return {reply["id"]: (question, reply) for question, (_, reply) in zip(questions, replies, strict=True)}


def metrics(port):
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=60) as reply:
        lines = reply.read().decode().splitlines()
    return {name: float(value) for name, value in (line.rsplit(" ", 1) for line in lines if line[0] != "#")}


def check_metrics(port, policy, trace):
    found, calls = metrics(port), [calls for calls, _ in (list(trace.values()) * 3)[:REQUESTS]]
    assert found['riskfront_serve_requests_total{outcome="answered"}'] == REQUESTS
    for stage, name in enumerate(policy.models):
        answered = sum(count == stage + 1 for count in calls)
        assert found[f'riskfront_serve_share{{model="{name}"}}'] == pytest.approx(answered / REQUESTS)
        assert found[f'riskfront_serve_certified_share{{model="{name}"}}'] == policy.shares[stage]
    price = sum(found[f'riskfront_serve_price_total{{model="{name}"}}'] for name in policy.models)
    assert price == pytest.approx(sum(cost for _, cost in (list(trace.values()) * 3)[:REQUESTS]))
    assert found["riskfront_serve_abstentions_total"] == 0


def check_openai_client(port, trace):
    client = openai.OpenAI(base_url=f"http://127.0.0.1:{port}/v1", api_key=KEY, max_retries=0, timeout=60)
    question = next(iter(trace))
    messages = [{"role": "user", "content": question}]
    whole = client.chat.completions.create(model="riskfront", messages=messages)
    parts = client.chat.completions.create(
        model="riskfront", messages=messages, stream=True, stream_options={"include_usage": True}
    )
    parts = list(parts)
    text = "".join(part.choices[0].delta.content or "" for part in parts if part.choices)
    assert text == whole.choices[0].message.content
    assert parts[-1].usage.total_tokens == whole.usage.total_tokens > 0
    stranger = openai.OpenAI(base_url=client.base_url, api_key="another", max_retries=0, timeout=60)
    with pytest.raises(openai.AuthenticationError):
        stranger.chat.completions.create(model="riskfront", messages=messages)
    assert [model.id for model in client.models.list()] == ["riskfront"]
    with pytest.raises(openai.BadRequestError, match="must not change what was certified; it sets 'temperature'"):
        client.chat.completions.create(model="riskfront", messages=messages, temperature=0.7)
    with pytest.raises(openai.BadRequestError, match="the model must be 'riskfront'"):
        client.chat.completions.create(model="gpt-4o", messages=messages)


def check_killed_servers(port, small, large, policy, trace):
    """Without the first model all goes to the second; without both the declared answer is given."""
    question = next(question for question, (calls, _) in trace.items() if calls == 1)
    small.kill()
    status, reply = post(port, body(question))
    assert status == 200
    assert reply["riskfront"]["called"] == list(policy.models)
    assert (reply["riskfront"]["model"], reply["riskfront"]["failed"]) == ("large", ["small"])
    large.kill()
    status, reply = post(port, body(question))
    told = {
        "model": None,
        "called": list(policy.models),
        "failed": list(policy.models),
        "confidence": None,
        "cost": 0.0,
    }
    assert (status, reply["riskfront"]) == (200, {**told, "abstained": True})
    assert reply["choices"][0]["message"]["content"] == "Please ask a person."
    found = metrics(port)
    assert found["riskfront_serve_abstentions_total"] == 1
    assert found['riskfront_serve_model_errors_total{model="small"}'] == 2


def check_stopping(port, endpoint, answers, first, trace):
    """A model comes back and is used at once; a request that was begun is finished after the signal to stop."""
    question = next(question for question, (calls, _) in trace.items() if calls == 1)
    with recorded_server(answers, first):
        assert asyncio.run(asyncio.wait_for(begun_then_stopped(port, body(question), endpoint), 60)) == 200
        assert endpoint.wait(60) == 0


def test_a_served_policy_decides_as_certified(tmp_path):
    recorded = record(tmp_path)
    policy, trace = certified(recorded, confidence=rf.LearntConfidence(["logprob", "output_tokens", "prompt_chars"]))
    assert min(policy.shares) > 0.02  # or there would be nothing to decide
    policy.save(tmp_path / "policy.json")
    log = tmp_path / "requests.jsonl"
    options = f'failed_answer = "Please ask a person."\nlog = "{log}"\napi_key_env = "RECORDED_KEY"'
    with (
        recorded_server(recorded.answers["small"]) as (small, first),
        recorded_server(recorded.answers["large"]) as (large, second),
    ):
        config = models_toml(tmp_path / "models.toml", {"small": first, "large": second}, options)
        with served(tmp_path / "policy.json", config) as (endpoint, port):
            replies = check_decisions(port, policy, trace)
            check_metrics(port, policy, trace)
            check_openai_client(port, trace)
            check_killed_servers(port, small, large, policy, trace)
            check_stopping(port, endpoint, recorded.answers["small"], first, trace)
            said = endpoint.out + endpoint.err
    rows = [json.loads(line) for line in log.read_text().splitlines()]
    assert len(rows) == REQUESTS + 5
    assert KEY not in said + log.read_text()
    check_monitoring(tmp_path, rows, replies, recorded)


def check_monitoring(folder, rows, replies, recorded):
    """The log, with scores added by the request's id and the reference asked on a share of the requests, is watched."""
    large = json.loads(recorded.answers["large"].read_text())["answers"]
    rng = np.random.default_rng(0)
    for score, status in (("measured", 0), ("broken", 1)):
        scored = folder / f"{score}.jsonl"
        with scored.open("w") as file:
            for row in rows:
                question, reply = replies.get(row["id"], (None, None))
                told = {}
                if question is not None and rng.random() < 0.5:
                    right = "says yes" in reply["choices"][0]["message"]["content"]
                    told = {"score": float(right and score == "measured")}
                    told["score of large"] = float("says yes" in large[question]["text"])
                file.write(json.dumps({**row, **told}) + "\n")
        audit = ["--audit", "score of large=0.5", "--warn-on", "confidence", "--json"]
        done = riskfront("monitor", folder / "policy.json", scored, *audit)
        assert done.returncode == status, done.stdout + done.stderr
        assert json.loads(done.stdout)["outcomes"] == len(rows)


def test_a_route_by_gain_decides_as_certified(tmp_path, monkeypatch):
    """Cascade and router, with real model servers, in this process: the endpoint around them is the same as above."""
    monkeypatch.setenv("RECORDED_KEY", KEY)
    recorded = record(tmp_path, n=400)
    answers = {name: json.loads(path.read_text())["answers"] for name, path in recorded.answers.items()}
    with (
        recorded_server(recorded.answers["small"]) as (_, first),
        recorded_server(recorded.answers["large"]) as (_, second),
    ):
        config = models_toml(tmp_path / "models.toml", {"small": first, "large": second})
        for kind in (rf.Cascade, rf.Router):
            policy, trace = certified(recorded, kind, rf.LearntGain(), drop=0.12)
            assert min(policy.shares) > 0.02
            policy.save(tmp_path / "policy.json")
            asked = list(trace)[:GAINS]
            for question, reply in zip(
                asked,
                asyncio.run(asyncio.wait_for(answered(tmp_path / "policy.json", config, asked), 100)),
                strict=True,
            ):
                told, (calls, cost) = reply["riskfront"], trace[question]
                assert len(told["called"]) == calls
                assert told["cost"] == pytest.approx(cost)
                assert reply["choices"][0]["message"]["content"] == answers[told["model"]][question]["text"]


async def answered(policy, config, questions):
    service = Service(policy, config)
    async with closed_clients():
        return [served.completion for served in await asyncio.gather(*(service.answer(body(q)) for q in questions))]


@contextlib.asynccontextmanager
async def closed_clients():
    """LiteLLM keeps its clients for the life of a process; here they end with their event loop."""
    import litellm

    yield
    clients = litellm.in_memory_llm_clients_cache
    for client in list(clients.cache_dict.values()):
        await client.close()
    clients.flush_cache()


def test_connections_that_a_model_server_forgot_are_not_used(tmp_path, monkeypatch):
    """Servers close connections that were idle for some seconds; a call that is sent at that moment is reset. A server that
    resets what comes after 2.5 s shows what a busy client meets."""
    monkeypatch.setenv("RECORDED_KEY", KEY)
    policy, _ = certified(record(tmp_path, n=400), drop=0.12)
    reply = {"object": "chat.completion", "choices": [{"message": {"role": "assistant", "content": "yes"}, "index": 0}]}

    async def forgets(reader, writer):
        with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError):
            await requests(reader, writer)
        writer.close()

    async def requests(reader, writer):
        last = math.inf  # a new connection is never forgotten, however long a busy machine takes for its first request
        while head := await reader.readuntil(b"\r\n\r\n"):
            await reader.readexactly(int(re.search(rb"(?i)content-length: (\d+)", head)[1]))
            if time.monotonic() - last > 2.5:
                return writer.transport.abort()
            last, text = time.monotonic(), json.dumps(reply).encode()
            writer.write(b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n")
            writer.write(b"content-length: %d\r\n\r\n%b" % (len(text), text))

    async def run():
        server = await asyncio.start_server(forgets, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        config = models_toml(tmp_path / "models.toml", {"small": port, "large": port})
        config.write_text(config.read_text().replace("retries = 1", "retries = 0"))
        service = Service(policy, config)
        async with server, closed_clients():
            await asyncio.gather(*(service.answer(body("Yes?")) for _ in range(5)))
            await asyncio.sleep(2.7)
            found = await asyncio.gather(*(service.answer(body("Yes?")) for _ in range(5)))
        return [served.completion["riskfront"]["failed"] for served in found]

    assert asyncio.run(asyncio.wait_for(run(), 100)) == [[]] * 5


async def begun_then_stopped(port, content, endpoint):
    """A request whose body is complete only after the endpoint was told to stop."""
    data = json.dumps(content).encode()
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    head = f"POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {KEY}\r\n"
    head += f"Content-Length: {len(data)}\r\nExpect: 100-continue\r\n\r\n"
    writer.write(head.encode() + data[:5])
    await writer.drain()
    assert b" 100 " in await reader.readline(), "the endpoint reads the request"
    await reader.readline()
    endpoint.send(signal.SIGTERM)
    await asyncio.sleep(0.3)
    writer.write(data[5:])
    await writer.drain()
    status = int((await reader.readline()).split()[1])
    writer.close()
    return status
