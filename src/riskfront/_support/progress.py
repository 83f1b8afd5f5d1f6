"""A progress bar with rate and time left on a terminal; elsewhere, of what takes long, a line now and then."""

from __future__ import annotations

import sys
import time
from collections import deque
from types import TracebackType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.progress import Task

FIRST_LINE, LATER_LINES = 30.0, 60.0  # seconds
FEWEST_CALLS = 3  # that tell how long the rest will take: the first setting may make what all others read
RECENT = 60.0  # seconds whose pace tells how long the rest will take


class ProgressBar:
    """Counts settings, or rows.

    Args:
        title: what is being done.
        total: how many there are; None where that is not known.
        done: how many of them were done before.
        shown: True or False; None shows a bar on a terminal, and elsewhere a line on stderr after half a minute and then every
            minute.
        work: of all that is to be done now, where rows differ in what they cost, such as the tokens of texts that come
            longest first; ``advance`` is told the work of its rows.
    """

    def __init__(
        self, title: str, total: int | None, done: int = 0, shown: bool | None = None, work: float | None = None
    ) -> None:
        from rich.console import Console

        console = Console(stderr=True)
        self._bar: Any = None
        self._pace = _Pace(work if work is not None or total is None else total - done)
        self._by_rows, self._before = work is None, done
        self._lines = None if shown is not None or console.is_terminal else _Lines(title, total, done, self._pace)
        if console.is_terminal if shown is None else shown:
            from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn
            from rich.text import Text

            pace = self._pace

            class RateAndLeft(TextColumn):
                """Settings a second, or seconds a setting when they are slow; and the time left, as in the lines of a log."""

                def render(self, task: Task) -> Any:
                    speed, left = task.speed or 0, pace.left()
                    rate = f"{speed:.1f}/s" if speed >= 1 else f"{1 / speed:.1f} s each" if speed else ""
                    return Text(f"{rate} " + ("" if left is None or task.finished else f"{_in_words(left)} left"))

            columns = [TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), RateAndLeft("")]
            self._bar = Progress(*columns, console=console, transient=shown is None)
            self._task = self._bar.add_task(title, total=total, completed=done)

    def __enter__(self) -> ProgressBar:
        if self._bar is not None:
            self._bar.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if self._bar is not None:
            self._bar.stop()

    def advance(self, count: int = 1, work: float = 0.0) -> None:
        """So many more are done; ``work`` is what they cost, where the bar was told the work of all."""
        self._pace.advance(float(count) if self._by_rows else work)
        if self._bar is not None:
            self._bar.advance(self._task, count)
        if self._lines is not None:
            self._lines.advance(count)

    def say(self, title: str, total: int) -> None:
        """What is being done from now on, and how many settings there are."""
        self._pace.total = float(total - self._before)
        if self._bar is not None:
            self._bar.update(self._task, description=title, total=total)


class _Pace:
    """How long the rest will take at the pace of the last minute: a machine may become busy, and first steps are slow."""

    def __init__(self, total: float | None) -> None:
        self.total = total
        self._done, self._calls = 0.0, 0
        self._seen = deque([(time.monotonic(), 0.0)])  # moments, and the work done by then

    def advance(self, work: float) -> None:
        now = time.monotonic()
        self._done += work
        self._calls += 1
        self._seen.append((now, self._done))
        while len(self._seen) > FEWEST_CALLS + 1 and self._seen[1][0] <= now - RECENT:
            self._seen.popleft()

    def left(self) -> float | None:
        """Seconds; None where a few steps do not tell yet."""
        (begin, before), (now, done) = self._seen[0], self._seen[-1]
        if self.total is None or self._calls < FEWEST_CALLS or done <= before:
            return None
        return (now - begin) * max(0.0, self.total - done) / (done - before)


class _Lines:
    """For logs: how much is done and how long the rest will take, now and then."""

    def __init__(self, title: str, total: int | None, done: int, pace: _Pace) -> None:
        self._title, self._total, self._done, self._pace = title, total, done, pace
        self._next = time.monotonic() + FIRST_LINE

    def advance(self, count: int) -> None:
        self._done += count
        now = time.monotonic()
        if now < self._next or (self._total is not None and self._done >= self._total):
            return
        self._next = now + LATER_LINES
        left = self._pace.left()  # None where the total is not known
        so_far = f"{self._done:,} so far" if self._total is None else f"{self._done:,} of {self._total:,}"
        rest = "" if left is None else f", {_in_words(left)} left"
        print(f"{self._title}: {so_far}{rest}", file=sys.stderr, flush=True)


def _in_words(seconds: float) -> str:
    hours, minutes = divmod(round(seconds / 60), 60)
    return f"{hours} h {minutes} min" if hours else f"{minutes} min" if minutes else "under a minute"
