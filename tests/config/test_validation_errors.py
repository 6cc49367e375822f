"""What is said about a wrong configuration."""

from pathlib import Path

import pytest
from config.refusals import KEYS, faults_of, written

from stream_apple.config import Config, load
from stream_apple.config.passed_through import OWNED
from stream_apple.config.sources import variable
from stream_apple.config.validation_errors import SECTIONS, expected
from stream_apple.errors import ConfigurationError

DURATION = "a duration such as '250ms', '5m' or '1h30m'"
TOPIC = "a topic name (1 to 249 of a-z A-Z 0-9 . _ -, but not '.', '..' or a topic of Kafka's own)"
METHODS = "'apple', 'linear', 'quadratic', 'cubic'"


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
                "[learner.paper]\nalpha = 0",
                "learner.paper.alpha (in {}): expected a number above 0 and at most 2, found 0",
            ),
            (
                "[limits]\nmax_label = inf",
                "limits.max_label (in {}): expected a number from -1e+18 to 1e+18, found inf",
            ),
            (
                "[limits]\nmax_weight = nan",
                "limits.max_weight (in {}): expected a number above 0 and at most 1e+12, found nan",
            ),
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
                "topics.models (in {}): expected " + TOPIC + ", found 'a b'",
            ),
            ('[topics]\nmodels = ".."', "topics.models (in {}): expected " + TOPIC + ", found '..'"),
            ('[topics]\nexamples = "."', "topics.examples (in {}): expected " + TOPIC + ", found '.'"),
            (
                '[topics]\npredictions = "__consumer_offsets"',
                "topics.predictions (in {}): expected " + TOPIC + ", found '__consumer_offsets'",
            ),
            ("[worker]\nidd = 1", "worker.idd (in {}): unknown setting; the nearest known one is id"),
            (
                "[worker]\nbits = 18",
                (
                    "worker.bits (in {}): unknown setting; another section has it: learner.bits, learner.tuples.bits, "
                    "learner.hashed.bits"
                ),
            ),
            (
                '[learner]\nmode = "average"',
                "learner.mode (in {}): unknown setting; another section has it: merge.mode",
            ),
            (
                "bits = 18",
                (
                    "bits (in {}): expected the line of its section before it, [learner] or [learner.tuples] or "
                    "[learner.hashed], found none"
                ),
            ),
            ("port = 1", "port (in {}): expected the line of its section before it, [http] or [serve], found none"),
            ("btis = 18", "btis (in {}): expected the line of its section before it, such as [learner], found none"),
            ("learner = 18", "learner (in {}): expected a section [learner], found the single value 18"),
            ("[wrker]\nid = 1", "wrker (in {}): unknown section; the nearest known one is worker"),
            (
                "[zzz]",
                f"zzz: unknown section; known are {', '.join(Config.model_fields)}",
            ),
            (
                '[topics]\nmodels = "examples"',
                (
                    "topics: expected four different topics ('.' counts as '_'), "
                    "found examples, predictions, dead-letters, examples"
                ),
            ),
            (
                '[topics]\nexamples = "a.b"\nmodels = "a_b"',
                (
                    "topics: expected four different topics ('.' counts as '_'), "
                    "found a.b, predictions, dead-letters, a_b"
                ),
            ),
            (
                '[kafka]\nclient.id = "a\\u0000b"',
                (
                    "kafka.client.id (in {}): expected text in UTF-8 without NUL, where the client would cut it, "
                    "found 'a\\x00b'"
                ),
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
        path = written(tmp_path, text)
        assert faults_of(path, {}) == [fault.format(path)]

    @pytest.mark.parametrize("name", sorted(OWNED))
    def test_properties_of_the_worker_are_refused_with_the_reason(self, name: str) -> None:
        """A property that exactly-once rests on can't be set, and the message says why."""
        (fault,) = faults_of(None, {variable("kafka", name): "x"})
        assert fault == (
            f"kafka.{name} (from {variable('kafka', name)}): this property is the worker's own: "
            f"{OWNED[name]}, found 'x'"
        )

    def test_unknown_variables_name_the_nearest(self) -> None:
        """A variable of our prefix that sets nothing is a fault, with and without a section."""
        assert faults_of(None, {"STREAM_APPLE_HTTP__PRT": "1"}) == [
            "http.prt (from STREAM_APPLE_HTTP__PRT): unknown setting; the nearest known one is "
            + variable("http", "port")
        ]
        assert faults_of(None, {"STREAM_APPLE_WORKER__BITS": "18"}) == [
            "worker.bits (from STREAM_APPLE_WORKER__BITS): unknown setting; another section has it: "
            + ", ".join(variable(section, "bits") for section in ("learner", "learner.tuples", "learner.hashed"))
        ]
        assert faults_of(None, {"STREAM_APPLE_WORKER_ID": "1"}) == [
            "STREAM_APPLE_WORKER_ID: unknown variable; the nearest known one is STREAM_APPLE_WORKER__ID"
        ]

    @pytest.mark.parametrize(
        ("name", "wanted"),
        [
            ("stream_apple__worker__id", "STREAM_APPLE_WORKER__ID"),
            ("stream_apple_worker__id", "STREAM_APPLE_WORKER__ID"),
            ("STREAM_APPLE_worker__id", "STREAM_APPLE_WORKER__ID"),
            ("Stream_Apple_Kafka__sasl_password", "STREAM_APPLE_KAFKA__SASL_PASSWORD"),
            ("stream_apple_wrkr_id", "STREAM_APPLE_WORKER__ID"),
        ],
    )
    def test_variables_in_small_letters_are_named(self, name: str, wanted: str) -> None:
        """Nobody sets such a variable for nothing: it is a fault, and is not taken for a setting."""
        assert faults_of(None, {name: "hunter2"}) == [
            f"{name}: expected a variable in capital letters, such as {wanted}"
        ]

    def test_bytes_that_are_no_text(self) -> None:
        """Python has bytes of the environment that are no UTF-8 as surrogates, which no client takes."""
        (fault,) = faults_of(None, {"STREAM_APPLE_KAFKA__CLIENT_ID": "a\udcffb"})
        assert fault.startswith("kafka.client.id (from STREAM_APPLE_KAFKA__CLIENT_ID): expected text in UTF-8 ")
        assert fault.isascii()

    def test_all_are_listed(self, tmp_path: Path) -> None:
        """Every fault of every source is in the one message."""
        path = written(tmp_path, '[learner]\nbits = 1\nloss = "hinge"\n[http]\nport = -1\n')
        environ = {"STREAM_APPLE_EPOCHS__LENGTH": "1 hour", "STREAM_APPLE_X": "1"}
        faults = faults_of(path, environ)
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
        path = written(tmp_path, '[kafka]\nsasl.password = ["hunter2"]\n')
        with pytest.raises(ConfigurationError) as caught:
            load(path, {"STREAM_APPLE_HTTP__PORT": "x"})
        assert "hunter2" not in str(caught.value)
        assert caught.value.__cause__ is None
        assert caught.value.__suppress_context__

    def test_long_values_are_cut(self) -> None:
        """A value of a megabyte does not become a message of a megabyte."""
        (fault,) = faults_of(None, {"STREAM_APPLE_LEARNER__BITS": "9x" * 500_000})
        assert len(fault) < 300

    def test_a_missing_secret_is_named(self, tmp_path: Path) -> None:
        """A `file:` value without its file says which setting and which file."""
        (fault,) = faults_of(None, {"STREAM_APPLE_KAFKA__SASL_PASSWORD": f"file:{tmp_path}/nope"})
        assert fault == (
            "kafka.sasl.password (from STREAM_APPLE_KAFKA__SASL_PASSWORD): "
            f"expected a readable file {tmp_path}/nope: No such file or directory"
        )

    @pytest.mark.parametrize(
        ("content", "says"),
        [
            (b"[worker", "expected TOML: "),
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
