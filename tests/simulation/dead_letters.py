"""Dead letters over the simulated catalog: the runtime's own order of steps, with rows that Python finds and folds.

When events are kept, counted, limited and removed, the lease of a replay, its retries, the window of commits of each
dead letter, and the commit of what is applied are the runtime's. What Spark does with rows is modelled: to decode
events, to find the change rows of a dead letter's key, and to relate these to it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from datetime import datetime
from functools import partial
from typing import Any, NamedTuple

from arctic_runtime.effects import perform_effect
from arctic_runtime.ingest.dead_letters.outcome import (
    APPLIED,
    APPLY,
    REASONS,
    SUPERSEDED,
    UNORDERED,
    CommitKind,
    CommitWindow,
    find_commit_window,
    list_commit_kinds,
)
from arctic_runtime.ingest.dead_letters.replay import Replayed, TableReplay, replay_dead_letters
from arctic_runtime.ingest.dead_letters.table import DeadLetterTable, encode_version
from arctic_runtime.ingest.source import IngestSource
from arctic_runtime.ingest.writing.keyed import KeyedChanges, KeyedTable
from arctic_runtime.ingest.writing.records import CommitNote, read_position
from arctic_runtime.model.columns import Column
from arctic_runtime.model.names import TableName
from arctic_runtime.model.properties import POSITION
from arctic_runtime.spark.engine.java.java_errors import SPARK
from tests.simulation import spark as modelled
from tests.simulation.lake import Catalog, File, Name, Refused, Row
from tests.simulation.rows import diff_rows, fold_until, mark_rows
from tests.simulation.runtime import Pool, Reader, Replacement
from tests.simulation.source import SCHEMAS, SourceEvent, Unfit, fold_events, is_fit

UNFIT = "a value does not fit its column"


class Letter(NamedTuple):
    """A row of the dead letter table; the payload is the event itself."""

    table: str
    reason: str
    payload: SourceEvent
    origin: str
    at: datetime
    number: int
    position: str
    arrival: int
    since: str


def run_replay(reader: Reader, source: IngestSource, form: Any) -> list[Replayed]:
    """Applies the dead letters of a source, as `arctic ingest --replay-dead` does."""
    return list(replay_dead_letters(source, form, reader, Pool(reader.lake).take_session))  # type: ignore[arg-type]


# The dead letter table


def add_once(table: Any, letters: Unfit, source_table: str, position: str, now: datetime) -> None:
    snapshot, stored = read_letters(table)
    first = max((letter.number for letter in stored), default=0) + 1
    since = encode_version(letters.version_before)
    rows = [
        Letter(source_table, UNFIT, event, str(event.id), now, first + arrival, position, arrival, since)
        for arrival, event in letters.events
    ]
    ids = {_identify(row) for row in rows}
    if any(_identify(letter) in ids for letter in stored):
        _overwrite(table, [*(letter for letter in stored if _identify(letter) not in ids), *rows], snapshot)
    else:
        _append(table, rows, snapshot, first, position)


def read_letters(table: Any) -> tuple[int, list[Letter]]:
    lake: Catalog = table._reader.lake
    loaded = table._load_table().metadata
    head = loaded.find(loaded.current_snapshot_id)
    return head.snapshot_id, [row for file in lake.read_files(head.files) for row in file.rows]


def replace_letters(table: Any, source_table: str, rows: Sequence[Letter], snapshot: int) -> None:
    lake: Catalog = table._reader.lake
    found = lake.get_table(_name(table.table)).find(snapshot)
    if found is None:
        raise modelled.SparkRefused("org.apache.iceberg.exceptions.ValidationException", "Cannot find snapshot")
    stored = [row for file in lake.read_files(found.files) for row in file.rows]
    _overwrite(table, [*(letter for letter in stored if letter.table != source_table), *rows], snapshot)


def list_reasons(table: Any, most: int) -> list[str]:
    counts = Counter(f"{letter.table}: {letter.reason}" for letter in read_letters(table)[1])
    return [f"{reason} ({count:,})" for reason, count in counts.most_common(most)]


def _append(table: Any, rows: Sequence[Letter], snapshot: int, first: int, position: str) -> None:
    def is_other(file: File) -> bool:
        return any(letter.number >= first for letter in file.rows)

    write = partial(_commit, table, rows, snapshot, is_other, {POSITION: position}, replaces=False)
    perform_effect("ingest.append_dead_letters", write, f"append dead letters to {table.table}", SPARK)


def _overwrite(table: Any, rows: Sequence[Letter], snapshot: int) -> None:
    write = partial(_commit, table, rows, snapshot, lambda _: True, {}, replaces=True)
    perform_effect("ingest.rewrite_dead_letters", write, f"rewrite {table.table}", SPARK)


def _commit(
    table: Any,
    rows: Sequence[Letter],
    snapshot: int,
    is_other: Callable[[File], bool],
    summary: dict[str, str],
    replaces: bool,
) -> None:
    """Commits rows; refuses it if a file came since `snapshot` for which `is_other`, or one that is replaced went."""
    lake, name = table._reader.lake, _name(table.table)
    with modelled.as_spark_error():
        own = lake.get_table(name)
        known = next((one for one in own.walk(own.current_snapshot_id) if one.snapshot_id == snapshot), None)
        if known is None:
            raise Refused("org.apache.iceberg.exceptions.ValidationException", "Cannot determine history")
        head = own.find(own.current_snapshot_id)
        came = [path for path in head.files if path not in known.files]
        went = [path for path in known.files if path not in head.files]
        if any(map(is_other, lake.read_files(came))) or (replaces and went):
            raise Refused("org.apache.iceberg.exceptions.ValidationException", "Found conflicting files")
        added = (lake.write_file(name, rows),) if rows else ()
        gone = frozenset(head.files if replaces else ())
        lake.commit(name, "main", "overwrite" if replaces else "append", added, summary, gone)
        head = lake.get_table(name)
        head = head.find(head.current_snapshot_id)
        lake.letters.append((head.snapshot_id, tuple(row for file in lake.read_files(head.files) for row in file.rows)))


def _identify(letter: Letter) -> tuple[Any, ...]:
    return (letter.table, letter.payload, letter.origin)


# Replays


def replay_once(replay: Any) -> Replayed:
    target, dead_letters = replay._target, replay._dead_letters
    done = Replayed(target.table.name)
    snapshot, stored = dead_letters.read_dead_letters()
    own = [letter for letter in stored if letter.table == target.table.source_name]
    if not own:
        return done
    storage = replay._open_storage(SCHEMAS[target.table.source_name])
    fit = sorted((letter for letter in own if is_fit(letter.payload)), key=lambda letter: letter.number)
    outcomes = _apply(storage, fit, done) if fit else {}
    done.applied = sum(outcome in (APPLY, APPLIED) for outcome in outcomes.values())
    done.superseded = sum(outcome == SUPERSEDED for outcome in outcomes.values())
    rest = [
        letter if letter not in outcomes else letter._replace(reason=REASONS[outcomes[letter]])
        for letter in own
        if outcomes.get(letter) in (None, *REASONS)
    ]
    done.dead = len(rest)
    dead_letters.replace_dead_letters(target.table.source_name, rest, snapshot)
    return done


def _apply(storage: KeyedTable, letters: Sequence[Letter], done: Replayed) -> dict[Letter, str]:
    """Commits the dead letters that no newer change has replaced; returns the outcome of each."""
    session = storage.session
    state = session.reconcile_until_done(session.observe_state())
    source_table = letters[0].table
    columns = tuple(Column(column.name, column.type) for column in SCHEMAS[source_table].columns)
    context, shape = storage.prepare_commit(state, columns)
    outcomes = {letter: _classify(context, letter) for letter in letters}
    applied = [letter for letter in letters if outcomes[letter] == APPLY]
    if applied:
        lake, changes = context.spark.lake, context.state.changes
        old = fold_until(lake, lake.get_table(_name(session.model.table.changes)), changes.head.sequence)
        events = [letter.payload for letter in applied]
        arrivals: dict[Row, int] = {(letter.payload.key,): letter.number for letter in applied}
        folded = mark_rows(diff_rows(old, fold_events(old, events), arrivals), arrivals, (event.id for event in events))
        note = CommitNote(read_position(state), "REPLAYED")
        counts, _ = storage.publish_changes(context, KeyedChanges(folded, shape), note)  # type: ignore[arg-type]
        done.rows.update({action: count for action, count in counts.items() if count})
    return outcomes


def _classify(context: Any, letter: Letter) -> str:
    changes = context.state.changes
    if changes is None or changes.newest is None:
        return APPLY
    lake: Catalog = context.spark.lake
    window, kinds = find_commit_window(changes, letter.since, letter.position), list_commit_kinds(changes)
    table = lake.get_table(_name(context.model.table.changes))
    head = table.find(changes.newest.snapshot)
    assert head is not None
    relations = [
        _relate(sequence, kinds.get(sequence), getattr(row, "arrival", None), letter, window)
        for sequence, _, row in lake.list_rows(head)
        if sequence > window.after and (row[1] or row[2])[:1] == (letter.payload.key,)
    ]
    if "same" in relations:
        return APPLIED
    if "later" in relations:
        return SUPERSEDED
    return UNORDERED if not window.is_known or "unknown" in relations else APPLY


def _relate(sequence: int, kind: CommitKind | None, arrival: int | None, letter: Letter, window: CommitWindow) -> str:
    """Relates a change row to a dead letter, as the expression of the runtime does."""
    end = window.end
    if kind == "snapshot":
        return "older"
    if kind == "replay":
        return _compare(arrival, letter.number, "unknown")
    if kind == "events" and end is not None and (sequence > end or (sequence == end and not window.is_own)):
        return "later"
    if kind == "events" and end is not None and window.is_own and sequence <= end:
        # The rows of a batch without dead letters have no numbers: it was read again, and the event could be applied.
        return _compare(arrival, letter.arrival, "same")
    return "unknown"


def _compare(arrival: int | None, own: int, unknown: str) -> str:
    if arrival is None:
        return unknown
    return "same" if arrival == own else "later" if arrival > own else "older"


def _name(table: TableName) -> Name:
    return (table.schema, table.name)


REPLACEMENTS: tuple[Replacement, ...] = (
    (DeadLetterTable, "_add_once", add_once),
    (DeadLetterTable, "read_dead_letters", read_letters),
    (DeadLetterTable, "replace_dead_letters", replace_letters),
    (DeadLetterTable, "list_reasons", list_reasons),
    (TableReplay, "_replay_once", replay_once),
)
"""The parts of dead letters that are modelled."""
