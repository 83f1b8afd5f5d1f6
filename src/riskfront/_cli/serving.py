"""serve: a certified policy behind an OpenAI-compatible endpoint."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from riskfront._cli.output import say


def serve(
    policy: Annotated[Path, typer.Argument(help="The policy that cascade wrote, as JSON.")],
    config: Annotated[Path, typer.Option(help="models.toml: how each model of the policy is reached.")],
    host: Annotated[str, typer.Option(help="Address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="Port to listen on; 0 takes a free one.")] = 8400,
    grace: Annotated[float, typer.Option(help="Seconds to finish requests in when it is stopped.")] = 30.0,
    check: Annotated[
        bool, typer.Option("--check", help="Read policy and configuration, say what is served, and leave.")
    ] = False,
) -> int:
    """Serve a certified policy behind an OpenAI-compatible endpoint."""
    from riskfront._cascades.serving.application import serve as run
    from riskfront._cascades.serving.service import Service

    service = Service(policy, config)
    say(service.policy.certificate.verdict())
    reached = [f"{name} ({entry.model})" for name, entry in service.configuration.models.items()]
    say(f"Models, in this order: {', '.join(reached)}.")
    for line in service.policy.needs.lines():
        say(line, "dim")
    if check:
        service.close()
        return 0

    def ready(found: int) -> None:
        print(f"Serving '{service.configuration.server.name}' on http://{host}:{found}/v1", flush=True)

    run(service, host, port, grace, ready)
    return 0
