"""Where settings come from: TOML, the environment, and files that either of them names."""

from pathlib import Path

import pytest
from config.refusals import KEYS, faults_of, written

from stream_apple.config import load
from stream_apple.config.sources import variable

TEXTS = {key for section, key in KEYS if section == "topics"} | {
    "group",
    "id",
    "host",
    "from_model",
    "name",
    "impressions",
    "outcomes",
}
FIELDS = {"label", "weight", "id", "timestamp", "features", "separator", "ignore", "categories", "numbers", "times"}
"""Of the section `input`: any text is the path of a field."""
PATHS = {("input", key) for key in FIELDS} | {
    ("join", f"outcome_{key}") for key in ("id", "label", "weight", "timestamp")
}
WRONG = {"from_model": "two\nlines", "personalise": "white space"}
"""What is refused of those that take white space."""


class TestSources:
    """TOML, the environment, and files."""

    @pytest.mark.parametrize(("section", "key"), KEYS)
    def test_every_setting_has_a_variable(self, section: str, key: str) -> None:
        """Each setting can be given by its variable, and a wrong text is refused by that name."""
        if key in TEXTS and section != "input":
            config = load(None, {variable(section, key): "some-name"})
            assert getattr(getattr(config, section), key) == "some-name"
        wrong = WRONG.get(key, "white space" if key in TEXTS else "many")
        if (section, key) in PATHS:
            assert getattr(load(None, {variable(section, key): "a b"}), section) != getattr(load(None, {}), section)
            wrong = "two\nlines"
        (fault,) = faults_of(None, {variable(section, key): wrong})
        assert fault.startswith(f"{section}.{key} (from {variable(section, key)}): expected ")
        assert fault.endswith(f", found {wrong!r}")

    def test_the_environment_wins_over_the_file(self, tmp_path: Path) -> None:
        """A variable replaces its one key and leaves the file's others."""
        path = written(tmp_path, '[learner]\nbits = 20\nlearning_rate = 0.25\n[kafka]\n"client.id" = "file"\n')
        environ = {
            "STREAM_APPLE_LEARNER__BITS": "22",
            "STREAM_APPLE_KAFKA__CLIENT_ID": "variable",
            "PATH": "/bin",
        }
        config = load(path, environ)
        assert (config.learner.bits, config.learner.learning_rate) == (22, 0.25)
        assert config.kafka == {"bootstrap.servers": "localhost:9092", "client.id": "variable"}

    def test_a_mark_of_byte_order_is_no_setting(self, tmp_path: Path) -> None:
        """Editors on Windows write one."""
        path = tmp_path / "marked.toml"
        path.write_text("[learner]\nbits = 20\n", encoding="utf-8-sig")
        assert load(path, {}).learner.bits == 20

    def test_kafka_properties_pass_with_their_types(self, tmp_path: Path) -> None:
        """Text, numbers and booleans reach the client as they are, quoted dots or not."""
        path = written(
            tmp_path,
            "[kafka]\n"
            '"bootstrap.servers" = "a:1,b:2"\n'
            'sasl.username = "me"\n'
            "linger.ms = 2.5\nstatistics.interval.ms = 5000\n"
            "check.crcs = true\nlog_level = 3\n",
        )
        assert load(path, {"STREAM_APPLE_KAFKA__LOG_LEVEL": "4"}).kafka == {
            "bootstrap.servers": "a:1,b:2",
            "sasl.username": "me",
            "linger.ms": 2.5,
            "statistics.interval.ms": 5000,
            "check.crcs": True,
            "log_level": "4",
        }

    def test_values_come_from_mounted_files(self, tmp_path: Path) -> None:
        """`file:/path` is replaced by the file's text, one newline shorter, in both sources."""
        for name, text in {"password": "pass word\n\n", "bits": "21\n", "user": "me\r\n"}.items():
            (tmp_path / name).write_bytes(text.encode())
        path = written(
            tmp_path,
            f'kafka.sasl.password = "file:{tmp_path}/password"\n[learner]\nbits = "file:{tmp_path}/bits"\n',
        )
        config = load(path, {"STREAM_APPLE_KAFKA__SASL_USERNAME": f"file:{tmp_path}/user"})
        assert config.kafka["sasl.password"] == "pass word\n"
        assert config.kafka["sasl.username"] == "me"
        assert config.learner.bits == 21

    def test_kubernetes_service_variables_are_not_settings(self) -> None:
        """What Kubernetes injects for a Service named stream-apple... does not stop the start."""
        injected = {
            "STREAM_APPLE_SERVICE_HOST": "10.0.0.1",
            "STREAM_APPLE_SERVICE_PORT": "9400",
            "STREAM_APPLE_SERVICE_PORT_METRICS": "9400",
            "STREAM_APPLE_PORT": "tcp://10.0.0.1:9400",
            "STREAM_APPLE_PORT_9400_TCP": "tcp://10.0.0.1:9400",
            "STREAM_APPLE_PORT_9400_TCP_PROTO": "tcp",
            "STREAM_APPLE_PORT_9400_TCP_PORT": "9400",
            "STREAM_APPLE_PORT_9400_TCP_ADDR": "10.0.0.1",
            "STREAM_APPLE_HTTP_SERVICE_HOST": "10.0.0.1",
            "STREAM_APPLE_HTTP_PORT": "tcp://10.0.0.1:9400",
        }
        assert load(None, injected) == load(None, {})

    def test_a_forgotten_underscore_is_not_taken_for_a_service(self) -> None:
        """STREAM_APPLE_HTTP_PORT=9400 is a mistake, not an injected address."""
        (fault,) = faults_of(None, {"STREAM_APPLE_HTTP_PORT": "9400"})
        assert fault.endswith("the nearest known one is STREAM_APPLE_HTTP__PORT")
