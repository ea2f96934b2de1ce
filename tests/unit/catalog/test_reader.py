"""Reading tables of a catalog in a database: a metadata file never changes, so it is read once."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from arctic_runtime.catalog import database_catalog
from arctic_runtime.catalog.reader import CatalogReader, find_metadata
from arctic_runtime.errors import CorruptState
from arctic_runtime.model.names import TableName
from arctic_runtime.profile import Profile
from tests.thresholds import changed


@pytest.fixture
def reader(writing: Any, tmp_path: Path) -> CatalogReader:
    """A reader that keeps one metadata file, of a catalog with the tables `a` and `b`."""
    warehouse = writing.warehouse(tmp_path)
    for name in ("a", "b"):
        warehouse.create(name)
    profile = warehouse.reader.profile
    kept = {"kept_metadata": 1, "kept_metadata_texts": 1}
    return CatalogReader(replace(profile, thresholds=changed(profile.thresholds, engine=kept)))


def test_a_namespace_that_others_create_meanwhile_is_no_error(
    reader: CatalogReader, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two sources of a service, for instance, begin at once."""
    other = CatalogReader(reader.profile)
    exists, answers = reader.catalog.namespace_exists, [False]

    def look(namespace: Any) -> bool:
        if answers:
            other.create_namespace("ods")
            return answers.pop()
        return bool(exists(namespace))

    monkeypatch.setattr(reader.catalog, "namespace_exists", look)
    reader.create_namespace("ods")
    assert answers == []
    assert exists(("ods",))


def remove(location: str) -> None:
    Path(location.removeprefix("file://")).unlink()


def test_a_table_that_has_not_moved_is_not_read_again(reader: CatalogReader) -> None:
    first = reader.load_table("dwd", "a")
    remove(first.metadata_location)
    assert reader.load_table("dwd", "a").metadata == first.metadata


def test_a_table_that_has_moved_is_read_again(reader: CatalogReader) -> None:
    first = reader.load_table("dwd", "a")
    reader.load_table("dwd", "a").append(pa.table({"id": pa.array([1], pa.int64()), "note": ["x"]}))
    assert first.current_snapshot() is None
    assert reader.load_table("dwd", "a").current_snapshot() is not None


def test_only_the_metadata_read_last_is_kept(reader: CatalogReader) -> None:
    first = reader.load_table("dwd", "a")
    reader.load_table("dwd", "b")
    remove(first.metadata_location)
    with pytest.raises(CorruptState, match=r"dwd\.a: a file of the table is missing"):
        reader.load_table("dwd", "a")


def test_a_commit_by_a_loaded_table_leaves_what_others_loaded(reader: CatalogReader) -> None:
    one, other = reader.load_table("dwd", "a"), reader.load_table("dwd", "a")
    with one.transaction() as change:
        change.set_properties(note="x")
    assert "note" not in other.properties
    assert reader.load_table("dwd", "a").properties["note"] == "x"


def test_the_state_of_a_table_is_read_from_its_file_once(reader: CatalogReader) -> None:
    first = find_metadata(reader, TableName("lake", "dwd", "a"))
    assert first is not None
    remove(first.metadata_location)
    assert find_metadata(reader, TableName("lake", "dwd", "a")) == first


def test_a_database_answers_sqlite_and_sqlalchemy_alike(shop: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def ask(catalog: CatalogReader) -> list[Any]:
        view = TableName("lake", "dwd", "dwd")
        return [
            catalog.list_relations("dwd"),
            catalog.list_relations("nothing"),
            catalog.list_metadata_files(["dwd", "ods"]),
            catalog.list_metadata_files([]),
            sorted(catalog.database.list_pointers(), key=lambda pointer: pointer.table),
            catalog.database.list_namespaces(),
            [catalog.database.find_pointer(table) for table in (view, view.changes, view.with_name("nothing"))],
            [catalog.get_view_file("dwd", name) for name in ("dwd", "ods")],
        ]

    answers = ask(CatalogReader(shop[0].profile))
    assert answers[0]["dwd"] == "view"
    monkeypatch.setattr(database_catalog, "SqliteFile", lambda *_: None)
    assert ask(CatalogReader(shop[0].profile)) == answers


class TablesOnly:
    """A catalog of pyiceberg without views, as that of Hive is."""

    def namespace_exists(self, namespace: tuple[str, ...]) -> bool:
        return True

    def list_tables(self, namespace: tuple[str, ...]) -> list[tuple[str, ...]]:
        return [(*namespace, "orders")]

    def list_views(self, namespace: tuple[str, ...]) -> list[tuple[str, ...]]:
        raise NotImplementedError


@pytest.fixture
def metastore(monkeypatch: pytest.MonkeyPatch) -> CatalogReader:
    """A reader of a Hive Metastore that nobody has to serve."""
    monkeypatch.setattr("pyiceberg.catalog.load_catalog", lambda *_, **__: TablesOnly())
    monkeypatch.setattr("arctic_runtime.catalog.reader.check_libraries", lambda _: None)
    return CatalogReader(Profile("lake", {"type": "hive", "uri": "thrift://metastore:9083"}))


def test_relations_of_a_catalog_without_views_are_its_tables(metastore: CatalogReader) -> None:
    assert metastore.list_relations("dwd") == {"orders": "table"}


def test_threads_share_no_connection_that_can_not_be_shared(metastore: CatalogReader) -> None:
    with ThreadPoolExecutor(1) as thread:
        elsewhere = thread.submit(lambda: metastore.catalog).result()
        assert thread.submit(lambda: metastore.catalog).result() is elsewhere
    assert metastore.catalog is metastore.catalog
    assert metastore.catalog is not elsewhere
