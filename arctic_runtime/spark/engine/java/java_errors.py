"""Classifies and explains errors that come from Java: a commit conflict, a missing right, a damaged file, a full disk.

An error is classified by the classes of its Java exceptions and the first line of their messages, never by its whole
text: that may quote rows, and a value may contain `already exists`, too.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from py4j.java_gateway import JavaObject
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException

from arctic_runtime.catalog.damaged_files import REMEDY
from arctic_runtime.catalog_kinds.missing_rights import find_missing_right, to_rights_error
from arctic_runtime.effects import Engine, EngineFailure, FailureKind
from arctic_runtime.errors import ArcticError, CatalogError, CorruptState

# Errors of Iceberg that Spark does not convert are raised as Py4JJavaError.
SPARK_ERRORS = (PySparkException, Py4JJavaError)

_SPARK_PACKAGE = "org.apache.spark."
_CONNECT_CLASS = re.compile(r"\(([\w$]+(?:\.[\w$]+)+)\) ?(.*)")
_CAUSED_BY = re.compile(r"^Caused by: ([\w$.]+)(?:: (.*))?$", re.MULTILINE)

_TOO_LARGE_TO_BROADCAST = (
    "Not enough memory to build and broadcast",
    "Cannot broadcast the table",
    "Could not execute broadcast",
    "spark.driver.maxResultSize",
)


@dataclass(frozen=True)
class JavaException:
    """A Java exception: `name` is its class, with the package if known, `message` the first line of its message."""

    name: str
    message: str

    @property
    def simple_name(self) -> str:
        return self.name.rpartition(".")[2]


@dataclass(frozen=True)
class _Rule:
    """A rule that classifies exceptions as failures of a `kind`, by their class and message.

    It applies if the class matches `classes` and the message contains one of `signs`; no signs means any message.
    """

    kind: FailureKind
    classes: re.Pattern[str]
    signs: tuple[str, ...] = ()

    def matches_exception(self, exception: JavaException) -> bool:
        is_class = self.classes.fullmatch(exception.simple_name) is not None
        return is_class and (not self.signs or any(sign in exception.message for sign in self.signs))


_RULES = (
    _Rule("locked", re.compile(".*SQL.*Exception"), ("SQLITE_BUSY", "SQLITE_LOCKED", "database is locked")),
    _Rule("conflict", re.compile("CommitFailedException|AlreadyExistsException")),
    _Rule(
        "conflict",
        re.compile("ValidationException|IllegalArgumentException|IllegalStateException"),
        (
            "is not an ancestor of",
            "Cannot commit",
            "does not exist: arctic_",
            "branch does not exist",
            "Cannot use branch (does not exist)",
            "already exists",
            "Found conflicting",
            "Found new conflicting",
            "Found concurrently added",
            "Missing required files to delete",
            "Cannot determine history between",
            "Still referenced by refs",
            "Cannot add duplicate partition field",
            # Iceberg fails so if snapshots that are to expire have expired already.
            "arraySize cannot be negative",
        ),
    ),
    # A REST server on Iceberg 1.10 or older answers so if another commit came first, in place of a conflict.
    _Rule(
        "conflict",
        re.compile("BadRequestException|.*ValidationException"),
        ("older than last sequence number", "is behind table next-row-id"),
    ),
    _Rule("unwritable", re.compile(".*SQL.*Exception"), ("SQLITE_READONLY", "SQLITE_FULL")),
    _Rule("unwritable", re.compile("AccessDenied.*|AccessControlException")),
    _Rule(
        "unwritable",
        re.compile(".*(IO|FileNotFound|FileSystem|FS|S3|Storage|Forbidden)(Exception|Error)"),
        (
            *("Permission denied", "Read-only file system", "AccessDenied", "Access Denied"),
            *("No space left on device", "Disk quota exceeded"),
        ),
    ),
)
_REFUSAL = re.compile("AccessDenied.*|ForbiddenException|(?:S3|Glue)Exception|.*SQL.*Exception")
"""Java's exceptions by which S3, Glue or a database refuses a user, among other things."""

_NETWORK = re.compile(
    "(?:Connect|Socket|SocketTimeout|NoHttpResponse|ConnectionClosed|HttpHostConnect|ConnectTimeout|UnknownHost|SSL"
    "|TruncatedChunk|MalformedChunkCoding|CommitStateUnknown|ServiceUnavailable)Exception"
)
"""Java's exceptions for a connection that failed, and Iceberg's for an answer that it did not get."""

_NO_VIEWS_IN_SPARK = ("MISSING_CATALOG_ABILITY.VIEWS", "UNSUPPORTED_FEATURE.CATALOG_OPERATION")
_UNSUPPORTED = "UnsupportedOperationException"
_REFUSALS = ("BadRequestException", "RESTException", _UNSUPPORTED)
"""The exceptions by which a REST server refuses a request that it does not know."""

_CONFLICTS_OF_SPARK = (
    *("TABLE_OR_VIEW_ALREADY_EXISTS", "VIEW_ALREADY_EXISTS", "SCHEMA_ALREADY_EXISTS"),
    *("TABLE_OR_VIEW_NOT_FOUND", "FIELD_ALREADY_EXISTS"),
)
"""The error conditions of Spark that mean a commit conflict; all its other conditions do not.

What an effect creates was missing when the tables were observed, and what it changes was there.
"""
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


def classify_failure(error: Exception) -> EngineFailure | None:
    """Classifies an error of Spark or Iceberg by its meaning for a commit; None if it is of no known kind."""
    if isinstance(error, PySparkException) and (condition := error.getCondition()) is not None:
        is_conflict = condition in _CONFLICTS_OF_SPARK
        return EngineFailure("conflict", _get_first_line(str(error))) if is_conflict else None
    exceptions = [one for one in walk_java_exceptions(error) if not one.name.startswith(_SPARK_PACKAGE)]
    if (refusal := _find_refusal(exceptions)) is not None:
        return EngineFailure("refused", refusal)
    for rule in _RULES:
        if any(rule.matches_exception(one) for one in exceptions):
            return EngineFailure(rule.kind, _get_first_line(_get_text(error)))
    return None


SPARK = Engine(SPARK_ERRORS, classify_failure)
"""The errors of Spark, embedded or over Spark Connect, and their classification."""


def find_refusal(error: Exception) -> str | None:
    """Returns the message by which S3, Glue or a database refused the user for want of a right; None if none did."""
    return _find_refusal(walk_java_exceptions(error)) if isinstance(error, SPARK_ERRORS) else None


def _find_refusal(exceptions: Iterable[JavaException]) -> str | None:
    refusals = (one.message for one in exceptions if _REFUSAL.fullmatch(one.simple_name))
    return next((message for message in refusals if find_missing_right(message) is not None), None)


def was_too_large_to_broadcast(error: Exception) -> bool:
    """Whether Spark failed because the broadcast side of a join was too large."""
    return any(sign in str(error) for sign in _TOO_LARGE_TO_BROADCAST)


def is_network_error(error: Exception) -> bool:
    """Whether an error of Spark says that a server did not answer, or answered in part."""
    return isinstance(error, SPARK_ERRORS) and any(
        _NETWORK.fullmatch(exception.simple_name) for exception in walk_java_exceptions(error)
    )


def is_view_refusal(error: Exception) -> bool:
    """Whether an error says that the catalog does not support views."""
    if isinstance(error, PySparkException) and error.getCondition() in _NO_VIEWS_IN_SPARK:
        return True
    is_named = (
        "view" in exception.message.lower()
        for exception in walk_java_exceptions(error)
        if exception.simple_name == _UNSUPPORTED
    )
    return any(is_named)


def is_staging_refusal(error: Exception) -> bool:
    """Whether an error may mean that a REST server refuses to stage the creation of a table."""
    return any(exception.simple_name in _REFUSALS for exception in walk_java_exceptions(error))


def walk_java_exceptions(error: Exception) -> Iterator[JavaException]:
    """Yields the Java exception behind an error of Spark, then its causes, as far as Python knows them."""
    if isinstance(error, Py4JJavaError):
        yield from _walk_thrown(error.java_exception)
        return
    message = _get_first_line(str(error))
    sent = _CONNECT_CLASS.match(message)
    yield JavaException(sent[1], sent[2]) if sent else JavaException(type(error).__name__, message)
    if isinstance(error, _Traced):
        for name, caused in _CAUSED_BY.findall(error.getStackTrace() or ""):
            yield JavaException(name, caused)


@runtime_checkable
class _Traced(Protocol):
    """An error of Spark Connect, which has the server's stack trace."""

    def getStackTrace(self) -> str | None: ...  # noqa: N802 - PySpark's name


def _walk_thrown(exception: JavaObject | None) -> Iterator[JavaException]:
    while exception is not None:
        yield JavaException(exception.getClass().getName(), _get_first_line(exception.getMessage() or ""))
        exception = exception.getCause()


def _get_text(error: Exception) -> str:
    return str(error.java_exception) if isinstance(error, Py4JJavaError) else str(error) or type(error).__name__


def _get_first_line(text: str) -> str:
    return text.strip().partition("\n")[0]


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
