"""One random history, step by step: `PYTHONPATH=tests python -m simulation.replay SEED` from the repository."""

import sys

from simulation.schedule import Schedule
from simulation.small import small

if __name__ == "__main__":
    with small():
        Schedule(int(sys.argv[1]), print).run()
    print("as expected")
