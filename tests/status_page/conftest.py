"""A browser for all tests of the page."""

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from status_page.browser import Browser
from support.required import UnavailableError, in_ci, one_at_a_time, unavailable

_PACKAGES = ("chromium", "chromium-driver")  # Debian's
_INSTALL_S = 600


def _install() -> None:
    """Bring the browser to a machine that is CI's own; users are told what to install instead.

    One process of the suite at a time: apt knows no other way to wait for its lists.
    """
    if not in_ci() or os.geteuid() != 0 or shutil.which("apt-get") is None:
        return
    with one_at_a_time(Path(tempfile.gettempdir())):
        if shutil.which("chromedriver"):
            return
        _apt("update")  # where somebody else has it done just now it fails, and is not needed
        done = _apt("install", "--yes", "--no-install-recommends", *_PACKAGES)
        if done.returncode != 0:
            pytest.fail(f"apt-get install ended with {done.returncode}:\n{done.stdout[-2000:]}\n{done.stderr[-2000:]}")


def _apt(*command: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["apt-get", "--quiet", "--option", f"DPkg::Lock::Timeout={_INSTALL_S}", *command],
        env={**os.environ, "DEBIAN_FRONTEND": "noninteractive"},
        capture_output=True,
        text=True,
        timeout=_INSTALL_S,
        check=False,
    )


@pytest.fixture(scope="session")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    """A window of a real, headless Chromium."""
    _install()
    try:
        opened = Browser(tmp_path_factory.mktemp("browser"))
    except UnavailableError as error:
        unavailable(str(error))
    with opened:
        yield opened
