"""Secrets: where they may come from, and that no message, log or page repeats them."""

import logging
import re
from pathlib import Path

import pytest
from confluent_kafka import KafkaException, Producer
from support.page_site import Site
from support.waiting import wait_until

from stream_apple.config import conceal, load
from stream_apple.config.secrets import _PUBLIC, HIDDEN, is_secret, remember, shown
from stream_apple.config.sources import variable
from stream_apple.errors import ConfigurationError
from stream_apple.http.application import routes
from stream_apple.http.pages import page_routes

SECRET = "hunter2-Xq9"
KEY = "-----BEGIN PRIVATE KEY-----\nMIGHAgEAMBMGByqGSM49AgEG\n-----END PRIVATE KEY-----\n"

# librdkafka hides these too: the user's name is no secret, nor is the place of a key, nor whom we trust.
SHOWN_BY_US = {"sasl.username", "ssl.key.location", "sasl.oauthbearer.assertion.private.key.file", "ssl.ca.pem"}
TEXTS = sorted(
    (_PUBLIC - {"ssl.truststore.location"})
    | {
        "sasl.oauthbearer.assertion.private.key.passphrase",
        "sasl.oauthbearer.assertion.private.key.pem",
        "sasl.oauthbearer.client.credentials.client.secret",
        "sasl.oauthbearer.client.secret",
        "sasl.oauthbearer.config",
        "sasl.password",
        "ssl.key.password",
        "ssl.key.pem",
        "ssl.keystore.password",
    }
)


def hidden_by_librdkafka(name: str) -> bool | None:
    """Whether its own log of its configuration hides the value; None if this build takes none of the values tried."""
    said: list[str] = []

    class Lines(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            said.append(record.getMessage())

    logger = logging.getLogger(f"configuration.{name}")
    logger.setLevel(logging.DEBUG)
    logger.propagate = False
    logger.addHandler(Lines())
    for value in ("some-text", "1", "PLAIN", "none", "default", "RS256", "true"):
        try:
            client = Producer({"bootstrap.servers": "127.0.0.1:1", "debug": "conf", name: value}, logger=logger)
        except KafkaException:
            continue

        def told(client: Producer = client) -> list[str]:
            client.poll(0.05)
            return [line for line in said if re.search(r"  (sasl|ssl|https)\.\S+ = ", line)]

        lines = wait_until(told, lambda: said, pause_s=0)
        client.close()
        return lines[0].endswith("[redacted]")
    return None


def refused(path: Path | None, **environ: str) -> str:
    """The message for this configuration."""
    with pytest.raises(ConfigurationError) as caught:
        load(path, environ)
    return str(caught.value)


def toml(tmp_path: Path, text: str) -> Path:
    """A configuration file."""
    path = tmp_path / "stream_apple.toml"
    path.write_text(text, encoding="utf-8")
    return path


class TestOrigin:
    """Secrets come from files and the environment."""

    @pytest.mark.parametrize(
        ("name", "value"),
        [
            ("sasl.password", SECRET),
            ("ssl.key.password", SECRET),
            ("ssl.key.pem", KEY),
            ("ssl.certificate.pem", KEY),
            ("sasl.oauthbearer.client.secret", SECRET),
            ("sasl.oauthbearer.config", f"principal=me extension_x={SECRET}"),
            ("sasl.pasword", SECRET),
        ],
    )
    def test_a_secret_in_the_configuration_file_is_refused(self, tmp_path: Path, name: str, value: str) -> None:
        """The message names both ways, and does not repeat it; that a variable wins over it does not help."""
        path = toml(tmp_path, f"[kafka]\n'{name}' = '''{value}'''\n")
        message = refused(path)
        assert f"kafka.{name} (in {path}): " in message
        assert "'file:/path'" in message
        assert variable("kafka", name) in message
        assert value not in message
        assert SECRET not in message
        assert f"kafka.{name} (in {path}): " in refused(path, **{variable("kafka", name): "other-value"})

    def test_the_name_of_a_file_is_accepted(self, tmp_path: Path) -> None:
        """In the configuration file as in the environment."""
        (tmp_path / "pw").write_text(SECRET + "\n")
        path = toml(tmp_path, f'[kafka]\nsasl.password = "file:{tmp_path}/pw"\n')
        assert load(path, {}).kafka["sasl.password"] == SECRET
        found = load(None, {variable("kafka", "sasl.password"): f"file:{tmp_path}/pw"})
        assert found.kafka["sasl.password"] == SECRET

    def test_everything_else_may_stand_in_the_configuration_file(self, tmp_path: Path) -> None:
        """User, mechanism, protocol, places of files, an endpoint, certificates."""
        path = toml(
            tmp_path,
            "[kafka]\nsecurity.protocol = 'SASL_SSL'\nsasl.mechanism = 'PLAIN'\nsasl.username = 'me@example.com'\n"
            "ssl.ca.location = '/ca.pem'\nssl.key.location = '/key.pem'\nssl.ca.pem = '-----BEGIN CERTIFICATE-----'\n"
            "sasl.oauthbearer.token.endpoint.url = 'https://example.com/token?a=b@c'\n",
        )
        config = load(path, {})
        assert config.redacted()["kafka"] == config.kafka

    @pytest.mark.parametrize(
        ("name", "value"),
        [
            ("sasl.oauthbearer.token.endpoint.url", f"https://me:{SECRET}@example.com/token"),
            ("bootstrap.servers", f"one:9092,SASL_SSL://me:{SECRET}@two:9093"),
            ("bootstrap.servers", f"me:{SECRET}@one:9092"),
        ],
    )
    def test_an_address_has_no_password(self, name: str, value: str) -> None:
        """No client of Kafka reads it there; it would be shown wherever the address is."""
        message = refused(None, **{variable("kafka", name): value})
        assert f"{name}: expected an address without user and password" in message
        assert SECRET not in message


class TestNames:
    """Which properties are secrets."""

    def test_all_that_librdkafka_hides_are_hidden(self) -> None:
        """Of each property about security, the client of this installation says whether it hides it."""
        verdicts = {name: verdict for name in TEXTS if (verdict := hidden_by_librdkafka(name)) is not None}
        assert len(verdicts) > 30
        hidden = {name for name, verdict in verdicts.items() if verdict}
        assert {"sasl.password", "ssl.key.pem", "sasl.oauthbearer.client.secret"} <= hidden
        assert {name for name in hidden if not is_secret(name)} <= SHOWN_BY_US

    @pytest.mark.parametrize("name", ["sasl.passwrd", "ssl.key", "sasl_password", "SASL.PASSWORD", "sasl.jaas.config"])
    def test_what_may_be_a_misspelled_secret_is_hidden(self, name: str) -> None:
        """Of the properties about security, only those are shown that are known to be harmless."""
        assert is_secret(name)
        assert shown(name, SECRET) == HIDDEN

    @pytest.mark.parametrize("name", [*sorted(_PUBLIC), "security.protocol", "linger.ms", "client.id"])
    def test_what_is_none_is_shown(self, name: str) -> None:
        """A log without mechanism and user would be of no use to whoever mends it."""
        assert shown(name, "text") == "text"


class TestPlaces:
    """Where a secret might be repeated."""

    @pytest.mark.parametrize(
        ("text", "environ"),
        [
            (f"password = '{SECRET}'\n", {}),
            (f"sasl.password = '{SECRET}'\n", {}),
            (f"[worker]\nsasl.password = '{SECRET}'\n", {}),
            (f"[kafka]\nsasl.password = ['{SECRET}']\n", {}),
            (f"[kafka]\nsasl_password = '{SECRET}'\n", {}),
            ("", {"STREAM_APPLE_KAFKA_SASL_PASSWORD": SECRET}),
            ("", {"STREAM_APPLE_WORKER__SASL_PASSWORD": SECRET}),
            (f"[kafka]\nsasl.password = '{SECRET}", {}),
        ],
    )
    def test_a_fault_does_not_repeat_it(self, tmp_path: Path, text: str, environ: dict[str, str]) -> None:
        """Also where it has been written in a wrong place."""
        assert SECRET not in refused(toml(tmp_path, text), **environ)

    def test_text_of_others_does_not_repeat_it(self) -> None:
        """Whole, in part, escaped, cut off: what a client may do with what it was given."""
        token = "eyJhbGciOiJub25lIn0." + "Abc9" * 40
        load(
            None,
            {
                variable("kafka", "sasl.password"): 'quo"ted\\pass',
                variable("kafka", "ssl.key.pem"): KEY,
                variable("kafka", "sasl.oauthbearer.config"): f"principal=me token={token}",
            },
        )
        assert conceal('found quo"ted\\pass here') == f"found {HIDDEN} here"
        assert conceal('{"error": "quo\\"ted\\\\pass"}') == f'{{"error": "{HIDDEN}"}}'
        assert "MIGHAgEAMBMGByqGSM49AgEG" not in conceal(f"bad key: {KEY}")
        assert "MIGHAgEAMBMGByqGSM49AgEG" not in conceal("line 2: MIGHAgEAMBMGByqGSM49AgEG")
        assert conceal(f"beginning at: token={token[:100]}") == f"beginning at: {HIDDEN}"

    def test_text_without_a_secret_stays_as_it_is(self) -> None:
        """What is short, or no secret's value, is not replaced."""
        load(None, {variable("kafka", "sasl.password"): "abc", variable("kafka", "sasl.username"): "worker-user-1"})
        remember("linger.ms", "1000000")
        assert conceal("abc worker-user-1 1000000") == "abc worker-user-1 1000000"


def test_the_http_port_only_reads() -> None:
    """No route has a method but these two; all others are answered with 405 (tests/http/test_application.py)."""
    site = Site()
    with site.server:
        found = [*routes(site.health, site.metrics.registry), *page_routes(site.status)]
    assert {method for route in found for method in route.methods or ["any"]} == {"GET", "HEAD"}
