"""Tables of a source without a primary key: every event is one row, exactly once, and followed downstream."""

from __future__ import annotations

import contextlib
import datetime
import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from typing import Any

import pytest

from arctic_runtime.effects import set_failpoint
from arctic_runtime.errors import CommitConflict, ConfigError, DataError, SourceError
from arctic_runtime.ingest.dead_letters.replay import replay_dead_letters
from arctic_runtime.ingest.formats.debezium import build_debezium_format
from arctic_runtime.ingest.formats.event_format import SourceColumn, SourceSchema
from arctic_runtime.ingest.source import IngestSource
from arctic_runtime.ingest.transports.transport import Batch
from arctic_runtime.model.files.compaction import RewriteFiles
from arctic_runtime.operations.operation import OperationContext
from arctic_runtime.operations.registry import OPERATIONS
from arctic_runtime.spark.maintenance.compaction import compact_table
from arctic_runtime.spark.maintenance.expiry import expire_versions
from tests.spark.replay import Part, Replay, event, ingest, ingestion_of, source_of
from tests.spark.warehouse import Warehouse

LOG = SourceSchema((SourceColumn("at", "bigint"), SourceColumn("what", "string")))
WIDER = SourceSchema((SourceColumn("at", "bigint"), SourceColumn("what", "string"), SourceColumn("who", "string")))
Row = tuple[Any, ...]


def later(days: int) -> datetime.datetime:
    return datetime.datetime.now(datetime.timezone.utc) + datetime.timedelta(days=days)


class Died(Exception):
    """Stands for the end of the process."""


def log_of(lake: Warehouse, **settings: Any) -> IngestSource:
    return source_of(lake, "log", primary_key=None, **settings)


def part(*rows: Row, op: str = "c", schema: SourceSchema = LOG) -> Part:
    names = [column.name for column in schema.columns]
    return Part("public.log", schema, [event(op, None, dict(zip(names, row, strict=True))) for row in rows])


def rows(lake: Warehouse) -> list[Row]:
    return sorted(map(tuple, lake.spark.table(lake.sql_name("log")).collect()), key=str)


def commits(lake: Warehouse) -> list[Row]:
    rows = lake.spark.table(lake.sql_name("log") + ".snapshots").orderBy("committed_at").collect()
    return [(row.operation, row.summary.get("added-records", "0"), row.summary.get("arctic.position")) for row in rows]


def test_every_event_is_a_row_in_one_commit_for_a_batch(lake: Warehouse) -> None:
    transport = Replay([[part((1, "a"), (1, "a"), op="r")], [part((2, "b"))], [part((1, "a"))]], snapshot=1)
    reports = ingest(lake, log_of(lake), transport)
    assert rows(lake) == [(1, "a"), (1, "a"), (1, "a"), (2, "b")]
    assert [report.tables[0].rows["insert"] for report in reports] == [2, 1, 1]
    assert commits(lake) == [("append", "0", None), ("append", "2", "1"), ("append", "1", "2"), ("append", "1", "3")]
    assert set(lake.reader.list_relations(lake.namespace)) == {"log", "shop__dead_letters"}
    ingest(lake, log_of(lake), Replay(transport.log))
    assert len(rows(lake)) == 4


def test_a_table_without_a_key_has_to_be_declared_so(lake: Warehouse) -> None:
    with pytest.raises(ConfigError, match="`primary_key: null` says that there are none"):
        ingest(lake, source_of(lake, "log"), Replay([[part((1, "a"))]]))


def test_events_that_change_rows_are_dead_letters_that_say_what_to_do(lake: Warehouse) -> None:
    source = replace(log_of(lake), max_dead_letters=None)
    texts = [
        event("c", None, {"at": 1, "what": "a"}),
        event("u", {"at": 1, "what": "a"}, {"at": 1, "what": "b"}),
        event("d", {"at": 1, "what": "b"}, None),
        event("t", None, None),
        event("c", None, {"at": 2, "what": "c"}),
    ]
    ingest(lake, source, Replay([[Part("public.log", LOG, texts)]]))
    assert rows(lake) == [(1, "a"), (2, "c")]
    dead = lake.spark.table(str(source.dead_letter_table)).select("payload", "reason").collect()
    assert {json.loads(row.payload)["op"]: row.reason.split(" ")[1] for row in dead} == {
        "u": "update",
        "d": "delete",
        "t": "truncate",
    }
    assert all("primary_key" in row.reason or "--resync" in row.reason for row in dead)
    with pytest.raises(DataError, match="no more than 0 dead letters"):
        ingest(lake, log_of(lake), Replay([]))


@pytest.mark.slow
@pytest.mark.parametrize("is_done", [True, False])
def test_a_process_that_dies_at_any_effect_loses_and_repeats_no_row(lake: Warehouse, is_done: bool) -> None:
    """Schemas take turns inside of a batch, of which a part has dead letters alone."""
    lake = lake.under(ingest={"lease_seconds": 0})
    source = replace(log_of(lake, sort_key=["what"], partition_by=["bucket(2, at)"]), max_dead_letters=None)
    log = [
        [
            Part("public.log", LOG, [f"broken {n}", f"broken {n}, too"]),
            part(*[(number, f"{n}") for number in range(3)]),
            part((n, "x", "y"), (n, "x", "y"), schema=WIDER),
        ]
        for n in range(3)
    ]
    died: set[tuple[str, int]] = set()
    reached: dict[str, int] = {}

    def dying(name: str, action: Callable[[], Any]) -> Any:
        done = action() if is_done else None
        reached[name] = reached.get(name, 0) + 1
        if (name, reached[name]) not in died and reached[name] <= 2:
            died.add((name, reached[name]))
            raise Died(name)
        return done if is_done else action()

    with set_failpoint(dying):
        for _ in range(80):
            with contextlib.suppress(Died):
                ingest(lake, source, Replay(log))
                break
    assert {("ingest.create_table", 1), ("ingest.layout", 2), ("ingest.append", 2), ("commit.publish", 2)} <= died
    expected = [(number, f"{n}", None) for n in range(3) for number in range(3)] + [(n, "x", "y") for n in range(3)] * 2
    assert rows(lake) == sorted(expected, key=str)


@pytest.mark.in_turn
def test_a_snapshot_that_is_made_again_replaces_all_rows_in_one_commit(lake: Warehouse) -> None:
    source, whole = log_of(lake), [part((1, "a"), (1, "a"), op="r"), part((2, "b"), (3, "c"), op="r")]

    def interrupted(name: str, action: Callable[[], Any]) -> Any:
        done = action()
        if name == "ingest.advance" and (lake.namespace, "log") in lake.reader.catalog.list_tables(lake.namespace):
            raise Died(name)
        return done

    with set_failpoint(interrupted), pytest.raises(Died):
        ingest(lake, source, Replay([[part] for part in whole], snapshot=2))
    assert rows(lake) == [(1, "a"), (1, "a")]
    ingest(lake, source, Replay([*([part] for part in whole), [part((4, "d"))]], snapshot=2))
    assert rows(lake) == [(1, "a"), (1, "a"), (2, "b"), (3, "c"), (4, "d")]
    assert [commit[:2] for commit in commits(lake)[1:]] == [("append", "2"), ("overwrite", "4"), ("append", "1")]


@pytest.mark.slow
def test_a_process_that_lost_its_lease_loads_no_row_a_second_time(lake: Warehouse) -> None:
    source, whole = log_of(lake), [[part((n, "a"), op="r")] for n in range(3)]

    class Overtaken(Replay):
        def read_batches(self, until_drained: bool) -> Iterator[Batch]:
            for one in super().read_batches(until_drained):
                if one.position == "2":
                    ingest(lake.under(ingest={"lease_seconds": 0}), source, Replay(whole, snapshot=3))
                yield one

    slow = lake.under(ingest={"lease_seconds": 0, "lease_renewal_seconds": 3600})
    with pytest.raises(CommitConflict, match="Another process committed first"):
        ingest(slow, source, Overtaken(whole, snapshot=3))
    assert rows(lake) == [(0, "a"), (1, "a"), (2, "a")]


@pytest.mark.slow
def test_a_table_that_gets_or_loses_its_key_is_an_error_that_says_what_to_do(lake: Warehouse) -> None:
    keyed = replace(LOG, key=("at",))
    (table,) = source_of(lake, "log").tables
    source = replace(source_of(lake, "log"), tables=(replace(table, reports_key=True),))
    ingest(lake, source, Replay([[part((1, "a"))]]))
    with pytest.raises(ConfigError, match=r"now it has at\.\n.*`primary_key: null`.*arctic reset log"):
        ingest(lake, source, Replay([[], [part((2, "b"), schema=keyed)]]))
    ingest(lake, log_of(lake), Replay([[], [part((2, "b"), schema=keyed)]]))
    assert rows(lake) == [(1, "a"), (2, "b")]


@pytest.mark.slow
def test_models_follow_a_table_without_a_key_through_compaction_expiry_and_another_snapshot(lake: Warehouse) -> None:
    source = log_of(lake, sort_key=["at"], retention={"versions": "5d"})
    (table,) = source.tables
    own = table.to_model(())
    log = [[part((n, "a"))] for n in range(3)]
    counts = lake.model("counts", "select what, count(*) as n from {log} group by what", primary_key="what")
    events = lake.model("events", "select at, what from {changes(log)}", primary_key="at", input="changes")
    ingest(lake, source, Replay(log))
    assert [lake.run(model).reason for model in (counts, events)] == ["FIRST_RUN", "FIRST_RUN"]
    compacted = compact_table(lake.session_of(own), "minor")
    assert [(step.files, step.table) for step in compacted.steps if isinstance(step, RewriteFiles)] == [(3, own.table)]
    log += [[part((7, "b"), (8, "a"))]]
    ingest(lake, source, Replay(log))
    assert [lake.run(model).reason for model in (counts, events)] == ["CHANGES", "CHANGES"]
    gone = expire_versions(lake.session_of(own, now=later(9)), [counts.table, events.table])
    assert [step.table for step in gone.steps] == [own.table]
    assert {kept.reason for kept in gone.kept} >= {f"{events.table} has read up to it"}
    ingest(lake, source, Replay([*log, [part((9, "b"))]]))
    assert [lake.run(model).reason for model in (counts, events)] == ["CHANGES", "CHANGES"]
    shown = {name: set(map(tuple, lake.spark.table(lake.sql_name(name)).collect())) for name in ("counts", "events")}
    assert shown["counts"] == {("a", 4), ("b", 2)}
    assert shown["events"] == {(0, "a"), (1, "a"), (2, "a"), (7, "b"), (8, "a"), (9, "b")}
    ingestion_of(lake, source, Replay([[part((0, "c"), (9, "b"), op="r")]], snapshot=1)).run(once=True, resync=True)
    lake.run(counts)
    assert set(map(tuple, lake.spark.table(lake.sql_name("counts")).collect())) == {("c", 1), ("b", 1)}
    with pytest.raises(SourceError, match="had commits other than appends since the last run"):
        lake.run(events)
    lake.run(events, full_refresh=True)
    assert set(map(tuple, lake.spark.table(lake.sql_name("events")).collect())) == {(0, "c"), (9, "b")}


def test_operations_show_and_drop_a_table_without_a_key_or_say_that_they_need_one(lake: Warehouse) -> None:
    (table,) = log_of(lake).tables
    own = table.to_model(())
    ingest(lake, log_of(lake), Replay([[part((1, "a"))], [part((2, "b"))]]))
    context = OperationContext(lake.reader, lambda: lake.spark, (own,))
    asked = {known.name: known for known in OPERATIONS}
    status = asked["status"].run_operation(context, [own], {"tree": False, "partition": None})
    assert "without a key, appended to: 2 rows, 2 files" in status.lines[2]
    assert [entry["mode"] for entry in asked["history"].run_operation(context, [own], {}).data] == [
        "incremental",
        "create",
    ]
    assert (
        "not checked: table: events of public.log are appended"
        in asked["verify"].run_operation(context, [own], {}).lines[0]
    )
    for name in ("explain", "changes", "lookup", "split", "restore", "savepoint", "overwrite"):
        with pytest.raises(ConfigError, match=f"{name} needs a primary key, and .*log has none"):
            asked[name].run_operation(context, [own], {})
    asked["reset"].run_operation(context, [own], {})
    assert "log" not in lake.reader.list_relations(lake.namespace)


@pytest.mark.slow
def test_dead_letters_that_fit_now_are_appended_once_wherever_the_process_dies(lake: Warehouse) -> None:
    lake = lake.under(ingest={"lease_seconds": 0})

    def declared(kind: str) -> IngestSource:
        source = replace(log_of(lake), max_dead_letters=None)
        columns = {"at": kind, "what": "string"}
        return replace(source, tables=tuple(replace(table, columns=columns) for table in source.tables))

    texts = [event("c", None, {"at": at, "what": "a"}) for at in (1, 3_000_000_000, 3_000_000_001)]
    texts += [event("d", {"at": 1, "what": "a"}, None)]
    ingest(lake, declared("int"), Replay([[Part("public.log", None, texts)]]))
    assert rows(lake) == [(1, "a")]

    def dying(name: str, action: Callable[[], Any]) -> Any:
        if name == "ingest.rewrite_dead_letters":
            raise Died(name)
        return action()

    replayed = partial(
        replay_dead_letters, declared("bigint"), build_debezium_format(), lake.reader, lake.environment.new_session
    )
    with set_failpoint(dying), pytest.raises(Died):
        list(replayed())
    (done,) = replayed()
    assert (done.applied, done.dead) == (2, 1)
    assert rows(lake) == [(1, "a"), (3_000_000_000, "a"), (3_000_000_001, "a")]
    (left,) = lake.spark.table(str(declared("int").dead_letter_table)).collect()
    assert left.reason.startswith("a delete takes a row away")
    ingest(lake, declared("bigint"), Replay([[], [part((2, "b"))]]))
    assert len(rows(lake)) == 4
