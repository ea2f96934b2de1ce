"""Explains errors of Spark: a file of a table is missing or damaged, a right is missing, or the disk is full."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager

from arctic_runtime.catalog.damaged_files import REMEDY
from arctic_runtime.catalog_kinds.missing_rights import to_rights_error
from arctic_runtime.errors import ArcticError, CatalogError, CorruptState
from arctic_runtime.spark.engine.java.java_errors import SPARK_ERRORS, JavaException, find_refusal, walk_java_exceptions

_FILE = re.compile(r"(?:[a-z][a-z0-9+.-]*:)?/[^\s'\",;]+?\.(?:metadata\.json|parquet|avro|puffin|orc)(?:\.gz)?")
_MISSING = re.compile("NotFoundException|FileNotFoundException|NoSuchFileException|NoSuchKeyException")
_DAMAGED = re.compile(
    "ChecksumException|Parquet(?:Decoding|Crc|Encoding)Exception|.*Avro.*Exception|MalformedBlockException"
    "|Json(?:Parse|EOF|Mapping|Processing)Exception|MismatchedInputException|StreamReadException|EOFException"
    "|T(?:Transport|Protocol)Exception|Zstd.*Exception|Snappy.*(?:Exception|Error)"
)
_SIGNS = (
    *("is not a Parquet file", "can not read class org.apache.parquet", "CRC checksum verification failed"),
    *("Invalid file: ", "Invalid bitmap", "Invalid CRC", "Invalid magic"),
)
"""Texts by which exceptions of other classes say that they can't read a file."""

_READS = ("Failed to open", "Failed to read", "Cannot read", "Failed to get footer")
_FULL = ("No space left on device", "Disk quota exceeded", "SQLITE_FULL")


@contextmanager
def explain_damaged_files(table: object) -> Iterator[None]:
    """Converts errors of Spark within the block, in which rows of `table` or of its sources are read and written.

    Raises CorruptState if a file is missing or damaged, and CatalogError if the user lacks a right or the disk is full.
    Other errors pass unchanged.
    """
    try:
        yield
    except SPARK_ERRORS as error:
        explained = to_damage(error, str(table))
        if explained is None:
            raise
        raise explained from error


def to_damage(error: Exception, table: str) -> ArcticError | None:
    """Returns the error to raise instead of `error`; None if it has no other meaning.

    It has one if a file is missing or damaged, the user lacks a right, or the disk is full. `table` is the table for
    which Spark worked; the file may belong to one that it reads.
    """
    if (refusal := find_refusal(error)) is not None:
        return to_rights_error(refusal, f"Spark worked for {table}")
    exceptions = list(walk_java_exceptions(error)) if isinstance(error, SPARK_ERRORS) else []
    if full := next((one for one in exceptions if any(sign in one.message for sign in _FULL)), None):
        return CatalogError(
            f"{table}: the disk is full.",
            actual=full.message,
            fix="make space, of Spark's temporary folder too, then run again: what was committed stays",
        )
    cause = next((one for one in reversed(exceptions) if _is_of_file(one)), None)
    if cause is None:
        return None
    file = next((found[0] for one in reversed(exceptions) if (found := _FILE.search(one.message))), None)
    is_missing = _MISSING.fullmatch(cause.simple_name) is not None
    return CorruptState(
        f"{table}: a file of it, or of a table that it reads, is {'missing' if is_missing else 'damaged'}.",
        where=file,
        expected="the file that was written",
        actual=f"{cause.simple_name}: {cause.message}",
        fix=REMEDY,
    )


def _is_of_file(exception: JavaException) -> bool:
    name, message = exception.simple_name, exception.message
    if _MISSING.fullmatch(name):
        return _FILE.search(message) is not None
    if any(sign in message for sign in _SIGNS):
        return True
    is_read = message.startswith(_READS) and _FILE.search(message) is not None
    return is_read or _DAMAGED.fullmatch(name) is not None
