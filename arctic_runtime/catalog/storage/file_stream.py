"""Streams of files around streams of another library, and a FileIO whose streams count the bytes that are read."""

from __future__ import annotations

import threading
from typing import Any, cast

from typing_extensions import Self


class FileStream:
    """A stream around another one, which ends with it and with its block."""

    def __init__(self, stream: Any) -> None:
        self._stream = stream

    @property
    def closed(self) -> bool:
        return bool(self._stream.closed)

    def flush(self) -> None:
        """Writes nothing early: a stream is complete once it is closed."""

    def close(self) -> None:
        self._stream.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class ReadStream(FileStream):
    """A stream that is only read, at any place."""

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def writable(self) -> bool:
        return False


class MeteredFileIO:
    """A read-only FileIO that reads through the table's own FileIO; `bytes` counts the bytes read so far."""

    def __init__(self, io: Any) -> None:
        self._io = io
        self._lock = threading.Lock()
        self.bytes = 0

    def new_input(self, location: str) -> _Input:
        return _Input(self._io.new_input(location), self)

    def add_bytes(self, count: int) -> None:
        """Adds `count` to `bytes`; under a lock, since several threads may read columns of one file."""
        with self._lock:
            self.bytes += count


class _Input:
    def __init__(self, file: Any, tally: MeteredFileIO) -> None:
        self._file, self._tally = file, tally

    def open(self, seekable: bool = True) -> _Stream:
        return _Stream(self._file.open(seekable), self._tally)


class _Stream(ReadStream):
    """A file stream that counts the bytes read, with the methods that pyarrow calls."""

    def __init__(self, stream: Any, tally: MeteredFileIO) -> None:
        super().__init__(stream)
        self._tally = tally

    def read(self, size: int | None = None) -> bytes:
        data = cast(bytes, self._stream.read(size) if size is not None and size >= 0 else self._stream.read())
        self._tally.add_bytes(len(data))
        return data

    def seek(self, offset: int, whence: int = 0) -> int:
        return int(self._stream.seek(offset, whence))

    def tell(self) -> int:
        return int(self._stream.tell())
