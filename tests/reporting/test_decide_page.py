"""The page to decide on, in a real browser: sliders, keyboard, links, copies, and nothing is fetched."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import riskfront as rf
from riskfront._reporting.decide_page import decide_html
from tests.support.browser import Browser, browser
from tests.support.processes import output

HOSTILE = "</script><img src=x onerror='window.broken=1'>"


def _table(names: tuple[str, str] = ("k", "mode")) -> rf.LossTable:
    rng = np.random.default_rng(0)
    m, n = 16, 1200
    error = rng.random((m, n)) < np.linspace(0.005, 0.25, m)[:, None]
    cost = np.linspace(1, 0.2, m)[:, None] + 0.01 * rng.random((m, n))
    slow = np.linspace(0.3, 1, m)[:, None] + 0.01 * rng.random((m, n))
    configs = [{names[0]: k, names[1]: "ab"[k % 2]} for k in range(m)]
    noise = np.repeat(1e-7 * rng.random((m, 1)), n, axis=1)
    losses = {"error": error, "cost": cost, "latency": slow, "noise": noise}
    return rf.LossTable(configs, losses, groups={"label": np.arange(n) % 2})


def _frontier(minimize: list[str], *, names: tuple[str, str] = ("k", "mode")) -> rf.Frontier:
    problem = rf.Problem(["error <= 0.1", "error <= 0.2 per label"], minimize=minimize)
    values = {"error": [0.002, 0.05, 0.1, 0.15], "error per label": [0.1, 0.2, 0.3]}
    return rf.frontier(_table(names), problem, values, simultaneous=True)


@pytest.fixture(scope="module")
def found() -> rf.Frontier:
    return _frontier(["cost"])


@pytest.fixture(scope="module")
def chrome(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    with browser(tmp_path_factory.mktemp("profile")) as started:
        yield started


@pytest.fixture(scope="module")
def page(found: rf.Frontier, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("page") / "decide.html"
    rf.write_decide_page(found, path, file="my frontier.json", command="riskfront decide losses.parquet")
    return path


def _move(chrome: Browser, which: int, place: int) -> None:
    chrome.js(
        "const e = document.getElementById(`limit-${arguments[0]}`);"
        "e.value = arguments[1]; e.dispatchEvent(new Event('input'))",
        which,
        place,
    )


def _is_on_the_page(chrome: Browser, found: rf.Frontier, at: dict[str, float]) -> None:
    certificate = found.choose(at)
    shown = dict(zip(chrome.all_text("#config th"), chrome.all_text("#config td"), strict=True))
    assert shown == {name: str(value) for name, value in certificate.config.items()}
    first = certificate.verdict().split(". ")[0].replace(" %", "\u00a0%").rstrip(".")
    assert chrome.text("#sentence").rstrip(".") == first


@pytest.mark.parametrize("width", [1280, 390])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_opens_without_error_or_request(chrome: Browser, page: Path, width: int, scheme: str) -> None:
    chrome.open(page, width=width, scheme=scheme)
    assert chrome.errors() == []
    assert [url for url in chrome.requests() if url != "data:,"] == [page.as_uri()]
    assert chrome.js("return document.documentElement.scrollWidth") <= width
    assert chrome.js("return document.querySelectorAll('.curve svg').length") == 2
    assert page.stat().st_size < 200_000


def test_every_combination_is_the_certificate_of_choose(chrome: Browser, page: Path, found: rf.Frontier) -> None:
    chrome.open(page)
    errors, labels = (sorted(found.values[name]) for name in ("error", "error per label"))
    for first, error in enumerate(errors):
        for second, label in enumerate(labels):
            _move(chrome, 0, first)
            _move(chrome, 1, second)
            if found.choose({"error": error, "error per label": label}):
                _is_on_the_page(chrome, found, {"error": error, "error per label": label})
            else:
                assert chrome.text("#badge").startswith("✗ Nothing certified")
                assert chrome.js("return document.getElementById('found').hidden")
                assert re.search(r"examples|limit", chrome.text("#why"))
    assert chrome.errors() == []


def test_keyboard_and_labels_of_screen_readers(chrome: Browser, page: Path) -> None:
    chrome.open(page)
    _move(chrome, 0, 2)
    slider = chrome.find("#limit-0")
    slider.send_keys("\ue014")  # arrow right
    assert chrome.text("#value-0") == "15 %"
    assert slider.get_attribute("aria-valuetext") == "at most 15 %"
    assert chrome.text("label[for=limit-0]") == "error at most"
    slider.send_keys("\ue011")  # home: the tightest
    assert "nothing is certified here" in slider.get_attribute("aria-valuetext")
    assert chrome.js("return document.getElementById('verdict').getAttribute('aria-live')") == "polite"
    assert all(chrome.js("return [...document.querySelectorAll('.curve')].map(e => e.getAttribute('aria-label'))"))
    assert chrome.js(
        "return [...document.querySelectorAll('button, input, select')].every(e => e.labels?.length || e.textContent.trim())"
    )


def test_touch_targets_are_large_enough(chrome: Browser, page: Path) -> None:
    chrome.open(page, width=390)
    heights = chrome.js(
        "return [...document.querySelectorAll('.actions button, input[type=range]')].map(e => e.getBoundingClientRect().height)"
    )
    assert min(heights) >= 44


def test_links_carry_the_choice(chrome: Browser, page: Path, found: rf.Frontier) -> None:
    chrome.open(page)
    chrome.driver.get(page.as_uri() + "#error=0.15&error%20per%20label=0.3")
    chrome.driver.refresh()
    _is_on_the_page(chrome, found, {"error": 0.15, "error per label": 0.3})
    _move(chrome, 0, 2)
    assert chrome.js("return location.hash") == "#error=0.1&error%20per%20label=0.3"
    chrome.driver.get("about:blank")
    chrome.driver.get(page.as_uri() + "#100%=1&error=much&error%20per%20label=0.1&pick=99")  # by hand, or cut off
    assert [chrome.text(f"#value-{which}") for which in (0, 1)] == ["10 %", "10 %"]
    assert chrome.text("#badge").startswith("✓")


def test_the_command_makes_this_certificate(chrome: Browser, page: Path, found: rf.Frontier, tmp_path: Path) -> None:
    from tests.support.command_line import riskfront

    chrome.open(page)
    _move(chrome, 0, 2)
    _move(chrome, 1, 1)
    command = chrome.text("#command")
    assert command.startswith("riskfront choose 'my frontier.json' --limit \"error <= 0.1\"")
    found.save(tmp_path / "my frontier.json")
    import shlex

    arguments = [str(tmp_path / part) if part.endswith(".json") else part for part in shlex.split(command)[1:]]
    done = riskfront(*arguments)
    assert done.returncode == 0, done.stderr
    made = rf.Certificate.load(tmp_path / "certificate.json")
    assert made.to_dict() == found.choose({"error": 0.1, "error per label": 0.2}).to_dict()


def test_the_next_step_says_what_it_buys(chrome: Browser, page: Path, found: rf.Frontier) -> None:
    chrome.open(page)
    _move(chrome, 1, 2)
    _move(chrome, 0, 1)
    now, then = (float(found.choose({"error": e, "error per label": 0.3}).chosen["cost"].iloc[0]) for e in (0.05, 0.1))
    words = chrome.text("#next-0").replace("\u00a0", " ")
    share = float(re.search(r"5 more points of error \(10 %\) save (\d+(?:\.\d+)?) % of the cost", words)[1])
    assert share == pytest.approx(100 * (now - then) / now, rel=0.06)
    assert "Nothing tighter is certified." in words


@pytest.mark.parametrize(
    ("place", "words"),
    [
        (0, "15 more points of error (20 %) save 75 % of the cost."),
        (1, "10 more points of error (20 %) save 75 % of the cost. Down to 5 % nothing changes."),
        (2, "Looser values change nothing. 10 points less of error (10 %) take 4 times the cost."),
        (3, "Down to 20 % nothing changes. 15 points less of error (10 %) take 4 times the cost."),
    ],
)
def test_steps_that_change_nothing_are_passed_over(chrome: Browser, tmp_path: Path, place: int, words: str) -> None:
    error = np.random.default_rng(0).random((2, 1200)) < np.array([[0.02], [0.13]])
    table = rf.LossTable([{"k": 0}, {"k": 1}], {"error": error, "cost": [[4.0] * 1200, [1.0] * 1200]})
    problem = rf.Problem("error <= 0.1", minimize="cost")
    steps = rf.frontier(table, problem, {"error": [0.05, 0.1, 0.2, 0.25]}, simultaneous=True)
    rf.write_decide_page(steps, tmp_path / "steps.html")
    chrome.open(tmp_path / "steps.html")
    _move(chrome, 0, place)
    assert chrome.text("#next-0").replace("\u00a0", " ") == words


def test_several_objectives_are_a_front_to_pick_from(chrome: Browser, tmp_path: Path) -> None:
    several = _frontier(["cost", "latency", "noise"])
    rf.write_decide_page(several, tmp_path / "two.html")
    chrome.open(tmp_path / "two.html")
    _move(chrome, 0, 3)
    _move(chrome, 1, 2)
    certificate = several.choose({"error": 0.15, "error per label": 0.3})
    options = chrome.js("return document.querySelectorAll('#options input').length")
    assert options == len(certificate.chosen) > 2
    chrome.js("document.querySelectorAll('#options input')[1].click()")
    shown = dict(zip(chrome.all_text("#config th"), chrome.all_text("#config td"), strict=True))
    assert shown == {name: str(value) for name, value in certificate.configs[1].items()}
    import shlex

    for place in range(options):
        chrome.js("document.querySelectorAll('#options input')[arguments[0]].click()", place)
        command = shlex.split(chrome.text("#command"))
        choice = command[command.index("--choose") + 1] if "--choose" in command else ""
        again = several.choose({"error": 0.15, "error per label": 0.3}, choice)
        assert again.config == certificate.configs[place], choice
    assert chrome.errors() == []


def test_it_begins_in_the_middle_of_what_is_certified(chrome: Browser, page: Path, found: rf.Frontier) -> None:
    chrome.open(page)
    assert chrome.text("#badge").startswith("✓")
    assert [chrome.text(f"#value-{which}") for which in (0, 1)] == ["10 %", "20 %"]


def test_groups_that_are_not_covered_are_named(chrome: Browser, page: Path, found: rf.Frontier) -> None:
    chrome.open(page)
    assert chrome.text("#covered") == "No other label is covered."
    assert found.choose({"error": 0.1, "error per label": 0.2}).verdict().endswith(chrome.text("#covered"))
    _move(chrome, 0, 0)
    assert chrome.js("return document.getElementById('covered').hidden")


def test_a_shell_runs_nothing_that_stands_in_a_name(chrome: Browser, tmp_path: Path) -> None:
    name = 'it\'s $(touch run) `touch run` "error" \\'
    error = np.random.default_rng(0).random((2, 600)) < 0.01
    table = rf.LossTable([{"k": 0}, {"k": 1}], {name: error, "cost": [[2.0] * 600, [1.0] * 600]})
    problem = rf.Problem([rf.Limit(name, at_most=0.1)], minimize=["cost"])
    hostile = rf.frontier(table, problem, {name: [0.05, 0.1]}, simultaneous=True)
    rf.write_decide_page(hostile, tmp_path / "d.html")
    chrome.open(tmp_path / "d.html")
    _move(chrome, 0, 1)
    command = chrome.text("#command").replace("riskfront", "printf '%s\\n'", 1)
    said = output(["sh", "-c", command], cwd=tmp_path)
    assert f"{name} <= 0.1" in said.splitlines()
    assert not (tmp_path / "run").exists()


def test_hostile_names_are_shown_as_text(chrome: Browser, tmp_path: Path) -> None:
    hostile = _frontier(["cost"], names=(HOSTILE, "mode"))
    rf.write_decide_page(hostile, tmp_path / "hostile.html")
    chrome.open(tmp_path / "hostile.html")
    assert HOSTILE in chrome.all_text("#config th")
    assert chrome.js("return window.broken") is None
    assert chrome.js("return document.images.length") == 0


def test_what_is_guaranteed_and_what_it_is_made_of(found: rf.Frontier) -> None:
    text = decide_html(found)
    assert found.guarantee() in text
    assert "for all 12 combinations together" in found.guarantee()
    assert "Rows read" in text
    assert f"{16 * 1200:,}" in text
    assert "http://" not in re.sub(r"http://www\.w3\.org/2000/svg", "", text)
    data = json.loads(re.search(r'id="data">(.+?)</script>', text)[1])
    assert len(data["chosen"]) == len(data["counts"]) == 12


def test_rules_of_cascades_are_in_words(found: rf.Frontier) -> None:
    from dataclasses import replace

    key = json.dumps(found.choose({"error": 0.1, "error per label": 0.2}).config)
    assert "Ask small first." in decide_html(replace(found, rules={key: "Ask small first."}))


def test_in_a_notebook_it_is_the_same_page(found: rf.Frontier) -> None:
    cell = found._repr_html_()
    assert cell.startswith("<iframe srcdoc=")
    assert "sandbox=" in cell
    assert "Move the limits" in cell


def test_in_a_notebook_it_copies_python(chrome: Browser, tmp_path: Path) -> None:
    """No file was saved there, and the cell has no address of its own."""
    frontier = _frontier(["cost", "latency"])
    text = decide_html(frontier, python=True)
    assert "Copy a link" not in text
    (tmp_path / "cell.html").write_text(text, encoding="utf-8")
    chrome.open(tmp_path / "cell.html")
    _move(chrome, 0, 3)
    _move(chrome, 1, 2)
    for place in range(2):
        chrome.js("document.querySelectorAll('#options input')[arguments[0]].click()", place)
        made: dict[str, rf.Certificate] = {}
        exec(chrome.text("#command"), {"frontier": frontier}, made)
        configs = frontier.choose({"error": 0.15, "error per label": 0.3}).configs
        assert made["certificate"].config == configs[place]
