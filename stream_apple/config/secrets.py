"""Secrets: which values are secret, and how they are hidden in output.

A secret comes from a file or from the environment, never from the configuration file itself. Code that prints a setting
calls `shown`; `conceal` is for text of others, such as an error of librdkafka that repeats what it was given.
"""

import re
from base64 import b64encode

HIDDEN = "***"

_PARTS = (
    "password",
    "passphrase",
    "secret",
    "key.pem",
    "jaas.config",
    "oauthbearer.config",
    "auth.user.info",
    "auth.token",
)

# Properties of authentication and encryption that are not secret; an unknown one may be a misspelled password, and is
# hidden.
_DELICATE = ("sasl.", "ssl.", "https.")
_PUBLIC = frozenset(
    {
        "https.ca.location",
        "https.ca.pem",
        "sasl.kerberos.keytab",
        "sasl.kerberos.kinit.cmd",
        "sasl.kerberos.min.time.before.relogin",
        "sasl.kerberos.principal",
        "sasl.kerberos.service.name",
        "sasl.mechanism",
        "sasl.mechanisms",
        "sasl.oauthbearer.assertion.algorithm",
        "sasl.oauthbearer.assertion.claim.aud",
        "sasl.oauthbearer.assertion.claim.exp.seconds",
        "sasl.oauthbearer.assertion.claim.iss",
        "sasl.oauthbearer.assertion.claim.jti.include",
        "sasl.oauthbearer.assertion.claim.nbf.seconds",
        "sasl.oauthbearer.assertion.claim.sub",
        "sasl.oauthbearer.assertion.file",
        "sasl.oauthbearer.assertion.jwt.template.file",
        "sasl.oauthbearer.assertion.private.key.file",
        "sasl.oauthbearer.client.credentials.client.id",
        "sasl.oauthbearer.client.id",
        "sasl.oauthbearer.extensions",
        "sasl.oauthbearer.grant.type",
        "sasl.oauthbearer.metadata.authentication.type",
        "sasl.oauthbearer.method",
        "sasl.oauthbearer.scope",
        "sasl.oauthbearer.sub.claim.name",
        "sasl.oauthbearer.token.endpoint.url",
        "sasl.username",
        "ssl.ca.certificate.stores",
        "ssl.ca.location",
        "ssl.ca.pem",
        "ssl.certificate.location",
        "ssl.certificate.pem",
        "ssl.cipher.suites",
        "ssl.crl.location",
        "ssl.curves.list",
        "ssl.endpoint.identification.algorithm",
        "ssl.engine.id",
        "ssl.engine.location",
        "ssl.key.location",
        "ssl.keystore.location",
        "ssl.providers",
        "ssl.sigalgs.list",
        "ssl.truststore.location",
    }
)

_BASIC = "auth.user.info"
"""A property whose value is sent as HTTP's header for basic authentication, in base64."""
_PRIVATE_KEY = re.compile(r"-----BEGIN [A-Z ]*PRIVATE KEY-----")
_ADDRESSES = ("bootstrap.servers", "metadata.broker.list")
_CREDENTIALS = re.compile(r"//[^/\s]*@")

_SHORTEST = 4  # shorter ones are in every line by chance
_WORD = 8
_HEAD = 32

_concealed: dict[str, re.Pattern[str]] = {}


def is_secret(name: str) -> bool:
    """Return whether the value of this property of a client, or of one that it may be a misspelling of, is secret."""
    name = name.lower().replace("_", ".")
    return _is_certainly_secret(name) or (name.startswith(_DELICATE) and name not in _PUBLIC)


def holds_key(value: object) -> bool:
    """Return whether there is a private key in the value, as when it stands in one file with its certificate."""
    return isinstance(value, str) and bool(_PRIVATE_KEY.search(value))


def has_credentials(name: str, value: object) -> bool:
    """Return whether the value is an address with a user or a password in it, which no client of Kafka reads."""
    if not isinstance(value, str) or is_secret(name):
        return False
    return bool(_CREDENTIALS.search(value)) or (name in _ADDRESSES and "@" in value)


def shown(name: str, value: object) -> object:
    """Return the value, or HIDDEN if it must not be shown."""
    return HIDDEN if is_secret(name) or holds_key(value) or has_credentials(name, value) else value


def remember(name: str, value: object) -> None:
    """Have `conceal` hide this value from now on, if it is a secret."""
    if not isinstance(value, str) or not (_is_certainly_secret(name.lower()) or holds_key(value)):
        return
    # A part is repeated as well as the whole: a line of a key, or the rest of a list from a fault on.
    parts = [value, *(word for word in value.split() if len(word) >= _WORD)]
    if _BASIC in name.lower():
        parts += [value.partition(":")[2], b64encode(value.encode()).decode()]
    for part in parts:
        if len(part) >= _SHORTEST:
            _concealed[part] = _pattern(part)


def conceal(text: str) -> str:
    """Return the text without any secret that this process has read, also where it is escaped as in JSON."""
    # The longest first: a secret may be part of another one.
    for part in sorted(_concealed, key=len, reverse=True):
        text = _concealed[part].sub(HIDDEN, text)
    return text


def _is_certainly_secret(name: str) -> bool:
    return any(part in name for part in _PARTS)


def _pattern(part: str) -> re.Pattern[str]:
    escaped = part.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n").replace("\t", "\\t")
    found = "|".join(re.escape(form) for form in dict.fromkeys((escaped, part)))
    if len(part) > _HEAD and not re.search(r"\s", part):
        # Messages of librdkafka end after some hundred bytes, in the middle of a long token.
        found += "|" + re.escape(part[:_HEAD]) + r"[^\s\"\\]*"
    return re.compile(found)
