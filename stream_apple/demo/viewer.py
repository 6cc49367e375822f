"""The person in front of the demo, who is shown the worker's status page and given the time to look at it."""

import os
import sys
import webbrowser
from collections.abc import Callable, Mapping
from typing import TextIO


class Viewer:
    """The person who looks at the status page, if there is one.

    opens  whether to open the page in the desktop's browser
    waits  whether someone is at the terminal, who can end the wait; else the output goes to a file, or to a program
    """

    def __init__(self, *, opens: bool, waits: bool, keyboard: TextIO = sys.stdin) -> None:
        self._opens = opens
        self._waits = waits
        self._keyboard = keyboard

    def show_page(self, address: str) -> None:
        """Open the page, which is there from now on, if there is a browser to open it with."""
        if self._opens:
            webbrowser.open_new_tab(address)

    def wait_for_exit(self, tell: Callable[[str], None]) -> None:
        """Wait for Enter, Ctrl-C or the terminal's end; `tell` shows what is waited for."""
        if not self._waits:
            return
        try:
            tell("all learned; the status page stays until you press Enter")
            self._keyboard.readline()
        except KeyboardInterrupt:
            return


def has_desktop(environ: Mapping[str, str] = os.environ, platform: str = sys.platform) -> bool:
    """Whether a browser that is started here would have a screen to appear on, and someone to see it."""
    if environ.get("CI") or environ.get("SSH_CONNECTION"):
        return False
    return platform == "darwin" or bool(environ.get("DISPLAY") or environ.get("WAYLAND_DISPLAY"))
