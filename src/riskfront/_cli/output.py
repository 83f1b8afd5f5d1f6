"""What commands print and write, and the exit status that follows from it."""

from __future__ import annotations

import json
import shlex
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import riskfront as rf
from riskfront._reporting.terminal import make_console, show_certificate


def command_line() -> str:
    """The command as it was given, for pages."""
    return shlex.join(["riskfront", *sys.argv[1:]])


def say(line: str, style: str | None = None) -> None:
    """A line in the terminal, as it is."""
    make_console().print(line, markup=False, style=style)


def say_dimly(line: str) -> None:
    say(line, "dim")


def say_written(paths: Sequence[Path | str]) -> None:
    for path in paths:
        say(f"Wrote {path}", "dim")


def deliver(
    certificate: rf.Certificate, out: Path | None, report: Path | None, as_json: bool, frontier: Any = None
) -> int:
    """Write a certificate and its page where they are asked for, and show it; the exit status."""
    if out is not None:
        certificate.save(out)
    if report is not None:
        rf.write_report(certificate, report, frontier=frontier, command=command_line())
    return show(certificate, as_json, [path for path in (out, report) if path is not None])


def show(certificate: rf.Certificate, as_json: bool, written: Sequence[Path] = ()) -> int:
    """The certificate in the terminal, or as JSON; the exit status: 0 where something is certified."""
    if as_json:
        print(json.dumps(certificate.to_dict(), allow_nan=False))
    else:
        show_certificate(make_console(), certificate)
        say_written(written)
    return 0 if certificate and certificate.guaranteed else 1
