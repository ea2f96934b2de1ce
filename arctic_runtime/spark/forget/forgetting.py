"""Rows are forgotten: in a table, in all that is made of it, and in everything that these tables ever were.

Every step can be done again, and is done again where an earlier attempt died: the keys stand in a table beside each of
the tables from before the first deletion until nothing of them is left.
"""

from __future__ import annotations

import datetime
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, TypeVar

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from arctic_runtime.catalog.reader import CatalogReader
from arctic_runtime.errors import ConfigError, DataError
from arctic_runtime.ivm.frontend.reads import find_reads
from arctic_runtime.model.columns import IS_CURRENT
from arctic_runtime.model.forgetting import Certificate, ForgetPlan, TableForgotten
from arctic_runtime.model.names import TableName, format_changes_view, list_changes_read
from arctic_runtime.model.state import TableState, require_built
from arctic_runtime.model.table import Model
from arctic_runtime.plan.forgetting import list_downstream_tables
from arctic_runtime.spark.forget import erase_letters, trace
from arctic_runtime.spark.forget.erase_events import (
    ForgottenRows,
    can_follow_deletion,
    check_recomputable,
    list_skips,
    recompute_rows,
)
from arctic_runtime.spark.forget.erase_rows import (
    Restated,
    build_empty_restatement,
    collect_lookup_keys,
    drop_savepoints,
    erase_rows,
    purge_files,
    read_rows_now,
    restate_rows,
)
from arctic_runtime.spark.forget.file_scan import list_holding_savepoints, plan_table, scan_files
from arctic_runtime.spark.forget.keys import drop_with_files, has_keys, keep_keys, read_keys
from arctic_runtime.spark.refresh.run import Refresh
from arctic_runtime.spark.tables.rows.frames import Keys
from arctic_runtime.spark.tables.table_session import TableSession

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Of = TypeVar("Of")


@dataclass(frozen=True)
class Forget:
    """Rows of a table to forget: those of `keys`, one text for each column, or `where` a predicate."""

    keys: tuple[str, ...] = ()
    where: str | None = None
    drop_savepoints: bool = False


@dataclass
class Forgetting:
    """One request to forget rows of `root`; `models` are all of the project. `tell` gets lines for people."""

    root: Model
    models: Sequence[Model]
    reader: CatalogReader
    spark: Callable[[], SparkSession]
    request: Forget
    tell: Callable[[str], None] = lambda _: None
    now: datetime.datetime = field(default_factory=lambda: datetime.datetime.now(datetime.timezone.utc))

    def __post_init__(self) -> None:
        self._noted: set[TableName] = set()
        known = {model.table: model for model in self.models if not model.is_landing}
        self._known: Mapping[TableName, Model] = {**known, self.root.table: self.root}
        self._reads = {table: self._read_by(model) for table, model in self._known.items()}
        below = list_downstream_tables(self.root.table, self._reads)
        self._involved = [self._known[table] for table in below]
        self._order = [model for model in self._involved if self._is_built(model)]
        self._appended = [model for model in self._involved if self._is_appended(model)]
        # Those without a key are refreshed as well, which have nothing to forget.
        self._below = [model for model in self._involved[1:] if model in self._order or model in self._appended]

    def plan_forget(self) -> ForgetPlan:
        """Plans a forgetting; changes nothing."""
        self._check_built()
        keys_by_table = self._trace_keys(self._hold_keys)
        tables = tuple(
            plan_table(self._open_session(self._known[table]), keys) for table, keys in keys_by_table.items()
        )
        letters = erase_letters.count_dead_letters(
            self._open_session(self.root), self._find_dead_letter_keys(keys_by_table)
        )
        return ForgetPlan(tables, letters, self._list_notes())

    def run_forget(self) -> Certificate:
        """Forgets the rows and looks at what is left.

        Raises ConfigError if a savepoint holds rows, and DataError if the table's query still gives them; nothing
        is forgotten then.
        """
        self._check_built()
        noted = {table: ForgottenRows(read_keys(self.spark(), table)) for table in self._list_noted_tables()}
        for model in (self.root, *self._below) if self.root.config.input == "state" else self._below:
            self._refresh_model(model, noted if noted and self._is_computed_again(model) else None)
        keys_by_table = self._trace_keys(self._store_keys)
        self._check_gone(keys_by_table)
        self._check_recomputable(keys_by_table)
        dropped = self._drop_savepoints(keys_by_table)
        letters = erase_letters.drop_dead_letters(
            self._open_session(self.root), self._find_dead_letter_keys(keys_by_table)
        )
        restated = self._delete_rows(keys_by_table) if keys_by_table else {}
        done = [
            self._purge_table(model, keys_by_table, restated) for model in self._order if model.table in keys_by_table
        ]
        for model in self._below:
            self._refresh_model(model)
        checked = tuple(
            self._check_files(replace(table_result, dropped_savepoints=dropped.get(table_result.table, ())))
            for table_result in done
        )
        certificate = Certificate(
            self.root.table,
            self.now.isoformat(timespec="seconds"),
            checked,
            letters.dropped,
            letters.left,
            self._list_notes(),
        )
        if certificate.is_clean:
            for table in keys_by_table:
                drop_with_files(self.spark(), table.forget_keys_name)
        return certificate

    # The tables

    def _read_by(self, model: Model) -> frozenset[TableName]:
        if model.ingested_from is not None:
            return frozenset()
        if model.config.input == "changes":
            return frozenset(list_changes_read(model.sql)) | self._read_beside(model)
        states = Refresh.from_model(model, self.reader, self.spark).planner.observe_upstreams().states
        return frozenset(state.name for state in states.values() if state)

    def _read_beside(self, model: Model) -> frozenset[TableName]:
        """The tables that a query of change events reads as they are when it runs."""
        catalog, schema = model.table.catalog, model.table.schema
        events = {TableName(catalog, schema, format_changes_view(source)) for source in list_changes_read(model.sql)}
        return frozenset(find_reads(model.sql, catalog, schema).tables) - events - {model.table}

    def _is_built(self, model: Model) -> bool:
        state = self._open_session(model).observe_state()
        return model.table == self.root.table or (state.changes is not None and state.base is not None)

    def _is_appended(self, model: Model) -> bool:
        return model.is_appended and self._open_session(model).observe_state().appended is not None

    def _open_session(self, model: Model) -> TableSession:
        return TableSession(model, self.reader, self.spark, self.now)

    def _list_noted_tables(self) -> list[TableName]:
        """The tables whose keys an attempt has noted that died."""
        return [model.table for model in self._order if has_keys(self.reader, model.table)]

    def _check_built(self) -> None:
        if bool(self.request.keys) == bool(self.request.where):
            raise ConfigError(
                f"{self.root.table}: the rows to forget are not given.",
                expected="--key or --where, one of both",
                fix="run `arctic forget MODEL --key VALUE`, or `arctic forget MODEL --where PREDICATE`",
            )
        require_built(self._open_session(self.root).observe_state(), self.root.table)

    def _list_notes(self) -> tuple[str, ...]:
        origins = sorted(str(origin) for origin in self._reads[self.root.table])
        notes = [
            f"{origin}, which {self.root.table} reads, is not looked at: forget the rows there as well"
            for origin in origins
        ]
        involved = {model.table for model in self._order}
        for model in self._order[1:]:
            reads_alongside = model.config.input == "changes" and self._read_beside(model) & involved
            notes += [
                f"{model.table} reads {origin} beside its changes(…); values that it took from there stay: run it with "
                "--full-refresh, then forget again"
                for origin in sorted(reads_alongside or ())
            ]
        return tuple(notes)

    # The keys

    def _trace_keys(self, store: Callable[[Model, DataFrame], DataFrame]) -> dict[TableName, DataFrame]:
        """The keys of rows to forget by table, as far as there are any; `store` keeps those of one table."""
        keys_by_table: dict[TableName, DataFrame] = {}
        known: dict[TableName, Keys] = {}
        for model in self._order:
            state = self._open_session(model).observe_state()
            keys = store(model, self._find_keys(model, state, known))
            lookup, count = collect_lookup_keys(self._open_session(model), state, keys)
            if count:
                keys_by_table[model.table], known[model.table] = keys, lookup
        self._check_without_key(known)
        return keys_by_table

    def _check_without_key(self, known: Mapping[TableName, Keys]) -> None:
        """Raises ConfigError if rows of a table without a key were made of such rows: nothing tells which."""
        for model in self._appended:
            forgotten = {table: keys for table, keys in known.items() if table in list_changes_read(model.sql)}
            if not forgotten:
                continue
            upstreams = Refresh.from_model(model, self.reader, self.spark).planner.observe_upstreams()
            if trace.has_events_of(self.spark(), model, upstreams, forgotten):
                self._drop_keys(known)
                raise ConfigError(
                    f"{model.table} has rows made of those that are to be forgotten, and no primary key that says "
                    "which; nothing was done.",
                    fix=(
                        f"give the model a `primary_key`; or `arctic reset {model.table.name} --yes`, then "
                        "`arctic forget` again, and rebuild it"
                    ),
                )

    def _find_keys(self, model: Model, state: TableState, known: Mapping[TableName, Keys]) -> DataFrame:
        spark, session = self.spark(), self._open_session(model)
        if model.table == self.root.table and self.request.where is not None:
            return trace.find_keys_where(spark, model, state, self.request.where)
        if model.table == self.root.table:
            given_keys, _ = collect_lookup_keys(
                session, state, trace.parse_given_keys(spark, model, state, self.request.keys)
            )
            return trace.list_keys_ever(spark, model, state, given_keys)
        upstreams = Refresh.from_model(model, self.reader, self.spark).planner.observe_upstreams()
        forgotten = {table: keys for table, keys in known.items() if table in self._reads[model.table]}
        if not forgotten:
            return trace.list_keys_ever(spark, model, state).limit(0)
        made = trace.list_keys_made_of(spark, model, state, upstreams, forgotten, self.reader.thresholds)
        lookup, _ = collect_lookup_keys(session, state, made)
        return trace.list_keys_ever(spark, model, state, lookup)

    def _hold_keys(self, model: Model, keys: DataFrame) -> DataFrame:
        """Keys held by the driver, with those of an attempt that died: a plan writes nothing."""
        if has_keys(self.reader, model.table):
            keys = keys.unionByName(read_keys(self.spark(), model.table))
        return trace.hold_in_driver(self.spark(), keys.distinct())

    def _store_keys(self, model: Model, keys: DataFrame) -> DataFrame:
        searched = keys.persist()  # They are looked for in all change rows.
        try:
            if not has_keys(self.reader, model.table):
                if searched.isEmpty():
                    return trace.hold_in_driver(self.spark(), searched)
                self._noted.add(model.table)
            keep_keys(self.spark(), self.reader, model.table, searched)
        finally:
            searched.unpersist()
        return read_keys(self.spark(), model.table)

    def _find_dead_letter_keys(self, keys_by_table: Mapping[TableName, DataFrame]) -> DataFrame | None:
        """The keys that dead letters are searched for: also given ones that the table has never had."""
        if not self.request.keys:
            return keys_by_table.get(self.root.table)
        return trace.parse_given_keys(
            self.spark(), self.root, self._open_session(self.root).observe_state(), self.request.keys
        )

    # What is done

    def _drop_savepoints(self, keys_by_table: Mapping[TableName, DataFrame]) -> dict[TableName, tuple[str, ...]]:
        """Drops savepoints that hold rows; raises ConfigError, and forgets the keys again, if that is not asked."""
        names_by_table = {
            table: list_holding_savepoints(self._open_session(self._known[table]), keys)
            for table, keys in keys_by_table.items()
        }
        if any(names_by_table.values()) and not self.request.drop_savepoints:
            named = [f"{name} of {table}" for table, names in names_by_table.items() for name in names]
            self._drop_keys(keys_by_table)
            raise ConfigError(
                f"{self.root.table}: savepoints hold rows that are to be forgotten; nothing was done.",
                actual=", ".join(named),
                fix="add --drop-savepoints, or drop them by `arctic savepoint MODEL NAME --drop`",
            )
        for table, names in names_by_table.items():
            drop_savepoints(self._open_session(self._known[table]), names)
        return names_by_table

    def _drop_keys(self, tables: Iterable[TableName]) -> None:
        """Drops keys that this request has noted: those of one that died have to stay until they are forgotten."""
        for table in self._noted.intersection(tables):
            drop_with_files(self.spark(), table.forget_keys_name)

    def _check_gone(self, keys_by_table: Mapping[TableName, DataFrame]) -> None:
        """Raises DataError if the query of the table still gives the rows."""
        keys = keys_by_table.get(self.root.table)
        if self.root.config.input != "state" or keys is None:
            return
        session = self._open_session(self.root)
        state = session.reconcile_until_done(session.observe_state())
        rows_left = read_rows_now(session, state, collect_lookup_keys(session, state, keys)[0])
        rows_left = rows_left.where(IS_CURRENT) if self.root.config.has_history else rows_left
        rows = rows_left.limit(3).collect()
        if rows:
            self._drop_keys(keys_by_table)
            origins = ", ".join(sorted(map(str, self._reads[self.root.table])))
            raise DataError(
                f"{self.root.table}: its query still gives rows that are to be forgotten; nothing was done.\n"
                + "".join(f"  example: {row.asDict(recursive=True)}\n" for row in rows),
                fix=f"forget or delete them where they come from ({origins}), then run this again",
            )

    def _check_recomputable(self, keys_by_table: Mapping[TableName, DataFrame]) -> None:
        """Raises DataError, and drops the keys, if a table's rows can't be computed from the events that are left.

        Of tables whose keys an earlier attempt has noted, that has checked it before it purged any event.
        """
        for model in self._order[1:]:
            if model.table not in self._noted.intersection(keys_by_table) or not self._is_computed_again(model):
                continue
            try:
                check_recomputable(
                    self._refresh_of(model), keys_by_table[model.table], self._observe_read_tables(model, keys_by_table)
                )
            except DataError:
                self._drop_keys(keys_by_table)
                raise

    def _observe_read_tables(self, model: Model, tables: Mapping[TableName, Of]) -> dict[TableName, Of]:
        """Observes the tables whose changes a model reads."""
        return {table: tables[table] for table in list_changes_read(model.sql) if table in tables}

    def _delete_rows(self, keys_by_table: dict[TableName, DataFrame]) -> dict[TableName, Restated]:
        """Deletes the rows, has all models below follow, and says once more what is still there.

        Adds the keys of rows that this changes to `keys_by_table`. Each model reads its upstreams as they are restated.
        """
        heads = {model.table: self._get_head_sequence(model) for model in self._order[1:]}
        restated: dict[TableName, Restated] = {}
        if self.root.table in keys_by_table:
            restated[self.root.table] = self._erase_keys(keys_by_table[self.root.table])
        for model in self._below:
            self._note_produced_keys(model, restated, keys_by_table)
            forgotten = {
                table: ForgottenRows(keys_by_table[table], done.since, done.has_rows)
                for table, done in restated.items()
            }
            self._follow_deletion(model, keys_by_table.get(model.table), forgotten)
            if model.table in heads:
                self._note_changed_keys(model, heads[model.table], keys_by_table)
                if model.table in keys_by_table:
                    restated[model.table] = restate_rows(self._open_session(model), keys_by_table[model.table])
        return restated

    def _note_produced_keys(
        self, model: Model, restated: Mapping[TableName, Restated], keys_by_table: dict[TableName, DataFrame]
    ) -> None:
        """Adds the keys of rows that a query of change events makes of those that upstreams have been restated to."""
        tables = {table: keys_by_table[table] for table in restated if table != self.root.table}
        above = self._observe_read_tables(model, tables) if model in self._order else {}
        if model.config.input != "changes" or not above:
            return
        sessions = {table: self._open_session(self._known[table]) for table in above}
        known = {
            table: collect_lookup_keys(session, session.observe_state(), above[table])[0]
            for table, session in sessions.items()
        }
        upstreams = self._refresh_of(model).planner.observe_upstreams()
        state = self._open_session(model).observe_state()
        keys = trace.list_keys_made_of(self.spark(), model, state, upstreams, known, self.reader.thresholds)
        if not keys.isEmpty():
            keys_by_table[model.table] = self._store_keys(model, keys)

    def _get_head_sequence(self, model: Model) -> int:
        changes, _ = require_built(self._open_session(model).observe_state(), model.table)
        return changes.commits[-1].version.sequence

    def _note_changed_keys(self, model: Model, head: int, keys_by_table: dict[TableName, DataFrame]) -> None:
        """Adds the keys of rows that the deletion changed or deleted, in case that their trace has missed them."""
        state = self._open_session(model).observe_state()
        changes, _ = require_built(state, model.table)
        if changes.commits[-1].version.sequence > head:
            keys = trace.list_keys_changed_after(self.spark(), model, state, head)
            if not keys.isEmpty():
                keys_by_table[model.table] = self._store_keys(model, keys)

    def _erase_keys(self, keys: DataFrame) -> Restated:
        """Deletes the rows of the table itself; those that a query gives are gone already, but for old versions."""
        session, config = self._open_session(self.root), self.root.config
        if config.input == "state" and not config.has_history:
            return restate_rows(session, keys)
        self.tell(f"{self.root.table}: delete the rows")
        until = erase_rows(session, keys)
        state = session.observe_state()
        return build_empty_restatement(session, state, collect_lookup_keys(session, state, keys)[0], until)

    def _follow_deletion(
        self,
        model: Model,
        keys: DataFrame | None,
        forgotten: Mapping[TableName, ForgottenRows],
    ) -> None:
        """Has a model below follow what was deleted above it, and make no row under `keys` of `forgotten` rows."""
        if keys is None or model.config.input == "state":
            self._refresh_model(model)
            if keys is not None and model.config.has_history:
                erase_rows(self._open_session(model), keys, ~F.col(IS_CURRENT))
            return
        if not self._is_computed_again(model):
            self._refresh_model(model)
            return
        self._refresh_model(model, forgotten)
        self.tell(f"{model.table}: compute the rows again without forgotten events")
        recompute_rows(self._refresh_of(model), keys, self._observe_read_tables(model, forgotten))

    def _is_computed_again(self, model: Model) -> bool:
        """Whether rows are made again of the events that are left, and do not just follow the deletion of others."""
        is_of_events = model.config.input == "changes" and model in self._order
        return is_of_events and not can_follow_deletion(self._refresh_of(model))

    def _refresh_model(self, model: Model, skipped: Mapping[TableName, ForgottenRows] | None = None) -> None:
        """Brings a model up to date, as if its upstreams had no `skipped` rows."""
        if model.ingested_from is None:
            self.tell(f"{model.table}: refresh")
            self._refresh_of(model, skipped).run_refresh()

    def _refresh_of(self, model: Model, skipped: Mapping[TableName, ForgottenRows] | None = None) -> Refresh:
        return Refresh.from_model(model, self.reader, self.spark, narrowed=list_skips(skipped or {}))

    def _purge_table(
        self, model: Model, keys_by_table: Mapping[TableName, DataFrame], restated: Mapping[TableName, Restated]
    ) -> TableForgotten:
        if model.table != self.root.table:
            # Upstreams were purged. A run that follows that later would leave an older aggregate state behind.
            self._refresh_model(model)
        self.tell(f"{model.table}: rewrite the files that hold rows")
        return purge_files(self._open_session(model), restated[model.table], keys_by_table[model.table].count())

    def _check_files(self, done: TableForgotten) -> TableForgotten:
        model = self._known[done.table]
        session, keys = self._open_session(model), read_keys(self.spark(), done.table)
        self.tell(f"{model.table}: read what is left")
        scanned = scan_files(session, keys, collect_lookup_keys(session, session.observe_state(), keys)[0])
        return replace(done, scanned_files=scanned.files, removed_files=scanned.removed, left=scanned.left)
