"""A part of a table of change events is folded again from all events of its keys, as a fold in Python says."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

import pytest

from arctic_runtime.errors import PlanError
from arctic_runtime.model.table import Model
from arctic_runtime.operations.inspect import describe_history, read_history
from arctic_runtime.spark.refresh.overwrite import restore_version
from arctic_runtime.spark.refresh.restate import count_restated, restate_part
from tests.spark.event_fold import EVENTS, KINDS, Event, draw_histories
from tests.spark.models.test_splits_random import make_model, read_rows
from tests.spark.warehouse import Rows, Warehouse, refuse

pytestmark = pytest.mark.in_turn

DAMAGES = (
    "update {t} set n = -1 where id % 5 = 1",
    "delete from {t} where id % 7 = 2",
    "update {t} set a = null where id % 4 = 3",
    "insert into {t} (id, n) values (901, 1), (902, 5)",
)
PARTS: dict[str, Callable[[tuple[Any, ...]], bool]] = {
    "id % 3 = 1 or id > 900": lambda row: row[0] % 3 == 1 or row[0] > 900,
    "n < 2": lambda row: row[3] is not None and row[3] < 2,
}
FEW = ("functions, net, truncated", "sent columns, truncated", "not looked up")
MORE = ("order of arrival, functions", "sent columns, all", "update, net", "order of arrival", "replace, all")


def damage(lake: Warehouse, model: Model) -> None:
    for statement in DAMAGES:
        lake.spark.sql(statement.format(t=lake.sql_name(model.base.name)))


def mend(before: Rows, right: Rows, name: str) -> Rows:
    """The rows that were there, with those of the keys of a part, on either side, as they have to be."""
    part = {row[0] for row in (*before, *right) if PARTS[name](row)}
    rows = [row for row in before if row[0] not in part] + [row for row in right if row[0] in part]
    return sorted(rows, key=repr)


def check_part(lake: Warehouse, name: str, seed: int) -> None:
    kind, random = KINDS[name], Random(seed)
    first, second, third = draw_histories(seed, 30, 3, False, truncations=1)
    model = make_model(lake, kind, "m")

    def fold(*batches: list[Event]) -> Rows:
        return kind.fold([event for batch in batches for event in batch if kind.truncates or event.op != "t"])

    for batch in (first, second):
        lake.append("events", batch, EVENTS)
        lake.run(model)
    damage(lake, model)
    lake.append("events", third, EVENTS)
    before, where = read_rows(lake, kind, model), random.choice([*PARTS])
    counted = count_restated(lake.refresh_of(model), where)
    assert read_rows(lake, kind, model) == before
    done = restate_part(lake.refresh_of(model), where)
    assert (done.rows, done.reads) == (counted.rows, counted.reads), (name, seed)
    assert read_rows(lake, kind, model) == mend(before, fold(first, second), where), (name, seed, where)
    restate_part(lake.refresh_of(model), "true")
    assert read_rows(lake, kind, model) == fold(first, second), (name, seed)
    lake.run(model)
    assert read_rows(lake, kind, model) == fold(first, second, third), (name, seed)
    assert [text for text in lake.broken(model) if "the query gives" in text] == []


@pytest.mark.in_turn
@pytest.mark.parametrize("name", FEW)
def test_a_part_of_random_events_is_as_a_fold_says_and_later_events_follow(lake: Warehouse, name: str) -> None:
    check_part(lake, name, 3)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(4, 7))
@pytest.mark.parametrize("name", [*FEW, *MORE])
def test_parts_of_more_random_events_are_as_a_fold_says(lake: Warehouse, name: str, seed: int) -> None:
    check_part(lake, name, seed)


def event(key: int, n: int, seq: int) -> Event:
    return Event(key, "a", "b", n, "u", seq, 0)


def test_a_restated_key_keeps_its_place_and_the_predicate_is_in_the_history(lake: Warehouse) -> None:
    lake.append("events", [event(1, 10, 5), event(2, 20, 5)], EVENTS)
    model = make_model(lake, KINDS["replace, net"], "m")
    lake.run(model)
    lake.spark.sql(f"update {lake.sql_name(model.base.name)} set n = 0")
    done = restate_part(lake.refresh_of(model), "id = 1")
    assert done.rows["update"] == 1
    assert [(row["id"], row["n"], row["_seq"]) for row in lake.log(model)[-1:]] == [(1, 10, 5)]
    assert describe_history(read_history(lake.reader, model)[0])[1].strip() == "where id = 1"
    assert lake.run(model, refuse).mode == "unchanged"
    lake.append("events", [event(1, 99, 4)], EVENTS)
    lake.run(model)
    assert {row[0]: row[3] for row in lake.rows(model)} == {1: 10, 2: 0}


def test_events_that_are_gone_are_refused_and_nothing_is_written(lake: Warehouse) -> None:
    lake.append("events", [event(1, 10, 5), event(2, 20, 5)], EVENTS)
    model = make_model(lake, KINDS["not looked up"], "m")
    lake.run(model)
    head = lake.head(model)
    lake.spark.sql(f"delete from {lake.sql_name('events')} where id = 2")
    with pytest.raises(PlanError, match=r"(?s)events may no longer have all events.*arctic overwrite m"):
        restate_part(lake.refresh_of(model), "id = 1")
    assert lake.head(model) == head


def test_a_restored_table_of_events_is_not_folded_again(lake: Warehouse) -> None:
    lake.append("events", [event(1, 10, 5)], EVENTS)
    model = make_model(lake, KINDS["not looked up"], "m")
    lake.run(model)
    version = lake.head(model)
    lake.append("events", [event(1, 20, 6)], EVENTS)
    lake.run(model)
    restore_version(lake.session_of(model), version)
    with pytest.raises(PlanError, match="restored to an older version"):
        restate_part(lake.refresh_of(model), "id = 1")
