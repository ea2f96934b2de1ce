"""Forgets rows: deletes them from a table and all tables computed from it, and from the history of these tables.

Every step can be repeated. For this, the keys of the rows are stored in an internal table for each of the tables, from
before the first deletion until no row is left; if an attempt dies, the next one continues with the stored keys.
"""

from __future__ import annotations

import datetime
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from arctic_runtime.catalog.reader import CatalogReader
from arctic_runtime.errors import CommitConflict, ConfigError, DataError
from arctic_runtime.model.columns import IS_CURRENT
from arctic_runtime.model.forgetting import (
    Certificate,
    CloneToForget,
    Forget,
    ForgetPlan,
    TableForgotten,
    describe_clone,
)
from arctic_runtime.model.names import TableName
from arctic_runtime.model.refs import parse_cut
from arctic_runtime.model.state import require_built
from arctic_runtime.model.table import Model
from arctic_runtime.plan.forgetting import plan_clones
from arctic_runtime.spark.engine.java.java_errors import SPARK_ERRORS
from arctic_runtime.spark.forget import erase_events
from arctic_runtime.spark.forget.clone_search import list_holding_clones
from arctic_runtime.spark.forget.downstream import (
    DownstreamTables,
    check_no_clone,
    drop_stale_tags,
    select_sources_of_events,
)
from arctic_runtime.spark.forget.erase_events import ForgottenRows, check_recomputable, recompute_rows
from arctic_runtime.spark.forget.erase_rows import (
    PurgeableChanges,
    build_purgeable_without_rows,
    collect_lookup_keys,
    drop_savepoints,
    drop_with_files,
    erase_rows,
    has_keys,
    purge_files,
    read_keys,
    read_rows_now,
    recompute_frozen_rows,
    republish_rows,
)
from arctic_runtime.spark.forget.key_search import KeysByTable, KeySearch
from arctic_runtime.spark.forget.purge import count_data_to_forget, list_holding_savepoints, scan_files
from arctic_runtime.spark.maintenance.cloning import drop_clone

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@dataclass
class Forgetting:
    """One request to forget rows: to erase them from the table of `root` and from all tables computed from it.

    `models` are all models of the project. `tell` is called with lines for people about the progress, and
    `audit` with the names of clones before they are dropped.
    """

    root: Model
    models: Sequence[Model]
    reader: CatalogReader
    spark: Callable[[], SparkSession]
    request: Forget
    tell: Callable[[str], None] = lambda _: None
    audit: Callable[[Mapping[str, str]], None] = lambda _: None
    now: datetime.datetime = field(default_factory=lambda: datetime.datetime.now(datetime.timezone.utc))

    def __post_init__(self) -> None:
        self._tables = DownstreamTables(self.root, self.models, self.reader, self.spark, self.now)
        self._search = KeySearch(self._tables, self.request)
        self._purged: set[TableName] = set()

    def plan_forget(self) -> ForgetPlan:
        """Counts the keys, files, bytes, snapshots and dead letters that the request would remove; changes nothing."""
        self._check_request()
        keys_by_table = self._search.find_keys()
        tables = tuple(
            count_data_to_forget(self._tables.open_session(table), keys) for table, keys in keys_by_table.items()
        )
        letter_keys = self._search.find_dead_letter_keys(keys_by_table)
        letters = erase_events.count_dead_letters(self._tables.open_session(self.root.table), letter_keys)
        notes, clones = tuple(self._tables.list_notes()), self._plan_clones(keys_by_table)
        return ForgetPlan(tables, letters, notes, clones)

    def run_forget(self) -> Certificate:
        """Forgets the rows, scans the files for rows that are left, and returns a certificate with the result.

        Raises ConfigError if a savepoint or a clone contains rows and may not be dropped, and DataError if the query of
        `root` still returns the rows, or a table can't be recomputed without them. Nothing is forgotten in these cases.
        Raises CommitConflict if another request has forgotten the same rows meanwhile.
        """
        self._check_request()
        drop_stale_tags(self._tables)
        self._refresh_tables()
        keys_by_table = self._search.find_and_store_keys()
        try:
            return self._forget_keys(keys_by_table)
        except SPARK_ERRORS as error:
            if all(has_keys(self.reader, table) for table in keys_by_table):
                raise
            raise CommitConflict(
                f"{self.root.table}: another request has ended meanwhile, and forgot these rows as well.",
                fix="run the command again: it forgets what is left, and says what it found",
            ) from error

    def _forget_keys(self, keys_by_table: KeysByTable) -> Certificate:
        self._check_gone(keys_by_table)
        self._check_recomputable(keys_by_table)
        clones = self._choose_clones(keys_by_table)
        dropped = self._drop_savepoints(keys_by_table)
        for clone in clones:
            self.tell(f"{clone.clone}: drop the clone with its files")
            self.audit({"table": str(clone.origin), "dropped_clone": str(clone.clone), "reason": clone.reason})
            drop_clone(self._tables.open_session(clone.origin), clone.clone)
        letter_keys = self._search.find_dead_letter_keys(keys_by_table)
        letters = erase_events.drop_dead_letters(self._tables.open_session(self.root.table), letter_keys)
        purgeable = self._delete_rows(keys_by_table) if keys_by_table else {}
        purged = [
            self._purge_table(model, keys_by_table[model.table], purgeable[model.table])
            for model in self._tables.keyed
            if model.table in keys_by_table
        ]
        self._tables.begin_round()
        for model in self._tables.below:
            self._refresh_model(model)
        checked = tuple(
            self._check_files(replace(result, dropped_savepoints=dropped.get(result.table, ()))) for result in purged
        )
        at, notes = self.now.isoformat(timespec="seconds"), tuple(self._tables.list_notes())
        names = tuple(str(clone.clone) for clone in clones)
        certificate = Certificate(self.root.table, at, checked, letters.dropped, letters.left, notes, names)
        if certificate.is_clean:
            for table in keys_by_table:
                drop_with_files(self.spark(), table.forget_keys_name)
        return certificate

    def _check_request(self) -> None:
        if bool(self.request.keys) == bool(self.request.where):
            raise ConfigError(
                f"{self.root.table}: the rows to forget are not given.",
                expected="--key or --where, one of both",
                fix="run `arctic forget MODEL --key VALUE`, or `arctic forget MODEL --where PREDICATE`",
            )
        require_built(self._tables.observe_state(self.root), self.root.table)
        check_no_clone(self._tables)

    def _refresh_tables(self) -> None:
        """Refreshes all tables; upstream rows that an earlier attempt has begun to forget are not read again."""
        self._tables.begin_round()
        earlier = {table: ForgottenRows(keys) for table, keys in self._search.read_earlier_keys().items()}
        above = [self.root] if self.root.config.input == "state" else []
        for model in (*above, *self._tables.below):
            self._refresh_model(model, earlier if earlier and self._tables.is_computed_again(model) else None)

    def _plan_clones(self, keys_by_table: KeysByTable) -> tuple[CloneToForget, ...]:
        given = self._search.find_dead_letter_keys(keys_by_table)
        holding = list_holding_clones(self._tables, self.request, keys_by_table, given)
        now_ms = round(1000 * self.now.timestamp())
        return plan_clones(holding, now_ms, self.reader.profile.clone_ttl_seconds, self.request.drop_clones)

    def _choose_clones(self, keys_by_table: KeysByTable) -> tuple[CloneToForget, ...]:
        """Returns the clones to drop, which hold rows to forget.

        If one of them may not be dropped, deletes the keys that the request has stored and raises ConfigError.
        """
        clones = self._plan_clones(keys_by_table)
        kept = [describe_clone(clone) for clone in clones if clone.action == "none"]
        if kept:
            self._search.drop_keys(keys_by_table)
            raise ConfigError(
                f"{self.root.table}: clones hold rows that are to be forgotten, and may be in use; nothing was done.",
                actual="; ".join(kept),
                fix="add --drop-clones, after which `dbt clone` makes them anew; or wait until nobody has run them for "
                "the time of `clone_ttl`",
            )
        return clones

    def _drop_savepoints(self, keys_by_table: KeysByTable) -> dict[TableName, tuple[str, ...]]:
        """Drops the savepoints whose files contain rows to forget; returns their names by table.

        Cuts of builds are dropped in any case. If the request does not allow to drop others, deletes the keys that it
        has stored and raises ConfigError.
        """
        names_by_table = {
            table: list_holding_savepoints(self._tables.open_session(table), keys)
            for table, keys in keys_by_table.items()
        }
        by_users = [
            f"{name} of {table}" for table, names in names_by_table.items() for name in names if parse_cut(name) is None
        ]
        if by_users and not self.request.drop_savepoints:
            self._search.drop_keys(keys_by_table)
            raise ConfigError(
                f"{self.root.table}: savepoints hold rows that are to be forgotten; nothing was done.",
                actual=", ".join(by_users),
                fix="add --drop-savepoints, or drop them by `arctic savepoint MODEL NAME --drop`",
            )
        for table, names in names_by_table.items():
            drop_savepoints(self._tables.open_session(table), names)
        return names_by_table

    def _check_gone(self, keys_by_table: KeysByTable) -> None:
        """Raises DataError, and deletes the stored keys, if the query of `root` still returns rows to forget."""
        keys = keys_by_table.get(self.root.table)
        if self.root.config.input != "state" or keys is None:
            return
        session = self._tables.open_session(self.root.table)
        state = session.reconcile_until_done(session.observe_state())
        rows_left = read_rows_now(session, state, collect_lookup_keys(session, state, keys)[0])
        rows_left = rows_left.where(IS_CURRENT) if self.root.config.has_history else rows_left
        rows = rows_left.limit(3).collect()
        if rows:
            self._search.drop_keys(keys_by_table)
            origins = ", ".join(self._tables.origins)
            raise DataError(
                f"{self.root.table}: its query still gives rows that are to be forgotten; nothing was done.\n"
                + "".join(f"  example: {row.asDict(recursive=True)}\n" for row in rows),
                fix=f"forget or delete them where they come from ({origins}), then run this again",
            )

    def _check_recomputable(self, keys_by_table: KeysByTable) -> None:
        """Raises DataError, and deletes the stored keys, if a table can't be recomputed from its remaining events.

        Tables whose keys an earlier attempt has stored are skipped: it checked them before it purged any event.
        """
        for model in self._tables.keyed[1:]:
            if (
                model.table not in keys_by_table
                or not self._search.has_stored(model.table)
                or not self._tables.is_computed_again(model)
            ):
                continue
            try:
                check_recomputable(
                    self._tables.open_refresh(model),
                    keys_by_table[model.table],
                    select_sources_of_events(model, keys_by_table),
                )
            except DataError:
                self._search.drop_keys(keys_by_table)
                raise

    def _delete_rows(self, keys_by_table: KeysByTable) -> dict[TableName, PurgeableChanges]:
        """Deletes the rows from the root table, and then from each table below by a refresh or by recomputing.

        Rows of these keys that still exist afterwards are published again, so that older change rows can be
        purged. Each model reads the published rows of its upstreams. Adds to `keys_by_table` the keys of further rows
        that this changes. Returns the `PurgeableChanges` of each table.
        """
        heads = {model.table: self._get_head_sequence(model) for model in self._tables.keyed[1:]}
        purgeable: dict[TableName, PurgeableChanges] = {}
        if self.root.table in keys_by_table:
            purgeable[self.root.table] = self._erase_keys(keys_by_table[self.root.table])
        self._tables.begin_round()
        for model in self._tables.below:
            self._search.add_produced_keys(model, purgeable, keys_by_table)
            forgotten = {
                table: ForgottenRows(keys_by_table[table], done.since, done.has_rows)
                for table, done in purgeable.items()
            }
            self._follow_deletion(model, keys_by_table.get(model.table), forgotten)
            if model.table in heads:
                self._search.add_changed_keys(model, heads[model.table], keys_by_table)
                if model.table in keys_by_table:
                    purgeable[model.table] = republish_rows(
                        self._tables.open_session(model.table), keys_by_table[model.table]
                    )
        return purgeable

    def _get_head_sequence(self, model: Model) -> int:
        changes, _ = require_built(self._tables.observe_state(model), model.table)
        return changes.commits[-1].version.sequence

    def _erase_keys(self, keys: DataFrame) -> PurgeableChanges:
        """Deletes the rows of `keys` from the root table, and returns its `PurgeableChanges`, the change rows to purge.

        If the table has `input: state`, the rows are already gone, since its query does not return them; then only old
        change rows or versions remain to be removed.
        """
        session, config = self._tables.open_session(self.root.table), self.root.config
        if config.input == "state" and not config.has_history:
            return republish_rows(session, keys)
        self.tell(f"{self.root.table}: delete the rows")
        until = erase_rows(session, keys)
        state = session.observe_state()
        return build_purgeable_without_rows(session, state, collect_lookup_keys(session, state, keys)[0], until)

    def _follow_deletion(
        self,
        model: Model,
        keys: DataFrame | None,
        forgotten: Mapping[TableName, ForgottenRows],
    ) -> None:
        """Updates a model after the `forgotten` rows were deleted from its upstreams.

        Afterwards no row of `keys` depends on the forgotten rows. None for `keys` means that no row of the model
        depends on forgotten rows; the model is then only refreshed.
        """
        if keys is None or model.config.input == "state":
            self._refresh_model(model)
            if keys is not None and model.config.frozen_where is not None:
                recompute_frozen_rows(self._tables.open_refresh(model), keys)
            if keys is not None and model.config.has_history:
                erase_rows(self._tables.open_session(model.table), keys, ~F.col(IS_CURRENT))
            return
        if not self._tables.is_computed_again(model):
            self._refresh_model(model)
            return
        self._refresh_model(model, forgotten)
        self.tell(f"{model.table}: compute the rows again without forgotten events")
        recompute_rows(self._tables.open_refresh(model), keys, select_sources_of_events(model, forgotten))

    def _refresh_model(self, model: Model, skipped: Mapping[TableName, ForgottenRows] | None = None) -> None:
        """Refreshes a model without reading the `skipped` rows of its upstreams; does nothing for an ingested table."""
        if model.ingested_from is None:
            self.tell(f"{model.table}: refresh")
            self._tables.open_refresh(model, skipped).run_refresh()

    def _purge_table(self, model: Model, keys: DataFrame, purgeable: PurgeableChanges) -> TableForgotten:
        if model.table != self.root.table:
            # Upstreams were purged. A run after that would leave an older aggregate state behind, so it is done now.
            self._tables.pin_versions_of_round(model, self._purged)
            self._refresh_model(model)
        self.tell(f"{model.table}: rewrite the files that hold rows")
        purged = purge_files(self._tables.open_session(model.table), purgeable, keys.count())
        self._purged.add(model.table)
        return purged

    def _check_files(self, done: TableForgotten) -> TableForgotten:
        session, keys = self._tables.open_session(done.table), read_keys(self.spark(), done.table)
        self.tell(f"{done.table}: read what is left")
        scanned = scan_files(session, keys, collect_lookup_keys(session, session.observe_state(), keys)[0])
        return replace(done, scanned_files=scanned.files, removed_files=scanned.removed, left=scanned.left)
