"""What is compiled before the group is joined."""

import os
import subprocess
import sys
from pathlib import Path

TESTS = Path(__file__).resolve().parents[1]
_SCRIPT = """
import sys
from support.records import DECODER, SETTINGS
from stream_apple.core.codec.example import Example, encode_example
from stream_apple.core.codec.feature_names import names_in
from stream_apple.runtime.warmup import warm_up

def compiled():
    modules = [module for name, module in sys.modules.items() if name.startswith("stream_apple.core.codec.")]
    kernels = {id(one): one for module in modules for one in vars(module).values() if hasattr(one, "signatures")}
    return {one.__name__: len(one.signatures) for one in kernels.values()}

warm_up(SETTINGS, DECODER)
before = compiled()
assert before["parse"] and before["_records"], before
named = encode_example(Example(1.0, 1.0, "id", {"a": 1.0}))
packed = encode_example(Example(1.0, 1.0, "id", {"indices": bytes(8)}))
good = b'{"label": 1, "features": {"a": "b", "c": 0.1}}'
texts = [good, b'{"features": {"a": 1e400}}', b"{", b'{"label": 12345678901234567890.5}']
for values in ([named], [packed], texts, [named, None, *texts, b"1"]):
    DECODER.decode(values)
    for value in values:
        list(names_in(value))
assert compiled() == before, (before, compiled())
"""


def test_no_record_compiles_anything() -> None:
    """Whatever comes first, JSON, msgpack, a fault or a name to note, its kernels are there."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(TESTS), os.environ.get("PYTHONPATH", "")])}
    run = subprocess.run(
        [sys.executable, "-c", _SCRIPT], cwd=TESTS.parent, env=environment, capture_output=True, text=True, check=False
    )
    assert run.returncode == 0, run.stderr
