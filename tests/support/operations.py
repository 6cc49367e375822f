"""How much a call does, whatever the machine: the instructions of Python that it takes, counted one by one."""

import sys
from collections.abc import Callable
from types import FrameType
from typing import Any

_COUNTED = ("/stream_apple/", "/prometheus_client/")


def operations(call: Callable[[], object]) -> int:
    """How many bytecode instructions `call` takes in code of the package, and of what keeps its metrics.

    What C does counts as one. Of tests that run meanwhile, only those of the same thread could be in it.
    """
    count = 0

    def instruction(_frame: FrameType, event: str, _: Any) -> Any:
        nonlocal count
        count += event == "opcode"
        return instruction

    def entered(frame: FrameType, _event: str, _: Any) -> Any:
        name = frame.f_code.co_filename
        if not any(part in name for part in _COUNTED) or "/tests/" in name:
            return None
        frame.f_trace_lines, frame.f_trace_opcodes = False, True
        return instruction

    before = sys.gettrace()
    sys.settrace(entered)
    try:
        call()
    finally:
        sys.settrace(before)
    return count
