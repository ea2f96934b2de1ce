"""The connector for topics of Kafka."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from arctic_runtime.catalog.reader import CatalogReader
from arctic_runtime.errors import ConfigError, suggest_nearest
from arctic_runtime.ingest.formats.avro_events import build_avro_format
from arctic_runtime.ingest.source import IngestSource
from arctic_runtime.ingest.transports.connector import (
    FORMAT,
    PASSWORD_SETTINGS,
    PROPERTIES,
    Connector,
    Session,
    SourceConnection,
    describe_address,
    list_wrong_values,
    read_format,
    read_password,
    read_properties,
)
from arctic_runtime.ingest.transports.kafka.avro_messages import AvroMessages
from arctic_runtime.ingest.transports.kafka.connection import KafkaConnection, Mechanism
from arctic_runtime.ingest.transports.kafka.offsets import parse_position
from arctic_runtime.ingest.transports.kafka.schema_registry import RegistryConnection, SchemaRegistry
from arctic_runtime.ingest.transports.kafka.transport import Kafka, TopicTable
from arctic_runtime.plan.config.config_readers import get_reader, read_flag, read_plain, read_plain_values, read_text
from arctic_runtime.plan.config.value_reader import TEXT, Setting, close_object, keep_value

OnDataLoss = Literal["fail", "skip"]

_read_data_loss = get_reader(OnDataLoss)
_read_mechanism = get_reader(Mechanism)

_USER = Setting("user", read_plain, "user", "none")
_CERTIFICATES = (
    Setting("ca_file", read_text, "file in PEM with trusted certificates"),
    Setting("certificate_file", read_text, "file in PEM with this client's certificate and its key"),
)
_REGISTRY_SETTINGS = (
    Setting("url", read_text, "address of the registry", "required"),
    _USER,
    *PASSWORD_SETTINGS,
    *_CERTIFICATES,
)
_REGISTRY_KEYS = tuple(setting.name for setting in _REGISTRY_SETTINGS)
_SETTINGS = (
    Setting("servers", read_text, "`host:port`, several with commas between", "required"),
    Setting("topics", read_plain_values, "topic of each table, as `{orders: shop.orders}`"),
    Setting("topic_prefix", read_plain, "text before the names of tables in the names of topics"),
    FORMAT,
    _USER,
    *PASSWORD_SETTINGS,
    Setting("mechanism", _read_mechanism, "mechanism of SASL", "`PLAIN`"),
    Setting("tls", read_flag, "whether the connection is encrypted", "`false`"),
    *_CERTIFICATES,
    PROPERTIES,
    Setting("on_data_loss", _read_data_loss, "`skip` goes on with the first event that is there", "`fail`"),
    Setting(
        "schema_registry",
        keep_value(
            {
                "anyOf": [
                    TEXT,
                    {
                        "type": "object",
                        "required": ["url"],
                        **close_object(
                            {part.name: {"anyOf": [part.read.schema, {"type": "null"}]} for part in _REGISTRY_SETTINGS}
                        ),
                    },
                ]
            }
        ),
        "URL of a schema registry, or a mapping with its settings, for messages in Avro",
    ),
)


def _connect(source: IngestSource, reader: CatalogReader, session: Session) -> SourceConnection:
    connection, form, tables = _read_connection(source), read_format(source), _list_topics(source)
    skips_lost = _read_data_loss("on_data_loss", source.connection.get("on_data_loss", "fail")) == "skip"
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
    given = written if isinstance(written, Mapping) else {"url": written}
    settings = {key: value for key, value in given.items() if value is not None}
    unknown = [key for key in settings if key not in _REGISTRY_KEYS]
    wrong = [f"unknown key `{key}`{suggest_nearest(str(key), _REGISTRY_KEYS)}" for key in unknown]
    wrong += ["no `url`"] if "url" not in settings else list_wrong_values(_REGISTRY_SETTINGS, settings)
    if wrong:
        raise ConfigError(
            f"source {source.name}: `schema_registry` can't be used: {wrong[0]}.",
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
        mechanism=_read_mechanism("mechanism", settings.get("mechanism", "PLAIN")),
        tls=read_flag("tls", settings.get("tls", False)),
        ca_file=settings.get("ca_file"),
        certificate_file=settings.get("certificate_file"),
        properties=read_properties(source),
    )


def _list_topics(source: IngestSource) -> list[TopicTable]:
    topics, prefix = source.connection.get("topics", {}), source.connection.get("topic_prefix")
    return [
        TopicTable(
            table.source_name,
            str(topics.get(table.name, table.source_name if prefix is None else f"{prefix}.{table.source_name}")),
            table.columns,
        )
        for table in source.tables
    ]


KAFKA = Connector("kafka", _SETTINGS, ("servers",), _connect, describe_address, parse_position, _list_jars)
