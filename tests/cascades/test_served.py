"""A policy behind an ASGI server: thousands of requests at the same time, and counts that agree with what was certified."""

import asyncio
import json
import threading
from concurrent.futures import ThreadPoolExecutor
from http.client import HTTPConnection

import numpy as np
import pytest

import riskfront as rf
from tests.support.processes import wait_until
from tests.support.runs import simulated_runs

uvicorn = pytest.importorskip("uvicorn", reason="the ASGI server is an extra of developers")

CLIENTS, EACH = 8, 300


def served(policy, models):
    """An ASGI application: POST the number of a question, get the answer."""

    async def application(scope, receive, send):
        if scope["type"] != "http":
            return
        body, more = b"", True
        while more:
            message = await receive()
            body, more = body + message.get("body", b""), message.get("more_body", False)
        found = await policy.aroute(json.loads(body), models)
        reply = json.dumps({"answer": found.answer, "called": found.called, "cost": found.cost}).encode()
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-type", b"application/json")]})
        await send({"type": "http.response.body", "body": reply})

    return application


def ask(port, questions):
    connection, replies = HTTPConnection("127.0.0.1", port, timeout=60), []
    for question in questions:
        connection.request("POST", "/", json.dumps(int(question)))
        replies.append(json.loads(connection.getresponse().read()))
    connection.close()
    return replies


def test_thousands_of_requests_at_the_same_time():
    runs = simulated_runs(n=3000)
    cascade = rf.Cascade(runs, stages=2, confidence="confidence", thresholds=10)
    best = max(runs.names, key=lambda name: runs.value("score")[runs.names.index(name)].mean())
    problem = rf.Problem(["score drop <= 0.05"], minimize="cost", reference=best)
    policy = cascade.policy(rf.calibrate(cascade.table(), problem))
    numbers = {
        name: {key: runs.value(key)[runs.names.index(name)] for key in ("confidence", "cost")} for name in runs.names
    }

    def model(name):
        async def call(question):
            await asyncio.sleep(0)  # requests take turns
            confidence, cost = (float(numbers[name][key][question]) for key in ("confidence", "cost"))
            return {"answer": name, "confidence": confidence, "cost": cost}

        return call

    models = {name: model(name) for name in runs.names}
    server = uvicorn.Server(uvicorn.Config(served(policy, models), port=0, log_level="error", lifespan="off"))
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    wait_until(lambda: server.started, "the server has started")
    port = server.servers[0].sockets[0].getsockname()[1]
    questions = np.random.default_rng(0).integers(0, runs.n_examples, (CLIENTS, EACH))
    with ThreadPoolExecutor(CLIENTS) as clients:
        replies = [reply for part in clients.map(lambda asked: ask(port, asked), questions) for reply in part]
    server.should_exit = True
    thread.join(timeout=30)

    counted = policy.counts.to_dict()
    assert counted["requests"] == len(replies) == CLIENTS * EACH
    for name in runs.names:
        assert counted["answered"].get(name, 0) == sum(reply["answer"] == name for reply in replies)
    assert counted["mean_cost"] == pytest.approx(np.mean([reply["cost"] for reply in replies]))
    share = np.mean([reply["answer"] == policy.models[0] for reply in replies])
    predicted = policy.shares[0]
    assert 0 < predicted < 1  # or there would be nothing to compare
    assert abs(share - predicted) < 4 * np.sqrt(predicted * (1 - predicted) * (1 / len(replies) + 1 / 2000)) + 1e-9
