"""Lets DuckDB read a table's files by the access of its catalog, under numbers in the place of their addresses."""

from __future__ import annotations

from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any

from fsspec import AbstractFileSystem  # type: ignore[import-untyped, unused-ignore]

if TYPE_CHECKING:
    from pyiceberg.table import Table

PROTOCOL = "arctic"


class TableFileSystem(AbstractFileSystem):  # type: ignore[misc, unused-ignore]
    """The files that were added to it, each under an address such as `arctic://7`."""

    protocol = PROTOCOL
    cachable = False  # codespell:ignore cachable - fsspec's own name

    def __init__(self) -> None:
        super().__init__()
        self._files: list[tuple[Table, str]] = []

    def add_file(self, table: Table, path: str) -> str:
        """Adds a file of a table, and returns the address under which DuckDB reads it."""
        self._files.append((table, path))
        return f"{PROTOCOL}://{len(self._files) - 1}"

    def _find_input(self, address: str) -> Any:
        table, path = self._files[int(address.rpartition("/")[2])]
        return table.io.new_input(path)

    @classmethod
    def _strip_protocol(cls, path: str) -> str:
        return path

    def _open(self, path: str, mode: str = "rb", **_: Any) -> Any:
        if mode != "rb":
            raise PermissionError("the files of a table are only read")
        return self._find_input(path).open()

    def info(self, path: str, **_: Any) -> dict[str, Any]:
        return {"name": path, "size": len(self._find_input(path)), "type": "file"}

    def modified(self, path: str) -> datetime:  # noqa: ARG002 - all files have the same
        """Returns one time for all files, since Iceberg's files never change."""
        return datetime(2000, 1, 1, tzinfo=timezone.utc)

    def glob(self, path: str, **_: Any) -> list[str]:
        return [path]

    def exists(self, path: str, **_: Any) -> bool:
        return 0 <= int(path.rpartition("/")[2]) < len(self._files)
