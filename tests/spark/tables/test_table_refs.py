"""Branches and tags that the catalog's client commits: Iceberg would write the same, and Spark goes on from it."""

from __future__ import annotations

import json
import re
from contextlib import nullcontext
from functools import partial
from typing import Any

import pytest

from arctic_runtime.catalog.metadata_commits import build_next_metadata
from arctic_runtime.catalog.metadata_files import name_metadata_file
from arctic_runtime.catalog.table_refs import change_refs, read_refs, replace_refs
from arctic_runtime.effects import watch_effects
from arctic_runtime.model.refs import MAIN, RefChange, Refs, TableRefs, add_branch, publish_branch, remove_refs, set_tag
from arctic_runtime.spark.tables.commit import Attempt, swap_in
from tests.spark.warehouse import Warehouse, sorted_rows

PROPERTIES: dict[str, dict[str, str]] = {
    "as runs make them": {
        "format-version": "3",
        "write.metadata.delete-after-commit.enabled": "true",
        "write.metadata.previous-versions-max": "2",
    },
    "compressed": {"format-version": "3", "write.metadata.compression-codec": "gzip"},
    "of version 2": {"format-version": "2"},
    "of version 1": {"format-version": "1"},
}


IDENTIFIER = re.compile(r"-[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")


class Compared:
    """A table that is changed by statements of Spark, each of which is compared with the client's change."""

    def __init__(self, lake: Warehouse, properties: dict[str, str]) -> None:
        self.lake = lake
        self.sql = lake.sql_name("t")
        listed = ", ".join(f"'{key}' = '{value}'" for key, value in properties.items())
        lake.spark.sql(f"create table {self.sql} using iceberg tblproperties ({listed}) as select 1L as id")

    def read(self) -> tuple[str, dict[str, Any]]:
        found = self.lake.reader.read_metadata_file(self.lake.namespace, "t")
        assert found is not None
        return found[0], json.loads(found[1])

    def append(self, branch: str = "") -> int:
        """One more row; returns the table's newest snapshot."""
        self.lake.spark.range(5, 6).writeTo(f"{self.sql}{branch and f'.branch_{branch}'}").append()
        return int(self.read()[1]["snapshots"][-1]["snapshot-id"])

    def head(self) -> int:
        return int(self.read()[1]["current-snapshot-id"])

    def alike(self, statement: str, change: RefChange) -> None:
        """Runs a statement of Spark; what it has made of the metadata is what the client would have made of it."""
        file, before = self.read()
        self.lake.spark.sql(statement.format(t=self.sql)).collect()
        written, theirs = self.read()
        edited = replace_refs(before, change(read_refs(before)))
        ours = build_next_metadata(before, edited, file, theirs["last-updated-ms"])
        assert ours == theirs
        number = int(written.rpartition("/")[2][:5])
        assert IDENTIFIER.sub("", name_metadata_file(ours, number)) == IDENTIFIER.sub("", written)
        assert number == int(file.rpartition("/")[2][:5]) + 1


def fast_forward(table: TableRefs) -> Refs:
    """What Iceberg does without dropping the branch."""
    published = publish_branch(table, "b")
    return {**table.refs, MAIN: published[MAIN]}


@pytest.mark.parametrize(
    "kind", [k if k == "as runs make them" else pytest.param(k, marks=pytest.mark.slow) for k in PROPERTIES]
)
def test_the_client_writes_the_metadata_that_iceberg_writes(lake: Warehouse, kind: str) -> None:
    table = Compared(lake, PROPERTIES[kind])
    for _ in range(2):
        head = table.head()
        table.alike(
            f"alter table {{t}} create branch b as of version {head}", partial(add_branch, branch="b", snapshot=head)
        )
        table.append("b")
        call = f"call {lake.environment.profile.catalog}.system.fast_forward('{lake.namespace}.t', 'main', 'b')"
        table.alike(call, fast_forward)
        table.alike("alter table {t} drop branch if exists b", partial(remove_refs, names=("b",), kind="branch"))
    newest = table.head()
    for snapshot in (head, newest):
        tag = f"alter table {{t}} create or replace tag keep as of version {snapshot}"
        table.alike(tag, partial(set_tag, tag="keep", snapshot=snapshot))
    table.alike("alter table {t} drop tag if exists keep", partial(remove_refs, names=("keep",), kind="tag"))


@pytest.mark.parametrize(
    "kind", [k if k == "compressed" else pytest.param(k, marks=pytest.mark.slow) for k in PROPERTIES]
)
def test_spark_goes_on_from_what_the_client_committed(lake: Warehouse, kind: str) -> None:
    table, spark = Compared(lake, PROPERTIES[kind]), lake.spark
    name = lake.table("t")
    for rows in range(2, 5):
        change_refs(lake.reader, name, partial(add_branch, branch="b", snapshot=table.head()))
        assert spark.table(f"{table.sql}.branch_b").count() == rows - 1
        newest = table.append("b")
        assert spark.table(table.sql).count() == rows - 1
        change_refs(lake.reader, name, partial(publish_branch, branch="b"))
        assert spark.table(table.sql).count() == rows
        assert table.head() == newest
        refs = spark.sql(f"select name, snapshot_id from {table.sql}.refs")
        assert sorted_rows(refs) == [("main", newest)]
    history = spark.sql(f"select snapshot_id from {table.sql}.history order by made_current_at")
    assert [row[0] for row in history.collect()] == [entry["snapshot-id"] for entry in table.read()[1]["snapshot-log"]]
    change_refs(lake.reader, name, partial(set_tag, tag="keep", snapshot=newest))
    table.append()
    assert spark.sql(f"select * from {table.sql} version as of 'keep'").count() == 4
    assert spark.table(table.sql).count() == 5


def test_an_attempt_commits_branch_and_publication_once_each(lake: Warehouse) -> None:
    """The branch is dropped by the commit that publishes it; what Spark keeps of the table is computed anew."""
    table, names = Compared(lake, PROPERTIES["as runs make them"]), list[str]()
    lake.spark.sql(f"cache table {table.sql}")
    try:
        assert lake.spark.table(table.sql).count() == 1
        attempt = Attempt(lake.spark, lake.reader, "token", lake.reader.thresholds.commits)
        first = int(table.read()[0].rpartition("/")[2][:5])
        with watch_effects(lambda name: nullcontext(names.append(name))):
            swap_in(attempt, lake.table("t"), table.head(), lambda _: table.lake.spark.sql("select 1").collect())
            swap_in(
                attempt, lake.table("t"), table.head(), lambda parts: table.append(parts[-1].removeprefix("branch_"))
            )
        assert names == ["commit.branch", "commit.drop_branch", "commit.branch", "commit.publish", "commit.drop_branch"]
        assert int(table.read()[0].rpartition("/")[2][:5]) == first + 5
        assert lake.spark.table(table.sql).count() == 2
    finally:
        lake.spark.sql(f"uncache table {table.sql}")
    assert set(table.read()[1]["refs"]) == {"main"}
