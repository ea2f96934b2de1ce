"""The connector for topics of Kafka."""

from __future__ import annotations

from typing import Literal

from arctic_runtime.catalog.reader import CatalogReader
from arctic_runtime.ingest.source import IngestSource
from arctic_runtime.ingest.transports.connector import (
    Connection,
    Connector,
    Session,
    describe_address,
    read_format,
    read_password,
    read_properties,
)
from arctic_runtime.ingest.transports.kafka.connection import KafkaConnection, Mechanism
from arctic_runtime.ingest.transports.kafka.offsets import parse_position
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
)


def _connect(source: IngestSource, reader: CatalogReader, session: Session) -> Connection:
    from arctic_runtime.ingest.transports.kafka.transport import Kafka

    connection, form, tables = _read_connection(source), read_format(source), _list_topics(source)
    on_data_loss = get_reader(OnDataLoss)("on_data_loss", source.connection.get("on_data_loss", "fail"))
    limits = reader.thresholds.transports
    return Connection(Kafka(connection, tables, form, session, limits, on_data_loss == "skip"), form)


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


KAFKA = Connector("kafka", _KEYS, ("servers",), _connect, describe_address, parse_position, jars="kafka")
