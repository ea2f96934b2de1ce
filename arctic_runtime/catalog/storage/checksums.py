"""Reads files of a local disk and compares them with the checksums beside them, as Hadoop's file system writes them.

Of a file `x`, the file `.x.crc` has a checksum for each few hundred bytes.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from pathlib import Path
from zlib import crc32

_MAGIC = b"crc\x00"
_HEADER = struct.Struct(">4si")
_SUM_BYTES = 4
CHUNK_BYTES = 512
"""Number of bytes for which `write_checksums` expects one checksum; as in Hadoop."""


class ChecksumError(OSError):
    """Raised if bytes of a file do not have the checksum that was written for them."""


def find_local_path(location: str) -> Path | None:
    """Returns the path of a file on a local disk; None for an address in a store."""
    scheme, _, rest = location.partition(":")
    if scheme == "file":
        return Path(f"/{rest[2:].partition('/')[2]}" if rest.startswith("//") else rest)
    return Path(location) if location.startswith("/") else None


def find_checksums(path: Path) -> Path:
    """Returns the path of the file with the checksums of the file `path`."""
    return path.with_name(f".{path.name}.crc")


def read_checked_file(path: Path, location: str) -> bytes:
    """Returns the content of a file, whose address `location` is for errors; one without checksums is read as it is.

    Raises ChecksumError if bytes have changed since they were written.
    """
    content, written = path.read_bytes(), read_checksums(path)
    if written is not None:
        step, sums = written
        check_size(len(content), step, sums, location)
        check_chunks(content, 0, step, sums, location)
    return content


def read_checksums(path: Path) -> tuple[int, tuple[int, ...]] | None:
    """Reads the checksums of a file: the number of bytes of a chunk, and the CRC-32 of each chunk.

    Returns None if there are none, or if their file has another format, as Hadoop does.
    """
    try:
        content = find_checksums(path).read_bytes()
    except (FileNotFoundError, NotADirectoryError):
        return None
    if len(content) < _HEADER.size:
        return None
    magic, step = _HEADER.unpack_from(content)
    count, rest = divmod(len(content) - _HEADER.size, _SUM_BYTES)
    if magic != _MAGIC or step <= 0 or rest:
        return None
    return step, struct.unpack_from(f">{count}I", content, _HEADER.size)


def check_size(size: int, step: int, sums: Sequence[int], location: str) -> None:
    """Raises ChecksumError if a file of `size` bytes has not as many chunks of `step` bytes as there are checksums."""
    if -(-size // step) != len(sums):
        raise _build_error(location, f"{size} bytes", f"{len(sums)} chunks of up to {step} bytes")


def check_chunks(data: bytes, first: int, step: int, sums: Sequence[int], location: str) -> None:
    """Raises ChecksumError if a chunk of `data`, whose first chunk has the number `first`, has another checksum."""
    view = memoryview(data)
    for number, begin in enumerate(range(0, len(data), step), first):
        actual = crc32(view[begin : begin + step])
        if actual != sums[number]:
            place = f"bytes {number * step} to {number * step + step - 1}"
            raise _build_error(location, f"{actual:08x} for {place}", f"{sums[number]:08x}")


def _build_error(location: str, actual: str, expected: str) -> ChecksumError:
    return ChecksumError(f"the checksums of {location} do not fit: {actual}, and written was {expected}")


def sum_chunks(data: bytes | bytearray) -> bytes:
    """Returns the checksums of the chunks of `data`, of CHUNK_BYTES each, as they are written."""
    chunks = (data[begin : begin + CHUNK_BYTES] for begin in range(0, len(data), CHUNK_BYTES))
    return b"".join(crc32(chunk).to_bytes(_SUM_BYTES, "big") for chunk in chunks)


def write_checksums(path: Path, sums: bytes | bytearray) -> None:
    """Writes checksums of `sum_chunks` beside the file `path`."""
    find_checksums(path).write_bytes(_HEADER.pack(_MAGIC, CHUNK_BYTES) + sums)
