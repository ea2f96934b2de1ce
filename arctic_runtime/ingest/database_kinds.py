"""The kinds of databases whose changes are ingested: one entry has all that differs between them.

An entry names two classes of `transports/debezium/servers`, which are imported when they are first used: they need
Java, and this module is read wherever a source is read.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

from arctic_runtime.errors import ConfigError, suggest_nearest

HISTORY = "history"
"""Name of the file, in the engine's folder, with the definitions of tables over time.

Only connectors of binary logs (MySQL, MariaDB) store it.
"""


@dataclass(frozen=True)
class DebeziumConnector:
    """A connector of Debezium: the name of its Java class, and the properties that only this connector needs.

    Names in braces in the values of `properties` stand for fields of a DebeziumConnection. A user can't override the
    properties in `fixed`, and those in `left_out` are not passed to Debezium. `load_properties` are those of a second
    reader, which loads tables beside the stream.
    """

    java_class: str
    properties: Mapping[str, str]
    fixed: Mapping[str, str] = field(default_factory=dict)
    left_out: frozenset[str] = frozenset()
    load_properties: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class JdbcDriver:
    """The JDBC driver for single queries: the name of its Java class, the form of its URLs, and its settings.

    `timeout_keys` are the settings for the longest wait, in units of which a second has `timeout_units`.
    `build_tls_settings` converts Debezium's properties for TLS (`database.ssl…`) to settings of the driver.
    """

    java_class: str
    url: str
    settings: Mapping[str, str]
    timeout_keys: tuple[str, ...]
    timeout_units: int
    build_tls_settings: Callable[[Mapping[str, str]], dict[str, str]]

    def build_timeouts(self, seconds: float) -> dict[str, str]:
        """Builds the settings for the longest wait for a connection and for an answer."""
        return dict.fromkeys(self.timeout_keys, str(max(1, round(self.timeout_units * seconds))))


@dataclass(frozen=True)
class DatabaseKind:
    """A kind of databases: the value of `connector` that names it, and all in which it differs from other kinds."""

    connector: str
    port: int
    """The port of its servers, unless a source has `port`."""

    password_variable: str
    """Environment variable from which its client programs read the password."""

    default_schema: str | None
    """Schema of tables that are named without one; None if it is the `database` of a source."""

    server: str
    """The subclass of SourceServer that checks and asks its servers, as `module:Class` in `servers`."""

    log_order: str
    """The LogOrder of positions in its log, as `module:Class` in `servers`."""

    debezium: DebeziumConnector
    driver: JdbcDriver

    def find_default_schema(self, database: str | None) -> str | None:
        """Returns the schema of tables that are named without one; `database` is that of the source, if it has one."""
        return self.default_schema or database


def _select_tls_settings(properties: Mapping[str, str]) -> dict[str, str]:
    """Returns Debezium's properties for TLS, which PostgreSQL's driver has under the same names."""
    settings = {key: setting for key, setting in properties.items() if key.startswith("database.ssl")}
    return {key.removeprefix("database."): setting for key, setting in settings.items()}


_POSTGRESQL = DatabaseKind(
    connector="postgresql",
    port=5432,
    password_variable="PGPASSWORD",
    default_schema="public",
    server="postgresql:PostgreSQL",
    log_order="log_orders:WalOrder",
    debezium=DebeziumConnector(
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
        # The server drops a temporary slot when its reader ends. The publication stays that of the stream.
        load_properties={
            "slot.drop.on.stop": "true",
            "publication.name": "{publication}",
            "publication.autocreate.mode": "disabled",
        },
    ),
    driver=JdbcDriver(
        "org.postgresql.Driver",
        "jdbc:postgresql://{host}:{port}/{database}",
        {"connectTimeout": "10", "loginTimeout": "10", "socketTimeout": "30", "ApplicationName": "arctic"},
        ("connectTimeout", "loginTimeout", "socketTimeout"),
        1,
        _select_tls_settings,
    ),
)

_TLS_OF_MYSQL = {
    "database.ssl.keystore": "clientCertificateKeyStoreUrl",
    "database.ssl.keystore.password": "clientCertificateKeyStorePassword",
    "database.ssl.truststore": "trustCertificateKeyStoreUrl",
    "database.ssl.truststore.password": "trustCertificateKeyStorePassword",
}
"""Debezium's properties for TLS, and the names of the same settings in MySQL's JDBC driver."""


def _translate_tls_settings(properties: Mapping[str, str]) -> dict[str, str]:
    """Returns Debezium's properties for TLS under the names that they have in MySQL's driver."""
    translated = {theirs: properties[key] for key, theirs in _TLS_OF_MYSQL.items() if key in properties}
    settings = {key: f"file:{setting}" if key.endswith("Url") else setting for key, setting in translated.items()}
    mode = properties.get("database.ssl.mode")
    return settings if mode is None else {**settings, "sslMode": mode.upper()}


_MYSQL = DatabaseKind(
    connector="mysql",
    port=3306,
    password_variable="MYSQL_PWD",
    default_schema=None,
    server="mysql:MySQL",
    log_order="log_orders:BinlogOrder",
    debezium=DebeziumConnector(
        "io.debezium.connector.mysql.MySqlConnector",
        {
            "database.server.id": "{server_id}",
            "schema.history.internal": "io.debezium.storage.file.history.FileSchemaHistory",
            "schema.history.internal.file.filename": "{folder}/" + HISTORY,
            "schema.history.internal.store.only.captured.tables.ddl": "true",
            "include.schema.changes": "false",
            "bigint.unsigned.handling.mode": "precise",
            "enable.time.adjuster": "false",
            # The reader of the log must not reconnect, which would not be exact; the interval only requests signs of
            # life.
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
    ),
    driver=JdbcDriver(
        "com.mysql.cj.jdbc.Driver",
        "jdbc:mysql://{host}:{port}/{database}",
        {
            "connectTimeout": "10000",
            "socketTimeout": "30000",
            "sslMode": "PREFERRED",
            "allowPublicKeyRetrieval": "true",
            # With the mode ANSI_QUOTES, `show create table` would quote names in another way.
            "sessionVariables": "sql_mode=''",
        },
        ("connectTimeout", "socketTimeout"),
        1000,
        _translate_tls_settings,
    ),
)

DATABASE_KINDS: Mapping[str, DatabaseKind] = {
    kind.connector: kind for kind in (_POSTGRESQL, _MYSQL, replace(_MYSQL, connector="mariadb"))
}
"""All kinds of databases, by the value of `connector`."""


def get_database_kind(connector: str) -> DatabaseKind:
    """Returns the kind of databases of a connector; raises ConfigError if the connector is unknown."""
    kind = DATABASE_KINDS.get(connector)
    if kind is None:
        raise ConfigError(
            f"connector {connector!r} is unknown{suggest_nearest(connector, DATABASE_KINDS)}; "
            f"expected {', '.join(DATABASE_KINDS)}"
        )
    return kind
