"""What is compiled before the group is joined: everything that comes later finds its kernels."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

TESTS = Path(__file__).resolve().parents[2]
_SCRIPT = """
import gc, json, os, sys
from support.records import START, HOUR, FakeRecord, stream
from stream_apple.app.model_factories import settings_of
from stream_apple.config import load
from stream_apple.records.message.example import Example, encode_example
from stream_apple.records.message.feature_names import names_in
from stream_apple.core.jit import Kernel
from stream_apple.learners.apple.learner import Learner
from stream_apple.learners.apple.merging.merge import adopt, merge, start_of
from stream_apple.learners.systems import ngrams_of
from stream_apple.stream.positions.lineage import Lineage
from stream_apple.stream.model.partition_model import PartitionModel
from stream_apple.stream.model.warmup import warm_up

def compiled():
    kernels = [each for each in gc.get_objects() if type(each) is Kernel]
    return {f"{one.__module__}.{one.__name__}": len(one.overloads) for one in kernels if one.overloads}


def check(family, given):
    chosen = {f"STREAM_APPLE_{name}": value for name, value in given.items()}
    settings = settings_of(load(None, chosen))
    if family == "started":
        settings = settings._replace(start=start_of(Learner(settings.options)))
    decoder = settings.decoder()

    warm_up(settings, decoder)
    before = compiled()
    assert before["stream_apple.records.message.parse.parse"] == 1, before

    # Whatever may come, JSON and msgpack, faults and names to note; over ten epochs, with all that an epoch's end does.
    classes = settings.options.classes
    model = PartitionModel("examples", 0, Lineage(0, "0" * 16), settings, decoder).begin()
    offset, notes = 0, ngrams_of(settings.options)
    for epoch in range(10):
        values = []
        for number in range(120):
            label = float(number % (classes or 2))
            features = {"n": {"a": number / 7.0, "b": -1.5 * number}, "text": {"w%d" % (number % 5): True, "x": 0.25}}
            example = Example(label, 1.0, number, features if number % 2 else {"f%d" % (number % 9): 1.0})
            values.append(encode_example(example))
        packed = encode_example(Example(None, 1.0, None, {"indices": bytes(8), "values": b"0000"}))
        values += [packed, None, b"", b"{", b"1"]
        values += [b'{"label": 1, "features": {"a": "b", "c": 0.1}}', b'{"features": {"a": 1e400}}']
        values += [b'{"label": 12345678901234567890.5}', b'{"label": 0.1234567890123456789e-300, "features": {}}']
        records = [
            FakeRecord(0, offset + at, value, START + epoch * HOUR + at, b"user-%d" % (at % 3))
            for at, value in enumerate(values)
        ]
        offset += len(records)
        for value in values:
            if value is not None:
                list(names_in(value, notes))
        rest = records
        while rest:
            result = model.process(rest)
            if result.boundary is not None:
                merged = merge([model.learner, model.learner]).model
                adopt(model.learner, merged)
                adopt(model.learner, merged)
                break
            rest = []
        if settings.merge_every and result.boundary is not None:
            break
    model.learner.slots(), model.learner.digest(), model.learner.census()
    after = compiled()
    assert after == before, {name: count for name, count in after.items() if before.get(name) != count}

# Nothing is compiled or loaded yet: each child begins as a process of its own would, but for the imports.
for family, given in json.load(sys.stdin).items():
    told = os.open(os.path.join(sys.argv[1], family), os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    child = os.fork()
    if child == 0:
        os.dup2(told, 2)
        check(family, given)
        sys.exit()
    os.write(told, b"%d" % os.waitpid(child, 0)[1])
"""
_LEARNER = "LEARNER__"
FAMILIES: dict[str, dict[str, str]] = {
    "default": {},
    "logistic": {"loss": "logistic"},
    "linear": {"method": "linear"},
    "plain": {"mixture": "false", "paper__selection": "ssm"},
    "quadratic": {"method": "quadratic", "loss": "logistic"},
    "classes": {"loss": "softmax", "classes": "3"},
    "numbers as they are": {"discretise": "none"},
    "n-grams": {"ngrams": "text=2"},
    "merged": {},
    "started": {},
}


@pytest.fixture(scope="module")
def said(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file for each family, with what was wrong, and how its process has ended."""
    directory = tmp_path_factory.mktemp("families")
    given = {
        family: {_LEARNER + name.upper(): value for name, value in options.items()}
        for family, options in FAMILIES.items()
    }
    given["merged"]["MERGE__MODE"] = "average"
    done = subprocess.run(
        [sys.executable, "-c", _SCRIPT, directory],
        cwd=TESTS.parent,
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(TESTS), os.environ.get("PYTHONPATH", "")])},
        input=json.dumps(given),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return directory


@pytest.mark.parametrize("family", FAMILIES)
def test_nothing_is_compiled_when_a_worker_is_ready(family: str, said: Path) -> None:
    """Whatever comes, and whatever an epoch's end does: records would wait for it."""
    assert (said / family).read_text() == "0"
