"""Every connector by the name that users write, and how it makes the transport and the format of a source."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal

from arctic_runtime.catalog.reader import CatalogReader
from arctic_runtime.errors import ConfigError
from arctic_runtime.ingest.formats.debezium import debezium
from arctic_runtime.ingest.formats.event_format import Format
from arctic_runtime.ingest.formats.registry import FORMATS, make_format
from arctic_runtime.ingest.source import PORTS, IngestSource
from arctic_runtime.ingest.transports.debezium import DebeziumTransport
from arctic_runtime.ingest.transports.debezium_connection import DebeziumConnection
from arctic_runtime.ingest.transports.file_listing import Folder
from arctic_runtime.ingest.transports.kafka_connection import KafkaConnection, Mechanism
from arctic_runtime.ingest.transports.topic_tables import TopicTable
from arctic_runtime.ingest.transports.transport import CatalogTable, Transport
from arctic_runtime.operations.arguments import read_flag
from arctic_runtime.plan.config_readers import get_reader
from arctic_runtime.profile import Profile, mask_text, suggest_nearest

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

OnDataLoss = Literal["fail", "skip"]
Session = Callable[[], "SparkSession"]


@dataclass(frozen=True)
class Connection:
    """The way in of a source: its transport, and the format of its events."""

    transport: Transport
    form: Format


@dataclass(frozen=True)
class Connector:
    """What makes the connection of a source, and the keys that users write for it below `ingest`.

    `keys` are those that it takes, `required` those that it can't do without. `jars` is the group of JARs that Spark
    has to be started with.
    """

    make: Callable[[IngestSource, CatalogReader, Session], Connection]
    keys: tuple[str, ...]
    required: tuple[str, ...]
    jars: str | None = None


def with_jars(profile: Profile, sources: Iterable[IngestSource]) -> Profile:
    """A profile whose Spark has the JARs that the connectors of sources need."""
    for source in sources:
        known = CONNECTORS.get(source.connector)
        if known is not None and known.jars is not None:
            profile = profile.with_jars(known.jars)
    return profile


def connect(source: IngestSource, reader: CatalogReader, session: Session) -> Connection:
    """The connection of a source; raises ConfigError for an unknown connector or settings that can't be used."""
    return _checked(source).make(source, reader, session)


def _checked(source: IngestSource) -> Connector:
    known = CONNECTORS.get(source.connector)
    if known is None:
        raise ConfigError(
            f"source {source.name}: there is no connector {source.connector!r}"
            f"{suggest_nearest(source.connector, CONNECTORS)}.\n  expected: {', '.join(CONNECTORS)}"
        )
    wrong = [
        f"unknown key `{key}`{suggest_nearest(key, known.keys)}" for key in source.connection if key not in known.keys
    ]
    wrong += [f"`{key}` is missing" for key in known.required if key not in source.connection]
    if wrong:
        raise ConfigError(
            f"source {source.name}: its `meta.arctic.ingest` can't be used with connector {source.connector}.\n"
            + "\n".join(f"  - {text}" for text in wrong)
        )
    return known


_DATABASE_KEYS = ("host", "port", "database", "user", "password", "password_env", "slot", "server_id", "properties")


def _database(source: IngestSource, reader: CatalogReader, _: Session) -> Connection:
    return Connection(DebeziumTransport(_debezium(source), reader.thresholds.debezium), debezium())


def describe_connection(source: IngestSource) -> str:
    """Where a source is, for people: its connector and server, database or folder, and no secret."""
    given = source.connection
    if source.connector in PORTS:
        port = given.get("port", PORTS[source.connector])
        return f"{source.connector} {given.get('host')}:{port}/{given.get('database')}"
    place = given.get("servers") or given.get("path")
    return source.connector if place is None else f"{source.connector} {mask_text(str(place))}"


def catalog_of(source: IngestSource) -> list[CatalogTable]:
    """The tables that a source's database has; raises ConfigError for a source that is none, and as `connect`."""
    known = _checked(source)
    if known is not _DATABASE:
        raise ConfigError(
            f"source {source.name}: a {source.connector} source has no catalog of tables.\n"
            f"  expected: a database, connector {', '.join(PORTS)}"
        )
    return DebeziumTransport(_debezium(source)).catalog()


def _debezium(source: IngestSource) -> DebeziumConnection:
    given = source.connection
    return DebeziumConnection(
        connector=source.connector,
        host=str(given["host"]),
        port=_port(source, given.get("port", PORTS[source.connector])),
        database=str(given["database"]),
        user=str(given["user"]),
        password=_password(source),
        tables=tuple(re.escape(table.source_name) for table in source.tables),
        slot=str(given.get("slot", f"arctic_{re.sub(r'[^a-z0-9_]', '_', source.name.lower())}")),
        properties=_properties(source, given.get("properties") or {}),
        **({"server_id": int(given["server_id"])} if "server_id" in given else {}),
    )


def _port(source: IngestSource, value: Any) -> int:
    if not str(value).isdigit():
        raise ConfigError(f"source {source.name}: `port: {value}` is not a number")
    return int(value)


def _password(source: IngestSource) -> str:
    """The password as written, or of the environment variable that is named; empty where there is none."""
    variable = source.connection.get("password_env")
    if variable is None:
        return str(source.connection.get("password", ""))
    found = os.environ.get(str(variable))
    if found is None:
        raise ConfigError(
            f"source {source.name}: the environment variable {variable} of `password_env` is not set.\n"
            "  what to do: set it where `arctic ingest` runs"
        )
    return found


def _properties(source: IngestSource, value: Any) -> Mapping[str, str]:
    if not isinstance(value, Mapping):
        raise ConfigError(f"source {source.name}: `properties` must be a mapping of names to values")
    return {str(key): str(of) for key, of in value.items()}


def _files(source: IngestSource, reader: CatalogReader, session: Session) -> Connection:
    from arctic_runtime.ingest.transports.file_log import FileTable
    from arctic_runtime.ingest.transports.files import Files

    given = source.connection
    patterns = given.get("files") or {}
    tables = {table.source_name: str(patterns.get(table.name, f"{table.source_name}/*")) for table in source.tables}
    log = FileTable(source.ledger.with_name(f"{source.name}{FILE_LOG}"), reader, session)
    folder = Folder(str(given["path"]), _properties(source, given.get("properties") or {}))
    return Connection(Files(folder, tables, log, session, reader.thresholds.transports), _format(source))


_KAFKA_KEYS = (
    "servers",
    "topics",
    "topic_prefix",
    "format",
    "user",
    "password",
    "password_env",
    "mechanism",
    "tls",
    "ca_file",
    "certificate_file",
    "properties",
    "on_data_loss",
)


def _kafka(source: IngestSource, reader: CatalogReader, session: Session) -> Connection:
    from arctic_runtime.ingest.transports.kafka import Kafka

    given, form = source.connection, _format(source)
    connection = KafkaConnection(
        servers=str(given["servers"]),
        user=None if "user" not in given else str(given["user"]),
        password=_password(source) if "password" in given or "password_env" in given else None,
        mechanism=get_reader(Mechanism)("mechanism", given.get("mechanism", "PLAIN")),
        tls=read_flag("tls", given.get("tls", False)),
        ca_file=given.get("ca_file"),
        certificate_file=given.get("certificate_file"),
        properties=_properties(source, given.get("properties") or {}),
    )
    topics, prefix = given.get("topics") or {}, given.get("topic_prefix")
    tables = [
        TopicTable(
            table.source_name,
            str(topics.get(table.name, table.source_name if prefix is None else f"{prefix}.{table.source_name}")),
            table.columns,
        )
        for table in source.tables
    ]
    skips_lost = get_reader(OnDataLoss)("on_data_loss", given.get("on_data_loss", "fail")) == "skip"
    return Connection(Kafka(connection, tables, form, session, reader.thresholds.transports, skips_lost), form)


def _format(source: IngestSource) -> Format:
    """The format of a source, as `format: canal`, or with its options as `format: {canal: {zone: UTC}}`."""
    written = source.connection.get("format", "debezium")
    if isinstance(written, Mapping) and len(written) == 1:
        ((name, options),) = written.items()
        return make_format(str(name), options or {})
    if not isinstance(written, str):
        raise ConfigError(
            f"source {source.name}: `format` must be one of {', '.join(FORMATS)}, alone or with its options, "
            f"such as {{rows: {{operation: op}}}}; found {written!r}"
        )
    return make_format(written, {})


FILE_LOG = "__files"
_DATABASE = Connector(_database, _DATABASE_KEYS, ("host", "database", "user"))

CONNECTORS: Mapping[str, Connector] = MappingProxyType(
    {
        **dict.fromkeys(PORTS, _DATABASE),
        "kafka": Connector(_kafka, _KAFKA_KEYS, ("servers",), jars="kafka"),
        "files": Connector(_files, ("path", "format", "files", "properties"), ("path",)),
    }
)
"""Connector → what makes its connections."""
