"""Every command through TLS and each way to prove who one is; refusals end soon, and nothing repeats a secret."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import pytest
from security.authority import Authority
from security.secure_broker import PASSPHRASE, PASSWORDS, STRANGER, Secured, secured
from support.local_http import fetch, metric
from support.waiting import wait_until
from support.worker_config import write_config

EXAMPLES = 60
SECONDS = 120.0
SOON = 45.0  # on a loaded machine; a refusal takes about 5 s, and nothing waits longer than a minute by itself

EXTENSION = "extensionPwQ4r"
WRONG = "wrong-Pw-0pLk3"

Settings = dict[str, str]


class Way(NamedTuple):
    """A way in. `variables` and `toml` (of the section kafka) hold it; `secrets` must appear nowhere."""

    variables: Settings
    toml: Settings
    secrets: list[str]


def _file(directory: Path, name: str, text: str) -> str:
    path = directory / name
    path.write_text(text + "\n", encoding="utf-8")
    return f"file:{path}"


def _password(cluster: Secured, mechanism: str, **more: str) -> Settings:
    return {
        "bootstrap.servers": cluster.password,
        "security.protocol": "SASL_SSL",
        "ssl.ca.location": str(cluster.authority.certificate),
        "sasl.mechanism": mechanism,
        "sasl.username": "worker",
        **more,
    }


def _mutual(cluster: Secured, **more: str) -> Settings:
    trusted = str(cluster.authority.certificate)
    return {"bootstrap.servers": cluster.mutual, "security.protocol": "SSL", "ssl.ca.location": trusted, **more}


def _token(cluster: Secured, **more: str) -> Settings:
    trusted = str(cluster.authority.certificate)
    return {
        "bootstrap.servers": cluster.token,
        "security.protocol": "SASL_SSL",
        "ssl.ca.location": trusted,
        "sasl.mechanism": "OAUTHBEARER",
        "enable.sasl.oauthbearer.unsecure.jwt": "true",
        **more,
    }


def plain(cluster: Secured, directory: Path) -> Way:
    """All in the environment, the password in a file that it names."""
    password = PASSWORDS["PLAIN"]
    file = _file(directory, "password", password)
    return Way({**_password(cluster, "PLAIN"), "sasl.password": file}, {}, [password])


def scram_256(cluster: Secured, _directory: Path) -> Way:
    """All in the environment, the password too."""
    password = PASSWORDS["SCRAM-SHA-256"]
    return Way({**_password(cluster, "SCRAM-SHA-256"), "sasl.password": password}, {}, [password])


def scram_512(cluster: Secured, directory: Path) -> Way:
    """All in the configuration file, the password in a file that it names."""
    password = PASSWORDS["SCRAM-SHA-512"]
    file = _file(directory, "password", password)
    return Way({}, {**_password(cluster, "SCRAM-SHA-512"), "sasl.password": file}, [password])


def oauthbearer(cluster: Secured, directory: Path) -> Way:
    """The token is made by librdkafka, and taken by Kafka, without a signature; what it is made of is the secret."""
    given = f"principal=worker extension_marker={EXTENSION}"
    return Way({"sasl.oauthbearer.config": _file(directory, "token", given)}, _token(cluster), [EXTENSION])


def mutual_tls(cluster: Secured, _directory: Path) -> Way:
    """Certificate and key in files, the key encrypted."""
    files = {
        "ssl.certificate.location": str(cluster.client.certificate),
        "ssl.key.location": str(cluster.client.key),
    }
    return Way({"ssl.key.password": PASSPHRASE}, _mutual(cluster, **files), [PASSPHRASE])


def mutual_tls_inline(cluster: Secured, _directory: Path) -> Way:
    """Certificate and key as text, as a secret store gives them."""
    key = cluster.client.key.read_text(encoding="utf-8")
    files = {"ssl.certificate.pem": f"file:{cluster.client.certificate}", "ssl.key.pem": f"file:{cluster.client.key}"}
    return Way({**files, "ssl.key.password": PASSPHRASE}, _mutual(cluster), [PASSPHRASE, *key.splitlines()[1:-1]])


WAYS: list[Callable[[Secured, Path], Way]] = [scram_256, oauthbearer, mutual_tls_inline]
"""A password, a token and a key; in the environment, in the configuration file, and in files that these name."""
MORE_WAYS: list[Callable[[Secured, Path], Way]] = [plain, scram_512, mutual_tls]


class Refusal(NamedTuple):
    """A way that leads nowhere: who refuses, and words that the message must have."""

    settings: Callable[[Secured, Path], Settings]
    says: str


def _other_authority(cluster: Secured, directory: Path) -> Settings:
    other = Authority(directory / "other")
    trusted = {"ssl.ca.location": str(other.certificate), "sasl.password": PASSWORDS["PLAIN"]}
    return {**_password(cluster, "PLAIN"), **trusted}


REFUSALS = {
    "wrong password, PLAIN": Refusal(
        lambda cluster, _: {**_password(cluster, "PLAIN"), "sasl.password": WRONG}, "Authentication failed"
    ),
    "wrong password, SCRAM": Refusal(
        lambda cluster, _: {**_password(cluster, "SCRAM-SHA-512"), "sasl.password": WRONG}, "Authentication failed"
    ),
    "garbled token": Refusal(
        lambda cluster, _: _token(cluster, **{"sasl.oauthbearer.config": f"principal=worker {EXTENSION}={WRONG}"}),
        "Failed to acquire SASL OAUTHBEARER token",
    ),
    "untrusted server": Refusal(_other_authority, "certificate verify failed"),
    "no certificate": Refusal(lambda cluster, _: _mutual(cluster), "certificate"),
    "wrong passphrase": Refusal(
        lambda cluster, _: _mutual(
            cluster,
            **{"ssl.keystore.location": str(cluster.client.store), "ssl.keystore.password": WRONG},
        ),
        "mac verify failure",
    ),
    "no permission": Refusal(
        lambda cluster, _: {
            **_password(cluster, "PLAIN"),
            "sasl.username": "stranger",
            "sasl.password": STRANGER,
        },
        "uthorization failed",
    ),
}
MORE_REFUSALS = ("wrong password, PLAIN",)  # SCRAM proves the same


@pytest.fixture(scope="module")
def cluster(jars: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secured]:
    """A broker that asks who one is."""
    with secured(tmp_path_factory.mktemp("secured"), jars) as found:
        yield found


class Commands:
    """Commands of one configuration, each a process. `outputs` is all that they have written."""

    def __init__(self, directory: Path, way: Way) -> None:
        name = directory.name
        self._file = write_config(
            directory / "stream_apple.toml",
            None,
            kafka=way.toml,
            topics={topic: f"{topic}-{name}" for topic in ("examples", "predictions", "dead_letters", "models")},
            worker={"id": "worker-0"},
            learner={"bits": 10},
        )
        self._environment = {
            **{name: value for name, value in os.environ.items() if not name.startswith("STREAM_APPLE_")},
            **{f"STREAM_APPLE_KAFKA__{name.upper().replace('.', '_')}": value for name, value in way.variables.items()},
        }
        self._directory = directory
        self.outputs: list[str] = []

    def start(self, *arguments: str) -> subprocess.Popen[str]:
        """Without waiting for its end; what it writes goes to two files."""
        command = [sys.executable, "-m", "stream_apple", *arguments, "--config", str(self._file)]
        with self.out(arguments[0]).open("w") as out, self.err(arguments[0]).open("w") as err:
            return subprocess.Popen(command, stdout=out, stderr=err, text=True, env=self._environment)

    def out(self, command: str) -> Path:
        """Where its standard output goes."""
        return self._directory / f"{command}.out"

    def err(self, command: str) -> Path:
        """Where its standard error goes."""
        return self._directory / f"{command}.err"

    def end(self, process: subprocess.Popen[str], command: str, seconds: float = SECONDS) -> tuple[int, str]:
        """Exit code and everything that it has written."""
        try:
            code = process.wait(seconds)
        finally:
            process.kill()
            process.wait()
        text = self.out(command).read_text() + self.err(command).read_text()
        self.outputs.append(text)
        return code, text

    def run(self, *arguments: str) -> tuple[int, str]:
        """From start to end."""
        return self.end(self.start(*arguments), arguments[0])

    def check_secrets(self, secrets: list[str]) -> None:
        """Nothing that was written has one of them, as it is or as JSON writes it."""
        assert self.outputs
        for text in self.outputs:
            for secret in secrets:
                assert secret not in text
                assert json.dumps(secret)[1:-1] not in text


@pytest.fixture
def directory(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """A directory with a name that topics can have."""
    path = tmp_path / re.sub(r"\W+", "-", request.node.callspec.id)
    path.mkdir()
    return path


def work(commands: Commands) -> None:
    """A worker learns all examples, is looked at from outside, and stops when asked to."""
    process = commands.start("run", "--log-format", "json")
    try:

        def first_line() -> str:
            log = commands.err("run").read_text()
            assert process.poll() is None, log
            first, ended, _ = log.partition("\n")
            return first if ended else ""

        def all_learned() -> bool:
            assert process.poll() is None, commands.err("run").read_text()
            return sum(metric(port, "stream_apple_examples_total", outcome="learned")) >= EXAMPLES

        port = json.loads(wait_until(first_line, "its first line", SECONDS))["http_port"]
        wait_until(all_learned, commands.err("run").read_text, SECONDS)
        nowhere = fetch(port, "/no-such-path")
        assert nowhere.status == 404
        paths = nowhere.json()["paths"]
        assert {"/metrics", "/livez", "/readyz"} <= set(paths)
        for answer in (nowhere, *(fetch(port, path) for path in paths)):
            commands.outputs.append(f"{answer.headers}\n{answer.body.decode()}")
        for method in ("POST", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE"):
            assert fetch(port, "/metrics", method).status == 405
        process.send_signal(signal.SIGTERM)
    finally:
        code, text = commands.end(process, "run")
    assert code == 0, text
    for line in text.splitlines():
        assert {"event", "level", "timestamp", "worker", "group"} <= set(json.loads(line))


@pytest.mark.parametrize(
    "way",
    [*WAYS, *(pytest.param(way, marks=pytest.mark.long) for way in MORE_WAYS)],
    ids=lambda way: way.__name__,
)
def test_every_command_gets_in(cluster: Secured, directory: Path, way: Callable[[Secured, Path], Way]) -> None:
    """From no topics to verified predictions, and no output of any command has the secret in it."""
    found = way(cluster, directory)
    commands = Commands(directory, found)
    examples = directory / "examples.vw"
    examples.write_text("".join(f"{number % 3 - 1} | a:{number} b\n" for number in range(EXAMPLES)))
    for command in (["topics"], ["check"], ["produce", str(examples), "--interval", "1s"]):
        code, text = commands.run(*command)
        assert code == 0, text
    work(commands)
    code, text = commands.run("verify")
    assert code == 0, text
    commands.check_secrets(found.secrets)
    assert f'"{"***"}"' in "".join(commands.outputs)  # the settings were shown


@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=[pytest.mark.long] if name in MORE_REFUSALS else []) for name in REFUSALS],
)
def test_a_refusal_ends_soon_and_says_why(cluster: Secured, directory: Path, name: str) -> None:
    """A check and a worker both end with 78, name the place and the reason, and repeat no secret, right or wrong."""
    refusal = REFUSALS[name]
    settings = refusal.settings(cluster, directory)
    commands = Commands(directory, Way(settings, {}, []))
    started = time.monotonic()
    processes = {"check": commands.start("check"), "run": commands.start("run", "--log-format", "json")}
    for command, process in processes.items():
        code, text = commands.end(process, command, SOON)
        assert code == 78, text
        assert refusal.says in text
        if command == "run":
            last = json.loads(text.splitlines()[-1])
            assert (last["event"], last["exit_code"]) == ("failed", 78)
            assert refusal.says in last["error"]
            if name not in {"wrong passphrase", "no permission"}:
                assert settings["bootstrap.servers"] in last["error"]
    assert time.monotonic() - started < SOON
    commands.check_secrets([WRONG, EXTENSION, STRANGER, PASSPHRASE, *PASSWORDS.values()])
