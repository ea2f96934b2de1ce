"""A small Kafka client that requests partitions and offsets from the cluster; it reads no events."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from arctic_runtime.errors import ConfigError, SourceError
from arctic_runtime.ingest.transports.kafka.connection import KafkaConnection
from arctic_runtime.ingest.transports.kafka.offsets import OffsetRange, Partition
from arctic_runtime.thresholds import TransportThresholds


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
