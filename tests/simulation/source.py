"""A database whose transactions are the truth, and the stream of its change events, modelled after a log of changes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
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
    """A change of one row; with a `flaw` its event can't be applied until what is wrong by that name is mended."""

    table: str
    key: int
    row: Row | None
    flaw: str = ""


@dataclass(frozen=True)
class Transaction:
    """A transaction that was committed at the time `at`; `number` is its place in the log, from 1."""

    number: int
    at: float
    changes: tuple[SourceChange, ...]


EventId = tuple[int, int]
"""Number of an event's transaction, and its place among the changes of that."""


@dataclass(frozen=True)
class SourceEvent:
    position: int
    at: float
    key: int
    row: Row | None
    id: EventId = (0, 0)
    flaw: str = ""


@dataclass(frozen=True, order=True)
class Position:
    """The events that a version of a table has: those up to a transaction but for `skipped` ones, and `early` ones."""

    number: int
    skipped: tuple[EventId, ...] = ()
    early: tuple[EventId, ...] = ()

    def __str__(self) -> str:
        skipped = f" without {list(self.skipped)}" if self.skipped else ""
        return f"{self.number}{skipped}{f' with {list(self.early)}' if self.early else ''}"


@dataclass(frozen=True)
class Unfit:
    """The events of a part of a batch that can't be applied, each with its number in the part."""

    events: Sequence[tuple[int, SourceEvent]]
    version_before: Any


def is_fit(event: SourceEvent) -> bool:
    """Whether an event can be decoded, by what is mended at this time."""
    return not event.flaw or event.flaw in Current.mended


def fold_events(rows: Rows, events: Iterable[SourceEvent]) -> Rows:
    """Folds events to rows, in their order."""
    new = dict(rows)
    for event in events:
        new.pop((event.key,), None)
        if event.row is not None:
            new[(event.key,)] = event.row
    return new


class Source:
    """The transactions of a run, in order; the rows after any of them are a fold in Python."""

    def __init__(self, transactions: Sequence[Transaction]) -> None:
        self.transactions = list(transactions)
        self.acknowledged = 0
        self._states: list[dict[str, Rows]] = [{table: {} for table in COLUMNS}]
        self._folded: dict[tuple[str, Position], Rows] = {}
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

    def list_events(self, table: str) -> list[SourceEvent]:
        """Lists the events of a table in their order."""
        return [
            SourceEvent(one.number, one.at, change.key, change.row, (one.number, place), change.flaw)
            for one in self.transactions
            for place, change in enumerate(one.changes)
            if change.table == table
        ]

    def rows_at(self, table: str, at: Position) -> Rows:
        """The rows of a table that has just these events."""
        if not at.skipped and not at.early:
            return self._states[at.number][table]
        known = self._folded.get((table, at))
        if known is None:
            own = (
                event
                for event in self.list_events(table)
                if event.id in at.early or (event.position <= at.number and event.id not in at.skipped)
            )
            known = self._folded[table, at] = fold_events({}, own)
        return known

    def find_same(self, table: str, at: Position) -> Position:
        """The first transaction since which the rows of a table have been the same, without events of no effect."""
        rows, number = self.rows_at(table, at), at.number
        skipped = tuple(one for one in at.skipped if self.rows_at(table, _add_event(at, one)) != rows)
        at = Position(number, skipped, at.early)
        while number and self.rows_at(table, Position(number - 1, skipped, at.early)) == rows:
            number -= 1
        return Position(number, tuple(one for one in skipped if one[0] <= number), at.early)

    @property
    def last(self) -> int:
        return len(self.transactions)

    def count_before(self, until: float) -> int:
        """Number of transactions that were committed before a time."""
        return sum(one.at < until for one in self.transactions)

    def list_between(self, after: int, now: float) -> list[Transaction]:
        """Transactions after a place in the log that were committed by now."""
        return [one for one in self.transactions[after:] if one.at <= now]

    def find_lacking(self, table: str, at: Position, until: float) -> Transaction | None:
        """The first transaction that changed a table before the time `until` and that these events do not include.

        Events with a flaw do not count.
        """
        flawed = tuple(event.id for event in self.list_events(table) if event.flaw and event.id not in at.early)
        before = self.rows_at(table, at)
        for one in self.transactions[at.number :]:
            if one.at >= until:
                return None
            skipped = tuple(sorted({*at.skipped, *(own for own in flawed if own[0] > at.number)}))
            if self.rows_at(table, Position(one.number, skipped, at.early)) != before:
                return one
        return None


def _add_event(at: Position, event: EventId) -> Position:
    return Position(at.number, tuple(one for one in at.skipped if one != event), at.early)


FLAWS = ("cents", "names")
"""What may be wrong with events until it is mended."""


def add_flaws(transactions: Sequence[Transaction], draw: Callable[..., float], share: float) -> list[Transaction]:
    """Gives a share of the changes a flaw, except those of the first transaction, which makes the tables."""

    def mark(one: Transaction, place: int, change: SourceChange) -> SourceChange:
        drawn = draw("flaw", one.number, place)
        return replace(change, flaw=FLAWS[drawn < share / 2]) if drawn < share else change

    return [
        replace(one, changes=tuple(mark(one, place, change) for place, change in enumerate(one.changes)))
        if one.number > 1
        else one
        for one in transactions
    ]


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
            for place, change in enumerate(one.changes):
                event = SourceEvent(one.number, one.at, change.key, change.row, (one.number, place), change.flaw)
                events.setdefault(change.table, []).append(event)
        tables = tuple(TableEvents(table, SCHEMAS[table], own) for table, own in sorted(events.items()))  # type: ignore[arg-type]
        return Batch(tables, str(transactions[-1].number), sum(map(len, events.values())), caught_up=caught_up)

    def select_after(self, events: TableEvents, position: str) -> TableEvents:
        own: Any = events.events
        return TableEvents(events.table, events.schema, [event for event in own if event.position > int(position)])  # type: ignore[arg-type]

    def acknowledge_batch(self, batch: Batch) -> None:
        self._source.acknowledged = max(self._source.acknowledged, int(batch.position))

    def close_source(self) -> None:
        self._closed.set()
