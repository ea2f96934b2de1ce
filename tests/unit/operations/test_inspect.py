"""Looking at tables without Spark: status and history."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest
from pyiceberg.types import IntegerType, LongType, NestedField, StringType

from arctic_runtime.catalog.observation.tables import observe_model, read_last_offsets
from arctic_runtime.ingest.connectors import get_position_parser
from arctic_runtime.model.columns import Column, SchemaChange
from arctic_runtime.model.foreign_readers import name_note
from arctic_runtime.model.names import TableName
from arctic_runtime.model.sources.ingestion import ChangeSource, Failure, to_millis
from arctic_runtime.model.table import Model, ModelConfig
from arctic_runtime.operations import inspect
from arctic_runtime.operations.inspect import (
    Consumer,
    IngestionStatus,
    Status,
    describe_history,
    describe_status,
    observe_freshness,
    read_history,
    read_status,
)
from arctic_runtime.operations.looking import STATUS
from arctic_runtime.operations.operation import OperationContext


def a_model(name: str, merge: Any = "on_write", key: tuple[str, ...] = ("id",)) -> Model:
    return Model(TableName("lake", "dwd", name), "select 1", ModelConfig(key, hash_key="id", merge=merge))


ODS, DWD = a_model("ods"), a_model("dwd", "on_read")


def test_status_of_a_model_that_was_not_built_says_only_that(shop) -> None:
    warehouse, _ = shop
    assert read_status(warehouse.reader, a_model("nothing"), []) == Status("lake.dwd.nothing", built=False)


def test_status_counts_what_is_kept_and_what_is_merged(shop) -> None:
    warehouse, made = shop
    found = read_status(warehouse.reader, ODS, [])
    assert (found.built, found.version) == (True, str(made["ods"][3].snapshot))
    assert (found.rows, found.nodes, found.versions) == (6, 4, 4)
    assert (found.unmerged_commits, found.unmerged_rows) == (0, 0)
    assert 1 <= found.files <= 4
    assert found.bytes > 0
    assert found.changed_at.endswith("+00:00")


def test_status_counts_what_waits_to_be_merged(shop) -> None:
    warehouse, _ = shop
    found = read_status(warehouse.reader, DWD, [])
    assert (found.rows, found.nodes, found.versions) == (3, 1, 4)
    assert (found.unmerged_commits, found.unmerged_rows) == (2, 3)


def test_a_status_of_all_models_asks_once_what_each_has_read(shop, monkeypatch: pytest.MonkeyPatch) -> None:
    reader, project = shop[0].reader, [ODS, DWD, a_model("nothing")]
    alone = [read_status(reader, model, project) for model in project]
    asked: list[TableName] = []

    def count_reads(_: Any, table: TableName) -> Any:
        asked.append(table)
        return read_last_offsets(reader, table)

    monkeypatch.setattr(inspect, "read_last_offsets", count_reads)
    assert list(inspect.read_statuses(reader, project, project)) == alone
    assert asked == [model.table for model in project]


def test_status_names_the_readers_and_how_far_behind_they_are(shop) -> None:
    warehouse, _ = shop
    project = [ODS, DWD, a_model("nothing")]
    assert read_status(warehouse.reader, ODS, project).consumers == (Consumer("lake.dwd.dwd", 1, 2),)
    assert read_status(warehouse.reader, DWD, project).consumers == ()


def test_status_names_readers_of_other_projects_until_their_notes_are_old(writing: Any, tmp_path: Path) -> None:
    warehouse, now_ms = writing.warehouse(tmp_path), to_millis(datetime.now(timezone.utc))
    warehouse.create("t__changes", writing.changes, arctic_kind="changes", arctic_primary_key="id")
    first = warehouse.append("t__changes", [(1, "a", "insert")], **writing.ran({}))
    warehouse.append("t__changes", [(2, "b", "insert"), (3, "c", "insert")], **writing.ran({}))
    warehouse.create("t", arctic_kind="base", arctic_primary_key="id")
    warehouse.append("t", [(1, "a")], **writing.merged_to(first))
    warehouse.create("down__changes", writing.changes, arctic_kind="changes", arctic_primary_key="id")
    warehouse.append("down__changes", [(1, "a", "insert")], **writing.ran({"other.dwd.t": first}))
    table, down = a_model("t"), a_model("down")

    def note(days_ago: int) -> None:
        names = map(name_note, (down.table, a_model("gone").table))
        with warehouse.load("t__changes").transaction() as transaction:
            transaction.set_properties(dict.fromkeys(names, str(now_ms - days_ago * 86_400_000)))

    assert read_status(warehouse.reader, table, []).consumers == ()
    note(days_ago=6)
    status = read_status(warehouse.reader, table, [])
    (consumer,) = status.consumers
    assert (consumer.model, consumer.behind_commits, consumer.behind_rows) == ("lake.dwd.down", 1, 2)
    line = f"  read by lake.dwd.down: 1 commits behind, 2 rows; of another project, noted {consumer.noted_at}"
    assert line in describe_status(status)
    note(days_ago=8)
    assert read_status(warehouse.reader, table, []).consumers == ()


def test_the_status_tells_what_was_not_applied_by_the_last_run_and_in_all() -> None:
    status = Status("lake.dwd.t", built=True, frozen=2, frozen_total=1_005)
    line = "  frozen: 1,005 changes not applied since frozen rows were last computed, 2 of them by the last run"
    assert line in describe_status(status)
    assert not [line for line in describe_status(replace(status, frozen=0, frozen_total=0)) if "frozen" in line]


def test_history_lists_runs_newest_first_with_what_they_read(shop) -> None:
    warehouse, made = shop
    entries = read_history(warehouse.reader, DWD)
    assert [entry.version for entry in entries] == [str(v.snapshot) for v in reversed(made["dwd"])]
    assert [entry.rows for entry in entries] == [1, 2, 1, 3]
    assert [entry.sequence for entry in entries] == [v.sequence for v in reversed(made["dwd"])]
    assert [entry.mode for entry in entries] == ["full", "full", "full", "create"]
    assert entries[0].consumed == {"lake.dwd.ods": str(made["ods"][2].snapshot)}
    assert entries[3].consumed == {}
    assert [entry.columns.is_empty for entry in entries] == [True] * 4
    assert read_history(warehouse.reader, a_model("nothing")) == ()


def test_history_tells_how_columns_changed_between_versions(writing: Any, tmp_path: Path) -> None:
    warehouse = writing.warehouse(tmp_path)
    number = NestedField(7, "number", IntegerType(), required=False)
    warehouse.create("t__changes", (*writing.changes, number), arctic_kind="changes", arctic_primary_key="id")
    warehouse.create("t", arctic_kind="base", arctic_primary_key="id")
    warehouse.append("t", [(1, "a")])
    warehouse.append("t__changes", [(1, "a", "insert")], **writing.ran({}))
    with warehouse.load("t__changes").update_schema() as schema:
        schema.update_column("number", LongType()).add_column("more", StringType())
        schema.rename_column("note", "remark").rename_column("_before.note", "remark")
    warehouse.append("t__changes", [(2, "b", "insert")])
    with warehouse.load("t__changes").update_schema() as schema:
        schema.delete_column("number")
    warehouse.append("t__changes", [(3, "c", "insert")], **writing.ran({}))
    with warehouse.load("t__changes").update_schema() as schema:
        schema.delete_column("more")
    with warehouse.load("t__changes").update_schema() as schema:
        schema.add_column("more", StringType())
    warehouse.append("t__changes", [(4, "d", "insert")], **writing.ran({}))
    last, second, first = read_history(warehouse.reader, a_model("t"))
    more = Column("more", "string")
    assert first.columns == SchemaChange()
    assert second.columns == SchemaChange(add=(more,), drop=("number",), rename=(("note", "remark"),))
    assert last.columns == SchemaChange(add=(more,), drop=("more",))
    assert describe_history(second)[1].strip() == "columns: note renamed to remark, more added (string), number dropped"


POSITION = {"partition": {"server": "shop"}, "offset": {"lsn": 5}, "reached": 16}
PARSE = get_position_parser("postgresql")
SHOP = ChangeSource("shop", TableName("lake", "dwd", "shop__dead"), parse_position=PARSE)
TABLE = replace(a_model("orders"), ingested_from="public.orders", source=SHOP)


def merged_to_newest(writing: Any, warehouse: Any, name: str) -> dict[str, str]:
    """What the base of a table says if it has all changes."""
    log = observe_model(warehouse.reader, a_model(name)).log
    assert log is not None
    return dict(writing.merged_to(log.commits[-1].version))


def ingested(writing: Any, warehouse: Any, **progress: str) -> None:
    """A table of a source, with a commit that its source has told the time of, and one that has none."""
    warehouse.create("orders__changes", writing.changes, arctic_kind="changes", arctic_primary_key="id")
    summary = {"arctic_run": "1", "arctic_mode": "incremental", "arctic_position": json.dumps(POSITION)}
    warehouse.append("orders__changes", [(1, "a", "insert")], **summary, arctic_source_time="1700000007000")
    warehouse.append("orders__changes", [(2, "b", "insert")], **summary)
    warehouse.create("orders", arctic_kind="base", arctic_primary_key="id")
    warehouse.append("orders", [(1, "a")], **merged_to_newest(writing, warehouse, "orders"))
    if progress:
        warehouse.create("shop__dead", **progress)
        warehouse.append("shop__dead", [(1, "x"), (2, "y")])


def test_status_tells_how_far_a_table_of_a_source_is(writing: Any, tmp_path: Path) -> None:
    warehouse = writing.warehouse(tmp_path)
    text = json.dumps({**POSITION, "reached": 15, "history": "definitions"})
    ingested(
        writing, warehouse, arctic_position=text, arctic_source_time="1700000005000", arctic_caught_up="1700000006000"
    )
    found = read_status(warehouse.reader, TABLE, [])
    assert found.ingestion is not None
    assert found.ingestion.lag_seconds is not None
    assert found.ingestion.lag_seconds > 0
    assert json.loads(found.ingestion.source_position) == {**POSITION, "reached": 15}
    assert replace(found.ingestion, lag_seconds=9, source_position=text) == IngestionStatus(
        source="shop",
        table="public.orders",
        position=json.dumps(POSITION),
        changed_at="2023-11-14 22:13:27+00:00",
        source_position=text,
        cut_version=found.version,
        as_of="2023-11-14 22:13:27+00:00",
        lag_seconds=9,
        dead_letters=2,
    )
    late = replace(found, ingestion=replace(found.ingestion, lag_seconds=9))
    assert describe_status(late, parse_position=PARSE)[-2:] == [
        "  ingested from public.orders of shop: newest change of 2023-11-14 22:13:27+00:00, 9 s behind, 2 dead letters "
        "in the source",
        "  last commit at LSN 0/10; all tables of shop are complete up to LSN 0/F, which version "
        f"{found.version} shows",
    ]


def test_what_all_tables_have_says_nothing_of_one_that_is_loaded_now(writing: Any, tmp_path: Path) -> None:
    warehouse = writing.warehouse(tmp_path)
    progress = {"arctic_position": json.dumps(POSITION), "arctic_caught_up": "1700000009000"}
    ingested(writing, warehouse, **progress, arctic_source_tables='["public.items"]')
    found = read_status(warehouse.reader, TABLE, []).ingestion
    assert found is not None
    assert (found.as_of, found.cut_version) == ("2023-11-14 22:13:27+00:00", "")


def test_status_of_a_table_whose_source_tells_nothing_yet(writing: Any, tmp_path: Path) -> None:
    warehouse = writing.warehouse(tmp_path)
    ingested(writing, warehouse)
    found = read_status(warehouse.reader, TABLE, []).ingestion
    assert found is not None
    assert (found.source_position, found.dead_letters) == ("", 0)
    assert found.as_of == found.changed_at == "2023-11-14 22:13:27+00:00"


def at(seconds_ago: float) -> str:
    return str(to_millis(datetime.now(timezone.utc) - timedelta(seconds=seconds_ago)))


def layers(writing: Any, warehouse: Any, **progress: str) -> None:
    """A table of a source, a model that has read all of it, and one that has not read all of that model."""
    ingested(writing, warehouse, **progress)
    for name, above, behind in (("clean", "orders", 0), ("totals", "clean", 1)):
        log = observe_model(warehouse.reader, a_model(above)).log
        assert log is not None
        versions = [commit.version for commit in log.commits if commit.rows]
        warehouse.create(f"{name}__changes", writing.changes, arctic_kind="changes", arctic_primary_key="id")
        for version in (versions[0], versions[-1 - behind]):
            warehouse.append(f"{name}__changes", [(1, "a", "insert")], **writing.ran({f"lake.dwd.{above}": version}))
        warehouse.create(name, arctic_kind="base", arctic_primary_key="id")
        warehouse.append(name, [(1, "a")], **merged_to_newest(writing, warehouse, name))


CLEAN, TOTALS = a_model("clean"), a_model("totals")


@pytest.mark.parametrize(
    ("looked_ago", "failure", "lease_ago", "states", "reason"),
    [
        (
            40,
            "",
            -50,
            ("fresh", "fresh", "behind"),
            "lake.dwd.clean has 1 commit more: lake.dwd.totals has yet to read them",
        ),
        (1500, "", -50, ("behind",) * 3, "ingestion of source shop by process 7 on etl has come no further"),
        (1500, "", 1400, ("behind",) * 3, "no process ingests source shop"),
        (40, "db1 does not answer", -50, ("behind",) * 3, "ingestion of source shop fails: db1 does not answer"),
    ],
)
def test_status_says_as_of_when_each_layer_shows_the_source(
    writing: Any,
    tmp_path: Path,
    looked_ago: float,
    failure: str,
    lease_ago: float,
    states: tuple[str, ...],
    reason: str,
) -> None:
    warehouse = writing.warehouse(tmp_path)
    text = Failure(failure, datetime.now(timezone.utc)).encode() if failure else ""
    lease = {"arctic_lease": "etl:7:ab", "arctic_lease_until": at(lease_ago)}
    layers(writing, warehouse, arctic_caught_up=at(looked_ago), arctic_failure=text, **lease)
    now = datetime.now(timezone.utc)
    models = [TABLE, CLEAN, TOTALS]
    found = observe_freshness(warehouse.reader, [*models, a_model("nothing")], models, now)
    assert [found[model.table].state for model in models] == list(states)
    assert found[TOTALS.table].reason == reason
    for model in models[:2]:
        as_of = found[model.table].as_of
        assert as_of is not None
        assert looked_ago <= (now - as_of).total_seconds() < looked_ago + 60
    (answer,) = STATUS.run_operation(
        OperationContext(warehouse.reader, _no_spark, tuple(models)), [TOTALS], STATUS.read_values({})
    ).data
    assert answer["freshness"]["reason"] == reason
    lines = STATUS.run_operation(
        OperationContext(warehouse.reader, _no_spark, tuple(models)), [CLEAN], STATUS.read_values({})
    ).lines
    assert ": shows the source as of 20" in lines[1]


def _no_spark() -> Any:
    raise AssertionError
