"""Merges that were begun on a branch are found with what they have done, and others are left alone."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from arctic_runtime.catalog.observation.manifests import observe_partial_progress
from arctic_runtime.catalog.reader import CatalogReader
from arctic_runtime.model.files.compaction import BucketRange, PartialProgress, format_rewrite_branch
from arctic_runtime.model.names import TableName
from arctic_runtime.model.properties import REWRITTEN

HEAD = 7
MINE = format_rewrite_branch(HEAD, 30)


def reader(
    snapshots: dict[int, tuple[int | None, str | None]],
    tips: dict[str, int],
    kind: str = "branch",
    head: int | None = HEAD,
) -> CatalogReader:
    """A catalog whose one table has these snapshots, each with its parent and what it says of nodes."""
    kept = {
        name: SimpleNamespace(
            parent_snapshot_id=parent,
            summary=SimpleNamespace(additional_properties={REWRITTEN: progress} if progress is not None else {}),
        )
        for name, (parent, progress) in snapshots.items()
    }
    refs = {branch: SimpleNamespace(snapshot_id=tip, snapshot_ref_type=kind) for branch, tip in tips.items()}
    metadata = SimpleNamespace(refs=refs, current_snapshot_id=head)
    table: Any = SimpleNamespace(metadata=metadata, snapshot_by_id=kept.get)
    return cast("CatalogReader", SimpleNamespace(load_table=lambda *_: table))


def find_progress(reader: CatalogReader) -> tuple[PartialProgress, ...]:
    return observe_partial_progress(reader, TableName("lake", "dwd", "m"))


def test_what_is_done_is_what_the_snapshots_from_the_head_on_say() -> None:
    kept = {6: (None, "8-9"), HEAD: (6, None), 8: (HEAD, "0-3"), 9: (8, "4-5"), 10: (9, "0-3")}
    assert find_progress(reader(kept, {"main": HEAD, MINE: 10})) == (
        PartialProgress(MINE, 30, frozenset({BucketRange(0, 3), BucketRange(4, 5)})),
    )


def test_a_branch_without_a_commit_has_done_nothing() -> None:
    assert find_progress(reader({HEAD: (None, None)}, {MINE: HEAD})) == (PartialProgress(MINE, 30, frozenset()),)


@pytest.mark.parametrize(
    "reader",
    [
        reader({HEAD: (None, None), 8: (None, "0-3")}, {MINE: 8}),
        reader({HEAD: (None, None), 8: (5, "0-3")}, {MINE: 8}),
        reader({HEAD: (None, None), 8: (HEAD, "0-3")}, {format_rewrite_branch(6, 30): 8, "arctic_0123": 8}),
        reader({HEAD: (None, None), 8: (HEAD, "0-3")}, {MINE: 8}, kind="tag"),
        reader({}, {MINE: 8}, head=None),
    ],
    ids=["no parent", "lost parent", "other branches", "a tag", "an empty table"],
)
def test_a_branch_that_does_not_lead_to_the_head_is_not_continued(reader: CatalogReader) -> None:
    assert find_progress(reader) == ()


def test_a_commit_of_somebody_else_on_the_branch_is_no_part() -> None:
    kept = {HEAD: (None, None), 8: (HEAD, None), 9: (8, "0-3"), 10: (9, "x-1")}
    assert find_progress(reader(kept, {MINE: 10})) == (PartialProgress(MINE, 30, frozenset({BucketRange(0, 3)})),)
