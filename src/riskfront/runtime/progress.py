"""A progress bar with rate and time left on a terminal; nothing elsewhere."""

from __future__ import annotations

from types import TracebackType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.progress import Task


class ProgressBar:
    """Counts settings.

    Args:
        title: what is being done.
        total: how many settings there are.
        done: how many of them were done before.
        shown: True or False; None shows it on a terminal only.
    """

    def __init__(self, title: str, total: int, done: int = 0, shown: bool | None = None) -> None:
        from rich.console import Console

        console = Console(stderr=True)
        self._bar: Any = None
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

    def say(self, title: str, total: int) -> None:
        """What is being done from now on, and how many settings there are."""
        if self._bar is not None:
            self._bar.update(self._task, description=title, total=total)
