"""The page of a monitor: in a real browser at two widths, and with names that would like to be markup."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import numpy as np
import pytest

import riskfront as rf
from riskfront._reporting.monitor_page import monitor_html, write_monitor_page
from tests.support.browser import Browser, browser
from tests.support.certificates import ENDING, HOSTILE, IMAGE
from tests.support.monitoring import certificate

KINDS = ("alarm", "quiet", "empty", "many", "hostile")


@cache
def monitor(kind: str) -> rf.Monitor:
    rng = np.random.default_rng(0)
    groups = [f"group {i}" for i in range(20)] if kind == "many" else ["a", IMAGE]
    loss, per = (HOSTILE, ENDING) if kind == "hostile" else ("error", "label")
    limits = [rf.Limit(loss, at_most=0.1), rf.Limit(loss, at_most=0.2, per=per)]
    made = rf.Monitor(certificate(*limits, groups={per: groups}), time="day", warn_on="sure")
    if kind != "empty":
        n = 4000
        risk = np.where(np.arange(n) < 3000, 0.05, 0.3 if kind in ("alarm", "hostile") else 0.05)
        days = [f"2026-{1 + i * 12 // n:02d}-{1 + i % 28:02d}" for i in range(n)]
        outcomes = {
            loss: rng.random(n) < risk,
            per: rng.choice([*groups, "new"], n),
            "day": days,
            "sure": rng.random(n),
        }
        made.update(outcomes)
    return made


@pytest.fixture(scope="module")
def chrome(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    with browser(tmp_path_factory.mktemp("profile")) as started:
        yield started


@pytest.mark.parametrize("kind", KINDS)
def test_opens_without_error_or_request(chrome: Browser, tmp_path: Path, kind: str) -> None:
    page = tmp_path / "page.html"
    write_monitor_page(monitor(kind), page)
    for width in (1280, 390):
        chrome.open(page, width=width)
        assert chrome.errors() == []
        assert [url for url in chrome.requests() if url != "data:,"] == [page.as_uri()]
        assert chrome.js("return document.documentElement.scrollWidth") <= width
        assert chrome.js("return window.broken") is None
        drawn = chrome.js(
            "return [...document.querySelectorAll('.chart svg')].map(e => e.getBoundingClientRect().width)"
        )
        assert len(drawn) == (0 if kind == "empty" else 2)
        assert all(200 < size <= width for size in drawn)
        picture = chrome.command("Page.captureScreenshot", format="png", captureBeyondViewport=True)["data"]
        assert len(base64.b64decode(picture)) > 10_000


def test_a_point_says_what_it_is(chrome: Browser, tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    write_monitor_page(monitor("alarm"), page)
    chrome.open(page)
    chrome.hover("#figure-risk g.mark-symbol path")
    assert not chrome.js("return document.getElementById('tip').hidden")
    assert chrome.all_text("#tip dt") == ["up to outcome", "time", "outcomes", "risk", "evidence at most"]
    evidence = chrome.js("return riskfrontViews.evidence.data('line-0').map(d => d.y)")
    assert max(evidence) > monitor("alarm").watches[0].detector.threshold


def test_says_what_was_found() -> None:
    found = monitor_html(monitor("alarm"))
    row = monitor("alarm").status.iloc[0]
    assert f"seen at outcome {int(row['alarm_at']):,} (2026-" in found
    assert f"The change is estimated at outcome {int(row['change_at']):,} (2026-" in found
    assert "groups of &#39;label&#39; that were not there at calibration: &#39;new&#39;" in found
    assert "No alarm after 4,000 outcomes." in monitor_html(monitor("quiet"))
    assert "No outcome was given yet." in monitor_html(monitor("empty"))
    assert "15 more, with less evidence" not in monitor_html(monitor("quiet"))
    assert "9 more, with less evidence" in monitor_html(monitor("many"))
