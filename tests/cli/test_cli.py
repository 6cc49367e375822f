"""The command line: what it says, what it loads, and how it ends."""

import os
import signal
import subprocess
import sys
from collections.abc import Collection, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import click
import pytest
from click.testing import CliRunner, Result
from confluent_kafka.admin import AdminClient
from support.command import call_command
from support.ports import free_ports
from support.waiting import DEADLINE_S

from stream_apple import cli, errors


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


@pytest.mark.parametrize(
    ("ending", "code"),
    [
        ("raise errors.BrokerError('gone')", 69),
        ("raise KeyboardInterrupt", 130),
        ("sys.exit(3)", 3),
        ("return", 0),
        ("1 / 0", 1),
    ],
)
def test_clients_of_kafka_that_are_left_can_not_change_the_code(ending: str, code: int) -> None:
    """Nor the words: the interpreter is not taken apart where there may be one. Commands without Kafka end as usual."""
    script = (
        "import atexit, click, importlib, os, signal, sys\n"
        "from stream_apple import cli, errors\n"
        "atexit.register(lambda: os.kill(os.getpid(), signal.SIGSEGV))\n"
        "def failing():\n"
        "    print('said', end='')\n"
        f"    {ending}\n"
        "name = sys.argv.pop()\n"
        "importlib.import_module('stream_apple.cli.' + name).command = click.command()(failing)\n"
        "cli.main([name])\n"
    )
    ended = [
        subprocess.run(
            [sys.executable, "-c", script, command], capture_output=True, text=True, check=False, env=_environment()
        )
        for command in ("topics", "compile")
    ]
    assert [each.returncode for each in ended] == [code, -signal.SIGSEGV]
    assert [each.stdout for each in ended] == ["said", "said"]
    said = {69: "stream-apple: gone\n", 1: "ZeroDivisionError: division by zero\n"}.get(code, "")
    assert all(each.stderr.endswith(said) and bool(each.stderr) == bool(said) for each in ended)


@pytest.mark.parametrize("ignored", [False, True])
def test_a_library_may_make_another_exception_of_ctrl_c(*, ignored: bool) -> None:
    """As pydantic does, while schemas are built: no traceback follows. Where Ctrl-C is ignored, a defect is one."""
    script = (
        "import importlib, os, signal, sys\n"
        "from stream_apple import cli\n"
        "def wrapping(name):\n"
        "    try:\n"
        "        os.kill(os.getpid(), signal.SIGINT)\n"
        "        raise ValueError\n"
        "    except BaseException as error:\n"
        "        raise RuntimeError('a schema can not be built') from error\n"
        f"signal.signal(signal.SIGINT, signal.SIG_IGN if {ignored} else signal.default_int_handler)\n"
        "importlib.import_module = wrapping\n"
        "cli.main(['check'])\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=False, env=_environment(), timeout=120
    )
    assert done.returncode == (1 if ignored else 130)
    assert ("a schema can not be built" in done.stderr) is ignored
    assert ignored or done.stderr == ""


class TestHelp:
    """What can be asked without doing anything."""

    def test_names_every_command(self) -> None:
        """`--help` lists each command with its summary, and ends with 0."""
        done = _run("--help")
        assert done.returncode == 0
        for name, summary in cli.SUMMARIES.items():
            assert f"  {name} " in done.stdout
            assert summary in " ".join(done.stdout.split())

    @pytest.mark.parametrize(
        ("commands", "heavy"),
        [
            ([], {"numba", "numpy", "confluent_kafka", "pydantic", "rich"}),
            (cli.SUMMARIES, {"numba"}),
        ],
        ids=["stream-apple", "commands"],
    )
    def test_imports_nothing_heavy(self, commands: Collection[str], heavy: set[str]) -> None:
        """Help and a mistyped option are answered at once: without the compiler, or any library."""
        script = (
            "import sys\n"
            "from contextlib import suppress\n"
            "from click import NoSuchOption\n"
            "from stream_apple.cli import main\n"
            f"for command in {[[each] for each in sorted(commands)] or [[]]}:\n"
            "    main([*command, '--help'], standalone_mode=False)\n"
            "    with suppress(NoSuchOption):\n"
            "        main([*command, '--hepl'], standalone_mode=False)\n"
            f"heavy = {heavy} & set(sys.modules)\n"
            "sys.exit(f'loaded {heavy}' if heavy else 0)"
        )
        done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr

    def test_version(self) -> None:
        """`--version` names the package and its version."""
        assert _run("--version").stdout == "stream-apple, version 0.1.0\n"

    def test_an_unknown_command_is_a_usage_error(self) -> None:
        """A mistyped command ends with 2 and names it."""
        done = call_command("chek")
        assert done.returncode == 2
        assert "No such command 'chek'; the nearest one is 'check'." in done.stderr
        assert "No such command 'nothing'.\n" in call_command("nothing").stderr

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
            errors.FencedError,
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
        kinds = [*errors.StreamAppleError.__subclasses__(), *errors.BrokerError.__subclasses__()]
        assert len({kind.exit_code for kind in kinds}) == len(kinds) == 10

    def test_an_interrupt_ends_with_130(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Ctrl-C in a command ends as shells expect, without a traceback."""
        result = _ending_with(monkeypatch, KeyboardInterrupt())
        assert result.exit_code == 130
        assert "Traceback" not in result.output

    @pytest.mark.parametrize("command", ["run", "check", "topics", "verify"])
    def test_a_wrong_configuration_is_refused_before_anything_starts(self, command: str) -> None:
        """Each command that needs the configuration ends with 78 and names the variable."""
        wrong = {"STREAM_APPLE_LEARNER__BITS": "many"}
        if command == "run":  # which configures the log of its process
            done = _run(command, "--log-format", "human", **wrong)
        else:
            done = call_command(command, environment=wrong)
        assert done.returncode == 78
        assert done.stderr == (
            "stream-apple: the configuration has a fault: learner.bits (from STREAM_APPLE_LEARNER__BITS): "
            "expected an integer from 8 to 30, found 'many'\n"
        )
        assert not done.stdout

    @pytest.mark.parametrize("partitions", [(), ("--partition", "0", "--partition", "1")])
    def test_an_offset_is_of_one_partition(self, partitions: tuple[str, ...]) -> None:
        """`verify --to` without the partition that it belongs to is a usage error."""
        done = call_command("verify", "--to", "5", *partitions)
        assert done.returncode == 2
        assert "--to is an offset of one partition" in done.stderr


@pytest.fixture(scope="module")
def silent_address() -> str:
    """Where nothing listens."""
    return f"127.0.0.1:{free_ports(1)[0]}"


@pytest.fixture(scope="module")
def unanswered(silent_address: str) -> dict[str, "subprocess.CompletedProcess[str]"]:
    """How commands end that ask there. Each waits several seconds for an answer, so they wait together."""
    commands = ("topics", "verify", "check")
    with ThreadPoolExecutor() as pool:
        ends = pool.map(lambda name: _run(name, STREAM_APPLE_KAFKA__BOOTSTRAP_SERVERS=silent_address), commands)
        return dict(zip(commands, ends, strict=True))


class TestWithoutACluster:
    """Nothing listening."""

    @pytest.mark.parametrize("command", ["topics", "verify"])
    def test_commands_that_need_one_end(
        self, silent_address: str, unanswered: dict[str, "subprocess.CompletedProcess[str]"], command: str
    ) -> None:
        """With 69 and one line with the address."""
        done = unanswered[command]
        assert done.returncode == 69
        assert done.stderr.count("\n") == 1
        assert silent_address in done.stderr

    def test_check_reports_one_fault(
        self, silent_address: str, unanswered: dict[str, "subprocess.CompletedProcess[str]"]
    ) -> None:
        """That there is no answer."""
        check = unanswered["check"]
        assert check.returncode == 78
        assert check.stdout.startswith(f"fault  cluster: kafka: expected an answer from {silent_address} within 6 s")
        assert check.stdout.count("\n") == 1
        assert not check.stderr


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
        present = [name for name in names.values() if name in client.list_topics(timeout=DEADLINE_S).topics]
        if present:
            for future in client.delete_topics(present).values():
                future.result(DEADLINE_S)

    def test_from_nothing_to_ready(self, settings: list[str]) -> None:
        """Check finds faults, topics mends them, check is satisfied, topics has nothing left to do.

        Both are a process here, as users start them; all that follows calls them.
        """
        before = _run("check", *settings)
        assert before.returncode == 78
        assert before.stdout.count("fault  topic") == 4
        dry = call_command("topics", *settings, "--partitions", "2", "--dry-run")
        assert dry.returncode == 0
        assert dry.stdout.count("would be created") == 4
        made = _run("topics", *settings, "--partitions", "2", "--replication-factor", "1")
        assert made.returncode == 0
        assert made.stdout.count("created") == 4
        after = call_command("check", *settings)
        assert after.returncode == 0, after.stdout
        assert "fault" not in after.stdout
        assert not after.stderr
        assert call_command("topics", *settings).stdout.count("as needed") == 4

    def test_a_model_file_that_is_gone_hides_nothing(self, settings: list[str]) -> None:
        """What is wrong on the cluster is told beside it."""
        check = call_command("check", *settings, "--from-model", "none.model")
        assert check.returncode == 78
        assert check.stdout.startswith("fault  worker.from_model: ")
        assert "expected an existing topic, found none" in check.stdout

    def test_differences_are_listed(self, settings: list[str]) -> None:
        """Another count than the one asked for ends with 78 and a row for each topic."""
        assert call_command("topics", *settings).returncode == 0
        done = call_command("topics", *settings, "--partitions", "3")
        assert done.returncode == 78
        rows = [line.split() for line in done.stdout.splitlines() if "different" in line]
        assert [row[1:] for row in rows] == [["1", "different", "partitions", "3", "1"]] * 4
        assert (
            "nothing was done; with --alter the same command changes what is found to what is expected" in done.stderr
        )

    def test_a_topic_becomes_one_for_histories(self, settings: list[str], tmp_path: Path) -> None:
        """What `produce` advises is what it needs: it was told the same again, and `topics` had changed nothing."""
        history = tmp_path / "history.jsonl"
        history.write_text('{"label": 1, "features": {"a": 1}}\n' * 3)
        produce = ("produce", *settings, str(history), "--start-time", "2013-03-31T00:00:00Z", "--interval", "1s")
        assert call_command("topics", *settings).returncode == 0
        refused = call_command(*produce)
        assert refused.returncode == 78
        assert "`stream-apple topics --retention forever --alter`; nothing was sent" in refused.stderr
        forever = ("topics", *settings, "--retention", "forever")
        compared = call_command(*forever)
        assert compared.returncode == 78
        assert compared.stdout.count("different") == 3
        tried = call_command(*forever, "--alter", "--dry-run")
        assert (tried.returncode, tried.stdout.count("would be altered")) == (0, 3)
        assert call_command(*produce).returncode == 78
        altered = call_command(*forever, "--alter")
        assert altered.returncode == 0, altered.stderr
        assert altered.stdout.count("altered") == 3
        assert ["retention.ms", "-1", "1209600000"] in [line.split() for line in altered.stdout.splitlines()]
        assert call_command(*produce).returncode == 0
        assert call_command(*forever).stdout.count("as needed") == 4
        assert call_command(*forever, "--partitions", "2", "--alter").returncode == 0
        fewer = call_command("topics", *settings, "--partitions", "1", "--replication-factor", "3", "--alter")
        assert fewer.returncode == 78
        assert (
            "nothing was altered; partitions are added, with a larger --partitions and --alter, but never removed, "
            "and replication factor can't be altered here" in fewer.stderr
        )


@pytest.mark.parametrize("arguments", [["generate"], ["generate", "--ask", "http://localhost:1"]])
def test_nothing_is_sent_that_a_worker_of_another_shape_does_not_read(arguments: list[str]) -> None:
    """A thousand such records would end the worker: it is said before Kafka is asked for anything."""
    settings = {"STREAM_APPLE_INPUT__FEATURES": "*", "STREAM_APPLE_KAFKA__BOOTSTRAP_SERVERS": "127.0.0.1:1"}
    result = CliRunner().invoke(cli.main, arguments, env=settings)
    assert result.exit_code == errors.ConfigurationError.exit_code
    assert "expected no section `input`" in result.output
