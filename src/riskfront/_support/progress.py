"""A progress bar with rate and time left on a terminal; elsewhere, of what takes long, a line now and then."""

from __future__ import annotations

import sys
import time
from types import TracebackType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.progress import Task

FIRST_LINE, LATER_LINES = 30.0, 60.0  # seconds
FEWEST_CALLS = 3  # that tell how long the rest will take: the first setting may make what all others read


class ProgressBar:
    """Counts settings, or rows.

    Args:
        title: what is being done.
        total: how many there are; None where that is not known.
        done: how many of them were done before.
        shown: True or False; None shows a bar on a terminal, and elsewhere a line on stderr after half a minute and then every
            minute.
    """

    def __init__(self, title: str, total: int | None, done: int = 0, shown: bool | None = None) -> None:
        from rich.console import Console

        console = Console(stderr=True)
        self._bar: Any = None
        self._lines = None if shown is not None or console.is_terminal else _Lines(title, total, done)
        if console.is_terminal if shown is None else shown:
            from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

            class Rate(TextColumn):
                """Settings a second, or seconds a setting when they are slow."""

                def render(self, task: Task) -> Any:
                    from rich.text import Text

                    if not task.speed:
                        return Text("")
                    return Text(f"{task.speed:.1f}/s" if task.speed >= 1 else f"{1 / task.speed:.1f} s each")

            columns = [
                TextColumn("{task.description}"),
                BarColumn(),
                MofNCompleteColumn(),
                Rate(""),
                TimeRemainingColumn(),
            ]
            self._bar = Progress(*columns, console=console, transient=shown is None)
            self._task = self._bar.add_task(title, total=total, completed=done)

    def __enter__(self) -> ProgressBar:
        if self._bar is not None:
            self._bar.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if self._bar is not None:
            self._bar.stop()

    def advance(self, count: int = 1) -> None:
        if self._bar is not None:
            self._bar.advance(self._task, count)
        if self._lines is not None:
            self._lines.advance(count)

    def say(self, title: str, total: int) -> None:
        """What is being done from now on, and how many settings there are."""
        if self._bar is not None:
            self._bar.update(self._task, description=title, total=total)


class _Lines:
    """For logs: how much is done and how long the rest will take, now and then."""

    def __init__(self, title: str, total: int | None, done: int) -> None:
        self._title, self._total, self._before, self._done = title, total, done, done
        self._begin = time.monotonic()
        self._calls = 0
        self._next = self._begin + FIRST_LINE

    def advance(self, count: int) -> None:
        self._done += count
        self._calls += 1
        now = time.monotonic()
        if now < self._next or (self._total is not None and self._done >= self._total):
            return
        self._next = now + LATER_LINES
        if self._total is None:
            print(f"{self._title}: {self._done:,} so far", file=sys.stderr, flush=True)
            return
        line = f"{self._title}: {self._done:,} of {self._total:,}"
        if self._calls >= FEWEST_CALLS:
            left = (now - self._begin) * (self._total - self._done) / max(1, self._done - self._before)
            line += f", {_in_words(left)} left"
        print(line, file=sys.stderr, flush=True)


def _in_words(seconds: float) -> str:
    minutes = round(seconds / 60)
    return (
        f"{minutes // 60} h {minutes % 60} min" if minutes >= 60 else f"{minutes} min" if minutes else "under a minute"
    )
