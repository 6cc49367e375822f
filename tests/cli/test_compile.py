"""What `compile` leaves for a worker to compile: nothing, with any one setting that the learner has."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from core.machine_code import LEAST, Compiled, kernels_in
from support.child_process import start_child
from support.command import call_command
from support.waiting import wait_until

from stream_apple.errors import ConfigurationError
from stream_apple.learners.options import SYSTEMS


def _learners() -> Iterator[dict[str, object]]:
    """Settings of each system, most of which have kernels that some others do not need."""
    for method in SYSTEMS["apple"].declared["method"].choices:
        for loss in SYSTEMS["apple"].declared["loss"].choices:
            yield {"method": method, "loss": loss} | ({"classes": 5} if loss == "softmax" else {})
    yield {"loss": "logistic", "discretise": "none"}
    yield {"drift": "ignore"}
    yield {"mergeable": True, "loss": "logistic"}
    yield {"ngrams": {"*": 2}}
    yield {"mixture": False, "paper": {"selection": "ssm"}}
    yield {"mixture": False, "loss": "logistic", "paper": {"steps": "theorem1", "fallback": True}}
    for tuples in (
        {},
        {"loss": "squared"},
        {"discretise": "mdl", "warm_start": "none"},
        {"discretise": "none", "selection": "cv", "selection_share": 0.5},
        {"loss": "squared", "selection_share": 0.3, "hierarchical": True, "order": 3},
    ):
        yield {"system": "tuples", "tuples": tuples}
    for hashed in (
        {},
        {"loss": "squared"},
        {"personalise": "user", "l1": 1e-6},
        {"descent": "plain", "l2": 1e-6},
    ):
        yield {"system": "hashed", "hashed": hashed}


SETTINGS: tuple[dict[str, dict[str, object]], ...] = (
    {},
    {"merge": {"mode": "average"}},
    {"merge": {"mode": "average"}, "learner": {"loss": "logistic"}},
    {"merge": {"mode": "average"}, "learner": {"loss": "softmax", "classes": 3}},
    {"merge": {"mode": "average"}, "learner": {"mixture": False}},
    *({"learner": learner} for learner in _learners()),
)
_WARM_UP = """
import json, sys
from stream_apple.app.model_factories import settings_of
from stream_apple.config.loading import config_of
from stream_apple.stream.model.warmup import warm_up
for sections in json.load(sys.stdin):
    settings = settings_of(config_of(sections, "here"))
    warm_up(settings, settings.decoder())
assert 'numba.np.linalg' not in sys.modules, 'what only compiling needs'
"""


def test_a_worker_finds_its_kernels(compiled: Compiled) -> None:
    """Whatever its learner, and where models are merged, too: an image can't keep what is compiled in it."""
    done = subprocess.run(
        [sys.executable, "-c", _WARM_UP],
        env={**os.environ, "NUMBA_CACHE_DIR": str(compiled.cache), "NUMBA_DEBUG_CACHE": "1"},
        input=json.dumps(SETTINGS),
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    needed = kernels_in(done.stdout)
    assert needed
    assert needed - compiled.kernels == set()


@pytest.mark.parametrize("target", ["x86-64-v33", "athlon", "help", ""])
def test_a_type_that_is_none_is_refused(target: str) -> None:
    """LLVM ended the process; for no name at all it compiled for ten minutes what nobody asks for."""
    done = call_command("compile", "--target", target)
    assert done.returncode == ConfigurationError.exit_code
    assert f"such as x86-64-v3, found {target!r}" in done.stderr


def test_a_variable_that_names_none_is_refused(tmp_path: Path) -> None:
    """By whatever needs kernels, before LLVM ends the process."""
    file = tmp_path / "examples"
    file.write_text("1 1:1\n0 1:2\n")
    environment = {**os.environ, "NUMBA_CPU_NAME": "athlon-99", "NUMBA_CACHE_DIR": str(tmp_path)}
    command = [sys.executable, "-m", "stream_apple", "evaluate", str(file)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == ConfigurationError.exit_code
    assert done.stderr == (
        "stream-apple: NUMBA_CPU_NAME: expected a type of processor that LLVM knows, such as x86-64-v3, found "
        "'athlon-99'\n"
    )


def test_the_first_kernel_is_for_the_type_that_is_named(tmp_path: Path) -> None:
    """And so for no more than the type has; all others come the same way."""
    command = [sys.executable, "-m", "stream_apple", "compile", "--target", LEAST]
    process = start_child(command, tmp_path / "log", {"NUMBA_CACHE_DIR": str(tmp_path)})
    try:

        def indexes() -> list[Path]:
            assert process.poll() is None, (tmp_path / "log").read_text()
            return list(tmp_path.rglob("*.nbi"))

        first = wait_until(indexes, "an index of compiled kernels")[0].read_bytes()
    finally:
        process.kill()
        process.wait()
    # With the type stands which features the code was compiled for.
    assert LEAST.encode() in first
    assert b"+sse" not in first
