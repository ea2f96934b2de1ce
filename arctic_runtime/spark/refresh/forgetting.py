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
from arctic_runtime.ivm.frontend.reads import reads
from arctic_runtime.model.columns import IS_CURRENT
from arctic_runtime.model.forgetting import Certificate, ForgetPlan, TableForgotten
from arctic_runtime.model.names import TableName, changes_read, changes_view
from arctic_runtime.model.state import TableState, built
from arctic_runtime.model.table import Model
from arctic_runtime.plan.forgetting import tables_below
from arctic_runtime.spark.refresh import forget_letters, trace
from arctic_runtime.spark.refresh.forget_events import ForgottenRows, check, recompute, skipping, takes_back
from arctic_runtime.spark.refresh.forget_scan import holding_savepoints, scan, to_forget
from arctic_runtime.spark.refresh.forget_table import (
    Restated,
    drop_savepoints,
    erase,
    nothing_left,
    purge,
    restate,
    rows_now,
    sought,
)
from arctic_runtime.spark.refresh.run import Refresh
from arctic_runtime.spark.tables.forgotten import drop_with_files, has_keys, keep_keys, read_keys
from arctic_runtime.spark.tables.frames import Keys
from arctic_runtime.spark.tables.table_session import TableSession

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Of = TypeVar("Of")


@dataclass(frozen=True)
class Forget:
    """Which rows of a table are to be forgotten: those of `keys`, one text for each column, or `where` a predicate."""

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
        below = tables_below(self.root.table, self._reads)
        self._involved = [self._known[table] for table in below]
        self._order = [model for model in self._involved if self._is_built(model)]
        self._appended = [model for model in self._involved if self._is_appended(model)]
        # Those without a key are refreshed as well, which have nothing to forget.
        self._below = [model for model in self._involved[1:] if model in self._order or model in self._appended]

    def plan(self) -> ForgetPlan:
        """What would be forgotten; changes nothing."""
        self._check()
        found = self._trace(self._kept_keys)
        tables = tuple(to_forget(self._session(self._known[table]), keys) for table, keys in found.items())
        letters = forget_letters.count(self._session(self.root), self._of_letters(found))
        return ForgetPlan(tables, letters, self._notes())

    def run(self) -> Certificate:
        """Forgets the rows and looks at what is left.

        Raises ConfigError where a savepoint holds rows, and DataError where the table's query still gives them; nothing
        is forgotten then.
        """
        self._check()
        noted = {table: ForgottenRows(read_keys(self.spark(), table)) for table in self._noted_before()}
        for model in (self.root, *self._below) if self.root.config.input == "state" else self._below:
            self._refresh(model, noted if noted and self._is_computed_again(model) else None)
        found = self._trace(self._stored_keys)
        self._check_gone(found)
        self._check_recomputable(found)
        dropped = self._savepoints(found)
        letters = forget_letters.drop(self._session(self.root), self._of_letters(found))
        restated = self._delete(found) if found else {}
        done = [self._purge(model, found, restated) for model in self._order if model.table in found]
        for model in self._below:
            self._refresh(model)
        checked = tuple(self._checked(replace(of, dropped_savepoints=dropped.get(of.table, ()))) for of in done)
        certificate = Certificate(
            self.root.table,
            self.now.isoformat(timespec="seconds"),
            checked,
            letters.dropped,
            letters.left,
            self._notes(),
        )
        if certificate.is_clean:
            for table in found:
                drop_with_files(self.spark(), table.forgotten)
        return certificate

    # The tables

    def _read_by(self, model: Model) -> frozenset[TableName]:
        if model.ingested_from is not None:
            return frozenset()
        if model.config.input == "changes":
            return frozenset(changes_read(model.sql)) | self._read_beside(model)
        states = Refresh.of(model, self.reader, self.spark).planner.observe_upstreams().states
        return frozenset(state.name for state in states.values() if state)

    def _read_beside(self, model: Model) -> frozenset[TableName]:
        """The tables that a query of change events reads as they are when it runs."""
        catalog, schema = model.table.catalog, model.table.schema
        events = {TableName(catalog, schema, changes_view(source)) for source in changes_read(model.sql)}
        return frozenset(reads(model.sql, catalog, schema).tables) - events - {model.table}

    def _is_built(self, model: Model) -> bool:
        state = self._session(model).observe()
        return model.table == self.root.table or (state.changes is not None and state.base is not None)

    def _is_appended(self, model: Model) -> bool:
        return model.is_appended and self._session(model).observe().appended is not None

    def _session(self, model: Model) -> TableSession:
        return TableSession(model, self.reader, self.spark, self.now)

    def _noted_before(self) -> list[TableName]:
        """The tables whose keys an attempt has noted that died."""
        return [model.table for model in self._order if has_keys(self.reader, model.table)]

    def _check(self) -> None:
        if bool(self.request.keys) == bool(self.request.where):
            raise ConfigError(
                f"{self.root.table}: it is not said which rows to forget.\n  expected: --key or --where, one of both\n"
                "  what to do: arctic forget MODEL --key VALUE, or arctic forget MODEL --where PREDICATE"
            )
        built(self._session(self.root).observe(), self.root.table)

    def _notes(self) -> tuple[str, ...]:
        origins = sorted(str(of) for of in self._reads[self.root.table])
        notes = [
            f"{of}, which {self.root.table} reads, is not looked at: forget the rows there as well" for of in origins
        ]
        involved = {model.table for model in self._order}
        for model in self._order[1:]:
            beside = model.config.input == "changes" and self._read_beside(model) & involved
            notes += [
                f"{model.table} reads {of} beside its changes(…); values that it took from there stay: run it with "
                "--full-refresh, then forget again"
                for of in sorted(beside or ())
            ]
        return tuple(notes)

    # The keys

    def _trace(self, kept: Callable[[Model, DataFrame], DataFrame]) -> dict[TableName, DataFrame]:
        """The keys of rows to forget by table, as far as there are any; `kept` takes those that are found of one."""
        found: dict[TableName, DataFrame] = {}
        known: dict[TableName, Keys] = {}
        for model in self._order:
            state = self._session(model).observe()
            keys = kept(model, self._found_keys(model, state, known))
            lookup, count = sought(self._session(model), state, keys)
            if count:
                found[model.table], known[model.table] = keys, lookup
        self._check_without_key(known)
        return found

    def _check_without_key(self, known: Mapping[TableName, Keys]) -> None:
        """Raises ConfigError where rows of a table without a key were made of such rows: nothing tells which."""
        for model in self._appended:
            forgotten = {table: keys for table, keys in known.items() if table in changes_read(model.sql)}
            if not forgotten:
                continue
            upstreams = Refresh.of(model, self.reader, self.spark).planner.observe_upstreams()
            if trace.makes_events_of(self.spark(), model, upstreams, forgotten):
                self._drop_keys(known)
                raise ConfigError(
                    f"{model.table} has rows made of those that are to be forgotten, and no primary key that tells "
                    "which; nothing was done.\n  what to do: give the model a `primary_key`; or "
                    f"`arctic reset {model.table.name} --yes`, then `arctic forget` again, and build it anew"
                )

    def _found_keys(self, model: Model, state: TableState, known: Mapping[TableName, Keys]) -> DataFrame:
        spark, session = self.spark(), self._session(model)
        if model.table == self.root.table and self.request.where is not None:
            return trace.keys_where(spark, model, state, self.request.where)
        if model.table == self.root.table:
            given, _ = sought(session, state, trace.given_keys(spark, model, state, self.request.keys))
            return trace.keys_ever(spark, model, state, given)
        upstreams = Refresh.of(model, self.reader, self.spark).planner.observe_upstreams()
        forgotten = {table: keys for table, keys in known.items() if table in self._reads[model.table]}
        if not forgotten:
            return trace.keys_ever(spark, model, state).limit(0)
        made = trace.keys_made_of(spark, model, state, upstreams, forgotten, self.reader.thresholds)
        lookup, _ = sought(session, state, made)
        return trace.keys_ever(spark, model, state, lookup)

    def _kept_keys(self, model: Model, keys: DataFrame) -> DataFrame:
        """Keys held by the driver, with those of an attempt that died: a plan writes nothing."""
        if has_keys(self.reader, model.table):
            keys = keys.unionByName(read_keys(self.spark(), model.table))
        return trace.held(self.spark(), keys.distinct())

    def _stored_keys(self, model: Model, keys: DataFrame) -> DataFrame:
        searched = keys.persist()  # They are looked for in all change rows.
        try:
            if not has_keys(self.reader, model.table):
                if searched.isEmpty():
                    return trace.held(self.spark(), searched)
                self._noted.add(model.table)
            keep_keys(self.spark(), self.reader, model.table, searched)
        finally:
            searched.unpersist()
        return read_keys(self.spark(), model.table)

    def _of_letters(self, found: Mapping[TableName, DataFrame]) -> DataFrame | None:
        """The keys that dead letters are searched for: also given ones that the table has never had."""
        if not self.request.keys:
            return found.get(self.root.table)
        return trace.given_keys(self.spark(), self.root, self._session(self.root).observe(), self.request.keys)

    # What is done

    def _savepoints(self, found: Mapping[TableName, DataFrame]) -> dict[TableName, tuple[str, ...]]:
        """Drops savepoints that hold rows; raises ConfigError, and forgets the keys again, where that is not asked."""
        held = {table: holding_savepoints(self._session(self._known[table]), keys) for table, keys in found.items()}
        if any(held.values()) and not self.request.drop_savepoints:
            named = "".join(f"  found: {name} of {table}\n" for table, names in held.items() for name in names)
            self._drop_keys(found)
            raise ConfigError(
                f"{self.root.table}: savepoints hold rows that are to be forgotten; nothing was done.\n{named}"
                "  what to do: add --drop-savepoints, or drop them by `arctic savepoint MODEL NAME --drop`"
            )
        for table, names in held.items():
            drop_savepoints(self._session(self._known[table]), names)
        return held

    def _drop_keys(self, found: Iterable[TableName]) -> None:
        """Drops keys that this request has noted: those of one that died have to stay until they are forgotten."""
        for table in self._noted.intersection(found):
            drop_with_files(self.spark(), table.forgotten)

    def _check_gone(self, found: Mapping[TableName, DataFrame]) -> None:
        """Raises DataError where the query of the table still gives the rows."""
        keys = found.get(self.root.table)
        if self.root.config.input != "state" or keys is None:
            return
        session = self._session(self.root)
        state = session.reconciled(session.observe())
        given = rows_now(session, state, sought(session, state, keys)[0])
        given = given.where(IS_CURRENT) if self.root.config.has_history else given
        rows = given.limit(3).collect()
        if rows:
            self._drop_keys(found)
            origins = ", ".join(sorted(map(str, self._reads[self.root.table])))
            raise DataError(
                f"{self.root.table}: its query still gives rows that are to be forgotten; nothing was done.\n"
                + "".join(f"  example: {row.asDict(recursive=True)}\n" for row in rows)
                + f"  what to do: forget or delete them where they come from ({origins}), then run this again"
            )

    def _check_recomputable(self, found: Mapping[TableName, DataFrame]) -> None:
        """Raises DataError, and drops the keys, where a table's rows can't be computed from the events that are left.

        Of tables whose keys an earlier attempt has noted, that has checked it before it purged any event.
        """
        for model in self._order[1:]:
            if model.table not in self._noted.intersection(found) or not self._is_computed_again(model):
                continue
            try:
                check(self._refresh_of(model), found[model.table], self._read_of(model, found))
            except DataError:
                self._drop_keys(found)
                raise

    def _read_of(self, model: Model, tables: Mapping[TableName, Of]) -> dict[TableName, Of]:
        """What is known of the tables whose changes a model reads."""
        return {of: tables[of] for of in changes_read(model.sql) if of in tables}

    def _delete(self, found: dict[TableName, DataFrame]) -> dict[TableName, Restated]:
        """Deletes the rows, has all models below follow, and says once more what is still there.

        Adds the keys of rows that this changes to `found`. Each model reads its upstreams as they are restated.
        """
        heads = {model.table: self._head(model) for model in self._order[1:]}
        restated: dict[TableName, Restated] = {}
        if self.root.table in found:
            restated[self.root.table] = self._erase(found[self.root.table])
        for model in self._below:
            self._note_made(model, restated, found)
            forgotten = {of: ForgottenRows(found[of], done.since, done.has_rows) for of, done in restated.items()}
            self._follow(model, found.get(model.table), forgotten)
            if model.table in heads:
                self._note_changed(model, heads[model.table], found)
                if model.table in found:
                    restated[model.table] = restate(self._session(model), found[model.table])
        return restated

    def _note_made(
        self, model: Model, restated: Mapping[TableName, Restated], found: dict[TableName, DataFrame]
    ) -> None:
        """Adds the keys of rows that a query of change events makes of those that upstreams have been restated to."""
        tables = {of: found[of] for of in restated if of != self.root.table}
        above = self._read_of(model, tables) if model in self._order else {}
        if model.config.input != "changes" or not above:
            return
        sessions = {of: self._session(self._known[of]) for of in above}
        known = {of: sought(session, session.observe(), above[of])[0] for of, session in sessions.items()}
        upstreams = self._refresh_of(model).planner.observe_upstreams()
        state = self._session(model).observe()
        keys = trace.keys_made_of(self.spark(), model, state, upstreams, known, self.reader.thresholds)
        if not keys.isEmpty():
            found[model.table] = self._stored_keys(model, keys)

    def _head(self, model: Model) -> int:
        changes, _ = built(self._session(model).observe(), model.table)
        return changes.commits[-1].version.sequence

    def _note_changed(self, model: Model, head: int, found: dict[TableName, DataFrame]) -> None:
        """Adds the keys of rows that the deletion changed or deleted, in case that their trace has not told them."""
        state = self._session(model).observe()
        changes, _ = built(state, model.table)
        if changes.commits[-1].version.sequence > head:
            keys = trace.keys_changed_after(self.spark(), model, state, head)
            if not keys.isEmpty():
                found[model.table] = self._stored_keys(model, keys)

    def _erase(self, keys: DataFrame) -> Restated:
        """Deletes the rows of the table itself; those that a query gives are gone already, but for old versions."""
        session, config = self._session(self.root), self.root.config
        if config.input == "state" and not config.has_history:
            return restate(session, keys)
        self.tell(f"{self.root.table}: delete the rows")
        until = erase(session, keys)
        state = session.observe()
        return nothing_left(session, state, sought(session, state, keys)[0], until)

    def _follow(
        self,
        model: Model,
        keys: DataFrame | None,
        forgotten: Mapping[TableName, ForgottenRows],
    ) -> None:
        """Has a model below follow what was deleted above it, and make no row under `keys` of `forgotten` rows."""
        if keys is None or model.config.input == "state":
            self._refresh(model)
            if keys is not None and model.config.has_history:
                erase(self._session(model), keys, ~F.col(IS_CURRENT))
            return
        if not self._is_computed_again(model):
            self._refresh(model)
            return
        self._refresh(model, forgotten)
        self.tell(f"{model.table}: compute the rows again without forgotten events")
        recompute(self._refresh_of(model), keys, self._read_of(model, forgotten))

    def _is_computed_again(self, model: Model) -> bool:
        """Whether rows are made again of the events that are left, and do not just follow the deletion of others."""
        is_of_events = model.config.input == "changes" and model in self._order
        return is_of_events and not takes_back(self._refresh_of(model))

    def _refresh(self, model: Model, skipped: Mapping[TableName, ForgottenRows] | None = None) -> None:
        """Brings a model up to date, as if its upstreams had no `skipped` rows."""
        if model.ingested_from is None:
            self.tell(f"{model.table}: refresh")
            self._refresh_of(model, skipped).run()

    def _refresh_of(self, model: Model, skipped: Mapping[TableName, ForgottenRows] | None = None) -> Refresh:
        return Refresh.of(model, self.reader, self.spark, narrowed=skipping(skipped or {}))

    def _purge(
        self, model: Model, found: Mapping[TableName, DataFrame], restated: Mapping[TableName, Restated]
    ) -> TableForgotten:
        if model.table != self.root.table:
            # Upstreams were purged. A run that follows that later would leave an older aggregate state behind.
            self._refresh(model)
        self.tell(f"{model.table}: rewrite the files that hold rows")
        return purge(self._session(model), restated[model.table], found[model.table].count())

    def _checked(self, done: TableForgotten) -> TableForgotten:
        model = self._known[done.table]
        session, keys = self._session(model), read_keys(self.spark(), done.table)
        self.tell(f"{model.table}: read what is left")
        scanned = scan(session, keys, sought(session, session.observe(), keys)[0])
        return replace(done, scanned_files=scanned.files, removed_files=scanned.removed, left=scanned.left)
