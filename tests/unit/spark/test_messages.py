"""Messages of Spark's errors, in words for people."""

from __future__ import annotations

import pytest

from arctic_runtime.catalog_kinds.missing_rights import to_rights_error
from arctic_runtime.spark.engine.messages import get_message

NOT_FOUND = (
    "[TABLE_OR_VIEW_NOT_FOUND] The table `a` cannot be found. SQLSTATE: 42P01; line 1 pos 14;\n"
    "'Project [*]\n+- 'UnresolvedRelation [a], [], false\n"
)
NAMESPACE = (
    "An error occurred while calling o89.sql.\n"
    ": org.apache.iceberg.exceptions.NamespaceNotEmptyException: Namespace x is not empty. Contains 2 table(s).\n"
    "\tat org.apache.iceberg.jdbc.JdbcCatalog.dropNamespace(JdbcCatalog.java:556)\n"
    "\tat java.base/java.lang.Thread.run(Thread.java:840)\n"
    "\tSuppressed: org.apache.spark.util.Utils$Original: Full stacktrace\n"
    "\t\tat org.x.Y.z(Y.java:1)\n\t\t... 22 more\n"
)
CAUSED = (
    "An error occurred while calling o1.sql.\n: org.apache.iceberg.jdbc.UncheckedSQLException: Cannot commit\n"
    "\tat a.B.c(B.java:1)\n"
    "Caused by: org.sqlite.SQLiteException: [SQLITE_BUSY] The database file is locked\n\t... 2 more\n"
)
SERVERS = (
    "(org.apache.iceberg.exceptions.ValidationException) Cannot set b to unknown snapshot: 12\n\nJVM stacktrace:\n"
    "org.apache.iceberg.exceptions.ValidationException\n\tat a.B.c(B.java:1)\n"
)
SERVERS_CAUSED = (
    "(org.apache.iceberg.jdbc.UncheckedSQLException) Cannot commit\n\nJVM stacktrace:\n"
    "org.apache.iceberg.jdbc.UncheckedSQLException\n\tat a.B.c(B.java:1)\n"
    "Caused by: org.sqlite.SQLiteException: [SQLITE_BUSY] The database file is locked\n\t... 2 more\n"
)
SYNTAX = "\n[PARSE_SYNTAX_ERROR] Syntax error at or near 'selec'. (line 1, pos 0)\n\n== SQL ==\nselec 1\n^^^\n"


@pytest.mark.parametrize(
    ("raw", "expected"),
    [
        (NOT_FOUND, "[TABLE_OR_VIEW_NOT_FOUND] The table `a` cannot be found. SQLSTATE: 42P01; line 1 pos 14"),
        (NAMESPACE, "Namespace x is not empty. Contains 2 table(s)."),
        (CAUSED, "Cannot commit\n[SQLITE_BUSY] The database file is locked"),
        (SYNTAX, SYNTAX.strip()),
        (SERVERS, "Cannot set b to unknown snapshot: 12"),
        (SERVERS_CAUSED, "Cannot commit\n[SQLITE_BUSY] The database file is locked"),
        ("", "Exception"),
    ],
)
def test_errors_are_reported_in_words(raw: str, expected: str) -> None:
    assert get_message(Exception(raw)) == expected


def test_a_clock_that_is_behind_is_reported_as_such() -> None:
    raw = "java.lang.IllegalArgumentException: [BUG] Expected sorted snapshot log entries."
    lines = get_message(Exception(raw)).splitlines()
    assert lines[0] == "[BUG] Expected sorted snapshot log entries."
    assert "the clock is more than a minute behind the newest commit" in lines[1]
    assert get_message(Exception("something else")) == "something else"


def test_a_query_with_qualify_is_answered_with_what_spark_has() -> None:
    text = SYNTAX.replace("selec 1", "select a, row_number() over (order by a) as n from t qualify n = 1")
    assert get_message(Exception(text)).endswith("compare the column of the window function in WHERE")
    assert "QUALIFY" not in get_message(Exception("[UNRESOLVED_COLUMN] qualify"))


def test_an_error_of_ours_has_its_own_advice_about_a_right() -> None:
    refusal = "User: u is not authorized to perform: s3:PutObject on resource: b"
    assert "what to do: allow s3:PutObject" in get_message(RuntimeError(refusal))
    ours = to_rights_error(refusal, "write a file")
    assert ours is not None
    assert get_message(ours) == str(ours)


@pytest.mark.parametrize(
    "raw",
    [
        "An error occurred while calling o1.append.\n: org.apache.spark.SparkException: Writing job aborted\n"
        "Caused by: org.apache.spark.SparkException: [SPARK_JOB_CANCELLED] Job 7 cancelled. SQLSTATE: XXKDA",
        "An error occurred while calling o1.sql.\n: java.util.concurrent.ExecutionException: "
        "org.apache.spark.SparkException: [SPARK_JOB_CANCELLED] Job 0 cancelled killed via Web UI SQLSTATE: XXKDA",
        "(org.apache.spark.SparkSQLException) [OPERATION_CANCELED] Operation has been canceled. SQLSTATE: HY008",
    ],
)
def test_work_that_somebody_cancelled_may_be_done_again(raw: str) -> None:
    message = get_message(RuntimeError(raw))
    assert "what to do: run again: what was committed stays" in message
    assert "org.apache" not in message
    assert "run again" not in get_message(RuntimeError("no row has [OPERATION_CANCELED]"))
