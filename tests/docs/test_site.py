"""The site builds without a warning, its links lead somewhere, and it works from a folder without a network."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urldefrag

import pytest

import riskfront as rf
from tests.docs.blocks import ROOT
from tests.support.browser import Browser, browser
from tests.support.processes import finished, wait_until

pytest.importorskip("material", reason="the site is built with riskfront[docs]")


class Page(HTMLParser):
    """What a page links to, what it loads, and the anchors it has."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.links: set[str] = set()
        self.loaded: set[str] = set()
        self.anchors: set[str] = set()
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        found = {name: value or "" for name, value in attributes}
        self.anchors |= {found[name] for name in ("id", "name") if name in found}
        if tag == "a" and "href" in found:
            self.links.add(found["href"])
        elif "src" in found or (tag == "link" and found.get("rel") not in ("canonical", "next", "prev")):
            self.loaded.add(found.get("src") or found.get("href", ""))


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(folder)]
    done = finished(command, 250, cwd=ROOT, env={"NO_MKDOCS_2_WARNING": "1"})
    said = done.stdout + done.stderr
    # --quiet would hide warnings from the strict count: a check that cannot fail
    warned = [line for line in said.splitlines() if line.startswith("WARNING")]
    assert done.returncode == 0, said
    assert not warned, "\n".join(warned)
    return folder


@pytest.fixture(scope="module")
def pages(site: Path) -> dict[Path, Page]:
    return {path: Page(path) for path in site.rglob("*.html")}


def broken(pages: dict[Path, Page]) -> list[str]:
    """Links, and loaded files, of a site that lead nowhere inside it."""
    found = []
    for path, page in pages.items():
        if path.name == "404.html":  # its addresses are those of a server
            continue
        for link in page.links | page.loaded:
            address, anchor = urldefrag(link)
            if "://" in address or address.startswith(("mailto:", "data:", "javascript:")):
                continue
            target = (path.parent / unquote(address)).resolve() if address else path
            if not target.is_file():
                found.append(f"{path.name}: {link}")
            elif anchor and target in pages and unquote(anchor) not in pages[target].anchors:
                found.append(f"{path.name}: {link} (no such anchor)")
    return found


def test_links_lead_somewhere(pages: dict[Path, Page]) -> None:
    assert len(pages) > 35
    assert broken(pages) == []


def test_a_broken_link_is_noticed(tmp_path: Path) -> None:
    (tmp_path / "a.html").write_text('<a href="b.html#x"></a><a href="c.html"></a><h1 id="y"></h1><a href="#y"></a>')
    (tmp_path / "b.html").write_text("<h1 id='z'></h1>")
    pages = {path: Page(path) for path in tmp_path.glob("*.html")}
    assert sorted(broken(pages)) == ["a.html: b.html#x (no such anchor)", "a.html: c.html"]


def test_nothing_is_loaded_from_elsewhere(pages: dict[Path, Page]) -> None:
    outside = {(path.name, address) for path, page in pages.items() for address in page.loaded if "//" in address}
    assert outside == set()


def test_every_page_has_a_markdown_twin_in_llms_txt(site: Path, pages: dict[Path, Page]) -> None:
    listed = (site / "llms.txt").read_text(encoding="utf-8")
    for path in pages:
        if path.name != "404.html":
            twin = path.with_suffix(".md")
            assert f"({twin.relative_to(site).as_posix()})" in listed
            assert twin.read_text(encoding="utf-8").startswith("#")
    assert "at_most: upper limit on its mean" in (site / "api" / "tables.md").read_text(encoding="utf-8")


def test_lists_are_lists(site: Path) -> None:
    """An item that follows a sentence without an empty line would be a part of it."""
    for path in site.rglob("*.html"):
        text = re.sub(r"<pre.*?</pre>", "", path.read_text(encoding="utf-8"), flags=re.DOTALL)
        assert not re.search(r"^- ", text, re.MULTILINE), path.name


def test_every_public_name_is_in_the_reference(site: Path) -> None:
    text = "".join(path.read_text(encoding="utf-8") for path in (ROOT / "docs" / "api").glob("*.md"))
    named = set(re.findall(r"^::: riskfront\.(\w+)$", text, re.MULTILINE))
    assert {name for name in rf.__all__ if callable(getattr(rf, name))} <= named
    built = "".join(path.read_text(encoding="utf-8") for path in (site / "api").glob("*.html"))
    assert [name for name in named if f'id="riskfront.{name}"' not in built] == []


def test_formulas_are_mathml(site: Path) -> None:
    text = (site / "methods" / "p-values.html").read_text(encoding="utf-8")
    assert text.count("<math") > 20
    assert "arithmatex" not in text
    for path in site.rglob("*.html"):  # no command that the converter does not know
        assert [
            found for found in re.findall(r"<math.*?</math>", path.read_text(encoding="utf-8")) if "\\" in found
        ] == []


def test_formulas_bring_their_font(chrome: Browser, site: Path) -> None:
    """Without one that knows mathematics, browsers leave indices on the line."""
    pytest.importorskip("ziamath")
    assert "data:font/woff" in (site / "assets" / "mathematics.css").read_text(encoding="utf-8")
    show(chrome, site / "methods" / "p-values.html", 1280)
    chrome.js("return document.fonts.ready.then(() => 1)")
    place = "const box = document.querySelector('math msub').children; return [0, 1].map(i => box[i].getBoundingClientRect()"
    base, index = chrome.js(f"{place}.bottom)")
    assert index > base + 1


@pytest.fixture(scope="module")
def chrome(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    with browser(tmp_path_factory.mktemp("profile")) as started:
        yield started


def show(chrome: Browser, page: Path, width: int) -> None:
    chrome.command(
        "Emulation.setDeviceMetricsOverride", width=width, height=900, deviceScaleFactor=1, mobile=width < 600
    )
    chrome.driver.get(page.as_uri())


@pytest.mark.parametrize("width", [1280, 390])
def test_pages_fit_and_ask_for_nothing(chrome: Browser, site: Path, width: int) -> None:
    for name in ("index.html", "methods/p-values.html", "api/cli.html", "compare/results.html", "start/table.html"):
        show(chrome, site / name, width)
        assert chrome.errors() == []
        assert [url for url in chrome.requests() if not url.startswith(("file:", "data:"))] == []
        assert chrome.js("return document.documentElement.scrollWidth") <= width, name


def test_search_works_from_a_folder(chrome: Browser, site: Path) -> None:
    show(chrome, site / "index.html", 1280)
    field = chrome.find(".md-search__input")
    chrome.js("arguments[0].focus()", field)
    field.send_keys("Bonferroni")
    found = wait_until(lambda: chrome.all_text(".md-search-result__item h1"), "the search finds pages")
    assert "Procedures" in found
