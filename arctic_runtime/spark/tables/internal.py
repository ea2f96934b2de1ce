"""Creates internal tables, which this project stores for its own use."""

from __future__ import annotations

from collections.abc import Mapping

from pyspark.sql import DataFrameWriterV2

from arctic_runtime.model.properties import KIND

NO_OTHERS: Mapping[str, str] = {}


def create_internal_writer(
    writer: DataFrameWriterV2, kind: str, others: Mapping[str, str] = NO_OTHERS
) -> DataFrameWriterV2:
    """Returns `writer` set to create an Iceberg table of format version 3, with the properties `kind` and `others`."""
    writer = writer.using("iceberg")
    for key, value in {"format-version": "3", KIND: kind, **others}.items():
        writer = writer.tableProperty(key, value)
    return writer
