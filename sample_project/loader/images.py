"""Row images: a table's rows as they were at one time, and the log entries that carry them."""

from __future__ import annotations

import pyarrow as pa


def entries(op: str, event_ts: pa.Array, images: pa.Table) -> pa.Table:
    """One log entry per image: op, event_ts, the image's columns."""
    op_column = pa.repeat(pa.scalar(op), len(images))
    return images.add_column(0, "event_ts", event_ts).add_column(0, "op", op_column)


def replaced(images: pa.Table, name: str, values: pa.Array) -> pa.Table:
    """The images with other values in one column."""
    position = images.column_names.index(name)
    return images.set_column(position, images.schema.field(position), values)
