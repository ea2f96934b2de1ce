"""All rows declared as of a place in the order of events: later ones hold, earlier ones are no news."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from arctic_runtime.errors import ConfigError, DataError
from arctic_runtime.spark.refresh.overwrite import overwrite_with_source, restore_version
from arctic_runtime.spark.tables.table_session import TableSession
from tests.spark.tables.test_commits import once_before
from tests.spark.tables.test_restore import EVENTS, counted, events_model
from tests.spark.warehouse import Warehouse

if TYPE_CHECKING:
    from arctic_runtime.model.state import TableState
    from arctic_runtime.model.table import Model

EXTRACT = "id int, v string"


def declare(lake: Warehouse, model: Model, as_of: object, *rows: tuple[Any, ...]) -> tuple[int, int, int]:
    lake.load("extract", rows, EXTRACT)
    counts = overwrite_with_source(lake.refresh_of(model), lake.table("extract"), str(as_of))
    return counts["insert"], counts["update"], counts["delete"]


@pytest.mark.in_turn
@pytest.mark.parametrize("merge", ["on_write", pytest.param("on_read", marks=pytest.mark.slow)])
def test_later_events_hold_and_earlier_ones_are_no_news(lake: Warehouse, merge: str) -> None:
    """Of keys 5 and 6 a later event was read that changed nothing, or deleted a row that was not there."""
    model = events_model(lake, merge=merge)
    above = counted(lake, model)
    first = [(1, "a", 1, "c"), (2, "b", 2, "c"), (3, "c", 3, "c"), (4, "d", 4, "c"), (5, "e", 5, "c")]
    lake.append("events", first, EVENTS)
    lake.run(model)
    lake.append("events", [(4, "D", 20, "u"), (5, "e", 21, "u"), (6, None, 22, "d")], EVENTS)
    lake.run(model)
    lake.run(above)
    rows = [(1, "a"), (2, "B"), (4, "old"), (5, "old"), (6, "old"), (7, "g")]
    assert declare(lake, model, 10, *rows) == (1, 1, 1)
    expected = [(1, "a"), (2, "B"), (4, "D"), (5, "e"), (7, "g")]
    assert lake.rows(model) == expected
    followed = lake.run(above)
    assert (followed.mode, lake.rows(above)) == ("incremental", sorted((v, 1) for _, v in expected))
    assert declare(lake, model, 10, *rows) == (0, 0, 0)
    late = [(1, "late", 8, "u"), (3, "late", 9, "c"), (8, "late", 10, "c"), (2, "news", 11, "u"), (7, None, 12, "d")]
    lake.append("events", late, EVENTS)
    assert lake.actions(lake.run(model)) == (0, 1, 1)
    assert lake.rows(model) == [(1, "a"), (2, "news"), (4, "D"), (5, "e")]
    assert declare(lake, model, 10, *rows) == (0, 0, 0)
    with pytest.raises(ConfigError, match="expected: 10 or later\n  found: 9"):
        declare(lake, model, 9, *rows)
    lake.append("events", [(3, "later", 9, "c")], EVENTS)
    assert lake.actions(lake.run(model)) == (0, 0, 0)
    assert lake.broken(model) == []
    assert lake.left_out(model) == ["the query gives the table: rows were declared: all rows as of 10"]
    lake.run(model, full_refresh=True)
    assert (3, "later") in lake.rows(model)
    assert lake.broken(model) == lake.left_out(model) == []


def test_an_event_that_another_run_reads_meanwhile_holds_though_it_changed_nothing(
    lake: Warehouse, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = events_model(lake)
    lake.append("events", [(1, "a", 1, "c"), (5, "e", 5, "c")], EVENTS)
    lake.run(model)
    reconcile = TableSession.reconcile_until_done

    def let_another_run_read(session: TableSession, *arguments: Any, **named: Any) -> TableState:
        monkeypatch.setattr(TableSession, "reconcile_until_done", reconcile)
        lake.append("events", [(5, "e", 21, "u")], EVENTS)
        lake.run(model)
        return reconcile(session, session.observe_state())

    monkeypatch.setattr(TableSession, "reconcile_until_done", let_another_run_read)
    assert declare(lake, model, 10, (1, "A"), (5, "old")) == (0, 1, 0)
    assert lake.rows(model) == [(1, "A"), (5, "e")]


PLACED = "id int, region string, v string, lsn bigint, op string"


def placed_model(lake: Warehouse) -> Model:
    sql = "select id, region, v, lsn, op from {changes(events)}"
    config = {"input": "changes", "sequence_by": "lsn", "delete_when": "op = 'd'", "exclude_columns": ["op", "lsn"]}
    return lake.model("m", sql, primary_key="id", partition_by=["region"], **config)


def declare_part(lake: Warehouse, model: Model, as_of: int, region: str, *rows: tuple[Any, ...]) -> tuple[int, ...]:
    lake.load("extract", rows, "id int, region string, v string")
    counts = overwrite_with_source(lake.refresh_of(model), lake.table("extract"), str(as_of), {"REGION": region})
    return counts["insert"], counts["update"], counts["delete"]


@pytest.mark.in_turn
def test_a_partition_is_declared_alone(lake: Warehouse) -> None:
    """Rows come from another partition and leave for one, before and after; others are as if nothing had been said."""
    model = placed_model(lake)
    first = [(1, "eu", "a"), (2, "eu", "b"), (3, "us", "c"), (4, "us", "d"), (5, "eu", "e"), (6, "eu", "f")]
    lake.append("events", [(*row, row[0], "c") for row in first], PLACED)
    lake.run(model)
    lake.append("events", [(5, "eu", "E", 20, "u"), (7, "us", "g", 8, "c")], PLACED)
    lake.run(model)
    rows = [(1, "eu", "A"), (3, "eu", "C"), (8, "eu", "h"), (5, "eu", "old")]
    assert declare_part(lake, model, 10, "eu", *rows) == (1, 2, 2)
    expected = {1: ("eu", "A"), 3: ("eu", "C"), 4: ("us", "d"), 5: ("eu", "E"), 7: ("us", "g"), 8: ("eu", "h")}
    assert lake.rows(model) == sorted(((key, *value) for key, value in expected.items()), key=repr)
    assert declare_part(lake, model, 10, "eu", *rows) == (0, 0, 0)
    late = [
        (1, "eu", "late", 9, "u"),
        (2, "us", "moved", 9, "u"),
        (3, "us", "late", 9, "u"),
        (4, "us", "news", 9, "u"),
        (6, "eu", "late", 10, "u"),
        (8, "us", "moved on", 11, "u"),
        (9, "eu", "late", 10, "c"),
        (10, "us", "new", 2, "c"),
    ]
    lake.append("events", late, PLACED)
    lake.run(model)
    expected |= {2: ("us", "moved"), 4: ("us", "news"), 8: ("us", "moved on"), 10: ("us", "new")}
    assert lake.rows(model) == sorted(((key, *value) for key, value in expected.items()), key=repr)
    assert lake.broken(model) == []
    assert lake.left_out(model) == ["the query gives the table: rows were declared: region = eu as of 10"]


@pytest.mark.slow
def test_partitions_are_declared_as_of_places_of_their_own_and_never_older_ones(lake: Warehouse) -> None:
    model = placed_model(lake)
    lake.append("events", [(1, "eu", "a", 1, "c"), (2, "us", "b", 2, "c")], PLACED)
    lake.run(model)
    assert declare_part(lake, model, 10, "eu", (1, "eu", "x")) == (0, 1, 0)
    assert declare_part(lake, model, 5, "us", (2, "us", "y")) == (0, 1, 0)
    before = lake.head(model)
    for region, as_of in (("eu", 9), ("us", 4)):
        with pytest.raises(ConfigError, match="declared as of a later position"):
            declare_part(lake, model, as_of, region)
    lake.load("extract", [(1, "eu", "z")], "id int, region string, v string")
    with pytest.raises(ConfigError, match="expected: 10 or later\n  found: 7"):
        overwrite_with_source(lake.refresh_of(model), lake.table("extract"), "7")
    with pytest.raises(DataError, match=r"the given rows contain rows outside of region = eu[\s\S]*us"):
        declare_part(lake, model, 11, "eu", (1, "eu", "z"), (9, "us", "z"))
    with pytest.raises(ConfigError, match="expected: a value for each of region"):
        overwrite_with_source(lake.refresh_of(model), lake.table("extract"), "11", {"v": "z"})
    assert lake.head(model) == before
    assert lake.rows(model) == [(1, "eu", "x"), (2, "us", "y")]
    lake.load("extract", [(1, "eu", "z")], "id int, region string, v string")
    overwrite_with_source(lake.refresh_of(model), lake.table("extract"), "12")
    assert lake.rows(model) == [(1, "eu", "z")]
    with pytest.raises(ConfigError, match="expected: 12 or later"):
        declare_part(lake, model, 11, "us")


@pytest.mark.slow
def test_what_was_declared_survives_a_restore_and_a_race(lake: Warehouse) -> None:
    model = events_model(lake)
    lake.append("events", [(1, "a", 1, "c"), (2, "b", 2, "c")], EVENTS)
    lake.run(model)
    lake.append("events", [(2, "newer", 30, "u")], EVENTS)
    session = lake.environment.new_session()
    with once_before("commit.publish", lambda: lake.run(model, lambda: session)):
        assert declare(lake, model, 10, (1, "x"), (2, "x"), (3, "x")) == (1, 1, 0)
    assert lake.rows(model) == [(1, "x"), (2, "newer"), (3, "x")]
    good = lake.head(model)
    declare(lake, model, 20)
    assert lake.rows(model) == [(2, "newer")]
    restore_version(lake.session_of(model), good)
    lake.append("events", [(4, "late", 19, "c"), (5, "news", 21, "c")], EVENTS)
    lake.run(model)
    assert lake.rows(model) == [(1, "x"), (2, "newer"), (3, "x"), (5, "news")]
    assert lake.branches(model) == set()
    assert lake.broken(model) == []


def test_what_can_not_be_declared_is_refused_and_changes_nothing(lake: Warehouse) -> None:
    model = events_model(lake)
    with pytest.raises(ConfigError, match="has not been built yet"):
        declare(lake, model, 1, (1, "a"))
    lake.append("events", [(1, "a", 1, "c")], EVENTS)
    lake.run(model)
    for rows in ([(1, "x"), (1, "y")], [(None, "x")]):
        with pytest.raises(DataError, match="of the query have a"):
            declare(lake, model, 5, *rows)
    with pytest.raises(ConfigError, match="expected: a value of `lsn`, which has the type bigint"):
        declare(lake, model, "yesterday", (1, "x"))
    lake.load("narrow", [(1,)], "id int")
    with pytest.raises(ConfigError, match="missing: v"):
        overwrite_with_source(lake.refresh_of(model), lake.table("narrow"), "5")
    plain = lake.model("m", "select 1 as id, 'a' as v", primary_key="id")
    with pytest.raises(ConfigError, match="expected: input: changes, sequence_by, and on_match: replace"):
        overwrite_with_source(lake.refresh_of(plain), lake.table("extract"), "5")
    assert lake.rows(model) == [(1, "a")]
