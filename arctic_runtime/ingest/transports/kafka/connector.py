"""The connector for topics of Kafka."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from arctic_runtime.catalog.reader import CatalogReader
from arctic_runtime.errors import ConfigError, suggest_nearest
from arctic_runtime.ingest.formats.avro_events import build_avro_format
from arctic_runtime.ingest.source import IngestSource
from arctic_runtime.ingest.transports.connector import (
    Connector,
    Session,
    SourceConnection,
    describe_address,
    read_format,
    read_password,
    read_properties,
)
from arctic_runtime.ingest.transports.kafka.avro_messages import AvroMessages
from arctic_runtime.ingest.transports.kafka.connection import KafkaConnection, Mechanism
from arctic_runtime.ingest.transports.kafka.offsets import parse_position
from arctic_runtime.ingest.transports.kafka.schema_registry import RegistryConnection, SchemaRegistry
from arctic_runtime.ingest.transports.kafka.topic_tables import TopicTable
from arctic_runtime.operations.arguments import read_flag
from arctic_runtime.plan.config.config_readers import get_reader

OnDataLoss = Literal["fail", "skip"]

_KEYS = (
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
    "schema_registry",
)
_REGISTRY_KEYS = ("url", "user", "password", "password_env", "ca_file", "certificate_file")


def _connect(source: IngestSource, reader: CatalogReader, session: Session) -> SourceConnection:
    from arctic_runtime.ingest.transports.kafka.transport import Kafka

    connection, form, tables = _read_connection(source), read_format(source), _list_topics(source)
    skips_lost = get_reader(OnDataLoss)("on_data_loss", source.connection.get("on_data_loss", "fail")) == "skip"
    limits = reader.thresholds.transports
    registry = _read_registry(source)
    if registry is None:
        return SourceConnection(Kafka(connection, tables, form, session, limits, skips_lost), form)
    client = SchemaRegistry(registry, limits)
    avro, form = AvroMessages(client), build_avro_format(form, client.get_schema)
    kafka = Kafka(connection, tables, form, session, limits, skips_lost, avro)
    return SourceConnection(kafka, form, read_messages=avro.read_messages)


def _read_registry(source: IngestSource) -> RegistryConnection | None:
    """Reads `schema_registry`, a URL or a mapping with more settings; None if the source has none."""
    written = source.connection.get("schema_registry")
    if written is None:
        return None
    settings = written if isinstance(written, Mapping) else {"url": written}
    wrong = [key for key in settings if key not in _REGISTRY_KEYS]
    if wrong or not isinstance(settings.get("url"), str):
        shown = f"unknown key `{wrong[0]}`{suggest_nearest(str(wrong[0]), _REGISTRY_KEYS)}" if wrong else "no `url`"
        raise ConfigError(
            f"source {source.name}: `schema_registry` can't be used: {shown}.",
            expected=f"a URL, or a mapping of {', '.join(_REGISTRY_KEYS)}",
        )
    has_password = "password" in settings or "password_env" in settings
    return RegistryConnection(
        url=settings["url"],
        user=None if "user" not in settings else str(settings["user"]),
        password=read_password(source, settings) if has_password else None,
        ca_file=settings.get("ca_file"),
        certificate_file=settings.get("certificate_file"),
    )


def _list_jars(source: IngestSource) -> tuple[str, ...]:
    return ("kafka", "avro") if source.connection.get("schema_registry") is not None else ("kafka",)


def _read_connection(source: IngestSource) -> KafkaConnection:
    settings = source.connection
    return KafkaConnection(
        servers=str(settings["servers"]),
        user=None if "user" not in settings else str(settings["user"]),
        password=read_password(source) if "password" in settings or "password_env" in settings else None,
        mechanism=get_reader(Mechanism)("mechanism", settings.get("mechanism", "PLAIN")),
        tls=read_flag("tls", settings.get("tls", False)),
        ca_file=settings.get("ca_file"),
        certificate_file=settings.get("certificate_file"),
        properties=read_properties(source),
    )


def _list_topics(source: IngestSource) -> list[TopicTable]:
    topics, prefix = source.connection.get("topics") or {}, source.connection.get("topic_prefix")
    return [
        TopicTable(
            table.source_name,
            str(topics.get(table.name, table.source_name if prefix is None else f"{prefix}.{table.source_name}")),
            table.columns,
        )
        for table in source.tables
    ]


KAFKA = Connector("kafka", _KEYS, ("servers",), _connect, describe_address, parse_position, _list_jars)
