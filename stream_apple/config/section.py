"""The base of all sections of the settings: how text becomes a number, and what every section refuses."""

from typing import Annotated

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


class Section(BaseModel):
    """A section of the settings: frozen and strict, and refusing unknown settings."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)
