"""The connection of Debezium to a database, and the properties of its engine."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from zlib import crc32

from arctic_runtime.errors import ConfigError
from arctic_runtime.profile import mask_secret
from arctic_runtime.suggestions import suggest_nearest
from arctic_runtime.thresholds import DebeziumThresholds

OFFSETS = "offsets"
"""Name of the file, in the engine's folder, with the offset from which the engine continues."""

HISTORY = "history"
"""Name of the file, in the engine's folder, with the definitions of tables over time.

Only connectors of binary logs (MySQL, MariaDB) store it.
"""

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
    """A name of CONNECTORS."""

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
        if self.connector == "postgresql":
            # The server drops a temporary slot when its reader ends.
            own |= {"slot.drop.on.stop": "true", "publication.name": self.publication, **_AS_PUBLISHED}
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


@dataclass(frozen=True)
class DebeziumConnector:
    """A connector of Debezium: the name of its Java class, and the properties that only this connector needs.

    Names in braces in the values of `properties` stand for fields of a DebeziumConnection. A user can't override the
    properties in `fixed`, and those in `left_out` are not passed to Debezium.
    """

    java_class: str
    properties: Mapping[str, str]
    fixed: Mapping[str, str] = field(default_factory=dict)
    left_out: frozenset[str] = frozenset()


_POSTGRESQL = DebeziumConnector(
    "io.debezium.connector.postgresql.PostgresConnector",
    {
        "database.dbname": "{database}",
        "plugin.name": "pgoutput",
        "slot.name": "{slot}",
        "slot.max.retries": "0",
        "publication.name": "{slot}",
        "hstore.handling.mode": "json",
        "interval.handling.mode": "string",
        "message.prefix.include.list": "arctic",
        "include.unknown.datatypes": "true",
    },
)

_MYSQL = DebeziumConnector(
    "io.debezium.connector.mysql.MySqlConnector",
    {
        "database.server.id": "{server_id}",
        "schema.history.internal": "io.debezium.storage.file.history.FileSchemaHistory",
        "schema.history.internal.file.filename": "{folder}/" + HISTORY,
        "schema.history.internal.store.only.captured.tables.ddl": "true",
        "include.schema.changes": "false",
        "bigint.unsigned.handling.mode": "precise",
        "enable.time.adjuster": "false",
        # The reader of the log must not reconnect, which would not be exact; the interval only requests signs of life.
        "connect.keep.alive": "false",
        "connect.keep.alive.interval.ms": "250",
        # The binary log has values of char columns without the spaces at their end.
        "driver.sessionVariables": "sql_mode=replace(replace(@@sql_mode,'PAD_CHAR_TO_FULL_LENGTH',''),"
        "'NO_BACKSLASH_ESCAPES','')",
    },
    {
        # In other time zones two moments may have the same text.
        "driver.connectionTimeZone": "+00:00",
        "driver.forceConnectionTimeZoneToSession": "true",
        # As a date, the year 0 would be the year 2000.
        "driver.yearIsDateType": "false",
    },
    # It makes the server send rows in another form, of which Debezium does not read all times exactly.
    frozenset(["snapshot.fetch.size"]),
)

CONNECTORS: Mapping[str, DebeziumConnector] = {"postgresql": _POSTGRESQL, "mysql": _MYSQL, "mariadb": _MYSQL}

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


_TLS_OF_MYSQL = {
    "database.ssl.keystore": "clientCertificateKeyStoreUrl",
    "database.ssl.keystore.password": "clientCertificateKeyStorePassword",
    "database.ssl.truststore": "trustCertificateKeyStoreUrl",
    "database.ssl.truststore.password": "trustCertificateKeyStorePassword",
}
"""Debezium's properties for TLS, and the names of the same settings in MySQL's JDBC driver."""


def build_driver_settings(connection: DebeziumConnection) -> dict[str, str]:
    """Converts Debezium's properties for TLS (`database.ssl…`) to settings of the database's JDBC driver."""
    connection_properties = connection.properties
    if connection.connector == "postgresql":
        return {
            key.removeprefix("database."): setting
            for key, setting in connection_properties.items()
            if key.startswith("database.ssl")
        }
    tls_settings = {
        theirs: connection_properties[key] for key, theirs in _TLS_OF_MYSQL.items() if key in connection_properties
    }
    tls_settings = {key: f"file:{setting}" if key.endswith("Url") else setting for key, setting in tls_settings.items()}
    mode = connection_properties.get("database.ssl.mode")
    return tls_settings if mode is None else {**tls_settings, "sslMode": mode.upper()}


def build_engine_properties(
    connection: DebeziumConnection, folder: Path, thresholds: DebeziumThresholds, server_properties: Mapping[str, str]
) -> dict[str, str]:
    """Builds all properties of a Debezium engine for a connection; raises ConfigError for an unknown connector.

    The engine stores its offsets and schema history in `folder`. `server_properties` are the properties that depend on
    the database (`SourceServer.build_properties`).
    """
    known = CONNECTORS.get(connection.connector)
    if known is None:
        raise ConfigError(
            f"connector {connection.connector!r} is unknown{suggest_nearest(connection.connector, CONNECTORS)}; "
            f"expected {', '.join(CONNECTORS)}"
        )
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
