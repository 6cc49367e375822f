"""The base of all sections of the settings: how text becomes a value, and what every section refuses."""

import tomllib
from collections.abc import Callable
from contextlib import suppress
from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field


def when_text(convert: Callable[[str], object]) -> BeforeValidator:
    """Return a validator that converts text, as the environment and mounted files hold nothing else."""
    return BeforeValidator(lambda value: convert(value) if isinstance(value, str) else value)


Integer = Annotated[int, when_text(int)]
Number = Annotated[float, when_text(float), Field(allow_inf_nan=False)]
Boolean = Annotated[bool, when_text(lambda text: {"true": True, "false": False}.get(text.lower(), text))]


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
