"""The connector for folders with files of events, and its positions: numbers of batches."""

from __future__ import annotations

import json

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
from arctic_runtime.model.sources.positions import ParsedPosition, keep_opaque
from arctic_runtime.plan.config.config_readers import read_plain, read_plain_values
from arctic_runtime.plan.config.value_reader import Setting


def format_position(number: int) -> str:
    return json.dumps({"batch": number})


def parse_number(position: str) -> int:
    return int(json.loads(position)["batch"])


def parse_position(position: str) -> ParsedPosition:
    """Parses the text of a position to the number of its batch.

    Any other text is kept unparsed, so that it can't be compared with positions.
    """
    try:
        number = parse_number(position)
    except (ValueError, TypeError, KeyError):
        return keep_opaque(position)
    return ParsedPosition(position, f"batch {number} of files", {"files": number}, is_transaction_end=True)


_LOG = "__files"
"""Suffix of the name of the file log of a source, the table of the files that were read."""


def _connect(source: IngestSource, reader: CatalogReader, session: Session) -> SourceConnection:
    from arctic_runtime.ingest.transports.files.log import FileTable
    from arctic_runtime.ingest.transports.files.transport import Files

    patterns = read_plain_values("files", source.connection.get("files", {}))
    tables = {table.source_name: patterns.get(table.name, f"{table.source_name}/*") for table in source.tables}
    log = FileTable(source.dead_letter_table.with_name(f"{source.name}{_LOG}"), reader, session)
    folder = Folder(str(source.connection["path"]), read_properties(source))
    return SourceConnection(Files(folder, tables, log, session, reader.thresholds.transports), read_format(source))


_SETTINGS = (
    Setting("path", read_plain, "folder or bucket with the files", "required"),
    FORMAT,
    Setting("files", read_plain_values, "pattern of the files of each table, as `{orders: orders/*.json}`"),
    PROPERTIES,
)

FILES = Connector("files", _SETTINGS, ("path",), _connect, describe_address, parse_position)
