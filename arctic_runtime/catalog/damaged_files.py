"""Explains errors of reading a table's files: a file is missing, damaged, or can't be read, and what to do then."""

from __future__ import annotations

import errno
import struct
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from arctic_runtime.catalog.storage.checksums import ChecksumError
from arctic_runtime.catalog_kinds.missing_rights import to_rights_error
from arctic_runtime.errors import ArcticError, CatalogError, CorruptState

if TYPE_CHECKING:
    from pyiceberg.table import Table

REMEDY = (
    "run again, and if the error stays, bring the file back from a backup, or replace the table: see Damaged files in "
    "docs/troubleshooting.md"
)
"""Advice to a user whose table has a file that is missing or damaged."""


@contextmanager
def explain_damage(table: Table | str, file: str) -> Iterator[None]:
    """Converts errors of reading `file`, which belongs to `table`, within the block.

    Raises CorruptState if the file is missing or does not have the contents that were written, and CatalogError if it
    can't be read now, as for want of a right. Errors that dbt-arctic raises on purpose pass unchanged.
    """
    try:
        yield
    except _get_errors() as error:
        name = table if isinstance(table, str) else ".".join(table.name())
        raise _describe_damage(name, file, error) from error


def _get_errors() -> tuple[type[Exception], ...]:
    """Exceptions that pyarrow, pyiceberg and Python's own readers raise for bytes that are not what they expect."""
    from pyiceberg.exceptions import ValidationError

    builtin = (
        *(ArithmeticError, AssertionError, AttributeError, EOFError, LookupError, MemoryError, OSError),
        *(RuntimeError, TypeError, ValueError),
    )
    return (*builtin, ValidationError, struct.error, zlib.error)


def _describe_damage(table: str, file: str, error: Exception) -> ArcticError:
    reason = str(error).strip().partition("\n")[0] or type(error).__name__
    if (refusal := to_rights_error(reason, f"read {file} of {table}")) is not None:
        return refusal
    if isinstance(error, FileNotFoundError):
        return CorruptState(
            f"{table}: a file of the table is missing.",
            where=file,
            expected="the file that the catalog or the table's metadata names",
            actual=reason,
            fix=REMEDY,
        )
    if isinstance(error, OSError) and not isinstance(error, ChecksumError) and not _is_of_content(error):
        return CatalogError(
            f"{table}: a file of the table can't be read.",
            where=file,
            actual=reason,
            fix=REMEDY,
        )
    return CorruptState(
        f"{table}: a file of the table is damaged.",
        where=file,
        expected="the bytes that were written",
        actual=reason,
        fix=REMEDY,
    )


def _is_of_content(error: OSError) -> bool:
    """Whether an error says that a file is too short for a position in it, or that pyarrow can't decode it."""
    if error.errno == errno.EINVAL:
        return True
    signs = ("thrift", "CRC", "checksum", "Corrupt", "corrupt", "end of stream", "page", "magic", "decompress")
    return error.errno is None and any(sign in str(error) for sign in signs)
