"""The product's JSON Schemas, and messages as JSON would show them."""

import base64
import json
from pathlib import Path
from typing import Any

import jsonschema
import msgpack
import numpy as np
from support.oracles.wire_values import Pairs

SCHEMAS = Path(__file__).resolve().parents[2] / "schemas"


def validator(name: str) -> Any:
    """A validator of the schema in file `name`, which is itself checked."""
    schema = json.loads((SCHEMAS / name).read_text())
    jsonschema.Draft202012Validator.check_schema(schema)
    return jsonschema.Draft202012Validator(schema)


def as_json(item: Any) -> Any:
    """A message as JSON would show it; raises ValueError where it would not."""
    if isinstance(item, Pairs | dict):
        pairs = list(item.items()) if isinstance(item, dict) else item
        if any(not isinstance(key, str) for key, _ in pairs) or len(dict(pairs)) < len(pairs):
            raise ValueError("JSON has no such keys")
        return {key: as_json(inner) for key, inner in pairs}
    if isinstance(item, bytes):
        return base64.b64encode(item).decode()
    if isinstance(item, list):
        return [as_json(inner) for inner in item]
    if isinstance(item, str):
        item.encode()  # a name that is not UTF-8 raises
    elif isinstance(item, tuple | msgpack.Timestamp) or (isinstance(item, float) and not np.isfinite(item)):
        raise ValueError("JSON has no extensions and no infinities")
    return item
