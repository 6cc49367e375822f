"""The command line: what it says, what it loads, and how it ends."""

import json
import logging
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import click
import pytest
import structlog
from click.testing import CliRunner, Result
from confluent_kafka.admin import AdminClient
from kafka_broker import free_ports

from stream_apple import cli, errors, logs
from stream_apple.config import load


def _environment(**settings: str) -> dict[str, str]:
    return {**os.environ, "COLUMNS": "200", **settings}


def _run(*arguments: str, **settings: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "stream_apple", *arguments],
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
        env=_environment(**settings),
    )


def _ending_with(monkeypatch: pytest.MonkeyPatch, error: BaseException) -> Result:
    """The command line, run with a `check` that ends with this error."""

    @click.command()
    def failing() -> None:
        raise error

    monkeypatch.setattr("stream_apple.cli.check.command", failing)
    return CliRunner().invoke(cli.main, ["check"])


class TestHelp:
    """What can be asked without doing anything."""

    def test_names_every_command(self) -> None:
        """`--help` lists each command with its summary, and ends with 0."""
        done = _run("--help")
        assert done.returncode == 0
        for name, summary in cli.SUMMARIES.items():
            assert f"  {name} " in done.stdout
            assert summary in " ".join(done.stdout.split())

    def test_loads_no_command(self) -> None:
        """`--help` imports neither the compiler nor the Kafka client: it must answer at once."""
        script = (
            "import sys\n"
            "from stream_apple.cli import main\n"
            "main(['--help'], standalone_mode=False)\n"
            "heavy = {'numba', 'numpy', 'confluent_kafka', 'pydantic', 'rich'} & set(sys.modules)\n"
            "sys.exit(f'loaded {heavy}' if heavy else 0)"
        )
        done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr

    def test_version(self) -> None:
        """`--version` names the package and its version."""
        assert _run("--version").stdout == "stream-apple, version 0.1.0\n"

    def test_an_unknown_command_is_a_usage_error(self) -> None:
        """A mistyped command ends with 2 and names it."""
        done = _run("chek")
        assert done.returncode == 2
        assert "No such command 'chek'" in done.stderr

    @pytest.mark.parametrize("name", cli.SUMMARIES)
    def test_every_command_explains_itself(self, name: str) -> None:
        """Each command of the table is there, with help on itself and on each of its options."""
        command = cli.main.get_command(click.Context(cli.main), name)
        assert command is not None
        assert command.help
        for parameter in command.params:
            if isinstance(parameter, click.Option):
                assert parameter.help, f"{name} {parameter.opts}"


class TestEnds:
    """Exit codes and the words that go with them."""

    @pytest.mark.parametrize(
        "kind",
        [
            errors.StreamAppleError,
            errors.ConfigurationError,
            errors.InputFileError,
            errors.GapError,
            errors.TooManyRejectsError,
            errors.ModelError,
            errors.SnapshotError,
            errors.VerificationError,
            errors.BrokerError,
        ],
    )
    def test_every_error_has_its_code_and_one_message(
        self, kind: type[errors.StreamAppleError], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """An error ends the process with its exit code and its text on stderr, without a traceback."""
        result = _ending_with(monkeypatch, kind("expected this, found that"))
        assert result.exit_code == kind.exit_code
        assert result.stderr == "stream-apple: expected this, found that\n"
        assert not result.stdout

    def test_exit_codes_differ(self) -> None:
        """An operator can tell errors apart without reading."""
        kinds = errors.StreamAppleError.__subclasses__()
        assert len({kind.exit_code for kind in kinds}) == len(kinds) == 8

    def test_an_interrupt_ends_with_130(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Ctrl-C in a command ends as shells expect, without a traceback."""
        result = _ending_with(monkeypatch, KeyboardInterrupt())
        assert result.exit_code == 130
        assert "Traceback" not in result.output

    @pytest.mark.parametrize("command", ["run", "check", "topics", "verify"])
    def test_a_wrong_configuration_is_refused_before_anything_starts(self, command: str) -> None:
        """Each command that needs the configuration ends with 78 and names the variable."""
        options = ["--log-format", "human"] if command == "run" else []
        done = _run(command, *options, STREAM_APPLE_LEARNER__BITS="many")
        assert done.returncode == 78
        assert done.stderr == (
            "stream-apple: the configuration has a fault: learner.bits (from STREAM_APPLE_LEARNER__BITS): "
            "expected an integer from 8 to 30, found 'many'\n"
        )
        assert not done.stdout

    def test_topics_without_a_cluster(self) -> None:
        """Nothing listening ends with 69 and one line with the address."""
        address = f"127.0.0.1:{free_ports(1)[0]}"
        done = _run("topics", STREAM_APPLE_KAFKA__BOOTSTRAP_SERVERS=address)
        assert done.returncode == 69
        assert done.stderr.count("\n") == 1
        assert address in done.stderr

    def test_verify_without_a_cluster(self) -> None:
        """Nothing listening ends with 69 and one line with the address."""
        address = f"127.0.0.1:{free_ports(1)[0]}"
        done = _run("verify", STREAM_APPLE_KAFKA__BOOTSTRAP_SERVERS=address)
        assert done.returncode == 69
        assert done.stderr.count("\n") == 1
        assert address in done.stderr

    @pytest.mark.parametrize("partitions", [(), ("--partition", "0", "--partition", "1")])
    def test_an_offset_is_of_one_partition(self, partitions: tuple[str, ...]) -> None:
        """`verify --to` without the partition that it belongs to is a usage error."""
        done = _run("verify", "--to", "5", *partitions)
        assert done.returncode == 2
        assert "--to is an offset of one partition" in done.stderr

    def test_check_without_a_cluster(self) -> None:
        """Nothing listening is the one fault of the report."""
        address = f"127.0.0.1:{free_ports(1)[0]}"
        done = _run("check", STREAM_APPLE_KAFKA__BOOTSTRAP_SERVERS=address)
        assert done.returncode == 78
        assert done.stdout.startswith(f"fault  cluster: kafka: expected an answer from {address} within 6 s")
        assert done.stdout.count("\n") == 1
        assert not done.stderr


class TestTopicsAndCheck:
    """The two commands on a real broker, as an operator calls them."""

    @pytest.fixture
    def settings(self, kafka: str, tmp_path: Path) -> Iterator[list[str]]:
        """Arguments with a configuration file whose topics nobody else uses."""
        stem = f"cli-{tmp_path.name}-{os.getpid()}"
        names = {role: f"{stem}-{role}" for role in ("examples", "predictions", "dead_letters", "models")}
        path = tmp_path / "config.toml"
        lines = [f'kafka.bootstrap.servers = "{kafka}"', "[topics]"]
        path.write_text("\n".join([*lines, *(f'{role} = "{name}"' for role, name in names.items())]))
        yield ["--config", str(path)]
        client = AdminClient({"bootstrap.servers": kafka})
        present = [name for name in names.values() if name in client.list_topics(timeout=10).topics]
        if present:
            for future in client.delete_topics(present).values():
                future.result(30)

    def test_from_nothing_to_ready(self, settings: list[str]) -> None:
        """Check finds faults, topics mends them, check is satisfied, topics has nothing left to do."""
        before = _run("check", *settings)
        assert before.returncode == 78
        assert before.stdout.count("fault  topic") == 4
        dry = _run("topics", *settings, "--partitions", "2", "--dry-run")
        assert dry.returncode == 0
        assert dry.stdout.count("would be created") == 4
        made = _run("topics", *settings, "--partitions", "2", "--replication-factor", "1")
        assert made.returncode == 0
        assert made.stdout.count("created") == 4
        after = _run("check", *settings)
        assert after.returncode == 0, after.stdout
        assert "fault" not in after.stdout
        assert not after.stderr
        assert _run("topics", *settings).stdout.count("as needed") == 4

    def test_differences_are_listed(self, settings: list[str]) -> None:
        """Another count than the one asked for ends with 78 and a row for each topic."""
        assert _run("topics", *settings).returncode == 0
        done = _run("topics", *settings, "--partitions", "3")
        assert done.returncode == 78
        rows = [line.split() for line in done.stdout.splitlines() if "different" in line]
        assert [row[1:] for row in rows] == [["1", "different", "partitions", "3", "1"]] * 4


class TestLogs:
    """Where events go, and in which form."""

    @pytest.fixture(autouse=True)
    def _restore(self) -> Iterator[None]:
        """Leave the process's logging as it was."""
        root = logging.getLogger()
        handlers, level = root.handlers[:], root.level
        yield
        root.handlers[:] = handlers
        root.setLevel(level)
        logging.captureWarnings(capture=False)
        structlog.reset_defaults()
        structlog.contextvars.clear_contextvars()

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
