"""The settings: their defaults and bounds, and what other parts take from them."""

import json
import random
from pathlib import Path

import pytest
from config.refusals import written
from pydantic import ValidationError

from stream_apple.app.model_factories import settings_of
from stream_apple.config import Config, LimitSettings, load
from stream_apple.config.loading import config_of
from stream_apple.config.sources import variable
from stream_apple.errors import ConfigurationError
from stream_apple.learners.apple.options import Options
from stream_apple.learners.hashed.options import HashedOptions
from stream_apple.learners.tuples.options import TupleOptions
from stream_apple.records.mapping import OWN_MESSAGE, InputMapping

VALUES: dict[str, dict[str, list[object]]] = {
    "learner": {
        "method": ["apple", "linear", "quadratic", "cubic"],
        "loss": ["squared", "logistic"],
        "mixture": [True, False],
        "paper": [{}, {"selection": "ssm"}, {"alpha": 0.5}],
        "max_products": [1000, 500],
        "drift": ["restart", "ignore"],
        "mergeable": [False, True],
        "ngrams": [{}, {"t": 2}, {"*": 1}],
        "discretise": ["spline", "none"],
        "pending_labels": [2000, 0],
    },
    "input": {
        "label": ["label", "clicked", ""],
        "weight": ["weight", "w"],
        "id": ["id", "request", ""],
        "features": ["features", "*"],
        "unreadable": ["refuse", "leave_out"],
    },
    "output": {"format": ["msgpack", "json"], "probabilities": ["one", "all"]},
}
"""Settings that decide about results, with their defaults and other values."""

OF_THE_PAPER = ("alpha", "selection", "fallback", "steps", "theorem1_lambda")
"""The settings of `[learner.paper]`."""

YES_OR_NO = '[learner]\nloss = "logistic"\n'
THREE_CLASSES = '[learner]\nloss = "softmax"\nclasses = 3\n'


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
                "merges": "merges",
            },
            "worker": {
                "group": "stream-apple",
                "id": "",
                "commit_interval": "500ms",
                "commit_records": 50_000,
                "snapshot_interval": "5m",
                "fetch_records": 1000,
                "threads": 0,
                "on_stop": "stay",
                "accept_gap": [],
                "skip": [],
                "from_model": "",
            },
            "input": {
                "label": "label",
                "label_map": {},
                "weight": "weight",
                "id": "id",
                "timestamp": "",
                "features": "features",
                "separator": ".",
                "ignore": [],
                "categories": [],
                "numbers": [],
                "times": [],
                "time_zone": "UTC",
                "unreadable": "refuse",
            },
            "registry": {},
            "learner": {
                "system": "apple",
                "method": "apple",
                "loss": "squared",
                "mixture": True,
                "bits": 18,
                "max_products": 1000,
                "max_degree": 4,
                "drift": "restart",
                "mergeable": False,
                "paper": {
                    "alpha": 1.0,
                    "selection": "weight",
                    "fallback": False,
                    "steps": "adaptive",
                    "theorem1_lambda": 0.01,
                },
                "learning_rate": 0.5,
                "pending_labels": 2_000,
                "discretise": "spline",
                "ngrams": {},
                "classes": 0,
                "tuples": {
                    "loss": "logistic",
                    "order": 2,
                    "selection": None,
                    "selection_share": 1.0,
                    "hierarchical": False,
                    "warm_start": None,
                    "discretise": "quantile",
                    "bits": None,
                    "learning_rate": 0.5,
                },
                "hashed": {
                    "loss": "logistic",
                    "bits": 18,
                    "learning_rate": 0.5,
                    "descent": "adaptive",
                    "l2": 0.0,
                    "l1": 0.0,
                    "personalise": "",
                },
            },
            "epochs": {"length": "1h", "max_ahead": "7d"},
            "output": {"format": "msgpack", "probabilities": "one"},
            "merge": {
                "mode": "off",
                "every": 1,
                "parents": "votes",
                "patience": "10s",
                "max_hold": "1m",
            },
            "join": {
                "impressions": "impressions",
                "outcomes": "outcomes",
                "dead_letters": "join-dead-letters",
                "group": "stream-apple-join",
                "wait": "1h",
                "tolerance": "1m",
                "default_label": "none",
                "several": "last",
                "emit": "when_due",
                "max_impressions": 200_000,
                "max_outcomes": 2_000_000,
                "outcome_id": "",
                "outcome_label": "",
                "outcome_label_map": {},
                "outcome_weight": "",
                "outcome_timestamp": "",
            },
            "http": {"host": "0.0.0.0", "port": 9400},
            "serve": {
                "name": "",
                "follow": "log",
                "host": "0.0.0.0",
                "port": 8080,
                "max_body_bytes": 4_000_000,
                "max_pending_body_bytes": 64_000_000,
                "max_instances": 1_000,
                "max_lag": "10s",
            },
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
        shown |= {f"learner.{name}": shown["learner"].pop(name) for name in ("paper", "tuples", "hashed")}
        environ = {
            variable(section, key): ", ".join(value) if isinstance(value, list) else str(value)
            for section, table in shown.items()
            for key, value in table.items()
            if value is not None  # the default is that of other settings
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

    def test_skipped_records(self, tmp_path: Path) -> None:
        """As the names of gaps."""
        path = tmp_path / "stream_apple.toml"
        path.write_text('[worker]\nskip = ["3@12345", "0@7"]\n')
        assert load(path, {}).worker.skipped_records == frozenset({(3, 12345), (0, 7)})
        assert load(None, {"STREAM_APPLE_WORKER__SKIP": "3@12345"}).worker.skipped_records == frozenset({(3, 12345)})
        with pytest.raises(ConfigurationError, match=r"worker.skip .*expected records as .*found '3:1'"):
            load(None, {"STREAM_APPLE_WORKER__SKIP": "3:1"})

    def test_a_list_of_the_environment(self) -> None:
        """It may be written as in TOML: as patterns its brackets and quotes would match nothing, and say nothing."""
        for text, expected in (
            ("a, [b-d]*", ("a", "[b-d]*")),
            ('["a", "[b-d]*"]', ("a", "[b-d]*")),
            ("[abc]", ("[abc]",)),
            ("[12]", ("[12]",)),
            ("'a,b'", ("'a", "b'")),
            ("[]", ()),
        ):
            assert load(None, {"STREAM_APPLE_INPUT__IGNORE": text}).input.ignore == expected

    def test_can_not_be_changed(self) -> None:
        """Sections are frozen."""
        with pytest.raises(ValidationError, match="frozen"):
            load(None, {}).worker.id = "other"

    def test_are_not_shared(self) -> None:
        """Two configurations do not share their Kafka properties."""
        first = load(None, {})
        first.kafka["client.id"] = "mine"
        assert "client.id" not in load(None, {}).kafka


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
            "STREAM_APPLE_LEARNER__MIXTURE": "false",
            "STREAM_APPLE_LEARNER__MERGEABLE": "true",
            "STREAM_APPLE_LEARNER__MAX_PRODUCTS": "500",
            "STREAM_APPLE_LEARNER__PENDING_LABELS": "100",
            "STREAM_APPLE_LEARNER__MAX_DEGREE": "3",
            "STREAM_APPLE_LEARNER__DRIFT": "ignore",
            "STREAM_APPLE_LEARNER__DISCRETISE": "none",
            "STREAM_APPLE_LEARNER__NGRAMS": "text=2",
            "STREAM_APPLE_LEARNER__BITS": "20",
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
        known = {variable(section, key) for section in ("learner", "epochs", "limits") for key in base[section]}
        assert known - related.keys() == {
            variable("learner", key)
            for key in ("system", "classes", *OF_THE_PAPER)  # need others
        }
        for name, value in related.items():
            assert load(None, {name: value}).model_settings() != base

    def test_settings_of_the_paper_count(self) -> None:
        """Each is an option of the model, by its own name."""
        plain = {"STREAM_APPLE_LEARNER__MIXTURE": "false"}
        base = load(None, plain).model_settings()
        for name, value in (("ALPHA", "0.5"), ("SELECTION", "ssm"), ("FALLBACK", "true"), ("THEOREM1_LAMBDA", "0.1")):
            settings = load(None, {**plain, f"STREAM_APPLE_LEARNER__PAPER__{name}": value}).model_settings()
            assert settings.keys() == base.keys()
            assert settings["learner"].keys() == base["learner"].keys()
            assert settings["learner"] != base["learner"]

    def test_two_models_have_two_names(self) -> None:
        """Whatever is combined: settings that make other models, or other answers, name them differently."""
        draw, named, taken = random.Random(1), dict[str, tuple[object, ...]](), 0
        for _ in range(1_600):
            sections = {
                section: {key: draw.choice(values[key]) for key in draw.sample(sorted(values), draw.randint(0, 2))}
                for section, values in VALUES.items()
            }
            try:
                config = config_of(sections, "here")
            except ConfigurationError:
                continue
            settings = settings_of(config)
            made = (settings.options, settings.limits, settings.mapping, settings.predictions)
            name = json.dumps(config.model_settings(), sort_keys=True)
            assert named.setdefault(name, made) == made, sections
            taken += 1
        assert taken > 400
        assert len(named) > 200

    def test_what_contradicts_itself_is_refused(self) -> None:
        """Only apple has what can be mixed."""
        with pytest.raises(ConfigurationError, match="mixture: expected false with method linear, found True"):
            load(None, {"STREAM_APPLE_LEARNER__MIXTURE": "true", "STREAM_APPLE_LEARNER__METHOD": "linear"})

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

    def test_a_model_is_served_as_its_group_or_as_it_is_called(self) -> None:
        """Who asks need not know which group answers; an address must be one."""
        config = load(None, {"STREAM_APPLE_WORKER__GROUP": "clicks-7"})
        assert config.served_as == "clicks-7"
        named = load(None, {"STREAM_APPLE_WORKER__GROUP": "clicks-7", "STREAM_APPLE_SERVE__NAME": "clicks"})
        assert (named.served_as, named.worker.group) == ("clicks", "clicks-7")
        with pytest.raises(ConfigurationError, match="or nothing for that of the group"):
            load(None, {"STREAM_APPLE_SERVE__NAME": "clicks/7"})

    def test_sections_are_checked_without_a_file_too(self) -> None:
        """A section built in code has the same bounds."""
        with pytest.raises(ValidationError, match="max_features"):
            LimitSettings(max_features=0)
        with pytest.raises(ValidationError, match="Extra inputs"):
            Config.model_validate({"nope": {}})


class TestSystems:
    """Which learner learns."""

    def test_each_has_options_of_its_own(self, tmp_path: Path) -> None:
        """By default apple; the others by their names, from sections of their own."""
        assert Config().learner.options() == Options()
        path = tmp_path / "stream_apple.toml"
        path.write_text('[learner]\nsystem = "tuples"\n[learner.tuples]\norder = 3\n')
        assert load(path, {}).learner.options(100) == TupleOptions(order=3, max_features_per_example=100)
        environ = {"STREAM_APPLE_LEARNER__SYSTEM": "hashed", "STREAM_APPLE_LEARNER__HASHED__L1": "0.001"}
        assert load(None, environ).learner.options() == HashedOptions(l1=0.001)

    @pytest.mark.parametrize(
        ("text", "fault"),
        [
            ('system = "hashed"\nbits = 12\n', "learner.system: expected 'apple' with learner.bits, found 'hashed'"),
            (
                "[learner.tuples]\norder = 3\n",
                "learner.system: expected 'tuples' with learner.tuples.order, found 'apple'",
            ),
            (
                'system = "tuples"\n[learner.paper]\nfallback = true\n',
                "learner.system: expected 'apple' with learner.paper.fallback, found 'tuples'",
            ),
            ('system = "tuples"\n[learner.tuples]\nordr = 3\n', "unknown setting; the nearest known one is order"),
            (
                'system = "tuples"\n[learner.tuples]\nloss = "squared"\nselection = "mi"\n',
                "expected cv with loss squared, found 'mi'",
            ),
            (
                'system = "tuples"\n[merge]\nmode = "average"\n',
                "expected learner.system = apple, found tuples: only its models have a common part",
            ),
        ],
    )
    def test_settings_of_another_are_refused(self, tmp_path: Path, text: str, fault: str) -> None:
        """They would have no effect."""
        path = tmp_path / "stream_apple.toml"
        path.write_text("[learner]\n" + text)
        with pytest.raises(ConfigurationError) as caught:
            load(path, {})
        assert fault in str(caught.value)

    def test_they_name_the_model(self) -> None:
        """With all of their settings."""
        environ = {"STREAM_APPLE_LEARNER__SYSTEM": "tuples", "STREAM_APPLE_LEARNER__TUPLES__ORDER": "1"}
        found = load(None, environ).model_settings()["learner"]
        assert (found["system"], found["order"]) == ("tuples", 1)
        assert "method" not in found
        assert Config().model_settings()["learner"]["system"] == "apple"


class TestAddresses:
    """Where the brokers are: the client takes any text, and would look for it without end."""

    @pytest.mark.parametrize(
        "text",
        ["a", "a:1", "a.b-c_d:65535", "a:1,b:2", " a:1 , b:2 ,", "[::1]:9092", "[fe80::1%eth0]:1", "10.0.0.1:9092",
         "SASL_SSL://a:9093", "PLAINTEXT://[::1]:1"],
    )  # fmt: skip
    def test_of_any_form_are_taken(self, text: str) -> None:
        """Names and numbers of both versions, with or without port or protocol."""
        assert load(None, {variable("kafka", "bootstrap.servers"): text}).kafka["bootstrap.servers"] == text

    @pytest.mark.parametrize(
        "text",
        [
            "",
            " ",
            ",",
            "a b",
            "a:0",
            "a:65536",
            "a:999999",
            "a:b",
            ":9092",
            "http://",
            "a:1 b:2",
            "http://a:9092",
            "a:1,kafka://b:1",
        ],
    )
    def test_of_no_form_are_refused(self, text: str) -> None:
        """With the form that is expected, and what was found."""
        with pytest.raises(ConfigurationError) as caught:
            load(None, {variable("kafka", "bootstrap.servers"): text})
        expected = "kafka: bootstrap.servers: expected addresses such as host:9092, separated by commas, "
        assert str(caught.value).endswith(f"{expected}found {text!r}")


class TestNgrams:
    """A table in the file, text in the environment."""

    def test_both_ways(self, tmp_path: Path) -> None:
        """They are the same model, whatever the order of the names."""
        path = tmp_path / "stream_apple.toml"
        path.write_text('[learner]\nngrams = { title = 3, text = 2, "" = 2 }\n')
        from_file = load(path, {})
        assert from_file.learner.ngrams == {"title": 3, "text": 2, "": 2}
        from_text = load(None, {"STREAM_APPLE_LEARNER__NGRAMS": "=2,text=2,title=3"})
        assert from_text.model_settings() == from_file.model_settings()
        assert from_file.model_settings()["learner"]["ngrams"] == {"": 2, "text": 2, "title": 3}
        assert load(None, {}).model_settings()["learner"]["ngrams"] == {}

    @pytest.mark.parametrize("value", ["2", "{ text = 9 }", "{ text = 2.5 }", "{ text = true }", '"text"', "[2]"])
    def test_what_is_refused(self, tmp_path: Path, value: str) -> None:
        """By name, and with an example."""
        path = tmp_path / "stream_apple.toml"
        path.write_text(f"[learner]\nngrams = {value}\n")
        with pytest.raises(
            ConfigurationError, match=r"learner.ngrams \(in .*\): expected namespaces and numbers up to 5"
        ):
            load(path, {})

    def test_an_example_has_room_for_all_of_them(self) -> None:
        """Limits that could cut them off, or contradictions, end every command."""
        environ = {"STREAM_APPLE_LEARNER__NGRAMS": "text=4", "STREAM_APPLE_LIMITS__MAX_FEATURES": "16385"}
        with pytest.raises(
            ConfigurationError, match=r"learner.ngrams, .*at least 4 \* max_features = 65540, found 65536"
        ):
            load(None, environ)
        assert load(None, environ | {"STREAM_APPLE_LIMITS__MAX_FEATURES": "16384"}).learner.ngrams == {"text": 4}


class TestShapesOfWhatIsJoined:
    """Which fields of impressions and of outcomes are what."""

    def test_without_settings_they_are_the_product_s_own(self) -> None:
        """Kernels read them; with a registry, any of them may be framed."""
        plain = load(None, {variable("join", "wait"): "1h"})
        assert (plain.impression_shape, plain.outcome_shape) == (None, None)
        framed = load(None, {variable("registry", "url"): "http://registry:8081"})
        assert (framed.impression_shape, framed.outcome_shape) == (OWN_MESSAGE, OWN_MESSAGE)

    def test_outcomes_are_like_impressions_but_where_it_is_said(self, tmp_path: Path) -> None:
        """Names of fields are those of `input`; features and times are none of theirs."""
        text = '[input]\nid = "request"\nlabel = "clicked"\nlabel_map = {yes = 1}\ntimestamp = "at"\nfeatures = "*"\n'
        config = load(written(tmp_path, text + '[join]\noutcome_label = "event"\n'), {})
        assert config.impression_shape == config.input.mapping()
        assert config.outcome_shape == InputMapping(label="event", id="request", label_map={"yes": 1})
        text += (
            '[join]\noutcome_id = "of"\noutcome_weight = "w"\noutcome_timestamp = "then"\noutcome_label_map = {y = 1}'
        )
        assert load(written(tmp_path, text), {}).outcome_shape == InputMapping(
            label="clicked", weight="w", id="of", timestamp="then", label_map={"y": 1}
        )

    @pytest.mark.parametrize(("learner", "wrong"), [(YES_OR_NO, "2"), (THREE_CLASSES, "3"), (THREE_CLASSES, "-1")])
    def test_labels_that_the_loss_does_not_know(self, tmp_path: Path, learner: str, wrong: str) -> None:
        """Every record with such a label would be a dead letter."""
        with pytest.raises(
            ConfigurationError, match=f"input.label_map: expected .* with learner.loss.*, found {wrong}"
        ):
            load(written(tmp_path, f"{learner}[input]\nlabel_map = {{a = 1, b = {wrong}}}"), {})
        load(written(tmp_path, f"{learner}[input]\nlabel_map = {{a = 1, b = 0}}\n[join]\ndefault_label = 0"), {})
        load(written(tmp_path, f"[input]\nlabel_map = {{a = 1, b = {wrong}}}"), {})

    @pytest.mark.parametrize(
        ("text", "words"),
        [
            ('[input]\nid = ""', "input.id: expected the path of a field, by which"),
            ('[input]\nlabel = ""', "input.label: expected the path of a field, where the label"),
            ('[input]\nweight = ""\n[join]\noutcome_weight = "w"', "input.weight: expected the path of a field, where"),
            ('[join]\nemit = "on_outcome"', "join.emit, join.several: expected several = first"),
            ('[join]\ngroup = "stream-apple"', "join.group, worker.group: .*, found 'stream-apple' twice"),
            ('[join]\noutcome_id = "label"', "join.outcome_id, .* found 'label' twice"),
            (
                "[input]\nlabel_map = {yes = 1, no = 0}\n[join]\ndefault_label = -1",
                "join.default_label: expected a number of input.label_map, one of 1, 0, or none, found -1",
            ),
            (f"{YES_OR_NO}[join]\ndefault_label = 0.5", "join.default_label: expected labels of 1 or -1 .*, found 0.5"),
            (f"{THREE_CLASSES}[join]\ndefault_label = -1", "join.default_label: .* from 0 to 2 with .*, found -1"),
            (f"{THREE_CLASSES}[join]\noutcome_label_map = {{a = 1.5}}", "join.outcome_label_map: .*, found 1.5"),
            (f"{THREE_CLASSES}[join]\nseveral = 'sum'", "join.several: expected first, last or max with .* = softmax"),
        ],
    )
    def test_what_can_not_be_joined(self, tmp_path: Path, text: str, words: str) -> None:
        """It is refused where there is a section `join`, and nowhere else."""
        joined = text if "[join]" in text else f"{text}\n[join]\nwait = '1h'"
        with pytest.raises(ConfigurationError, match=words):
            load(written(tmp_path, joined), {})
        load(written(tmp_path, text.partition("[join]")[0]), {})
