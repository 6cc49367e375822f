"""A real headless Chromium, driven over the WebDriver protocol that ChromeDriver speaks: JSON over HTTP, no library."""

import base64
import json
import os
import shutil
import subprocess
from http import HTTPStatus
from pathlib import Path
from typing import Any, Self

from support.child_process import start_child
from support.local_http import fetch
from support.ports import free_ports
from support.required import UnavailableError
from support.waiting import DEADLINE_S, wait_until

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


class Browser:
    """One window; use as a context. `directory` is for its profile and the driver's log."""

    def __init__(self, directory: Path) -> None:
        driver, chromium = shutil.which("chromedriver"), shutil.which("chromium")
        if driver is None or chromium is None:
            raise UnavailableError(
                "expected chromedriver and chromium (Debian: apt-get install chromium chromium-driver)"
            )
        (self._port,) = free_ports(1)
        self._driver = start_child([driver, f"--port={self._port}"], directory / "chromedriver.log")
        try:
            wait_until(self._ready, "an answer of chromedriver")
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

    def _ready(self) -> bool:
        assert self._driver.poll() is None, "chromedriver has ended"
        try:
            return bool(self._call("GET", "/status")["ready"])
        except OSError:
            return False

    def _call(self, method: str, path: str, body: dict[str, Any] | None = None) -> Any:
        data = json.dumps(body).encode() if body is not None else None
        answer = fetch(self._port, path, method, data, DEADLINE_S)
        assert answer.status == HTTPStatus.OK, f"{method} {path}: {answer.body.decode()[:2000]}"
        return answer.json()["value"]

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
        return wait_until(
            lambda: self.run(script, *arguments), lambda: f"{script}\n{self.text('body')}", seconds, pause_s=0.1
        )

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

    def leave(self) -> None:
        """Close the page, which would go on asking a server that has ended, and forget what it has said."""
        self.open("about:blank")
        self.complaints()

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

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        try:
            self._call("DELETE", self._session)
        finally:
            self._stop()
