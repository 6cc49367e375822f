"""One line for a refused value: what was expected, what was found, and where it was written."""

from collections.abc import Iterable
from typing import Any

from pydantic_core import ErrorDetails

from stream_apple.config.duration import format_duration
from stream_apple.config.schema import Config
from stream_apple.config.secrets import HIDDEN, is_secret, shown
from stream_apple.config.sources import NESTED, PASSED_THROUGH, VARIABLE_PREFIX, Setting, Settings, variable
from stream_apple.nearest_names import nearest_names
from stream_apple.untrusted import in_short

_LONGEST_VALUE_SHOWN = 100

SECTIONS: dict[str, Any] = {}
"""Section name -> its class, for sections that have a fixed set of keys."""
for _name, _field in Config.model_fields.items():
    if _name not in PASSED_THROUGH:
        _model: Any = _field.annotation
        SECTIONS[_name] = _model
        SECTIONS |= {f"{_name}.{key}": _model.model_fields[key].annotation for key in NESTED.get(_name, ())}


def keys_of_section(section: str) -> list[str]:
    """Return the keys of a section of `SECTIONS`, without the tables that are sections of their own."""
    return [key for key in SECTIONS[section].model_fields if key not in NESTED.get(section, ())]


def describe(error: ErrorDetails, settings: Settings) -> str:
    """Return one line for one fault that pydantic found in `settings`."""
    if not error["loc"]:  # of settings of several sections
        return _message(error)
    section, *rest = (str(part) for part in error["loc"])
    while rest and f"{section}.{rest[0]}" in SECTIONS:
        section, rest = f"{section}.{rest[0]}", rest[1:]
    if error["type"] == "extra_forbidden" and not rest:
        return _unknown_section(section, settings[section])
    if not rest:
        return _of_section(section, error, settings)
    key = rest[0]
    setting = settings[section][key]
    where = f"{section}.{key} ({setting.origin})"
    if error["type"] == "extra_forbidden":
        return f"{where}: unknown setting; {_nearest_setting(section, key, setting)}"
    if section in PASSED_THROUGH:
        return f"{where}: {_message(error)}, found {_shown(key, setting.value)}"
    schema = SECTIONS[section].model_json_schema()["properties"][key]
    return f"{where}: expected {expected(schema)}, found {_shown(key, setting.value)}"


def _of_section(section: str, error: ErrorDetails, settings: Settings) -> str:
    """Return one line for a fault of a whole section, whose message may begin with the name of one of its settings."""
    message = _message(error)
    outer, _, table = section.partition(".")
    if table and section not in settings and (setting := settings.get(outer, {}).get(table)) is not None:
        found = _shown(table, setting.value)
        return f"{section} ({setting.origin}): expected a section [{section}], found the single value {found}"
    for name in SECTIONS:
        if name.partition(".")[0] == section and message.partition(":")[0] in keys_of_section(name):
            return f"{name}.{message}"
    return f"{section}: {message}"


def expected(schema: dict[str, Any]) -> str:
    """Return the JSON schema of one setting in words."""
    schema = of_a_value(schema)
    if "expected" in schema:
        return str(schema["expected"])
    if "enum" in schema:
        return "one of " + ", ".join(repr(choice) for choice in schema["enum"])
    if schema["type"] == "boolean":
        return "true or false"
    low, high = schema.get("minimum"), schema.get("maximum")
    if schema.get("unit") == "milliseconds":
        example = "a duration such as '250ms', '5m' or '1h30m'"
        return f"{example}, from {format_duration(low or 0)} to {format_duration(high or 0)}"
    kind = {"integer": "an integer", "number": "a number"}[schema["type"]]
    if "exclusiveMinimum" in schema:
        bound = f"above {schema['exclusiveMinimum']:g}"
        return f"{kind} {bound}" if high is None else f"{kind} {bound} and at most {high:g}"
    if low is None:
        return f"a finite {kind.split()[1]}"
    return f"{kind} of at least {low}" if high is None else f"{kind} from {low} to {high}"


def of_a_value(schema: dict[str, Any]) -> dict[str, Any]:
    """Return the JSON schema of a setting that may be left out as if it could not, with the usual names of bounds."""
    value: dict[str, Any]
    (value,) = [kind for kind in schema.get("anyOf", [{}]) if kind.get("type") != "null"]
    names = {"ge": "minimum", "le": "maximum", "gt": "exclusiveMinimum"}
    return schema | {names.get(name, name): bound for name, bound in value.items()}


def secret_in_file(section: str, key: str, setting: Setting) -> str:
    """Return one line for a secret that stands in the configuration file."""
    what = "a secret" if is_secret(key) else "a property that is not known to be harmless"
    return (
        f"{section}.{key} ({setting.origin}): {what} comes from a file or from the environment: expected "
        f"'file:/path' here or the variable {variable(section, key)}, found {HIDDEN}"
    )


def outside_of_sections(key: str, setting: Setting) -> str:
    """Return one line for what the file has before its first section, which may be a section's name without [ ]."""
    where = f"{key} ({setting.origin})"
    if key in Config.model_fields:
        return f"{where}: expected a section [{key}], found the single value {_shown(key, setting.value)}"
    named = " or ".join(f"[{section}]" for section in SECTIONS if key in keys_of_section(section))
    return f"{where}: expected the line of its section before it, {named or 'such as [learner]'}, found none"


def unknown_variable(name: str) -> str:
    """Return one line for a variable with our prefix that names no section, or is not in capital letters."""
    known = [variable(section, key) for section in SECTIONS for key in keys_of_section(section)]
    known += [variable("kafka", "bootstrap.servers"), variable("registry", "url")]
    if name != (capital := name.upper()):
        # A property of a client may have any name; for our own settings the nearest name is given.
        passed = capital.startswith(tuple(variable(section, "") for section in PASSED_THROUGH))
        wanted = capital if passed else [*nearest_names(capital, known), capital][0]
        return f"{name}: expected a variable in capital letters, such as {wanted}"
    return f"{name}: unknown variable; {_nearest(name, known)}"


def _unknown_section(section: str, entries: dict[str, Setting]) -> str:
    origins = sorted({setting.origin for setting in entries.values()})
    where = f"{section} ({', '.join(origins)})" if origins else section
    return f"{where}: unknown section; {_nearest(section, Config.model_fields)}"


def _nearest_setting(section: str, key: str, setting: Setting) -> str:
    is_variable = setting.origin.startswith(f"from {VARIABLE_PREFIX}")
    others = [other for other in SECTIONS if key in keys_of_section(other)]
    if others:
        names = (variable(other, key) if is_variable else f"{other}.{key}" for other in others)
        return f"another section has it: {', '.join(names)}"
    keys = keys_of_section(section)
    if is_variable:
        return _nearest(variable(section, key), [variable(section, known) for known in keys])
    return _nearest(key, keys)


def _nearest(name: str, known: Iterable[str]) -> str:
    names = list(known)
    close = nearest_names(name, names)
    return f"the nearest known one is {close[0]}" if close else f"known are {', '.join(names)}"


def _message(error: ErrorDetails) -> str:
    # pydantic's own prefix for a ValueError says nothing to an operator
    return error["msg"].removeprefix("Value error, ")


def _shown(key: str, value: object) -> str:
    may_be_shown = shown(key, value)
    if may_be_shown == HIDDEN:
        return HIDDEN
    text = repr(may_be_shown) if isinstance(may_be_shown, str) else in_short(may_be_shown)
    return text if len(text) <= _LONGEST_VALUE_SHOWN else f"{text[:_LONGEST_VALUE_SHOWN]}..."
