"""What a source does to columns holds for the rows that are there too, although no event tells it."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from arctic_runtime.effects import failpoint
from arctic_runtime.errors import SourceError
from arctic_runtime.ingest.formats.event_format import NULL_IN_OLDER_ROWS, OlderRows, SourceColumn, SourceSchema
from arctic_runtime.ingest.source import IngestSource
from tests.spark.replay import Part, Replay, event, ingest, source_of
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
    first = [{"id": of, "a": f"a{of}", "gone": "g"} for of in (1, 2)]
    later = [{"id": 3, "b": "b3", "n": 7, "m": "m"}]
    parts = [(BEFORE, first), (AFTER, later), (AGAIN, [{"id": 4, "n": 8, "a": "new"}])]
    return [
        [Part("public.t", of if keyed else replace(of, key=()), [event("c", None, row) for row in rows])]
        for of, rows in parts
    ]


def source(lake: Warehouse, changes: str, keyed: bool) -> IngestSource:
    made = source_of(lake, "t", **({} if keyed else {"primary_key": None}))
    return replace(made, tables=tuple(replace(of, schema_changes=changes) for of in made.tables))


def rows(lake: Warehouse, *names: str) -> set[tuple[Any, ...]]:
    return {tuple(row) for row in lake.spark.table(lake.sql_name("t")).select(*names).collect()}


@pytest.mark.parametrize(
    ("keyed", "changes"),
    [
        (True, "safe"),
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

    with failpoint(dying):
        for _ in range(20):
            with contextlib.suppress(Died):
                ingest(lake, made, Replay(batches[:2]))
                break
    assert {"schema.evolve", "ingest.columns", "commit.publish"} <= died
    assert rows(lake, "id", "b", "n", "m") == {(1, "a1", 5, None), (2, "a2", 5, None), (3, "b3", 7, "m")}
    kept = [] if changes == "evolve" else ["a", "gone"]
    assert [of for of in lake.spark.table(lake.sql_name("t")).columns if of not in ("id", "b", "n", "m")] == kept
    if changes == "safe":
        assert rows(lake, "id", "a", "gone") == {(1, "a1", "g"), (2, "a2", "g"), (3, None, None)}
    ingest(lake, made, Replay(batches))
    assert rows(lake, "id", "n", "a") == {(1, 5, None), (2, 5, None), (3, 7, None), (4, 8, "new")}
    if keyed:
        assert lake.broken(made.tables[0].model(("id",))) == []


@pytest.mark.slow
def test_a_column_that_was_made_anew_ends_ingestion_until_the_table_is_read_again(lake: Warehouse) -> None:
    made, (first, *_) = source(lake, "safe", keyed=True), log(keyed=True)
    anew = SourceSchema((ID, column("a", 9), column("gone", 3)), ("id",))
    ingest(lake, made, Replay([first]))
    part = Part("public.t", anew, [event("c", None, {"id": 5, "a": "x", "gone": "g"})])
    with pytest.raises(SourceError, match="a can't be told from another column"):
        ingest(lake, made, Replay([first, [part]]))
    snapshot = Part("public.t", anew, [event("r", None, {"id": of, "a": None, "gone": "g"}) for of in (1, 2)])
    ingest(lake, made, Replay([[snapshot], [part]], snapshot=2))
    assert rows(lake, "id", "a", "gone") == {(1, None, "g"), (2, None, "g"), (5, "x", "g")}
