"""What `compile` leaves for a worker to compile: nothing, with any one setting that the learner has."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

from core.machine_code import TARGET, machine_code

SETTINGS: tuple[dict[str, dict[str, object]], ...] = (
    {},
    {"merge": {"mode": "average"}},
    {"merge": {"mode": "average"}, "learner": {"loss": "logistic"}},
    {"merge": {"mode": "average"}, "learner": {"loss": "softmax", "classes": 3}},
    {"merge": {"mode": "average"}, "learner": {"combine": "off"}},
    {"learner": {"drift": "ignore"}},
    {"learner": {"early_growth": 0, "loss": "logistic"}},
    {"learner": {"ngrams": {"*": 2}}},
    {"learner": {"discretise": "mdl"}},
    {"learner": {"refit_epochs": 1}},
    {"learner": {"method": "cubic", "loss": "logistic"}},
)
_WARM_UP = """
import json, sys
from stream_apple.app.model_factories import settings_of
from stream_apple.config.loading import config_of
from stream_apple.stream.model.warmup import warm_up
for sections in json.load(sys.stdin):
    settings = settings_of(config_of(sections, "here"))
    warm_up(settings, settings.decoder())
"""


def test_a_worker_finds_its_kernels(generic_kernels: Path, tmp_path: Path) -> None:
    """Where models are merged, too: an image can't keep what is compiled in it."""
    cache = tmp_path / TARGET
    shutil.copytree(generic_kernels / TARGET, cache)
    before = machine_code(cache).keys()
    environ = {
        **os.environ,
        "NUMBA_CACHE_DIR": str(cache),
        "NUMBA_CPU_NAME": TARGET,
        "NUMBA_CPU_FEATURES": "",
    }
    command = [sys.executable, "-c", _WARM_UP]
    subprocess.run(command, env=environ, input=json.dumps(SETTINGS), text=True, check=True)
    assert machine_code(cache).keys() - before == set()
