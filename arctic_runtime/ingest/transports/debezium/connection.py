"""The connection of Debezium to a database, and the properties of its engine."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from zlib import crc32

from arctic_runtime.errors import SourceError
from arctic_runtime.ingest.database_kinds import get_database_kind
from arctic_runtime.profile import mask_secret
from arctic_runtime.thresholds import DebeziumThresholds

OFFSETS = "offsets"
"""Name of the file, in the engine's folder, with the offset from which the engine continues."""

SNAPSHOT_SELECTS = "snapshot.select.statement.overrides"
"""Debezium property with the tables that a snapshot reads by a custom query, separated by commas."""

_SLOT_LENGTH = 58
"""Length to which a slot's name is cut before a suffix is added; PostgreSQL allows 63 characters in all."""

PUBLICATION_MODE = "publication.autocreate.mode"
"""Debezium property; a user sets it to `disabled` to forbid that the publication is altered."""

_AS_PUBLISHED = {PUBLICATION_MODE: "disabled"}

_OWN_IDS = 1_000_000_000
"""The lowest replica id that is computed rather than chosen by the user."""


@dataclass(frozen=True)
class DebeziumConnection:
    """A database and the tables that are read from it; `repr` does not show the password."""

    connector: str
    """A name of DATABASE_KINDS."""

    host: str
    port: int
    database: str
    user: str
    password: str = field(repr=False)
    tables: tuple[str, ...]
    """Names or patterns as in Debezium's `table.include.list`, with their schema (`public.orders`)."""

    slot: str = "arctic"
    """Name of the replication slot and the publication in PostgreSQL, and of the engine."""

    server_id: int | None = None
    """This reader's id among the replicas of a MySQL or MariaDB server; None computes one from the slot's name."""

    properties: Mapping[str, str] = field(default_factory=dict, repr=False)
    """Further properties of Debezium, which override the default ones."""

    @property
    def address(self) -> str:
        """The connector, server and database, as they are named in messages."""
        return f"{self.connector} {self.host}:{self.port}/{self.database}"

    def build_error(
        self, flaw: str, fix: str | None = None, expected: str | None = None, actual: str | None = None
    ) -> SourceError:
        """Builds the error for a flaw of the server or its tables; its text begins with the server's address."""
        return SourceError(f"{self.address}: {flaw}.", expected=expected, actual=actual, fix=fix)

    @property
    def replica_id(self) -> int:
        """The id of this reader among the replicas of a MySQL server; no other replica may have the same id."""
        return _OWN_IDS + crc32(self.slot.encode()) % _OWN_IDS if self.server_id is None else self.server_id

    def is_read(self, table: str) -> bool:
        """Whether this connection reads a table, named with its schema."""
        return any(re.fullmatch(pattern, table) for pattern in self.tables)

    def is_column_read(self, table: str, column: str) -> bool:
        """Whether this connection reads a column: it reads the table, and no list of columns leaves the column out.

        `table` is named with its schema.
        """
        included, excluded = (self.properties.get(f"column.{kind}.list", "") for kind in ("include", "exclude"))
        is_chosen = _matches_list(included, f"{table}.{column}") if included else True
        return self.is_read(table) and is_chosen and not _matches_list(excluded, f"{table}.{column}")

    @property
    def publication(self) -> str:
        """The name of the publication in PostgreSQL."""
        return self.properties.get("publication.name", self.slot)

    def select_tables(self, tables: Collection[str]) -> DebeziumConnection:
        """Returns a copy of the connection that reads only `tables`, named with their schema."""
        return replace(self, tables=tuple(re.escape(table) for table in sorted(tables)))

    def with_tables(self, tables: Collection[str]) -> DebeziumConnection:
        """Returns a copy of the connection that reads `tables` as well, named with their schema."""
        more = [re.escape(table) for table in tables if not self.is_read(table)]
        return replace(self, tables=(*self.tables, *more))

    def exclude_tables(self, tables: Collection[str]) -> DebeziumConnection:
        left = tuple(pattern for pattern in self.tables if not any(re.fullmatch(pattern, table) for table in tables))
        return replace(self, tables=left)

    def for_load(self, tables: Collection[str]) -> DebeziumConnection:
        """Returns a connection for a second reader, which loads `tables`; its slot is dropped when that reader ends."""
        # The stream's reader adopts the definitions of tables, which it identifies by the name of their server.
        own = {"snapshot.mode": "initial", "topic.prefix": self.properties.get("topic.prefix", self.slot)}
        for key, value in get_database_kind(self.connector).debezium.load_properties.items():
            own[key] = _fill_template(value, {"publication": self.publication})
        slot = f"{self.slot[:_SLOT_LENGTH]}_load"
        return replace(self.select_tables(tables), slot=slot, server_id=None, properties={**self.properties, **own})

    def mask_password(self, text: str) -> str:
        """Returns the text with the password replaced by a mask.

        The text is unchanged if the password equals the user, database, host or slot, since a mask would hide these as
        well.
        """
        is_hidden = self.password and self.password not in (self.user, self.database, self.host, self.slot)
        return mask_secret(text, self.password) if is_hidden else text


def _matches_list(patterns: str, name: str) -> bool:
    r"""Whether a list of Debezium, in which `\,` is a comma of a pattern, has a pattern that matches a name."""
    parts = (part.strip().replace(r"\,", ",") for part in re.split(r"(?<!\\),", patterns))
    return any(re.fullmatch(part, name, re.IGNORECASE) for part in parts)


_ENGINE = {
    # Only the schemas of keys are read, so keys are written by the cheapest converter.
    "key.converter.class": "org.apache.kafka.connect.storage.StringConverter",
    "value.converter.schemas.enable": "false",
    "value.converter.decimal.format": "NUMERIC",
    "value.converter.replace.null.with.default": "false",
    "offset.storage": "org.apache.kafka.connect.storage.FileOffsetBackingStore",
    # With numbers, a NaN would stop the reading of all tables; as text it is only a value that does not fit.
    "decimal.handling.mode": "string",
    "time.precision.mode": "adaptive_time_microseconds",
    "binary.handling.mode": "bytes",
    "column.propagate.source.type": ".*",
    "skipped.operations": "none",
    "tombstones.on.delete": "false",
    "snapshot.mode": "initial",
    "poll.interval.ms": "100",
    "event.processing.failure.handling.mode": "fail",
    # By default a value that can't be converted becomes null.
    "event.converting.failure.handling.mode": "fail",
    "errors.max.retries": "0",
    "executor.shutdown.timeout.ms": "2000",
    "task.management.timeout.ms": "120000",
}
"""Properties that all connectors share.

The transport restores lost connections, not Debezium: Debezium would continue after the last acknowledged batch, which
is not exact inside of a transaction.
"""


def build_engine_properties(
    connection: DebeziumConnection, folder: Path, thresholds: DebeziumThresholds, server_properties: Mapping[str, str]
) -> dict[str, str]:
    """Builds all properties of a Debezium engine for a connection; raises ConfigError for an unknown connector.

    The engine stores its offsets and schema history in `folder`. `server_properties` are the properties that depend on
    the database (`SourceServer.build_properties`).
    """
    known = get_database_kind(connection.connector).debezium
    fields = {
        "database": connection.database,
        "slot": connection.slot,
        "folder": str(folder),
        "server_id": str(connection.replica_id),
    }
    own = {key: _fill_template(value, fields) for key, value in known.properties.items()}
    chosen = {key: value for key, value in connection.properties.items() if key not in known.left_out}
    return {
        **_ENGINE,
        "name": connection.slot,
        "topic.prefix": connection.slot,
        "connector.class": known.java_class,
        "database.hostname": connection.host,
        "database.port": str(connection.port),
        "database.user": connection.user,
        "database.password": connection.password,
        "table.include.list": ",".join(_to_java_pattern(pattern) for pattern in connection.tables),
        "offset.storage.file.filename": str(folder / OFFSETS),
        "heartbeat.interval.ms": str(thresholds.heartbeat_millis),
        "max.batch.size": str(thresholds.poll_events),
        "max.queue.size": str(2 * thresholds.poll_events),
        "record.processing.threads": str(thresholds.converting_threads),
        **own,
        **server_properties,
        **chosen,
        **_AS_PUBLISHED,
        **known.fixed,
        **_merge_selects(server_properties, connection.properties),
    }


def _to_java_pattern(pattern: str) -> str:
    """Returns the pattern of a table for a list of Debezium, which separates by commas and ignores case by itself."""
    return "(?-i)" + pattern.replace(",", r"\,")


def _merge_selects(*properties: Mapping[str, str]) -> dict[str, str]:
    """Merges the lists SNAPSHOT_SELECTS of several sets of properties into one property; empty if there are none."""
    tables = [property_set[SNAPSHOT_SELECTS] for property_set in properties if property_set.get(SNAPSHOT_SELECTS)]
    return {SNAPSHOT_SELECTS: ",".join(tables)} if tables else {}


def _fill_template(value: str, fields: Mapping[str, str]) -> str:
    for name, text in fields.items():
        value = value.replace(f"{{{name}}}", text)
    return value
