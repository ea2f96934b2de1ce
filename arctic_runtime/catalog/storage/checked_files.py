"""Reads and writes files of a warehouse on a local disk with checksums beside them, as Hadoop's file system does.

Of a file `x`, the file `.x.crc` has a checksum for each few hundred bytes. Spark writes and checks these; pyiceberg and
pyarrow do not: a flipped bit in a metadata file, a manifest or the footer of a data file could change which rows they
read. Object stores check what they store by themselves.
"""

from __future__ import annotations

import struct
from contextlib import suppress
from pathlib import Path
from typing import Any
from zlib import crc32

from pyiceberg.io import InputFile, OutputFile
from pyiceberg.io.fsspec import FsspecFileIO, FsspecInputFile, FsspecOutputFile

from arctic_runtime.catalog.storage.file_stream import FileStream, ReadStream

_MAGIC = b"crc\x00"
_HEADER = struct.Struct(">4si")
_SUM_BYTES = 4
_CHUNK_BYTES = 512
"""Number of bytes for which this module writes one checksum; as in Hadoop."""


class ChecksumError(OSError):
    """Raised if bytes of a file do not have the checksum that was written for them."""


class CheckedFileIO(FsspecFileIO):
    """Pyiceberg's access to files, which writes checksums of local files and compares them with the bytes it reads.

    Reads raise ChecksumError for bytes that have changed. A file without checksums is read as it is.
    """

    def new_input(self, location: str) -> FsspecInputFile:
        file = super().new_input(location)
        path = _find_local_path(location)
        return file if path is None else _CheckedFile(file, path)

    def new_output(self, location: str) -> FsspecOutputFile:
        file = super().new_output(location)
        path = _find_local_path(location)
        return file if path is None else _SummedFile(file, path)

    def delete(self, location: str | InputFile | OutputFile) -> None:
        """Deletes a file, and its checksums; raises FileNotFoundError if it does not exist."""
        super().delete(location)
        path = _find_local_path(location if isinstance(location, str) else location.location)
        if path is not None:
            with suppress(FileNotFoundError):
                super().delete(str(_find_checksums(path)))


def _find_local_path(location: str) -> Path | None:
    """Returns the path of a file on a local disk; None for an address in a store."""
    scheme, _, rest = location.partition(":")
    if scheme == "file":
        return Path(f"/{rest[2:].partition('/')[2]}" if rest.startswith("//") else rest)
    return Path(location) if location.startswith("/") else None


def _find_checksums(path: Path) -> Path:
    return path.with_name(f".{path.name}.crc")


class _CheckedFile(FsspecInputFile):
    def __init__(self, file: FsspecInputFile, path: Path) -> None:
        super().__init__(file.location, file._fs)
        self._path = path

    def open(self, seekable: bool = True) -> Any:
        stream = super().open(seekable)
        try:
            written = read_checksums(self._path)
            return stream if written is None else _CheckedStream(stream, *written, self.location)
        except BaseException:
            stream.close()
            raise


class _SummedFile(FsspecOutputFile):
    def __init__(self, file: FsspecOutputFile, path: Path) -> None:
        super().__init__(file.location, file._fs)
        self._path = path

    def create(self, overwrite: bool = False) -> Any:
        stream = super().create(overwrite)
        with suppress(FileNotFoundError):
            self._fs.rm(str(_find_checksums(self._path)))
        return _SummedStream(stream, _find_checksums(self._path))

    def to_input_file(self) -> FsspecInputFile:
        return _CheckedFile(super().to_input_file(), self._path)


def read_checksums(path: Path) -> tuple[int, tuple[int, ...]] | None:
    """Reads the checksums of a file: the number of bytes of a chunk, and the CRC-32 of each chunk.

    Returns None if there are none, or if their file has another format, as Hadoop does.
    """
    try:
        content = _find_checksums(path).read_bytes()
    except (FileNotFoundError, NotADirectoryError):
        return None
    if len(content) < _HEADER.size:
        return None
    magic, step = _HEADER.unpack_from(content)
    count, rest = divmod(len(content) - _HEADER.size, _SUM_BYTES)
    if magic != _MAGIC or step <= 0 or rest:
        return None
    return step, struct.unpack_from(f">{count}I", content, _HEADER.size)


class _SummedStream(FileStream):
    """A stream that writes the checksums of a file when it is closed, after the file itself."""

    def __init__(self, stream: Any, sums: Path) -> None:
        super().__init__(stream)
        self._file, self._sums, self._rest, self._size = sums, bytearray(), bytearray(), 0

    def write(self, data: Any) -> int:
        content = bytes(data)
        self._stream.write(content)
        self._size += len(content)
        self._rest += content
        whole = len(self._rest) - len(self._rest) % _CHUNK_BYTES
        self._sum_chunks(self._rest[:whole])
        del self._rest[:whole]
        return len(content)

    def _sum_chunks(self, data: bytearray) -> None:
        for begin in range(0, len(data), _CHUNK_BYTES):
            self._sums += crc32(data[begin : begin + _CHUNK_BYTES]).to_bytes(_SUM_BYTES, "big")

    def tell(self) -> int:
        return self._size

    def readable(self) -> bool:
        return False

    def seekable(self) -> bool:
        return False

    def writable(self) -> bool:
        return True

    def close(self) -> None:
        if self.closed:
            return
        super().close()
        self._sum_chunks(self._rest)
        self._file.write_bytes(_HEADER.pack(_MAGIC, _CHUNK_BYTES) + self._sums)


class _CheckedStream(ReadStream):
    """A stream of a file, with the methods that pyiceberg and pyarrow call; it reads whole chunks, and checks each."""

    def __init__(self, stream: Any, step: int, sums: tuple[int, ...], location: str) -> None:
        super().__init__(stream)
        self._step, self._sums, self._location = step, sums, location
        self._size = int(stream.seek(0, 2))
        self._at = 0
        if -(-self._size // step) != len(sums):
            raise self._build_error(f"{self._size} bytes", f"{len(sums)} chunks of up to {step} bytes")

    def read(self, size: int | None = None) -> bytes:
        start = min(self._at, self._size)
        end = self._size if size is None or size < 0 else min(self._size, start + size)
        if start == end:
            return b""
        first = start - start % self._step
        last = min(self._size, end + -end % self._step)
        self._stream.seek(first)
        data = bytes(self._stream.read(last - first))
        self._check_chunks(data, first // self._step)
        self._at = end
        return data[start - first : end - first]

    def _check_chunks(self, data: bytes, first: int) -> None:
        view = memoryview(data)
        for number, begin in enumerate(range(0, len(data), self._step), first):
            actual = crc32(view[begin : begin + self._step])
            if actual != self._sums[number]:
                place = f"bytes {number * self._step} to {number * self._step + self._step - 1}"
                raise self._build_error(f"{actual:08x} for {place}", f"{self._sums[number]:08x}")

    def _build_error(self, actual: str, expected: str) -> ChecksumError:
        return ChecksumError(f"the checksums of {self._location} do not fit: {actual}, and written was {expected}")

    def seek(self, offset: int, whence: int = 0) -> int:
        begin = {0: 0, 1: self._at, 2: self._size}[whence]
        if begin + offset < 0:
            raise ValueError(f"{self._location} has no byte {begin + offset}")
        self._at = begin + offset
        return self._at

    def tell(self) -> int:
        return self._at

    def size(self) -> int:
        return self._size
