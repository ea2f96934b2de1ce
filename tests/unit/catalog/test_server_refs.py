"""Changes of branches and tags that a catalog's server makes: what it is asked, lost races and lost answers."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.exceptions import CommitStateUnknownException

from arctic_runtime.catalog.observation.tables import observe_branch
from arctic_runtime.catalog.reader import CatalogReader
from arctic_runtime.catalog.table_refs import build_request, change_refs, read_table_refs
from arctic_runtime.errors import CatalogError, CommitConflict
from arctic_runtime.model.names import TableName
from arctic_runtime.model.properties import ATTEMPT
from arctic_runtime.model.refs import add_branch, publish_branch, remove_refs, set_tag
from arctic_runtime.profile import Profile
from tests.rest_catalog import serve

NAME = TableName("lake", "dwd", "t")
ROWS = pa.table({"id": pa.array([1], pa.int64())})


@pytest.fixture
def reader(tmp_path: Path) -> Iterator[CatalogReader]:
    """A reader of a REST catalog with a table of one commit."""
    with serve(tmp_path) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        uri = f"http://127.0.0.1:{server.server_address[1]}"
        reader = CatalogReader(Profile("lake", {"type": "rest", "uri": uri, "warehouse": str(tmp_path)}))
        reader.create_namespace("dwd")
        retries = {"commit.retry.min-wait-ms": "0", "commit.retry.num-retries": "100"}
        reader.catalog.create_table(("dwd", "t"), ROWS.schema, properties=retries).append(ROWS)
        yield reader
        server.shutdown()


def append(reader: CatalogReader, branch: str = "main", **summary: str) -> int:
    reader.load_table("dwd", "t").append(ROWS, branch=branch, snapshot_properties=summary)
    tip = read_table_refs(reader, NAME).find_snapshot(branch)
    assert tip is not None
    return tip


def test_a_branch_is_made_published_and_dropped(reader: CatalogReader) -> None:
    first = append(reader)
    change_refs(reader, NAME, partial(add_branch, branch="b", snapshot=first))
    tip = append(reader, "b", **{ATTEMPT: "mine"})
    state = observe_branch(reader, NAME, "b")
    assert (state.main, state.tip, state.commits[tip].attempt) == (first, tip, "mine")
    change_refs(reader, NAME, partial(set_tag, tag="keep", snapshot=first))
    change_refs(reader, NAME, partial(publish_branch, branch="b"))
    refs = read_table_refs(reader, NAME).refs
    assert {name: (ref["snapshot-id"], ref["type"]) for name, ref in refs.items()} == {
        "main": (tip, "branch"),
        "keep": (first, "tag"),
    }
    change_refs(reader, NAME, partial(remove_refs, names=("keep", "gone"), kind="tag"))
    assert set(read_table_refs(reader, NAME).refs) == {"main"}


def test_a_request_states_what_must_hold_of_each_ref_that_it_changes() -> None:
    main = {"snapshot-id": 1, "type": "branch", "min-snapshots-to-keep": 7}
    branch = {"snapshot-id": 2, "type": "branch"}
    known = {"main": main, "b": branch, "other": branch}
    requirements, updates = build_request(
        "00000000-0000-0000-0000-000000000001",
        known,
        {"main": {**main, "snapshot-id": 2}, "other": branch, "t": {"snapshot-id": 1, "type": "tag"}},
    )
    asked = [part.model_dump(mode="json", by_alias=True) for part in requirements]
    assert asked == [
        {"type": "assert-table-uuid", "uuid": "00000000-0000-0000-0000-000000000001"},
        {"type": "assert-ref-snapshot-id", "ref": "main", "snapshot-id": 1},
        {"type": "assert-ref-snapshot-id", "ref": "b", "snapshot-id": 2},
        {"type": "assert-ref-snapshot-id", "ref": "t", "snapshot-id": None},
    ]
    assert [part.model_dump(mode="json", by_alias=True, exclude_none=True) for part in updates] == [
        {"action": "set-snapshot-ref", "ref-name": "main", **main, "snapshot-id": 2},
        {"action": "remove-snapshot-ref", "ref-name": "b"},
        {"action": "set-snapshot-ref", "ref-name": "t", "snapshot-id": 1, "type": "tag"},
    ]


def test_who_was_overtaken_is_checked_again(reader: CatalogReader, monkeypatch: pytest.MonkeyPatch) -> None:
    first = append(reader)
    change_refs(reader, NAME, partial(add_branch, branch="b", snapshot=first))
    append(reader, "b")
    before_commit(reader, monkeypatch, lambda: append(reader))
    with pytest.raises(CommitConflict, match="not an ancestor"):
        change_refs(reader, NAME, partial(publish_branch, branch="b"))
    before_commit(reader, monkeypatch, lambda: change_refs(reader, NAME, partial(set_tag, tag="t", snapshot=first)))
    change_refs(reader, NAME, lambda table: set_tag(table, "t", table.find_snapshot("main") or 0))
    refs = read_table_refs(reader, NAME)
    assert refs.find_snapshot("t") == refs.find_snapshot("main")


def before_commit(reader: CatalogReader, monkeypatch: pytest.MonkeyPatch, act: Callable[[], object]) -> None:
    """Lets another writer act right before the next commit."""
    commit = reader.catalog.commit_table

    def late(*arguments: Any) -> Any:
        monkeypatch.setattr(reader.catalog, "commit_table", commit)
        act()
        return commit(*arguments)

    monkeypatch.setattr(reader.catalog, "commit_table", late)


def test_an_answer_that_does_not_tell_the_outcome_is_no_conflict(
    reader: CatalogReader, monkeypatch: pytest.MonkeyPatch
) -> None:
    def lose(*_: object) -> None:
        raise CommitStateUnknownException("502")

    monkeypatch.setattr(reader.catalog, "commit_table", lose)
    with pytest.raises(CatalogError, match="did not say"):
        change_refs(reader, NAME, partial(set_tag, tag="t", snapshot=head_of(reader)))


def head_of(reader: CatalogReader) -> int:
    snapshot = read_table_refs(reader, NAME).find_snapshot("main")
    assert snapshot is not None
    return snapshot


def test_a_table_that_is_gone_is_a_conflict(reader: CatalogReader) -> None:
    reader.catalog.drop_table(("dwd", "t"))
    with pytest.raises(CommitConflict, match="does not exist any more"):
        change_refs(reader, NAME, partial(set_tag, tag="t", snapshot=1))


def test_of_writers_at_once_no_change_is_lost(reader: CatalogReader) -> None:
    snapshot, count = head_of(reader), 4
    together = threading.Barrier(count)

    def write(number: int) -> None:
        own = CatalogReader(reader.profile)
        together.wait()
        for turn in range(5):
            change_refs(own, NAME, partial(set_tag, tag=f"t{number}{turn}", snapshot=snapshot))

    with ThreadPoolExecutor(count) as threads:
        list(threads.map(write, range(count)))
    tags = {f"t{number}{turn}" for number in range(count) for turn in range(5)}
    assert set(read_table_refs(reader, NAME).refs) == {"main", *tags}
