"""Streams of files around streams of another library, with the methods that pyiceberg and pyarrow call."""

from __future__ import annotations

from typing import Any

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
