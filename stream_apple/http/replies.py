"""Replies in JSON."""

from typing import Any

import msgspec
from starlette.responses import Response

_to_json = msgspec.json.Encoder().encode


def json_reply(facts: Any, status: int = 200, headers: dict[str, str] | None = None) -> Response:  # noqa: ANN401
    """Return a reply with these facts, which are JSON types."""
    return Response(_to_json(facts), status, headers, "application/json")
