"""Processes that tests start: every wait has a bound and fails in a sentence, and nothing outlives its test."""

from __future__ import annotations

import contextlib
import os
import secrets
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import IO, Any, TypeVar

ROOT = Path(__file__).parents[2]
Found = TypeVar("Found")


def wait_until(condition: Callable[[], Any], what: str, seconds: float = 60) -> Any:
    """What the condition gives as soon as that is true."""
    last = time.monotonic() + seconds
    while not (found := condition()):
        assert time.monotonic() < last, f"{what} must be so within {seconds:g} s; it was not."
        time.sleep(0.01)
    return found


class Process:
    """A process in a session of its own, without standard input.

    What it says goes to files: a pipe that nobody reads fills up, and one that its children hold does not end with it.

    Args:
        log: where its standard error goes, for one who reads that alone.
    """

    def __init__(
        self,
        command: Iterable[Any],
        *,
        env: Mapping[str, str] | None = None,
        cwd: Path | str | None = None,
        log: Path | None = None,
    ) -> None:
        self.command = [str(word) for word in command]
        with contextlib.ExitStack() as files:
            self._out: IO[bytes] = files.enter_context(tempfile.TemporaryFile())
            self._err: IO[bytes] = files.enter_context(log.open("w+b") if log else tempfile.TemporaryFile())  # noqa: SIM115
            self._process = subprocess.Popen(
                self.command,
                stdin=subprocess.DEVNULL,
                stdout=self._out,
                stderr=self._err,
                env={**os.environ, "PYTHONUNBUFFERED": "1", **(env or {})},
                cwd=cwd,
                start_new_session=True,
            )
            self._files = files.pop_all()
        self.pid = self._process.pid

    @property
    def out(self) -> str:
        return _content(self._out)

    @property
    def err(self) -> str:
        return _content(self._err)

    def status(self) -> int | None:
        """Its exit status; None while it runs."""
        return self._process.poll()

    def wait(self, seconds: float = 120) -> int:
        """Its exit status; one that does not end is killed, and the test fails with what the process said."""
        try:
            return self._process.wait(seconds)
        except subprocess.TimeoutExpired:
            self.kill()
            raise AssertionError(f"{self} must end within {seconds:g} s; it did not. {self._said()}") from None

    def line(self, found: Callable[[str], Found | None], seconds: float = 120, *, err: bool = False) -> Found:
        """What the function makes of the first line on which it does not give None."""
        last = time.monotonic() + seconds
        while True:
            ended = self.status() is not None  # before its output is read: then all of it is there
            for line in (self.err if err else self.out).splitlines(keepends=True):
                if line.endswith("\n") and (made := found(line)) is not None:
                    return made
            assert not ended, f"{self} ended with {self.status()} before it said what it must say. {self._said()}"
            assert time.monotonic() < last, f"{self} did not say what it must say in {seconds:g} s. {self._said()}"
            time.sleep(0.01)

    def send(self, sent: signal.Signals) -> None:
        self._process.send_signal(sent)

    def kill(self) -> None:
        """With every process that it started."""
        with contextlib.suppress(OSError):
            os.killpg(self.pid, signal.SIGKILL)
        self._process.wait(20)

    def close(self) -> None:
        """End it, politely if it ends within some seconds."""
        if self.status() is None:
            self._process.terminate()
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(10)
        self.kill()
        self._files.close()

    def _said(self) -> str:
        return f"It said:\n{self.out[-3000:]}\n{self.err[-3000:]}"

    def __str__(self) -> str:
        return " ".join(self.command)[:200]


def _content(file: IO[bytes]) -> str:
    """All of it, without moving the place at which the process writes."""
    return os.pread(file.fileno(), os.fstat(file.fileno()).st_size, 0).decode(errors="replace")


@contextlib.contextmanager
def started(command: Iterable[Any], **more: Any) -> Iterator[Process]:
    """A process that is over when the block is left, however that is."""
    process = Process(command, **more)
    try:
        yield process
    finally:
        process.close()


def finished(command: Iterable[Any], seconds: float = 120, **more: Any) -> subprocess.CompletedProcess[str]:
    """What ``subprocess.run(capture_output=True, text=True)`` gives; a process that does not end fails the test."""
    with started(command, **more) as process:
        status = process.wait(seconds)
        return subprocess.CompletedProcess(process.command, status, process.out, process.err)


def output(command: Iterable[Any], seconds: float = 120, **more: Any) -> str:
    """What a process that must succeed prints."""
    done = finished(command, seconds, **more)
    assert done.returncode == 0, done.stderr
    return done.stdout


def free_port() -> int:
    """A port that nobody has; somebody may take it before it is used. The system gives none of these by itself."""
    while True:
        port = secrets.choice(range(20_000, 32_000))
        with socket.socket() as one, contextlib.suppress(OSError):
            one.bind(("127.0.0.1", port))
            return port


@contextlib.contextmanager
def closed_port() -> Iterator[int]:
    """A port at which nobody answers: it is taken, and nobody listens."""
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        yield int(one.getsockname()[1])


@contextlib.contextmanager
def serving(
    command: Callable[[int], Iterable[Any]], seconds: float = 120, **more: Any
) -> Iterator[tuple[Process, int]]:
    """A server that is told its port, and answers there. One that ends at once found its port taken, and gets another."""
    for tries_left in reversed(range(4)):
        port = free_port()
        with started(command(port), **more) as process:
            if _answers(process, port, seconds):
                yield process, port
                return
            assert tries_left, f"{process} ended with {process.status()}. {process._said()}"


def _answers(process: Process, port: int, seconds: float) -> bool:
    last = time.monotonic() + seconds
    while process.status() is None:
        with socket.socket() as one:
            one.settimeout(5)
            if one.connect_ex(("127.0.0.1", port)) == 0:
                time.sleep(0.1)  # for one that was about to end because another has the port
                return process.status() is None
        assert time.monotonic() < last, f"{process} must answer on port {port} within {seconds:g} s. {process._said()}"
        time.sleep(0.05)
    return False
