"""Branches of REST catalogs: tables become visible by one transaction if the server has them, and then views."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings

from arctic_runtime.catalog.branch.catalog_branch import CatalogBranch
from arctic_runtime.effects import set_failpoint
from arctic_runtime.errors import CatalogError, CommitConflict, ConfigError
from arctic_runtime.model.names import TableName
from arctic_runtime.model.refs import format_cut
from tests import lakes
from tests.lakes import (
    SCHEMA,
    RestLake,
    a_name,
    begin,
    check_builds,
    list_builds,
    publish,
    publish_together,
    read_branch,
    run_rest_lake,
    scope_of,
    write_on,
)

SERVERS = pytest.mark.parametrize("has_transactions", [True, False], ids=["transactions", "one_by_one"])


@pytest.fixture
def has_transactions() -> bool:
    return True


@pytest.fixture
def lake(tmp_path: Path, has_transactions: bool) -> Iterator[RestLake]:
    with run_rest_lake(tmp_path, has_transactions=has_transactions) as served:
        yield served


@SERVERS
def test_nobody_sees_a_branch_before_its_publication(lake: RestLake, has_transactions: bool) -> None:
    for number, name in enumerate("abc"):
        lake.write(name, number)
    lake.write("v", 7)
    branch = begin(lake, lake.folder)
    assert branch.list_changes() == []
    for name, content in (("a", 10), ("b", None), ("d", 13), ("v", 8), ("va", 9)):
        write_on(branch, name, content)
    assert lake.read() == {"a": 0, "b": 1, "c": 2, "v": 7}
    assert read_branch(branch) == {"a": 10, "c": 2, "d": 13, "v": 8, "va": 9}
    assert publish(branch) is False
    assert lake.read() == read_branch(branch)
    assert lake.catalog.namespaces[SCHEMA] == {}
    again = begin(lake, lake.folder)
    write_on(again, "a", 11)
    write_on(again, "d", 14)
    assert publish(again) is has_transactions
    assert lake.read() == {"a": 11, "c": 2, "d": 14, "v": 8, "va": 9}


@SERVERS
def test_the_catalog_has_what_the_branch_had(lake: RestLake) -> None:
    """The snapshots of a table with their row ids, also of one that is new, and of one that was created again."""
    for name in "ab":
        lake.write(name, 1)
    branch = begin(lake, lake.folder)
    for name in "abc":
        if name == "b":
            write_on(branch, name, None)
        write_on(branch, name, 2)
        write_on(branch, name, 3)
    wanted = {name: branch.reader.load_table(SCHEMA, name).metadata for name in "abc"}
    publish(branch)
    for name in "abc":
        metadata = lake.catalog.tables[SCHEMA, name]["metadata"]
        assert metadata["table-uuid"] == str(wanted[name].table_uuid)
        kept = [(s["snapshot-id"], s["first-row-id"], s["added-rows"]) for s in metadata["snapshots"]]
        assert kept[-2:] == [(s.snapshot_id, s.first_row_id, s.added_rows) for s in wanted[name].snapshots][-2:]
        assert metadata["next-row-id"] == wanted[name].next_row_id
        assert len(metadata["snapshots"]) == (3 if name == "a" else 2)


@SERVERS
def test_tables_of_a_cut_have_its_tag(lake: RestLake) -> None:
    lake.write("a", 0)
    lake.write("b", 0)
    branch = begin(lake, lake.folder)
    write_on(branch, "a", 1)
    cut = format_cut(1_764_000_000_000, "0a1b")
    branch.publish_changes(branch.complete_tables(branch.list_changes(), cut))
    branch.tag_tables([a_name(name) for name in lake.names], cut)
    for name in "ab":
        metadata = lake.catalog.tables[SCHEMA, name]["metadata"]
        assert metadata["refs"][cut]["snapshot-id"] == metadata["current-snapshot-id"]
        assert metadata["refs"][cut]["type"] == "tag"
    branch.remove_branch()
    written = {path.name for path in Path(lake.folder, SCHEMA, "b", "metadata").iterdir()}
    assert len(written) == 2, "the server's two metadata files, and nothing of the branch"


@SERVERS
@pytest.mark.parametrize("name", ["a", "b", "v"])
def test_a_conflict_publishes_nothing(lake: RestLake, name: str) -> None:
    lake.write("a", 0)
    lake.write("v", 0)
    branch = begin(lake, lake.folder)
    for each in ("a", "b", "v"):
        write_on(branch, each, 1)
    lake.write(name, 5)
    before = lake.read()
    with pytest.raises(CommitConflict, match=rf"Nothing of this build[\s\S]*lake\.dwd\.{name}\n"):
        publish(branch)
    assert lake.read() == before
    assert lake.catalog.namespaces[SCHEMA] == {}


@pytest.mark.parametrize("name", ["a", "b"])
def test_a_commit_between_the_check_and_the_transaction_is_no_loss(lake: RestLake, name: str) -> None:
    for each in ("a", "b"):
        lake.write(each, 0)
    branch = begin(lake, lake.folder)
    for each in ("a", "b", "c"):
        write_on(branch, each, 1)
    answer = lake.catalog.commit_transaction

    def commit_later(asked: Any) -> None:
        lake.write(name, 5)
        answer(asked)

    lake.catalog.commit_transaction = commit_later  # type: ignore[method-assign]
    with pytest.raises(CommitConflict, match=rf"lake\.dwd\.{name}\n"):
        publish(branch)
    assert lake.read() == {"a": 0, "b": 0} | {name: 5}


def test_a_conflict_between_steps_says_what_is_there(lake: RestLake) -> None:
    lake.write("a", 0)
    lake.write("v", 0)
    branch = begin(lake, lake.folder)
    write_on(branch, "a", 1)
    write_on(branch, "v", 1)

    def replace_view(name: str, action: Callable[[], Any]) -> Any:
        answer = action()
        if name == "build.publish":
            lake.write("v", 5)
        return answer

    with set_failpoint(replace_view), pytest.raises(CommitConflict, match=r"Only a part .*: lake\.dwd\.a, since"):
        publish(branch)
    assert lake.read() == {"a": 1, "v": 5}
    assert lake.catalog.namespaces[SCHEMA] == {}


@SERVERS
@pytest.mark.parametrize("place", range(11))
def test_a_build_that_died_is_completed_by_the_next(lake: RestLake, has_transactions: bool, place: int) -> None:
    """The process dies before each of its effects; the next build starts on another machine."""
    for name in ("a", "b", "c"):
        lake.write(name, 0)
    lake.write("v", 0)
    branch = begin(lake, lake.folder)
    for name in ("a", "b", "d", "v", "va"):
        write_on(branch, name, 1)
    write_on(branch, "b", None)
    write_on(branch, "b", 2)
    write_on(branch, "c", None)
    old, new = lake.read(), read_branch(branch)
    count = [0]

    def die(name: str, action: Callable[[], Any]) -> Any:
        if not name.startswith("build.") or name == "build.remove_copies":
            return action()
        count[0] += 1
        if count[0] > place:
            raise Died
        return action()

    has_died = False
    try:
        with set_failpoint(die):
            publish(branch)
    except Died:
        has_died = True
    seen = lake.read()
    tables = [name for name in "ad" if has_transactions]
    assert len({seen.get(name) == new[name] for name in tables}) <= 1
    later = CatalogBranch(lake.profile, lake.folder / "elsewhere" / "1.db")
    completed = later.complete_publications(scope_of(lake))
    assert lake.read() == new or (has_died and seen == old and not completed)
    assert lake.catalog.namespaces[SCHEMA] == {}
    later.begin_branch(scope_of(lake))
    assert read_branch(later) == lake.read()


class Died(BaseException):
    """The process is no more."""


def test_what_is_left_of_a_publication_is_given_up_after_another_writer(lake: RestLake) -> None:
    lake.write("a", 0)
    lake.write("v", 0)
    lake.write("va", 0)
    branch = begin(lake, lake.folder)
    for name in ("a", "v", "va"):
        write_on(branch, name, 1)

    def die(name: str, action: Callable[[], Any]) -> Any:
        answer = action()
        if name == "build.publish":
            raise Died
        return answer

    with set_failpoint(die), pytest.raises(Died):
        publish(branch)
    lake.write("v", 5)
    later = CatalogBranch(lake.profile, lake.folder / "elsewhere" / "1.db")
    assert later.complete_publications(scope_of(lake)) == [a_name("a")]
    assert lake.read() == {"a": 1, "v": 5, "va": 0}
    assert later.complete_publications(scope_of(lake)) == []


def test_rows_of_a_new_table_may_be_old(lake: RestLake, monkeypatch: pytest.MonkeyPatch) -> None:
    """Iceberg refuses a snapshot that is older than the last commit of its table; a long build has such ones."""
    branch = begin(lake, lake.folder)
    monkeypatch.setattr(lakes, "now", lambda: round(time.time() * 1000) - 3_600_000)
    write_on(branch, "a", 1)
    write_on(branch, "b", 2)
    assert publish(branch) is True
    assert lake.read() == {"a": 1, "b": 2}


def test_what_a_server_refuses_is_not_tried_again(lake: RestLake) -> None:
    from tests.rest_catalog import Refused

    branch = begin(lake, lake.folder)
    for name in ("a", "b", "v"):
        write_on(branch, name, 1)

    def refuse(_asked: Any) -> None:
        raise Refused(400, "BadRequestException", "no")

    lake.catalog.commit_transaction = refuse  # type: ignore[method-assign]
    with pytest.raises(CatalogError, match=r"answered 400: no"):
        publish(branch)
    assert lake.catalog.tables == lake.catalog.views == {}
    assert lake.catalog.namespaces[SCHEMA] == {}


@pytest.mark.parametrize("code", [409, 500])
def test_an_answer_that_is_lost_is_looked_up(lake: RestLake, code: int) -> None:
    """The server carries the transaction out, and answers that it failed: a proxy lost the answer and asked again."""
    from tests.rest_catalog import Refused

    lake.write("a", 0)
    branch = begin(lake, lake.folder)
    for name in ("a", "b"):
        write_on(branch, name, 1)
    answer = lake.catalog.commit_transaction

    def lose(asked: Any) -> None:
        answer(asked)
        raise Refused(code, "Failed", "lost")

    lake.catalog.commit_transaction = lose  # type: ignore[method-assign]
    assert publish(branch) is True
    assert lake.read() == {"a": 1, "b": 1}


@pytest.mark.parametrize("builds", [10, pytest.param(100, marks=pytest.mark.slow)])
def test_a_reader_never_sees_a_mix(lake: RestLake, builds: int) -> None:
    """It reads all tables at one moment, during builds that write one number to all of them."""
    names = ("a", "b", "c", "d")
    for name in names:
        lake.write(name, 0)
    done, mixes, looks = threading.Event(), list[dict[str, int]](), [0]

    def poll() -> None:
        while not done.wait(0.001):
            seen = lake.read()
            looks[0] += 1
            if len(set(seen.values())) != 1:
                mixes.append(seen)

    thread = threading.Thread(target=poll)
    thread.start()
    for number in range(1, builds + 1):
        branch = begin(lake, lake.folder)
        for name in names:
            write_on(branch, name, number)
        assert publish(branch) is True
        branch.remove_branch()
    done.set()
    thread.join()
    assert mixes == []
    assert looks[0] > builds
    assert set(lake.read().values()) == {builds}


def test_of_two_builds_at_once_one_is_published_whole(lake: RestLake) -> None:
    names = ("a", "b", "c")
    for number in range(1, 6):
        branches = [begin(lake, lake.folder) for _ in range(2)]
        for side, branch in enumerate(branches):
            for name in names:
                write_on(branch, name, 10 * number + side)
        assert publish_together(branches, publish) == 1
        assert len(set(lake.read().values())) == 1


@SERVERS
@settings(max_examples=12, deadline=None)
@given(list_builds(RestLake.names))
def test_random_builds(tmp_path_factory: pytest.TempPathFactory, has_transactions: bool, builds: list[Any]) -> None:
    """Random builds against a dict: what a branch sees, what is published of it, and what others see meanwhile."""
    run_builds(tmp_path_factory, has_transactions, builds)


@pytest.mark.slow
@SERVERS
@settings(max_examples=300, deadline=None)
@given(list_builds(RestLake.names))
def test_many_random_builds(
    tmp_path_factory: pytest.TempPathFactory, has_transactions: bool, builds: list[Any]
) -> None:
    run_builds(tmp_path_factory, has_transactions, builds)


def run_builds(tmp_path_factory: pytest.TempPathFactory, has_transactions: bool, builds: list[Any]) -> None:
    folder = tmp_path_factory.mktemp("lake")
    with run_rest_lake(folder, has_transactions=has_transactions) as lake:
        check_builds(lake, folder, builds)


CREDENTIALS = {"s3.access-key-id": "k", "s3.secret-access-key": "s", "s3.region": "r"}


def test_credentials_of_the_server_for_each_table_are_refused(tmp_path: Path) -> None:
    with run_rest_lake(tmp_path, config=CREDENTIALS) as lake:
        lake.write("a", 0)
        with pytest.raises(ConfigError, match="only the catalog's server gives access to") as refused:
            begin(lake, tmp_path)
        assert "s3.access-key-id" in str(refused.value.expected)


def test_settings_of_files_are_those_of_profile_and_server(tmp_path: Path) -> None:
    own = {"s3.access-key-id": "mine", "s3.secret-access-key": "hush", "table-default.x": "y"}
    with run_rest_lake(tmp_path, config=CREDENTIALS) as lake:
        object.__setattr__(lake.profile, "catalog_properties", {**lake.profile.catalog_properties, **own})
        lake.write("a", 0)
        branch = begin(lake, tmp_path)
        properties = branch.reader.profile.catalog_properties
        assert {key: properties[key] for key in own} == own
        assert properties["s3.region"] == "r"
        assert properties["type"] == "jdbc"
        assert properties["warehouse"] == str(tmp_path)
        assert "http" not in properties["uri"]
        assert b"hush" not in branch.file.read_bytes()
        write_on(branch, "b", 1)
        assert TableName("lake", SCHEMA, "b") in [change.table for change in branch.list_changes()]
