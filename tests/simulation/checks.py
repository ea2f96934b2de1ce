"""What must hold at any moment, after recovery, and at the end; each violation is a line of text.

The rows that a table must have follow from the source alone: the position that its version names says up to where it
has the source's transactions, and these are folded in Python. The rows of models are computed by Python functions here,
not by their SQL.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timezone
from itertools import product

from arctic_runtime.catalog.observation.table_facts import observe_lineage
from arctic_runtime.model.names import TableName
from arctic_runtime.model.run_summary import RunSummary
from arctic_runtime.plan.freshness import FreshnessPlan
from tests.simulation import edits
from tests.simulation.dead_letters import Letter
from tests.simulation.lake import Catalog, Metadata, Pointers, Snapshot
from tests.simulation.rows import Rows, Unreadable, read_as_readers
from tests.simulation.runtime import Reader
from tests.simulation.source import CUSTOMERS, FORGOTTEN_AMOUNT, FORGOTTEN_KEY, ORDERS, EventId, Position, SourceEvent
from tests.simulation.spark import EVENTS
from tests.simulation.world import INGESTED, ODS_CUSTOMERS, ODS_ORDERS, OPEN, PAID, READS, REGIONS, TALLY, World

SOURCE_TABLES = {table: name for name, table in INGESTED.items()}
SCHEMAS = frozenset(table.schema for table in (*INGESTED.values(), *READS))
SERVICE = ("ods", "arctic__service")


def join_paid(tables: Mapping[TableName, Rows]) -> Rows:
    customers = tables[ODS_CUSTOMERS]
    rows = (
        (key, customers[(customer,)][1], amount)
        for key, customer, amount, status in tables[ODS_ORDERS].values()
        if status == "paid" and (customer,) in customers
    )
    return {row[:1]: row for row in rows}


def group_regions(tables: Mapping[TableName, Rows]) -> Rows:
    regions: dict[str, tuple[int, int]] = {}
    for _, region, amount in tables[PAID].values():
        count, total = regions.get(region, (0, 0))
        regions[region] = (count + 1, total + amount)
    return {(region,): (region, *sums) for region, sums in regions.items()}


def group_customers(tables: Mapping[TableName, Rows]) -> Rows:
    customers: dict[int, tuple[int, int | None]] = {}
    for key, customer, _, _ in tables[ODS_ORDERS].values():
        count, total = customers.get(customer, (0, None))
        paid = tables[PAID].get((key,))
        customers[customer] = (count + 1, total if paid is None else (total or 0) + paid[2])
    return {(customer,): (customer, *sums) for customer, sums in customers.items()}


def tally_customers(tables: Mapping[TableName, Rows]) -> Rows:
    """The sums that follow from the rows; a customer who has no order any more is left out."""
    customers: dict[int, tuple[int, int]] = {}
    for _, customer, amount, _ in tables[ODS_ORDERS].values():
        count, total = customers.get(customer, (0, 0))
        customers[customer] = (count + 1, total + amount)
    return {(customer,): (customer, *sums) for customer, sums in customers.items()}


RESULTS: Mapping[TableName, Callable[[Mapping[TableName, Rows]], Rows]] = {
    PAID: join_paid,
    REGIONS: group_regions,
    OPEN: group_customers,
    TALLY: tally_customers,
}


Places = tuple[tuple[str, int], ...]
"""For names of tables with edited queries, the place of the query."""

EDITED: Mapping[TableName, tuple[str, ...]] = {PAID: ("paid",), REGIONS: ("paid", "regions"), OPEN: ("paid",)}
"""The names of the tables whose edited queries the rows of a table follow from."""


def compute_rows(table: TableName, tables: Mapping[TableName, Rows], places: Mapping[str, int]) -> Rows:
    """Computes the rows of a model from those that it reads, by its query at `places`."""
    place = places.get(table.name, 0)
    return edits.QUERIES[table.name][place].compute_rows(RESULTS[table], tables) if place else RESULTS[table](tables)


Variant = tuple[tuple[EventId, ...], tuple[EventId, ...]]


@dataclass(frozen=True)
class Truth:
    """The rows that a version of a table must have, and the last transaction of each source table that is in them."""

    rows: Rows
    positions: Mapping[str, frozenset[Position]]
    is_followed: bool = True
    """Whether only incremental runs made it; a query that is computed in full reads newer rows than its pass."""


@dataclass
class Checks:
    """Looks at a world; `problems` are the violations so far."""

    world: World
    problems: list[str] = field(default_factory=list)
    false_claims: int = 0
    looks: int = 0
    _truths: dict[tuple[str, int], Truth] = field(default_factory=dict)
    _states: dict[tuple[TableName, Position, Position, bool, Places], Rows] = field(default_factory=dict)
    _events: dict[tuple[str, int], set[EventId]] = field(default_factory=dict)
    _variants: dict[str, set[Variant]] = field(default_factory=lambda: {name: {((), ())} for name in INGESTED})
    """The events that versions of a table have skipped, or have early, besides those up to their positions."""

    def __post_init__(self) -> None:
        self.reader = Reader(self.world.profile, self.world.lake, lambda _: None)
        self.world.on_forgotten = self.check_forgotten
        self.all = (*INGESTED.values(), *self.world.reads)

    def report(self, text: str) -> None:
        self.world.note(f"VIOLATION: {text}")
        self.problems.append(text)

    # At any moment

    def look(self) -> None:
        """A reader reads all tables at once, and the freshness that is claimed for them."""
        self.looks += 1
        lake = self.world.lake
        pointers = dict(lake.pointers)
        shown: dict[TableName, Truth] = {}
        for table in self.all:
            truth = self._check_table(lake, pointers, table)
            if truth is not None:
                shown[table] = truth
        if self.world.builds == "at once":
            self._check_together(shown)
        if self.world.is_forgotten:
            self._check_heads(pointers)
        if self.world.has_flaws:
            self.check_letters()
        self._check_claims(shown)

    def _check_heads(self, pointers: Pointers) -> None:
        """No newest version of a table has a file with a forgotten value."""
        for pointer in pointers.values():
            if isinstance(pointer.what, Metadata) and pointer.what.name[0] in SCHEMAS:
                head = pointer.what.find(pointer.what.current_snapshot_id)
                for path in head.files if head is not None else ():
                    self._check_forgotten_file(path)

    def _check_together(self, shown: Mapping[TableName, Truth]) -> None:
        """All models that builds publish at once show one state of the sources, and either all or none are there."""
        models = {table: shown[table] for table in self.world.reads if table in shown}
        if models and len(models) < len(self.world.reads):
            missing = ", ".join(str(table) for table in self.world.reads if table not in models)
            self.report(f"a reader sees a part of a build: {missing} is missing")
        positions: dict[str, set[Position]] = {}
        for truth in models.values():
            for name, numbers in truth.positions.items():
                positions.setdefault(name, set()).update(numbers)
        if all(len(numbers) == 1 for numbers in positions.values()) or self._is_one_state(models):
            return
        seen = "; ".join(f"{table} at {describe(truth)}" for table, truth in models.items())
        self.report(f"a reader sees models of several builds: {seen}")

    def _is_one_state(self, models: Mapping[TableName, Truth]) -> bool:
        """Whether all of these models have the rows that follow from one transaction of each source table."""
        choices = {name: self._list_positions(name, 0) for name in INGESTED}
        return any(
            all(self._compute_state(table, orders, customers) == truth.rows for table, truth in models.items())
            for orders in reversed(choices[ORDERS])
            for customers in reversed(choices[CUSTOMERS])
        )

    def _check_table(self, lake: Catalog, pointers: Pointers, table: TableName) -> Truth | None:
        try:
            seen = read_as_readers(lake, pointers, table.schema, table.name)
        except Unreadable as error:
            # A forgetting expires at once what a slow process may set the view back to, until it looks again.
            if not (self.world.begun_forgetting and self._is_set_back(table)):
                self.report(f"a reader could not read {error}")
            return None
        if seen is None:
            return None
        rows, sequence = drop_empty_sums(table, seen[0]), seen[1]
        changes = pointers[table.schema, table.changes.name].what
        assert isinstance(changes, Metadata)
        truth = self.find_truth(table, changes.table_uuid, sequence)
        if rows != truth.rows:
            self.report(
                f"{table} shows other rows than the source had at {describe(truth)}: {difference(rows, truth.rows)}"
            )
        is_mixed = any(len(numbers) > 1 for numbers in truth.positions.values())
        if is_mixed and truth.is_followed and not self._is_state(table, rows, {}):
            self.report(f"{table} mixes versions of its sources: {describe(truth)}")
        return truth

    def _is_state(self, table: TableName, rows: Rows, least: Mapping[str, int]) -> bool:
        """Whether a table with these rows shows each source table after one transaction, at least those of `least`.

        A version of a model may be right for several: a run that changes no row makes no version that others read.
        """
        choices = {name: self._list_positions(name, least.get(name, 0)) for name in INGESTED}
        return any(
            self._compute_state(table, orders, customers, erased, places) == rows
            for erased in ((False, True) if self.world.forgets else (False,))
            for places in self._list_places(table)
            for orders in reversed(choices[ORDERS])
            for customers in reversed(choices[CUSTOMERS])
        )

    def _list_places(self, table: TableName) -> Iterator[Places]:
        """Yields the queries that a table's rows may follow from: a run that changes no row makes no version."""
        names = EDITED.get(table, ()) if self.world.has_edits else ()
        for chosen in product(*(range(len(edits.QUERIES[name])) for name in names)):
            yield tuple(zip(names, chosen, strict=True))

    def _list_positions(self, name: str, least: int) -> list[Position]:
        """Lists the states that a table may show after at least so many transactions."""
        source = self.world.source
        positions = {
            Position(number, tuple(one for one in skipped if one[0] <= number), early)
            for skipped, early in self._variants[name]
            for number in range(least, source.last + 1)
        }
        return sorted({source.find_same(name, position) for position in positions})

    def _compute_state(
        self, table: TableName, orders: Position, customers: Position, erased: bool = False, places: Places = ()
    ) -> Rows:
        """Computes a table after a transaction of each source table; without the forgotten order if it is `erased`."""
        known = self._states.get((table, orders, customers, erased, places))
        if known is None:
            source = self.world.source
            if table in SOURCE_TABLES:
                name = SOURCE_TABLES[table]
                known = source.rows_at(name, {ORDERS: orders, CUSTOMERS: customers}[name])
                known = drop_forgotten(known) if erased and name == ORDERS else known
            else:
                read = {
                    upstream: self._compute_state(upstream, orders, customers, erased, places)
                    for upstream in READS[table]
                }
                known = compute_rows(table, read, dict(places))
            self._states[table, orders, customers, erased, places] = known
        return known

    def find_truth(self, table: TableName, uuid: str, sequence: int) -> Truth:
        """The rows that a table must have at a version of its change table."""
        known = self._truths.get((uuid, sequence))
        if known is None:
            known = self._truths[uuid, sequence] = self._compute_truth(table, uuid, sequence)
        return known

    def _compute_truth(self, table: TableName, uuid: str, sequence: int) -> Truth:
        run = self._find_run(uuid, sequence)
        if table in SOURCE_TABLES:
            name = SOURCE_TABLES[table]
            position = self._find_position(name, uuid, sequence, int(run.position or 0) if run else 0)
            rows = self.world.source.rows_at(name, position)
            if self._is_erased(table, uuid, sequence):
                rows = drop_forgotten(rows)
            return Truth(rows, {name: frozenset([self.world.source.find_same(name, position)])})
        if run is None or run.offsets is None:
            return Truth({}, {})
        truths = {
            upstream: self.find_truth(upstream, run.offsets[str(upstream)].table, run.offsets[str(upstream)].sequence)
            for upstream in READS[table]
        }
        positions: dict[str, frozenset[Position]] = {}
        for truth in truths.values():
            for name, numbers in truth.positions.items():
                positions[name] = positions.get(name, frozenset()) | numbers
        rows = compute_rows(
            table, {upstream: truth.rows for upstream, truth in truths.items()}, self._find_places(table, run)
        )
        is_followed = run.mode == "incremental" and all(truth.is_followed for truth in truths.values())
        return Truth(rows, positions, is_followed)

    def _find_places(self, table: TableName, run: RunSummary) -> Mapping[str, int]:
        """The query that a run of a table computed."""
        if not self.world.has_edits or table.name not in edits.QUERIES:
            return {}
        model = next(model for model in self.world.models if model.table == table)
        return {table.name: edits.find_place(model, run.query)}

    def _find_position(self, name: str, uuid: str, sequence: int, number: int) -> Position:
        """The events that a version of an ingested table has; each other one is among its dead letters."""
        if not self.world.has_flaws:
            return Position(number)
        events, has = self.world.source.list_events(name), self._list_events(uuid, sequence)
        made = self.world.lake.made[uuid, sequence].snapshot_id
        kept = next((rows for at, rows in reversed(self.world.lake.letters) if at < made), ())
        self._check_lost(name, number, has, kept)
        self._check_repeated(name, uuid, sequence)
        skipped = tuple(event.id for event in events if event.position <= number and event.id not in has)
        early = tuple(
            event.id
            for event in events
            if event.position > number and event.id in has and not self._is_overwritten(event, events, uuid, sequence)
        )
        later = tuple(event.id for event in events if event.flaw and event.position > number and event.id not in has)
        self._variants[name].add(((*skipped, *later), early))
        return Position(number, skipped, early)

    def _is_overwritten(self, early: SourceEvent, all_events: Sequence[SourceEvent], uuid: str, sequence: int) -> bool:
        """Whether a batch that was read again has changed a row after a replay did; the event comes again after it."""
        keys = {event.id: event.key for event in all_events}
        for one in self._walk(uuid, sequence):
            events = set(read_events(one))
            if early.id in events:
                return False
            if early.key in map(keys.__getitem__, events):
                return True
        return False

    def _check_lost(self, name: str, number: int, has: Collection[EventId], kept: Iterable[Letter]) -> None:
        """Each event up to a position is in the table or a dead letter, or newer ones have replaced its row."""
        letters = {letter.payload.id for letter in kept if letter.table == name}
        newest: dict[int, EventId] = {}
        for event in self.world.source.list_events(name):
            if event.id in has:
                newest[event.key] = event.id
        for event in self.world.source.list_events(name):
            is_superseded = newest.get(event.key, (0, 0)) > event.id
            if event.position <= number and event.id not in has and event.id not in letters and not is_superseded:
                self.report(f"{name} has lost event {event.id} of transaction {event.position}: it is no dead letter")

    def _check_repeated(self, name: str, uuid: str, sequence: int) -> None:
        """No event is in two commits of batches, or in two of replays."""
        seen: Counter[tuple[bool, EventId]] = Counter()
        for one in self._walk(uuid, sequence):
            is_replay = RunSummary.decode(one.summary.additional_properties).reason == "REPLAYED"
            seen.update((is_replay, event) for event in read_events(one))
        for (is_replay, event), count in seen.items():
            if count > 1:
                self.report(f"{name} has event {event} from {count} {'replays' if is_replay else 'batches'}")

    def check_letters(self) -> None:
        """No event is twice among the dead letters, and none that was acknowledged is lost."""
        letters = self.world.list_letters()
        counts = Counter((letter.table, letter.payload.id) for letter in letters)
        for (name, event), count in counts.items():
            if count > 1:
                self.report(f"event {event} of {name} is {count} times among the dead letters")
        for name, table in INGESTED.items():
            if self.world.lake.find_table((table.schema, table.changes.name)) is not None:
                self._check_lost(name, self.world.source.acknowledged, self._find_events(name), letters)

    def check_letters_at_end(self) -> None:
        """Each event is in its table or among the dead letters, but not in both."""
        for letter in self.world.list_letters():
            self.world.counts["dead letters stuck"] += 1
            if letter.payload.id in self._find_events(letter.table):
                self.report(f"event {letter.payload.id} of {letter.table} was applied, and is a dead letter")

    def _find_events(self, name: str) -> set[EventId]:
        """The events that an ingested table has."""
        table = INGESTED[name]
        changes = self.world.lake.find_table((table.schema, table.changes.name))
        head = changes.find(changes.current_snapshot_id) if changes is not None else None
        if changes is None or head is None:
            return set()
        return self._list_events(changes.table_uuid, head.sequence_number)

    def _list_events(self, uuid: str, sequence: int) -> set[EventId]:
        """The events that a version of an ingested table has."""
        known = self._events.get((uuid, sequence))
        if known is None:
            known = {event for one in self._walk(uuid, sequence) for event in read_events(one)}
            self._events[uuid, sequence] = known
        return known

    def _is_erased(self, table: TableName, uuid: str, sequence: int) -> bool:
        """Whether the order that is forgotten was deleted from a version of its table by the forgetting."""
        return table == ODS_ORDERS and any(
            RunSummary.decode(one.summary.additional_properties).reason == "FORGOTTEN"
            for one in self._walk(uuid, sequence)
        )

    def _walk(self, uuid: str, sequence: int) -> Iterator[Snapshot]:
        """Yields a version of a change table, and all before it."""
        at: Snapshot | None = self.world.lake.made[uuid, sequence]
        by_id = {one.snapshot_id: one for (own, _), one in self.world.lake.made.items() if own == uuid}
        while at is not None:
            yield at
            at = by_id.get(at.parent_snapshot_id or -1)

    def check_forgotten(self) -> None:
        """No snapshot has a file with a forgotten value, and so no reader and no reader of changes sees one."""
        for pointer in self.world.lake.pointers.values():
            if isinstance(pointer.what, Metadata) and pointer.what.name[0] in SCHEMAS:
                for one in pointer.what.snapshots:
                    for path in one.files:
                        self._check_forgotten_file(path)

    def check_forgotten_files(self) -> None:
        """No file at all has a forgotten value."""
        for path in sorted(self.world.lake.files):
            if path.split(".")[0] in SCHEMAS:
                self._check_forgotten_file(path)

    def _check_forgotten_file(self, path: str) -> None:
        file = self.world.lake.files.get(path)
        for row in file.rows if file is not None else ():
            if any(map(is_forgotten, [row, *row])):
                self.report(f"{path} holds a forgotten value: {row}")
                return

    def _find_run(self, uuid: str, sequence: int) -> RunSummary | None:
        """The run that a version of a change table follows from: the newest on the way to it."""
        runs = (RunSummary.decode(one.summary.additional_properties) for one in self._walk(uuid, sequence))
        return next((run for run in runs if run.run is not None), None)

    def _check_claims(self, shown: Mapping[TableName, Truth]) -> None:
        now = datetime.fromtimestamp(self.world.kernel.now, timezone.utc)
        facts = observe_lineage(self.reader, self.all, self.world.models)
        plan = FreshnessPlan(facts, now, self.reader.thresholds.ingest.confirmed_seconds)
        for table in self.all:
            if str(table) in facts and table in shown:
                self._check_claim(table, plan.get_freshness(str(table)).as_of, shown[table], "the catalog")
        for service in self.world.live.values():
            for overview in service.live.list_tables():
                is_seen = overview.table in shown and not self._is_set_back(overview.table)
                if overview.freshness is not None and is_seen:
                    self._check_claim(overview.table, overview.freshness.as_of, shown[overview.table], "a service")

    def _is_set_back(self, table: TableName) -> bool:
        """Whether a slow process has set a view back, which catalogs allow; services see it at their next look."""
        heads = self.world.lake.heads_of_views.get((table.schema, table.name), [0])
        if max(heads) == heads[-1]:
            return False
        self.world.counts["looks at a view that was set back"] += 1
        return True

    def _check_claim(self, table: TableName, as_of: datetime | None, truth: Truth, by: str) -> None:
        if as_of is None:
            return
        # Times are stored as milliseconds, and several transactions may have the same.
        until = as_of.timestamp() - 0.002 - self.world.clock_error
        source = self.world.source
        lacking = {
            name: found
            for name, numbers in truth.positions.items()
            for number in numbers
            if (found := source.find_lacking(name, number, until)) is not None
        }
        least = {name: source.count_before(until) for name in truth.positions}
        if lacking and not self._is_state(table, truth.rows, least):
            self.false_claims += 1
            name, one = next(iter(lacking.items()))
            self.report(
                f"{by} claims {table} as of {as_of.timestamp() - self.world.begin:.1f} s, but it lacks "
                f"transaction {one.number} of {one.at - self.world.begin:.1f} s in {name}"
            )

    # After recovery

    def check_acknowledged(self) -> None:
        """Each ingested table has in its change table whatever was acknowledged to the source."""
        for name, table in INGESTED.items():
            changes = self.world.lake.find_table((table.schema, table.changes.name))
            head = changes.find(changes.current_snapshot_id) if changes else None
            run = self._find_run(changes.table_uuid, head.sequence_number) if changes and head else None
            number = int(run.position or 0) if run else 0
            until = self.world.source.acknowledged
            for one in self.world.source.transactions[number:until]:
                if any(change.table == name and not change.flaw for change in one.changes):
                    self.report(f"{table} lacks transaction {one.number}, which was acknowledged")

    def is_converged(self) -> bool:
        """Whether all tables show all transactions."""
        return not list(self._list_late())

    def check_converged(self, until: str) -> None:
        """All tables show all transactions."""
        for text in self._list_late():
            self.report(f"{text} {until}")

    def _list_late(self) -> Iterator[str]:
        """Describes the tables that do not show all transactions."""
        rows = {}
        for name, table in INGESTED.items():
            stuck = sorted({letter.payload.id for letter in self.world.list_letters() if letter.table == name})
            position = Position(
                self.world.source.last, tuple(one for one in stuck if one not in self._find_events(name))
            )
            rows[table] = self.world.source.rows_at(name, position)
        for table in self.world.reads:
            rows[table] = compute_rows(table, rows, self.world.places)
        for table in self.all:
            try:
                seen = read_as_readers(self.world.lake, self.world.lake.pointers, table.schema, table.name)
            except Unreadable as error:
                yield f"a reader could not read {error}"
                continue
            shown = drop_empty_sums(table, seen[0]) if seen else {}
            is_empty = seen is None and not rows[table]
            if not is_empty and shown != rows[table]:
                yield f"{table} is not up to date ({difference(shown, rows[table])})"

    def check_records(self) -> None:
        """No publication is noted as incomplete, as the next build has completed it.

        The file of a record that was not noted any more is an orphan, as every file that no snapshot has.
        """
        keys = [key for own in self.world.lake.namespaces.values() for key in own]
        if keys:
            self.report(f"publications were not completed: {keys}")

    def check_files(self) -> None:
        """No file is left that no snapshot has, none is missing, and the history has each sample once.

        The service deletes files of its own table at once, though older snapshots have them; no sweep looks there.
        """
        service = f"{'.'.join(SERVICE)}/"
        needed = {path for path in self._list_needed_files() if not path.startswith(service)}
        own = self.world.lake.find_table(SERVICE)
        head = own.find(own.current_snapshot_id) if own is not None else None
        for path in head.files if head is not None else ():
            if path not in self.world.lake.files:
                self.report(f"{path} was deleted, and the newest snapshot has it")
                return
        samples = [row[:2] for path in (head.files if head else ()) for row in self.world.lake.files[path].rows]
        if len(samples) != len(set(samples)):
            self.report("the history has a sample of a table twice")
        for path in sorted(needed - self.world.lake.files.keys()):
            self.report(f"{path} was deleted, and a snapshot has it")
        for path in sorted(self.world.lake.files.keys() - needed):
            if not path.startswith(service):
                self.report(f"{path} is left after the sweep, and no snapshot has it")

    def _list_needed_files(self) -> Iterator[str]:
        for pointer in self.world.lake.pointers.values():
            if isinstance(pointer.what, Metadata):
                yield from (path for one in pointer.what.snapshots for path in one.files)


def read_events(snapshot: Snapshot) -> Iterator[EventId]:
    """Yields the ids of the events that a commit to an ingested table has."""
    for text in (snapshot.summary[EVENTS] or "").split():
        number, _, place = text.partition(".")
        yield int(number), int(place)


def drop_empty_sums(table: TableName, rows: Rows) -> Rows:
    """Leaves out the sums over no rows, which a model of change events keeps."""
    return {key: row for key, row in rows.items() if table != TALLY or row[1:] != (0, 0)}


def drop_forgotten(rows: Rows) -> Rows:
    return {key: row for key, row in rows.items() if key != (FORGOTTEN_KEY,)}


def is_forgotten(value: object) -> bool:
    """Whether a row, or a value in one, is one that was to be forgotten, or a sum with it."""
    if isinstance(value, tuple):
        return value[:1] == (FORGOTTEN_KEY,) or any(map(is_forgotten, value))
    return isinstance(value, int) and value >= FORGOTTEN_AMOUNT


def describe(truth: Truth) -> str:
    return ", ".join(f"{name} {'/'.join(map(str, sorted(numbers)))}" for name, numbers in truth.positions.items())


def difference(shown: Rows, wanted: Rows) -> str:
    def list_parts() -> Iterator[str]:
        for key in sorted({*shown, *wanted}, key=repr):
            if shown.get(key) != wanted.get(key):
                yield f"{shown.get(key)} for {wanted.get(key)}"

    return "; ".join(list_parts())
