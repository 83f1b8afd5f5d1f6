"""An OpenAI-compatible server of recorded answers: ``python -m`` this module ANSWERS.json prints its port.

ANSWERS.json: {"key": the key it demands or null, "answers": {text of the messages: {"text", "logprobs", "usage"}}}. An
answer that is null is an error 500; one with "samples" gives these texts in turn.
"""

import json
import socket
import sys
from collections import Counter
from pathlib import Path

import uvicorn


def application(recorded):
    asked = Counter()

    async def reply(send, status, body):
        headers = [(b"content-type", b"application/json")]
        await send({"type": "http.response.start", "status": status, "headers": headers})
        await send({"type": "http.response.body", "body": json.dumps(body).encode()})

    async def serve(scope, receive, send):
        if scope["type"] != "http":
            return
        body, more = b"", True
        while more:
            message = await receive()
            body, more = body + message.get("body", b""), message.get("more_body", False)
        sent = dict(scope["headers"]).get(b"authorization", b"").decode()
        if recorded["key"] is not None and sent != f"Bearer {recorded['key']}":
            return await reply(send, 401, {"error": {"message": f"wrong key: {sent}"}})
        request = json.loads(body)
        text = "\n".join(part["content"] for part in request["messages"])
        found = recorded["answers"].get(text)
        if found is None:
            return await reply(send, 500, {"error": {"message": f"no answer recorded; key {sent}"}})
        said = found["samples"][asked[text] % len(found["samples"])] if "samples" in found else found["text"]
        asked[text] += 1
        choice = {"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": said}}
        if request.get("logprobs"):
            tokens = [
                {"token": "x", "logprob": value, "bytes": None, "top_logprobs": []} for value in found["logprobs"]
            ]
            choice["logprobs"] = {"content": tokens}
        whole = {"id": "r", "object": "chat.completion", "created": 0, "model": request["model"], "choices": [choice]}
        await reply(send, 200, {**whole, "usage": found["usage"]})

    return serve


if __name__ == "__main__":
    recorded = json.loads(Path(sys.argv[1]).read_text())
    listening = socket.socket()
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listening.bind(("127.0.0.1", int(sys.argv[2]) if len(sys.argv) > 2 else 0))
    listening.listen(4096)  # before anybody is told the port
    print(listening.getsockname()[1], flush=True)
    config = uvicorn.Config(application(recorded), log_level="error", access_log=False, lifespan="off", backlog=4096)
    uvicorn.Server(config).run(sockets=[listening])
