"""Files that are small, or no files, and would take all memory or all time: commands refuse them in words."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import zstandard
from app.test_model_files import save
from click.testing import CliRunner
from stream.snapshots.forgery import amplified, bomb, content_of, file_of, resealed, rewritten
from support.command import call_command

from stream_apple.app.model_files import open_model_file
from stream_apple.app.starting_model import starting_model
from stream_apple.cli import main
from stream_apple.config import Config
from stream_apple.errors import ConfigurationError, SnapshotError
from stream_apple.stream.positions.lineage import Provenance
from stream_apple.untrusted import UnreadableFileError, digest_of, read_file

_SPARE_MB = 150
"""Of what two runs of a command differ by, whatever the machine; a bomb takes half a gigabyte."""
_TOLD = re.compile(r"peak ([0-9]+) kB")
_MEASURED = """
import os, sys
from stream_apple.cli import main
os._exit = sys.exit  # a service ends by it, and then nobody could measure
try:
    main(sys.argv[1:])
finally:
    status = open("/proc/self/status").read()
    print("peak", status.partition("VmHWM:")[2].split()[0], "kB", file=sys.stderr)
"""


def run(*arguments: str | Path, **variables: str) -> tuple[int, str, float]:
    """Exit code of the command, what it says, and the most memory that it had, in MB."""
    done = subprocess.run(
        [sys.executable, "-c", _MEASURED, *map(str, arguments)],
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
        env={**os.environ, **variables},
    )
    found = _TOLD.search(done.stderr)
    assert found is not None, done.stderr
    return done.returncode, done.stdout + done.stderr, int(found[1]) / 1024


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Of a small model."""
    path = tmp_path_factory.mktemp("models") / "0"
    save(path, 0, {"bits": 8})
    return path


def forged(file: Path, kind: str) -> bytes:
    """Half a gigabyte of zeros, a frame that says that it has 2^62 bytes, and maps of nothing by the million."""
    content = content_of(file.read_bytes())
    if kind == "bare":
        return file_of(amplified(10_000_000))
    if kind == "declared":
        at, data = 0, bomb(1 << 29, 1 << 29)
    elif kind == "endless":
        at, data = -1, bomb(1 << 62)
    else:
        at, data = -1, zstandard.compress(amplified(8_000_000))
    content["messages"][at] = resealed(content["messages"][at], data=data)
    return file_of(content)


@pytest.fixture(scope="module")
def usual(file: Path) -> float:
    """What `inspect` takes of a sound file."""
    code, said, peak = run("inspect", "--file", file)
    assert code == 0, said
    return peak


@pytest.mark.parametrize("kind", ["declared", "endless", "amplified", "bare"])
def test_a_small_file_takes_little_memory(file: Path, usual: float, tmp_path: Path, kind: str) -> None:
    """In the file as a whole, in a block and in the manifest."""
    target = tmp_path / "forged"
    target.write_bytes(forged(file, kind))
    code, said, peak = run("inspect", "--file", target)
    assert code == 73, said
    complaint = "expected a frame of at most" if kind in ("declared", "endless") else "more than 524,288 values"
    assert f"{target}: " in said
    assert complaint in said
    assert peak < usual + _SPARE_MB, said


def test_nor_does_what_models_start_from(file: Path, usual: float, tmp_path: Path) -> None:
    """As `check` and `run` look at it."""
    target = tmp_path / "forged"
    target.write_bytes(forged(file, "declared"))
    config = Config.model_validate({"worker": {"from_model": str(target)}, "learner": {"bits": 8}})
    with pytest.raises(ConfigurationError, match=r"worker\.from_model: .*expected a frame of at most"):
        starting_model(config, Provenance.of(config))
    code, said, peak = run("merge", target, "--out", tmp_path / "out")
    assert code == 73, said
    assert peak < usual + _SPARE_MB, said


def paths_in_use(path: Path, folder: Path) -> list[tuple[list[str], dict[str, str]]]:
    """Everywhere where a command, a setting or a value of one names a file that is read as a whole."""
    return [
        (["inspect", "--file", str(path)], {}),
        (["merge", str(path), "--out", str(folder / "out")], {}),
        (["check", "--config", str(path)], {}),
        (["run", "--from-model", str(path)], {}),
        (["inspect"], {"STREAM_APPLE_WORKER__FROM_MODEL": str(path)}),
        (["check"], {"STREAM_APPLE_KAFKA__SASL_PASSWORD": f"file:{path}"}),
    ]


@pytest.mark.parametrize("which", [0, 2, 5, *(pytest.param(which, marks=pytest.mark.long) for which in (1, 3, 4))])
def test_a_device_is_not_read(tmp_path: Path, which: int) -> None:
    """It has no end: as a model's file, a configuration, and a secret."""
    arguments, variables = paths_in_use(Path("/dev/zero"), tmp_path)[which]
    code, said, _ = run(*arguments, **variables)
    assert code == 78, said
    assert "expected a readable file /dev/zero: it is a device" in said
    assert "Traceback" not in said


def test_the_pipe_of_a_shell_is_read() -> None:
    """As a configuration that a command makes, which is not to be on any disk; within the same bound."""
    for written, most in ((b"[http]\nport = 1\n", 100), (b"x" * 101, 100)):
        reader, writer = os.pipe()
        with os.fdopen(writer, "wb") as file:
            file.write(written)
        path = Path(f"/dev/fd/{reader}")
        if len(written) > most:
            with pytest.raises(UnreadableFileError, match="expected a file of at most 100 bytes, found more"):
                read_file(path, most)
        else:
            assert read_file(path, most) == written
        os.close(reader)


@pytest.mark.parametrize("which", range(6))
def test_pipes_and_folders_are_not_read(tmp_path: Path, which: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """A pipe that nobody writes to would be waited for."""
    os.mkfifo(tmp_path / "pipe")
    for path, kind in ((tmp_path / "pipe", "a pipe"), (tmp_path, "a directory")):
        arguments, variables = paths_in_use(path, tmp_path)[which]
        for name, value in variables.items():
            monkeypatch.setenv(name, value)
        result = CliRunner().invoke(main, arguments)
        assert result.exit_code in (2, 78), result.output
        assert kind in result.output or (result.exit_code == 2 and "is a directory" in result.output)


def test_files_of_bounded_length(tmp_path: Path) -> None:
    """Before one is read; one that has no length, or grows, is not read on either."""
    path = tmp_path / "sparse"
    with path.open("wb") as file:
        file.truncate(1 << 40)
    for most in ((100,), ()):
        with pytest.raises(UnreadableFileError, match=r"expected a file of at most .* found 1,099,511,627,776: "):
            read_file(path, *most)
    assert digest_of(path, b"something") is None
    with pytest.raises(UnreadableFileError, match="expected a file of at most 3 bytes, found more: /proc/self/status"):
        read_file(Path("/proc/self/status"), 3)
    with pytest.raises(UnreadableFileError, match="No such file"):
        read_file(tmp_path / "none")
    with pytest.raises(UnreadableFileError, match="null"):
        read_file(Path("a\0b"))


def test_a_model_file_names_no_other_file(file: Path, tmp_path: Path) -> None:
    """Whoever looks at a file that somebody else has made opens that one alone."""
    content = content_of(file.read_bytes())
    content["settings"]["worker"] = {"from_model": str(tmp_path / "another")}
    target = tmp_path / "forged"
    target.write_bytes(file_of(content))
    done = call_command("inspect", "--file", target)
    assert done.returncode == 73
    complaint = "expected the parts of a saved model, found: expected nothing of the name settings.worker"
    assert f"{target}: {complaint}" in done.stderr


SETTINGS: dict[str, object] = {"epochs": {}, "limits": {}, "input": {}, "output": {}, "registry": False}


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ({"messages": 7}, "expected messages to be a list, found 7"),
        ({"messages": [b"x", "y"]}, "expected messages.1 to be a valid bytes, found y"),
        ({"names": ["x"]}, "expected names to be a map"),
        ({"names": {-1: "x"}}, "expected names.-1"),
        ({"settings": 5}, "expected settings to be a map, found 5"),
        ({"settings": {**SETTINGS, "learner": {"bits": [["x"]]}}}, "learner.bits (in "),
        ({"settings": {**SETTINGS, "learner": {"bits": 30}}}, "found 30 and"),
        ({"topic": "\x1b[2J"}, "expected topic to"),
        ({"partition": 1 << 40}, "expected partition to be less than"),
        ({"start": -1}, "expected start to be greater than"),
        ({"pointer": [1]}, "expected pointer."),
    ],
)
def test_parts_of_other_types(file: Path, change: dict[str, object], complaint: str, tmp_path: Path) -> None:
    """Each is named, with what it has to be."""
    target = tmp_path / "forged"
    target.write_bytes(file_of({**content_of(file.read_bytes()), **change}))
    with pytest.raises((SnapshotError, ConfigurationError)) as caught:
        open_model_file(target)
    assert complaint in str(caught.value)
    assert isinstance(caught.value, ConfigurationError) or str(target) in str(caught.value)


@pytest.mark.parametrize("version", [b"9" * 5000, b"", b"-1", b"x"])
def test_numbers_of_formats(file: Path, version: bytes, tmp_path: Path) -> None:
    """Of any length."""
    target = tmp_path / "forged"
    target.write_bytes(file_of(content_of(file.read_bytes()), version))
    with pytest.raises(SnapshotError, match=r"forged: expected a file that `inspect --save` has written"):
        open_model_file(target)


def test_arrays_that_are_none(file: Path, tmp_path: Path) -> None:
    """In the manifest of a file."""
    content = content_of(file.read_bytes())
    content["messages"][-1] = rewritten(content["messages"][-1], lambda manifest: {**manifest, "arrays": 7})
    target = tmp_path / "forged"
    target.write_bytes(file_of(content))
    with pytest.raises(SnapshotError, match="forged: the manifest: expected arrays to be a map, found 7"):
        open_model_file(target)
