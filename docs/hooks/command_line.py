"""The page of the command line, written from the commands themselves, so that no option can be missing or wrong."""

from __future__ import annotations

from typing import Any

import typer
from mkdocs.structure.files import File, Files

from riskfront._cli import make_app


def on_files(files: Files, config: Any) -> Files:
    files.append(File.generated(config, "api/cli.md", content=page()))
    return files


def page() -> str:
    text = (
        "# Command line\n\nExit status: 0 certified, 1 nothing certified or a limit broken, 2 bad input, "
    )
    text += "3 an error nobody foresaw, 130 stopped.\n\n"
    return text + "".join(
        _described(name, command)
        for name, command in _leaves("riskfront", typer.main.get_command(make_app()))
    )


def _leaves(name: str, command: Any) -> list[tuple[str, Any]]:
    if not hasattr(command, "commands"):
        return [(name, command)]
    return [leaf for part, inner in command.commands.items() for leaf in _leaves(f"{name} {part}", inner)]


def _described(name: str, command: Any) -> str:
    arguments = [p for p in command.params if p.param_type_name == "argument"]
    options = [p for p in command.params if p.param_type_name == "option"]
    usage = " ".join([name, *(str(p.name).upper() for p in arguments), "[OPTIONS]"])
    lines = [
        f"## {name}",
        "",
        " ".join((command.help or "").split()),
        "",
        f"    {usage}",
        "",
        "| | |",
        "| --- | --- |",
    ]
    for p in arguments:
        lines.append(f"| `{str(p.name).upper()}` | {_cell(getattr(p, 'help', ''))} |")
    for p in options:
        default = (
            ""
            if p.default in (None, False, "", [], ()) or callable(p.default)
            else f" Default: `{p.default}`."
        )
        needed = " Required." if p.required else ""
        lines.append(f"| `{', '.join(p.opts)}` | {_cell(p.help)}{needed}{default} |")
    return "\n".join(lines) + "\n\n"


def _cell(text: Any) -> str:
    return " ".join(str(text or "").split()).replace("|", "\\|").replace("<", "&lt;") if text else ""
