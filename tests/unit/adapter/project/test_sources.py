"""Sources of a dbt project: which of their tables rows may be deleted from."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timezone
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from arctic_runtime.errors import ConfigError
from arctic_runtime.ingest.source import DeclaredTable, read_source
from arctic_runtime.model.sources.ingestion import Failure, LoadProgress, Progress
from arctic_runtime.model.table import Retention
from arctic_runtime.operations.inspect import describe_status, observe_freshness, read_status
from dbt.adapters.arctic.project.sources import list_ingested_models, list_landing_tables, list_origins


def a_manifest(table: dict[str, Any], source: dict[str, Any] | None = None) -> Any:
    node = SimpleNamespace(
        unique_id="source.p.landing.orders",
        source_name="landing",
        name="orders",
        database="lake",
        schema="raw",
        identifier="orders_v2",
        source_meta={"arctic": source or {}},
        meta={"arctic": table},
    )
    return SimpleNamespace(sources={node.unique_id: node})


def test_a_table_with_a_retention_that_is_not_ingested_is_a_landing_table() -> None:
    (table,) = list_landing_tables(a_manifest({"retention": {"changes": "7d", "versions": "1d"}}))
    assert (str(table.table), table.is_landing) == ("lake.raw.orders_v2", True)
    assert table.config.retention == Retention(86_400, None, 7 * 86_400)
    assert list_landing_tables(a_manifest({})) == ()
    assert list_landing_tables(a_manifest({"retention": {"changes": "7d"}}, {"ingest": {"connector": "kafka"}})) == ()


@pytest.mark.parametrize(
    ("ingest", "table", "expected"),
    [
        ({"connector": "postgresql"}, {}, "public.orders_v2"),
        ({"connector": "postgresql", "table_schema": "crm"}, {}, "crm.orders_v2"),
        ({"connector": "mariadb", "database": "shop"}, {"source_table": "orders"}, "shop.orders"),
        ({"connector": "mysql"}, {"source_table": "shop.orders"}, "shop.orders"),
        ({"connector": "files"}, {}, "orders_v2"),
    ],
)
def test_an_ingested_table_is_known_by_its_name_in_the_source(
    ingest: dict[str, Any], table: dict[str, Any], expected: str
) -> None:
    manifest = a_manifest(table, {"ingest": ingest})
    for node in manifest.sources.values():
        node.columns = {}
    ((name, origin),) = list_origins(manifest.sources.values()).items()
    assert (str(name), origin.source_name) == ("lake.raw.orders_v2", expected)
    assert str(origin.dead_letters) == "lake.raw.landing__dead_letters"
    assert list_origins(a_manifest(table).sources.values()) == {}


@pytest.mark.parametrize(
    ("meta", "message"),
    [
        ({"retentoin": {}}, r"source table landing\.orders: unknown key `retentoin`.*retention"),
        ({"retention": "7d"}, "must be off or a mapping"),
    ],
)
def test_a_wrong_declaration_of_a_landing_table_is_an_error(meta: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        list_landing_tables(a_manifest(meta))


WAIT = Failure(
    "public.bad has a column that can't be read.\nwhat to do: leave it out", datetime(2026, 1, 1, tzinfo=timezone.utc)
)


def save_progress(warehouse: Any, progress: Progress) -> None:
    properties = {key.replace("arctic.", "arctic_", 1): text for key, text in progress.encode().items()}
    warehouse.create("shop__dead_letters", **properties)


def test_a_table_that_waits_for_its_first_load_is_listed_with_the_reason(writing: Any, tmp_path: Path) -> None:
    warehouse = writing.warehouse(tmp_path)
    declared = [DeclaredTable(name, name, "dwd", "lake", {}, ()) for name in ("bad", "later")]
    source = read_source("shop", {"connector": "postgresql"}, declared)
    assert list_ingested_models([source], warehouse.reader) == ()
    save_progress(warehouse, Progress("{}", tables=frozenset(), waits={"public.bad": WAIT}))
    (bad,) = list_ingested_models([source], warehouse.reader)
    freshness = observe_freshness(warehouse.reader, [bad], [bad], WAIT.since)
    status = read_status(warehouse.reader, bad, [bad])
    assert not status.built
    assert freshness[bad.table].state == "held"
    lines = describe_status(replace(status, freshness=freshness[bad.table]), WAIT.since)
    assert lines[0] == "lake.dwd.bad: not loaded yet"
    assert "held since 2026-01-01 00:00:00+00:00" in lines[1]
    assert "waits: public.bad has a column that can't be read; what to do: leave it out" in lines[1]


def test_a_table_that_is_ingested_by_a_pattern_is_listed_while_it_waits(writing: Any, tmp_path: Path) -> None:
    warehouse = writing.warehouse(tmp_path)
    declared = [DeclaredTable("orders", "orders", "dwd", "lake", {}, ())]
    source = read_source("shop", {"connector": "postgresql", "include": ["public.*"]}, declared)
    left = {"public.held": WAIT.since}
    save_progress(warehouse, Progress("{}", tables=frozenset(), left=left, waits={"public.bad": WAIT}))
    warehouse.create("held__changes", writing.changes, arctic_kind="changes", arctic_primary_key="id")
    assert [model.table.name for model in list_ingested_models([source], warehouse.reader)] == ["bad", "held"]


def test_a_table_is_listed_with_the_failure_of_its_first_load_before_its_first_row(
    writing: Any, tmp_path: Path
) -> None:
    warehouse = writing.warehouse(tmp_path)
    declared = [DeclaredTable("orders", "orders", "dwd", "lake", {}, ())]
    source = read_source("shop", {"connector": "postgresql"}, declared)
    loading = {"public.orders": LoadProgress(0, 1000)}
    save_progress(warehouse, Progress("{}", tables=frozenset(loading), failure=WAIT, loading=loading))
    (orders,) = list_ingested_models([source], warehouse.reader)
    freshness = observe_freshness(warehouse.reader, [orders], [orders], WAIT.since)[orders.table]
    assert (freshness.state, freshness.since, freshness.action) == ("behind", WAIT.since, "leave it out")
    (first, *_) = describe_status(read_status(warehouse.reader, orders, [orders]))
    assert first == "lake.dwd.orders: not loaded yet"
