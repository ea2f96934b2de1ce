"""Passes a seed's rows to Spark as text, so that Spark's own casts interpret the values and nothing is rounded."""

from __future__ import annotations

from decimal import Decimal
from typing import TYPE_CHECKING, Any

from dbt.adapters.arctic.relations.identifiers import quote_identifier

if TYPE_CHECKING:
    import agate
    from pyspark.sql import DataFrame, SparkSession

    from dbt.adapters.arctic.connections.handle import SessionHandle

_BIGINT_MAX = 2**63 - 1


def choose_integer_type(column: agate.Column) -> str:
    """Returns `bigint`, or `decimal(38,0)` if a value of the column does not fit into a bigint."""
    values = [value for value in column.values() if value is not None]
    fits = all(-_BIGINT_MAX - 1 <= value <= _BIGINT_MAX for value in values)
    return "bigint" if fits else "decimal(38,0)"


def choose_number_type(column: agate.Column) -> str:
    """Returns `double` if a value of the column has a fraction, else the result of `choose_integer_type`.

    For exact decimals, users have to set `column_types`.
    """
    has_fraction = any(value is not None and value != value.to_integral_value() for value in column.values())
    return "double" if has_fraction else choose_integer_type(column)


def stage_rows(handle: SessionHandle, name: str, table: agate.Table) -> None:
    """Creates a temporary view with the name and the rows of a seed, with all columns as text."""
    as_text_frame(handle.spark, table).createOrReplaceTempView(quote_identifier(name))
    handle.mark_temporary_view()


def as_text_frame(spark: SparkSession, table: agate.Table) -> DataFrame:
    """Converts a seed's table to a Spark DataFrame with all columns as text."""
    import pyarrow as pa
    from pyspark.sql.types import StringType, StructField, StructType

    columns = [
        pa.array([_to_text(row[index]) for row in table.rows], type=pa.string())
        for index in range(len(table.column_names))
    ]
    kinds = StructType([StructField(name, StringType()) for name in table.column_names])
    return spark.createDataFrame(pa.table(columns, names=list(table.column_names)), schema=kinds)


def _to_text(value: Any) -> str | None:
    if value is None:
        return None
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, Decimal):
        return format(value, "f")
    return str(value)
