"""The changes that an engine publishes, in one form: a row for each image of a row, and its kind. Plain PySpark.

The consumer is the same for every engine: one aggregation that reads all columns of all images. It writes nothing,
since a table that the changes were written to would cost each side the same, and move all ratios towards one. It reads
every column, so that no engine gains by a column that it need not read.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from benchmarks.rows import COLUMNS

INSERT, BEFORE, AFTER, DELETE = "insert", "update_before", "update_after", "delete"
KINDS = (INSERT, BEFORE, AFTER, DELETE)

Counts = Mapping[str, tuple[int, int]]
"""Kind of change → the number of its images, and the sum of their hashes."""


def hash_rows() -> Column:
    """Sum of the hashes of all columns, which is the same in any order of rows."""
    return F.sum(F.xxhash64(*COLUMNS).cast("decimal(38, 0)"))


def select_changes(rows: DataFrame, kind: str, names: Mapping[str, str]) -> DataFrame:
    """Returns rows of (`kind`, the six columns); `names` has our kind for each value of the engine's column `kind`."""
    ours = F.coalesce(*(F.when(F.col(kind) == theirs, name) for theirs, name in names.items()))
    return rows.select(ours.alias("kind"), *COLUMNS)


def unfold_changes(rows: DataFrame, old: Any, new: Any) -> DataFrame:
    """Returns rows of (`kind`, the six columns) from rows with both images, structs that are null for a missing one."""
    before = F.when(new.isNull(), DELETE).otherwise(BEFORE)
    after = F.when(old.isNull(), INSERT).otherwise(AFTER)
    images = F.array(*(_tag_image(kind, image) for kind, image in ((before, old), (after, new))))
    return rows.select(F.inline(images)).where(F.col("kind").isNotNull())


def consume_changes(changes: DataFrame) -> Counts:
    """Reads changes once, as the next layer would."""
    rows = changes.groupBy("kind").agg(F.count(F.lit(1)).alias("images"), hash_rows().alias("hashes")).collect()
    return {row["kind"]: (int(row["images"]), int(row["hashes"])) for row in rows}


def _tag_image(kind: Column, image: Column) -> Column:
    columns = [image[name].alias(name) for name in COLUMNS]
    return F.struct(F.when(image.isNotNull(), kind).alias("kind"), *columns)
