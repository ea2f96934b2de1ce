"""Rows change their primary keys in transactions, whose net effect alone is published, in one commit for a batch."""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import pytest
from pyspark.sql import functions as F

from arctic_runtime.effects import set_failpoint
from arctic_runtime.errors import DataError
from arctic_runtime.ingest.formats.debezium import UNAVAILABLE
from arctic_runtime.ingest.formats.event_format import SourceColumn, SourceSchema
from tests.spark.ingest.test_batches import Died, dies_after
from tests.spark.replay import ORDERS, Part, Replay, event, ingest, move, source_of
from tests.spark.warehouse import Warehouse

PAIRS = SourceSchema(
    (SourceColumn("a", "int"), SourceColumn("b", "string"), SourceColumn("item", "string"), SourceColumn("n", "int")),
    ("a", "b"),
)
"""A table with a key of two columns, and a column with long values."""

Key = tuple[Any, ...]
Row = tuple[Any, ...]


@dataclass
class Table:
    """A table in a PostgreSQL, and its events: an update leaves out a long value that it did not touch."""

    schema: SourceSchema
    rows: dict[Key, Row] = field(default_factory=dict)
    events: list[str] = field(default_factory=list)
    lsn: int = 0

    def insert(self, key: Key, row: Row) -> None:
        self.rows[key] = row
        self._send("c", key, row)

    def update(self, key: Key, row: Row) -> None:
        old, self.rows[key] = self.rows[key], row
        self._send("u", key, self._sent(old, row))

    def delete(self, key: Key) -> None:
        del self.rows[key]
        self._send("d", key, None)

    def move(self, key: Key, new: Key, row: Row | None = None) -> None:
        old = self.rows.pop(key)
        self.rows[new] = old if row is None else row
        self.lsn += 1
        own = self._named(new, self._sent(old, self.rows[new]))
        self.events += move(self._named(key, ()), own, self.lsn)

    def truncate(self) -> None:
        self.rows.clear()
        self.events.append(event("t", None, None))

    def batch(self) -> list[Part]:
        texts, self.events = self.events, []
        return [Part("public.orders", self.schema, texts)]

    def _send(self, op: str, key: Key, row: Row | None) -> None:
        self.lsn += 1
        own = self._named(key, row or ())
        self.events.append(event(op, own if op == "d" else None, None if op == "d" else own, lsn=self.lsn))

    def _sent(self, old: Row, new: Row) -> Row:
        return (UNAVAILABLE if old[0] is not None and old[0] == new[0] else new[0], *new[1:])

    def _named(self, key: Key, row: Row) -> dict[str, Any]:
        names = [column.name for column in self.schema.columns]
        return dict(zip(names, (*key, *row), strict=False))


def changes(before: Mapping[Key, Row], after: Mapping[Key, Row]) -> set[tuple[Any, ...]]:
    """The change rows from one state to another: key, row, action, row before."""
    changes = {(*key, *row, "insert", None) for key, row in after.items() if key not in before}
    changes |= {(*key, *row, "delete", row) for key, row in before.items() if key not in after}
    both = [key for key in after if key in before and before[key] != after[key]]
    return changes | {(*key, *after[key], "update", before[key]) for key in both}


def commits(lake: Warehouse, schema: SourceSchema) -> list[set[tuple[Any, ...]]]:
    """The change rows of each commit, oldest first."""
    names = [column.name for column in schema.columns]
    table = lake.spark.table(lake.sql_name("orders__changes"))
    rows = table.select("_last_updated_sequence_number", *names, "_action", "_before").collect()
    rows_by_batch: dict[int, set[tuple[Any, ...]]] = {}
    for number, *values, action, before in rows:
        own = rows_by_batch.setdefault(number, set())
        size = len(own)
        own.add((*values, action, None if before is None else tuple(before)))
        assert len(own) == size + 1
    return [own for _, own in sorted(rows_by_batch.items())]


def check(lake: Warehouse, table: Table, states: list[Mapping[Key, Row]]) -> None:
    """The table is what its source is, and has one commit for each of these states that differs from the one before."""
    steps = [changes(before, after) for before, after in pairwise(states)]
    assert commits(lake, table.schema) == [step for step in steps if step]
    rows = {tuple(row) for row in lake.spark.table(lake.sql_name("orders")).collect()}
    assert rows == {(*key, *row) for key, row in table.rows.items()}
    (ingested,) = source_of(lake, "orders").tables
    assert lake.broken(ingested.to_model(table.schema.key)) == []


def swap(table: Table, one: int, other: int, between: int = -1) -> None:
    table.move((one,), (between,))
    table.move((other,), (one,))
    table.move((between,), (other,))


def first_rows(count: int) -> Table:
    table = Table(ORDERS)
    for number in range(count):
        table.insert((number,), (f"long {number}", number))
    return table


def test_swaps_and_cycles_of_keys_are_published_by_their_net_effect(lake: Warehouse) -> None:
    """Many swaps in one transaction, a cycle of five, a chain, and moves that end where they began: one commit."""
    table = first_rows(40)
    log, states = [table.batch()], [{}, dict(table.rows)]
    for number in range(0, 20, 2):
        swap(table, number, number + 1)
    table.move((24,), (-1,))
    for number in (23, 22, 21, 20):
        table.move((number,), (number + 1,))
    table.move((-1,), (20,))
    table.move((30,), (-2,))
    table.move((-2,), (30,))
    for number in range(31, 35):
        table.move((number,) if number == 31 else (number + 99,), (number + 100,), (f"long {31}", number))
    table.delete((35,))
    table.move((36,), (35,))
    table.move((37,), (200,))
    table.delete((200,))
    table.move((38,), (201,), (None, 1))
    table.move((201,), (202,), (None, 2))
    table.delete((39,))
    table.insert((39,), ("new", 39))
    log, states = [*log, table.batch()], [*states, dict(table.rows)]
    ingest(lake, source_of(lake, "orders"), Replay(log))
    check(lake, table, states)
    assert lake.spark.table(lake.sql_name("orders__changes")).where(F.col("id") < 0).count() == 0


@pytest.mark.in_turn
def test_a_table_that_is_emptied_and_filled_in_one_batch_is_never_seen_empty(lake: Warehouse) -> None:
    table = first_rows(6)
    log, states = [table.batch()], [{}, dict(table.rows)]
    table.update((1,), ("other", 1))
    table.truncate()
    table.insert((1,), ("long 1", 1))
    table.insert((2,), ("long 2", 9))
    table.insert((7,), ("long 7", 7))
    table.move((7,), (3,))
    log, states = [*log, table.batch()], [*states, dict(table.rows)]
    table.truncate()
    log, states = [*log, table.batch()], [*states, dict(table.rows)]
    ingest(lake, source_of(lake, "orders"), Replay(log))
    check(lake, table, states)


@pytest.mark.in_turn
def test_a_swap_is_published_once_wherever_the_process_dies(lake: Warehouse) -> None:
    lake = lake.under(ingest={"lease_seconds": 0})
    table = first_rows(4)
    log, states = [table.batch()], [{}, dict(table.rows)]
    swap(table, 0, 1)
    log, states = [*log, table.batch()], [*states, dict(table.rows)]
    for effect, times in (("commit.append", 2), ("commit.publish", 1), ("ingest.advance", 2)):
        with set_failpoint(dies_after(effect, times)), pytest.raises(Died):
            ingest(lake, source_of(lake, "orders"), Replay(log))
    ingest(lake, source_of(lake, "orders"), Replay(log))
    check(lake, table, states)


def test_a_row_whose_origin_is_not_known_is_an_error_and_takes_no_other_rows_values(lake: Warehouse) -> None:
    """A delete of another row stands just before the insert, at another place of the log."""
    table = first_rows(2)
    log = [table.batch()]
    lost = [event("d", {"id": 1}, None, lsn=7), event("c", None, {"id": 8, "item": UNAVAILABLE, "n": 1}, lsn=8)]
    log.append([Part("public.orders", ORDERS, lost)])
    with pytest.raises(DataError, match="value that its source did not send"):
        ingest(lake, source_of(lake, "orders"), Replay(log))
    assert lake.spark.table(lake.sql_name("orders")).count() == 2


@pytest.mark.parametrize("seed", [pytest.param(seed, marks=pytest.mark.slow) for seed in range(1, 12)])
def test_random_transactions_are_published_by_their_net_effect(lake: Warehouse, seed: int) -> None:
    chance = random.Random(seed)
    print("seed", seed)
    table = Table(PAIRS)
    log: list[list[Part]] = []
    states: list[Mapping[Key, Row]] = [{}]
    for _ in range(7):
        for _ in range(chance.randrange(1, 4)):
            transact(table, chance)
        log.append(table.batch())
        states.append(dict(table.rows))
    ingest(lake, source_of(lake, "orders"), Replay(log))
    check(lake, table, states)


def transact(table: Table, chance: random.Random) -> None:
    """A transaction of a few statements, over few keys, so that many meet."""
    keys = [(number, letter) for number in range(5) for letter in "xy"]
    for _ in range(chance.randrange(1, 9)):
        used, free = sorted(table.rows), [key for key in keys if key not in table.rows]
        statement = chance.choice(["insert"] * 3 + ["update"] * 2 + ["move"] * 4 + ["cycle"] * 2 + ["delete", "again"])
        if chance.random() < 0.02:
            table.truncate()
        elif statement == "insert" and free:
            table.insert(chance.choice(free), row(chance))
        elif not used:
            continue
        elif statement == "update":
            key = chance.choice(used)
            table.update(key, changed(chance, table.rows[key]))
        elif statement == "move" and free:
            key = chance.choice(used)
            table.move(key, chance.choice(free), changed(chance, table.rows[key]))
        elif statement == "cycle":
            cycle(table, chance.sample(used, chance.randrange(1, len(used) + 1)), chance)
        elif statement == "delete":
            table.delete(chance.choice(used))
        elif statement == "again":
            key = chance.choice(used)
            table.delete(key)
            table.insert(key, row(chance))


def cycle(table: Table, keys: list[Key], chance: random.Random) -> None:
    """Each row gets the key of the next one, by way of a key that no row keeps."""
    table.move(keys[-1], (-1, "x"))
    for new, old in pairwise(reversed(keys)):
        table.move(old, new, changed(chance, table.rows[old]))
    table.move((-1, "x"), keys[0])


def row(chance: random.Random) -> Row:
    return chance.choice(["long", "longer", "longest", None]), chance.randrange(3)


def changed(chance: random.Random, old: Row) -> Row:
    return (row(chance)[0] if chance.random() < 0.2 else old[0]), chance.randrange(3)
