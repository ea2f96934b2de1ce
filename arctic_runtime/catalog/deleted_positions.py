"""Reads positions of rows in data files: positions that are marked as deleted, and the starts of row groups."""

from __future__ import annotations

import json
import zlib
from typing import TYPE_CHECKING, Any, cast

from arctic_runtime.catalog.damaged_files import explain_damage

if TYPE_CHECKING:
    from pyiceberg.io import FileIO
    from pyiceberg.manifest import DataFile
    from pyiceberg.table import Table

    from arctic_runtime.catalog.storage.file_stream import MeteredFileIO

_PUFFIN_TAIL = 12
"""Number of bytes at the end of a Puffin file after the footer: the footer's length, flags, magic; four bytes each."""

_VECTOR_LENGTH = 4
_VECTOR_SUM = 4
"""Numbers of bytes at the begin and at the end of a deletion vector: its length, and its checksum."""


def read_deleted_positions(
    table: Table, deletes: DataFile, path: str, io: FileIO | MeteredFileIO | None = None
) -> list[int]:
    """Reads the positions that the delete file `deletes` of a table marks as deleted in the data file `path`.

    A delete file is a Parquet file of positions, or a Puffin file with deletion vectors; of a Puffin file, only the
    vector of the data file is read. Files are read through `io`, or by the table's own access. Raises CorruptState if
    the file is missing or damaged.
    """
    with explain_damage(table, deletes.file_path):
        return _read_positions(table.io if io is None else io, deletes, path)


def _read_positions(io: FileIO | MeteredFileIO, deletes: DataFile, path: str) -> list[int]:
    import pyarrow.compute as pc
    from pyarrow.parquet import read_table
    from pyiceberg.table.deletion_vector import deletion_vectors_from_puffin_file
    from pyiceberg.table.puffin import PuffinFile

    with io.new_input(deletes.file_path).open() as stream:
        if deletes.file_format.name != "PUFFIN":
            table = read_table(stream, columns=["file_path", "pos"], page_checksum_verification=True)
            return cast(list[int], table.filter(pc.field("file_path") == path)["pos"].to_pylist())
        cut = _cut_out(stream, path)
    vectors = deletion_vectors_from_puffin_file(PuffinFile(cut))
    return [place for vector in vectors for place in vector.to_vector().to_pylist()]


def list_row_group_starts(metadata: Any) -> list[int]:
    """Returns the position in a Parquet file of the first row of each row group, from the file's `metadata`."""
    starts, at = [], 0
    for group in range(metadata.num_row_groups):
        starts.append(at)
        at += metadata.row_group(group).num_rows
    return starts


def _cut_out(stream: Any, path: str) -> bytes:
    """Copies the deletion vectors of the data file `path` from the Puffin file `stream` into a new Puffin file.

    Reads only these vectors and the footer. Raises ValueError if a vector does not have its checksum.
    """
    from pyiceberg.table.puffin import MAGIC_BYTES

    stream.seek(-_PUFFIN_TAIL, 2)
    tail = stream.read(_PUFFIN_TAIL)
    size = int.from_bytes(tail[:4], "little")
    stream.seek(-_PUFFIN_TAIL - size, 2)
    footer = json.loads(stream.read(size))
    blobs, payload = [], MAGIC_BYTES
    for blob in footer["blobs"]:
        if blob["properties"].get("referenced-data-file") == path:
            stream.seek(blob["offset"])
            blobs.append({**blob, "offset": len(payload)})
            payload += _check_vector(stream.read(blob["length"]))
    footer_bytes = json.dumps({**footer, "blobs": blobs}).encode()
    return bytes(payload + MAGIC_BYTES + footer_bytes + len(footer_bytes).to_bytes(4, "little") + tail[4:])


def _check_vector(blob: bytes) -> bytes:
    """Returns a blob of the type `deletion-vector-v1`, which ends with the CRC-32 of all bytes after its length."""
    if zlib.crc32(blob[_VECTOR_LENGTH:-_VECTOR_SUM]) != int.from_bytes(blob[-_VECTOR_SUM:], "big"):
        raise ValueError("a deletion vector does not have its checksum")
    return blob
