"""Readers that are packages of Python; each opens a table of pyiceberg's as the page on readers says."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import duckdb
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from pyiceberg.io.pyarrow import schema_to_pyarrow

from tests.open.reader_answers import Asked, ReadingEngine, Refused
from tests.spark.tables.test_readers import DUCKDB_SETTINGS, Row, load_extensions

if TYPE_CHECKING:
    from pyiceberg.catalog import Catalog
    from pyiceberg.table import DataScan, Table

    from arctic_runtime.model.names import TableName

Reader = Callable[["Table", Asked], list[Row]]


def scan_table(table: Table, asked: Asked) -> DataScan:
    """Begins the scan of pyiceberg that answers a question."""
    scan = table.scan(selected_fields=asked.columns or ("*",))
    return scan.filter(asked.where) if asked.where else scan


def read_by_pyiceberg(table: Table, asked: Asked) -> list[Row]:
    scan = scan_table(table, asked)
    rows: list[Row] = [{"id": 0, "n": scan.count()}] if asked.is_count else scan.to_arrow().to_pylist()
    return rows


def read_by_pandas(table: Table, asked: Asked) -> list[Row]:
    frame = scan_table(table, asked).to_arrow().to_pandas(types_mapper=pd.ArrowDtype)
    rows: list[Row] = [{"id": 0, "n": len(frame)}] if asked.is_count else frame.to_dict("records")
    return rows


def read_by_polars(planner: str) -> Reader:
    """Returns a reader by Polars, with the part that plans its scans: `pyiceberg`, or the `plugin` polars-iceberg."""

    def read(table: Table, asked: Asked) -> list[Row]:
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("POLARS_ICEBERG_PLANNER", planner)
            frame = pl.scan_iceberg(table)
            return pl.SQLContext(m=frame).execute(asked.write_sql("m", '"'), eager=True).to_dicts()

    return read


def read_by_duckdb(table: Table, asked: Asked) -> list[Row]:
    with duckdb.connect() as connection:
        load_extensions(connection)
        for setting in DUCKDB_SETTINGS:
            connection.execute(setting)
        rows = connection.execute(asked.write_sql(f"iceberg_scan('{table.metadata_location}')", '"'))
        names = [column[0] for column in rows.description]
        return [dict(zip(names, row, strict=True)) for row in rows.fetchall()]


def read_by_daft(table: Table, asked: Asked) -> list[Row]:
    import daft

    rows: list[Row] = daft.sql(asked.write_sql("m", '"'), m=daft.read_iceberg(table)).to_pylist()
    return rows


def read_by_datafusion(table: Table, asked: Asked) -> list[Row]:
    from datafusion import SessionContext
    from pyiceberg_core.datafusion import IcebergDataFusionTable

    properties = {key: value for key, value in table.io.properties.items() if isinstance(value, str)}
    context = SessionContext()
    context.register_table("m", IcebergDataFusionTable(table.name(), table.metadata_location, properties))
    rows: list[Row] = context.sql(asked.write_sql("m", '"')).to_pylist()
    return rows


def read_by_chdb(table: Table, asked: Asked) -> list[Row]:
    """Reads by ClickHouse, which opens files below the current folder, and whose strings are bytes."""
    import chdb

    folder, _, file = urlsplit(table.metadata_location).path.rpartition("/metadata/")
    named = f"icebergLocal('{folder}', SETTINGS iceberg_metadata_file_path = 'metadata/{file}')"
    query = asked.write_sql(named, "`") + " SETTINGS output_format_arrow_string_as_string = 0"
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(Path(folder).parent)
        with chdb.connect() as connection:
            answer = connection.query(query, "ArrowTable")
    if not asked.is_count:
        types = schema_to_pyarrow(table.schema())
        answer = answer.cast(pa.schema([types.field(name) for name in answer.column_names]))
    rows: list[Row] = answer.to_pylist()
    return rows


READERS: Mapping[str, Reader] = {
    f"pyiceberg {version('pyiceberg')}": read_by_pyiceberg,
    f"pandas {version('pandas')}": read_by_pandas,
    f"Polars {version('polars')}": read_by_polars("pyiceberg"),
    f"Polars {version('polars')} with polars-iceberg {version('polars-iceberg')}": read_by_polars("plugin"),
    f"DuckDB {version('duckdb')}": read_by_duckdb,
    f"Daft {version('daft')}": read_by_daft,
    f"DataFusion {version('datafusion')}": read_by_datafusion,
    f"ClickHouse, as chDB {version('chdb')}": read_by_chdb,
}
"""Functions that read, by the names that the page has for them."""


def open_engines(catalog: Catalog) -> dict[str, ReadingEngine]:
    """Returns the readers as engines over a catalog of pyiceberg."""

    def make(read: Reader) -> ReadingEngine:
        def answer(table: TableName, asked: Asked) -> list[Row]:
            try:
                return read(catalog.load_table((table.schema, table.name)), asked)
            except Exception as error:  # Each package has exceptions of its own.
                raise Refused(describe_error(error)) from error

        return answer

    return {name: make(read) for name, read in READERS.items()}


def describe_error(error: Exception) -> str:
    """Describes an error in one line, without paths, which differ from run to run."""
    return re.sub(r"/\S*\.(puffin|avro|parquet)", r"….\1", " ".join(str(error).split()))
