"""A cascade of two local models, from logged answers to a policy that serves requests over HTTP. No network is needed.

    python examples/local_cascade.py

A small and a larger classifier answer the same questions. From one run of each, riskfront certifies when the small one may
answer alone; the policy is saved, loaded and served, and what it counts is compared with what was predicted.
"""

from __future__ import annotations

import json
import tempfile
from contextlib import suppress
from http.client import HTTPConnection
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from socket import SHUT_RDWR
from socketserver import TCPServer
from threading import BoundedSemaphore, Thread, Timer
from typing import Any

import numpy as np
import pandas as pd
from sklearn.linear_model import LogisticRegression
from sklearn.neural_network import MLPClassifier

import riskfront as rf

COST = {"small": 1.0, "large": 10.0}
HEADER_BYTES, BODY_BYTES, CONNECTIONS, SECONDS = 16_384, 65_536, 32, 10.0


def questions(n: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Points in ten dimensions with two classes, whose border a straight line only follows in part."""
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((n, 10))
    bent = 1.5 * x[:, 0] + x[:, 1] + 1.2 * x[:, 2] * x[:, 3] + 0.8 * (x[:, 4] ** 2 - 1)
    return x, (bent + 0.3 * rng.standard_normal(n) > 0).astype(int)


def train() -> dict[str, Any]:
    x, y = questions(4000, seed=1)
    large = MLPClassifier((32, 32), max_iter=60, early_stopping=True, random_state=0)
    return {"small": LogisticRegression().fit(x, y), "large": large.fit(x, y)}


def log_answers(models: dict[str, Any], path: Path) -> None:
    """What any evaluation writes down: one row a model and question."""
    x, y = questions(6000, seed=2)
    parts = []
    for name, model in models.items():
        sure = model.predict_proba(x)
        right = (sure.argmax(axis=1) == y).astype(float)
        columns = {
            "model": name,
            "example": np.arange(len(y)),
            "score": right,
            "cost": COST[name],
            "confidence": sure.max(axis=1),
        }
        parts.append(pd.DataFrame(columns))
    pd.concat(parts).to_parquet(path)


def certify(path: Path) -> rf.Policy:
    """At most two points of accuracy lost against the larger model, as cheap as possible."""
    cascade = rf.Cascade(rf.read_runs(path), stages=2, confidence="confidence", thresholds=20)
    problem = rf.Problem(["score drop <= 0.02"], minimize="cost", reference="large")
    certificate = rf.calibrate(cascade.table(), problem)
    print(certificate.verdict())
    return cascade.policy(certificate)


def callables(models: dict[str, Any]) -> dict[str, Any]:
    """The models as the policy calls them: a question in; answer, confidence and cost out."""

    def call(name: str) -> Any:
        def answer(x: list[float]) -> dict[str, Any]:
            sure = models[name].predict_proba(np.array([x]))[0]
            return {"answer": int(sure.argmax()), "confidence": float(sure.max()), "cost": COST[name]}

        return answer

    return {name: call(name) for name in models}


class Server(ThreadingHTTPServer):
    """A thread a connection, up to a number of them; whoever comes then is told to come again."""

    daemon_threads = True

    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        self.free = BoundedSemaphore(CONNECTIONS)

    def server_bind(self) -> None:
        """As of any server; http.server asks the network who this address is, and may wait for long."""
        TCPServer.server_bind(self)
        self.server_name, self.server_port = "localhost", self.server_address[1]

    def process_request(self, request: Any, client_address: Any) -> None:
        if self.free.acquire(blocking=False):
            super().process_request(request, client_address)
            return
        with suppress(OSError):
            request.sendall(b"HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
        self.shutdown_request(request)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        try:
            super().process_request_thread(request, client_address)
        finally:
            self.free.release()

    def handle_error(self, *_: Any) -> None:
        """A client that went away is no news."""


class Headers:
    """What a client sends, as the parser of headers reads it: no more than so many bytes a request."""

    def __init__(self, file: Any) -> None:
        self.file, self.left = file, HEADER_BYTES

    def readline(self, size: int = -1) -> bytes:
        line: bytes = self.file.readline(min(size, self.left + 1) if size >= 0 else self.left + 1)
        self.left -= len(line)
        if self.left < 0:
            raise TimeoutError("the headers are too long")  # http.server closes the connection
        return line

    def __getattr__(self, name: str) -> Any:
        return getattr(self.file, name)


def serve(policy: rf.Policy, models: dict[str, Any]) -> Server:
    """POST a question as JSON to any path and get the answer; GET what was counted. Port 0 takes a free one."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True

        def handle_one_request(self) -> None:
            """One request, from its first byte to the answer, within a time; a slow client loses its connection."""
            self.rfile = Headers(getattr(self.rfile, "file", self.rfile))
            late = Timer(SECONDS, self._hang_up)
            late.daemon = True
            late.start()
            try:
                super().handle_one_request()
            except OSError:
                self.close_connection = True
            finally:
                late.cancel()

        def _hang_up(self) -> None:
            with suppress(OSError):
                self.connection.shutdown(SHUT_RDWR)

        def do_POST(self) -> None:
            length = self.headers.get("Content-Length", "")
            if not length.isdecimal() or len(length) > 9 or int(length) > BODY_BYTES:
                self.close_connection = True
                self._send({"error": f"a body must have a length of at most {BODY_BYTES} bytes"}, 413)
                return
            try:
                x = [float(value) for value in json.loads(self.rfile.read(int(length)))["x"]]
            except (ValueError, TypeError, KeyError, RecursionError):
                self._send({"error": 'a question must be JSON such as {"x": [0.1, 0.2]}'}, 400)
                return
            try:
                found = policy.route(x, models)
            except rf.RiskfrontError as error:
                self._send({"error": str(error)}, 500)
                return
            self._send({"answer": found.answer, "model": found.model, "called": found.called, "cost": found.cost})

        def do_GET(self) -> None:
            self._send(policy.counts.to_dict())

        def _send(self, reply: dict[str, Any], status: int = 200) -> None:
            body = json.dumps(reply).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: Any) -> None:
            """Quiet."""

    server = Server(("127.0.0.1", 0), Handler)
    Thread(target=server.serve_forever, daemon=True).start()
    return server


def ask(server: ThreadingHTTPServer, x: np.ndarray) -> list[dict[str, Any]]:
    """All questions, one after the other over one connection."""
    connection = HTTPConnection("127.0.0.1", server.server_address[1], timeout=60)
    replies = []
    for row in x:
        connection.request("POST", "/answer", json.dumps({"x": row.tolist()}))
        replies.append(json.loads(connection.getresponse().read()))
    connection.close()
    return replies


def counts(server: ThreadingHTTPServer) -> dict[str, Any]:
    connection = HTTPConnection("127.0.0.1", server.server_address[1], timeout=60)
    connection.request("GET", "/counts")
    found: dict[str, Any] = json.loads(connection.getresponse().read())
    connection.close()
    return found


def main(requests: int = 3000) -> dict[str, Any]:
    """The whole way. Returns what was predicted and what happened."""
    models = train()
    with tempfile.TemporaryDirectory() as folder:
        log_answers(models, Path(folder) / "runs.parquet")
        certify(Path(folder) / "runs.parquet").save(Path(folder) / "policy.json")
        policy = rf.Policy.load(Path(folder) / "policy.json")
    server = serve(policy, callables(models))
    x, y = questions(requests, seed=3)
    replies = ask(server, x)
    found = counts(server)
    server.shutdown()
    server.server_close()
    right = np.mean([reply["answer"] == truth for reply, truth in zip(replies, y, strict=True)])
    best = np.mean(models["large"].predict(x) == y)
    happened = {
        "predicted share of the small model": policy.shares[0],
        "its share of the requests": found["answered"].get("small", 0) / found["requests"],
        "predicted cost": float(policy.certificate.chosen["cost"].iloc[0]),
        "cost of a request": found["mean_cost"],
        "accuracy of the larger model alone": float(best),
        "accuracy of the policy": float(right),
        "requests": found["requests"],
    }
    for name, value in happened.items():
        print(f"{name}: {value:,.4g}")
    return happened


if __name__ == "__main__":
    main()
