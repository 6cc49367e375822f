"""One line for a refused value: what was expected, what was found, and where it was written."""

from collections.abc import Iterable
from typing import Any

from pydantic_core import ErrorDetails

from stream_apple.config.duration import format_duration
from stream_apple.config.schema import Config
from stream_apple.config.secrets import HIDDEN, is_secret, shown
from stream_apple.config.sources import PASSED_THROUGH, VARIABLE_PREFIX, Setting, Settings, variable
from stream_apple.nearest_names import nearest_names
from stream_apple.untrusted import in_short

_LONGEST_VALUE_SHOWN = 100

SECTIONS: dict[str, Any] = {
    name: field.annotation for name, field in Config.model_fields.items() if name not in PASSED_THROUGH
}
"""Section name -> its class, for sections that have a fixed set of keys."""


def describe(error: ErrorDetails, settings: Settings) -> str:
    """Return one line for one fault that pydantic found in `settings`."""
    if not error["loc"]:  # of settings of several sections
        return _message(error)
    section, *rest = (str(part) for part in error["loc"])
    if error["type"] == "extra_forbidden" and not rest:
        return _unknown_section(section, settings[section])
    if not rest:
        message = _message(error)
        known = SECTIONS[section].model_fields if section in SECTIONS else {}
        return f"{section}{'.' if message.partition(':')[0] in known else ': '}{message}"
    key = rest[0]
    setting = settings[section][key]
    where = f"{section}.{key} ({setting.origin})"
    if error["type"] == "extra_forbidden":
        return f"{where}: unknown setting; {_nearest_setting(section, key, setting)}"
    if section in PASSED_THROUGH:
        return f"{where}: {_message(error)}, found {_shown(key, setting.value)}"
    schema = SECTIONS[section].model_json_schema()["properties"][key]
    return f"{where}: expected {expected(schema)}, found {_shown(key, setting.value)}"


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
    named = " or ".join(f"[{section}]" for section, model in SECTIONS.items() if key in model.model_fields)
    return f"{where}: expected the line of its section before it, {named or 'such as [learner]'}, found none"


def unknown_variable(name: str) -> str:
    """Return one line for a variable with our prefix that names no section, or is not in capital letters."""
    known = [variable(section, key) for section, model in SECTIONS.items() for key in model.model_fields]
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
    others = [other for other, model in SECTIONS.items() if key in model.model_fields]
    if others:
        names = (variable(other, key) if is_variable else f"{other}.{key}" for other in others)
        return f"another section has it: {', '.join(names)}"
    keys = SECTIONS[section].model_fields
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
