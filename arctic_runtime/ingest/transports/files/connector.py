"""The connector for folders with files of events."""

from __future__ import annotations

from arctic_runtime.catalog.reader import CatalogReader
from arctic_runtime.ingest.source import IngestSource
from arctic_runtime.ingest.transports.connector import (
    FORMAT,
    PROPERTIES,
    Connector,
    Session,
    SourceConnection,
    describe_address,
    read_format,
    read_properties,
)
from arctic_runtime.ingest.transports.files.listing import Folder
from arctic_runtime.ingest.transports.files.positions import parse_position
from arctic_runtime.plan.config.value_reader import PLAIN, PLAIN_VALUES, Setting, keep_value

_LOG = "__files"
"""Suffix of the name of the file log of a source, the table of the files that were read."""


def _connect(source: IngestSource, reader: CatalogReader, session: Session) -> SourceConnection:
    from arctic_runtime.ingest.transports.files.log import FileTable
    from arctic_runtime.ingest.transports.files.transport import Files

    patterns = source.connection.get("files") or {}
    tables = {table.source_name: str(patterns.get(table.name, f"{table.source_name}/*")) for table in source.tables}
    log = FileTable(source.dead_letter_table.with_name(f"{source.name}{_LOG}"), reader, session)
    folder = Folder(str(source.connection["path"]), read_properties(source))
    return SourceConnection(Files(folder, tables, log, session, reader.thresholds.transports), read_format(source))


_SETTINGS = (
    Setting("path", keep_value(PLAIN), "folder or bucket with the files", "required"),
    FORMAT,
    Setting("files", keep_value(PLAIN_VALUES), "pattern of the files of each table, as `{orders: orders/*.json}`"),
    PROPERTIES,
)

FILES = Connector("files", _SETTINGS, ("path",), _connect, describe_address, parse_position)
