"""The connectors of databases whose changes are read by Debezium."""

from __future__ import annotations

import re
from functools import partial

from arctic_runtime.catalog.reader import CatalogReader
from arctic_runtime.errors import ConfigError
from arctic_runtime.ingest.database_kinds import DATABASE_KINDS, DatabaseKind
from arctic_runtime.ingest.formats.debezium import build_debezium_format
from arctic_runtime.ingest.source import IngestSource
from arctic_runtime.ingest.transports.connector import (
    PASSWORD_SETTINGS,
    PROPERTIES,
    Connector,
    Session,
    SourceConnection,
    read_password,
    read_properties,
)
from arctic_runtime.ingest.transports.debezium.connection import DebeziumConnection
from arctic_runtime.ingest.transports.debezium.position import parse_position
from arctic_runtime.ingest.transports.debezium.servers.source_server import create_log_order
from arctic_runtime.ingest.transports.transport import CatalogTable
from arctic_runtime.plan.config.config_readers import read_digits, read_plain, read_text
from arctic_runtime.plan.config.value_reader import Setting

_JAVA_CLASS = "connector.class"
"""The property of Debezium with the class of the connector."""

_SETTINGS = (
    Setting("host", read_text, "name or address of the database's server", "required"),
    Setting("port", read_digits, "port of the server", "the one of its kind"),
    Setting("database", read_plain, "name of the database", "required"),
    Setting("user", read_plain, "user who reads the database", "required"),
    *PASSWORD_SETTINGS,
    Setting("slot", read_text, "PostgreSQL: name of the replication slot and the publication"),
    Setting("server_id", read_digits, "MySQL, MariaDB: number of this reader among the server's replicas"),
    PROPERTIES,
)


def _connect(source: IngestSource, reader: CatalogReader, _: Session) -> SourceConnection:
    from arctic_runtime.ingest.transports.debezium.transport import DebeziumTransport

    return SourceConnection(
        DebeziumTransport(_read_connection(source), reader.thresholds.debezium), build_debezium_format()
    )


def _describe(source: IngestSource) -> str:
    settings = source.connection
    port = settings.get("port", DATABASE_KINDS[source.connector].port)
    return f"{source.connector} {settings.get('host')}:{port}/{settings.get('database')}"


def _list_tables(source: IngestSource) -> list[CatalogTable]:
    from arctic_runtime.ingest.transports.debezium.transport import DebeziumTransport

    return DebeziumTransport(_read_connection(source)).list_catalog()


def _read_connection(source: IngestSource) -> DebeziumConnection:
    settings, properties = source.connection, read_properties(source)
    if _JAVA_CLASS in properties:
        raise ConfigError(
            f"source {source.name}: `properties` have `{_JAVA_CLASS}`, and other connectors are not tested.",
            expected=f"the one of `connector: {source.connector}`",
            actual=properties[_JAVA_CLASS],
            fix="leave it out; events of other databases can come by Kafka, with `connector: kafka`",
        )
    return DebeziumConnection(
        connector=source.connector,
        host=str(settings["host"]),
        port=read_digits("port", settings.get("port", DATABASE_KINDS[source.connector].port)),
        database=str(settings["database"]),
        user=str(settings["user"]),
        password=read_password(source),
        tables=tuple(re.escape(table.source_name) for table in source.tables),
        slot=str(settings.get("slot", f"arctic_{re.sub(r'[^a-z0-9_]', '_', source.name.lower())}")),
        properties=properties,
        **({"server_id": read_digits("server_id", settings["server_id"])} if "server_id" in settings else {}),
    )


def _declare(kind: DatabaseKind) -> Connector:
    return Connector(
        name=kind.connector,
        settings=_SETTINGS,
        required=("host", "database", "user"),
        connect=_connect,
        describe=_describe,
        parse_position=partial(parse_position, create_log_order(kind.connector)),
        list_tables=_list_tables,
    )


DATABASES: tuple[Connector, ...] = tuple(map(_declare, DATABASE_KINDS.values()))
