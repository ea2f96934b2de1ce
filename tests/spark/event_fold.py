"""What events leave behind by each rule, computed in Python one history at a time: the judge of tables of events.

Nothing here is taken from the product's own folds: rows in force are listed moment by moment, and compared in the end.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any, NamedTuple


class Event(NamedTuple):
    """An event of a key; `op` is `u` for a row, `d` for its end, `t` for the end of all rows, which has no key.

    `seq` is its place in the order of events, and `at` the time from which on it is true.
    """

    id: int | None
    a: str | None
    b: str | None
    n: int | None
    op: str
    seq: int
    at: int


EVENTS = "id int, a string, b string, n int, op string, seq int, at int"
Rows = list[tuple[Any, ...]]
Fold = Callable[[Sequence[Event]], Rows]
Row = dict[str, Any]
COLUMNS = ("a", "b", "n")


def sort_rows(rows: Iterable[tuple[Any, ...]]) -> Rows:
    return sorted(rows, key=repr)


def split_by_key(events: Sequence[Event]) -> dict[int, list[Event]]:
    """The events of each key as they arrived; those that end all rows are among the events of each."""
    keys = {event.id for event in events if event.id is not None}
    return {key: [event for event in events if event.id in (key, None)] for key in sorted(keys)}


def sort_events(events: Sequence[Event]) -> list[Event]:
    """Events by their sequence, those of one place as they arrived."""
    return [event for _, event in sorted(enumerate(events), key=lambda pair: (pair[1].seq, pair[0]))]


def count_last_of_place(events: Sequence[Event]) -> list[Event]:
    """Of the events in one place the last one."""
    return [list(group)[-1] for _, group in groupby(sort_events(events), key=lambda event: event.seq)]


# Rows of which the events of a key make one


def fold_rows(merge: Callable[[Row | None, Event], Row]) -> Fold:
    """A fold of events one after the other, from a function of the row that is there and an event."""

    def fold(events: Sequence[Event]) -> Rows:
        rows = []
        for key, own in split_by_key(events).items():
            row: Row | None = None
            for event in sort_events(own):
                row = merge(row, event) if event.op == "u" else None
            if row is not None:
                rows.append((key, *row.values()))
        return sort_rows(rows)

    return fold


def in_order_of_arrival(fold: Fold) -> Fold:
    """The same fold of events that have no order but that of their arrival."""
    return lambda events: fold([event._replace(seq=place) for place, event in enumerate(events)])


def replace(row: Row | None, event: Event) -> Row:
    return {column: getattr(event, column) for column in COLUMNS}


def update(row: Row | None, event: Event) -> Row:
    new = replace(row, event)
    return new if row is None else {name: row[name] if value is None else value for name, value in new.items()}


def ignore(row: Row | None, event: Event) -> Row:
    return replace(row, event) if row is None else row


FUNCTIONS = {"a": "last_non_null", "b": "max", "n": "sum"}


def apply_functions(row: Row | None, event: Event) -> Row:
    """`a` is the last value that is not null, `b` the greatest, `n` the sum."""
    was = row or dict.fromkeys(COLUMNS)
    texts, numbers = ([v for v in pair if v is not None] for pair in ((was["b"], event.b), (was["n"], event.n)))
    return {
        "a": was["a"] if event.a is None else event.a,
        "b": max(texts, default=None),
        "n": sum(numbers) if numbers else None,
    }


ENDS = {"a": "first", "b": "min", "n": "last"}


def apply_ends(row: Row | None, event: Event) -> Row:
    """`a` is the first value, `b` the least, `n` the last."""
    if row is None:
        return replace(row, event)
    texts = [text for text in (row["b"], event.b) if text is not None]
    return {"a": row["a"], "b": min(texts, default=None), "n": event.n}


EXPRESSION = {"n": "old.n + 2 * new.n"}


def apply_expression(row: Row | None, event: Event) -> Row:
    """`n` is what it was and twice what the event says; the first event says what it is."""
    new = replace(row, event)
    if row is not None:
        new["n"] = None if row["n"] is None or event.n is None else row["n"] + 2 * event.n
    return new


def keep_key(row: Row | None, event: Event) -> Row:
    return {}


SENT = ("a", "b"), ("a",), ("b", "n"), ()
"""The columns that an event has, by the remainder of its `at`."""
SENT_SQL = (
    "array_intersect(case at % 4 when 0 then array('a', 'b') when 1 then array('a') when 2 then array('b', 'n') "
    "else array() end, array('a', 'b'{})) as sent"
)
ALL_SENT, SENT_IN_FLOWS = SENT_SQL.format(", 'n'"), SENT_SQL.format("")


def update_sent(row: Row | None, event: Event) -> Row:
    was, sent = row or dict.fromkeys(COLUMNS), SENT[event.at % 4]
    return {column: getattr(event, column) if column in sent else was[column] for column in COLUMNS}


def add_sent(row: Row | None, event: Event) -> Row:
    """As `update_sent`, and `n` is a sum."""
    was, new = row or dict.fromkeys(COLUMNS), update_sent(row, event)
    numbers = [v for v in (was["n"], event.n if "n" in SENT[event.at % 4] else None) if v is not None]
    return {**new, "n": sum(numbers) if numbers else None}


FLOWS = {"first": ["a"], "second": ["b"]}
FLOWS_SQL = "if(at % 3 < 2, seq, null) as first, if(at % 3 > 0, seq, null) as second"


def fold_flows(is_partial: bool) -> Fold:
    """Rows of two flows, each in the order of its own places: their columns, the sum of `n`, and the places."""

    def fold(events: Sequence[Event]) -> Rows:
        rows = []
        for key, own in split_by_key(events).items():
            a, first = _newest_of_flow([event for event in own if event.at % 3 < 2], "a", is_partial)
            b, second = _newest_of_flow([event for event in own if event.at % 3 > 0], "b", is_partial)
            rows.append((key, a, b, first, second))
        return sort_rows(rows)

    return fold


def _newest_of_flow(events: Sequence[Event], column: str, is_partial: bool) -> tuple[Any, int | None]:
    value, place = None, None
    for event in sort_events(events):
        place = event.seq
        if event.op == "d":
            value = None
        elif not is_partial or column in SENT[event.at % 4]:
            value = getattr(event, column)
    return value, place


# Rows of which every version is kept


def fold_versions(tracked: Sequence[str] = COLUMNS, keep_deleted: bool = True) -> Fold:
    """Versions of rows: the moments of a key are listed with the row in force, and equal neighbours are one version."""

    def fold(events: Sequence[Event]) -> Rows:
        rows: list[tuple[Any, ...]] = []
        for key, own in split_by_key(events).items():
            moments = count_last_of_place(own)
            deletes = [event.seq for event in moments if event.op == "d"]
            forgotten = -1 if keep_deleted else max(deletes, default=-1)
            rows += [version for version in _versions(key, moments, tracked) if version[4] > forgotten]
        return sort_rows(rows)

    return fold


def _versions(key: int, moments: Sequence[Event], tracked: Sequence[str]) -> Iterable[tuple[Any, ...]]:
    def row_in_force(event: Event) -> tuple[Any, ...] | None:
        return None if event.op == "d" else tuple(getattr(event, column) for column in tracked)

    runs = [list(run) for _, run in groupby(moments, key=row_in_force)]
    ends = [*(run[0].seq for run in runs[1:]), None]
    for run, end in zip(runs, ends, strict=True):
        if run[0].op != "d":
            newest = run[-1]
            yield (key, newest.a, newest.b, newest.n, run[0].seq, end, end is None)


def fold_beliefs(has_deletes: bool = True) -> Fold:
    """What is true from a time on: of the events of one time that with the greatest sequence, of these the last."""

    def fold(events: Sequence[Event]) -> Rows:
        rows = []
        for key, own in split_by_key(events).items():
            times = {event.at: event for event in sort_events(own)}
            for at, event in times.items():
                end = min((time for time in times if time > at), default=None)
                if event.op == "u" or not has_deletes:
                    rows.append((key, event.a, event.b, event.n, at, end, end is None))
        return sort_rows(rows)

    return fold


# Histories


def draw_histories(seed: int, keys: int, runs: int, is_forward: bool, truncations: int = 0) -> list[list[Event]]:
    """Events of many keys, each a history of its own, in batches: each history is split at places of its own.

    Events come late, twice and in any order. Where the stream `is_forward`, none is before those of an earlier batch,
    but the newest places of a batch are the oldest of the next.
    """
    chance = random.Random(seed)
    batches: list[list[Event]] = [[] for _ in range(runs)]
    span = 3

    def draw(key: int | None, batch: int, op: str) -> Event:
        seq = chance.randint(batch * span, (batch + 1) * span) if is_forward else chance.randrange(10)
        n = chance.choice([None, 1, 2])
        return Event(
            key, chance.choice([None, "x", "y"]), chance.choice([None, "v", "w"]), n, op, seq, chance.randrange(10)
        )

    for key in range(keys):
        earlier: list[Event] = []
        for batch in sorted(chance.choices(range(runs), k=chance.randint(1, 8))):
            event = draw(key, batch, chance.choice("uuud"))
            repeatable = [event for event in earlier if not is_forward or event.seq >= batch * span]
            if repeatable and chance.random() < 0.15:
                event = chance.choice(repeatable)
            earlier.append(event)
            batches[batch].insert(chance.randint(0, len(batches[batch])), event)
    for _ in range(truncations):
        batch = chance.randrange(runs)
        batches[batch].insert(chance.randint(0, len(batches[batch])), draw(None, batch, "t"))
    return batches


# Kinds of tables


@dataclass(frozen=True)
class Kind:
    """A kind of table: its configuration, and its rows after events; `columns` are those of its query besides the key.

    `versions` are the columns of the table that say when a row is valid, and `now` which rows it says at present.
    """

    config: Mapping[str, Any]
    fold: Fold
    columns: str = "a, b, n"
    truncates: bool = False
    versions: tuple[str, ...] = ()
    now: str = "true"

    @property
    def is_countable(self) -> bool:
        """Whether a sum can follow its changes, which tell the rows before."""
        return self.config.get("changelog") != "input"


_FLOWS: Mapping[str, Any] = {"sequence_by": FLOWS, "exclude_columns": ["op"]}
_SCD2 = ("_valid_from", "_valid_to", "_is_current")
_HISTORY: Mapping[str, Any] = {"history": "scd2"}


def _history(fold: Fold, **config: Any) -> Kind:
    return Kind({**_HISTORY, **config}, fold, versions=_SCD2)


def _bitemporal(fold: Fold, **config: Any) -> Kind:
    times = {"valid_time": "at", "exclude_columns": ["op", "seq", "at"]}
    return Kind({**_HISTORY, **times, **config}, fold, "a, b, n, at", False, _SCD2, "_recorded_to is null")


def _merged() -> dict[str, Kind]:
    """Rows of events by each way to merge, in net and in all changes, with and without events that empty the table."""
    ways: dict[str, tuple[Mapping[str, Any], Callable[[Row | None, Event], Row]]] = {
        "replace": ({}, replace),
        "update": ({"on_match": "update"}, update),
        "ignore": ({"on_match": "ignore"}, ignore),
        "functions": ({"merge_columns": FUNCTIONS}, apply_functions),
        "ends": ({"merge_columns": ENDS}, apply_ends),
        "expression": ({"merge_columns": EXPRESSION}, apply_expression),
    }
    return {
        f"{way}, {keep}{', truncated' * truncates}": Kind(
            {**config, "keep": keep, **({"truncate_when": "op = 't'"} if truncates else {})},
            fold_rows(merge),
            truncates=truncates,
        )
        for way, (config, merge) in ways.items()
        for keep in ("net", "all")
        for truncates in (False, True)
    }


KINDS: Mapping[str, Kind] = {
    "history": _history(fold_versions()),
    "history of tracked columns": _history(fold_versions(["a"]), track=["a"]),
    "history of rows that are there": _history(fold_versions(keep_deleted=False), keep_deleted=False),
    "history of tracked columns of rows that are there": _history(
        fold_versions(["a"], keep_deleted=False), track=["a"], keep_deleted=False
    ),
    "two times": _bitemporal(fold_beliefs()),
    "two times without deletes": _bitemporal(fold_beliefs(has_deletes=False), delete_when=None),
    **_merged(),
    "key": Kind({}, fold_rows(keep_key), ""),
    "key, all": Kind({"keep": "all"}, fold_rows(keep_key), ""),
    "key, truncated": Kind({"truncate_when": "op = 't'"}, fold_rows(keep_key), "", truncates=True),
    "not looked up": Kind({"changelog": "input"}, fold_rows(replace)),
    "key, not looked up": Kind({"changelog": "input"}, fold_rows(keep_key), ""),
    "order of arrival": Kind(
        {"sequence_by": None, "truncate_when": "op = 't'"}, in_order_of_arrival(fold_rows(replace)), truncates=True
    ),
    "order of arrival, functions": Kind(
        {"sequence_by": None, "merge_columns": {"n": "sum", "b": "max"}, "on_match": "update"},
        in_order_of_arrival(fold_rows(apply_functions)),
    ),
    "sent columns": Kind({"columns_to_update": "sent"}, fold_rows(update_sent), f"a, b, n, {ALL_SENT}"),
    "sent columns, truncated": Kind(
        {"columns_to_update": "sent", "truncate_when": "op = 't'"},
        fold_rows(update_sent),
        f"a, b, n, {ALL_SENT}",
        truncates=True,
    ),
    "sent columns, all": Kind(
        {"columns_to_update": "sent", "keep": "all"}, fold_rows(update_sent), f"a, b, n, {ALL_SENT}"
    ),
    "sent columns, functions": Kind(
        {"columns_to_update": "sent", "merge_columns": {"n": "sum"}}, fold_rows(add_sent), f"a, b, n, {ALL_SENT}"
    ),
    "flows": Kind(_FLOWS, fold_flows(is_partial=False), f"a, b, {FLOWS_SQL}"),
    "flows of sent columns": Kind(
        {**_FLOWS, "columns_to_update": "sent"}, fold_flows(is_partial=True), f"a, b, {FLOWS_SQL}, {SENT_IN_FLOWS}"
    ),
}
