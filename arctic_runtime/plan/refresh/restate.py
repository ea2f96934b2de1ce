"""Plans the restatement of a part of a table: which rows are computed anew, and from which versions of the upstreams.

The part is what a predicate over the table's columns selects. It is computed as of the offsets of the last run, so that
all rows of the table stay those of one state of its sources.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from arctic_runtime.errors import ConfigError, PlanError
from arctic_runtime.ivm.algebra.refusal import NotMaintained, refuse_on_error
from arctic_runtime.ivm.algebra.tree import Filter, Node, SpoolScan, list_scans
from arctic_runtime.ivm.algebra.unique import is_unique
from arctic_runtime.ivm.frontend.row_predicate import RowPredicate, cast_column, read_row_predicate
from arctic_runtime.ivm.rewrite.predicate_pushdown import push_down_filters
from arctic_runtime.ivm.rules.restrict import restrict_to_keys
from arctic_runtime.model.columns import Column, find_column, is_same_name, strip_change_columns
from arctic_runtime.model.properties import FORGOTTEN
from arctic_runtime.model.run_summary import RunSummary, find_last_run, get_offsets
from arctic_runtime.model.state import ChangeTableState, SourceState, TableState, require_built
from arctic_runtime.model.table import Model
from arctic_runtime.model.version import Version, Window
from arctic_runtime.plan.refresh.event_rules import list_fold_obstacles
from arctic_runtime.plan.refresh.existing_tables import check_table
from arctic_runtime.plan.refresh.fingerprint import describe_query_change, find_changed_event_rules
from arctic_runtime.plan.refresh.increment import Upstreams, analyse_model
from arctic_runtime.plan.refresh.readable_columns import check_defaults
from arctic_runtime.plan.refresh.request import Request
from arctic_runtime.plan.refresh.window_rows import check_window

MOVED = "__arctic_moved"
"""Name of the spool with the keys of rows that may have left the part, or entered it."""


class EventsGone(PlanError):
    """Raised if rows can't be folded again, since some of the events that made them may be gone."""


@dataclass(frozen=True)
class PinnedTree:
    """The analysed query, which is computed from its sources at the versions of `windows`."""

    tree: Node
    outputs: tuple[tuple[str, str], ...]
    key: tuple[str, ...]
    windows: Mapping[str, Window]

    @property
    def is_keyed(self) -> bool:
        """Whether the keys of the sources prove that no two rows of the query have the same key."""
        return is_unique(self.tree, self.key)

    def select_part(self, predicate: RowPredicate, casts: Mapping[str, str]) -> Node:
        """Builds the tree of the query's rows for which the predicate is true, as close to the sources as possible.

        `casts` has the table's type of each column that has another type in the query.
        """
        made = {name: self._find_column(name) for name in predicate.columns}
        values = {name: cast_column(column, casts.get(name)) for name, column in made.items()}
        return push_down_filters(Filter(self.tree, predicate.bind_columns(values)))

    def select_moved(self) -> Node:
        """Builds the tree of the query's rows whose keys are in the spool `MOVED`."""
        key = tuple(dict.fromkeys(self.key))
        return restrict_to_keys(push_down_filters(self.tree), key, SpoolScan(MOVED, key))

    def _find_column(self, name: str) -> str:
        return next(made for output, made in self.outputs if is_same_name(output, name))


@dataclass(frozen=True)
class Restatement:
    """The plan to restate the rows of a table for which a predicate is true."""

    predicate: RowPredicate
    last: RunSummary
    """The record of the last run, whose offsets stay those of the table."""

    columns: tuple[Column, ...]
    """The table's columns."""

    pinned: PinnedTree | None
    """The query over the versions that the last run read; None if they can't be read one by one."""

    because: str
    """Why `pinned` is None, for users; else empty."""

    newer: tuple[str, ...]
    """Upstreams whose present version is another one than that which the last run read."""

    events: Mapping[str, Version] = field(default_factory=dict)
    """For a model of change events, the version of each upstream up to which the last run has read its events."""

    @property
    def reads_present(self) -> bool:
        """Whether the query is computed over the present versions of its upstreams."""
        return self.pinned is None and not self.events

    def may_move_rows(self, key: tuple[str, ...]) -> bool:
        """Whether a row can be in the part by the query, and outside of it in the table, or the other way round."""
        return not all(any(is_same_name(name, part) for part in key) for name in self.predicate.columns)

    def without_pins(self, because: str) -> Restatement:
        """Returns the plan that computes the text of the query over the present versions of the upstreams."""
        return replace(self, pinned=None, because=because)

    def check_versions(self, model: Model) -> None:
        """Raises PlanError if the part can't be computed as of the offsets of the last run."""
        if self.reads_present and self.newer:
            raise PlanError(
                f"{model.table}: its rows can't be computed as of its last run: {self.because}.",
                expected=f"{', '.join(self.newer)} at the version that the last run read",
                actual="another version",
                fix=f"`dbt run -s {model.table.name}` brings the table up to date; then restate it",
            )

    def describe_reads(self) -> tuple[str, ...]:
        """Describes for users, in a line for each source, the version at which it is read."""
        if self.reads_present:
            return ("reads its upstreams as they are now",)
        windows = {} if self.pinned is None else self.pinned.windows
        versions = {name: window.end for name, window in windows.items()} or self.events
        part = "all events of " if self.events else ""
        return tuple(f"reads {part}{name} as of version {versions[name].snapshot}" for name in sorted(versions))


def plan_restatement(model: Model, state: TableState, upstreams: Upstreams, where: str) -> Restatement:
    """Plans to restate the rows of a table for which the predicate `where` is true.

    Raises ConfigError if the predicate is not valid or a table of this kind can't be restated, and PlanError if the
    query is another one than that of the last run, or can't be computed as of that run.
    """
    check_restatable(model)
    changes, _ = require_built(state, model.table)
    last = find_last_run(changes)
    columns = strip_change_columns(changes.columns)
    predicate = read_row_predicate(where, [column.name for column in columns])
    check_table(model, state, Request())
    if last is None or last.reason == "ADOPTED":
        raise build_run_first_error(model, "no run of the model has computed its rows yet")
    if model.config.input == "changes":
        return Restatement(predicate, last, columns, None, "", (), _plan_events(model, changes, upstreams, last))
    changed = describe_query_change(model, state, upstreams, last.query)
    if changed:
        raise build_run_first_error(model, changed)
    offsets = get_offsets(last)
    known = {name: source for name, source in upstreams.states.items() if source is not None}
    newer = tuple(sorted(name for name, source in known.items() if offsets.get(name) != source.version))
    try:
        with refuse_on_error():
            return Restatement(predicate, last, columns, _pin_tree(model, upstreams, last, predicate), "", newer)
    except NotMaintained as refused:
        plan = Restatement(predicate, last, columns, None, refused.because, newer)
    plan.check_versions(model)
    return plan


def _plan_events(
    model: Model, changes: ChangeTableState, upstreams: Upstreams, last: RunSummary
) -> Mapping[str, Version]:
    """Returns the versions up to which the table has read events; raises EventsGone if some of them may be gone."""
    changed = find_changed_event_rules(last.query, model)
    if changed:
        raise build_run_first_error(model, f"{', '.join(changed)} changed since the last run")
    offsets, known = get_offsets(last), upstreams.states
    gone = [name for name, version in offsets.items() if not _can_read_until(known.get(name), version)]
    obstacles = list_fold_obstacles(last, known)
    obstacles += [f"{', '.join(gone)} no longer keeps the version that the last run read"] if gone else []
    obstacles += ["rows were forgotten whose events may still be there"] if FORGOTTEN in changes.properties else []
    if obstacles:
        raise EventsGone(
            f"{model.table} can't be restated: its rows can't be folded again from all events of their keys.",
            expected="upstreams that have all events since the first, and no other origin of rows",
            actual="; ".join(obstacles),
            fix=f"`arctic overwrite {model.table.name}` declares the right rows; or `dbt run --full-refresh -s "
            f"{model.table.name}` rebuilds the table from the events that are left",
        )
    return offsets


def _can_read_until(source: SourceState | None, version: Version) -> bool:
    """Whether the events of a source up to a version can be read: its snapshot is kept, or rows have its number."""
    if source is None or source.version.table != version.table:
        return False
    return source.keeps_version(version) or source.format_version >= 3


def _pin_tree(model: Model, upstreams: Upstreams, last: RunSummary, predicate: RowPredicate) -> PinnedTree:
    """Analyses the query; raises NotMaintained if it is not supported, or a version that was read is not kept."""
    analysed, key = analyse_model(model, upstreams)
    offsets = get_offsets(last)
    scans = list_scans(analysed.tree)
    windows: dict[str, Window] = {}
    for name in dict.fromkeys(str(scan.source) for scan in scans):
        source, version = upstreams.states[name], offsets.get(name)
        if source is None or version is None:
            raise NotMaintained("SOURCE_UNKNOWN", f"{name} was not read by the last run")
        if version != source.version:
            check_window(source, Window(name, version, source.version))
        windows[name] = Window(name, version, version)
    check_defaults(scans, upstreams.states, windows)
    outputs = tuple(Column(name, "") for name, _ in analysed.outputs)
    missing = [name for name in predicate.columns if find_column(outputs, name) is None]
    if missing:
        raise NotMaintained("UNRESOLVED", f"the query has no column {', '.join(missing)}")
    return PinnedTree(analysed.tree, analysed.outputs, key, windows)


def check_restatable(model: Model) -> None:
    """Raises ConfigError if the rows of this kind of table are not those of a query over the present upstreams."""
    name = model.table.name
    if model.ingested_from is not None:
        raise ConfigError(
            f"{model.table} can't be restated: it is ingested from {model.ingested_from}, and no query has its rows.",
            fix=f"`arctic resync {name}`, or `arctic ingest --resync {name}`, has the whole table loaded anew, and "
            "publishes what differs",
        )
    if model.config.has_history:
        raise ConfigError(
            f"{model.table} can't be restated: with `history`, a row that changes becomes a version of its own.",
            expected="history: none",
            actual=f"history: {model.config.history}",
            fix=f"correct what the query reads, then `dbt run -s {name}`",
        )
    if not model.config.primary_key:
        raise ConfigError(
            f"{model.table} can't be restated: its primary key has no column, so it has one row and no parts.",
            fix=f"`dbt run --full-refresh -s {name}`",
        )


def build_run_first_error(model: Model, because: str) -> PlanError:
    """Builds the error for a table with other rows than its query has by now, wherever these are read."""
    return PlanError(
        f"{model.table} can't be restated: {because}.",
        expected="a table with the rows of its query as of its last run",
        fix=f"`dbt run -s {model.table.name}` first",
    )
