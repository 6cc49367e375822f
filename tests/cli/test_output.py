"""What others have written never reaches the terminal raw: lines, tables, the log, and that nobody goes around it."""

import ast
import json
import logging
import os
import subprocess
import sys
from io import StringIO
from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner
from rich.console import Console
from rich.table import Table
from rich.text import Text
from support.records import new_model
from support.source_files import FILES, PACKAGE, tree_of

from stream_apple import cli, logs
from stream_apple.adapters.kafka.admin import Finding
from stream_apple.cli.output import PrintableConsole, printable_facts
from stream_apple.errors import BrokerError
from stream_apple.monitoring.inspection import view_model
from stream_apple.records.message.feature_names import Names
from stream_apple.terminal import printable

HOSTILE = "\x1b[31m\x1b]0;title\x07\x9b2J\r\x08\u202e\ud800"
SAFE = "\\x1b[31m\\x1b]0;title\\x07\\x9b2J\\x0d\\x08\\u202e\\ud800"


def invoked(*arguments: str) -> str:
    """What the command line prints to a terminal: click takes away colours from what is none."""
    return CliRunner().invoke(cli.main, arguments, color=True).output


def raw(text: str) -> list[str]:
    """What of `text` is no plain text, nor a colour of ours."""
    for code in ("\x1b[31m", "\x1b[32m", "\x1b[36m", "\x1b[0m"):
        text = text.replace(f"{code}fault", "").replace(f"{code}ok", "").replace(f"{code}note", "")
    return [character for character in text.replace("\x1b[0m", "") if printable(character) != character]


class TestText:
    """Character by character."""

    def test_controls_are_spelled(self) -> None:
        """Escapes, their 8-bit forms, direction marks and halves of characters; tab and newline stay, as all text."""
        assert printable(HOSTILE) == SAFE
        assert printable("a\tb\nc \u00e9 \u4e2d \U0001f34e \\x1b") == "a\tb\nc \u00e9 \u4e2d \U0001f34e \\x1b"

    def test_nothing_else_is_a_control(self) -> None:
        """Of all characters, those that Python calls controls or halves are spelled, but for tab and newline."""
        import unicodedata

        for code in range(sys.maxunicode + 1):
            if unicodedata.category(chr(code)) in {"Cc", "Cs", "Zl", "Zp"} and chr(code) not in "\t\n":
                assert printable(chr(code)) != chr(code)


class TestCommands:
    """Each way to the terminal."""

    def test_errors(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """The message of an error may repeat what a broker or a file has said."""

        @click.command()
        def failing() -> None:
            raise BrokerError(f"found {HOSTILE}")

        monkeypatch.setattr("stream_apple.cli.check.command", failing)
        assert invoked("check") == f"stream-apple: found {SAFE}\n"

    def test_findings_of_a_check(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Members of a group choose their names; our own colours stay."""
        findings = [Finding("note", HOSTILE, f"members now: {HOSTILE}")]
        monkeypatch.setattr(
            "stream_apple.adapters.kafka.preflight.cluster_check.check_cluster", lambda *_: iter(findings)
        )
        for others in ("app.topic_owner.check_output_topics", "app.record_check.check_records"):
            monkeypatch.setattr(f"stream_apple.{others}", lambda _: iter(()))
        assert invoked("check") == f"\x1b[36mnote \x1b[0m  {SAFE}: members now: {SAFE}\n"

    def test_names_of_features(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """And whatever else a model file, or a server that says it is a worker, has in its facts."""
        monomial = {"name": "a", "weight": 1.0, "salience": 1.0, "weights": {"linear": 1.0}, "degree": 1, "mark": "m"}
        table = {"title": "t", "columns": ["a", "b"], "rows": [["a", 1.0]], "note": "n"}
        found = {"top": [monomial], "products": [monomial, monomial], "tables": [table], "notes": ["n"], "named": 1.0}
        facts = view_model(new_model(), Names(), 5).facts(5) | found

        def spoil(value: Any) -> Any:
            if isinstance(value, dict):
                return {key: spoil(each) for key, each in value.items()}
            if isinstance(value, list | tuple):
                return [spoil(each) for each in value]
            return value + HOSTILE if isinstance(value, str) else value

        monkeypatch.setattr("stream_apple.app.inspect.from_file", lambda *_: spoil(facts))
        path = tmp_path / "model"
        path.touch()
        assert raw(invoked("inspect", "--file", str(path))) == []
        json.loads(invoked("inspect", "--file", str(path), "--json"))

    def test_lines_of_a_file(self, tmp_path: Path) -> None:
        """What was found where an example was expected."""
        path = tmp_path / f"data{HOSTILE[:5]}"
        path.write_text("1 1:1\x1b[31m x\n")
        shown = invoked("evaluate", str(path))
        assert "expected" in shown
        assert raw(shown) == []


class TestConsole:
    """Tables and progress."""

    @pytest.mark.parametrize("cell", [HOSTILE, Text(HOSTILE)])
    def test_cells_are_printable(self, cell: str | Text) -> None:
        """Text of both kinds, and titles; the frame and our own styles are as ever."""
        out = StringIO()
        console = PrintableConsole(file=out, force_terminal=True, width=200, color_system="standard")
        table = Table("x", title=Text(f"t{HOSTILE}"))
        table.add_row(cell, Text("ours", "green"))
        console.print(table)
        text = out.getvalue()
        assert "\x1b[32mours" in text
        for code in HOSTILE.replace("\x1b", ""):
            assert code not in text or code.isprintable()
        assert "\x1b[31m" not in text
        assert "\x1b]" not in text

    def test_facts_of_all_kinds(self) -> None:
        """Text anywhere in them; numbers are left alone."""
        assert printable_facts({"a": [HOSTILE, 1, None], "b": {"c": (True, "x")}}) == {
            "a": [SAFE, 1, None],
            "b": {"c": [True, "x"]},
        }


@pytest.mark.usefixtures("own_logging")
class TestLog:
    """The log for people."""

    def logged(self, monkeypatch: pytest.MonkeyPatch) -> StringIO:
        """What is logged as text from here on, and nowhere else: pytest's reports can't carry half a character."""
        out = StringIO()
        monkeypatch.setattr(sys, "stderr", out)
        logs.configure("human")
        return out

    def test_values_and_texts(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Fields of events, and librdkafka's lines."""
        lines = self.logged(monkeypatch)
        logs.get_logger().warning("fetch_error", error=HOSTILE)
        logging.getLogger("librdkafka").warning("from a broker: %s", HOSTILE)
        assert lines.getvalue().count(SAFE) == 2
        assert raw(lines.getvalue()) == []

    def test_tracebacks(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """The message of an exception that nobody expected."""
        lines = self.logged(monkeypatch)
        try:
            raise RuntimeError(HOSTILE)  # noqa: TRY301
        except RuntimeError:
            logs.get_logger().error("http_failed", exc_info=True)
        assert f"RuntimeError: {SAFE}" in lines.getvalue()
        assert raw(lines.getvalue()) == []


def test_a_terminal_gets_no_control_character(tmp_path: Path) -> None:
    """The real command in a process of its own, whose output is a terminal."""
    import os
    import pty

    path = tmp_path / "rows"
    path.write_text("1 1:1\x1b[31m\x9b x\n")
    ours, theirs = pty.openpty()
    command = [sys.executable, "-m", "stream_apple", "evaluate", str(path)]
    done = subprocess.run(command, stdout=theirs, stderr=theirs, check=False, timeout=120)
    os.close(theirs)
    shown = os.read(ours, 1 << 16).decode()
    os.close(ours)
    assert done.returncode == 65
    assert "found 1 1:1\\x1b[31m\\x9b x" in shown.replace("\r\n", "")
    assert "\x1b" not in shown


def test_people_are_told_once_that_a_command_compiles() -> None:
    """It would seem to do nothing for a minute. Who reads standard error through a pipe is told nothing."""
    import os
    import pty

    script = (
        "import click\n"
        "from stream_apple.cli import check, main\n"
        "from stream_apple.core.compile_notice import compiling_begins\n"
        "check.command = click.command()(lambda: [compiling_begins(), compiling_begins()])\n"
        "main(['check'])\n"
    )
    command = [sys.executable, "-c", script]
    ours, theirs = pty.openpty()
    subprocess.run(command, stderr=theirs, check=True, timeout=120)
    os.close(theirs)
    assert os.read(ours, 1 << 16).decode().splitlines() == [cli.COMPILING]
    os.close(ours)
    assert subprocess.run(command, stderr=subprocess.PIPE, check=True, timeout=120).stderr == b""


@pytest.mark.parametrize(
    "arguments", [["evaluate", "FILE"], ["evaluate", "FILE", "--json"], ["--help"], ["--version"], ["run", "--help"]]
)
def test_a_full_disk_ends_a_command_with_words(tmp_path: Path, arguments: list[str]) -> None:
    """Tables, lines, and what click prints itself."""
    examples = tmp_path / "examples.jsonl"
    examples.write_text('{"label": 1, "features": {"a": 1}}\n', encoding="utf-8")
    named = [str(examples) if each == "FILE" else each for each in arguments]
    command = [sys.executable, "-m", "stream_apple", *named]
    with Path("/dev/full").open("w", encoding="utf-8") as full:
        told = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, check=False, timeout=120)
    found = "standard output: expected one that can be written, found: No space left on device"
    assert told.stderr.splitlines()[-1] == f"stream-apple: {found}"
    assert told.returncode == 78


def test_where_standard_error_is_full_too_the_code_alone_is_left() -> None:
    """Nothing can be told."""
    with Path("/dev/full").open("w", encoding="utf-8") as full:
        command = [sys.executable, "-m", "stream_apple", "--version"]
        assert subprocess.run(command, stdout=full, stderr=full, check=False, timeout=120).returncode == 78


@pytest.mark.parametrize(("encoding", "shown"), [("ascii", b"caf\\xe9 \\u2248"), ("latin-1", b"caf\xe9 \\u2248")])
def test_an_encoding_that_lacks_characters_ends_no_command(encoding: str, shown: bytes) -> None:
    """As on a terminal of another age, or where a script has set PYTHONIOENCODING: lines and tables spell them."""
    script = (
        "import click\n"
        "from stream_apple.cli import check, main, output\n"
        "def saying():\n"
        "    output.say('caf\\xe9 \\u2248')\n"
        "    output.table_console().print('caf\\xe9 \\u2248')\n"
        "    output.say('caf\\xe9 \\u2248', err=True)\n"
        "check.command = click.command()(saying)\n"
        "main(['check'])\n"
    )
    environment = {**os.environ, "PYTHONIOENCODING": encoding}
    command = [sys.executable, "-c", script]
    done = subprocess.run(command, capture_output=True, check=False, timeout=120, env=environment)
    assert done.returncode == 0, done.stderr
    line, table = done.stdout.splitlines()
    assert table == shown
    # click takes ASCII for a mistake of the environment's, and writes UTF-8.
    assert line == done.stderr.strip() == ("caf\xe9 \u2248".encode() if encoding == "ascii" else shown)


def test_nobody_goes_around_it() -> None:
    """Only `cli/output.py` calls what writes to a terminal: click's functions, `print`, and rich's own console."""
    ways = {"click.echo", "click.secho", "print", "Console", "rich.print", "sys.stdout.write", "sys.stderr.write"}
    found = {}
    for path in FILES:
        calls = [ast.unparse(node.func) for node in ast.walk(tree_of(path)) if isinstance(node, ast.Call)]
        found[path.relative_to(PACKAGE).as_posix()] = [call for call in calls if call in ways]
    assert found.pop("cli/output.py")
    assert {path: calls for path, calls in found.items() if calls} == {}
    assert issubclass(PrintableConsole, Console)
