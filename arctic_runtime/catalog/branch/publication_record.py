"""Records of publications in several steps: the next build, on any machine, carries out what one that died left.

A record is a JSON file beside the metadata of a table. Its address is a property of the namespace, where the next build
looks for it.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from arctic_runtime.catalog.branch.catalog_pointers import Pointer, PointerChange
from arctic_runtime.catalog.metadata_files import delete_file_at
from arctic_runtime.catalog.reader import CatalogReader
from arctic_runtime.model.names import TableName

_PROPERTY = "arctic.publication."


@dataclass(frozen=True)
class PublicationRecord:
    """A publication that may not be complete: its changes in the order of the graph, and where it is noted."""

    schema: str
    key: str
    file: str
    changes: tuple[PointerChange, ...]


def write_record(reader: CatalogReader, changes: Sequence[PointerChange]) -> PublicationRecord | None:
    """Writes a record of changes; returns None if the catalog can't note properties of namespaces."""
    number = os.urandom(8).hex()
    pointer = next(side for change in changes for side in (change.after, change.before) if side is not None)
    file = f"{pointer.file.rpartition('/')[0]}/arctic-publication-{number}.json"
    record = PublicationRecord(pointer.table.schema, f"{_PROPERTY}{number}", file, tuple(changes))
    content = json.dumps([asdict(change) for change in changes]).encode()

    def write_file() -> None:
        from pyiceberg.io import load_file_io

        with load_file_io(reader.catalog.properties, file).new_output(file).create(overwrite=True) as stream:
            stream.write(content)

    def note_file() -> bool:
        try:
            reader.catalog.update_namespace_properties((record.schema,), updates={record.key: file})
        except NotImplementedError:
            return False
        return True

    reader.perform_change("build.write_record", "write the record of a publication", write_file)
    if reader.perform_change("build.note_record", "note the record of a publication", note_file):
        return record
    delete_file_at(reader, file)
    return None


def list_records(reader: CatalogReader, schemas: Iterable[str]) -> Iterator[PublicationRecord]:
    """Yields the records of publications that were not completed; forgets those whose file is gone."""
    for schema in schemas:
        if not reader.has_namespace(schema):
            continue
        for key, file in reader.load_namespace_properties(schema).items():
            if key.startswith(_PROPERTY):
                changes = _read_changes(reader, file)
                record = PublicationRecord(schema, key, file, changes)
                if changes:
                    yield record
                else:
                    remove_record(reader, record)


def remove_record(reader: CatalogReader, record: PublicationRecord) -> None:
    """Removes a record: its publication is complete, or it is given up."""

    def remove_note() -> None:
        reader.catalog.update_namespace_properties((record.schema,), removals={record.key})
        delete_file_at(reader, record.file)

    reader.perform_change("build.remove_record", "remove the record of a publication", remove_note)


def _read_changes(reader: CatalogReader, file: str) -> tuple[PointerChange, ...]:
    from pyiceberg.io import load_file_io

    try:
        with load_file_io(reader.catalog.properties, file).new_input(file).open() as stream:
            return tuple(map(_parse_change, json.loads(stream.read())))
    except FileNotFoundError:
        return ()


def _parse_change(change: Any) -> PointerChange:
    before, after = (
        None if (side := change[part]) is None else Pointer(TableName(**side["table"]), side["kind"], side["file"])
        for part in ("before", "after")
    )
    return PointerChange(TableName(**change["table"]), before, after)
