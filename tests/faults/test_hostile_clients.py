"""The server of examples/local_cascade.py limits bodies, headers, connections and time."""

from __future__ import annotations

import json
import socket
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest

import riskfront as rf
from examples import local_cascade
from tests.support.processes import wait_until


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    monkeypatch.setattr(local_cascade, "SECONDS", 60.0)
    monkeypatch.setattr(local_cascade, "CONNECTIONS", 4)
    table = rf.LossTable([{"models": "small > large", "threshold 1": 0.8}], {"error": [[0] * 300], "cost": [[1] * 300]})
    made = rf.calibrate(table, rf.Problem("error <= 0.1", minimize="cost"))
    policy = rf.Policy("cascade", ("small", "large"), (0.8,), "sure", (0.5, 0.5), made)
    running = local_cascade.serve(policy, {"small": lambda x: ("a", 0.9), "large": lambda x: "b"})
    yield running.server_address[1]
    ended = threading.Thread(target=running.shutdown, daemon=True)
    ended.start()
    ended.join(20)
    running.server_close()


def connect(port: int) -> socket.socket:
    one = socket.create_connection(("127.0.0.1", port), timeout=20)
    return one


def sent(port: int, data: bytes) -> bytes:
    """What comes back, until the server hangs up."""
    with connect(port) as one:
        found = b""
        try:
            one.sendall(data)
            while part := one.recv(65536):
                found += part
        except OSError:
            pass
        return found


def question(body: bytes) -> bytes:
    return b"POST / HTTP/1.1\r\nHost: a\r\nConnection: close\r\nContent-Length: %d\r\n\r\n" % len(body) + body


def test_a_question_is_answered(server: int) -> None:
    assert b'"answer": "a"' in sent(server, question(json.dumps({"x": [0.1] * 10}).encode()))


@pytest.mark.parametrize("length", [b"10000000000", b"-1", b"x", b"1" * 5000])
def test_bodies(server: int, length: bytes) -> None:
    assert b" 413 " in sent(server, b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: " + length + b"\r\n\r\n")


@pytest.mark.parametrize("body", [b"[" * 60_000, b"{", b'{"x": 1}', b'{"x": [' + b"9" * 6000 + b"]}", b"\xff"])
def test_questions(server: int, body: bytes) -> None:
    assert b" 400 " in sent(server, question(body))


def test_headers(server: int) -> None:
    many = b"".join(b"X-%d: %s\r\n" % (i, b"a" * 60_000) for i in range(90))
    assert b" 200 " not in sent(server, b"GET / HTTP/1.1\r\nHost: a\r\n" + many + b"\r\n")


def test_a_slow_client_loses_its_connection(server: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """One byte at a time is never silent for long."""
    monkeypatch.setattr(local_cascade, "SECONDS", 1.0)
    with connect(server) as one:
        started = time.monotonic()
        try:
            for byte in b"GET / HTTP/1.1\r\nX: " + b"a" * 1000:
                one.sendall(bytes([byte]))
                time.sleep(0.05)
        except OSError:
            pass
        assert time.monotonic() - started < 30, "all bytes take 50 s"


def test_connections(server: int) -> None:
    held = [connect(server) for _ in range(4)]  # a fifth one is accepted after them
    assert sent(server, b"GET / HTTP/1.1\r\nHost: a\r\n\r\n").startswith(b"HTTP/1.1 503")
    for one in held:
        one.close()
    asked = b"GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"
    wait_until(lambda: b" 200 " in sent(server, asked), "there is room again")
