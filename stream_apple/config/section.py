"""The base of all sections of the settings: how text becomes a value, and what every section refuses."""

import tomllib
from contextlib import suppress
from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field


def _integer_from_text(value: object) -> object:
    return int(value) if isinstance(value, str) else value


def _number_from_text(value: object) -> object:
    return float(value) if isinstance(value, str) else value


def _boolean_from_text(value: object) -> object:
    return {"true": True, "false": False}.get(value.lower(), value) if isinstance(value, str) else value


# The environment and mounted files hold text only, so a number may come as text; nothing else is converted.
Integer = Annotated[int, BeforeValidator(_integer_from_text)]
Number = Annotated[float, BeforeValidator(_number_from_text), Field(allow_inf_nan=False)]

Boolean = Annotated[bool, BeforeValidator(_boolean_from_text)]


def text_field(pattern: str, words: str, **facts: bool) -> Any:  # noqa: ANN401  a field of pydantic's
    """Return a field like that of `expected_as`, for a text of this pattern; `facts` are for the reference page."""
    return Field(pattern=pattern, json_schema_extra={"expected": words, **facts})


def expected_as(words: str) -> Any:  # noqa: ANN401  a field of pydantic's
    """Return a field of which messages and the reference page say in these words what it may be."""
    return Field(json_schema_extra={"expected": words})


def _list_from_text(value: object) -> object:
    if isinstance(value, str):
        # A pattern may begin with a bracket, too, but is no list of texts.
        with suppress(tomllib.TOMLDecodeError):
            found = tomllib.loads(f"list = {value}")["list"]
            if isinstance(found, list) and all(isinstance(name, str) for name in found):
                return tuple(found)
        value = [name.strip() for name in value.split(",") if name.strip()]
    return tuple(value) if isinstance(value, list) else value


LISTED = BeforeValidator(_list_from_text)
"""Lets a list of texts come as one text with commas between, or as TOML writes it."""


class Section(BaseModel):
    """A section of the settings: frozen and strict, and refusing unknown settings."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)
