"""Searches a table and all tables computed from it for the keys of rows to forget, and stores these keys."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from pyspark.sql import DataFrame

from arctic_runtime.errors import ConfigError
from arctic_runtime.model.forgetting import Forget
from arctic_runtime.model.names import TableName, list_changes_read
from arctic_runtime.model.state import TableState, require_built
from arctic_runtime.model.table import Model
from arctic_runtime.spark.forget import trace
from arctic_runtime.spark.forget.downstream import DownstreamTables, select_sources_of_events
from arctic_runtime.spark.forget.erase_rows import collect_lookup_keys, drop_with_files, has_keys, keep_keys, read_keys
from arctic_runtime.spark.tables.rows.frames import Keys

KeysByTable = dict[TableName, DataFrame]


class KeySearch:
    """Determines, for each table, the keys of the rows that a request forgets, and stores them in internal tables.

    Keys that are stored already come from an earlier attempt that died. They stay until their rows are forgotten.
    """

    def __init__(self, tables: DownstreamTables, request: Forget) -> None:
        self._tables = tables
        self._request = request
        self._stored: set[TableName] = set()

    def find_keys(self) -> KeysByTable:
        """Returns the keys of rows to forget, by table, collected to the driver; stores nothing."""
        return self._trace_keys(self._hold_keys)

    def find_and_store_keys(self) -> KeysByTable:
        """Stores the keys of rows to forget, and returns them by table, together with those of earlier attempts."""
        return self._trace_keys(self._store_keys)

    def read_earlier_keys(self) -> KeysByTable:
        """Reads the stored keys by table; before `find_and_store_keys`, these are from attempts that died."""
        keyed = [model.table for model in self._tables.keyed]
        return {
            table: read_keys(self._tables.spark(), table) for table in keyed if has_keys(self._tables.reader, table)
        }

    def has_stored(self, table: TableName) -> bool:
        """Whether all stored keys of a table are from this request, and none from an earlier attempt."""
        return table in self._stored

    def drop_keys(self, tables: Iterable[TableName]) -> None:
        """Deletes the keys of `tables` that this request has stored; keys of earlier attempts stay."""
        for table in self._stored.intersection(tables):
            drop_with_files(self._tables.spark(), table.forget_keys_name)

    def find_dead_letter_keys(self, keys_by_table: KeysByTable) -> DataFrame | None:
        """Returns the keys for which dead letters are searched; None if there are none.

        These are the keys that the request names, even if the root table never had them. If it names none, they are
        those of the root table in `keys_by_table`.
        """
        root = self._tables.root
        if not self._request.keys:
            return keys_by_table.get(root.table)
        state = self._tables.observe_state(root)
        return trace.parse_given_keys(self._tables.spark(), root, state, self._request.keys)

    def add_produced_keys(self, model: Model, republished: Iterable[TableName], keys_by_table: KeysByTable) -> None:
        """Adds to `keys_by_table`, and stores, the keys of a model's rows that are computed from republished rows.

        `republished` are the tables above the model that have republished their rows: published the remaining rows of
        forgotten keys again. Does nothing unless the model has a query of change events that reads such tables.
        """
        above = {table: keys_by_table[table] for table in republished if table != self._tables.root.table}
        above = select_sources_of_events(model, above) if model in self._tables.keyed else {}
        if model.config.input != "changes" or not above:
            return
        known = {table: self._collect_lookup(table, keys) for table, keys in above.items()}
        made = self._list_keys_made_of(model, self._tables.observe_state(model), known)
        self._add_keys(model, made, keys_by_table)

    def add_changed_keys(self, model: Model, head: int, keys_by_table: KeysByTable) -> None:
        """Adds to `keys_by_table`, and stores, keys of rows that were made of forgotten ones after the search.

        These are rows that commits after `head`, a sequence number of the change table, updated or deleted. Rows that
        other changes have updated or deleted meanwhile keep their history.
        """
        state = self._tables.observe_state(model)
        changes, _ = require_built(state, model.table)
        if changes.commits[-1].version.sequence <= head:
            return
        changed = trace.list_keys_changed_after(self._tables.spark(), model, state, head)
        known = keys_by_table.get(model.table)
        others = changed if known is None else changed.join(known, list(changed.columns), "left_anti")
        if not others.isEmpty():
            made = self._find_keys_below(model, state, keys_by_table)
            self._add_keys(model, others.join(made, list(others.columns), "left_semi"), keys_by_table)

    def _find_keys_below(self, model: Model, state: TableState, keys_by_table: KeysByTable) -> DataFrame:
        """Returns the keys of a model's rows that are made of rows with known keys of the tables that it reads."""
        known = {table: keys for table, keys in keys_by_table.items() if self._tables.reads_rows_of(model, table)}
        lookups = {table: self._collect_lookup(table, keys) for table, keys in known.items()}
        return self._list_keys_made_of(model, state, lookups)

    def _add_keys(self, model: Model, keys: DataFrame, keys_by_table: KeysByTable) -> None:
        if not keys.isEmpty():
            keys_by_table[model.table] = self._store_keys(model, keys)

    def _collect_lookup(self, table: TableName, keys: DataFrame) -> Keys:
        session = self._tables.open_session(table)
        return collect_lookup_keys(session, session.observe_state(), keys)[0]

    def _trace_keys(self, store: Callable[[Model, DataFrame], DataFrame]) -> KeysByTable:
        """Determines the keys of rows to forget in each table, and passes them to `store`; returns all keys by table.

        `store` returns all known keys of a table, also those of earlier attempts. Tables without keys are left out.
        """
        keys_by_table: KeysByTable = {}
        known: dict[TableName, Keys] = {}
        for model in self._tables.keyed:
            session = self._tables.open_session(model.table)
            state = session.observe_state()
            keys = store(model, self._find_table_keys(model, state, known))
            lookup, count = collect_lookup_keys(session, state, keys)
            if count:
                keys_by_table[model.table], known[model.table] = keys, lookup
        self._check_without_key(known)
        return keys_by_table

    def _find_table_keys(self, model: Model, state: TableState, known: Mapping[TableName, Keys]) -> DataFrame:
        spark, session = self._tables.spark(), self._tables.open_session(model.table)
        if model.table == self._tables.root.table and self._request.where is not None:
            return trace.find_keys_where(spark, model, state, self._request.where)
        if model.table == self._tables.root.table:
            given = trace.parse_given_keys(spark, model, state, self._request.keys)
            return trace.list_keys_ever(spark, model, state, collect_lookup_keys(session, state, given)[0])
        forgotten = {table: keys for table, keys in known.items() if self._tables.reads_rows_of(model, table)}
        if not forgotten:
            return trace.list_keys_ever(spark, model, state).limit(0)
        made = self._list_keys_made_of(model, state, forgotten)
        return trace.list_keys_ever(spark, model, state, collect_lookup_keys(session, state, made)[0])

    def _list_keys_made_of(self, model: Model, state: TableState, forgotten: Mapping[TableName, Keys]) -> DataFrame:
        session, upstreams = self._tables.open_session(model.table), self._tables.observe_upstreams(model)
        return trace.list_keys_made_of(session, state, upstreams, forgotten)

    def _check_without_key(self, known: Mapping[TableName, Keys]) -> None:
        """Raises ConfigError if a table without a primary key has rows computed from rows of `known` keys.

        Without a key it is unknown which rows these are.
        """
        for model in self._tables.appended:
            forgotten = {table: keys for table, keys in known.items() if table in list_changes_read(model.sql)}
            if not forgotten:
                continue
            if trace.has_events_of(
                self._tables.open_session(model.table), self._tables.observe_upstreams(model), forgotten
            ):
                self.drop_keys(known)
                raise ConfigError(
                    f"{model.table} has rows made of those that are to be forgotten, and no primary key that tells "
                    "which; nothing was done.",
                    fix=(
                        f"give the model a `primary_key`; or `arctic reset {model.table.name} --yes`, then `arctic "
                        "forget` again, and build it anew"
                    ),
                )

    def _hold_keys(self, model: Model, keys: DataFrame) -> DataFrame:
        """Returns `keys` together with the keys that an earlier attempt has stored, collected to the driver."""
        if has_keys(self._tables.reader, model.table):
            keys = keys.unionByName(read_keys(self._tables.spark(), model.table))
        return trace.hold_in_driver(self._tables.spark(), keys.distinct())

    def _store_keys(self, model: Model, keys: DataFrame) -> DataFrame:
        spark, reader = self._tables.spark(), self._tables.reader
        searched = keys.persist()  # Computing them reads all change rows.
        try:
            if not has_keys(reader, model.table):
                if searched.isEmpty():
                    return trace.hold_in_driver(spark, searched)
                self._stored.add(model.table)
            keep_keys(spark, reader, model.table, searched)
        finally:
            searched.unpersist()
        return read_keys(spark, model.table)
