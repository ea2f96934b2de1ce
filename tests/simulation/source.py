"""A database whose transactions are the truth, and the stream of its change events, modelled after a log of changes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timezone
from random import Random
from typing import Any

from arctic_runtime.ingest.formats.event_format import SourceColumn, SourceSchema
from arctic_runtime.ingest.transports.transport import Batch, TableEvents
from arctic_runtime.model.columns import Column
from tests.simulation.kernel import EPOCH
from tests.simulation.lake import Row
from tests.simulation.rows import Rows
from tests.simulation.threads import TIME, Current, Event

ORDERS, CUSTOMERS = "shop.orders", "shop.customers"
COLUMNS = {
    ORDERS: (
        Column("id", "bigint"),
        Column("customer", "bigint"),
        Column("amount", "bigint"),
        Column("status", "string"),
    ),
    CUSTOMERS: (Column("id", "bigint"), Column("region", "string")),
}
SCHEMAS = {
    table: SourceSchema(tuple(SourceColumn(column.name, column.type) for column in columns), ("id",))
    for table, columns in COLUMNS.items()
}


@dataclass(frozen=True)
class SourceChange:
    table: str
    key: int
    row: Row | None


@dataclass(frozen=True)
class Transaction:
    """A transaction that was committed at the time `at`; `number` is its place in the log, from 1."""

    number: int
    at: float
    changes: tuple[SourceChange, ...]


@dataclass(frozen=True)
class SourceEvent:
    position: int
    at: float
    key: int
    row: Row | None


class Source:
    """The transactions of a run, in order; the rows after any of them are a fold in Python."""

    def __init__(self, transactions: Sequence[Transaction]) -> None:
        self.transactions = list(transactions)
        self.acknowledged = 0
        self._states: list[dict[str, Rows]] = [{table: {} for table in COLUMNS}]
        for transaction in self.transactions:
            self._fold(transaction)

    def append(self, at: float, changes: Sequence[SourceChange]) -> None:
        """Commits one more transaction."""
        transaction = Transaction(len(self.transactions) + 1, at, tuple(changes))
        self.transactions.append(transaction)
        self._fold(transaction)

    def _fold(self, transaction: Transaction) -> None:
        state = {table: dict(rows) for table, rows in self._states[-1].items()}
        for change in transaction.changes:
            if change.row is None:
                state[change.table].pop((change.key,), None)
            else:
                state[change.table][(change.key,)] = change.row
        self._states.append(state)

    def rows_after(self, table: str, number: int) -> Rows:
        return self._states[number][table]

    def find_same(self, table: str, number: int) -> int:
        """The first transaction since which the rows of a table have been the same as after this one."""
        while number and self._states[number][table] == self._states[number - 1][table]:
            number -= 1
        return number

    @property
    def last(self) -> int:
        return len(self.transactions)

    def count_before(self, until: float) -> int:
        """Number of transactions that were committed before a time."""
        return sum(one.at < until for one in self.transactions)

    def list_between(self, after: int, now: float) -> list[Transaction]:
        """Transactions after a place in the log that were committed by now."""
        return [one for one in self.transactions[after:] if one.at <= now]

    def find_lacking(self, table: str, number: int, until: float) -> Transaction | None:
        """The first transaction that changed a table before the time `until` and is not among the first `number`."""
        for one in self.transactions[number:]:
            if one.at >= until:
                return None
            if self._states[one.number][table] != self._states[one.number - 1][table]:
                return one
        return None


def draw_transactions(random: Random, seconds: float) -> list[Transaction]:
    """Draws transactions over so many seconds, some of them close together."""
    transactions: list[Transaction] = []
    live: dict[str, dict[int, Row]] = {table: {} for table in COLUMNS}
    at = EPOCH + 1.0
    for number in range(1, random.randint(6, 24)):
        changes = [_draw_change(random, live) for _ in range(random.choice((1, 1, 2, 4)))]
        if number == 1:
            # Models wait for tables that ingestion has not made, so each gets rows at once.
            changes = [_draw_change(random, live, table) for table in COLUMNS]
        transactions.append(Transaction(number, at, tuple(changes)))
        at += random.choice((0.0, random.random() * 20, random.random() * seconds / 6))
        if at > EPOCH + seconds:
            break
    return transactions


FORGOTTEN_KEY, FORGOTTEN_AMOUNT = 77, 1_000_000
"""The key of the order that is forgotten, and its amount, which no sum of other orders reaches."""


def add_forgotten_order(transactions: Sequence[Transaction], seconds: float) -> list[Transaction]:
    """Adds transactions that insert, change and, much later, delete the order that is forgotten in between."""
    row: Row = (FORGOTTEN_KEY, 1, FORGOTTEN_AMOUNT, "paid")
    rows = ((0.1, row), (0.2, (*row[:1], 2, FORGOTTEN_AMOUNT + 1, "paid")), (0.85, None))
    customers = tuple(SourceChange(CUSTOMERS, key, (key, "west")) for key in (1, 2))
    added = [
        Transaction(0, EPOCH + share * seconds, (*(customers if share == 0.1 else ()), SourceChange(ORDERS, 77, after)))
        for share, after in rows
    ]
    return sorted([*transactions, *added], key=lambda one: one.at)


def _draw_change(random: Random, live: dict[str, dict[int, Row]], table: str = "") -> SourceChange:
    table = table or random.choice((ORDERS, ORDERS, CUSTOMERS))
    key = random.randint(1, 8 if table == ORDERS else 4)
    if key in live[table] and random.random() < 0.25:
        del live[table][key]
        return SourceChange(table, key, None)
    row: Row = (
        (key, random.randint(1, 4), random.randint(1, 99), random.choice(("paid", "open")))
        if table == ORDERS
        else (key, random.choice(("north", "south", "east")))
    )
    live[table][key] = row
    return SourceChange(table, key, row)


class Transport:
    """Reads the log of a source; after it was opened, events that were not acknowledged may come again."""

    initial = "0"

    def __init__(self, source: Source, batch_size: int, poll_seconds: float, replays: Callable[[], int]) -> None:
        self._source = source
        self._size = batch_size
        self._poll = poll_seconds
        self._replays = replays
        self._at = 0
        self._closed = Event()

    def check_source(self, position: str | None) -> None:
        """The log always has everything."""

    def begins_with_snapshot(self, position: str) -> bool:
        return False

    def open_at(self, position: str) -> None:
        again = self._replays()
        self._at = max(0, min(int(position), self._source.acknowledged) - again) if again else int(position)
        self._closed.clear()

    def read_batches(self, until_drained: bool) -> Iterator[Batch]:
        while not self._closed.is_set():
            asked = datetime.fromtimestamp(TIME.time(), timezone.utc)
            found = self._source.list_between(self._at, Current.kernel.now)
            batch, rest = found[: self._size], found[self._size :]
            if batch:
                self._at = batch[-1].number
                yield self._build_batch(batch, None if rest else asked)
            elif until_drained:
                return
            else:
                yield Batch((), str(self._at), 0, caught_up=asked)
            if not rest:
                self._closed.wait(self._poll)

    def _build_batch(self, transactions: Sequence[Transaction], caught_up: Any) -> Batch:
        events: dict[str, list[SourceEvent]] = {}
        for one in transactions:
            for change in one.changes:
                events.setdefault(change.table, []).append(SourceEvent(one.number, one.at, change.key, change.row))
        tables = tuple(TableEvents(table, SCHEMAS[table], own) for table, own in sorted(events.items()))  # type: ignore[arg-type]
        return Batch(tables, str(transactions[-1].number), sum(map(len, events.values())), caught_up=caught_up)

    def select_after(self, events: TableEvents, position: str) -> TableEvents:
        own: Any = events.events
        return TableEvents(events.table, events.schema, [event for event in own if event.position > int(position)])  # type: ignore[arg-type]

    def acknowledge_batch(self, batch: Batch) -> None:
        self._source.acknowledged = max(self._source.acknowledged, int(batch.position))

    def close_source(self) -> None:
        self._closed.set()
