"""What errors of Java mean: by the classes of exceptions and the first lines of their messages, not by quoted rows."""

from __future__ import annotations

import pytest
from pyspark.errors import IllegalArgumentException, NumberFormatException, PySparkException

from arctic_runtime.effects import FailureKind
from arctic_runtime.spark.engine.java.java_errors import (
    JavaException,
    classify_failure,
    is_network_error,
    walk_java_exceptions,
)

ICEBERG = "org.apache.iceberg.exceptions"
OLDER = "with sequence number 10 older than last sequence number 10"
QUOTED = "The value 'already exists: SQLITE_BUSY, database is locked, Permission denied' can't be cast"


class Sent(PySparkException):
    """An error as Spark Connect sends it, with the server's stack trace."""

    def __init__(self, message: str, trace: str = "") -> None:
        super().__init__(message)
        self.trace = trace

    def getStackTrace(self) -> str:  # noqa: N802
        return self.trace


def kind_of(error: Exception) -> FailureKind | None:
    failure = classify_failure(error)
    return failure.kind if failure else None


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (IllegalArgumentException("Cannot fast-forward: main is not an ancestor of arctic_b"), "conflict"),
        (IllegalArgumentException("Ref arctic_b already exists"), "conflict"),
        (IllegalArgumentException("Cannot expire 5. Still referenced by refs: [main]"), "conflict"),
        (IllegalArgumentException("Tag does not exist: mine"), None),
        (Sent(f"({ICEBERG}.CommitFailedException) any words"), "conflict"),
        (Sent(f"({ICEBERG}.ValidationException) Found conflicting files that can contain rows"), "conflict"),
        (Sent(f"({ICEBERG}.ValidationException) Invalid metadata"), None),
        (Sent(f"({ICEBERG}.BadRequestException) Malformed request: Cannot add snapshot {OLDER}"), "conflict"),
        (Sent(f"({ICEBERG}.BadRequestException) Malformed request: Invalid metadata"), None),
        (Sent("(java.io.IOException) Permission denied"), "unwritable"),
        (Sent("(java.nio.file.AccessDeniedException) /warehouse/m"), "unwritable"),
        (Sent("(org.sqlite.SQLiteException) [SQLITE_READONLY] Attempt to write"), "unwritable"),
        (Sent("(org.sqlite.SQLiteException) [SQLITE_FULL] Insertion failed because database is full"), "unwritable"),
        (Sent("(java.io.IOException) No space left on device"), "unwritable"),
        (Sent("(org.apache.hadoop.fs.FSError) java.io.IOException: No space left on device"), "unwritable"),
        (Sent("(org.postgresql.util.PSQLException) ERROR: permission denied for table iceberg_tables"), "refused"),
        (
            Sent("(software.amazon.awssdk.services.s3.model.S3Exception) Forbidden (Service: S3, Status Code: 403)"),
            "refused",
        ),
        (Sent("(a.AccessDeniedException) User: x is not authorized to perform: glue:UpdateTable"), "refused"),
        (Sent("(java.lang.NumberFormatException) permission denied for table iceberg_tables"), None),
        (Sent("(org.sqlite.SQLiteException) [SQLITE_BUSY] The database file is locked"), "locked"),
        (PySparkException("already exists"), None),
    ],
)
def test_an_error_of_iceberg_means_what_its_class_and_its_first_line_say(
    error: Exception, kind: FailureKind | None
) -> None:
    assert kind_of(error) == kind


@pytest.mark.parametrize(
    ("message", "is_of_network"),
    [
        ("(java.net.ConnectException) Connection refused", True),
        ("(org.apache.hc.core5.http.NoHttpResponseException) failed to respond", True),
        (f"({ICEBERG}.CommitStateUnknownException) unknown", True),
        (f"({ICEBERG}.BadRequestException) Malformed request", False),
        (f"({ICEBERG}.RESTException) Unable to process", False),
    ],
)
def test_an_error_of_the_network_is_told_from_a_refusal(message: str, is_of_network: bool) -> None:
    assert is_network_error(Sent(message)) is is_of_network


def test_a_lock_is_known_from_the_cause_that_a_server_tells() -> None:
    message = "(org.apache.iceberg.jdbc.UncheckedSQLException) Unknown failure"
    trace = "\n".join(
        [
            "org.apache.iceberg.jdbc.UncheckedSQLException",
            "\tat org.apache.iceberg.jdbc.JdbcTableOperations.doCommit(JdbcTableOperations.java:139)",
            "Caused by: org.sqlite.SQLiteException: [SQLITE_BUSY] The database file is locked (database is locked)",
        ]
    )
    assert list(walk_java_exceptions(Sent(message, trace)))[1] == JavaException(
        "org.sqlite.SQLiteException", "[SQLITE_BUSY] The database file is locked (database is locked)"
    )
    assert kind_of(Sent(message, trace)) == "locked"
    assert kind_of(Sent(message)) is None


@pytest.mark.parametrize(
    "error",
    [
        NumberFormatException(QUOTED),
        PySparkException(QUOTED, errorClass="CAST_INVALID_INPUT", messageParameters={}),
        IllegalArgumentException(QUOTED, errorClass="CAST_INVALID_INPUT", messageParameters={}),
        Sent(f"(org.apache.spark.SparkRuntimeException) {QUOTED}"),
        Sent(f"(java.lang.NumberFormatException) {QUOTED}"),
        IllegalArgumentException("Bad value:\nalready exists"),
    ],
)
def test_a_value_that_an_error_quotes_is_never_taken_for_a_lost_race(error: Exception) -> None:
    assert kind_of(error) is None


def test_a_table_that_somebody_else_has_just_created_is_a_lost_race() -> None:
    error = PySparkException("[X] exists", errorClass="TABLE_OR_VIEW_ALREADY_EXISTS", messageParameters={})
    assert kind_of(error) == "conflict"
