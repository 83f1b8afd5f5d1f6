"""Progress where there is no terminal: lines now and then, none for what is soon done."""

import time

import pytest

from riskfront._support.progress import ProgressBar


def run(monkeypatch: pytest.MonkeyPatch, seconds: int, shown: bool | None = None) -> None:
    now = [0.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    with ProgressBar("reading", 10 * seconds, shown=shown) as bar:
        for second in range(seconds):
            now[0] = second + 1.0
            bar.advance(10)


def test_lines_after_half_a_minute_and_then_every_minute(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    run(monkeypatch, 240)
    found = capsys.readouterr()
    assert found.out == ""
    assert found.err.splitlines() == [
        "reading: 300 of 2,400, 4 min left",
        "reading: 900 of 2,400, 2 min left",
        "reading: 1,500 of 2,400, 2 min left",
        "reading: 2,100 of 2,400, under a minute left",
    ]


def test_nothing_for_what_is_soon_done_or_asked_to_be_silent(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    run(monkeypatch, 29)
    run(monkeypatch, 240, shown=False)
    assert capsys.readouterr().err == ""


def test_hours() -> None:
    from riskfront._support.progress import _in_words

    assert [_in_words(seconds) for seconds in (20, 61, 3600, 7500)] == [
        "under a minute",
        "1 min",
        "1 h 0 min",
        "2 h 5 min",
    ]


def test_the_first_steps_do_not_tell_how_long_the_rest_takes(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The first setting of a trace makes the pass that all others read off."""
    now = [0.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    with ProgressBar("searching", 120) as bar:
        for minute in (1, 2, 3):
            now[0] = 60.0 * minute + 1
            bar.advance()
    assert capsys.readouterr().err.splitlines() == [
        "searching: 1 of 120",
        "searching: 2 of 120",
        "searching: 3 of 120, 1 h 58 min left",
    ]


def test_what_was_done_before_and_a_slow_start_do_not_tell_how_long_the_rest_takes(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The machine was busy for ten minutes; now ten rows take a second."""
    now = [0.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    with ProgressBar("tracing", 10_000, done=5_000) as bar:
        for seconds in [60.0] * 10 + [1.0] * 100:
            now[0] += seconds
            bar.advance(10)
    lines = capsys.readouterr().err.splitlines()
    assert lines[9] == "tracing: 5,100 of 10,000, 8 h 10 min left"
    assert lines[-1] == "tracing: 5,700 of 10,000, 7 min left"


def test_rows_that_differ_in_work_are_counted_by_it(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Texts come longest first: by rows, the time left would be six times as much."""
    now = [0.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    lengths = [100] * 40 + [10] * 360
    with ProgressBar("tracing", len(lengths), work=sum(lengths)) as bar:
        for length in lengths:
            now[0] += length / 100
            bar.advance(1, length)
    assert capsys.readouterr().err.splitlines() == ["tracing: 30 of 400, 1 min left"]
