"""What a source does to columns holds for the rows that are there too, although no event tells it."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from arctic_runtime.effects import set_failpoint
from arctic_runtime.errors import ConfigError, SourceError
from arctic_runtime.ingest.dead_letters.table import DeadLetterTable
from arctic_runtime.ingest.formats.event_format import NULL_IN_OLDER_ROWS, OlderRows, SourceColumn, SourceSchema
from arctic_runtime.ingest.source import IngestSource
from arctic_runtime.model.sources.ingestion import ChangeSource, Progress
from arctic_runtime.model.table import Model
from arctic_runtime.spark.maintenance.resync import request_resync
from tests.spark.replay import ORDERS, Loading, Part, Replay, event, ingest, source_of
from tests.spark.warehouse import Warehouse


class Died(Exception):
    """Stands for the end of the process."""


def column(name: str, number: int, kind: str = "string", older: OlderRows = NULL_IN_OLDER_ROWS) -> SourceColumn:
    return SourceColumn(name, kind, number=number, older_rows=older)


ID = column("id", 1, "bigint")
BEFORE = SourceSchema((ID, column("a", 2), column("gone", 3)), ("id",))
AFTER = SourceSchema((ID, column("b", 2), column("n", 4, "int", OlderRows(True, "5")), column("m", 5)), ("id",))
AGAIN = SourceSchema((ID, column("n", 4, "int"), column("a", 6)), ("id",))


def log(keyed: bool) -> list[list[Part]]:
    first = [{"id": number, "a": f"a{number}", "gone": "g"} for number in (1, 2)]
    later = [{"id": 3, "b": "b3", "n": 7, "m": "m"}]
    parts = [(BEFORE, first), (AFTER, later), (AGAIN, [{"id": 4, "n": 8, "a": "new"}])]
    return [
        [Part("public.t", table if keyed else replace(table, key=()), [event("c", None, row) for row in rows])]
        for table, rows in parts
    ]


def source(lake: Warehouse, changes: str, keyed: bool) -> IngestSource:
    made = source_of(lake, "t", **({} if keyed else {"primary_key": None}))
    return replace(made, tables=tuple(replace(table, schema_changes=changes) for table in made.tables))


def rows(lake: Warehouse, *names: str) -> set[tuple[Any, ...]]:
    return {tuple(row) for row in lake.spark.table(lake.sql_name("t")).select(*names).collect()}


@pytest.mark.parametrize(
    ("keyed", "changes"),
    [
        pytest.param(True, "safe", marks=pytest.mark.slow),
        pytest.param(True, "evolve", marks=pytest.mark.slow),
        pytest.param(False, "safe", marks=pytest.mark.slow),
        pytest.param(False, "evolve", marks=pytest.mark.slow),
    ],
)
def test_older_rows_follow_a_renamed_an_added_and_a_dropped_column(lake: Warehouse, changes: str, keyed: bool) -> None:
    """A process that dies at any effect of that is followed by one that does the rest."""
    lake = lake.under(ingest={"lease_seconds": 0})
    made, batches = source(lake, changes, keyed), log(keyed)
    ingest(lake, made, Replay(batches[:1]))
    died: set[str] = set()

    def dying(name: str, action: Callable[[], Any]) -> Any:
        done = action()
        if name not in died:
            died.add(name)
            raise Died(name)
        return done

    with set_failpoint(dying):
        for _ in range(20):
            with contextlib.suppress(Died):
                ingest(lake, made, Replay(batches[:2]))
                break
    assert {"schema.evolve", "ingest.columns", "commit.publish"} <= died
    assert rows(lake, "id", "b", "n", "m") == {(1, "a1", 5, None), (2, "a2", 5, None), (3, "b3", 7, "m")}
    kept = [] if changes == "evolve" else ["a", "gone"]
    assert [
        column for column in lake.spark.table(lake.sql_name("t")).columns if column not in ("id", "b", "n", "m")
    ] == kept
    if changes == "safe":
        assert rows(lake, "id", "a", "gone") == {(1, "a1", "g"), (2, "a2", "g"), (3, None, None)}
    ingest(lake, made, Replay(batches))
    assert rows(lake, "id", "n", "a") == {(1, 5, None), (2, 5, None), (3, 7, None), (4, 8, "new")}
    if keyed:
        assert lake.broken(made.tables[0].to_model(("id",))) == []


@pytest.mark.slow
def test_a_column_that_was_recreated_ends_ingestion_until_the_table_is_read_again(lake: Warehouse) -> None:
    made, (first, *_) = source(lake, "safe", keyed=True), log(keyed=True)
    anew = SourceSchema((ID, column("a", 9), column("gone", 3)), ("id",))
    ingest(lake, made, Replay([first]))
    part = Part("public.t", anew, [event("c", None, {"id": 5, "a": "x", "gone": "g"})])
    with pytest.raises(SourceError, match="column a is not the column that had this name before"):
        ingest(lake, made, Replay([first, [part]]))
    snapshot = Part("public.t", anew, [event("r", None, {"id": number, "a": None, "gone": "g"}) for number in (1, 2)])
    ingest(lake, made, Replay([[snapshot], [part]], snapshot=2))
    assert rows(lake, "id", "a", "gone") == {(1, None, "g"), (2, None, "g"), (5, "x", "g")}


def order(number: int) -> Part:
    return Part("public.orders", ORDERS, [event("c", None, {"id": number, "item": "a", "n": number})])


def progress_of(lake: Warehouse, made: IngestSource) -> Progress:
    return DeadLetterTable(made.dead_letter_table, lake.reader, lambda: lake.spark).read_progress()


@pytest.mark.in_turn
def test_a_table_that_can_not_be_followed_waits_alone_until_it_is_loaded_again(lake: Warehouse) -> None:
    """Also where the process dies when it has noted that, or just before. What comes meanwhile is in the new rows."""
    lake = lake.under(ingest={"lease_seconds": 0})
    made = source_of(lake, "t", "orders")
    first, anew = log(keyed=True)[0], SourceSchema((ID, column("a", 9), column("gone", 3)), ("id",))
    lost = Part("public.t", anew, [event("c", None, {"id": 5, "a": "x", "gone": "g"})])
    batches = [[*first, order(1)], [lost, order(2)], [lost, order(3)]]
    ingest(lake, made, Loading(batches[:1], rows={"public.t": first[0], "public.orders": order(1)}, at="1"))
    dies = iter([True, False, True, False])

    def dying(name: str, action: Callable[[], Any]) -> Any:
        is_noted = name == "ingest.advance" and lake.spark.table(lake.sql_name("orders")).count() > 1
        if is_noted and next(dies):
            raise Died(name)
        done = action()
        if is_noted and next(dies):
            raise Died(name)
        return done

    with set_failpoint(dying):
        for _ in range(2):
            with pytest.raises(Died):
                ingest(lake, made, Loading(batches))
    for _ in range(2):
        with pytest.raises(
            SourceError, match=r"public\.t waits: .*column a is not the column that had this name.*\n.*arctic resync t"
        ):
            ingest(lake, made, Loading(batches))
    assert {row.id for row in lake.spark.table(lake.sql_name("orders")).collect()} == {1, 2, 3}
    assert rows(lake, "id", "a") == {(1, "a1"), (2, "a2")}
    waiting = progress_of(lake, made)
    assert (waiting.position, waiting.tables, list(waiting.waits)) == ("3", {"public.orders"}, ["public.t"])
    part = Part(
        "public.t", anew, [event("r", None, {"id": number, "a": f"new {number}", "gone": "g"}) for number in (1, 5)]
    )
    ingest(lake, made, Loading(batches, rows={"public.t": part}, at="3"), tables=["t"])
    assert rows(lake, "id", "a") == {(1, "new 1"), (5, "new 5")}
    last = Part("public.t", anew, [event("d", {"id": 1}, None)])
    ingest(lake, made, Loading([*batches, [last, order(4)]]))
    assert rows(lake, "id", "a") == {(5, "new 5")}
    assert progress_of(lake, made).waits == {}


def test_a_table_is_reloaded_that_somebody_asked_for(lake: Warehouse) -> None:
    """Once, by the process that ingests the source next."""
    lake = lake.under(ingest={"lease_seconds": 0})
    made, first = source_of(lake, "t", "orders"), log(keyed=True)[0]
    batches = [[*first, order(1)]]
    ingest(lake, made, Loading(batches, rows={"public.t": first[0], "public.orders": order(1)}, at="1"))
    with pytest.raises(ConfigError, match="shop is no database"):
        request_resync(lake.session_of(asked_of(made, can_load=False)))
    assert request_resync(lake.session_of(asked_of(made, can_load=True))) == "shop"
    part = Part("public.t", BEFORE, [event("r", None, {"id": 2, "a": "new", "gone": "g"})])
    transport = Loading(batches, rows={"public.t": part}, at="1")
    ingest(lake, made, transport)
    assert transport.loaded == ["public.t"]
    assert rows(lake, "id", "a") == {(2, "new")}
    again = Loading(batches)
    ingest(lake, made, again)
    assert again.loaded == []


def asked_of(made: IngestSource, can_load: bool) -> Model:
    return replace(
        made.tables[0].to_model(("id",)), source=ChangeSource(made.name, made.dead_letter_table, can_load=can_load)
    )
