"""A real browser for the tests of the report page: Debian's chromium, headless."""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from tests.support.clusters import no_process_stays

_FLAGS = (
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
)


class Browser:
    """Opens pages, and tells what they logged and asked for."""

    def __init__(self, driver: Any) -> None:
        self.driver = driver
        self._drop_logs()

    def open(self, page: Path, *, width: int = 1280, scheme: str = "light", media: str = "") -> float:
        """Load a page and wait until its charts are drawn; how long that took, in seconds, as the page saw it."""
        features = [{"name": "prefers-color-scheme", "value": scheme}]
        self.command("Emulation.setEmulatedMedia", media=media, features=features)
        metrics = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": width < 600}
        self.command("Emulation.setDeviceMetricsOverride", **metrics)
        self._drop_logs()
        self.driver.get(page.as_uri())
        deadline = time.monotonic() + 60
        while self.js("return document.documentElement.dataset.ready") is None:
            if time.monotonic() > deadline:
                raise AssertionError(f"the page was not ready after 60 s: {self.errors()}")
            time.sleep(0.02)
        return float(self.js("return Number(document.documentElement.dataset.ready)")) / 1000

    def js(self, script: str, *arguments: Any) -> Any:
        return self.driver.execute_script(script, *arguments)

    def command(self, name: str, **parameters: Any) -> Any:
        return self.driver.execute_cdp_cmd(name, parameters)

    def find(self, css: str) -> Any:
        return self.driver.find_element("css selector", css)

    def text(self, css: str) -> str:
        return str(self.js("return document.querySelector(arguments[0]).textContent", css))

    def all_text(self, css: str) -> list[str]:
        return list(self.js("return [...document.querySelectorAll(arguments[0])].map(e => e.textContent)", css))

    def hover(self, css: str) -> None:
        from selenium.webdriver import ActionChains

        element = self.find(css)
        self.js("arguments[0].scrollIntoView({block: 'center'})", element)
        ActionChains(self.driver, duration=20).move_to_element(element).perform()

    def errors(self) -> list[str]:
        """Everything on the console, warnings too."""
        return [entry["message"] for entry in self.driver.get_log("browser")]

    def requests(self) -> list[str]:
        """Every address that was asked for since the page was opened."""
        events = [json.loads(entry["message"])["message"] for entry in self.driver.get_log("performance")]
        return [e["params"]["request"]["url"] for e in events if e["method"] == "Network.requestWillBeSent"]

    def _drop_logs(self) -> None:
        self.driver.get_log("browser")
        self.driver.get_log("performance")


@contextmanager
def browser(profile: Path) -> Iterator[Browser]:
    """A browser with a fresh profile; skips the test where there is none."""
    binary, driver = shutil.which("chromium"), shutil.which("chromedriver")
    if binary is None or driver is None:
        pytest.skip("chromium and chromedriver are not installed; run tests/install_browser.sh")
    webdriver = pytest.importorskip("selenium.webdriver", reason="selenium is not installed")
    options = webdriver.ChromeOptions()
    options.binary_location = binary
    for flag in (*_FLAGS, f"--user-data-dir={profile}"):
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    with no_process_stays():
        started = webdriver.Chrome(options=options, service=webdriver.ChromeService(driver))
        try:
            started.set_page_load_timeout(60)
            started.set_script_timeout(60)
            started.get("about:blank")
            yield Browser(started)
        finally:
            with suppress(Exception):  # a browser that does not answer is killed
                started.quit()
