"""Sizes of a table's files and of the columns in them, from which the bytes that a run reads are estimated."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True)
class FileSizes:
    """Rows, files and bytes of a table, or of those of its files that a filter does not skip.

    `column_bytes` has the stored bytes by column, in lower case; a field of a struct is a column such as `a.b`. A
    column of which the files do not tell the size is left out.
    """

    rows: int = 0
    files: int = 0
    bytes: int = 0
    column_bytes: Mapping[str, int] = field(default_factory=dict)

    def sum_bytes(self, columns: Collection[str]) -> int:
        """Sums up the bytes that a scan of `columns` reads: the files without the other columns.

        A struct counts with all its fields. Bytes of files that belong to no column, such as footers, are read too.
        """
        wanted = {column.lower() for column in columns}
        skipped = (size for name, size in self.column_bytes.items() if not {name, name.partition(".")[0]} & wanted)
        return max(0, self.bytes - sum(skipped))

    def estimate_row_bytes(self) -> float | None:
        """Mean bytes of a row in the files; None without rows."""
        return self.bytes / self.rows if self.rows else None
