"""Branches of a catalog: nobody else sees what is written to one, and it is published at once or not at all."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from arctic_runtime.catalog.branch.branch_file import BranchFile
from arctic_runtime.catalog.branch.catalog_branch import CatalogBranch, check_branches, name_copy
from arctic_runtime.catalog.branch.catalog_pointers import Pointer, PointerChange
from arctic_runtime.catalog.reader import CatalogReader
from arctic_runtime.effects import EFFECTS, set_failpoint
from arctic_runtime.errors import CatalogError, CommitConflict, ConfigError
from arctic_runtime.model.names import TableName
from arctic_runtime.model.refs import format_cut, parse_cut
from arctic_runtime.profile import Profile
from tests.lakes import publish_together

CUT = format_cut(1_764_000_000_000, "0a1b")
NAMES = ("a", "b", "c", "d")


class Lake:
    """A catalog in SQLite whose tables are metadata files of one number, by which a reader knows their content."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.profile = Profile.for_embedded(folder / "warehouse")
        self.reader = CatalogReader(self.profile)
        self.reader.create_namespace("dwd")
        self._count = 0

    def write(self, reader: CatalogReader, name: str, content: int | None) -> None:
        """Creates, replaces or drops (None) a table, as Iceberg does: by a new metadata file, then the pointer."""
        table = TableName("lake", "dwd", name)
        before = reader.database.find_pointer(table)
        after = None if content is None else Pointer(table, "TABLE", self._write_file(name, content, before))
        assert not reader.database.apply_changes([PointerChange(table, before, after)])

    def read(self, reader: CatalogReader | None = None) -> dict[str, int]:
        pointers = (reader or self.reader).database.list_pointers()
        return {pointer.table.name: json.loads(Path(pointer.file).read_text())["content"] for pointer in pointers}

    def metadata(self, name: str) -> Any:
        pointer = self.reader.database.find_pointer(TableName("lake", "dwd", name))
        assert pointer is not None
        return json.loads(Path(pointer.file).read_text())

    def begin(self) -> CatalogBranch:
        self._count += 1
        branch = CatalogBranch(self.profile, self.folder / "branches" / f"{self._count}.db")
        branch.begin_branch()
        return branch

    def _write_file(self, name: str, content: int, before: Pointer | None) -> str:
        self._count += 1
        folder = self.folder / "warehouse" / "dwd" / name
        (folder / "metadata").mkdir(parents=True, exist_ok=True)
        earlier = [] if before is None else json.loads(Path(before.file).read_text())["metadata-log"]
        log = [*earlier, *([] if before is None else [{"metadata-file": before.file, "timestamp-ms": 1}])]
        metadata = {
            "content": content,
            "location": str(folder),
            "properties": {},
            "last-updated-ms": self._count,
            "current-snapshot-id": self._count,
            "snapshots": [{"snapshot-id": self._count}],
            "refs": {"main": {"snapshot-id": self._count, "type": "branch"}},
            "metadata-log": log,
        }
        file = folder / "metadata" / f"{len(log):05}-{self._count}.metadata.json"
        file.write_text(json.dumps(metadata))
        return str(file)


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    return Lake(tmp_path)


def publish(branch: CatalogBranch, names: set[str] | None = None) -> None:
    changes = [change for change in branch.list_changes() if names is None or change.table.name in names]
    branch.publish_changes(branch.complete_tables(changes, CUT))


def test_nobody_sees_a_branch_before_its_publication(lake: Lake) -> None:
    for number, name in enumerate("abc"):
        lake.write(lake.reader, name, number)
    branch = lake.begin()
    branch.prepare_tables([TableName("lake", "dwd", name) for name in NAMES])
    assert branch.list_changes() == []
    lake.write(branch.reader, "a", 10)
    lake.write(branch.reader, "b", None)
    lake.write(branch.reader, "d", 13)
    assert lake.read() == {"a": 0, "b": 1, "c": 2}
    assert lake.read(branch.reader) == {"a": 10, "c": 2, "d": 13}
    assert [change.table.name for change in branch.list_changes()] == ["a", "b", "d"]
    publish(branch)
    assert lake.read() == {"a": 10, "c": 2, "d": 13}


def test_an_old_metadata_file_stays_while_the_catalog_has_it(lake: Lake) -> None:
    """Iceberg deletes the file at the end of the log; on a branch that is a copy, and the log says the original."""
    lake.write(lake.reader, "a", 0)
    original = lake.reader.database.list_pointers()[0].file
    branch = lake.begin()
    branch.prepare_tables([TableName("lake", "dwd", "a")])
    lake.write(branch.reader, "a", 1)
    (change,) = branch.list_changes()
    assert change.after is not None
    on_branch = json.loads(Path(change.after.file).read_text())["metadata-log"]
    assert original not in [entry["metadata-file"] for entry in on_branch]
    publish(branch)
    branch.remove_branch()
    published = [entry["metadata-file"] for entry in lake.metadata("a")["metadata-log"]]
    assert published == [original, change.after.file]
    assert all(Path(file).exists() for file in published)
    assert sorted(path.name for path in (lake.folder / "branches").iterdir()) == []


def test_a_table_whose_version_of_the_beginning_was_deleted_by_another_writer_is_a_lost_race(lake: Lake) -> None:
    table = TableName("lake", "dwd", "a")
    lake.write(lake.reader, "a", 0)
    branch = lake.begin()
    (start,) = lake.reader.database.list_pointers()
    Path(start.file).unlink()
    with pytest.raises(CatalogError, match="No such file"):
        branch.prepare_tables([table])
    Path(start.file).write_text('{"metadata-log": []}')
    lake.write(lake.reader, "a", 1)
    Path(start.file).unlink()
    with pytest.raises(CommitConflict, match="changed so often since this build began") as raised:
        branch.prepare_tables([table])
    assert "run the build again" in str(raised.value)


def test_tables_of_a_cut_have_its_tag(lake: Lake) -> None:
    lake.write(lake.reader, "a", 0)
    lake.write(lake.reader, "b", 0)
    branch = lake.begin()
    lake.write(branch.reader, "a", 1)
    publish(branch)
    branch.tag_tables([TableName("lake", "dwd", name) for name in NAMES], CUT)
    for name in "ab":
        metadata = lake.metadata(name)
        assert metadata["refs"][CUT]["snapshot-id"] == metadata["current-snapshot-id"]
        assert metadata["refs"][CUT]["type"] == "tag"
    assert len(lake.metadata("a")["metadata-log"]) == 2


def test_tables_get_properties_with_a_build(lake: Lake) -> None:
    for name in "ab":
        lake.write(lake.reader, name, 0)
    branch = lake.begin()
    lake.write(branch.reader, "a", 1)
    a, b, c = (TableName("lake", "dwd", name) for name in "abc")
    properties = {a: {"x": "1"}, b: {"x": "2"}}
    assert "x" not in lake.metadata("a")["properties"]
    branch.publish_changes(branch.complete_tables(branch.list_changes(), CUT, properties))
    branch.tag_tables([a, b, c], "", properties)
    assert [lake.metadata(name)["properties"] for name in "ab"] == [{"x": "1"}, {"x": "2"}]
    assert set(lake.metadata("a")["refs"]) == {"main", CUT}
    assert set(lake.metadata("b")["refs"]) == {"main"}


def test_a_conflict_publishes_nothing(lake: Lake) -> None:
    lake.write(lake.reader, "a", 0)
    branch = lake.begin()
    lake.write(branch.reader, "a", 1)
    lake.write(branch.reader, "b", 1)
    lake.write(lake.reader, "a", 5)
    with pytest.raises(CommitConflict, match=r"lake\.dwd\.a"):
        publish(branch)
    assert lake.read() == {"a": 5}


@pytest.mark.parametrize("moment", ["before", "after"])
def test_a_lost_answer_is_no_conflict(lake: Lake, moment: str) -> None:
    """The publication is tried again if its answer is lost, and finds either nothing or all of it."""
    lake.write(lake.reader, "a", 0)
    branch = lake.begin()
    lake.write(branch.reader, "a", 1)
    lake.write(branch.reader, "b", 1)
    changes = branch.complete_tables(branch.list_changes(), CUT)

    def lose(name: str, action: Callable[[], Any]) -> Any:
        if name == "build.publish" and moment == "after":
            action()
        if name == "build.publish":
            raise OSError("the answer is lost")
        return action()

    with set_failpoint(lose), pytest.raises(OSError, match="lost"):
        branch.publish_changes(changes)
    assert lake.read() == ({"a": 0} if moment == "before" else {"a": 1, "b": 1})
    branch.publish_changes(changes)
    assert lake.read() == {"a": 1, "b": 1}


def test_of_two_builds_at_once_one_is_published_whole(lake: Lake) -> None:
    for name in NAMES:
        lake.write(lake.reader, name, 0)
    for round_number in range(1, 20):
        branches = [lake.begin() for _ in range(2)]
        contents = [10 * round_number + number for number in range(2)]
        for branch, content in zip(branches, contents, strict=True):
            for name in NAMES:
                lake.write(branch.reader, name, content)
        assert publish_together(branches, publish) == 1
        assert len(set(lake.read().values())) == 1
        assert lake.read()["a"] in contents


def test_a_reader_never_sees_a_mix(lake: Lake) -> None:
    """One query reads all pointers at once, during a hundred builds that write one number to all tables."""
    for name in NAMES:
        lake.write(lake.reader, name, 0)
    done, mixes, looks = threading.Event(), list[dict[str, int]](), [0]

    def poll() -> None:
        reader = CatalogReader(lake.profile)
        while not done.is_set():
            seen = lake.read(reader)
            looks[0] += 1
            if len(set(seen.values())) != 1:
                mixes.append(seen)

    thread = threading.Thread(target=poll)
    thread.start()
    for number in range(1, 101):
        branch = lake.begin()
        for name in NAMES:
            lake.write(branch.reader, name, number)
        publish(branch)
        branch.remove_branch()
    done.set()
    thread.join()
    assert mixes == []
    assert looks[0] > 10
    assert set(lake.read().values()) == {100}


ACTIONS = st.lists(st.tuples(st.sampled_from(NAMES), st.none() | st.integers(0, 99)), max_size=6)


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.tuples(ACTIONS, ACTIONS, ACTIONS, st.sets(st.sampled_from(NAMES))), min_size=1, max_size=5),
)
def test_random_builds(tmp_path_factory: pytest.TempPathFactory, builds: list[Any]) -> None:
    """Random builds against a dict: what a branch sees, what is published of it, and what others see meanwhile."""
    lake = Lake(tmp_path_factory.mktemp("lake"))
    known: dict[str, int] = {}

    def act(reader: CatalogReader, actions: Any, state: dict[str, int]) -> set[str]:
        for name, content in actions:
            lake.write(reader, name, content)
            if content is None:
                state.pop(name, None)
            else:
                state[name] = content
        return {name for name, _ in actions}

    for first, on_branch, beside, published in builds:
        act(lake.reader, first, known)
        branch, start = lake.begin(), dict(known)
        branch.prepare_tables([TableName("lake", "dwd", name) for name in NAMES])
        seen = dict(start)
        act(branch.reader, on_branch, seen)
        others = act(lake.reader, beside, known)
        assert lake.read(branch.reader) == seen
        assert lake.read() == known
        changed = {change.table.name for change in branch.list_changes()}
        assert {name for name in NAMES if start.get(name) != seen.get(name)} <= changed
        # A table that was dropped on both sides, or is missing on both, is as wanted.
        conflicts = {n for n in changed & published & others if not (n not in seen and n not in known)}
        if any(lake_moved(lake, branch, name) for name in conflicts):
            with pytest.raises(CommitConflict):
                publish(branch, published)
        else:
            publish(branch, published)
            for name in changed & published:
                known.pop(name, None)
                known |= {name: seen[name]} if name in seen else {}
        assert lake.read() == known
        branch.remove_branch()


def lake_moved(lake: Lake, branch: CatalogBranch, name: str) -> bool:
    """Whether the catalog has another metadata file of a table than at the beginning of the branch."""
    (change,) = (change for change in branch.list_changes() if change.table.name == name)
    return lake.reader.database.find_pointer(change.table) != change.before


@pytest.mark.parametrize(
    ("kind", "method"),
    [({"type": "hadoop", "warehouse": "/w"}, "session"), ({"type": "nessie", "uri": "u", "warehouse": "w"}, "session")],
)
def test_other_catalogs_are_refused(kind: dict[str, str], method: Any) -> None:
    with pytest.raises(ConfigError, match="publish: build") as refused:
        check_branches(Profile(catalog_properties=kind, method=method))
    assert refused.value.fix


def test_a_server_elsewhere_is_refused() -> None:
    properties = {"type": "jdbc", "uri": "jdbc:postgresql://db/lake", "warehouse": "s3://b/w"}
    with pytest.raises(ConfigError, match="another machine"):
        check_branches(Profile(catalog_properties=properties, method="connect", url="sc://spark:15002"))


@given(st.integers(0, 4_000_000_000), st.integers(0, 0xFFFF))
def test_names_of_cuts(seconds: int, number: int) -> None:
    assert parse_cut(format_cut(1000 * seconds, f"{number:04x}")) == 1000 * seconds


@pytest.mark.parametrize("name", ["main", "build_2026", "build_20261399T000000Z_0000", "arctic_view_1", "release"])
def test_other_tags_are_no_cuts(name: str) -> None:
    assert parse_cut(name) is None


@pytest.mark.parametrize("name", ["00012-abc.metadata.json", "00012-abc.gz.metadata.json", "v3.metadata.json"])
def test_names_of_copies(name: str) -> None:
    copy = name_copy(f"s3://b/t/metadata/{name}").rpartition("/")
    assert copy[0] == "s3://b/t/metadata"
    assert copy[2] != name
    assert copy[2].endswith("".join(name.partition(".")[1:]))
    assert copy[2].startswith("00012-" if name.startswith("0") else "00000-")


def test_effects_are_registered() -> None:
    assert {name for name in EFFECTS if name.startswith("build.")} == {
        "build.begin",
        "build.copy_metadata",
        "build.drop",
        "build.note_record",
        "build.publish",
        "build.remove",
        "build.remove_copies",
        "build.remove_record",
        "build.tag",
        "build.write_metadata",
        "build.write_record",
    }


def test_a_branch_is_one_file(tmp_path: Path) -> None:
    file = BranchFile(tmp_path / "b.db", "lake", 1)
    table = TableName("lake", "dwd", "a")
    file.create_file(
        [Pointer(table, "TABLE", "one"), Pointer(table.with_name("v"), "VIEW", "view")], {"dwd": {"x": "y"}}
    )
    start = file.find_start(table)
    assert start == Pointer(table, "TABLE", "one")
    assert file.replace_start(start, "copy")
    assert not file.replace_start(start, "again")
    assert file.find_start(table) is None
    assert file.list_copies() == {table: ("one", "copy")}
    assert file.list_changes() == []
