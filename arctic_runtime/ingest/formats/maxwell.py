"""Maxwell's events: one for each changed row, those of bootstraps, and those of DDL if `output_ddl` is set.

Source: Maxwell's pages on its data format, its RowMap and its classes for column types (branch master, July 2026):

- `data` is the row after an insert or update, or the deleted row. `old` has the columns that an update changed, with
  their values before it.
- Bytes are in base64, an enum is its label (null for the empty text), a set an array of labels, JSON is JSON.
- Timestamps have no zone: rows of the binlog are in UTC, rows of a bootstrap in the zone of Maxwell's Java, so Maxwell
  has to run in UTC. Datetimes are as stored.
- Zero dates are `0000-00-00` and `0000-00-00 00:00:00` (null with `zero_dates_as_null`), see the format `canal`.
- Times of day are converted by way of a date: in the zone of Maxwell's Java, and modulo a day. So their values differ
  from those of MySQL. In a bootstrap, bits wider than eight are in another byte order. Geometries lose their reference
  system.
- With `output_nulls` set to false, a column that was null before an update looks like one that didn't change.
- TRUNCATE TABLE has no event: after it, the table has to be bootstrapped again, or the arctic table truncated.
- Users have to declare the columns: events of rows have no types, and `def` in events of DDL leaves out the digits of
  decimals, the width of bits and the length of binaries.
"""

from __future__ import annotations

from collections.abc import Sequence

from arctic_runtime.ingest.formats.declared import build_source_schema
from arctic_runtime.ingest.formats.event_format import Declared, EventFormat, Format, SourceSchema
from arctic_runtime.ingest.formats.mysql_types import Rendering, build_mysql_column

_NO_ROWS = (
    "bootstrap-start",
    "bootstrap-complete",
    "database-create",
    "database-alter",
    "database-drop",
    "table-create",
    "table-alter",
    "table-drop",
)

MAXWELL = EventFormat(
    name="maxwell",
    row=("data",),
    before=("old",),
    operation=("type",),
    changes={
        "insert": "insert",
        "update": "update",
        "delete": "delete",
        "bootstrap-insert": "read",
        **dict.fromkeys(_NO_ROWS, "ignored"),
    },
    time=("ts",),
    time_unit="seconds",
    table=("table",),
    namespace=("database",),
    transaction=("xid",),
    is_before_partial=True,
    is_row_of_delete=True,
    zone="UTC",
)

_GEOMETRY = "bytes, but it writes geometries as text, without their reference system"
RENDERING = Rendering(
    tool="Maxwell",
    bytes="base64",
    enum="plain",
    set="set_array",
    json="json",
    widest_bit=8,
    refused={
        "time": "times as MySQL has them, but it writes them modulo a day and in its own time zone",
        **dict.fromkeys(("geometry", "point", "linestring", "polygon"), _GEOMETRY),
        **dict.fromkeys(("multipoint", "multilinestring", "multipolygon", "geometrycollection"), _GEOMETRY),
    },
)


def build_maxwell_format() -> Format:
    return Format(events=MAXWELL, declare=declare_schema)


def declare_schema(columns: Declared, key: Sequence[str]) -> SourceSchema:
    """Builds the schema of columns that the user declares by MySQL types, as Maxwell writes their values."""
    return build_source_schema((build_mysql_column(name, text, RENDERING) for name, text in columns.items()), key)
