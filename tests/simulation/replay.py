"""One random history, step by step: `PYTHONPATH=tests python -m simulation.replay SEED [KIND]` from the repository."""

import sys

from simulation.merging.histories import HastySchedule, StrictSchedule
from simulation.schedule import Schedule
from simulation.small import small

if __name__ == "__main__":
    kinds = {kind.__name__: kind for kind in (Schedule, StrictSchedule, HastySchedule)}
    with small():
        kinds[sys.argv[2] if len(sys.argv) > 2 else "Schedule"](int(sys.argv[1]), print).run()
    print("as expected")
