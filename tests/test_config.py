"""Configuration: every setting from every source, and what is said about a wrong one."""

import json
from collections.abc import Mapping
from pathlib import Path

import pytest
from pydantic import ValidationError

from stream_apple.config import Config, LimitSettings, load
from stream_apple.config.faults import SECTIONS, expected
from stream_apple.config.kafka import OWNED
from stream_apple.config.sources import variable
from stream_apple.errors import ConfigurationError

KEYS = [(section, key) for section, model in SECTIONS.items() for key in model.model_fields]
TEXTS = {key for section, key in KEYS if section == "topics"} | {"group", "id", "host"}

DURATION = "a duration such as '250ms', '5m' or '1h30m'"
METHODS = "'apple', 'linear', 'quadratic', 'cubic'"


def _toml(directory: Path, text: str) -> Path:
    path = directory / "config.toml"
    path.write_text(text, encoding="utf-8")
    return path


def _faults(path: Path | None, environ: Mapping[str, str]) -> list[str]:
    with pytest.raises(ConfigurationError) as caught:
        load(path, environ)
    assert caught.value.exit_code == 78
    head, _, rest = str(caught.value).partition(": " if " a fault: " in str(caught.value) else ":\n  ")
    assert head.startswith("the configuration has ")
    return rest.split("\n  ")


class TestDefaults:
    """With nothing configured."""

    def test_are_the_documented_ones(self) -> None:
        """The defaults are the contract's."""
        config = load(None, {})
        assert config.redacted() == {
            "kafka": {"bootstrap.servers": "localhost:9092"},
            "topics": {
                "examples": "examples",
                "predictions": "predictions",
                "dead_letters": "dead-letters",
                "models": "models",
            },
            "worker": {
                "group": "stream-apple",
                "id": "worker-0",
                "commit_interval": "500ms",
                "commit_records": 50_000,
                "snapshot_interval": "5m",
                "fetch_records": 1000,
                "on_stop": "stay",
                "accept_gap": [],
            },
            "learner": {
                "method": "apple",
                "loss": "squared",
                "bits": 18,
                "alpha": 1.0,
                "learning_rate": 0.5,
            },
            "epochs": {"length": "1h", "max_ahead": "7d"},
            "http": {"host": "0.0.0.0", "port": 9400},
            "limits": {
                "max_features": 4096,
                "max_features_per_example": 65_536,
                "max_record_bytes": 1_000_000,
                "max_weight": 1e6,
                "min_label": -1e9,
                "max_label": 1e9,
                "max_reject_share": 0.5,
                "max_consecutive_rejects": 1000,
            },
        }
        assert config.worker.commit_interval == 500
        assert config.epochs.max_ahead == 7 * 24 * 3_600_000

    def test_stay_within_their_own_bounds(self) -> None:
        """The defaults, written out as text and read back, are accepted and change nothing."""
        shown = load(None, {}).redacted()
        environ = {
            variable(section, key): ", ".join(value) if isinstance(value, list) else str(value)
            for section, table in shown.items()
            for key, value in table.items()
        }
        assert load(None, environ) == load(None, {})

    def test_accepted_gaps(self, tmp_path: Path) -> None:
        """A list in a file, or a text with commas in the environment, names partitions and offsets."""
        path = tmp_path / "stream_apple.toml"
        path.write_text('[worker]\naccept_gap = ["3@12345", "0@7"]\n')
        accepted = frozenset({(3, 12345), (0, 7)})
        assert load(path, {}).worker.accepted_gaps == accepted
        assert load(None, {"STREAM_APPLE_WORKER__ACCEPT_GAP": "3@12345, 0@7"}).worker.accepted_gaps == accepted
        with pytest.raises(ConfigurationError, match=r"worker.accept_gap .*expected gaps as .*found 'all'"):
            load(None, {"STREAM_APPLE_WORKER__ACCEPT_GAP": "all"})

    def test_can_not_be_changed(self) -> None:
        """Sections are frozen."""
        with pytest.raises(ValidationError, match="frozen"):
            load(None, {}).worker.id = "other"

    def test_are_not_shared(self) -> None:
        """Two configurations do not share their Kafka properties."""
        first = load(None, {})
        first.kafka["client.id"] = "mine"
        assert "client.id" not in load(None, {}).kafka


class TestSources:
    """TOML, the environment, and files."""

    @pytest.mark.parametrize(("section", "key"), KEYS)
    def test_every_setting_has_a_variable(self, section: str, key: str) -> None:
        """Each setting can be given by its variable, and a wrong text is refused by that name."""
        if key in TEXTS:
            config = load(None, {variable(section, key): "some-name"})
            assert getattr(getattr(config, section), key) == "some-name"
        wrong = "white space" if key in TEXTS else "many"
        (fault,) = _faults(None, {variable(section, key): wrong})
        assert fault.startswith(f"{section}.{key} (from {variable(section, key)}): expected ")
        assert fault.endswith(f", found {wrong!r}")

    def test_the_environment_wins_over_the_file(self, tmp_path: Path) -> None:
        """A variable replaces its one key and leaves the file's others."""
        path = _toml(tmp_path, '[learner]\nbits = 20\nalpha = 0.5\n[kafka]\n"client.id" = "file"\n')
        environ = {
            "STREAM_APPLE_LEARNER__BITS": "22",
            "STREAM_APPLE_KAFKA__CLIENT_ID": "variable",
            "PATH": "/bin",
        }
        config = load(path, environ)
        assert (config.learner.bits, config.learner.alpha) == (22, 0.5)
        assert config.kafka == {"bootstrap.servers": "localhost:9092", "client.id": "variable"}

    def test_kafka_properties_pass_with_their_types(self, tmp_path: Path) -> None:
        """Text, numbers and booleans reach the client as they are, quoted dots or not."""
        path = _toml(
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
        path = _toml(
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
        (fault,) = _faults(None, {"STREAM_APPLE_HTTP_PORT": "9400"})
        assert fault.endswith("the nearest known one is STREAM_APPLE_HTTP__PORT")


class TestFaults:
    """What is said about a wrong configuration."""

    @pytest.mark.parametrize(
        ("text", "fault"),
        [
            ("[learner]\nbits = 31", "learner.bits (in {}): expected an integer from 8 to 30, found 31"),
            ("[learner]\nbits = true", "learner.bits (in {}): expected an integer from 8 to 30, found True"),
            ("[learner]\nbits = 18.0", "learner.bits (in {}): expected an integer from 8 to 30, found 18.0"),
            (
                '[learner]\nmethod = "aple"',
                "learner.method (in {}): expected one of " + METHODS + ", found 'aple'",
            ),
            (
                "[learner]\nalpha = 0",
                "learner.alpha (in {}): expected a number above 0 and at most 2, found 0",
            ),
            ("[limits]\nmax_label = inf", "limits.max_label (in {}): expected a finite number, found inf"),
            ("[limits]\nmax_weight = nan", "limits.max_weight (in {}): expected a number above 0, found nan"),
            (
                "[worker]\ncommit_interval = 500",
                f"worker.commit_interval (in {{}}): expected {DURATION}, from 10ms to 30s, found 500",
            ),
            (
                '[worker]\ncommit_interval = "1m"',
                f"worker.commit_interval (in {{}}): expected {DURATION}, from 10ms to 30s, found '1m'",
            ),
            (
                '[topics]\nmodels = "a b"',
                "topics.models (in {}): expected a topic name (1 to 249 of a-z A-Z 0-9 . _ -), found 'a b'",
            ),
            ("[worker]\nidd = 1", "worker.idd (in {}): unknown setting; the nearest known one is id"),
            ("[wrker]\nid = 1", "wrker (in {}): unknown section; the nearest known one is worker"),
            (
                "[zzz]",
                "zzz: unknown section; known are kafka, topics, worker, learner, epochs, http, limits",
            ),
            (
                '[topics]\nmodels = "examples"',
                "topics: expected four different topics, found examples, predictions, dead-letters, examples",
            ),
            (
                "[limits]\nmin_label = 2\nmax_label = 1",
                "limits: expected min_label below max_label, found min_label 2 and max_label 1",
            ),
            (
                "[limits]\nmax_features_per_example = 10",
                "limits: expected max_features_per_example of at least max_features, found 10 and 4096",
            ),
            (
                "[kafka]\nlinger.ms = [1]",
                "kafka.linger.ms (in {}): expected text, a number, true or false, found [1]",
            ),
            (
                '[kafka]\nerror_cb = "f"',
                "kafka.error_cb (in {}): expected a librdkafka property: words joined by dots, found 'f'",
            ),
        ],
    )
    def test_name_expected_found_and_where(self, tmp_path: Path, text: str, fault: str) -> None:
        """One line says which setting, where it was written, what it may be, and what it is."""
        path = _toml(tmp_path, text)
        assert _faults(path, {}) == [fault.format(path)]

    @pytest.mark.parametrize("name", sorted(OWNED))
    def test_properties_of_the_worker_are_refused_with_the_reason(self, name: str) -> None:
        """A property that exactly-once rests on can't be set, and the message says why."""
        (fault,) = _faults(None, {variable("kafka", name): "x"})
        assert fault == (
            f"kafka.{name} (from {variable('kafka', name)}): this property is the worker's own: "
            f"{OWNED[name]}, found 'x'"
        )

    def test_unknown_variables_name_the_nearest(self) -> None:
        """A variable of our prefix that sets nothing is a fault, with and without a section."""
        assert _faults(None, {"STREAM_APPLE_HTTP__PRT": "1"}) == [
            "http.prt (from STREAM_APPLE_HTTP__PRT): unknown setting; the nearest known one is "
            + variable("http", "port")
        ]
        assert _faults(None, {"STREAM_APPLE_WORKER_ID": "1"}) == [
            "STREAM_APPLE_WORKER_ID: unknown variable; the nearest known one is STREAM_APPLE_WORKER__ID"
        ]

    def test_all_are_listed(self, tmp_path: Path) -> None:
        """Every fault of every source is in the one message."""
        path = _toml(tmp_path, '[learner]\nbits = 1\nloss = "hinge"\n[http]\nport = -1\n')
        environ = {"STREAM_APPLE_EPOCHS__LENGTH": "1 hour", "STREAM_APPLE_X": "1"}
        faults = _faults(path, environ)
        assert len(faults) == 5
        assert [fault.split()[0] for fault in faults] == [
            "STREAM_APPLE_X:",
            "learner.loss",
            "learner.bits",
            "epochs.length",
            "http.port",
        ]

    def test_never_show_a_secret(self, tmp_path: Path) -> None:
        """A refused password is not repeated, in the message or in the chain of causes."""
        path = _toml(tmp_path, '[kafka]\nsasl.password = ["hunter2"]\n')
        with pytest.raises(ConfigurationError) as caught:
            load(path, {"STREAM_APPLE_HTTP__PORT": "x"})
        assert "hunter2" not in str(caught.value)
        assert caught.value.__cause__ is None
        assert caught.value.__suppress_context__

    def test_long_values_are_cut(self) -> None:
        """A value of a megabyte does not become a message of a megabyte."""
        (fault,) = _faults(None, {"STREAM_APPLE_LEARNER__BITS": "9x" * 500_000})
        assert len(fault) < 300

    def test_a_missing_secret_is_named(self, tmp_path: Path) -> None:
        """A `file:` value without its file says which setting and which file."""
        (fault,) = _faults(None, {"STREAM_APPLE_KAFKA__SASL_PASSWORD": f"file:{tmp_path}/nope"})
        assert fault == (
            "kafka.sasl.password (from STREAM_APPLE_KAFKA__SASL_PASSWORD): "
            f"expected a readable file {tmp_path}/nope: No such file or directory"
        )

    @pytest.mark.parametrize(
        ("content", "says"),
        [
            (b"[worker", "expected TOML: "),
            (b"bits = 18", "expected a section [bits], found the single value 18"),
            (b"\xff\xfe", "expected UTF-8 text, found other bytes at byte 0"),
        ],
    )
    def test_a_file_that_is_no_configuration(self, tmp_path: Path, content: bytes, says: str) -> None:
        """A file of another form is refused with its path and the reason."""
        path = tmp_path / "config.toml"
        path.write_bytes(content)
        with pytest.raises(ConfigurationError) as caught:
            load(path, {})
        assert str(caught.value).startswith(f"{path}: {says}")

    def test_a_missing_file(self, tmp_path: Path) -> None:
        """A configuration file that is not there is an error, not an empty configuration."""
        with pytest.raises(ConfigurationError, match="No such file"):
            load(tmp_path / "nope.toml", {})

    @pytest.mark.parametrize(("section", "key"), KEYS)
    def test_every_setting_is_described(self, section: str, key: str) -> None:
        """What a setting may be can be said in words for each one."""
        schema = SECTIONS[section].model_json_schema()["properties"][key]
        assert len(expected(schema)) > 8


class TestViews:
    """What other parts take from the configuration."""

    def test_model_settings_are_those_the_model_depends_on(self) -> None:
        """Changing anything about results changes them; changing anything else does not."""
        base = load(None, {}).model_settings()
        unrelated = {
            "STREAM_APPLE_WORKER__COMMIT_INTERVAL": "1s",
            "STREAM_APPLE_HTTP__PORT": "0",
            "STREAM_APPLE_LIMITS__MAX_REJECT_SHARE": "0.9",
            "STREAM_APPLE_LIMITS__MAX_CONSECUTIVE_REJECTS": "5",
            "STREAM_APPLE_KAFKA__CLIENT_ID": "x",
            "STREAM_APPLE_TOPICS__MODELS": "x",
        }
        assert load(None, unrelated).model_settings() == base
        related = {
            "STREAM_APPLE_LEARNER__METHOD": "linear",
            "STREAM_APPLE_LEARNER__LOSS": "logistic",
            "STREAM_APPLE_LEARNER__BITS": "20",
            "STREAM_APPLE_LEARNER__ALPHA": "0.5",
            "STREAM_APPLE_LEARNER__LEARNING_RATE": "0.1",
            "STREAM_APPLE_EPOCHS__LENGTH": "2h",
            "STREAM_APPLE_EPOCHS__MAX_AHEAD": "2d",
            "STREAM_APPLE_LIMITS__MAX_FEATURES": "100",
            "STREAM_APPLE_LIMITS__MAX_FEATURES_PER_EXAMPLE": "70000",
            "STREAM_APPLE_LIMITS__MAX_RECORD_BYTES": "1000",
            "STREAM_APPLE_LIMITS__MAX_WEIGHT": "10",
            "STREAM_APPLE_LIMITS__MIN_LABEL": "0",
            "STREAM_APPLE_LIMITS__MAX_LABEL": "1",
        }
        assert len(related) == sum(map(len, base.values()))
        for name, value in related.items():
            assert load(None, {name: value}).model_settings() != base

    def test_model_settings_are_plain(self) -> None:
        """They go through JSON unchanged, so that a fingerprint can be taken of them."""
        settings = load(None, {}).model_settings()
        assert json.loads(json.dumps(settings)) == settings

    @pytest.mark.parametrize(
        "name",
        [
            "sasl.password",
            "ssl.key.password",
            "ssl.keystore.password",
            "ssl.key.pem",
            "sasl.oauthbearer.client.secret",
            "sasl.oauthbearer.config",
            "sasl.oauthbearer.assertion.private.key.passphrase",
            "sasl.oauthbearer.assertion.private.key.pem",
        ],
    )
    def test_secrets_are_not_shown(self, name: str) -> None:
        """A log of the configuration has no secret in it."""
        config = load(None, {variable("kafka", name): "hunter2"})
        assert config.kafka[name] == "hunter2"
        assert config.redacted()["kafka"] == {"bootstrap.servers": "localhost:9092", name: "***"}

    def test_transactional_ids_differ_between_groups_and_workers(self) -> None:
        """Two deployments on one cluster do not fence each other."""
        ids = {
            load(None, {"STREAM_APPLE_WORKER__GROUP": group, "STREAM_APPLE_WORKER__ID": worker}).worker.transactional_id
            for group in ("a", "b")
            for worker in ("0", "1")
        }
        assert len(ids) == 4

    def test_sections_are_checked_without_a_file_too(self) -> None:
        """A section built in code has the same bounds."""
        with pytest.raises(ValidationError, match="max_features"):
            LimitSettings(max_features=0)
        with pytest.raises(ValidationError, match="Extra inputs"):
            Config.model_validate({"nope": {}})
