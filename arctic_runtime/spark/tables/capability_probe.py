"""Tests which capabilities a catalog has, such as views, by temporary tables and a temporary view."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass

from pyspark.sql import SparkSession
from typing_extensions import LiteralString

from arctic_runtime.catalog.reader import CatalogReader
from arctic_runtime.catalog.required_capabilities import describe_catalog
from arctic_runtime.catalog_kinds.capabilities import BRANCHES, Capabilities, build_lack_error
from arctic_runtime.errors import ArcticError, CatalogError, CommitConflict
from arctic_runtime.model.names import TableName
from arctic_runtime.spark.engine.java.java_errors import SPARK_ERRORS, is_network_error
from arctic_runtime.spark.engine.statement import Sql, fill_statement, quote_name
from arctic_runtime.spark.tables.commit import perform_statement, read_tips
from arctic_runtime.spark.tables.context import Context

_BRANCH = "arctic_probe"


@dataclass(frozen=True)
class CapabilityProbe:
    """Tests capabilities of a catalog in `schema`, by relations whose names are made of `arctic_probe_` and `token`.

    The relations are dropped after the test.
    """

    spark: SparkSession
    reader: CatalogReader
    schema: str
    token: str

    def probe_all(self) -> Capabilities:
        """Tests all capabilities except transactions over several tables, which the kind of the catalog determines.

        Raises Spark's error if not even a plain table can be created.
        """
        with self._make_table() as (table, has_format_version_3):
            return Capabilities(
                branches=self._succeeds(lambda: self._try_branch(table)),
                views=self._succeeds(lambda: self._try_view(table)),
                staged_creation=self._succeeds(self._try_staged_creation),
                format_version_3=has_format_version_3,
                conditional_writes=self._try_stale_commit(table) if self.reader.is_supported else None,
            )

    def probe_branches(self) -> bool:
        """Whether the catalog supports branches of tables besides main."""
        with self._make_table() as (table, _):
            return self._succeeds(lambda: self._try_branch(table))

    @contextmanager
    def _make_table(self) -> Iterator[tuple[TableName, bool]]:
        """Yields a new table with one row, and whether it has format version 3; drops the table when the block ends."""
        table = self._get_name("table")
        try:
            has_format_version_3 = self._succeeds(lambda: self._try_format_version_3(table))
            if not has_format_version_3:
                self._perform_write("CREATE TABLE IF NOT EXISTS {table} (one int) USING iceberg", table)
            self._perform_write("INSERT INTO {table} VALUES (1)", table)
            yield table, has_format_version_3
        finally:
            self._drop_relation("DROP TABLE IF EXISTS {table} PURGE", table)

    def _succeeds(self, attempt: Callable[[], bool]) -> bool:
        """Whether an attempt succeeds; raises its error if that is one of the network, which says nothing of a catalog.

        Nobody else knows the names of the relations, so a conflict is about a request that the network has repeated,
        or about a branch that the catalog has not kept.
        """
        try:
            return attempt()
        except CommitConflict as error:
            if "does not exist" in f"{error} {error.__cause__}":
                return False
            raise
        except (ArcticError, *SPARK_ERRORS) as error:
            if is_network_error(error):
                raise CatalogError(
                    f"{describe_catalog(self.reader.profile)}: its capabilities could not be tested.",
                    actual=str(error).partition("\n")[0],
                    fix="run again; if the error stays, check the network and the server",
                ) from error
            return False

    def _try_format_version_3(self, table: TableName) -> bool:
        self._perform_write(
            "CREATE TABLE {table} (one int) USING iceberg TBLPROPERTIES ('format-version' = '3')", table
        )
        self.spark.table(quote_name(*table.parts)).select("_last_updated_sequence_number").collect()
        return True

    def _try_branch(self, table: TableName) -> bool:
        """Creates a branch and commits to it; returns whether the branch exists then, since a catalog may ignore it."""
        self._perform_write("ALTER TABLE {table} CREATE BRANCH {branch}", table, branch=quote_name(_BRANCH))
        branch = quote_name(*table.to_branch_parts(_BRANCH))
        self._perform_write("INSERT INTO {branch} VALUES (2)", table, branch=branch)
        tips = read_tips(self.spark, table, "main", _BRANCH)
        return _BRANCH in tips and tips[_BRANCH] != tips.get("main")

    def _try_view(self, table: TableName) -> bool:
        view = self._get_name("view")
        try:
            self._perform_write("CREATE VIEW {view} AS SELECT one FROM {table}", table, view=quote_name(*view.parts))
            self._perform_write(
                "CREATE OR REPLACE VIEW {view} AS SELECT one FROM {table}", table, view=quote_name(*view.parts)
            )
            return not self.reader.is_supported or self.reader.load_view(view.schema, view.name).sql is not None
        except NotImplementedError:
            return False
        finally:
            self._drop_relation("DROP VIEW IF EXISTS {table}", view)

    def _try_staged_creation(self) -> bool:
        table = self._get_name("staged")
        try:
            self._perform_write("CREATE TABLE {table} USING iceberg AS SELECT 1 AS one", table)
        finally:
            self._drop_relation("DROP TABLE IF EXISTS {table} PURGE", table)
        return True

    def _try_stale_commit(self, table: TableName) -> bool:
        """Whether the catalog refuses a commit on top of the first snapshot of a table that has a newer one.

        For a catalog without a server of its own, pyiceberg compares the snapshots and refuses.
        """
        from pyiceberg.exceptions import CommitFailedException
        from pyiceberg.table.update import AssertRefSnapshotId, SetPropertiesUpdate

        self._perform_write("INSERT INTO {table} VALUES (3)", table)
        loaded = self.reader.load_table(table.schema, table.name)
        oldest = loaded.metadata.snapshots[0].snapshot_id
        requirement = AssertRefSnapshotId.model_validate({"ref": "main", "snapshot-id": oldest})
        update = SetPropertiesUpdate(updates={"comment": "stale"})

        def commit_update() -> bool:
            try:
                self.reader.catalog.commit_table(loaded, (requirement,), (update,))
            except CommitFailedException:
                return True
            return False

        return self.reader.perform_change("probe.write", f"commit to an older version of {table}", commit_update)

    def _get_name(self, what: str) -> TableName:
        return TableName(self.reader.profile.catalog, self.schema, f"arctic_probe_{what}_{self.token}")

    def _perform_write(self, template: LiteralString, table: TableName, **parts: Sql) -> None:
        statement = fill_statement(template, table=quote_name(*table.parts), **parts)
        perform_statement("probe.write", self.spark, statement)

    def _drop_relation(self, template: LiteralString, relation: TableName) -> None:
        """Drops a relation; ignores errors, since a relation that is left behind harms nobody."""
        statement = fill_statement(template, table=quote_name(*relation.parts))
        with suppress(ArcticError, *SPARK_ERRORS):
            perform_statement("probe.drop", self.spark, statement)


def require_branches(context: Context) -> None:
    """Raises ConfigError if the catalog does not support branches of tables.

    If the kind of the catalog does not determine this, tests it once for each reader, by a temporary table.
    """
    reader, table = context.reader, context.model.table
    if reader.capabilities.branches is None:
        probe = CapabilityProbe(context.spark, reader, table.schema, context.token)
        reader.learn_capabilities(Capabilities(branches=probe.probe_branches()))
    if not reader.capabilities.branches:
        raise build_lack_error(str(table), describe_catalog(reader.profile), BRANCHES)
