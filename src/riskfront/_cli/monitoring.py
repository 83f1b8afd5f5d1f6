"""monitor: outcomes of the deployed setting, from a file that grows or from standard input, against the certified limits."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import Annotated, Any

import typer

import riskfront as rf
from riskfront._calibration.monitoring import words
from riskfront._calibration.monitoring.outcome_files import OutcomeFile, OutcomeStream, Position, only_one
from riskfront._calibration.monitoring.words import prometheus as metrics
from riskfront._cli.checks import is_policy
from riskfront._cli.options import Json, must_be_writable, parse_number
from riskfront._cli.output import say
from riskfront._reporting.terminal import make_console, show_grid
from riskfront._support.files import write_text
from riskfront.errors import InvalidInputError

_POLL = 0.2  # seconds between looks at a file that is followed
_PAGE = 10.0  # seconds between pages while it is followed


def monitor(
    certificate: Annotated[Path, typer.Argument(help="A certificate or a policy, as JSON.")],
    outcomes: Annotated[
        str,
        typer.Argument(
            help="Outcomes of the deployed setting: CSV or JSON lines, a row a request; '-' reads standard input."
        ),
    ],
    follow: Annotated[bool, typer.Option("--follow", help="Wait for more outcomes until an alarm.")] = False,
    state: Annotated[Path | None, typer.Option(help="JSON file to go on from and to save to after every part.")] = None,
    page: Annotated[Path | None, typer.Option(help="HTML page to write.")] = None,
    prometheus: Annotated[Path | None, typer.Option(help="File to write in the Prometheus text format.")] = None,
    delta: Annotated[float, typer.Option(help="Probability of ever raising a false alarm.")] = 0.05,
    promise: Annotated[str, typer.Option(help="no-false-alarm, or run-length.")] = "no-false-alarm",
    run_length: Annotated[int, typer.Option(help="Outcomes until a false alarm, on average, for run-length.")] = 10_000,
    missing: Annotated[str, typer.Option(help="An outcome without a label counts as: worst, or leave-out.")] = "worst",
    audit: Annotated[
        list[str],
        typer.Option(help="Probability that an outcome gets a label: '0.05', or for a column 'score of full=0.05'."),
    ] = [],  # noqa: B006
    audit_column: Annotated[
        str | None, typer.Option(help="Column with each outcome's own probability of an audit.")
    ] = None,
    least_audit: Annotated[float | None, typer.Option(help="The smallest probability in --audit-column.")] = None,
    limit: Annotated[list[str], typer.Option(help="Watch this limit of the certificate only; repeat for more.")] = [],  # noqa: B006
    time_column: Annotated[str | None, typer.Option("--time", help="Column to tell times by.")] = None,
    warn_on: Annotated[
        str | None, typer.Option(help="Column of scores: warn, without labels, that inputs changed.")
    ] = None,
    warn_delta: Annotated[float, typer.Option(help="Probability of ever giving a false warning.")] = 0.05,
    idle: Annotated[
        float, typer.Option(help="Stop following after so many seconds without an outcome; 0 waits.")
    ] = 0.0,
    as_json: Json = False,
) -> int:
    """Watch a deployed setting; exit status 1 at an alarm."""
    inputs = [str(certificate), *([] if outcomes == "-" else [outcomes])]
    must_be_writable(state, page, prometheus, inputs=inputs)
    claimed = rf.Policy.load(certificate).certificate if is_policy(certificate) else rf.Certificate.load(certificate)
    fresh = rf.Monitor(
        claimed,
        delta=delta,
        promise=promise,
        run_length=run_length,
        missing=missing,
        audit=_audit(audit),
        audit_column=audit_column,
        least_audit=least_audit,
        limits=limit or None,
        time=time_column,
        warn_on=warn_on,
        warn_delta=warn_delta,
    )
    with nullcontext() if state is None else only_one(state):
        watched = _resumed(fresh, state) if state is not None and state.exists() else fresh
        pages = _Pages(watched, page, prometheus)
        try:
            for columns, source, position in _parts(watched, outcomes, follow and not watched.alarm, idle):
                watched.update(columns)
                watched.sources[source] = position.to_dict()
                if state is not None:
                    watched.save(state)
                pages.write()
                if watched.alarm and follow:
                    break
        except KeyboardInterrupt:  # what was counted is saved already
            if not follow:
                raise
        if state is not None:
            watched.save(state)
        pages.write(last=True)
        _show(watched, as_json)
        return 1 if watched.alarm else 0


def _parts(
    watched: rf.Monitor, outcomes: str, follow: bool, idle: float
) -> Iterator[tuple[dict[str, Any], str, Position]]:
    """New outcomes, the name of their source, and where they end in it."""
    if outcomes == "-":
        for columns, position in OutcomeStream(sys.stdin.buffer, watched.group_columns).read():
            yield columns, "standard input", position
        return
    name = str(Path(outcomes).resolve())
    known = {source: Position.from_dict(data) for source, data in watched.sources.items() if source != "standard input"}
    others = [position for source, position in known.items() if source != name]
    file = OutcomeFile(Path(outcomes), known.get(name), others, watched.group_columns)
    last = time.monotonic()
    while True:
        for columns, position in file.read(complete=not follow):
            yield columns, name, position
            last = time.monotonic()
        if not follow or (idle and time.monotonic() - last > idle):
            return
        time.sleep(_POLL)


class _Pages:
    """The page and the metrics; a page is written now and then, the metrics after every part."""

    def __init__(self, watched: rf.Monitor, page: Path | None, prometheus: Path | None) -> None:
        self._watched, self._page, self._prometheus, self._last = watched, page, prometheus, -_PAGE

    def write(self, *, last: bool = False) -> None:
        if self._prometheus is not None:
            write_text(self._prometheus, metrics(self._watched))
        if self._page is not None and (last or self._watched.alarm or time.monotonic() - self._last > _PAGE):
            from riskfront._reporting.monitor_page import write_monitor_page

            write_monitor_page(self._watched, self._page)
            self._last = time.monotonic()


def _resumed(fresh: rf.Monitor, state: Path) -> rf.Monitor:
    """The monitor of a state; it must be about the same certificate and promise."""
    saved = rf.Monitor.load(state)
    for name, asked in fresh.asked().items():
        if saved.asked()[name] != asked:
            raise InvalidInputError(
                f"a state goes on with what it was begun with; '{state}' has {name} {saved.asked()[name]!r}, now it is "
                f"{asked!r}. Give the same options, or another state."
            )
    return saved


def _audit(given: list[str]) -> float | dict[str, float] | None:
    named = {}
    for text in given:
        name, sign, number = text.rpartition("=")
        if not sign:
            if len(given) > 1:
                raise InvalidInputError(f"--audit must be one probability, or one for each column; got {given}.")
            return parse_number(text, "--audit")
        named[name.strip()] = parse_number(number, "--audit")
    return named or None


def _show(watched: rf.Monitor, as_json: bool) -> None:
    if as_json:
        rows = json.loads(watched.status.to_json(orient="records"))
        found = {"alarm": watched.alarm, "warning": watched.warning, "outcomes": watched.outcomes, "limits": rows}
        print(json.dumps({**found, "says": watched.sentences()}))
        return
    for index, sentence in enumerate(watched.sentences()):
        say(sentence, ("bold red" if watched.alarm else "bold green") if index == 0 else None)
    header = ["limit", "outcomes", "risk", "evidence", "threshold"]
    rows = [
        [watch.name, row["outcomes"], row["risk"], row["evidence"], row["threshold"]]
        for watch, row in zip(watched.watches, map(words.row, watched.watches), strict=True)
    ]
    show_grid(make_console(), "\nWatched", header, rows)
    say(words.promise(watched), "dim")
