"""When a table's rows last changed."""

from __future__ import annotations

import datetime as dt

from arctic_runtime.model.names import TableName
from arctic_runtime.model.state import Commit, SourceState
from arctic_runtime.model.version import Version
from dbt.adapters.arctic.relations.freshness import find_last_change, write_last_change_query


def state(*operations: str) -> SourceState:
    """One commit a second, the first one a second after 1970 began."""
    commits = tuple(
        Commit(Version("t", i, i), None, operation, 1, 1, {}, 1000 * i) for i, operation in enumerate(operations, 1)
    )
    return SourceState(TableName("lake", "s", "t"), "table", commits[-1].version, commits, (), 3)


def seconds(state: SourceState) -> float:
    return (find_last_change(state) - dt.datetime(1970, 1, 1, tzinfo=dt.timezone.utc)).total_seconds()


def test_the_newest_change_of_rows_counts_and_a_compaction_does_not() -> None:
    assert seconds(state("append", "overwrite")) == 2
    assert seconds(state("append", "delete", "replace", "replace")) == 2


def test_where_only_compactions_are_kept_the_oldest_counts() -> None:
    assert seconds(state("replace", "replace")) == 1


def test_spark_is_asked_the_same_of_a_quoted_name() -> None:
    expected = "SELECT max(committed_at) FROM `lake`.`s`.`a``b`.`snapshots` WHERE operation <> 'replace' "
    expected += "AND summary['arctic.trimmed'] IS NULL"
    assert write_last_change_query(TableName("lake", "s", "a`b")) == expected
