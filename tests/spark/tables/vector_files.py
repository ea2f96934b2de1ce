"""Deletion vectors that lie in their file in another order: a writer may choose any, so readers must not care."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import fastavro

if TYPE_CHECKING:
    from pyiceberg.table import Table

MAGIC = b"PFA1"
FOOTER_END_BYTES = 12
"""Bytes of a Puffin file after its description of blobs: its length, flags and the magic number, of four bytes each."""

Entry = dict[str, Any]


@dataclass
class DeleteManifest:
    """A manifest of deletes, as it is in its file."""

    file: Path
    schema: Any
    metadata: dict[str, str]
    entries: list[Entry]

    @classmethod
    def read(cls, file: Path) -> DeleteManifest:
        with file.open("rb") as stream:
            reader = fastavro.reader(stream)
            metadata = {key: value for key, value in reader.metadata.items() if not key.startswith("avro.")}
            return cls(file, reader.writer_schema, metadata, list(reader))

    def write(self) -> None:
        with self.file.open("wb") as stream:
            fastavro.writer(stream, self.schema, self.entries, metadata=self.metadata)


def move_first_vector_of_last_manifest(table: Table) -> None:
    """Writes the only file of vectors anew, in the order of the manifests, but for one vector that becomes the last."""
    snapshot = table.current_snapshot()
    assert snapshot is not None
    listed = [manifest for manifest in snapshot.manifests(table.io) if manifest.content == 1]
    manifests = [DeleteManifest.read(to_path(manifest.manifest_path)) for manifest in listed]
    vectors = [entry["data_file"] for manifest in manifests for entry in manifest.entries]
    moved = manifests[-1].entries[0]["data_file"]
    write_vectors([*(vector for vector in vectors if vector is not moved), moved])
    for manifest in manifests:
        manifest.write()


def write_vectors(vectors: list[Entry]) -> None:
    """Writes a Puffin file anew with its vectors in this order, and their new offsets into the entries."""
    (address,) = {vector["file_path"] for vector in vectors}
    file = to_path(address)
    content = file.read_bytes()
    length_at = len(content) - FOOTER_END_BYTES
    described_bytes = int.from_bytes(content[length_at : length_at + 4], "little")
    described = json.loads(content[length_at - described_bytes : length_at])
    by_offset = {blob["offset"]: blob for blob in described["blobs"]}
    written, blobs = MAGIC, []
    for vector in vectors:
        start, size = vector["content_offset"], vector["content_size_in_bytes"]
        vector["content_offset"] = len(written)
        blobs.append({**by_offset[start], "offset": len(written)})
        written += content[start : start + size]
    footer = json.dumps({**described, "blobs": blobs}).encode()
    file.write_bytes(written + MAGIC + footer + len(footer).to_bytes(4, "little") + bytes(4) + MAGIC)


def to_path(address: str) -> Path:
    return Path(urlsplit(address).path)
