"""Plans how a model's table follows an edit of the model's query: from its own rows, at the offsets of its last run.

At these offsets the table has the rows of the query of the last run, whose text the table's properties hold. A run
derives from both the rows of the new query at the same offsets. Changes of the sources since then are followed after
that, by the new query.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from arctic_runtime.ivm.algebra.refusal import NotMaintained
from arctic_runtime.ivm.algebra.tree import list_scans
from arctic_runtime.ivm.edits.edit import Edit, OwnTable, Query, keeps_columns, plan_edit
from arctic_runtime.ivm.edits.refused import NotEdited
from arctic_runtime.ivm.frontend.analyse import Analysed
from arctic_runtime.ivm.frontend.frozen_predicate import read_frozen_predicate
from arctic_runtime.ivm.frontend.reads import find_reads
from arctic_runtime.model.clone import read_clone_origin
from arctic_runtime.model.columns import Column, find_column, is_same_name, strip_change_columns
from arctic_runtime.model.names import TableName, parse_table_name, rename_tables
from arctic_runtime.model.query_text import QueryText, StoredContract, read_query_text
from arctic_runtime.model.run_summary import RunSummary, find_last_load, find_last_run, get_offsets
from arctic_runtime.model.state import ChangeTableState, TableState
from arctic_runtime.model.table import Model
from arctic_runtime.model.version import Window
from arctic_runtime.plan.refresh.fingerprint import (
    compute_fingerprint,
    has_other_query_or_contract,
    hash_query_reading,
    is_text_of,
    rename_views,
)
from arctic_runtime.plan.refresh.increment import Upstreams, analyse_model, build_relation
from arctic_runtime.plan.refresh.readable_columns import check_defaults
from arctic_runtime.plan.refresh.window_rows import check_window


@dataclass(frozen=True)
class EditPlan:
    """The edit of a table, as a run performs it."""

    edit: Edit
    """The rows by which the new result differs from the table."""

    outputs: tuple[tuple[str, str], ...]
    """Pairs of a column name of the new query and the column of its tree."""

    former: Analysed
    """The query of the last run, whose columns have the types with which the table's rows are read."""

    former_sources: Mapping[str, tuple[Column, ...]]
    """The columns of the tables that it reads, by the names of the tables."""

    former_columns: Mapping[str, str]
    """Maps columns of the table to columns of the tree of that query."""

    windows: Mapping[str, Window]
    """The version at which each source is read, as the start and the end of a window."""

    def describe_plan(self) -> tuple[str, ...]:
        """Describes for users in a few lines what the run reads for the edit, and what it does then."""
        read = [f"reads {name} as of version {self.windows[name].end.snapshot}" for name in self._list_sources()]
        own = ["reads the rows of the table itself"] if self.edit.reads_table else []
        nothing = ["the query has the same rows as before its edit"] if self.edit.rows is None else []
        return (*nothing, *own, *read, "then follows the changes of what the query reads")

    def _list_sources(self) -> list[str]:
        return sorted(str(source) for source in self.edit.sources)


@dataclass(frozen=True)
class FormerQuery:
    """The query of a table's last run: the text by present names, and as it was stored, by the names of `table`.

    They differ for a clone without a run of its own, which has the text of its origin.
    """

    text: QueryText
    stored: QueryText
    table: TableName


def find_former_query(model: Model, state: TableState, last: RunSummary | None) -> FormerQuery | None:
    """Returns the query of the last run; None if the table does not hold its text, but none or that of another run."""
    stored = read_query_text(state.changes.properties) if state.changes is not None else None
    if stored is None or last is None or not is_text_of(model, stored, last.query):
        return None
    assert state.changes is not None
    origin, load = read_clone_origin(state.changes.properties), find_last_load(state.changes)
    if origin is None or load is None or load.version.sequence > origin.version.sequence:
        return FormerQuery(stored, stored, model.table)
    tables = {origin.model: model.table, **{theirs: own for own, theirs in origin.upstreams}}
    text = replace(stored, sql=rename_tables(stored.sql, tables), views=rename_views(stored.views, tables))
    return FormerQuery(text, stored, origin.model)


def list_former_sources(model: Model, text: QueryText) -> tuple[TableName, ...]:
    """Lists the tables that a query of the model and the views that it read name, without these views."""
    homes = [(text.sql, model.table), *((sql, parse_table_name(name, model.table)) for name, sql in text.views.items())]
    names = (name for sql, home in homes for name in find_reads(sql, home.catalog, home.schema).tables)
    return tuple(dict.fromkeys(name for name in names if str(name) not in text.views))


def plan_table_edit(model: Model, state: TableState, upstreams: Upstreams) -> EditPlan | None:
    """Plans the edit of a table whose query differs from that of its last run; None if that query is not known.

    Raises NotEdited or NotMaintained if the new result has to be computed in full.
    """
    last = find_last_run(state.log)
    former = find_former_query(model, state, last)
    if last is None or former is None:
        return None
    keeps_settings = model.config.on_session_change == "keep"
    if not has_other_query_or_contract(last.query, compute_fingerprint(model, upstreams), keeps_settings):
        return None
    old_model = replace(model, sql=former.text.sql)
    old_states = {**upstreams.states, **upstreams.former}
    old_upstreams = replace(upstreams, states=old_states, views=former.text.views, former={})
    if last.forward is not None:
        raise NotEdited("the table has rows of earlier queries")
    _check_model(model, state, upstreams)
    if not former.text.contract.has_rules_of(StoredContract.from_model(model)):
        raise NotEdited("the contract has other rules, which all rows have to be checked for")
    read_model = replace(model, table=former.table, sql=former.stored.sql)
    _check_confirmed(last, hash_query_reading(read_model, replace(old_upstreams, views=former.stored.views)))
    before, old_key = analyse_model(old_model, old_upstreams)
    after, new_key = analyse_model(model, upstreams)
    columns = _name_columns(model, state, before, after)
    assert state.changes is not None
    stored = _list_kept_columns(model, state.changes, before, after)
    old = Query(before.tree, before.outputs, old_key, before.types)
    new = Query(after.tree, after.outputs, new_key, after.types)
    _check_frozen(model, last, old, new)
    edit = plan_edit(old, new, OwnTable(model.table, columns, stored))
    windows = pin_windows(upstreams, last)
    _check_sources(edit, upstreams, windows)
    made = {columns[name.lower()]: column for name, column in before.outputs if name.lower() in columns}
    known = {name: build_relation(source).columns for name, source in old_states.items() if source is not None}
    return EditPlan(edit, after.outputs, before, known, made, windows)


def _check_model(model: Model, state: TableState, upstreams: Upstreams) -> None:
    """Raises NotEdited if the table's rows can't be taken for those of the query of its last run."""
    if state.base is None:
        raise NotEdited("the table has no base yet")
    if model.config.has_history:
        raise NotEdited("a table with `history` has versions of its rows, which an edit does not change")
    if upstreams.reads.clocks:
        raise NotEdited("the query reads the clock")
    if upstreams.reads.day_columns:
        raise NotEdited("the query converts texts to times")
    assert state.changes is not None
    for name in model.config.primary_key:
        column = find_column(state.changes.columns, name)
        if column is not None and column.type in ("float", "double"):
            raise NotEdited(f"the key column {name} is a {column.type}, whose zeros the table does not tell apart")


def _check_frozen(model: Model, last: RunSummary, old: Query, new: Query) -> None:
    """Raises NotEdited if the table lacks rows that came too late, and the edit may decide anew which these are."""
    if last.frozen_total is None or model.config.frozen_where is None:
        return
    names = [name for name, _ in new.outputs]
    columns = read_frozen_predicate(model.config.frozen_where, names, 0).columns
    if not keeps_columns(old, new, {*model.config.primary_key, *columns}):
        raise NotEdited("rows came too late for its frozen part, and the edit may change which rows these are")


def _check_confirmed(last: RunSummary, reading: str) -> None:
    """Raises NotEdited if Spark may have read the query of the last run in another way than the parser."""
    if last.judged != reading or last.given_up is not None:
        raise NotEdited("the last run did not confirm that Spark reads its query as dbt-arctic does")


def _name_columns(model: Model, state: TableState, before: Analysed, after: Analysed) -> dict[str, str]:
    """Maps the output columns of the last query to the columns that the table has once it has those of the new one."""
    assert state.changes is not None
    renamed = {old.lower(): new for new, old in _list_renames(model, state.changes, before, after)}
    kept = tuple(Column(name, "") for name in _list_kept_columns(model, state.changes, before, after))
    named = {name.lower(): renamed.get(name.lower(), name) for name, _ in before.outputs if name}
    own = {name: find_column(kept, column) for name, column in named.items()}
    return {name: column.name for name, column in own.items() if column is not None}


def _list_renames(model: Model, changes: ChangeTableState, before: Analysed, after: Analysed) -> list[tuple[str, str]]:
    """Lists the columns that the run renames, or that a run renamed which then died, as pairs of new and old name."""
    return [
        (new, old)
        for new, old in model.config.renamed_columns.items()
        if (_has_output(before, old), _has_output(before, new)) == (True, False)
        and (_has_output(after, old), _has_output(after, new)) == (False, True)
        and (find_column(changes.columns, old) is None) != (find_column(changes.columns, new) is None)
        and (model.config.on_schema_change != "ignore" or find_column(changes.columns, old) is not None)
    ]


def _has_output(query: Analysed, name: str) -> bool:
    return any(is_same_name(name, output) for output, _ in query.outputs)


def _list_kept_columns(model: Model, changes: ChangeTableState, before: Analysed, after: Analysed) -> tuple[str, ...]:
    """Lists the table's columns, under their new names, without those that the run drops."""
    renamed = {old.lower(): new for new, old in _list_renames(model, changes, before, after)}
    names = (renamed.get(column.name.lower(), column.name) for column in strip_change_columns(changes.columns))
    is_dropping = model.config.on_schema_change == "sync_all_columns"
    return tuple(name for name in names if not is_dropping or _has_output(after, name))


def pin_windows(upstreams: Upstreams, last: RunSummary) -> dict[str, Window]:
    """Returns for each source the version that the last run read, or the present one, as an empty window."""
    offsets = get_offsets(last)
    states = {name: source for name, source in upstreams.states.items() if source is not None}
    versions = {name: offsets.get(name, source.version) for name, source in states.items()}
    return {name: Window(name, version, version) for name, version in versions.items()}


def _check_sources(edit: Edit, upstreams: Upstreams, windows: Mapping[str, Window]) -> None:
    """Raises NotMaintained if a source can't be read at the version that the last run read."""
    scans = [scan for tree in edit.trees for scan in list_scans(tree) if scan.source != edit.own]
    for name in dict.fromkeys(str(scan.source) for scan in scans):
        source = upstreams.states[name]
        if source is None:
            raise NotMaintained("SOURCE_UNKNOWN", name)
        check_window(source, Window(name, windows[name].start, source.version))
    check_defaults(scans, upstreams.states, windows)
