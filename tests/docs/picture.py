"""``python -m tests.docs.picture``: the picture of README and home page, the real report of ``riskfront demo`` in a browser.

Two parts of the page are kept, the verdict and the trade-off; the others are taken out before the shutter is pressed.
"""

from __future__ import annotations

import base64
import contextlib
import tempfile
from pathlib import Path

from riskfront import _cli as cli
from tests.docs.blocks import ROOT
from tests.support.browser import browser

WIDTH = 945
KEEP = """
for (const part of document.querySelectorAll('main > section'))
    if (part.getAttribute('aria-labelledby') !== 'h-tradeoff') part.remove();
for (const part of document.querySelectorAll('[aria-labelledby=h-tradeoff] > :not(h2, p, figure), footer')) part.remove();
window.dispatchEvent(new Event('resize'));
return [window.innerWidth, document.querySelector('[aria-labelledby=h-tradeoff]').getBoundingClientRect().bottom];
"""


def main() -> None:
    with tempfile.TemporaryDirectory() as place, browser(Path(place) / "profile") as chrome:
        with contextlib.suppress(SystemExit):
            cli.main(["demo", "--out-dir", str(Path(place) / "demo")])
        chrome.open(Path(place) / "demo" / "report.html", width=WIDTH)
        width, bottom = chrome.js(KEEP)
        clip = {"x": 0, "y": 24, "width": width, "height": bottom - 20, "scale": 1}
        picture = chrome.command("Page.captureScreenshot", format="png", clip=clip, captureBeyondViewport=True)["data"]
        (ROOT / "docs" / "assets" / "report.png").write_bytes(base64.b64decode(picture))


if __name__ == "__main__":
    main()
