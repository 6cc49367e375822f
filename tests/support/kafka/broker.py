"""A real Apache Kafka broker as a child process: one node, KRaft, nothing to install but Java and Maven.

The jars are resolved by Maven once and kept in the repository's `.cache`, and so is the empty storage that a broker
begins with; each broker has its own ports and its own directory. It dies with the test process, however that ends.
The variable `TEST_KAFKA_VERSION` names another version, from 3.5 on.
"""

import os
import re
import shutil
import signal
import subprocess
import time
import uuid
from base64 import urlsafe_b64encode
from pathlib import Path

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient
from support.child_process import start_child
from support.ports import free_ports
from support.required import UnavailableError, fetch_once

VERSION = "4.3.1"
_VERSION = os.environ.get("TEST_KAFKA_VERSION", VERSION)
IS_KAFKA_3 = _VERSION.startswith("3.")
CACHE = Path(__file__).resolve().parents[3] / ".cache" / "kafka" / _VERSION

_SETTINGS, _LOG_SETTINGS, _STORAGE, _CLASSES = "server.properties", "log.properties", "logs", "classes.jsa"

_JAVA_AT_LEAST = 17
_START_SECONDS = 90
_STOP_SECONDS = 30
_RESOLVE_SECONDS = 300

# A broker lives for minutes at most: code that is compiled slowly, to run faster for hours, takes twice the processor.
_JAVA = ["java", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"]

# Kafka 3 has what it logs with in its archive, and its jar does not ask Maven for it.
_LOGGER_OF_KAFKA_3 = """
    <dependency>
      <groupId>org.slf4j</groupId>
      <artifactId>slf4j-reload4j</artifactId>
      <version>1.7.36</version>
    </dependency>
"""

_POM = f"""\
<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion>
  <groupId>stream-apple</groupId>
  <artifactId>test-broker</artifactId>
  <version>1</version>
  <dependencies>
    <dependency>
      <groupId>org.apache.kafka</groupId>
      <artifactId>kafka_2.13</artifactId>
      <version>{_VERSION}</version>
    </dependency>{_LOGGER_OF_KAFKA_3 if IS_KAFKA_3 else ""}
  </dependencies>
</project>
"""

_LOGGING = """\
rootLogger.level = warn
rootLogger.appenderRef.out.ref = out
appender.out.type = Console
appender.out.name = out
appender.out.layout.type = PatternLayout
appender.out.layout.pattern = %d %p %c{1} %m%n
"""

_LOGGING_OF_KAFKA_3 = """\
log4j.rootLogger=WARN, out
log4j.appender.out=org.apache.log4j.ConsoleAppender
log4j.appender.out.layout=org.apache.log4j.PatternLayout
log4j.appender.out.layout.ConversionPattern=%d %p %c{1} %m%n
"""

# Everything that a broker does late by default is done soon: rebalances, clean-up, compaction, timeouts.
_PROPERTIES = """\
process.roles=broker,controller
node.id=1
controller.quorum.voters=1@127.0.0.1:{controller}
controller.listener.names=CONTROLLER
listeners=PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller}
listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT
log.dirs={storage}
auto.create.topics.enable=false
offsets.topic.replication.factor=1
offsets.topic.num.partitions=4
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
transaction.state.log.num.partitions=4
transaction.abort.timed.out.transaction.cleanup.interval.ms=1000
share.coordinator.state.topic.replication.factor=1
share.coordinator.state.topic.min.isr=1
group.initial.rebalance.delay.ms=0
group.min.session.timeout.ms=1000
group.consumer.heartbeat.interval.ms=500
group.consumer.min.heartbeat.interval.ms=100
log.initial.task.delay.ms=500
log.retention.check.interval.ms=1000
log.cleaner.backoff.ms=500
"""


def resolve_jars(cache: Path = CACHE) -> Path:
    """The directory of Kafka's jars, filled by Maven if need be; UnavailableError if that can't be done."""
    java = shutil.which("java")
    if java is None:
        raise UnavailableError(f"a Kafka broker needs Java {_JAVA_AT_LEAST} or newer; there is no `java` on the path")
    spoken = subprocess.run([java, "-version"], capture_output=True, text=True, check=False).stderr
    major = spoken.partition('"')[2].partition(".")[0].partition('"')[0]
    if not major.isdigit() or int(major) < _JAVA_AT_LEAST:
        raise UnavailableError(f"a Kafka broker needs Java {_JAVA_AT_LEAST} or newer; `java -version` says: {spoken}")
    return fetch_once(cache, _fetch_jars)


def _fetch_jars(directory: Path) -> Path:
    maven = shutil.which("mvn")
    if maven is None:
        raise UnavailableError(f"Kafka {_VERSION} is not in {CACHE}, and there is no `mvn` on the path to fetch it")
    pom, jars = directory / "pom.xml", directory / "jars"
    pom.write_text(_POM, encoding="utf-8")
    command = [maven, "-q", "-B", "-f", str(pom), "dependency:copy-dependencies"]
    command += ["-DincludeScope=runtime", f"-DoutputDirectory={jars}"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=_RESOLVE_SECONDS)
    except subprocess.TimeoutExpired:
        raise UnavailableError(f"Maven did not resolve Kafka {_VERSION} within {_RESOLVE_SECONDS} s") from None
    if done.returncode:
        raise UnavailableError(f"Maven can't resolve Kafka {_VERSION}: {(done.stdout + done.stderr)[-2000:]}")
    return jars


class Broker:
    """One broker process. Its address and its data stay the same from one start to the next.

    directory  empty or not there yet; gets the log directory, the configuration and the output.
    extra      broker properties besides those in this file; `{port}` and `{controller}` in them are its ports.
    ports      of clients and of the controller; None: any that are free
    cluster_id that of the cluster it belongs to; None: a cluster of its own
    heap       Java's option for the largest heap
    Start it in a thread that outlives it: the kernel ties the child to the thread that made it.
    """

    def __init__(
        self,
        directory: Path,
        jars: Path,
        extra: dict[str, str] | None = None,
        *,
        ports: tuple[int, int] | None = None,
        cluster_id: str | None = None,
        heap: str = "-Xmx512m",
    ) -> None:
        self.directory = directory
        self.log = directory / "broker.log"
        self.asleep = False
        self._answered = False
        self._jars = jars
        self._extra = extra or {}
        self._process: subprocess.Popen[bytes] | None = None
        self._port = 0
        self._ports = ports
        self._cluster_id = cluster_id
        self._heap = heap

    @property
    def bootstrap(self) -> str:
        """The address for `bootstrap.servers`."""
        return f"127.0.0.1:{self._port}"

    @property
    def running(self) -> bool:
        """Whether the process is there."""
        return self._process is not None and self._process.poll() is None

    @property
    def working(self) -> bool:
        """Whether it has answered since its start, and has neither ended nor been put to sleep."""
        return self.running and self._answered and not self.asleep

    def start(self) -> None:
        """Start the process and wait until it answers; RuntimeError with the end of its log if it fails."""
        self.launch()
        self.await_answer()

    def launch(self) -> None:
        """Start the process, and return before it answers: a broker of a cluster waits for the others."""
        if self.running:
            raise RuntimeError(f"the broker at {self.bootstrap} is already running")
        if not self._port:
            self._prepare()
        # Java takes them as they were when a broker had loaded them, and does so in half of the time.
        classes = fetch_once(self._jars.with_name(f"{self._jars.name}-classes"), self._keep_classes) / _CLASSES
        self._launch(f"-XX:SharedArchiveFile={classes}")

    def _launch(self, option: str) -> None:
        self._answered = False
        command = [*self._java(self.directory), option, "kafka.Kafka", str(self.directory / _SETTINGS)]
        self._process = start_child(command, self.log)

    def kill(self) -> None:
        """SIGKILL: what was not on disk or in the page cache is gone."""
        self._end(signal.SIGKILL)

    def sleep(self) -> None:
        """SIGSTOP: connections stay, and nobody answers."""
        self._signal(signal.SIGSTOP)
        self.asleep = True

    def wake(self) -> None:
        """Go on as if nothing had happened."""
        self._signal(signal.SIGCONT)
        self.asleep = False

    def _signal(self, how: signal.Signals) -> None:
        if self._process is not None and self.running:
            os.killpg(self._process.pid, how)

    def stop(self) -> None:
        """Let the broker shut down in order; SIGKILL if it takes too long."""
        self._end(signal.SIGTERM)

    def _prepare(self) -> None:
        self.directory.mkdir(parents=True, exist_ok=True)
        self._port, controller = self._ports or free_ports(2)
        _write_settings(self.directory, self._port, controller, self._extra)
        if self._extra:
            # The tool checks them, and says what is wrong; the broker would not.
            self._format(self.directory)
        else:
            storage = fetch_once(self._jars.with_name(f"{self._jars.name}-storage"), self._make_storage)
            shutil.copytree(storage, self.directory / _STORAGE)
            # Workers on one machine look there for others of the same cluster: suites may run side by side.
            identity = self.directory / _STORAGE / "meta.properties"
            text = re.sub(r"(?m)^cluster\.id=.*$", f"cluster.id={new_cluster_id()}", identity.read_text())
            identity.write_text(text)

    def _keep_classes(self, directory: Path) -> Path:
        """Let a broker write its classes when it ends."""
        # With a setting of its own it does not ask for the common storage, which only one may make at a time, too.
        broker = Broker(directory / "broker", self._jars, {"auto.create.topics.enable": "false"})
        broker._prepare()
        broker._launch(f"-XX:ArchiveClassesAtExit={directory / _CLASSES}")
        broker.await_answer()
        broker.stop()
        shutil.rmtree(broker.directory)
        return directory

    def _make_storage(self, directory: Path) -> Path:
        port, controller = free_ports(2)
        _write_settings(directory, port, controller, {})
        self._format(directory)
        return directory / _STORAGE

    def _format(self, directory: Path) -> None:
        """Let Kafka's tool write the identity of a cluster, and the features that it begins with."""
        # `--cluster-id=`: an id may begin with a dash, and would be taken for an option.
        cluster = f"--cluster-id={self._cluster_id or new_cluster_id()}"
        tool = ["kafka.tools.StorageTool", "format", cluster, "-c", str(directory / _SETTINGS)]
        done = subprocess.run([*self._java(directory), *tool], capture_output=True, text=True, check=False)
        if done.returncode:
            raise RuntimeError(f"the broker's storage can't be formatted: {done.stdout}{done.stderr}")

    def _java(self, directory: Path) -> list[str]:
        log = directory / _LOG_SETTINGS
        logging = [f"-Dlog4j2.configurationFile={log}", f"-Dlog4j.configuration={log.as_uri()}"]
        return [*_JAVA, self._heap, *logging, "-cp", f"{self._jars}/*"]

    def await_answer(self) -> None:
        """Wait until the broker answers; RuntimeError with the end of its log if it does not."""
        deadline = time.monotonic() + _START_SECONDS
        client = AdminClient({"bootstrap.servers": self.bootstrap, "log_level": 0})
        while time.monotonic() < deadline:
            if not self.running:
                break
            try:
                if client.list_topics(timeout=0.5).brokers:
                    self._answered = True
                    return
            except KafkaException:
                continue
        self.kill()
        tail = self.log.read_text(encoding="utf-8", errors="replace")[-4000:]
        raise RuntimeError(f"no broker answers at {self.bootstrap} within {_START_SECONDS} s; its log ends:\n{tail}")

    def _end(self, how: signal.Signals) -> None:
        if self._process is None:
            return
        for wanted in (how, signal.SIGKILL):
            if self.running:
                os.killpg(self._process.pid, wanted)
            try:
                self._process.wait(_STOP_SECONDS)
            except subprocess.TimeoutExpired:
                continue
            return


def new_cluster_id() -> str:
    """An id as Kafka draws them."""
    return urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")


def _write_settings(directory: Path, port: int, controller: int, extra: dict[str, str]) -> None:
    text = _PROPERTIES.format(port=port, controller=controller, storage=directory / _STORAGE)
    text += "".join(f"{name}={value}\n" for name, value in extra.items()).format(port=port, controller=controller)
    (directory / _SETTINGS).write_text(text, encoding="utf-8")
    (directory / _LOG_SETTINGS).write_text(_LOGGING_OF_KAFKA_3 if IS_KAFKA_3 else _LOGGING, encoding="utf-8")
