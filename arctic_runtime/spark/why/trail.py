"""Follows the changes of one row through the runs that wrote them to the changes of upstreams that made them."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any

from pyspark.sql import Row, SparkSession

from arctic_runtime.catalog.observation.tables import observe_source
from arctic_runtime.catalog.reader import CatalogReader
from arctic_runtime.errors import ConfigError
from arctic_runtime.ivm.algebra.refusal import NotMaintained
from arctic_runtime.ivm.algebra.tree import list_columns, list_scans
from arctic_runtime.ivm.frontend.analyse import Analysed
from arctic_runtime.ivm.frontend.reads import find_reads
from arctic_runtime.ivm.provenance.causes import Causes, Limits, find_causes, find_contributors
from arctic_runtime.ivm.provenance.source_rows import TooManyRows, list_fields
from arctic_runtime.model.names import TableName, format_changes_view, list_changes_read
from arctic_runtime.model.row_trail import RowChange, RowTrail, Transaction, UpstreamChanges
from arctic_runtime.model.run_summary import SCHEMA_ONLY, RunSummary, is_run
from arctic_runtime.model.sources.ingestion import time_of
from arctic_runtime.model.state import Commit
from arctic_runtime.model.table import Model
from arctic_runtime.model.version import Version, Window
from arctic_runtime.plan.refresh.fingerprint import is_same_query
from arctic_runtime.plan.refresh.increment import Upstreams, analyse_events, analyse_model
from arctic_runtime.refresh_planner import RefreshPlanner
from arctic_runtime.spark.refresh.query_analysis import pin_time
from arctic_runtime.spark.why.engine import ReadableSource, SparkEngine
from arctic_runtime.spark.why.upstream_rows import ChangeRow, Key, TraceableTable

_ENDS = {
    "RESTORED": "a restore wrote it, not a run of the query",
    "RESTATED": "a restatement computed it anew, as of the versions that the run before it had read",
    "OVERWRITTEN": "an overwrite wrote it, not a run of the query",
    "ADOPTED": "it was adopted with the table",
    "FORGOTTEN": "its row was computed again after other rows were forgotten",
}

_EARLIER_EVENTS = "values that these events do not give are those of earlier events of the key"


@dataclass
class RowSearch:
    """Follows rows of a project's tables; `depth` is the number of layers of upstreams, None for all.

    `say` is called with a line for people before each change is followed, and may raise an error to end the search.
    `clock` returns seconds.
    """

    reader: CatalogReader
    spark: SparkSession
    models: Mapping[TableName, Model]
    depth: int | None = None
    say: Callable[[str], None] = lambda _: None
    clock: Callable[[], float] = time.monotonic
    _tables: dict[TableName, TraceableTable | None] = field(default_factory=dict)
    _upstreams: dict[TableName, Upstreams] = field(default_factory=dict)
    _known: dict[tuple[TableName, str, int], RowChange] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._until = self.clock() + self.reader.thresholds.why.seconds

    def trace_row(self, model: Model, values: Sequence[str], version: str | None = None) -> RowTrail:
        """Follows the changes of the row with the primary key `values`, as texts in the key's order.

        In a table with history, the key without its times means all versions of the row. `version`, a snapshot id,
        selects the changes of one version of the table. Raises ConfigError for a wrong number of values, and if there
        is no table or no such version.
        """
        table = self._open_table(model.table)
        if table is None or table.state.kind != "changes":
            raise ConfigError(f"{model.table} has not been built yet; run the model first")
        key = table.state.key or ()
        names = key if len(values) == len(key) else model.config.entity_key
        if len(values) != len(names):
            raise ConfigError(
                f"{model.table}: the number of key values is wrong.",
                expected=f"one value for each of {', '.join(key) or 'no column'}",
                actual=f"{len(values)} value(s)",
            )
        rows = table.read_row_changes(values, names)
        if version is not None:
            rows = [row for row in rows if row.change.run is not None and str(row.change.run.version) == version]
            if not rows:
                raise ConfigError(
                    f"{model.table}: version {version} has no change of this row, or has expired.",
                    fix="leave the version out, to see all changes of the row",
                )
        most = self.reader.thresholds.why.versions
        shown = rows[-most:]
        changes = tuple(self._follow_rows(table, row, self.depth) for row in reversed(shown))
        trimmed = table.state.trimmed
        ends = f"change rows up to commit {trimmed} may have been deleted" if trimmed else ""
        return RowTrail(model.table, dict(zip(names, values, strict=True)), changes, len(rows) - len(shown), ends)

    def _open_table(self, name: TableName) -> TraceableTable | None:
        if name not in self._tables:
            state = observe_source(self.reader, name)
            self._tables[name] = None if state is None else TraceableTable(self.spark, state, self.reader)
        return self._tables[name]

    def _follow_rows(self, table: TraceableTable, row: ChangeRow, depth: int | None) -> RowChange:
        """Returns a change with what made it; changes that were followed before are not followed again."""
        name = (table.state.name, repr(row.key), row.sequence)
        if name not in self._known:
            if len(self._known) >= self.reader.thresholds.why.nodes:
                return replace(row.change, ends="the trail has too many changes; ask for this row alone")
            if self.clock() > self._until:
                seconds = self.reader.thresholds.why.seconds
                return replace(row.change, ends=f"not followed after {seconds:g} s; ask for this row and version alone")
            self.say(f"{table.state.name}: version {row.change.run.version if row.change.run else 'expired'}")
            self._known[name] = row.change
            self._known[name] = self._explain_row(table, row, depth)
        return self._known[name]

    def _explain_row(self, table: TraceableTable, row: ChangeRow, depth: int | None) -> RowChange:
        commit, change = table.commits.get(row.sequence), row.change
        model = self.models.get(table.state.name)
        if commit is None:
            return replace(change, ends="the version in which it was written has expired")
        run = RunSummary.decode(commit.summary)
        if run.position is not None or (model is not None and model.ingested_from is not None):
            return replace(change, transaction=_build_transaction(model, run, change))
        if model is None:
            return replace(change, ends=f"no model of this project makes {table.state.name}")
        if depth == 0:
            return replace(change, ends="deeper layers were not asked for")
        if run.reason in _ENDS:
            return replace(change, ends=_ENDS[run.reason])
        step = _RunStep.find(table, model, commit, run)
        if step.ends:
            return replace(change, ends=step.ends)
        return self._explain_run(step, row, None if depth is None else depth - 1)

    def _explain_run(self, step: _RunStep, row: ChangeRow, depth: int | None) -> RowChange:
        model = step.model
        upstreams = self._observe_upstreams(model)
        if not is_same_query(model, upstreams, step.run.query):
            return replace(row.change, ends="the model's query has changed since this run")
        if model.config.input == "changes":
            return self._explain_events(step, row, upstreams, depth)
        try:
            analysed, names = analyse_model(model, upstreams)
        except NotMaintained as refused:
            return replace(row.change, ends=f"the query can't be followed: {refused.reason}: {refused.because}")
        sources = dict.fromkeys(scan.source for scan in list_scans(analysed.tree))
        windows, ends = self._list_windows(step, sources)
        if ends:
            return replace(row.change, ends=ends)
        if upstreams.reads.clocks and step.run.clock is None:
            return replace(row.change, ends="the time with which the run computed the query is not known")
        causes = self._find_causes(step, row, analysed, names, windows)
        fields = {source: list_fields(analysed.tree, source) for source in windows}
        found = tuple(
            self._follow_upstream(source, window, causes, fields[source], depth)
            for source, window in windows.items()
            if any(unit.source == source for unit in (*causes.units, *causes.without_effect))
            or (source in causes.unread and not window.is_empty)
        )
        return self._judge_trail(step, replace(row.change, upstreams=found), analysed, causes)

    def _list_windows(self, step: _RunStep, sources: Iterable[TableName]) -> tuple[Mapping[TableName, Window], str]:
        """Returns the windows of sources that a run read, and why one of them can't be read, empty if all can."""
        windows: dict[TableName, Window] = {}
        for source in sources:
            window = step.find_window(source)
            upstream = self._open_table(source)
            if window is None or upstream is None:
                return {}, f"the run has not recorded which version of {source} it read"
            if why := upstream.find_unreadable(window):
                return {}, why
            windows[source] = window
        return windows, ""

    def _explain_events(self, step: _RunStep, row: ChangeRow, upstreams: Upstreams, depth: int | None) -> RowChange:
        """Returns a change of a table of change events with the events of its key in the window of its run."""
        model = step.model
        windows, ends = self._list_windows(step, list_changes_read(model.sql))
        if ends:
            return replace(row.change, ends=ends)
        try:
            joined = self._list_lookup_tables(model)
            analysed, names, read = analyse_events(model, upstreams, [table.state for table in joined])
            events = {name: self._require_table(own).open_events(windows[own]) for name, own in read.items()}
            rows = {table.state.name: table.open_current_rows() for table in joined}
            engine = self._build_engine(step, {**events, **rows})
            units = find_contributors(engine, analysed.tree, names, self._get_entity(step, row))
        except (NotMaintained, TooManyRows) as refused:
            among = tuple(
                replace(_name_upstream(own, window), among=self._require_table(own).state.count_rows_in(window))
                for own, window in windows.items()
            )
            return replace(row.change, upstreams=among, notes=(f"the events of its key are not known: {refused}",))
        keys = {own: [unit.key for unit in units if unit.source == name] for name, own in read.items()}
        found = tuple(self._follow_events(own, windows[own], part, depth) for own, part in keys.items() if part)
        if not found:
            return replace(row.change, ends="no event of its key is among those that the run read")
        notes = (
            *((_EARLIER_EVENTS,) if _reads_earlier_events(model) else ()),
            *(f"{table.state.name} is joined as it is now" for table in joined),
        )
        return replace(row.change, upstreams=found, is_proven=True, notes=notes)

    def _list_lookup_tables(self, model: Model) -> list[TraceableTable]:
        """Lists the tables that a query of change events reads in addition to the events."""
        home = model.table
        events = {home.with_name(format_changes_view(source)) for source in list_changes_read(model.sql)}
        names = [name for name in find_reads(model.sql, home.catalog, home.schema).tables if name not in events]
        tables = [self._open_table(name) for name in names]
        return [table for table in tables if table is not None]

    def _follow_events(
        self, source: TableName, window: Window, keys: Sequence[Key], depth: int | None
    ) -> UpstreamChanges:
        upstream, named = self._require_table(source), _name_upstream(source, window)
        most = self.reader.thresholds.why.changes
        if upstream.state.kind != "changes":
            events = [upstream.build_event(window, key) for key in keys]
            events.sort(key=lambda event: event.run.sequence if event.run else 0)
            return replace(named, changes=tuple(events[:most]), left_out=max(0, len(events) - most))
        wanted = {repr(key) for key in keys}
        rows = upstream.read_changes(window, list(dict.fromkeys(key[:-1] for key in keys)))
        rows = [row for row in rows if repr((*row.key, row.sequence)) in wanted]
        shown = tuple(self._follow_rows(upstream, row, depth) for row in rows[:most])
        return replace(named, changes=shown, left_out=len(rows) - len(shown))

    def _build_engine(self, step: _RunStep, sources: Mapping[TableName, ReadableSource]) -> SparkEngine:
        schema = step.table.find_key_schema(step.model.config.entity_key)
        return SparkEngine(self.spark, sources, self.reader.thresholds.why, schema)

    def _get_entity(self, step: _RunStep, row: ChangeRow) -> Key:
        """Returns the values of the key that a row of the query has; a table with history adds times to it."""
        key = [part.lower() for part in step.table.state.key or ()]
        return tuple(row.key[key.index(part.lower())] for part in step.model.config.entity_key)

    def _find_causes(
        self,
        step: _RunStep,
        row: ChangeRow,
        analysed: Analysed,
        names: tuple[str, ...],
        windows: Mapping[TableName, Window],
    ) -> Causes:
        limits = self.reader.thresholds.why
        engine = self._build_engine(
            step, {source: self._require_table(source).open_rows(window) for source, window in windows.items()}
        )
        if step.run.clock is not None:
            pin_time(self.spark, step.run.clock.micros, step.previous.clock if step.previous else None)
        key = self._get_entity(step, row)
        return find_causes(engine, analysed.tree, names, key, Limits(limits.units, limits.batch))

    def _require_table(self, name: TableName) -> TraceableTable:
        table = self._open_table(name)
        assert table is not None
        return table

    def _follow_upstream(
        self, source: TableName, window: Window, causes: Causes, fields: Sequence[str], depth: int | None
    ) -> UpstreamChanges:
        upstream, named = self._require_table(source), _name_upstream(source, window)
        units = [unit for unit in causes.units if unit.source == source]
        dropped = sum(1 for unit in causes.without_effect if unit.source == source)
        named = replace(named, without_effect=dropped)
        if source in causes.unread:
            return replace(named, among=upstream.state.count_rows_in(window))
        most = self.reader.thresholds.why.changes
        if upstream.state.kind != "changes":
            shown = tuple(upstream.build_plain_change(window, fields, unit) for unit in units[:most])
            return replace(named, changes=shown, left_out=len(units) - len(shown))
        rows = upstream.read_changes(window, [unit.key for unit in units]) if not window.is_empty else []
        if window.start is None:
            rows = list({repr(row.key): row for row in rows}.values())
        shown = tuple(self._follow_rows(upstream, row, depth) for row in rows[:most])
        return replace(named, changes=shown, left_out=len(rows) - len(shown))

    def _judge_trail(self, step: _RunStep, change: RowChange, analysed: Analysed, causes: Causes) -> RowChange:
        """Adds whether the row that was computed again is the one of the change row."""
        if not causes.is_proven:
            return change
        if not causes.is_changed:
            passed = step.describe_time()
            return replace(change, ends=passed or "computed again, the row does not change in this run")
        if step.model.config.has_history:
            return replace(change, is_proven=True)
        is_same = all(
            _is_same_row(rows, values, analysed)
            for rows, values in ((causes.before, change.before), (causes.after, change.after))
        )
        passed = "" if is_same else step.describe_time()
        return replace(change, is_proven=is_same, notes=(passed,) if passed else ())

    def _observe_upstreams(self, model: Model) -> Upstreams:
        if model.table not in self._upstreams:
            self._upstreams[model.table] = RefreshPlanner(model, self.reader).observe_upstreams()
        return self._upstreams[model.table]


@dataclass(frozen=True)
class _RunStep:
    """A run of a model, and the one before it; `ends` says why what it read is not known, empty if it is."""

    table: TraceableTable
    model: Model
    run: RunSummary
    previous: RunSummary | None
    ends: str = ""

    @classmethod
    def find(cls, table: TraceableTable, model: Model, commit: Commit, run: RunSummary) -> _RunStep:
        commits = table.state.commits
        earlier = [
            RunSummary.decode(other.summary)
            for other in commits
            if is_run(other) and other.version.sequence < commit.version.sequence
        ]
        loads = [other for other in earlier if other.mode != SCHEMA_ONLY]
        previous = loads[-1] if loads else None
        step = cls(table, model, run, previous)
        if run.offsets is None:
            return replace(step, ends="its commit does not record what the run read")
        if previous is None:
            begins = not commits or commits[0].parent is None
            return step if begins or run.mode == "create" else replace(step, ends="the run before it has expired")
        if run.mode == "full" and run.reason in ("QUERY_CHANGED", "FULL_REFRESH"):
            return replace(step, ends=f"the run computed the whole query ({run.reason})")
        if run.reason == "EDITED":
            return replace(step, ends="the run followed an edit of the query (EDITED)")
        if run.reason == "REVERTED":
            return replace(step, ends="the run took back what another query had changed (REVERTED)")
        if run.reason == "PROMOTED":
            return replace(step, ends="the run took over the rows of a clone (PROMOTED)")
        return step

    def describe_time(self) -> str:
        """Describes how far the time moved between the two runs, if the query reads it; else empty."""
        now, then = self.run.clock, self.previous.clock if self.previous else None
        if now is None or then is None or now == then:
            return ""
        return (
            f"the query reads the time, which went from {_format_micros(then.micros)} to {_format_micros(now.micros)}"
        )

    def find_window(self, source: TableName) -> Window | None:
        """Returns the versions of a source between those of the run before and those of the run; None if not known."""
        end = (self.run.offsets or {}).get(str(source))
        start: Version | None = None
        if self.previous is not None:
            start = (self.previous.offsets or {}).get(str(source))
            if start is None:
                return None
        return None if end is None else Window(str(source), start, end)


def _build_transaction(model: Model | None, run: RunSummary, change: RowChange) -> Transaction:
    ingested_from = model.ingested_from if model is not None else None
    at = "" if run.source_time_ms is None else time_of(run.source_time_ms).isoformat()
    return Transaction(ingested_from or str(change.table), change.action, run.position or "", change.at or at)


def _name_upstream(source: TableName, window: Window) -> UpstreamChanges:
    return UpstreamChanges(source, None if window.start is None else window.start.snapshot, window.end.snapshot)


def _reads_earlier_events(model: Model) -> bool:
    """Whether a row follows from several events of its key, not from the newest one alone."""
    config = model.config
    is_partial = config.has_partial_events or bool(config.merge_columns) or bool(config.sequence_groups)
    return is_partial or config.on_match != "replace"


def _format_micros(micros: int) -> str:
    return time_of(micros // 1000).isoformat(" ", "seconds")


def _is_same_row(rows: Sequence[Sequence[Any]], values: Any, analysed: Analysed) -> bool:
    """Whether `rows`, computed by the tree of a query, are the stored row with `values`, or none if that is None."""
    if values is None or not rows:
        return values is None and not rows
    names = list_columns(analysed.tree)
    known = {name.lower(): value for name, value in values.items()}
    made = {output.lower(): rows[0][names.index(column)] for output, column in analysed.outputs}
    return len(rows) == 1 and all(_is_equal(value, known.get(name)) for name, value in made.items() if name in known)


def _is_equal(computed: Any, stored: Any) -> bool:
    """Whether a computed value is the stored one, as a trail shows it; floats may differ in their last digits."""
    match computed, stored:
        case float(), float():
            return repr(computed) == repr(stored) or math.isclose(computed, stored)
        case datetime(), datetime() if computed.tzinfo is None and stored.tzinfo is not None:
            return computed.astimezone(stored.tzinfo) == stored
        case Row(), dict():
            return bool(computed.asDict(recursive=True) == stored)
        case list(), list():
            return len(computed) == len(stored) and all(map(_is_equal, computed, stored))
    return bool(computed == stored)
