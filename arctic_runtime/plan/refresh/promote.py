"""Plans how a table takes over what a clone of it has computed, if the model's query is now that of the clone.

The clone's change rows since it was made, and the table's own, say for each key which row the clone has and which one
the table has. So a run publishes the differences from the table to the clone, and computes no query. Changes of the
sources since the offsets of the clone's last run are followed after that, by the query.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from arctic_runtime.errors import ConfigError
from arctic_runtime.ivm.algebra.refusal import NotMaintained
from arctic_runtime.ivm.strategies.aggregate_state import hash_state, list_aggregate_states
from arctic_runtime.model.clone import ObservedClone
from arctic_runtime.model.columns import find_column, strip_change_columns
from arctic_runtime.model.names import parse_full_name, rename_tables
from arctic_runtime.model.properties import PROMOTED
from arctic_runtime.model.query_text import read_query_text
from arctic_runtime.model.run_summary import RunSummary, find_last_load, get_offsets
from arctic_runtime.model.state import ChangeTableState, Commit, SourceState, TableState
from arctic_runtime.model.table import Model
from arctic_runtime.model.version import Version, Window, decode_versions
from arctic_runtime.plan.refresh.fingerprint import (
    compute_fingerprint,
    describe_fingerprint_change,
    describe_query_change,
    rename_views,
)
from arctic_runtime.plan.refresh.increment import Upstreams, analyse_model
from arctic_runtime.plan.refresh.window_rows import check_window, has_before_images


@dataclass(frozen=True)
class ChangedRows:
    """The change rows of a table in a window of its versions."""

    source: SourceState
    window: Window

    @property
    def rows(self) -> int:
        """Number of change rows, as far as their commits have not expired."""
        return self.source.count_rows_in(self.window)

    @property
    def is_empty(self) -> bool:
        """Whether there are certainly no change rows."""
        return self.source.keeps_version(self.window.start) and not self.rows


@dataclass(frozen=True)
class Promotion:
    """The promotion of a clone, as a run of its origin performs it."""

    clone: ObservedClone
    made: Version
    """The version that the last run of the clone has made."""

    run: RunSummary
    """The record of this run."""

    offsets: Mapping[str, Version]
    """Its offsets, with the names and versions that the upstreams have for the origin."""

    aggregate_state: str | None
    """Fingerprint, for the origin, of the clone's aggregate state; None if the origin can't go on with it."""

    changed: tuple[ChangedRows, ChangedRows] | None
    """The change rows of the clone and of the origin since the clone was made; None if not all of them are kept."""

    @property
    def because(self) -> str:
        return f"{self.clone.clone.table} has computed this query"

    def build_entries(self) -> RunSummary:
        """Builds the entries for the summary of the run's commit, beside those of each run."""
        kept = replace(self.run.select_row_entries(), offsets=None, query=None, judged=None)
        return replace(kept, promoted={str(self.clone.clone.table): self.made})

    def describe_plan(self) -> tuple[str, ...]:
        """Describes for users in a few lines what the run reads for the promotion, and what it does then."""
        table = self.clone.clone.table
        if self.changed is None:
            read = f"compares all rows with those of the clone {table}"
        else:
            rows = sum(side.rows for side in self.changed)
            read = f"takes over the clone {table}, by {rows:,} change rows of both since the clone was made"
        return (read, "then follows the changes of what the query reads since the last run of the clone")


def plan_promotion(model: Model, state: TableState, upstreams: Upstreams, clone: ObservedClone) -> Promotion | None:
    """Plans that the model's table takes over the rows of `clone`; None if there is nothing to take over.

    That is so if the clone has computed nothing since it was made, if the table has its rows already, or if neither the
    model's query nor an upstream has been promoted since the last run. Raises ConfigError if the table can't take over
    the rows.
    """
    _check_origin(model, state, clone)
    changes, made = state.changes, find_last_load(clone.changes)
    assert changes is not None
    if made is None or made.version.sequence <= clone.clone.origin.version.sequence:
        return None
    if _has_taken_over(changes, made.version):
        return None
    last, run = find_last_load(changes), RunSummary.decode(made.summary)
    assert last is not None
    before = RunSummary.decode(last.summary)
    is_edited = bool(describe_query_change(model, state, upstreams, before.query))
    if not is_edited and not _has_newer_upstream(clone, upstreams, get_offsets(run), get_offsets(before)):
        return None
    offsets = _map_offsets(model, clone, upstreams, get_offsets(run))
    _check_query(model, upstreams, clone, run)
    aggregate_state = _find_aggregate_state(model, upstreams, clone, run)
    changed = _find_changed_rows(model, changes, upstreams, clone)
    return Promotion(clone, made.version, run, offsets, aggregate_state, changed)


def _has_taken_over(changes: ChangeTableState, made: Version) -> bool:
    """Whether a table has taken over the version `made` of a clone, or a later one of it."""
    versions = (version for commit in changes.commits for version in _read_promoted(commit).values())
    return any(version.table == made.table and version.sequence >= made.sequence for version in versions)


def _read_promoted(commit: Commit) -> Mapping[str, Version]:
    return decode_versions(commit.summary[PROMOTED]) if PROMOTED in commit.summary else {}


def promote_state(state: TableState, promotion: Promotion, query: str) -> TableState:
    """Returns the state that a table has after the promotion, for the plan of what follows; `query` is its fingerprint.

    Its newest commit stands for the one that the promotion will make.
    """
    assert state.changes is not None
    assert state.changes.head is not None
    head = state.changes.head
    summary = replace(
        promotion.build_entries(),
        run="promotion",
        mode="incremental",
        reason="PROMOTED",
        offsets=promotion.offsets,
        query=query,
        aggregate_state=promotion.aggregate_state,
    )
    commit = replace(
        state.changes.commits[-1],
        version=replace(head, sequence=head.sequence + 1),
        parent=head.snapshot,
        operation="append",
        summary=summary.encode(),
        rows=sum(side.rows for side in promotion.changed or ()),
    )
    aggregate_state = None if promotion.aggregate_state is None else promotion.clone.aggregate_state
    changes = replace(state.changes, commits=(*state.changes.commits, commit))
    return replace(state, changes=changes, aggregate_state=aggregate_state)


def _check_origin(model: Model, state: TableState, clone: ObservedClone) -> None:
    """Raises ConfigError if `clone` was not made of the table that the model has now."""
    table, origin = clone.clone.table, clone.clone.origin
    if origin.model != model.table:
        raise _build_refusal(model, clone, f"{table} is a clone of {origin.model}", "name the target of its clone")
    if state.changes is None or state.changes.uuid != origin.version.table or find_last_load(state.changes) is None:
        because = f"{model.table} was dropped since {table} was made of it"
        raise _build_refusal(model, clone, because, f"`dbt run -s {model.table.name}` computes it")


def check_promotable(model: Model) -> None:
    """Raises ConfigError if the rows of such a model are not those of its query alone."""
    name = model.table.name
    if model.config.input == "changes":
        raise ConfigError(
            f"{model.table} can't take over a clone: `input: changes` applies each event once, by the query of its "
            "time.",
            expected="a model with `input: state`",
            fix=f"`dbt run -s {name}` applies the new query to new events",
        )
    if model.config.has_history:
        raise ConfigError(
            f"{model.table} can't take over a clone: its versions of rows are a record of what it has shown itself.",
            expected="history: none",
            actual=f"history: {model.config.history}",
            fix=f"`dbt run -s {name}` follows the new query",
        )


def _has_newer_upstream(
    clone: ObservedClone, upstreams: Upstreams, theirs: Mapping[str, Version], own: Mapping[str, Version]
) -> bool:
    """Whether an upstream has taken over its clone, and the origin has not read that yet.

    `theirs` are the offsets of the clone, `own` those of the origin.
    """
    for name in theirs:
        table = _find_own_name(clone, name)
        source = upstreams.states.get(table)
        promoted = _find_promoted_upstream(clone, name, source) if source is not None else None
        read = own.get(table)
        if promoted is not None and (read is None or read.sequence < promoted.sequence):
            return True
    return False


def _find_own_name(clone: ObservedClone, name: str) -> str:
    table = parse_full_name(name)
    return name if table is None else str(clone.tables.get(table, table))


def _find_promoted_upstream(clone: ObservedClone, name: str, source: SourceState) -> Version | None:
    """Returns the version at which the upstream `source` has the rows that the clone has read of its clone `name`."""
    upstream = clone.upstreams.get(name)
    if upstream is None or upstream.clone.origin.model != source.name:
        return None
    for commit in source.commits:
        if _read_promoted(commit).get(name) == upstream.made:
            return commit.version
    return None


def _map_offsets(
    model: Model, clone: ObservedClone, upstreams: Upstreams, theirs: Mapping[str, Version]
) -> dict[str, Version]:
    """Returns the offsets `theirs` of the clone, with the names and versions that the upstreams have for the origin.

    Raises ConfigError if the clone has read a table that may hold other rows than the one that the origin reads.
    """
    offsets: dict[str, Version] = {}
    for name, version in theirs.items():
        own = _find_own_name(clone, name)
        source = upstreams.states.get(own)
        if source is None:
            because = f"the clone reads {name}, and the model does not read {own}"
            raise _build_refusal(model, clone, because, f"`dbt run -s {model.table.name}` computes the query")
        offsets[own] = version if own == name else _map_version(model, clone, name, version, source)
    return offsets


def _map_version(model: Model, clone: ObservedClone, name: str, version: Version, source: SourceState) -> Version:
    """Returns the version at which the upstream `source` has the rows of `version` of its counterpart `name`."""
    upstream = clone.upstreams.get(name)
    if upstream is None or upstream.clone.origin.model != source.name:
        because = f"the clone reads {name}, which is no clone of {source.name} and may have other rows"
        raise _build_refusal(model, clone, because, f"`dbt run -s {model.table.name}` computes the query")
    shared = upstream.clone.origin.version
    if shared.table == source.version.table and upstream.made.sequence <= shared.sequence:
        return replace(version, table=shared.table) if version.sequence <= shared.sequence else shared
    promoted = _find_promoted_upstream(clone, name, source)
    if promoted is None:
        because = f"{source.name} does not have the rows of {name} that the clone has read"
        fix = f"promote {source.name.name} before, once `dbt run` in the clone's target has nothing to do"
        raise _build_refusal(model, clone, because, fix)
    return promoted


def _check_query(model: Model, upstreams: Upstreams, clone: ObservedClone, run: RunSummary) -> None:
    """Raises ConfigError if the query of the clone's last run, moved to the names of the origin, is not the model's."""
    text = read_query_text(clone.changes.properties)
    changed = "the text of its query is not stored"
    if text is not None:
        tables = {clone.clone.table: model.table, **clone.tables}
        views = {name: sql for name, sql in rename_views(text.views, tables).items() if not _is_clone_view(name, sql)}
        if (rename_tables(text.sql, tables), views) != (model.sql, dict(upstreams.views)):
            changed = "its query, or a view that it reads, is another one"
        else:
            theirs = _find_their_names(clone, run)
            states = {theirs.get(name, name): source for name, source in upstreams.states.items()}
            there = compute_fingerprint(
                replace(model, sql=text.sql), replace(upstreams, states=states, views=text.views)
            )
            keeps_settings = model.config.on_session_change == "keep"
            changed = describe_fingerprint_change(run.query, there, keeps_settings)
    if changed:
        fix = f"run the model in the clone's target with the present code, or `dbt run -s {model.table.name}` here"
        raise _build_refusal(model, clone, changed, fix)


def _find_their_names(clone: ObservedClone, run: RunSummary) -> dict[str, str]:
    return {_find_own_name(clone, name): name for name in get_offsets(run)}


def _is_clone_view(name: str, sql: str) -> bool:
    """Whether a view, after the names of tables were replaced, shows a table of its own name, as `dbt clone` makes it.

    It is the view of a seed, a snapshot or a table of the other environment.
    """
    table = parse_full_name(name)
    quoted = "" if table is None else ".".join(f"`{part}`" for part in table.parts)
    return sql.lower().split() == ["select", "*", "from", quoted.lower()]


def _find_changed_rows(
    model: Model, changes: ChangeTableState, upstreams: Upstreams, clone: ObservedClone
) -> tuple[ChangedRows, ChangedRows] | None:
    """Finds the change rows since the clone was made; None if they do not say which rows both tables have.

    That is so if change rows are gone or lack the rows before, or if columns were dropped or renamed.
    """
    own, shared = upstreams.own, clone.clone.origin.version
    if own is None:
        return None
    for log in (changes, clone.changes):
        if shared.snapshot in {*log.dropped_columns, *log.old_column_names}:
            return None
    columns = clone.source.columns
    if any(find_column(columns, column.name) is None for column in strip_change_columns(changes.columns)):
        return None
    head = clone.changes.head
    assert head is not None
    theirs = ChangedRows(clone.source, Window(str(clone.clone.table), replace(shared, table=head.table), head))
    ours = ChangedRows(own, Window(str(model.table), shared, own.version))
    try:
        for side in (theirs, ours):
            check_window(side.source, side.window)
            if not has_before_images(side.source, side.window):
                return None
    except NotMaintained:
        return None
    return theirs, ours


def _find_aggregate_state(model: Model, upstreams: Upstreams, clone: ObservedClone, run: RunSummary) -> str | None:
    """Returns the fingerprint that the plan of the clone's aggregate state has for the origin.

    Both analyse the same query, with other names. None if the clone has stored no state, or that of another plan.
    """
    text = read_query_text(clone.changes.properties)
    if run.aggregate_state is None or clone.aggregate_state is None or text is None:
        return None
    theirs = _find_their_names(clone, run)
    states = {
        theirs.get(name, name): source and replace(source, name=parse_full_name(theirs.get(name, name)) or source.name)
        for name, source in upstreams.states.items()
    }
    there = replace(model, sql=text.sql, table=clone.clone.table)
    try:
        plans = list(_list_fingerprints(model, upstreams))
        made = list(_list_fingerprints(there, replace(upstreams, states=states, views=text.views)))
    except NotMaintained:
        return None
    return dict(zip(made, plans, strict=False)).get(run.aggregate_state)


def _list_fingerprints(model: Model, upstreams: Upstreams) -> Iterator[str]:
    analysed, _ = analyse_model(model, upstreams)
    yield from map(hash_state, list_aggregate_states(analysed.tree, analysed.types))


def _build_refusal(model: Model, clone: ObservedClone, because: str, fix: str) -> ConfigError:
    return ConfigError(f"{model.table} can't take over the clone {clone.clone.table}: {because}.", fix=fix)
