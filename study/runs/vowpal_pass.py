"""One pass of Vowpal Wabbit: `python -m study.runs.vowpal_pass ARGUMENTS` prints a line of JSON.

seconds   from the start of Vowpal Wabbit to the end of its input, without the start of Python
loss      mean progressive loss; null where nothing was labelled
features  of all examples together, constants included
"""

import json
import re
import sys
import time


def run_pass(arguments: list[str]) -> dict[str, float | None]:
    """Run Vowpal Wabbit on the file and return what it reports."""
    from vowpalwabbit import pyvw

    started = time.perf_counter()
    workspace = pyvw.Workspace(arg_list=arguments, enable_logging=True)
    seconds = time.perf_counter() - started
    weight = workspace.get_weighted_examples()
    loss = workspace.get_sum_loss() / weight if weight else None
    workspace.finish()
    features = re.search(r"total feature number = (\d+)", "".join(workspace.get_log()))
    return {"seconds": seconds, "loss": loss, "features": float(features[1]) if features else None}


if __name__ == "__main__":
    sys.stdout.write(json.dumps(run_pass(sys.argv[1:])) + "\n")
