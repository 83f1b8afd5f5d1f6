"""Runs a page: its Python blocks in one namespace, its riskfront commands in the same folder, as a reader would."""

from __future__ import annotations

import contextlib
import importlib.util
import io
import linecache
import re
import types
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import tomllib
import typer

from riskfront import _cli as cli
from tests.docs.blocks import ROOT, Block, blocks, commands
from tests.docs.setups import SETUPS


def run_page(page: Path, folder: Path) -> Iterator[tuple[Block, str, str]]:
    """(block, what the page says is printed, what was printed), for each block that says so; ``folder`` is the current one."""
    module = types.ModuleType("__main__")
    names = SETUPS.get(page.relative_to(ROOT).as_posix(), lambda folder: {})(folder)
    ports = names.pop("ports", {})  # port that the page names -> one that is free here
    module.__dict__.update(names)
    listed = blocks(page)
    for number, block in enumerate(listed):
        after = listed[number + 1] if number + 1 < len(listed) else None
        if block.language == "python":
            where = f"<{page.name}, block {number + 1}>"
            printed = _python(block.text, where, module, ports) if block.runs else _compiles(block)
            if after is not None and after.is_printed and block.runs:
                yield after, after.text, printed
        elif block.language == "console":
            shown, printed, ours = "", "", True
            for words, output in commands(block):
                shown += output
                printed += _command(words, block.runs)
                ours &= (
                    words[0] == "riskfront"
                )  # other commands are not run here: examples are by tests/test_examples.py
            if shown.strip() and block.runs and ours:
                yield block, shown, printed


def _python(text: str, name: str, module: types.ModuleType, ports: dict[str, int]) -> str:
    for port, free in ports.items():
        text = text.replace(port, str(free))
    linecache.cache[name] = (len(text), None, text.splitlines(keepends=True), name)
    out = io.StringIO()
    with contextlib.redirect_stdout(out), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        exec(compile(text, name, "exec"), module.__dict__)
    printed = out.getvalue()
    for port, free in ports.items():
        printed = printed.replace(str(free), port)
    return printed


def _compiles(block: Block) -> str:
    compile(block.text, "<not run>", "exec")
    return ""


def _command(words: list[str], runs: bool) -> str:
    if words[0] == "riskfront":
        return _riskfront(words[1:]) if runs else _parsed(words[1:])
    _exists(words)
    return ""


def _riskfront(arguments: list[str]) -> str:
    out, status = io.StringIO(), None
    with contextlib.redirect_stdout(out), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            cli.main(arguments)
        except SystemExit as left:
            status = left.code
    assert status in (0, 1), f"riskfront {' '.join(arguments)} left with {status}: {out.getvalue()}"
    return "\n".join(line.rstrip() for line in out.getvalue().splitlines()) + "\n"


def _parsed(arguments: list[str]) -> str:
    """Command and options exist and have values of the right kind; nothing is done."""
    command: Any = typer.main.get_command(cli.make_app())
    while hasattr(command, "commands"):
        command = command.commands[arguments[0]]
        arguments = arguments[1:]
    command.make_context(command.name, list(arguments))
    return ""


def _exists(words: list[str]) -> None:
    """Other commands are not run here; what they name exists."""
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    words = [word for word in words if not re.fullmatch(r"[A-Z_]+=\S*", word)]
    match words:
        case ["make", *targets]:
            missing = [target for target in targets if not re.search(rf"^{target}:", makefile, re.MULTILINE)]
        case ["pip", "install", *names]:
            extras = [e for name in names for found in re.findall(r"riskfront\[(.+)\]", name) for e in found.split(",")]
            missing = [extra for extra in extras if extra not in project["optional-dependencies"]]
        case ["python", "-m", name, *_]:
            missing = [] if importlib.util.find_spec(name) else [name]
        case ["python" | "sh", script, *_] if script != "-m":
            missing = [] if (ROOT / script).exists() else [script]
        case ["cd" | "git", *_]:
            missing = []
        case _:
            missing = [words[0]]
    assert not missing, f"'{' '.join(words)}' names {missing}, which is not there"
