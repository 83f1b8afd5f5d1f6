"""The version and the repository in the header of every page."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path
from typing import Any

import riskfront as rf

_ROOT = Path(__file__).parents[2]


def on_config(config: Any) -> Any:
    """The address is that of the clone's origin; where it has none that a browser could open, how to get the source."""
    config.extra["version_shown"] = rf.__version__
    config.extra["repository"] = repository()
    config.repo_url = config.extra["repository"] or "repository"
    return config


def repository() -> str | None:
    asked = subprocess.run(
        ["git", "remote", "get-url", "origin"], cwd=_ROOT, capture_output=True, text=True
    )
    address = asked.stdout.strip()
    by_ssh = re.fullmatch(r"(?:ssh://)?git@([\w.-]+)[:/](.+?)(?:\.git)?", address)
    if by_ssh:
        return f"https://{by_ssh[1]}/{by_ssh[2]}"
    return address.removesuffix(".git") if address.startswith("https://") and "@" not in address else None
