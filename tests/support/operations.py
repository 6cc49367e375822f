"""How much a call does, whatever the machine: the lines of Python that it runs, counted one by one."""

import sys
from collections.abc import Callable
from types import FrameType
from typing import Any

_COUNTED = ("/stream_apple/", "/prometheus_client/")


def operations(call: Callable[[], object]) -> int:
    """How many lines `call` runs in code of the package, and of what keeps its metrics.

    Not instructions: from Python 3.12 on, those of a function's first call are not told. Of tests that
    run meanwhile, only those of the same thread could be in it.
    """
    count = 0

    def step(_frame: FrameType, event: str, _: Any) -> Any:
        nonlocal count
        count += event == "line"
        return step

    def entered(frame: FrameType, _event: str, _: Any) -> Any:
        name = frame.f_code.co_filename
        if not any(part in name for part in _COUNTED) or "/tests/" in name:
            return None
        return step

    before = sys.gettrace()
    sys.settrace(entered)
    try:
        call()
    finally:
        sys.settrace(before)
    return count
