"""From columns of Arrow to values of Python. Parquet files and frames of Arrow are read alike. Needs pyarrow."""

import json
from collections.abc import Mapping
from typing import Any
from uuid import UUID


def readable_type(kind: Any) -> Any:  # noqa: ANN401  pyarrow has no types
    """Return the type that Python has: times of microseconds, floats of 32 bits, values and no dictionaries."""
    import pyarrow as pa

    types = pa.types
    if types.is_dictionary(kind):
        return readable_type(kind.value_type)
    if types.is_timestamp(kind):
        return pa.timestamp("us")
    if types.is_time64(kind):
        return pa.time64("us")
    if types.is_float16(kind):
        return pa.float32()
    if types.is_list(kind) or types.is_large_list(kind):
        items = readable_type(kind.value_type)
        return pa.large_list(items) if types.is_large_list(kind) else pa.list_(items)
    if types.is_struct(kind):
        fields = [kind.field(number) for number in range(kind.num_fields)]
        return pa.struct([pa.field(field.name, readable_type(field.type)) for field in fields])
    return kind


def arrow_values(column: Any, kind: Any) -> list[object]:  # noqa: ANN401
    """Return an Arrow array as a list; None is missing.

    kind  the column's `readable_type`

    UnicodeDecodeError for text that is not UTF-8; ValueError, OverflowError, LookupError, NotImplementedError, or
    TypeError for a value that Python can't hold, such as a time after the year 9999.
    """
    indices = getattr(column, "indices", None)
    if indices is not None:
        # Each text is converted once, however many rows have it.
        used = indices.unique().drop_null()
        found = dict(zip(used.to_pylist(), arrow_values(column.dictionary.take(used), kind), strict=True))
        return [found.get(index) for index in indices.to_pylist()]
    # Not `safe`: times are cut to microseconds.
    column = column if column.type == kind else column.cast(kind, safe=False)
    values: list[object] = column.to_pylist(maps_as_pydicts="strict")
    if str(kind) == "extension<arrow.uuid>" and any(isinstance(value, bytes) for value in values):
        return [UUID(bytes=value) if isinstance(value, bytes) else value for value in values]
    return values


def index_columns(metadata: Mapping[bytes, bytes] | None) -> list[str]:
    """Return the columns that pandas has made of a frame's index."""
    try:
        found = json.loads((metadata or {})[b"pandas"])["index_columns"]
        return [name for name in found if isinstance(name, str)]
    except (KeyError, TypeError, ValueError):
        return []
