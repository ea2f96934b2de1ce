"""What commits took away that only delete, as their manifests tell it."""

from __future__ import annotations

from arctic_runtime.catalog.observation.plain_tables import observe_landing, with_removals
from arctic_runtime.catalog.observation.tables import observe_source
from arctic_runtime.model.names import TableName
from arctic_runtime.model.state import Removed

EVENTS = TableName("lake", "dwd", "events")


def test_deleted_files_are_listed_by_the_commit_that_added_them(writing, tmp_path) -> None:
    made = writing.warehouse(tmp_path)
    made.create("events")
    first = made.append("events", [(1, "a"), (1, "b")])
    made.append("events", [(2, "a")])
    made.append("events", [(3, "a")])
    made.load("events").delete("id < 3")
    source = observe_source(made.reader, EVENTS)
    assert source is not None
    assert [commit.operation for commit in source.commits] == ["append", "append", "append", "delete"]
    assert all(commit.removed is None for commit in source.commits)
    known = with_removals(made.reader, source, first)
    assert known.commits[-1].removed == (Removed(1, 2), Removed(2, 1))
    assert known.commits[-1].count_removed_after(first) == 1
    assert with_removals(made.reader, source, source.version) == source
    left = observe_landing(made.reader, EVENTS)
    assert [(file.sequence, file.rows) for file in left.files] == [(3, 1)]
    assert left.uuid == first.table
