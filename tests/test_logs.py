"""Logs: the table of events against the source, and every line of real processes against the format."""

import ast
import json
import logging
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import structlog

import stream_apple
from stream_apple import logs
from stream_apple.config import load
from stream_apple.stream.partitions.state import State

PACKAGE = Path(stream_apple.__file__).parent
TABLE = PACKAGE.parent / "deploy" / "events.md"

# Events whose name is a value: the expression in the source -> all that it can be.
# A partition begins as ASSIGNED and is never entered as such: no event says so.
VARIABLE = {"state.value": sorted({state.shown.value for state in State if state is not State.ASSIGNED})}
_LEVELS = ("debug", "info", "warning", "error", "critical")
# What the logging itself adds to an event with `exc_info`.
_RENAMED = {"exc_info": "exception"}


class Event(NamedTuple):
    """One kind of line."""

    name: str
    level: str
    fields: frozenset[str]


def events_of(source: str) -> list[Event]:
    """Every event that this source logs; AssertionError if one can't be known from reading it."""
    found = []
    for node in ast.walk(ast.parse(source)):
        if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in _LEVELS):
            continue
        if ast.unparse(node.func.value) not in {"_log", "log"}:
            continue
        assert node.args, f"line {node.lineno}: an event has a name"
        assert len(node.args) == 1, f"line {node.lineno}: the facts of an event are fields, not parts of a text"
        name = node.args[0]
        assert all(field.arg for field in node.keywords), f"line {node.lineno}: fields have names"
        fields = frozenset(_RENAMED.get(str(field.arg), str(field.arg)) for field in node.keywords)
        names = VARIABLE.get(ast.unparse(name)) or [ast.literal_eval(name)]
        found += [Event(each, node.func.attr, fields) for each in names]
    return found


def logged() -> set[Event]:
    """Every event that the package logs."""
    return {event for path in PACKAGE.rglob("*.py") for event in events_of(path.read_text(encoding="utf-8"))}


def documented() -> list[Event]:
    """The rows of the table."""
    rows = re.findall(
        r"^\| `([a-z_]+)` \| (\w+) \| ([^|]*) \| [^|]+ \| [^|]+ \|$", TABLE.read_text(encoding="utf-8"), re.MULTILINE
    )
    return [Event(name, level, frozenset(re.findall(r"`(\w+)`", fields))) for name, level, fields in rows]


class TestTable:
    """`deploy/events.md`."""

    def test_every_event_is_in_it(self) -> None:
        """With its level and all of its fields; and nothing is in it that is not logged."""
        assert sorted(documented(), key=str) == sorted(logged(), key=str)

    def test_every_row_is_read(self) -> None:
        """No row escapes the comparison by its form."""
        rows = [line for line in TABLE.read_text(encoding="utf-8").splitlines() if line.startswith("| `")]
        assert len(rows) == len(documented()) > 15

    @pytest.mark.parametrize(
        "source",
        ["_log.info('two words %s', 3)", "_log.info(text)", "_log.warning('x', **facts)", "_log.error()"],
    )
    def test_events_that_can_not_be_known_are_found(self, source: str) -> None:
        """An event without a fixed name, or with fields that nobody can look up, is refused."""
        with pytest.raises((AssertionError, ValueError)):
            events_of(source)

    def test_what_is_logged_is_seen(self) -> None:
        """Name, level and fields, wherever the call stands."""
        assert events_of("def f():\n    if x:\n        _log.warning('late', partition=p, by=1)") == [
            Event("late", "warning", frozenset({"partition", "by"}))
        ]


@pytest.mark.usefixtures("own_logging")
class TestLine:
    """One line."""

    def line(self, capsys: pytest.CaptureFixture[str]) -> dict[str, Any]:
        """The one that was written."""
        (text,) = capsys.readouterr().err.splitlines()
        found: dict[str, Any] = json.loads(text)
        return found

    def test_has_the_time_to_the_millisecond_in_utc(self, capsys: pytest.CaptureFixture[str]) -> None:
        """ISO 8601, always of one length, so that lines sort as text."""
        logs.configure("json")
        structlog.get_logger().info("once")
        assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", self.line(capsys)["timestamp"])

    def test_says_who_writes_it(self, capsys: pytest.CaptureFixture[str]) -> None:
        """Also in a thread, and in what librdkafka says."""
        logs.configure("json", {"group": "g", "worker": "w-3"})
        logging.getLogger("librdkafka").error("FAIL [x] [thrd:y]: down")
        assert self.line(capsys).items() >= {"group": "g", "worker": "w-3", "level": "error"}.items()

    @pytest.mark.parametrize("format", ["json", "human"])
    def test_has_no_local_variables(self, format: logs.LogFormat, capsys: pytest.CaptureFixture[str]) -> None:  # noqa: A002
        """A traceback shows where, and not what was in memory there."""
        logs.configure(format)
        held = "local-" + "x9Kd"
        try:
            int(len(held) * "z")
        except ValueError:
            structlog.get_logger().exception("failed")
        written = capsys.readouterr().err
        assert "ValueError: invalid literal" in written
        assert "local-x9Kd" not in written

    def test_goes_through_what_conceals(self, capsys: pytest.CaptureFixture[str]) -> None:
        """Whatever field a secret is in, and in a traceback too."""
        logs.configure("json", conceal=lambda line: line.replace("hunter2", "***"))
        try:
            int("hunter2")
        except ValueError:
            structlog.get_logger().exception("failed", inner={"list": ["hunter2"]})
        found = self.line(capsys)
        assert found["inner"] == {"list": ["***"]}
        assert found["level"] == "error"
        assert "'***'" in found["exception"]

    @pytest.mark.parametrize("secret", ['": "', "event", "info", '"}', ", "])
    def test_stays_whole_whatever_is_concealed(self, secret: str, capsys: pytest.CaptureFixture[str]) -> None:
        """A password that looks like a part of the format does not break it."""
        logs.configure("json", {"worker": "w"}, conceal=lambda text: text.replace(secret, "***"))
        structlog.get_logger().info("once", text=f"a{secret}b", number=3)
        found = self.line(capsys)
        assert found["text"] == "a***b"
        assert (found["number"], found["level"]) == (3, "info")

    def test_is_concealed_for_people_too(self, capsys: pytest.CaptureFixture[str]) -> None:
        """In the aligned form."""
        logs.configure("human", conceal=lambda text: text.replace("hunter2", "***"))
        structlog.get_logger().info("once", text="hunter2")
        assert "text=***" in capsys.readouterr().err


LOGGING = "from stream_apple import logs\nlogs.configure('json')\nlogs.catch_crashes()"
# Each fails in a way that no command catches, after the command has begun to log.
CRASHES = {
    "main": "raise RuntimeError('boom')",
    "thread": "import threading; t = threading.Thread(target=lambda: 1 / 0, name='side'); t.start(); t.join()",
    "unraisable": "class D:\n    def __del__(self): raise RuntimeError('late')\nd = D(); del d",
    "warning": "import warnings; warnings.warn('careful\\nnow')",
}


def lines_of(done: subprocess.CompletedProcess[str]) -> list[dict[str, Any]]:
    """Every line of stdout and stderr, each of which must be one JSON object with what every event has."""
    found = [json.loads(line) for line in (done.stdout + done.stderr).splitlines()]
    for each in found:
        assert {"event", "level", "timestamp", "logger"} <= set(each)
    return found


def run(*arguments: str, **settings: str) -> subprocess.CompletedProcess[str]:
    """A command in a process of its own, without settings but these."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("STREAM_APPLE_")}
    return subprocess.run(
        [sys.executable, *arguments],
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
        env={**environment, **settings},
    )


class TestProcess:
    """Everything that a process writes."""

    @pytest.mark.parametrize("kind", CRASHES)
    def test_a_crash_is_one_line(self, kind: str) -> None:
        """With the traceback in a field, wherever it happens."""
        done = run("-c", f"{LOGGING}\n{CRASHES[kind]}")
        (line,) = lines_of(done)
        if kind == "warning":
            assert (line["level"], done.returncode) == ("warning", 0)
            assert "careful\nnow" in line["event"]
        else:
            assert (line["event"], line["level"]) == ("crashed", "critical")
            assert "Traceback" in line["exception"]
            assert done.returncode == (1 if kind == "main" else 0)

    def test_an_interrupt_is_no_crash(self) -> None:
        """Nothing is written."""
        done = run("-c", f"{LOGGING}\nraise KeyboardInterrupt")
        assert lines_of(done) == []

    def test_faults_of_the_configuration_are_one_line(self) -> None:
        """Whoever collects JSON gets the reason in JSON: all faults, the exit code, and no plain text."""
        done = run(
            "-m",
            "stream_apple",
            "run",
            "--log-format",
            "json",
            STREAM_APPLE_LEARNER__BITS="many",
            STREAM_APPLE_HTTP__PORT="x",
        )
        (line,) = lines_of(done)
        assert done.returncode == line["exit_code"] == 78
        assert (line["event"], line["level"], line["kind"]) == ("failed", "error", "ConfigurationError")
        assert "learner.bits" in line["error"]
        assert "http.port" in line["error"]

    def test_a_defect_is_one_line(self, tmp_path: Path) -> None:
        """A worker that ends with a traceback of Python, after it has started, says so in JSON."""
        broken = tmp_path / "sitecustomize.py"
        broken.write_text(
            "import stream_apple.app.worker as worker\n"
            "def fail(*_): raise RuntimeError('two\\nlines')\n"
            "worker.warm_up = fail\n"
        )
        path = f"{tmp_path}{os.pathsep}{Path(stream_apple.__file__).parent.parent}"
        done = run("-m", "stream_apple", "run", PYTHONPATH=path, STREAM_APPLE_HTTP__PORT="0")
        assert done.returncode == 1
        started, *between, crashed = lines_of(done)  # between them may be that no broker answers
        assert all(line["event"] != "crashed" for line in between)
        assert started["event"] == "started"
        assert crashed["event"] == "crashed"
        assert "RuntimeError: two\nlines" in crashed["exception"]
        assert crashed["group"] == "stream-apple"
        assert crashed["worker"] == started["worker"] != ""


@pytest.mark.usefixtures("own_logging")
class TestForms:
    """Where events go, and in which form."""

    def test_events_are_one_json_object_a_line(self, capsys: pytest.CaptureFixture[str]) -> None:
        """Without a terminal, each event is one JSON line on stderr with time, level, name and facts."""
        logs.configure()
        structlog.contextvars.bind_contextvars(worker="worker-0")
        structlog.get_logger("stream_apple.test").info("epoch_ended", partition=3, text="two\nlines")
        logging.getLogger("librdkafka").warning("broker %s is down", "b1")
        captured = capsys.readouterr()
        assert not captured.out
        first, second = (json.loads(line) for line in captured.err.splitlines())
        assert first["timestamp"].endswith("Z")
        assert {key: first[key] for key in ("event", "level", "logger", "partition", "text", "worker")} == {
            "event": "epoch_ended",
            "level": "info",
            "logger": "stream_apple.test",
            "partition": 3,
            "text": "two\nlines",
            "worker": "worker-0",
        }
        assert second["event"] == "broker b1 is down"
        assert (second["level"], second["logger"]) == ("warning", "librdkafka")

    def test_exceptions_stay_on_their_line(self, capsys: pytest.CaptureFixture[str]) -> None:
        """A traceback is a field of its event, not lines of its own; unknown types become text."""
        logs.configure("json")
        try:
            int("boom")
        except ValueError:
            structlog.get_logger().exception("failed", where=Path("/x"))
        (line,) = capsys.readouterr().err.splitlines()
        event = json.loads(line)
        assert "ValueError: invalid literal" in event["exception"]
        assert event["where"] == "/x"

    def test_people_get_text(self, capsys: pytest.CaptureFixture[str]) -> None:
        """The human form is no JSON, and has event and facts on one line."""
        logs.configure("human")
        structlog.get_logger().info("epoch_ended", partition=3)
        (line,) = capsys.readouterr().err.splitlines()
        assert "epoch_ended" in line
        assert "partition=3" in line
        assert not line.startswith("{")

    def test_debug_is_left_out(self, capsys: pytest.CaptureFixture[str]) -> None:
        """Events below info are not written, by either kind of logger."""
        logs.configure("json")
        structlog.get_logger().debug("detail")
        logging.getLogger("other").debug("detail")
        assert not capsys.readouterr().err

    def test_configuring_twice_does_not_double_events(self, capsys: pytest.CaptureFixture[str]) -> None:
        """The last call decides, alone."""
        logs.configure("human")
        logs.configure("json")
        structlog.get_logger().info("once")
        (line,) = capsys.readouterr().err.splitlines()
        assert json.loads(line)["event"] == "once"

    def test_a_logged_configuration_has_no_secret(self, capsys: pytest.CaptureFixture[str]) -> None:
        """What a worker logs at its start does not hold the password."""
        logs.configure("json")
        config = load(None, {"STREAM_APPLE_KAFKA__SASL_PASSWORD": "hunter2"})
        structlog.get_logger().info("configured", config=config.redacted())
        written = capsys.readouterr().err
        assert "sasl.password" in written
        assert "hunter2" not in written
