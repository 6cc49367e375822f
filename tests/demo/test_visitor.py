"""The person in front of the demo: when a browser opens, and when the worker may go."""

import io
import os
import pty
import select
import subprocess
import sys
import time
import urllib.request
import webbrowser
from pathlib import Path

import pytest

from stream_apple.demo.visitor import Nobody, Person, has_desktop

DEADLINE_S = 120


@pytest.mark.parametrize(
    ("environ", "platform", "expected"),
    [
        ({"DISPLAY": ":0"}, "linux", True),
        ({"WAYLAND_DISPLAY": "wayland-0"}, "linux", True),
        ({}, "linux", False),
        ({"DISPLAY": ":0", "CI": "true"}, "linux", False),
        ({"DISPLAY": ":10", "SSH_CONNECTION": "1 2 3 4"}, "linux", False),
        ({}, "darwin", True),
        ({"CI": "1"}, "darwin", False),
    ],
)
def test_a_browser_needs_a_desktop(environ: dict[str, str], platform: str, expected: bool) -> None:  # noqa: FBT001
    """No browser is opened where nobody would see it."""
    assert has_desktop(environ, platform) is expected


def test_a_person_sees_the_page_and_says_when_to_go(monkeypatch: pytest.MonkeyPatch) -> None:
    """The page is opened unless that is not wanted; a line, or the keyboard's end, lets the worker go."""
    opened: list[str] = []
    monkeypatch.setattr(webbrowser, "open_new_tab", opened.append)
    told: list[str] = []
    keyboard = io.StringIO("\nmore")
    person = Person(opens=True, keyboard=keyboard)
    person.welcome("http://127.0.0.1:1/")
    person.take_leave(told.append)
    assert opened == ["http://127.0.0.1:1/"]
    assert len(told) == 1
    assert "Enter" in told[0]
    assert keyboard.read() == "more"
    Person(opens=False, keyboard=io.StringIO()).welcome("http://127.0.0.1:2/")
    Nobody().welcome("http://127.0.0.1:3/")
    Nobody().take_leave(told.append)
    assert len(opened) == len(told) == 1


def test_on_a_terminal_the_page_stays_until_enter(tmp_path: Path) -> None:
    """When all is learned, the status page still answers; Enter ends the demo with 0."""
    ours, theirs = pty.openpty()
    demo = subprocess.Popen(
        [sys.executable, "-m", "stream_apple", "demo", "--examples", "4000", "--no-browser"],
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        env={**os.environ, "TMPDIR": str(tmp_path), "TERM": "xterm", "COLUMNS": "200"},
    )
    os.close(theirs)
    seen = ""
    try:
        deadline = time.monotonic() + DEADLINE_S
        while "until you press Enter" not in seen:
            assert time.monotonic() < deadline, seen
            assert demo.poll() is None, seen
            if select.select([ours], [], [], 0.2)[0]:
                seen += os.read(ours, 1 << 16).decode(errors="replace")
        address = seen.split("http://127.0.0.1:")[1].split("/")[0]
        with urllib.request.urlopen(f"http://127.0.0.1:{address}/", timeout=10) as page:
            assert b"<title>stream_apple</title>" in page.read()
        os.write(ours, b"\n")
        while demo.poll() is None:
            assert time.monotonic() < deadline, seen
            if select.select([ours], [], [], 0.2)[0]:
                try:
                    seen += os.read(ours, 1 << 16).decode(errors="replace")
                except OSError:  # the other end is closed
                    break
        # With so few examples, apple may not be better than linear yet, which the demo tells with 1.
        assert demo.wait(DEADLINE_S) in {0, 1}, seen
    finally:
        demo.kill()
        demo.wait()
        os.close(ours)
