"""The publication of PostgreSQL, which selects the tables of the stream, and the replication slot, which keeps the log.

Ingestion creates a publication if there is none, marks it by a comment, and alters only a publication with this mark.
Any other publication belongs to whoever created it: it is used unaltered, and refused if it leaves out tables, columns
or rows that are read.
"""

from __future__ import annotations

import json
import time
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from functools import cached_property

from arctic_runtime.errors import SourceError
from arctic_runtime.ingest.transports.debezium.connection import PUBLICATION_MODE, DebeziumConnection
from arctic_runtime.ingest.transports.debezium.position import Position
from arctic_runtime.ingest.transports.debezium.servers.source_database import RESYNC, Row, SourceDatabase
from arctic_runtime.thresholds import DebeziumThresholds

VIA_ROOT = "publish.via.partition.root"
MARK = "kept by arctic ingest"
"""The comment on a publication that ingestion created, which permits ingestion to alter it."""

_PUBLICATION = """
select obj_description(oid, 'pg_publication'),
  concat_ws(', ', case when not pubinsert then 'insert' end, case when not pubupdate then 'update' end,
    case when not pubdelete then 'delete' end, case when not pubtruncate then 'truncate' end),
  pg_has_role(pubowner, 'usage') and not pg_is_in_recovery()
from pg_publication where pubname = ?
"""
_TABLES = """
select n.nspname || '.' || c.relname, format('%I.%I', n.nspname, c.relname), pg_has_role(c.relowner, 'usage'),
  t.tablename is not null, to_jsonb(t) ->> 'rowfilter',
  (select json_agg(a.attname order by a.attnum) from pg_attribute a
   where a.attrelid = c.oid and a.attnum > 0 and not a.attisdropped and a.attgenerated = ''
     and not jsonb_exists(to_jsonb(t) -> 'attnames', a.attname)),
  (select string_agg(root.relid::regclass::text, ', ') from pg_partition_ancestors(c.oid) root
   join pg_publication_rel r on r.prrelid = root.relid join pg_publication p on p.oid = r.prpubid
   where p.pubname = name and p.pubviaroot and root.relid <> c.oid)
from (select ?::name as name) own
cross join pg_class c join pg_namespace n on n.oid = c.relnamespace
left join pg_publication_tables t on t.pubname = name and t.schemaname = n.nspname and t.tablename = c.relname
where c.relkind in ('r', 'p') and n.nspname not in ('pg_catalog', 'information_schema')
order by n.nspname, c.relname
"""
_PUBLISHED = """
select n.nspname || '.' || c.relname, format('%I.%I', n.nspname, c.relname) from pg_publication p
join pg_publication_rel r on r.prpubid = p.oid
join pg_class c on c.oid = r.prrelid join pg_namespace n on n.oid = c.relnamespace
where p.pubname = ? and pg_has_role(p.pubowner, 'usage') and not pg_is_in_recovery()
"""
_RELOAD = ", then `arctic ingest --resync` with the name of the table, which reads it again"
_MAY_CREATE = "select has_database_privilege(current_database(), 'create')"
_QUOTED = "select quote_ident(?)"


@dataclass(frozen=True)
class _Table:
    """A table that is read, and how the publication publishes it."""

    name: str
    quoted: str
    """The table's name in SQL."""

    is_owned: bool
    """Whether the user has the rights of the table's owner."""

    is_published: bool
    """Whether the publication contains the table."""

    row_filter: str | None
    """SQL condition of the rows that the publication sends; None for all rows."""

    unsent: tuple[str, ...]
    """Columns that a column list of the publication leaves out."""

    root: str | None
    """If the table is a partition, the published table under whose name its changes are sent.

    None if they are sent under its own name.
    """


class Publication:
    """The PostgreSQL publication that a connection reads."""

    def __init__(
        self, connection: DebeziumConnection, database: SourceDatabase, thresholds: DebeziumThresholds
    ) -> None:
        self._connection = connection
        self._database = database
        self._lock_seconds = thresholds.lock_seconds

    def check_publication(self, is_snapshot: bool) -> None:
        """Raises SourceError, with a fix, if the publication leaves out changes of tables to read; alters nothing.

        Before a snapshot (`is_snapshot`), tables that ingestion may add are allowed to be missing. Later, the tables
        that are missing are those of `find_unpublished`.
        """
        row, tables = self._read_row(), self._list_tables()
        missing = [table for table in tables if not table.is_published]
        after = "" if is_snapshot else _RELOAD
        if row is not None:
            self._check_content(row, tables, after)
        if tables and row is None and not is_snapshot:
            raise self._build_lack_error(row, missing, ", then `arctic ingest --resync`, which reads the tables again")
        if tables and is_snapshot and (row is None or missing) and not self._can_add(row, missing):
            raise self._build_lack_error(row, missing)

    def find_unpublished(self, tables: Collection[str]) -> dict[str, SourceError | None]:
        """Returns those of `tables` that exist and that the publication lacks, each with the error.

        The error is None for a table that `complete_publication` adds. Without a publication, no table is returned.
        """
        if (row := self._read_row()) is None:
            return {}
        missing = [table for table in self._list_tables(tables) if not table.is_published]
        return {
            table.name: None
            if self._can_add(row, [table])
            else self._build_lack_error(row, [table], "; then the table is loaded by itself")
            for table in missing
        }

    def complete_publication(self, tables: Collection[str] | None = None) -> None:
        """Creates the publication, or adds missing tables to it.

        `tables` are the tables to add; None stands for all tables of the connection. Raises SourceError if ingestion
        may not alter the publication.
        """
        row = self._read_row()
        missing = [table for table in self._list_tables(tables) if not table.is_published]
        if row is not None and not missing:
            return
        if not self._can_add(row, missing):
            raise self._build_lack_error(row, missing)
        # Both statements run in one transaction, so that no publication of ingestion is without its mark.
        mark = f"; comment on publication {self._name} is '{MARK}'" if row is None else ""
        self._run_statement(f"{self._write_addition(row, missing)}{mark}")

    def withdraw_tables(self) -> None:
        """Removes tables that are no longer read from the publication, if ingestion created it."""
        if not self._is_kept(self._read_row()):
            return
        for table, quoted in self._database.fetch_rows(_PUBLISHED, (self._connection.publication,)):
            if not self._connection.is_read(str(table)):
                self._run_statement(f"alter publication {self._name} drop table {quoted}")

    def _run_statement(self, sql: str) -> None:
        """Runs a statement that locks tables; raises SourceError if another transaction has a lock for too long.

        Without the limit the connection would be taken for a lost one, and the statement would go on at the server.
        """
        self._database.fetch_rows(f"set lock_timeout = '{self._lock_seconds:g}s'")
        self._database.fetch_rows(sql)

    @cached_property
    def _name(self) -> str:
        """The publication's name in SQL."""
        return str(self._database.fetch_one("select quote_ident(?)", (self._connection.publication,)))

    def _read_row(self) -> Row | None:
        rows = self._database.fetch_rows(_PUBLICATION, (self._connection.publication,))
        return rows[0] if rows else None

    def _list_tables(self, names: Collection[str] | None = None) -> list[_Table]:
        rows = self._database.fetch_rows(_TABLES, (self._connection.publication,))
        reads = self._connection.is_read if names is None else names.__contains__
        return [self._build_table(row) for row in rows if reads(str(row[0]))]

    def _build_table(self, row: Row) -> _Table:
        name, quoted, is_owned, is_published, row_filter, unsent, root = row
        read = [column for column in json.loads(unsent or "[]") if self._connection.is_column_read(str(name), column)]
        return _Table(str(name), str(quoted), is_owned == "t", is_published == "t", row_filter, tuple(read), root)

    def _check_content(self, row: Row, tables: Sequence[_Table], after: str) -> None:
        """Raises SourceError if the publication leaves out operations, rows or columns of `tables`.

        `row` is the publication's row in the catalog; `after` is a text that is added to the advice.
        """
        if row[1]:
            fix = f"`alter publication {self._name} set (publish = 'insert, update, delete, truncate')`"
            raise self._build_error(f"publication {self._name} publishes no {row[1]}", fix, after)
        for table in tables:
            if (flaw := self._find_flaw(table)) is not None:
                raise self._build_error(*flaw, after)

    def _find_flaw(self, table: _Table) -> tuple[str, str] | None:
        """Describes a flaw by which the publication leaves out changes of a table, and a fix; None if it has none.

        Flaws are publication under the name of a partitioned table, a row filter, and a list of columns.
        """
        name = self._name
        if table.root is not None:
            fix = f"ingest {table.root} instead, or `alter publication {name} set (publish_via_partition_root = false)`"
            return f"changes of {table.name} come under the name of {table.root}, whose partition it is", fix
        again = (
            f"`alter publication {name} drop table {table.quoted}; alter publication {name} add table {table.quoted}`"
        )
        if table.row_filter is not None:
            flaw = f"publication {name} has only rows of {table.name} with {table.row_filter}, a snapshot has all"
            return flaw, again
        if table.is_published and table.unsent:
            exclude = "or exclude these columns, with the Debezium property `column.exclude.list`"
            return f"publication {name} lacks columns of {table.name}: {', '.join(table.unsent)}", f"{again}, {exclude}"
        return None

    def _is_kept(self, row: Row | None) -> bool:
        """Whether ingestion may alter the publication: it is ingestion's own or missing, and no property forbids it.

        `row` is the publication's row in the catalog, None if there is none.
        """
        is_left_alone = self._connection.properties.get(PUBLICATION_MODE) == "disabled"
        return not is_left_alone and (row is None or row[0] == MARK)

    def _can_add(self, row: Row | None, missing: Sequence[_Table]) -> bool:
        """Whether ingestion may add the tables `missing` to the publication, by its mark and the user's rights."""
        is_allowed = row[2] == "t" if row is not None else self._database.fetch_one(_MAY_CREATE) == "t"
        return self._is_kept(row) and is_allowed and all(table.is_owned for table in missing)

    def _write_addition(self, row: Row | None, missing: Sequence[_Table]) -> str:
        """Returns the SQL statement that creates the publication with `missing`, or adds these tables to it."""
        tables = ", ".join(table.quoted for table in missing)
        if row is not None:
            return f"alter publication {self._name} add table {tables}"
        is_by_root = self._connection.properties.get(VIA_ROOT) == "true"
        options = " with (publish_via_partition_root = true)" if is_by_root else ""
        return f"create publication {self._name} for table {tables}{options}"

    def _build_lack_error(self, row: Row | None, missing: Sequence[_Table], after: str = "") -> SourceError:
        tables = ", ".join(table.name for table in missing)
        what = f"there is no publication {self._name}" if row is None else f"publication {self._name} lacks {tables}"
        why = (
            f", and user {self._connection.user} may not add them"
            if self._is_kept(row) and (row is not None or not after)
            else ""
        )
        owners = "tables" if row is None else "tables and the publication"
        return self._build_error(
            f"{what}{why}", f"as the owner of the {owners}, `{self._write_addition(row, missing)}`", after
        )

    def _build_error(self, what: str, fix: str, after: str) -> SourceError:
        return self._connection.build_error(what, f"{fix}{after}")


_SLOT = """
select plugin, database, active, active_pid, wal_status, confirmed_flush_lsn - '0/0'::pg_lsn
from pg_replication_slots where slot_name = ?
"""


class ReplicationSlot:
    """The replication slot of a connection; its methods raise SourceError with advice for the user."""

    def __init__(
        self, connection: DebeziumConnection, database: SourceDatabase, thresholds: DebeziumThresholds
    ) -> None:
        self._connection = connection
        self._database = database
        self._thresholds = thresholds

    def check_slot(self, position: Position | None) -> None:
        """Raises SourceError if the slot can't be read from `position` on.

        `position` is None for a source that was never ingested; then no slot may exist. If `position` is inside a
        snapshot, nothing is checked, since the slot is created again.
        """
        slot = self._find_slot()
        if position is None:
            self._check_absent(slot)
        elif not position.is_snapshot:
            self._check_position(slot, position)

    def get_start(self) -> int:
        """Returns the LSN at which the slot was created; valid only until a batch is acknowledged.

        Raises SourceError if the slot was dropped.
        """
        slot = self._find_slot()
        if slot is None or slot[5] is None:
            raise self._connection.build_error(
                f"replication slot {self._connection.slot} was dropped during the snapshot"
            )
        return int(slot[5])

    def drop_slot(self) -> None:
        """Drops the slot if there is one; raises SourceError if a reader does not release it in time."""
        if self.wait_for_release():
            self._database.fetch_one("select pg_drop_replication_slot(?)::text", (self._connection.slot,))

    def wait_for_release(self) -> bool:
        """Waits until no reader uses the slot, since a server needs a moment to notice that a reader ended.

        Returns False if there is no slot. Raises SourceError if the slot is still in use after `release_seconds`.
        """
        until = time.monotonic() + self._thresholds.release_seconds
        while (slot := self._find_slot()) is not None:
            active, pid = slot[2], slot[3]
            if active == "f":
                return True
            if time.monotonic() > until:
                raise self._connection.build_error(
                    f"replication slot {self._connection.slot} is in use by process {pid} of the server",
                    "end the other ingestion, or choose another `slot`",
                )
            time.sleep(self._thresholds.release_poll_seconds)
        return False

    def _find_slot(self) -> Row | None:
        rows = self._database.fetch_rows(_SLOT, (self._connection.slot,))
        return rows[0] if rows else None

    def _check_absent(self, slot: Row | None) -> None:
        if slot is not None:
            raise self._connection.build_error(
                f"replication slot {self._connection.slot} exists, but this source was never ingested: another "
                "reader uses it, or the tables of an earlier ingestion were dropped",
                f"drop it (`select pg_drop_replication_slot('{self._connection.slot}')`), or choose another `slot`",
            )

    def _check_position(self, slot: Row | None, position: Position) -> None:
        name = self._connection.slot
        if slot is None:
            raise self._build_lost_error(
                f"replication slot {name} is gone, and with it the changes since the last commit"
            )
        plugin, database, _, _, status, confirmed = slot
        if plugin != "pgoutput" or database != self._connection.database:
            raise self._connection.build_error(
                f"replication slot {name} is of plugin {plugin} and database {database}, expected pgoutput and "
                f"{self._connection.database}",
                "choose another `slot`",
            )
        if status == "lost":
            raise self._build_lost_error(
                f"the server removed the log that replication slot {name} needs (max_slot_wal_keep_size)"
            )
        if confirmed is not None and position.reached is not None and int(confirmed) > position.reached:
            raise self._build_lost_error(
                f"replication slot {name} is at {confirmed}, ahead of the last commit at {position.reached}: it was "
                "recreated, or another reader moved it, or the tables were restored from a backup"
            )

    def _build_lost_error(self, what: str) -> SourceError:
        return self._connection.build_error(what, RESYNC)
