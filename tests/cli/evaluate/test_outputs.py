"""Where results are written: looked at before there is work that would be lost, and written whole."""

import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from stream_apple.cli import main
from stream_apple.errors import ConfigurationError
from stream_apple.whole_files import whole_file

Run = Callable[..., Result]


def run(*arguments: object) -> Result:
    """The command line, in this process."""
    return CliRunner().invoke(main, list(map(str, arguments)))


@pytest.mark.parametrize(
    "command",
    [
        ("evaluate", "FILE", "--predictions"),
        ("evaluate", "FILE", "--plot"),
        ("inspect", "--partition", 0, "--save"),
        ("merge", "FILE", "FILE", "--out"),
    ],
    ids=lambda command: f"{command[0]} {command[-1]}",
)
def test_every_file_that_is_written_is_looked_at_first(command: tuple[object, ...], tmp_path: Path) -> None:
    """A folder that is not there, one in the file's place, and a file in a folder's: nothing is read before."""
    unread = tmp_path / "unread"
    unread.write_text("neither examples nor a model")
    arguments = [unread if part == "FILE" else part for part in command]
    for path, found in (
        (tmp_path / "nodir" / "p.png", f"no directory {tmp_path / 'nodir'}"),
        (tmp_path, f"the directory {tmp_path}"),
        (unread / "p.png", f"a file in place of the directory {unread}"),
        ("-", "-: standard output is /dev/stdout"),
    ):
        result = run(*arguments, path)
        said = "".join(result.stderr.replace("\u2502", "").split())
        assert result.exit_code == 2
        assert f"expected a file that can be written, found {found}".replace(" ", "") in said


@pytest.mark.parametrize(
    "command",
    [
        ("evaluate", "FILE", "--predictions"),
        ("evaluate", "FILE", "--plot"),
        ("evaluate", "other examples", "--config", "FILE", "--predictions"),
        ("evaluate", "other examples", "--predictions", "FILE", "--plot"),
        ("merge", "OTHER FILE", "FILE", "--out"),
        ("inspect", "--partition", 0, "--config", "FILE", "--save"),
    ],
    ids=lambda command: " ".join(map(str, command)),
)
def test_nothing_that_is_read_is_written_over(command: tuple[object, ...], tmp_path: Path) -> None:
    """Under another name neither, nor what is written already."""
    read, other = tmp_path / "read.png", tmp_path / "other.png"
    read.write_text("")
    (tmp_path / "OTHER FILE").write_text("")
    other.symlink_to(read)
    known: dict[object, Path] = {"FILE": read, "OTHER FILE": tmp_path / "OTHER FILE"}
    for path in (read, other):
        result = run(*(known.get(part, part) for part in command), path)
        assert result.exit_code == 2
        assert f"{command[-1]}: expected another path than those that are read or written" in " ".join(
            result.stderr.replace("\u2502", "").split()
        )
    assert read.read_text() == ""


def test_a_picture_has_its_suffix_when_it_is_looked_at(tmp_path: Path) -> None:
    """Without one it is written to another file than was named."""
    read = tmp_path / "read.png"
    read.write_text("")
    assert "--plot: expected another path" in run("evaluate", read, "--plot", tmp_path / "read").stderr
    assert read.read_text() == ""


def test_a_picture_of_an_unknown_kind_is_refused_first(tmp_path: Path) -> None:
    """With the kinds that there are."""
    result = run("evaluate", tmp_path / "absent", "--plot", tmp_path / "curve.txt")
    assert result.exit_code == 78
    assert "expected a suffix of " in result.output
    assert ".png" in result.output
    assert "found .txt" in result.output


def test_a_picture_without_a_suffix_is_a_png(pairs: Path, tmp_path: Path) -> None:
    """As matplotlib has it."""
    assert run("evaluate", pairs, "--plot", tmp_path / "curve").exit_code == 0
    assert (tmp_path / "curve.png").read_bytes().startswith(b"\x89PNG")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["curve.png", "pairs.vw"]


def test_a_result_that_can_t_be_written_is_an_error_in_words(pairs: Path) -> None:
    """A disk that is full, say: what can't be known before."""
    result = run("evaluate", pairs, "--predictions", "/dev/full")
    assert result.exit_code == 78
    assert "/dev/full: expected a file that can be written, found: No space left on device" in result.output
    assert json.loads(run("evaluate", pairs, "--json", "--predictions", "/dev/null").output)["examples"] == 3000


def test_a_file_is_written_whole_or_stays(tmp_path: Path) -> None:
    """A failure in the midst leaves what was there, and nothing beside it."""
    path = tmp_path / "kept.txt"
    path.write_text("before")

    def fail() -> None:
        with whole_file(path) as unfinished:
            unfinished.write_text("half")
            raise ValueError("in the midst")

    with pytest.raises(ValueError, match="in the midst"):
        fail()
    assert [each.read_text() for each in tmp_path.iterdir()] == ["before"]
    path.chmod(0o600)
    with whole_file(path) as unfinished:
        unfinished.write_text("after")
        assert path.read_text() == "before"
    assert [each.read_text() for each in tmp_path.iterdir()] == ["after"]
    assert path.stat().st_mode & 0o777 == 0o600  # a file that others may not read stays so


def test_links_and_pipes_are_written_in_place(tmp_path: Path) -> None:
    """Who links to a file means that file; /dev/stdout is a link."""
    (tmp_path / "file").write_text("before")
    link = tmp_path / "link"
    link.symlink_to("file")
    with whole_file(link) as path:
        path.write_text("after")
    assert link.is_symlink()
    assert (tmp_path / "file").read_text() == "after"
    os.mkfifo(tmp_path / "pipe")
    with whole_file(tmp_path / "pipe") as path:
        assert path == tmp_path / "pipe"


def test_a_folder_that_goes_away_is_an_error_in_words(tmp_path: Path) -> None:
    """Between the look and the writing."""
    path = tmp_path / "gone" / "file"
    with pytest.raises(ConfigurationError, match="file: expected a file that can be written, found: No such file"):  # noqa: SIM117
        with whole_file(path) as unfinished:
            unfinished.write_text("x")
