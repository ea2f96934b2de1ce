"""Tables that this project keeps for itself beside those of users."""

from __future__ import annotations

from collections.abc import Mapping

from pyspark.sql import DataFrameWriterV2

from arctic_runtime.model.properties import KIND

NO_OTHERS: Mapping[str, str] = {}


def create_internal_writer(
    writer: DataFrameWriterV2, kind: str, others: Mapping[str, str] = NO_OTHERS
) -> DataFrameWriterV2:
    """A writer that creates its table in Iceberg's format 3, marked as one of a `kind`, with further properties."""
    writer = writer.using("iceberg")
    for key, value in {"format-version": "3", KIND: kind, **others}.items():
        writer = writer.tableProperty(key, value)
    return writer
