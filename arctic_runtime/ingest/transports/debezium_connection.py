"""How Debezium reaches a database, and the properties of its engine."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from arctic_runtime.errors import ConfigError
from arctic_runtime.profile import nearest
from arctic_runtime.thresholds import DebeziumThresholds

MASK = "***"


@dataclass(frozen=True)
class DebeziumConnection:
    """A database and what is read of it. The password is shown nowhere.

    `connector` is a name of CONNECTORS or the full name of a Java class. `tables` are names or patterns as Debezium's
    `table.include.list` has them, with their schema (`public.orders`). `slot` names the replication slot and the
    publication in PostgreSQL, `server_id` is this reader's number among the replicas of a MySQL or MariaDB server.
    `properties` are further properties of Debezium, and win over those that are set here.
    """

    connector: str
    host: str
    port: int
    database: str
    user: str
    password: str = field(repr=False)
    tables: tuple[str, ...]
    slot: str = "arctic"
    server_id: int = 6_180
    properties: Mapping[str, str] = field(default_factory=dict, repr=False)

    @property
    def place(self) -> str:
        """The server and database as messages name them."""
        return f"{self.connector} {self.host}:{self.port}/{self.database}"

    def masked(self, text: str) -> str:
        """A text without the password, should it be in it."""
        open_words = (self.user, self.database, self.host, self.slot)
        return text if not self.password or self.password in open_words else text.replace(self.password, MASK)


@dataclass(frozen=True)
class Connector:
    """A connector of Debezium: its class, and properties that only it has, with fields of a connection in braces."""

    java_class: str
    properties: Mapping[str, str]


_POSTGRESQL = Connector(
    "io.debezium.connector.postgresql.PostgresConnector",
    {
        "database.dbname": "{database}",
        "plugin.name": "pgoutput",
        "slot.name": "{slot}",
        "slot.max.retries": "0",
        "publication.name": "{slot}",
        "publication.autocreate.mode": "filtered",
        "hstore.handling.mode": "json",
        "interval.handling.mode": "string",
        "message.prefix.include.list": "arctic",
        "include.unknown.datatypes": "true",
    },
)

CONNECTORS: Mapping[str, Connector] = {"postgresql": _POSTGRESQL}

_ENGINE = {
    "key.converter.schemas.enable": "false",
    "value.converter.schemas.enable": "false",
    "value.converter.decimal.format": "NUMERIC",
    "value.converter.replace.null.with.default": "false",
    "offset.storage": "org.apache.kafka.connect.storage.FileOffsetBackingStore",
    "decimal.handling.mode": "precise",
    "time.precision.mode": "adaptive_time_microseconds",
    "binary.handling.mode": "bytes",
    "column.propagate.source.type": ".*",
    "skipped.operations": "none",
    "tombstones.on.delete": "false",
    "snapshot.mode": "initial",
    "poll.interval.ms": "100",
    "event.processing.failure.handling.mode": "fail",
    "errors.max.retries": "0",
    "executor.shutdown.timeout.ms": "2000",
    "task.management.timeout.ms": "120000",
}
"""Properties that all connectors share. Lost connections are made anew by the transport, since Debezium goes on from
what was acknowledged, and not exactly inside of a transaction."""


def engine_properties(connection: DebeziumConnection, offsets: Path, thresholds: DebeziumThresholds) -> dict[str, str]:
    """All properties of an engine; raises ConfigError for an unknown connector."""
    known = CONNECTORS.get(connection.connector)
    if known is None and "." not in connection.connector:
        names = ", ".join(CONNECTORS)
        raise ConfigError(
            f"connector {connection.connector!r} is unknown{nearest(connection.connector, CONNECTORS)}; "
            f"expected {names}, or the full name of a Debezium connector's class"
        )
    fields = {"database": connection.database, "slot": connection.slot, "server_id": str(connection.server_id)}
    own = {key: value.format(**fields) for key, value in known.properties.items()} if known else {}
    return {
        **_ENGINE,
        "name": connection.slot,
        "topic.prefix": connection.slot,
        "connector.class": known.java_class if known else connection.connector,
        "database.hostname": connection.host,
        "database.port": str(connection.port),
        "database.user": connection.user,
        "database.password": connection.password,
        "table.include.list": ",".join(connection.tables),
        "offset.storage.file.filename": str(offsets),
        "heartbeat.interval.ms": str(thresholds.heartbeat_millis),
        "max.batch.size": str(thresholds.batch_events),
        "max.queue.size": str(2 * thresholds.batch_events),
        **own,
        **connection.properties,
    }
