"""Connection settings of Kafka, and a small client that requests partitions and offsets but reads no events."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from arctic_runtime.errors import ConfigError, SourceError
from arctic_runtime.ingest.transports.kafka.offsets import OffsetRange, Partition
from arctic_runtime.thresholds import TransportThresholds

Mechanism = Literal["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"]

_MODULES: Mapping[Mechanism, str] = {
    "PLAIN": "org.apache.kafka.common.security.plain.PlainLoginModule",
    "SCRAM-SHA-256": "org.apache.kafka.common.security.scram.ScramLoginModule",
    "SCRAM-SHA-512": "org.apache.kafka.common.security.scram.ScramLoginModule",
}


@dataclass(frozen=True)
class KafkaConnection:
    """The servers of a Kafka cluster, and the settings to connect to them.

    Raises ConfigError if the settings contradict each other. On a cluster the files have to be on each machine.
    """

    servers: str
    """Addresses as `host:port`, separated by commas."""

    user: str | None = None
    """Name that is sent with the password; None to send neither."""

    password: str | None = field(default=None, repr=False)
    mechanism: Mechanism = "PLAIN"
    """SASL mechanism by which name and password are sent."""

    tls: bool = False
    """Whether the connection is encrypted."""

    ca_file: str | None = None
    """File with the trusted certificates in PEM; None for those of the system."""

    certificate_file: str | None = None
    """File with this client's certificate and its key in PEM; None for no certificate."""

    properties: Mapping[str, str] = field(default_factory=dict, repr=False)
    """Settings with the same names in Java's client and in librdkafka."""

    def __post_init__(self) -> None:
        if (self.user is None) != (self.password is None):
            raise ConfigError("Kafka wants `user` and `password` together, and one of them is missing")
        if not self.tls and (self.ca_file or self.certificate_file):
            raise ConfigError("`ca_file` and `certificate_file` need `tls: true`")

    @property
    def protocol(self) -> str:
        return f"{'SASL_' if self.user else ''}{'SSL' if self.tls else 'PLAINTEXT'}"

    def build_spark_options(self) -> dict[str, str]:
        """Returns the connection settings as options of Spark's Kafka source."""
        options = {**self.properties, "bootstrap.servers": self.servers, "security.protocol": self.protocol}
        if self.user is not None and self.password is not None:
            user, password = _quote_value(self.user), _quote_value(self.password)
            login = f"{_MODULES[self.mechanism]} required username={user} password={password};"
            options |= {"sasl.mechanism": self.mechanism, "sasl.jaas.config": login}
        if self.ca_file:
            options |= {"ssl.truststore.type": "PEM", "ssl.truststore.location": self.ca_file}
        if self.certificate_file:
            options |= {"ssl.keystore.type": "PEM", "ssl.keystore.location": self.certificate_file}
        return {f"kafka.{key}": value for key, value in options.items()}

    def build_client_options(self) -> dict[str, str]:
        """Returns the connection settings as configuration of confluent-kafka's clients."""
        options = {**self.properties, "bootstrap.servers": self.servers, "security.protocol": self.protocol}
        if self.user is not None and self.password is not None:
            options |= {"sasl.mechanism": self.mechanism, "sasl.username": self.user, "sasl.password": self.password}
        if self.ca_file:
            options |= {"ssl.ca.location": self.ca_file}
        if self.certificate_file:
            options |= {"ssl.certificate.location": self.certificate_file, "ssl.key.location": self.certificate_file}
        return options


def _quote_value(value: str) -> str:
    """Quotes a value for a JAAS configuration."""
    escaped = value.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


class _LeaderMoved(Exception):
    """Raised if a partition has a new leader that not all brokers know yet, so that the request is to be retried.

    `error` is the error to raise if retries fail too.
    """

    def __init__(self, error: SourceError) -> None:
        super().__init__(str(error))
        self.error = error


class KafkaOffsets:
    """Requests partitions of topics from Kafka, and their first and end offsets.

    End offsets are before the events of open transactions.
    """

    def __init__(self, connection: KafkaConnection, limits: TransportThresholds) -> None:
        try:
            from confluent_kafka.admin import AdminClient
        except ImportError as error:
            raise ConfigError("Reading from Kafka needs its client: pip install 'dbt-arctic[kafka]'") from error

        self._where = connection.servers
        self._seconds, self._pause = limits.answer_seconds, limits.answer_pause_seconds
        self._errors: list[str] = []
        settings: dict[str, Any] = {**connection.build_client_options(), "error_cb": self._note_error, "log_level": 0}
        try:
            self._admin = AdminClient(settings)
        except _list_kafka_errors() as error:
            raise ConfigError(f"The settings of Kafka can't be used: {_get_reason(error)}") from error

    def list_kept(self, topics: Sequence[str]) -> dict[Partition, OffsetRange]:
        """Requests the first and end offsets of every partition of `topics`.

        Raises SourceError if Kafka doesn't answer or has no such topic.
        """
        end = time.monotonic() + self._seconds
        while True:
            try:
                return self._list_kept_once(topics)
            except _LeaderMoved as moved:
                if time.monotonic() > end:
                    raise moved.error from moved
                time.sleep(self._pause)

    def _list_kept_once(self, topics: Sequence[str]) -> dict[Partition, OffsetRange]:
        from confluent_kafka import TopicPartition
        from confluent_kafka.admin import OffsetSpec

        partitions = [(topic, number) for topic in topics for number in self._list_partitions(topic)]
        first, end = (
            self._list_offsets({TopicPartition(*one): offset_spec for one in partitions})
            for offset_spec in (OffsetSpec.earliest(), OffsetSpec.latest())
        )
        return {one: OffsetRange(first[one], end[one]) for one in partitions}

    def _list_partitions(self, topic: str) -> list[int]:
        from confluent_kafka import KafkaError

        topic_metadata = self._ask_kafka(lambda: self._admin.list_topics(topic, timeout=self._seconds)).topics[topic]
        if topic_metadata.error is not None:
            failed = SourceError(
                f"Kafka has no topic {topic} that can be read.",
                where=self._where,
                actual=topic_metadata.error.str(),
                fix="correct the topic of the table, or give this user the right to read it",
            )
            is_being_made = topic_metadata.error.code() == KafkaError.LEADER_NOT_AVAILABLE
            raise _LeaderMoved(failed) if is_being_made else failed
        return sorted(topic_metadata.partitions)

    def _list_offsets(self, asked: Mapping[Any, Any]) -> dict[Partition, int]:
        from confluent_kafka import IsolationLevel

        futures = self._admin.list_offsets(
            dict(asked), isolation_level=IsolationLevel.READ_COMMITTED, request_timeout=self._seconds
        )
        return {
            (topic_partition.topic, topic_partition.partition): self._ask_kafka(future.result).offset
            for topic_partition, future in futures.items()
        }

    def _ask_kafka(self, ask: Callable[[], Any]) -> Any:
        try:
            return ask()
        except _list_kafka_errors() as error:
            self._admin.poll(0)
            reasons = [_get_reason(error), *dict.fromkeys(self._errors)]
            failed = SourceError(
                "Kafka doesn't answer.",
                where=self._where,
                actual="; ".join(reasons),
                fix="check the address, the user and the password, and whether the servers run",
            )
            raise (_LeaderMoved(failed) if _is_leader_move(error) else failed) from error

    def _note_error(self, error: Any) -> None:
        self._errors = [*self._errors[-3:], str(error.str())]


def _list_kafka_errors() -> tuple[type[Exception], ...]:
    from confluent_kafka import KafkaException

    return (KafkaException,)


def _is_leader_move(error: Exception) -> bool:
    from confluent_kafka import KafkaError

    codes = (
        KafkaError.NOT_LEADER_FOR_PARTITION,
        KafkaError.LEADER_NOT_AVAILABLE,
        KafkaError.FENCED_LEADER_EPOCH,
        KafkaError.UNKNOWN_LEADER_EPOCH,
        KafkaError.OFFSET_NOT_AVAILABLE,
        KafkaError.UNKNOWN_TOPIC_OR_PART,
    )
    first = error.args[0] if error.args else None
    return isinstance(first, KafkaError) and first.code() in codes


def _get_reason(error: Exception) -> str:
    first = error.args[0] if error.args else error
    return str(first.str()) if hasattr(first, "str") else str(first)
