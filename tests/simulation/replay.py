"""One random history, step by step: `PYTHONPATH=tests python -m simulation.replay SEED [KIND]` from the repository."""

import sys
from collections.abc import Callable
from typing import Any

from simulation.history import History, Note
from simulation.joining.schedule import JoinSchedule
from simulation.merging.histories import HastySchedule, StrictSchedule
from simulation.schedule import Schedule
from simulation.small import small

KINDS: dict[str, Callable[[int, Note], History[Any]]] = {
    "Schedule": Schedule,
    "StrictSchedule": StrictSchedule,
    "HastySchedule": HastySchedule,
    "JoinSchedule": JoinSchedule,
}

if __name__ == "__main__":
    with small():
        KINDS[sys.argv[2] if len(sys.argv) > 2 else "Schedule"](int(sys.argv[1]), print).run()
    print("as expected")
