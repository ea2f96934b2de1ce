"""The format `rows`: each event is a JSON object with the table's columns, and optionally a column of operations."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType

from arctic_runtime.errors import ConfigError
from arctic_runtime.ingest.formats.declared import build_declared_schema
from arctic_runtime.ingest.formats.event_format import Change, EventFormat, Format, TimeUnit

OPERATIONS: Mapping[str, Change] = MappingProxyType(
    {
        "insert": "insert",
        "update": "update",
        "upsert": "update",
        "delete": "delete",
        "truncate": "truncate",
        "read": "read",
    }
)
"""Default mapping of the texts in the `operation` column to changes."""


def build_rows_format(
    operation: str | None = None,
    operations: Mapping[str, Change] = OPERATIONS,
    time: str | None = None,
    time_unit: TimeUnit = "text",
    order: Sequence[str] = (),
) -> Format:
    """Builds the format `rows`, for tables whose columns have declared Spark types; other fields of JSON are ignored.

    `operation` is the column that names the operation of a row; `operations` maps its texts to operations. A row with
    any other text is a dead letter. Without `operation` every row is an upsert. A deleted row needs only its key.
    `time` is the column with the time of the change, written as `time_unit` says. `order` are the columns that order
    the changes of a key; without them the row that arrives later wins. Raises ConfigError for `operations` without
    `operation`.
    """
    if operation is None and operations is not OPERATIONS:
        raise ConfigError("`operations` say what the values of a column mean: set `operation` to its name")
    events = EventFormat(
        name="rows",
        row=(),
        before=None,
        operation=None if operation is None else (operation,),
        changes=dict(operations) if operation is not None else {},
        time=None if time is None else (time,),
        time_unit=time_unit,
        order=tuple((column,) for column in order),
        is_row_of_delete=True,
    )
    return Format(events=events, declare=build_declared_schema)
