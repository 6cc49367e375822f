"""What `import stream_apple` does to a process: next to nothing."""

import subprocess
import sys
from pathlib import Path

import pytest

import stream_apple

_HEAVY = ("numpy", "numba", "sklearn", "river", "confluent_kafka", "pydantic", "scipy", "narwhals", "pandas")


def _run(script: str) -> str:
    return subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout


def test_nothing_is_imported_before_it_is_asked_for() -> None:
    """Neither another library nor another module of the package."""
    script = f"import sys, stream_apple; print([n for n in sys.modules if n.partition('.')[0] in {_HEAVY!r}], "
    assert _run(script + "[n for n in sys.modules if n.startswith('stream_apple.')])").split() == ["[]", "[]"]


def test_the_settings_of_numba_stay_as_they_are() -> None:
    """Those of the process are the user's: all of `numba.config` is the same after an estimator has learned."""
    script = """
import numba
def settings():
    return {name: value for name, value in vars(numba.config).items() if name.isupper()}
before = settings()
from stream_apple import AppleRegressor
AppleRegressor(bits=8).fit([[0.0], [1.0]], [0.0, 1.0])
after = settings()
print({name for name in before.keys() | after.keys() if before.get(name) != after.get(name)})
"""
    assert _run(script).strip() == "set()"


def test_what_is_public_is_named() -> None:
    """By `__all__` and `dir`; another name is an AttributeError that says which there are."""
    assert set(stream_apple.__all__) <= set(dir(stream_apple))
    assert all(getattr(stream_apple, name).__name__ == name for name in stream_apple.__all__)
    with pytest.raises(AttributeError, match="expected one of AppleClassifier"):
        _ = stream_apple.Nothing


@pytest.mark.parametrize(
    ("library", "asked", "extra"),
    [("sklearn", "stream_apple", "library"), ("river", "stream_apple.river", "river")],
)
def test_an_extra_that_is_missing_is_named(tmp_path: Path, library: str, asked: str, extra: str) -> None:
    """Instead of a module that nobody knows."""
    missing = f"raise ModuleNotFoundError('no such module', name={library!r})"
    (tmp_path / f"{library}.py").write_text(missing)
    script = f"import sys; sys.path.insert(0, {str(tmp_path)!r})\ntry:\n    from {asked} import AppleRegressor\n"
    found = _run(script + "except ImportError as error:\n    print(error)")
    assert f"pip install 'stream-apple[{extra}]'" in found
