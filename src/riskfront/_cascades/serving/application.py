"""The endpoint: chat completions, the list of models, health and metrics."""

from __future__ import annotations

import contextlib
import hmac
import json
import os
import signal
import socket
import threading
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from riskfront._cascades.policy import ModelsFailedError
from riskfront._cascades.serving.service import OverloadedError, Served, Service
from riskfront.errors import InvalidInputError, MissingExtraError

if TYPE_CHECKING:
    from starlette.applications import Starlette
    from starlette.requests import Request
    from starlette.responses import Response

_BACKLOG = 4096  # connections that wait to be accepted
_PIECE = 200  # characters of an answer that are streamed at a time
_LARGEST = 10 * 2**20  # bytes of a request
_NO_KEY = "the key of this endpoint must be sent as a bearer token; it was not, or it is another one."


def application(service: Service) -> Starlette:
    """An ASGI application that serves a policy."""
    try:
        from starlette.applications import Starlette
        from starlette.routing import Route
    except ImportError as error:
        raise MissingExtraError("starlette", "serve") from error

    endpoint = _Endpoint(service)

    @contextlib.asynccontextmanager
    async def lifespan(_: Any) -> AsyncIterator[None]:
        yield
        service.close()

    routes = [
        Route("/v1/chat/completions", endpoint.chat, methods=["POST"]),
        Route("/v1/models", endpoint.models, methods=["GET"]),
        Route("/health", endpoint.health, methods=["GET"]),
        Route("/metrics", endpoint.metrics, methods=["GET"]),
    ]
    return Starlette(routes=routes, lifespan=lifespan)


class _Endpoint:
    def __init__(self, service: Service) -> None:
        self._service = service
        key = service.configuration.server.api_key_env
        self._key = None if key is None else os.environ[key].encode()

    async def chat(self, request: Request) -> Response:
        from starlette.responses import JSONResponse, StreamingResponse

        if not self._known(request):
            return _error(401, _NO_KEY)
        try:
            body = await _body(request)
            served = await self._service.answer(body)
        except InvalidInputError as error:
            return _error(400, str(error))
        except OverloadedError as error:
            return _error(503, str(error), {"Retry-After": "1"})
        except ModelsFailedError as error:
            return _error(502, str(error))
        if not body.get("stream"):
            return JSONResponse(dict(served.completion))
        wants_usage = bool((body.get("stream_options") or {}).get("include_usage"))
        return StreamingResponse(_events(served, wants_usage), media_type="text/event-stream")

    async def models(self, request: Request) -> Response:
        from starlette.responses import JSONResponse

        if not self._known(request):
            return _error(401, _NO_KEY)
        one = {"id": self._service.configuration.server.name, "object": "model", "created": 0, "owned_by": "riskfront"}
        return JSONResponse({"object": "list", "data": [one]})

    async def health(self, _: Request) -> Response:
        from starlette.responses import JSONResponse

        service = self._service
        models = list(service.policy.models)
        return JSONResponse({"status": "ok", "models": models, "running": service.running, "waiting": service.waiting})

    async def metrics(self, _: Request) -> Response:
        from starlette.responses import PlainTextResponse

        service = self._service
        text = service.metrics.text(service.policy, service.running, service.waiting)
        return PlainTextResponse(text, media_type="text/plain; version=0.0.4")

    def _known(self, request: Request) -> bool:
        if self._key is None:
            return True
        given = request.headers.get("authorization", "").removeprefix("Bearer ").encode()
        return hmac.compare_digest(given, self._key)


async def _body(request: Request) -> dict[str, Any]:
    parts, size = [], 0
    async for part in request.stream():
        size += len(part)
        if size > _LARGEST:
            raise InvalidInputError(f"a request must have at most {_LARGEST:,} bytes; it has more.")
        parts.append(part)
    try:
        found = json.loads(b"".join(parts))
    except (ValueError, RecursionError):
        raise InvalidInputError("a request must be JSON; it is not.") from None
    if not isinstance(found, dict):
        raise InvalidInputError("a request must be a JSON object; it is not.")
    return found


def _error(status: int, message: str, headers: Mapping[str, str] | None = None) -> Response:
    from starlette.responses import JSONResponse

    kind = "invalid_request_error" if status < 500 else "server_error"
    return JSONResponse({"error": {"message": message, "type": kind, "code": status}}, status, headers=headers)


def chunks(served: Served, *, usage: bool = False) -> Iterator[dict[str, Any]]:
    """A completion as the chunks of a stream; an answer is streamed once it is decided on."""
    whole = served.completion
    head = {key: whole[key] for key in ("id", "created", "model")} | {"object": "chat.completion.chunk"}
    choice = whole["choices"][0]
    message = dict(choice["message"])
    text = message.pop("content", None) or ""

    def chunk(delta: Mapping[str, Any], finish: str | None = None) -> dict[str, Any]:
        return {**head, "choices": [{"index": 0, "delta": dict(delta), "finish_reason": finish}]}

    calls = [{"index": index, **call} for index, call in enumerate(message.get("tool_calls") or [])]
    yield chunk({"role": "assistant", "content": "", **({"tool_calls": calls} if calls else {})})
    for start in range(0, len(text), _PIECE):
        yield chunk({"content": text[start : start + _PIECE]})
    yield {**chunk({}, choice["finish_reason"]), "riskfront": whole["riskfront"]}
    if usage:
        yield {**head, "choices": [], "usage": whole["usage"]}


async def _events(served: Served, usage: bool) -> AsyncIterator[str]:
    for chunk in chunks(served, usage=usage):
        yield f"data: {json.dumps(chunk)}\n\n"
    yield "data: [DONE]\n\n"


def serve(service: Service, host: str, port: int, grace: float, ready: Callable[[int], None]) -> None:
    """Serve until a signal stops it; requests that were begun are finished, for at most ``grace`` seconds."""
    try:
        import uvicorn
    except ImportError as error:
        raise MissingExtraError("uvicorn", "serve") from error
    _allow_many_connections()
    listening = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind((host, port))
        listening.listen(_BACKLOG)  # whoever reads that it serves can connect at once
    except OSError as error:
        raise InvalidInputError(f"the address {host}:{port} must be free; {error.strerror}.") from None
    config = uvicorn.Config(
        application(service),
        log_level="warning",
        access_log=False,
        backlog=_BACKLOG,
        timeout_graceful_shutdown=max(1, int(grace)),
    )
    server = uvicorn.Server(config)
    if threading.current_thread() is threading.main_thread():
        # uvicorn raises the signal again once all is done, which would end the process as if it had been killed
        signal.signal(signal.SIGTERM, lambda *_: None)
    ready(listening.getsockname()[1])
    server.run(sockets=[listening])


def _allow_many_connections() -> None:
    """As many open files as the system lets this process have: each request is one, and each call of a model another."""
    try:
        import resource
    except ImportError:  # not on Windows, which has no such limit
        return
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    with contextlib.suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
