"""A real headless Chromium, driven over the WebDriver protocol that ChromeDriver speaks: JSON over HTTP, no library."""

import base64
import json
import os
import shutil
import subprocess
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any, Self

from kafka_broker import _TIED, free_ports

DEADLINE_S = 60.0
_ARGUMENTS = (
    "--headless=new",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-dev-shm-usage",
    "--hide-scrollbars",
)

# A proxy of the environment has no way to this machine's own ports.
_opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))


class NoBrowserError(Exception):
    """Chromium or ChromeDriver is not on this machine."""


class Browser:
    """One window; use as a context. `directory` is for its profile and the driver's log."""

    def __init__(self, directory: Path) -> None:
        driver, chromium = shutil.which("chromedriver"), shutil.which("chromium")
        if driver is None or chromium is None:
            raise NoBrowserError(
                "expected chromedriver and chromium (Debian: apt-get install chromium chromium-driver)"
            )
        (port,) = free_ports(1)
        self._log = (directory / "chromedriver.log").open("wb")
        self._driver = subprocess.Popen(
            [sys.executable, "-c", _TIED, driver, f"--port={port}"], stdout=self._log, stderr=self._log
        )
        self._address = f"http://127.0.0.1:{port}"
        try:
            self._wait_for_driver()
            sandbox = ("--no-sandbox",) if os.geteuid() == 0 else ()
            options = {
                "binary": chromium,
                "args": [*_ARGUMENTS, *sandbox, f"--user-data-dir={directory / 'profile'}"],
            }
            capabilities = {
                "browserName": "chrome",
                "goog:chromeOptions": options,
                "goog:loggingPrefs": {"browser": "ALL", "performance": "ALL"},
            }
            made = self._call("POST", "/session", {"capabilities": {"alwaysMatch": capabilities}})
        except BaseException:
            self._stop()
            raise
        self._session = f"/session/{made['sessionId']}"

    def _wait_for_driver(self) -> None:
        deadline = time.monotonic() + DEADLINE_S
        while True:
            try:
                if self._call("GET", "/status")["ready"]:
                    return
            except OSError:
                assert self._driver.poll() is None, "chromedriver has ended"
            assert time.monotonic() < deadline, "chromedriver does not answer"
            time.sleep(0.05)

    def _call(self, method: str, path: str, body: dict[str, Any] | None = None) -> Any:
        data = json.dumps(body).encode() if body is not None else None
        request = urllib.request.Request(
            self._address + path, data, {"Content-Type": "application/json"}, method=method
        )
        try:
            with _opener.open(request, timeout=DEADLINE_S) as reply:
                return json.load(reply)["value"]
        except urllib.error.HTTPError as error:
            with error:
                raise AssertionError(f"{method} {path}: {error.read().decode()[:2000]}") from error

    def open(self, url: str) -> None:
        """Go to this address; returns when the page has loaded."""
        self._call("POST", f"{self._session}/url", {"url": url})

    def run(self, script: str, *arguments: object) -> Any:
        """What the script returns."""
        return self._call("POST", f"{self._session}/execute/sync", {"script": script, "args": list(arguments)})

    def text(self, selector: str) -> str:
        """What can be read in the first element that fits."""
        found: str = self.run("return document.querySelector(arguments[0])?.innerText ?? ''", selector)
        return found

    def texts(self, selector: str) -> list[str]:
        """What can be read in each element that fits."""
        found: list[str] = self.run(
            "return [...document.querySelectorAll(arguments[0])].map(e => e.innerText)", selector
        )
        return found

    def click(self, selector: str) -> None:
        """As a person does, so what is covered can't be clicked."""
        found = self._call(
            "POST", f"{self._session}/element", {"using": "css selector", "value": selector}
        )  # fmt: skip
        self._call("POST", f"{self._session}/element/{next(iter(found.values()))}/click", {})

    def keys(self, selector: str, text: str) -> None:
        """Type into an element."""
        found = self._call("POST", f"{self._session}/element", {"using": "css selector", "value": selector})
        self._call("POST", f"{self._session}/element/{next(iter(found.values()))}/value", {"text": text})

    def wait_until(self, script: str, *arguments: object, seconds: float = DEADLINE_S) -> Any:
        """Poll until the script returns something true; the page's text is the message if that takes too long."""
        deadline = time.monotonic() + seconds
        while not (found := self.run(script, *arguments)):
            assert time.monotonic() < deadline, f"not within {seconds} s: {script}\n{self.text('body')}"
            time.sleep(0.1)
        return found

    def screen(self, width: int, height: int, *, dark: bool = False) -> None:
        """The size of the page in CSS pixels, and the colour scheme that the system asks for."""
        self._devtools(
            "Emulation.setDeviceMetricsOverride",
            {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False},
        )
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self._devtools("Emulation.setEmulatedMedia", {"features": [scheme]})

    def picture(self, path: Path, *, whole: bool = True) -> None:
        """Save what is seen, or the whole page, as PNG."""
        shot = self._devtools("Page.captureScreenshot", {"format": "png", "captureBeyondViewport": whole})
        path.write_bytes(base64.b64decode(shot["data"]))

    def complaints(self) -> list[str]:
        """What the console has said since the last call."""
        entries = self._call("POST", f"{self._session}/se/log", {"type": "browser"})
        return [f"{entry['level']}: {entry['message']}" for entry in entries]

    def requested(self) -> list[str]:
        """Addresses that pages have asked for since the last call."""
        entries = self._call("POST", f"{self._session}/se/log", {"type": "performance"})
        events = [json.loads(entry["message"])["message"] for entry in entries]
        return [event["params"]["request"]["url"] for event in events if event["method"] == "Network.requestWillBeSent"]

    def _devtools(self, command: str, parameters: dict[str, Any]) -> Any:
        return self._call("POST", f"{self._session}/goog/cdp/execute", {"cmd": command, "params": parameters})

    def _stop(self) -> None:
        self._driver.terminate()
        try:
            self._driver.wait(10)
        except subprocess.TimeoutExpired:
            self._driver.kill()
            self._driver.wait()
        self._log.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        try:
            self._call("DELETE", self._session)
        finally:
            self._stop()
