"""Lets pyiceberg read and write files of a local disk with checksums beside them, as Hadoop's file system does.

Spark writes and checks these; pyiceberg and pyarrow do not: a flipped bit in a metadata file, a manifest or the footer
of a data file could change which rows they read. Object stores check what they store by themselves.
"""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import Any

from pyiceberg.io import InputFile, OutputFile
from pyiceberg.io.fsspec import FsspecFileIO, FsspecInputFile, FsspecOutputFile

from arctic_runtime.catalog.storage.checksums import (
    CHUNK_BYTES,
    check_chunks,
    check_size,
    find_checksums,
    find_local_path,
    read_checksums,
    sum_chunks,
    write_checksums,
)
from arctic_runtime.catalog.storage.file_stream import FileStream, ReadStream


class CheckedFileIO(FsspecFileIO):
    """Pyiceberg's access to files, which writes checksums of local files and compares them with the bytes it reads.

    Reads raise ChecksumError for bytes that have changed. A file without checksums is read as it is.
    """

    def new_input(self, location: str) -> FsspecInputFile:
        file = super().new_input(location)
        path = find_local_path(location)
        return file if path is None else _CheckedFile(file, path)

    def new_output(self, location: str) -> FsspecOutputFile:
        file = super().new_output(location)
        path = find_local_path(location)
        return file if path is None else _SummedFile(file, path)

    def delete(self, location: str | InputFile | OutputFile) -> None:
        """Deletes a file, and its checksums; raises FileNotFoundError if it does not exist."""
        super().delete(location)
        path = find_local_path(location if isinstance(location, str) else location.location)
        if path is not None:
            with suppress(FileNotFoundError):
                super().delete(str(find_checksums(path)))


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
            self._fs.rm(str(find_checksums(self._path)))
        return _SummedStream(stream, self._path)

    def to_input_file(self) -> FsspecInputFile:
        return _CheckedFile(super().to_input_file(), self._path)


class _SummedStream(FileStream):
    """A stream that writes the checksums of a file when it is closed, after the file itself."""

    def __init__(self, stream: Any, path: Path) -> None:
        super().__init__(stream)
        self._path, self._sums, self._rest, self._size = path, bytearray(), bytearray(), 0

    def write(self, data: Any) -> int:
        content = bytes(data)
        self._stream.write(content)
        self._size += len(content)
        self._rest += content
        whole = len(self._rest) - len(self._rest) % CHUNK_BYTES
        self._sums += sum_chunks(self._rest[:whole])
        del self._rest[:whole]
        return len(content)

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
        write_checksums(self._path, self._sums + sum_chunks(self._rest))


class _CheckedStream(ReadStream):
    """A stream of a file, with the methods that pyiceberg and pyarrow call; it reads whole chunks, and checks each."""

    def __init__(self, stream: Any, step: int, sums: tuple[int, ...], location: str) -> None:
        super().__init__(stream)
        self._step, self._sums, self._location = step, sums, location
        self._size = int(stream.seek(0, 2))
        self._at = 0
        check_size(self._size, step, sums, location)

    def read(self, size: int | None = None) -> bytes:
        start = min(self._at, self._size)
        end = self._size if size is None or size < 0 else min(self._size, start + size)
        if start == end:
            return b""
        first = start - start % self._step
        last = min(self._size, end + -end % self._step)
        self._stream.seek(first)
        data = bytes(self._stream.read(last - first))
        check_chunks(data, first // self._step, self._step, self._sums, self._location)
        self._at = end
        return data[start - first : end - first]

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
