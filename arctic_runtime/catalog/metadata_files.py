"""Reads and writes metadata files of tables as JSON, without the loss of parts that pyiceberg does not know."""

from __future__ import annotations

import json
import uuid
from collections.abc import Mapping
from typing import Any

from arctic_runtime.catalog.reader import CatalogReader
from arctic_runtime.model.names import TableName


def read_metadata(reader: CatalogReader, name: TableName) -> dict[str, Any] | None:
    """Reads the metadata file of a table's current version; None if there is no such table."""
    from pyiceberg.exceptions import NoSuchTableError
    from pyiceberg.serializers import Compressor

    try:
        table = reader.load_table(name.schema, name.name)
    except NoSuchTableError:
        return None
    location = table.metadata_location
    decompress = Compressor.get_compressor(location).stream_decompressor
    with table.io.new_input(location).open() as stream, decompress(stream) as content:
        metadata: dict[str, Any] = json.loads(content.read())
    return metadata


def write_metadata(reader: CatalogReader, name: TableName, metadata: Mapping[str, Any]) -> str:
    """Writes metadata as the first metadata file in a new table's folder; returns the file's address."""
    from pyiceberg.io import load_file_io

    address = f"{metadata['location']}/metadata/00000-{uuid.uuid4()}.metadata.json"
    content = json.dumps(metadata, separators=(",", ":")).encode()

    def write_file() -> None:
        file_io = load_file_io({**reader.catalog.properties, **metadata["properties"]}, address)
        with file_io.new_output(address).create(overwrite=True) as stream:
            stream.write(content)

    reader.perform_change("clone.write", f"write the metadata of {name}", write_file)
    return address


def find_schema_location(reader: CatalogReader, schema: str) -> str | None:
    """Returns the folder that the catalog states for the tables of a schema; None if it states none."""
    location: str | None = reader.load_namespace_properties(schema).get("location")
    return location
