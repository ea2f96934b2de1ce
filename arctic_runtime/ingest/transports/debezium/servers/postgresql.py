"""Checks and prepares PostgreSQL for Debezium (rights, settings, replication slot), and queries the end of its log."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from arctic_runtime.errors import SourceError
from arctic_runtime.ingest.formats.event_format import NumberedColumns, SourceColumn
from arctic_runtime.ingest.transports.debezium.connection import DebeziumConnection
from arctic_runtime.ingest.transports.debezium.java_methods import NO_POSTGRESQL_DEFAULTS, insert_code
from arctic_runtime.ingest.transports.debezium.position import Position, Source
from arctic_runtime.ingest.transports.debezium.postgresql_support import POSTGRESQL_SUPPORT
from arctic_runtime.ingest.transports.debezium.servers.log_orders import WalOrder
from arctic_runtime.ingest.transports.debezium.servers.postgresql_log import (
    check_same_log,
    get_log_end,
    identify_log,
)
from arctic_runtime.ingest.transports.debezium.servers.postgresql_publication import Publication, ReplicationSlot
from arctic_runtime.ingest.transports.debezium.servers.postgresql_requirements import (
    check_requirements,
    find_unreadable,
    warn_of_refused_updates,
)
from arctic_runtime.ingest.transports.debezium.servers.postgresql_tables import (
    COLUMNS,
    TableColumn,
    check_kinds,
    check_tables,
    describe_generated,
    find_unlogged,
    number_columns,
    read_columns,
)
from arctic_runtime.ingest.transports.debezium.servers.source_database import (
    POSTGRESQL_DATES,
    SourceDatabase,
    build_catalog_tables,
    build_snapshot_queries,
)
from arctic_runtime.ingest.transports.transport import CatalogTable
from arctic_runtime.thresholds import DebeziumThresholds

MESSAGE = "arctic"
"""Prefix of the logical decoding messages that are written to the log, so that the stream shows how far it was read."""

_KEY = """
select a.attname from pg_index i
join pg_class c on c.oid = i.indrelid join pg_namespace n on n.oid = c.relnamespace
join pg_attribute a on a.attrelid = i.indrelid and a.attnum = any (i.indkey)
where i.indisprimary and n.nspname = ? and c.relname = ?
order by array_position(i.indkey::int2[], a.attnum)
"""
_SETTINGS = "select lower(name), reset_val from pg_settings"
_READ_SETTINGS = {"intervalstyle": "postgres", "bytea_output": "hex", "extra_float_digits": "1"}
"""Settings with which the server writes values as Debezium reads them; others may be set for a user or a database."""

_OPTIONS = "driver.options"
"""Debezium's property with the settings of its sessions."""

_CATALOG = """
select n.nspname, c.relname, a.attname from pg_class c
join pg_namespace n on n.oid = c.relnamespace
left join pg_index i on i.indrelid = c.oid and i.indisprimary
left join pg_attribute a on a.attrelid = c.oid and a.attnum = any (i.indkey)
where c.relkind in ('r', 'p') and not c.relispartition and c.relpersistence = 'p'
  and n.nspname not in ('pg_catalog', 'information_schema')
  and has_table_privilege(c.oid, 'select')
order by n.nspname, c.relname, array_position(i.indkey::int2[], a.attnum)
"""

_ROWS = "greatest({table}.reltuples, pg_stat_get_live_tuples({table}.oid))"
_ESTIMATES = f"""
select n.nspname || '.' || c.relname, round(coalesce(
  (select sum({_ROWS.format(table="part")}) from pg_partition_tree(c.oid) tree
    join pg_class part on part.oid = tree.relid where tree.isleaf),
  {_ROWS.format(table="c")}))::bigint
from pg_class c join pg_namespace n on n.oid = c.relnamespace
where c.relkind in ('r', 'p') and n.nspname not in ('pg_catalog', 'information_schema')
"""


class PostgreSQL:
    """The SourceServer for PostgreSQL."""

    order = WalOrder()
    gives_signs_of_life = False

    def __init__(self, connection: DebeziumConnection, thresholds: DebeziumThresholds) -> None:
        self._connection = connection
        self._database = SourceDatabase(connection, thresholds.heap_bytes)
        self._publication = Publication(connection, self._database, thresholds)
        self._slot = ReplicationSlot(connection, self._database, thresholds)
        insert_code((*POSTGRESQL_SUPPORT, *NO_POSTGRESQL_DEFAULTS))

    def check_server(self, position: Position | None) -> None:
        """Raises SourceError for anything that would make Debezium fail or lose changes; changes nothing at the server.

        `position` is None for a source that was never ingested.
        """
        check_requirements(self._connection, self._database)
        is_snapshot = position is None or position.is_snapshot
        if position is not None and not is_snapshot:
            check_same_log(self._connection, self._database, position)
        if is_snapshot:
            check_kinds(self._connection, self._database)
        check_tables(self._connection, self._database, is_snapshot)
        self._publication.check_publication(is_snapshot)
        if position is None:
            warn_of_refused_updates(self._connection, self._database)
        self._slot.check_slot(position)

    def prepare_server(self, position: Position) -> None:
        """Checks the server, and prepares it for reading from `position` on.

        At the begin of a snapshot, an old slot is dropped. With an old slot, Debezium would lose transactions that are
        committed between the begin of the snapshot and the moment at which Debezium reads the end of the log.
        """
        self.check_server(position)
        if position.is_snapshot:
            self._slot.drop_slot()
            self._publication.complete_publication()
        else:
            self._slot.wait_for_release()

    def publish_tables(self, tables: Collection[str]) -> None:
        """Adds tables to the publication; has to be called before their snapshot begins.

        The stream does not have rows that are written to a table before it is added. A slot that is created afterwards
        waits for all transactions that were running, so that its snapshot has the rows that they wrote.
        """
        self._publication.complete_publication(tables)

    def withdraw_tables(self) -> None:
        self._publication.withdraw_tables()

    def commit_marker(self) -> None:
        self._check_primary()
        self._database.fetch_one("select pg_logical_emit_message(true, ?, '')::text", (MESSAGE,))

    def get_stream_start(self, _: Source) -> Source:
        """Returns the offset at which the stream begins after a snapshot: the LSN at which the slot was created.

        The slot still has this LSN, since nothing has been acknowledged yet.
        """
        return {"lsn": self._slot.get_start()}

    def identify_log(self) -> Mapping[str, str] | None:
        return identify_log(self._database)

    def get_log_end(self) -> int:
        """Returns the current end of the write-ahead log, as an LSN, a number of bytes."""
        return get_log_end(self._database)

    def push_log_end(self) -> None:
        """Writes a message that belongs to no table into the log, so that the stream of an idle database advances.

        Otherwise the server would keep its log for ever while only tables change that are not read. Raises SourceError
        on a standby.
        """
        self._check_primary()
        self._database.fetch_one("select pg_logical_emit_message(false, ?, '')::text", (MESSAGE,))

    def has_reached(self, position: Position, end: int) -> bool:
        """Whether everything that was committed before the log end `end` is read at `position`."""
        return not position.is_snapshot and position.reached is not None and position.reached >= end

    def list_catalog(self) -> list[CatalogTable]:
        return build_catalog_tables(self._database.fetch_rows(_CATALOG))

    def find_unsent(
        self,
        tables: Collection[str],
        streamed: Collection[str],  # noqa: ARG002 - the interface
    ) -> Mapping[str, SourceError | None]:
        unpublished = self._publication.find_unpublished(tables)
        return {**unpublished, **find_unlogged(self._connection, self._database, tables)}

    def estimate_rows(self) -> Mapping[str, int]:
        return {str(table): int(rows or 0) for table, rows in self._database.fetch_rows(_ESTIMATES)}

    def find_unreadable(self, tables: Collection[str]) -> Mapping[str, str]:
        return find_unreadable(self._connection.select_tables(tables), self._database)

    def get_primary_key(self, schema: str, table: str) -> tuple[str, ...]:
        """Returns the columns of a table's primary key, in order; empty if it has none."""
        return tuple(str(row[0]) for row in self._database.fetch_rows(_KEY, (schema, table)))

    def build_properties(self) -> Mapping[str, str]:
        """Returns Debezium's properties of the queries of a snapshot, and of the settings of its sessions.

        Settings are passed only if the server's are others, since proxies may refuse connections with settings.
        """
        selects = build_snapshot_queries(self._database.fetch_rows(POSTGRESQL_DATES), self._connection)
        settings = {row[0]: row[1] for row in self._database.fetch_rows(_SETTINGS)}
        if settings.items() >= _READ_SETTINGS.items():
            return selects
        return {**selects, _OPTIONS: " ".join(f"-c {name}={value}" for name, value in _READ_SETTINGS.items())}

    def close_connection(self) -> None:
        self._database.close_connection()

    def list_columns(
        self,
        schema: str,
        table: str,
        columns: Sequence[SourceColumn],
        history: str | None,  # noqa: ARG002 - the interface
    ) -> NumberedColumns:
        values = (schema, table, self._connection.publication, schema, table)
        known = read_columns(self._database.fetch_rows(COLUMNS, values))
        self._check_generated(f"{schema}.{table}", known)
        chosen = {"column.include.list", "column.exclude.list"} & set(self._connection.properties)
        return number_columns(columns, known, is_chosen=bool(chosen))

    def _check_generated(self, table: str, columns: Sequence[TableColumn]) -> None:
        """Raises SourceError if a column has become a generated column since ingestion began."""
        generated = [(table, column.name, None) for column in columns if column.is_generated]
        if rows := [row for row in generated if self._connection.is_column_read(table, str(row[1]))]:
            raise self._connection.build_error(*describe_generated(rows))

    def explain_failure(self, error: Any, reason: str) -> SourceError:
        """Builds the error that says why Debezium stopped.

        The cause is the Java exception `error`, or the text `reason` if `error` is None.
        """
        return self._database.to_source_error(error) if error is not None else self._database.build_lost_error(reason)

    def _check_primary(self) -> None:
        if self._database.fetch_one("select pg_is_in_recovery()::text") == "true":
            raise self._connection.build_error(
                "the server is a standby, where no place of the log can be marked",
                "read the primary, or run without --once and with the tables of the first run",
            )
