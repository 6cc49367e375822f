"""What a terminal shows."""

import io
from typing import Any

from rich.console import Console


def rendered(what: Any, width: int) -> list[str]:
    """Lines of text as they appear on a terminal of this width."""
    console = Console(file=io.StringIO(), width=width, height=24, force_terminal=True, color_system=None)
    with console.capture() as capture:
        console.print(what)
    return capture.get().splitlines()
