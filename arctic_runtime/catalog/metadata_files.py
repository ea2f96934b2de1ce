"""Reads and writes metadata files of tables as JSON, without the loss of parts that pyiceberg does not know."""

from __future__ import annotations

import json
import re
import uuid
from collections.abc import Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from arctic_runtime.catalog.damaged_files import explain_damage
from arctic_runtime.catalog.reader import CatalogReader, find_table
from arctic_runtime.model.names import TableName

if TYPE_CHECKING:
    from pyiceberg.io import FileIO
    from pyiceberg.table import Table


METADATA_SUFFIX = ".metadata.json"
"""End of the name of a table's metadata file, which has no values of rows."""

_NUMBER = re.compile(r"(?:^|/)(\d+)-[^/]*\.metadata\.json$")


def read_metadata(reader: CatalogReader, name: TableName) -> dict[str, Any] | None:
    """Reads the metadata file of a table's current version; None if there is no such table."""
    table = find_table(reader, name)
    return None if table is None else read_metadata_file(table)


def read_metadata_file(table: Table) -> dict[str, Any]:
    """Reads the metadata file of a table that was loaded."""
    with explain_damage(table, table.metadata_location):
        return _read_json(table.io, table.metadata_location)


def read_metadata_at(reader: CatalogReader, address: str) -> dict[str, Any]:
    """Reads the metadata file of a table at `address`."""
    from pyiceberg.io import load_file_io

    with explain_damage(address, address):
        return _read_json(load_file_io(reader.catalog.properties, address), address)


def delete_file_at(reader: CatalogReader, address: str) -> None:
    """Deletes the file at `address`; does nothing if there is none."""
    from pyiceberg.io import load_file_io

    with suppress(FileNotFoundError):
        load_file_io(reader.catalog.properties, address).delete(address)


def _read_json(file_io: FileIO, address: str) -> dict[str, Any]:
    from pyiceberg.serializers import Compressor

    decompress = Compressor.get_compressor(address).stream_decompressor
    with file_io.new_input(address).open() as stream, decompress(stream) as content:
        metadata: dict[str, Any] = json.loads(content.read())
    return metadata


def parse_file_number(address: str) -> int | None:
    """Returns the number of a metadata file among those of its table, from its name; None if it has none."""
    match = _NUMBER.search(address)
    return int(match[1]) if match else None


def write_metadata(reader: CatalogReader, name: TableName, metadata: Mapping[str, Any]) -> str:
    """Writes metadata as the first metadata file in a new table's folder; returns the file's address."""
    address = name_metadata_file(metadata, 0)

    def write_file() -> None:
        write_metadata_file(reader, address, metadata)

    reader.perform_change("clone.write", f"write the metadata of {name}", write_file)
    return address


def name_metadata_file(metadata: Mapping[str, Any], version: int) -> str:
    """Returns the address for a new metadata file, the one with this number, where the table's properties want it."""
    properties = metadata["properties"]
    folder = properties.get("write.metadata.path", f"{metadata['location']}/metadata").rstrip("/")
    suffix = ".gz" if properties.get("write.metadata.compression-codec", "none").lower() == "gzip" else ""
    return f"{folder}/{version:05}-{uuid.uuid4()}{suffix}{METADATA_SUFFIX}"


def write_metadata_file(reader: CatalogReader, address: str, metadata: Mapping[str, Any]) -> bytes:
    """Writes a metadata file, compressed if its name says so; returns its text."""
    from pyiceberg.serializers import Compressor

    text = json.dumps(metadata, separators=(",", ":")).encode()
    compress = Compressor.get_compressor(address).bytes_compressor()
    with open_storage(reader, metadata, address).new_output(address).create(overwrite=True) as stream:
        stream.write(compress(text))
    return text


def open_storage(reader: CatalogReader, metadata: Mapping[str, Any], address: str) -> FileIO:
    """Returns the access to the storage of a table's files, for addresses like this one."""
    from pyiceberg.io import load_file_io

    return load_file_io({**reader.catalog.properties, **metadata["properties"]}, address)


def find_schema_location(reader: CatalogReader, schema: str) -> str | None:
    """Returns the folder that the catalog states for the tables of a schema; None if it states none."""
    location: str | None = reader.load_namespace_properties(schema).get("location")
    return location
