"""The person in front of the demo, who is shown the worker's status page and given the time to look at it."""

import os
import sys
import webbrowser
from collections.abc import Callable, Mapping
from typing import Protocol, TextIO


class Viewer(Protocol):
    """Stands for the person who looks at the status page, if there is one."""

    def show_page(self, address: str) -> None:
        """Show the page, which is there from now on."""
        ...

    def wait_for_exit(self, tell: Callable[[str], None]) -> None:
        """Return when the worker may end, everything being learned; `tell` shows what is waited for."""
        ...


class NullViewer:
    """Stands for no viewer, as the output goes to a file or to another program."""

    def show_page(self, address: str) -> None:
        """Do nothing: there is nobody to show the page to."""

    def wait_for_exit(self, tell: Callable[[str], None]) -> None:
        """Return at once: there is nobody to wait for."""


class TerminalViewer:
    """Someone at a terminal.

    opens  whether to open the page in the desktop's browser
    """

    def __init__(self, *, opens: bool, keyboard: TextIO = sys.stdin) -> None:
        self._opens = opens
        self._keyboard = keyboard

    def show_page(self, address: str) -> None:
        """Open the page, if there is a browser to open it with."""
        if self._opens:
            webbrowser.open_new_tab(address)

    def wait_for_exit(self, tell: Callable[[str], None]) -> None:
        """Wait for Enter, Ctrl-C or the terminal's end."""
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
