"""A browser for all tests of the page."""

import os
import shutil
import subprocess
from collections.abc import Iterator

import pytest
from status_page.browser import Browser
from support.required import UnavailableError, in_ci, unavailable

_PACKAGES = ("chromium", "chromium-driver")  # Debian's
_INSTALL_S = 600


def _install() -> None:
    """Bring the browser to a machine that is CI's own; users are told what to install instead."""
    if shutil.which("chromedriver") or not in_ci() or os.geteuid() != 0 or shutil.which("apt-get") is None:
        return
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    for command in (["update"], ["install", "--yes", "--no-install-recommends", *_PACKAGES]):
        done = subprocess.run(
            ["apt-get", "--quiet", *command],
            env=environment,
            capture_output=True,
            text=True,
            timeout=_INSTALL_S,
            check=False,
        )
        if done.returncode != 0:
            pytest.fail(
                f"apt-get {command[0]} ended with {done.returncode}:\n{done.stdout[-2000:]}\n{done.stderr[-2000:]}"
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
