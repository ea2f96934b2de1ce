"""Schemas of ingested tables: advice for columns whose names the arctic table can't have."""

from __future__ import annotations

import re

import pytest
import yaml

from arctic_runtime.ingest.formats.event_format import SourceColumn, SourceSchema
from arctic_runtime.ingest.source import IngestedTable
from arctic_runtime.ingest.writing.table_schemas import UnstorableColumns, check_column_names
from arctic_runtime.model.names import TableName

TABLE = IngestedTable("orders", "public.orders", TableName("lake", "ods", "orders"), {})


def read_advised_names(*names: str) -> object:
    """Returns the new names by the old ones, as YAML reads them from the advice for a table with these columns."""
    schema = SourceSchema(tuple(SourceColumn(name, "string") for name in names), ())
    with pytest.raises(UnstorableColumns) as raised:
        check_column_names(TABLE, schema)
    advice = re.search(r"`columns: (\{.*\})`", str(raised.value))
    assert advice is not None
    return yaml.safe_load(advice[1])


@pytest.mark.parametrize("name", ["No", "NULL", "0XAB", "On", "A: b", "Ä\t'\"", "LONG " * 40, "Plain"])
def test_advice_to_rename_a_column_is_yaml_that_reads_as_the_same_names(name: str) -> None:
    assert read_advised_names(name.lower(), name) == {name: f"{name}_"}
