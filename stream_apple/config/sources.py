"""The sources of settings: TOML, the environment, and files that either of them names.

Only the form is checked here: which settings exist, and what they may be, is known to `schema.py`.
"""

import re
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from stream_apple.config.passed_through import property_of_variable
from stream_apple.config.secrets import holds_key, is_secret
from stream_apple.errors import ConfigurationError
from stream_apple.untrusted import UnreadableFileError, read_file

VARIABLE_PREFIX = "STREAM_APPLE_"
"""Every environment variable that is a setting begins with it."""
_FILE = "file:/"
PASSED_THROUGH = frozenset({"kafka", "registry"})
"""Sections whose settings are properties of a client, whose names have dots in them."""
NESTED = {"learner": ("paper", "tuples", "hashed")}
"""Sections that are tables in another section: they are called `learner.paper`, `STREAM_APPLE_LEARNER__PAPER`."""
OUTSIDE = ""
"""Stands for the section of what a file has before the line of its first section."""

# A Service called stream-apple-... makes Kubernetes put these into every pod of its namespace.
_SERVICE_LINK = re.compile(r"_SERVICE_(HOST|PORT(_[A-Z0-9_]+)?)$|_PORT_[0-9]+_(TCP|UDP|SCTP)(_(PROTO|PORT|ADDR))?$")
_SERVICE_ADDRESS = re.compile(r"^(tcp|udp|sctp)://")


class Setting(NamedTuple):
    """A value and where it was written, for the message if it is refused."""

    value: object
    origin: str


Settings = dict[str, dict[str, Setting]]
"""section -> key -> setting"""


def variable(section: str, key: str) -> str:
    """Return the environment variable that sets `key` of `section`."""
    return f"{VARIABLE_PREFIX}{section.upper().replace('.', '__')}__{key.upper().replace('.', '_')}"


def from_toml(path: Path) -> Settings:
    """Return every setting of the file; ConfigurationError if it can't be read as TOML."""
    try:
        document = tomllib.loads(read_file(path).decode("utf-8-sig"))
    except UnreadableFileError as error:
        raise ConfigurationError(f"the configuration: {error}") from error
    except UnicodeDecodeError as error:
        raise ConfigurationError(f"{path}: expected UTF-8 text, found other bytes at byte {error.start}") from error
    except tomllib.TOMLDecodeError as error:
        raise ConfigurationError(f"{path}: expected TOML: {error}") from error
    except RecursionError as error:
        raise ConfigurationError(f"{path}: expected sections of settings, found values deep within others") from error
    settings: Settings = {}
    for section, table in document.items():
        if not isinstance(table, dict):
            settings.setdefault(OUTSIDE, {})[section] = Setting(table, f"in {path}")
            continue
        # TOML reads an unquoted bootstrap.servers as a table in a table; the operator meant the property.
        entries = _joined(table) if section in PASSED_THROUGH else table.items()
        settings |= flat(section, dict(entries), f"in {path}")
    return settings


def flat(section: str, entries: Mapping[str, object], origin: str) -> Settings:
    """Return the settings of a section, and those of each section that is a table in it, all of this origin."""
    found: Settings = {section: {}}
    for key, value in entries.items():
        if key in NESTED.get(section, ()) and isinstance(value, dict):
            found |= flat(f"{section}.{key}", value, origin)
        else:
            found[section][key] = Setting(value, origin)
    return found


def nested(values: Mapping[str, Mapping[str, object]]) -> dict[str, dict[str, object]]:
    """Return the values of all sections with those of `NESTED` as tables in their sections."""
    found = {section: dict(entries) for section, entries in values.items() if "." not in section}
    for name in values.keys() - found.keys():
        section, _, key = name.partition(".")
        found.setdefault(section, {})[key] = dict(values[name])
    return found


def _joined(table: Mapping[str, object], prefix: str = "") -> Iterator[tuple[str, object]]:
    for key, value in table.items():
        if isinstance(value, dict):
            yield from _joined(value, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}", value


def is_secret_in_file(section: str, key: str, setting: Setting) -> bool:
    """Return whether a setting of the configuration file is a secret, and not the name of a file that holds it."""
    value = setting.value
    named = isinstance(value, str) and value.startswith(_FILE)
    return section in PASSED_THROUGH and not named and (is_secret(key) or holds_key(value))


def from_environment(environ: Mapping[str, str]) -> tuple[Settings, list[str]]:
    """Return every setting in the environment, and the variables with our prefix, in any case, that are none."""
    settings: Settings = {}
    unknown = []
    for name, value in environ.items():
        if not name.upper().startswith(VARIABLE_PREFIX) or _is_service_link(name, value):
            continue
        section, separator, key = name.removeprefix(VARIABLE_PREFIX).lower().partition("__")
        # Whoever writes a name in another case believes that it counts.
        if not separator or name != name.upper():
            unknown.append(name)
            continue
        if section in PASSED_THROUGH:
            key = property_of_variable(key)
        inner, separator, rest = key.partition("__")
        if separator and inner in NESTED.get(section, ()):
            section, key = f"{section}.{inner}", rest
        settings.setdefault(section, {})[key] = Setting(value, f"from {name}")
    return settings, unknown


def _is_service_link(name: str, value: str) -> bool:
    if "__" in name:
        return False
    return bool(_SERVICE_LINK.search(name) or (name.endswith("_PORT") and _SERVICE_ADDRESS.match(value)))


def resolve(setting: Setting) -> Setting:
    """Return the setting with the text of the file that `file:/path` names, without one newline at its end."""
    if not isinstance(setting.value, str) or not setting.value.startswith(_FILE):
        return setting
    path = Path(setting.value.removeprefix("file:"))
    try:
        text = read_file(path).decode().replace("\r\n", "\n")
    except UnicodeDecodeError as error:
        raise UnreadableFileError(f"expected UTF-8 text in {path}, found other bytes at byte {error.start}") from error
    return Setting(text.removesuffix("\n"), f"{setting.origin}, file {path}")
