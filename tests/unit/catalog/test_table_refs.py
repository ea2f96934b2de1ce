"""Commits of branches and tags by the catalog's client: the file that follows, lost races, and histories of commits."""

from __future__ import annotations

import gzip
import json
import random
import re
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyiceberg.table.metadata import TableMetadataUtil

from arctic_runtime.catalog import metadata_commits
from arctic_runtime.catalog.metadata_commits import build_next_metadata, commit_metadata
from arctic_runtime.catalog.metadata_files import name_metadata_file, write_metadata_file
from arctic_runtime.catalog.observation.tables import observe_branch
from arctic_runtime.catalog.reader import CatalogReader
from arctic_runtime.catalog.table_refs import change_refs, read_refs, replace_refs
from arctic_runtime.errors import CatalogError, CommitConflict
from arctic_runtime.model.names import TableName
from arctic_runtime.model.properties import ATTEMPT
from arctic_runtime.model.refs import TableRefs, add_branch, publish_branch, remove_refs, set_tag, walk_lineage
from arctic_runtime.profile import Profile
from tests.unit.plan.cloning.test_table_copy import a_snapshot, a_table

NAME = TableName("lake", "dwd", "t")
FEW = {"write.metadata.delete-after-commit.enabled": "true", "write.metadata.previous-versions-max": "3"}
NO_WAIT = {"commit.retry.min-wait-ms": "0", "commit.retry.num-retries": "1000"}


@dataclass
class Stored:
    """A table of format version 3 in an embedded catalog, whose commits add snapshots without files."""

    reader: CatalogReader
    folder: Path
    _ids: list[int] = field(default_factory=lambda: [1])
    _counting: threading.Lock = field(default_factory=threading.Lock)

    @property
    def file(self) -> str:
        found = self.reader.read_metadata_file("dwd", "t")
        assert found is not None
        return found[0]

    @property
    def metadata(self) -> dict[str, Any]:
        """The metadata as another process reads it, which must be valid."""
        found = CatalogReader(self.reader.profile).read_metadata_file("dwd", "t")
        assert found is not None
        TableMetadataUtil.parse_raw(found[1].decode())
        metadata: dict[str, Any] = json.loads(found[1])
        return metadata

    def next_id(self) -> int:
        with self._counting:
            self._ids.append(self._ids[-1] + 1)
            return self._ids[-1]

    def commit(self, branch: str, attempt: str | None = None) -> int:
        """Adds a snapshot to a branch, which is made on top of main if it is not there, as Iceberg does."""
        number = self.next_id()

        def add(metadata: Any) -> Any:
            table = read_refs(metadata)
            parent = table.find_snapshot(branch) or table.find_snapshot("main")
            summary = {"operation": "append", **({ATTEMPT: attempt} if attempt else {})}
            snapshot = {**a_snapshot(number), "parent-snapshot-id": parent, "summary": summary, "timestamp-ms": 1}
            sequence = metadata["last-sequence-number"] + 1
            added = {**snapshot, "sequence-number": sequence}
            ref = {"snapshot-id": number, "type": "branch"}
            grown = {**metadata, "snapshots": [*metadata["snapshots"], added], "last-sequence-number": sequence}
            return replace_refs(grown, {**table.refs, branch: ref})

        commit_metadata(self.reader, NAME, add)
        return number

    def files(self) -> set[str]:
        return {path.name for path in self.folder.rglob("*.metadata.json")}


def store(folder: Path, **properties: str) -> Stored:
    profile = Profile.for_embedded(folder)
    reader = CatalogReader(profile)
    reader.create_namespace("dwd")
    first = {**a_table(1), "location": str(folder / "t"), "metadata-log": [], "properties": properties}
    first["refs"] = {"main": {"snapshot-id": 1, "type": "branch"}}
    address = name_metadata_file(first, 0)
    Path(address).parent.mkdir(parents=True)
    write_metadata_file(reader, address, first)
    reader.catalog.register_table(("dwd", "t"), address)
    return Stored(reader, folder)


@pytest.fixture
def stored(tmp_path: Path) -> Stored:
    return store(tmp_path, **FEW)


# The file that follows


def test_a_commit_notes_its_time_the_file_before_and_the_snapshot_of_main() -> None:
    before = a_table(3)
    table = read_refs(before)
    kept = build_next_metadata(before, replace_refs(before, add_branch(table, "b", 2)), "/wh/2.json", 9_000)
    assert kept["metadata-log"] == [*before["metadata-log"], {"metadata-file": "/wh/2.json", "timestamp-ms": 3000}]
    assert (kept["last-updated-ms"], kept["snapshot-log"]) == (9_000, before["snapshot-log"])
    back = replace_refs(before, {**before["refs"], "main": {"snapshot-id": 1, "type": "branch"}})
    moved = build_next_metadata(before, back, "/wh/2.json", 9_000)
    assert moved["current-snapshot-id"] == 1
    assert moved["snapshot-log"] == [*before["snapshot-log"], {"snapshot-id": 1, "timestamp-ms": 9_000}]
    changed = {"refs", "current-snapshot-id", "last-updated-ms", "snapshot-log", "metadata-log"}
    assert {key: moved[key] for key in moved.keys() - changed} == {key: before[key] for key in before.keys() - changed}


def test_times_do_not_go_back_with_a_clock() -> None:
    before = a_table(3)
    back = replace_refs(before, {**before["refs"], "main": {"snapshot-id": 1, "type": "branch"}})
    after = build_next_metadata(before, back, "/wh/2.json", 10)
    assert after["last-updated-ms"] == after["snapshot-log"][-1]["timestamp-ms"] == 3000


@pytest.mark.parametrize(("most", "kept"), [(None, 100), ("3", 3), ("1", 1), ("0", 1)])
def test_so_many_files_are_noted_as_the_table_keeps(most: str | None, kept: int) -> None:
    before = a_table(1)
    before["metadata-log"] = [{"metadata-file": f"/wh/{n}.json", "timestamp-ms": n} for n in range(150)]
    before["properties"] = {} if most is None else {"write.metadata.previous-versions-max": most}
    files = [entry["metadata-file"] for entry in build_next_metadata(before, before, "/wh/new.json", 1)["metadata-log"]]
    assert files == [*[f"/wh/{n}.json" for n in range(151 - kept, 150)], "/wh/new.json"]


def test_metadata_of_an_old_table_names_main_by_its_current_snapshot_alone() -> None:
    before = {key: value for key, value in a_table(2).items() if key != "refs"}
    assert read_refs(before).refs == {"main": {"snapshot-id": 2, "type": "branch"}}
    assert replace_refs(before, read_refs(before).refs) is before
    assert read_refs({**before, "current-snapshot-id": -1, "snapshots": []}).refs == {}


@pytest.mark.parametrize(
    ("properties", "pattern"),
    [
        ({}, r"/wh/t/metadata/00007-[0-9a-f-]{36}\.metadata\.json"),
        ({"write.metadata.compression-codec": "GZIP"}, r"/wh/t/metadata/00007-[0-9a-f-]{36}\.gz\.metadata\.json"),
        ({"write.metadata.path": "/elsewhere/"}, r"/elsewhere/00007-[0-9a-f-]{36}\.metadata\.json"),
    ],
)
def test_a_file_has_the_name_that_the_tables_properties_want(properties: dict[str, str], pattern: str) -> None:
    assert re.fullmatch(pattern, name_metadata_file({"location": "/wh/t", "properties": properties}, 7))


@pytest.mark.parametrize("name", ["v3.metadata.json", "-1-x.metadata.json", "x-00007.metadata.json"])
def test_a_file_whose_name_has_no_number_is_followed_by_the_first(stored: Stored, name: str) -> None:
    named = Path(stored.file).with_name(name)
    Path(stored.file).rename(named)
    stored.reader.swap_metadata_file("dwd", "t", stored.file, str(named))
    change_refs(stored.reader, NAME, partial(set_tag, tag="t", snapshot=1))
    assert Path(stored.file).name.startswith("00000-")


# Commits


def test_each_commit_is_the_next_file_and_old_files_go_with_their_checksums(stored: Stored) -> None:
    checksum = Path(stored.file).with_name(f".{Path(stored.file).name}.crc")
    checksum.write_text("as Java keeps it")
    names = [stored.file]
    for number in range(6):
        change_refs(stored.reader, NAME, partial(set_tag, tag=f"t{number}", snapshot=1))
        names.append(stored.file)
    assert [int(Path(name).name[:5]) for name in names] == list(range(7))
    assert [entry["metadata-file"] for entry in stored.metadata["metadata-log"]] == names[-4:-1]
    assert stored.files() == {Path(name).name for name in names[-4:]}
    assert not checksum.exists()


def test_files_stay_where_the_table_keeps_them(tmp_path: Path) -> None:
    stored = store(tmp_path, **{"write.metadata.previous-versions-max": "1"})
    for number in range(3):
        change_refs(stored.reader, NAME, partial(set_tag, tag=f"t{number}", snapshot=1))
    assert len(stored.metadata["metadata-log"]) == 1
    assert len(stored.files()) == 4


def test_a_change_of_nothing_commits_nothing(stored: Stored) -> None:
    before = stored.file
    change_refs(stored.reader, NAME, partial(remove_refs, names=("gone",), kind="branch"))
    change_refs(stored.reader, NAME, lambda table: table.refs)
    assert stored.file == before


def test_compressed_files_are_read_and_written(tmp_path: Path) -> None:
    stored = store(tmp_path, **{"write.metadata.compression-codec": "gzip"})
    change_refs(stored.reader, NAME, partial(add_branch, branch="b", snapshot=1))
    assert stored.file.endswith(".gz.metadata.json")
    assert json.loads(gzip.decompress(Path(stored.file).read_bytes())) == stored.metadata
    assert observe_branch(stored.reader, NAME, "b").tip == 1


def test_a_commit_that_lost_is_applied_to_what_the_winner_left(stored: Stored, monkeypatch: pytest.MonkeyPatch) -> None:
    other = CatalogReader(stored.reader.profile)
    change_refs(stored.reader, NAME, partial(add_branch, branch="b", snapshot=1))
    swap, winners = stored.reader.swap_metadata_file, [partial(set_tag, tag=f"t{n}", snapshot=1) for n in range(2)]

    def lose(*arguments: str) -> bool:
        if winners:
            change_refs(other, NAME, winners.pop())
        return swap(*arguments)

    monkeypatch.setattr(stored.reader, "swap_metadata_file", lose)
    change_refs(stored.reader, NAME, partial(publish_branch, branch="b"))
    assert set(stored.metadata["refs"]) == {"main", "t0", "t1"}
    assert stored.files() == {Path(entry["metadata-file"]).name for entry in stored.metadata["metadata-log"]} | {
        Path(stored.file).name
    }


def test_a_commit_that_lost_is_checked_again(stored: Stored, monkeypatch: pytest.MonkeyPatch) -> None:
    change_refs(stored.reader, NAME, partial(add_branch, branch="b", snapshot=1))
    swap = stored.reader.swap_metadata_file

    def lose(*arguments: str) -> bool:
        monkeypatch.setattr(stored.reader, "swap_metadata_file", swap)
        stored.commit("main")
        return swap(*arguments)

    monkeypatch.setattr(stored.reader, "swap_metadata_file", lose)
    with pytest.raises(CommitConflict, match="not an ancestor"):
        change_refs(stored.reader, NAME, partial(publish_branch, branch="b"))
    assert stored.metadata["current-snapshot-id"] == 2


def test_who_loses_each_time_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stored = store(tmp_path, **{**NO_WAIT, "commit.retry.num-retries": "2"})
    asked: list[str] = []
    monkeypatch.setattr(stored.reader, "swap_metadata_file", lambda *_: bool(asked.append("swap")))
    with pytest.raises(CommitConflict, match="Another writer committed first"):
        change_refs(stored.reader, NAME, partial(set_tag, tag="t", snapshot=1))
    assert len(asked) == 3
    assert len(stored.files()) == 1


def test_pauses_grow_up_to_the_longest(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    waits = {"commit.retry.min-wait-ms": "100", "commit.retry.max-wait-ms": "500", "commit.retry.num-retries": "5"}
    stored, pauses = store(tmp_path, **waits), list[float]()
    monkeypatch.setattr(stored.reader, "swap_metadata_file", lambda *_: False)
    monkeypatch.setattr(metadata_commits.time, "sleep", pauses.append)
    with pytest.raises(CommitConflict):
        change_refs(stored.reader, NAME, partial(set_tag, tag="t", snapshot=1))
    assert pauses == [0.1, 0.2, 0.4, 0.5, 0.5]


def test_a_table_that_is_gone_is_a_conflict(stored: Stored) -> None:
    stored.reader.catalog.drop_table(("dwd", "t"))
    with pytest.raises(CommitConflict, match="does not exist any more"):
        change_refs(stored.reader, NAME, partial(set_tag, tag="t", snapshot=1))


def test_a_storage_that_refuses_the_file_leaves_the_table_as_it_is(
    stored: Stored, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> bytes:
        raise PermissionError("Permission denied")

    monkeypatch.setattr(metadata_commits, "write_metadata_file", refuse)
    before = stored.metadata
    with pytest.raises(CatalogError, match="Check the permissions"):
        stored.reader.perform_change(
            "view.tag", "tag t", lambda: change_refs(stored.reader, NAME, partial(set_tag, tag="t", snapshot=1))
        )
    assert stored.metadata == before


def test_spark_makes_the_changes_where_it_keeps_tables_in_memory(tmp_path: Path) -> None:
    profile = Profile.for_embedded(tmp_path)
    assert CatalogReader(profile).can_change_refs
    kept = {"spark.sql.catalog.lake.cache-enabled": "true"}
    assert not CatalogReader(replace(profile, settings=kept)).can_change_refs
    properties = {**profile.catalog_properties, "cache-enabled": "TRUE"}
    assert not CatalogReader(replace(profile, catalog_properties=properties)).can_change_refs


# Histories


@dataclass
class Expected:
    """What the table must have: refs, the parent of each snapshot, and each snapshot that was main's head."""

    refs: dict[str, tuple[int, str]] = field(default_factory=lambda: {"main": (1, "branch")})
    parents: dict[int, int | None] = field(default_factory=lambda: {1: None})
    heads: list[int] = field(default_factory=lambda: [1])

    def move(self, name: str, to: int, kind: str = "branch") -> None:
        self.refs[name] = (to, kind)
        if name == "main" and self.heads[-1] != to:
            self.heads.append(to)

    def create(self, name: str, at: int) -> bool:
        is_possible = name not in self.refs and at in self.parents
        if is_possible:
            self.move(name, at)
        return is_possible

    def tag(self, name: str, at: int) -> bool:
        is_possible = self.refs.get(name, (0, "tag"))[1] == "tag" and at in self.parents
        if is_possible:
            self.move(name, at, "tag")
        return is_possible

    def publish(self, name: str) -> bool:
        if name not in self.refs or self.refs["main"][0] not in walk_lineage(self.refs[name][0], self.parents):
            return False
        self.move("main", self.refs.pop(name)[0])
        return True

    def drop(self, name: str) -> bool:
        if self.refs.get(name, (0, "branch"))[1] != "branch":
            return False
        self.refs.pop(name, None)
        return True


OPERATIONS = ("create", "commit", "commit_main", "publish", "drop", "tag")


@given(steps=st.lists(st.tuples(st.sampled_from(OPERATIONS), st.sampled_from("abc"), st.integers(1, 9)), max_size=25))
def test_a_history_of_commits_leaves_what_a_model_of_it_expects(
    steps: list[tuple[str, str, int]], tmp_path_factory: pytest.TempPathFactory
) -> None:
    stored, expected = store(tmp_path_factory.mktemp("history"), **FEW), Expected()
    changes: dict[str, Callable[[str, int], tuple[Callable[[TableRefs], Any], bool]]] = {
        "create": lambda name, at: (partial(add_branch, branch=name, snapshot=at), expected.create(name, at)),
        "publish": lambda name, _: (partial(publish_branch, branch=name), expected.publish(name)),
        "drop": lambda name, _: (partial(remove_refs, names=(name,), kind="branch"), expected.drop(name)),
        "tag": lambda name, at: (partial(set_tag, tag=name, snapshot=at), expected.tag(name, at)),
    }
    for kind, name, at in steps:
        if kind in ("commit", "commit_main"):
            branch = "main" if kind == "commit_main" else name
            if expected.refs.get(branch, (0, "branch"))[1] == "branch":
                parent = expected.refs.get(branch, expected.refs["main"])[0]
                made = stored.commit(branch)
                expected.parents[made] = parent
                expected.move(branch, made)
            continue
        change, is_possible = changes[kind](name, at)
        before = stored.file
        try:
            change_refs(stored.reader, NAME, change)
        except CommitConflict:
            assert not is_possible
            assert stored.file == before
        else:
            assert is_possible
    metadata = stored.metadata
    assert {name: (ref["snapshot-id"], ref["type"]) for name, ref in metadata["refs"].items()} == expected.refs
    assert metadata["current-snapshot-id"] == expected.refs["main"][0]
    assert [entry["snapshot-id"] for entry in metadata["snapshot-log"]] == expected.heads
    times = [entry["timestamp-ms"] for entry in metadata["metadata-log"]]
    assert times == sorted(times)
    assert stored.files() == {Path(entry["metadata-file"]).name for entry in metadata["metadata-log"]} | {
        Path(stored.file).name
    }


@pytest.mark.parametrize("seed", range(3))
def test_of_writers_at_once_each_commit_is_there_once_and_in_one_line(tmp_path: Path, seed: int) -> None:
    """Each writes to a branch of what it observed, and publishes it if main is still there; else it starts again."""
    stored, count, each = store(tmp_path, **FEW, **NO_WAIT), 4, 5
    together = threading.Barrier(count)

    def write(number: int) -> list[int]:
        chance = random.Random(f"{seed} {number}")
        own, published = Stored(CatalogReader(stored.reader.profile), tmp_path, stored._ids, stored._counting), []
        together.wait()
        while len(published) < each:
            branch = f"b{number}"
            expected = observe_branch(own.reader, NAME, branch).main
            assert expected is not None
            change_refs(own.reader, NAME, partial(add_branch, branch=branch, snapshot=expected))
            made = [own.commit(branch) for _ in range(chance.randint(1, 2))]
            if chance.random() < 0.3:
                change_refs(own.reader, NAME, partial(set_tag, tag=f"t{number}", snapshot=expected))
            try:
                change_refs(own.reader, NAME, partial(publish_branch, branch=branch))
            except CommitConflict:
                change_refs(own.reader, NAME, partial(remove_refs, names=(branch,), kind="branch"))
            else:
                published.append(made[-1])
        return published

    with ThreadPoolExecutor(count) as threads:
        published = [head for heads in threads.map(write, range(count)) for head in heads]
    metadata = stored.metadata
    parents = {snapshot["snapshot-id"]: snapshot.get("parent-snapshot-id") for snapshot in metadata["snapshots"]}
    line = list(walk_lineage(metadata["current-snapshot-id"], parents))
    assert set(published) <= set(line)
    assert [entry["snapshot-id"] for entry in metadata["snapshot-log"]] == [
        1,
        *[snapshot for snapshot in reversed(line) if snapshot in published],
    ]
    assert not [name for name, ref in metadata["refs"].items() if ref["type"] == "branch" and name != "main"]
    assert len(stored.files()) == 4
