"""What is asked of Kafka again, and what is an error at once."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from concurrent.futures import Future
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException
from confluent_kafka import admin as kafka_admin

from arctic_runtime.errors import SourceError
from arctic_runtime.ingest.transports.kafka.connection import KafkaConnection, KafkaOffsets
from arctic_runtime.ingest.transports.kafka.offsets import OffsetRange
from arctic_runtime.thresholds import TransportThresholds


class Broker:
    """Stands for the client of a broker that answers with errors first."""

    def __init__(self, answers: Iterator[int | None], of_topics: list[int]) -> None:
        self.answers = answers
        self.of_topics = of_topics

    def list_topics(self, topic: str, timeout: float) -> Any:
        error = KafkaError(self.of_topics.pop(0)) if self.of_topics else None
        return SimpleNamespace(topics={topic: SimpleNamespace(error=error, partitions={0: None})})

    def list_offsets(self, asked: Mapping[Any, Any], **_: object) -> dict[Any, Future[Any]]:
        futures: dict[Any, Future[Any]] = {request: Future() for request in asked}
        error = next(self.answers)
        for future in futures.values():
            if error is None:
                future.set_result(SimpleNamespace(offset=7))
            else:
                future.set_exception(KafkaException(KafkaError(error)))
        return futures

    def poll(self, seconds: float) -> None:
        """Calls back with errors; there are none."""


def client(
    monkeypatch: pytest.MonkeyPatch,
    *answers: int | None,
    last: int | None,
    seconds: float,
    of_topics: tuple[int, ...] = (),
) -> KafkaOffsets:
    def all_answers() -> Iterator[int | None]:
        yield from answers
        while True:
            yield last

    monkeypatch.setattr(kafka_admin, "AdminClient", lambda _: Broker(all_answers(), list(of_topics)))
    return KafkaOffsets(
        KafkaConnection("127.0.0.1:9092"), TransportThresholds(answer_seconds=seconds, answer_pause_seconds=0.01)
    )


MOVING = [KafkaError.NOT_LEADER_FOR_PARTITION, KafkaError.LEADER_NOT_AVAILABLE, KafkaError.UNKNOWN_TOPIC_OR_PART]


def test_a_partition_whose_leader_changes_is_asked_again(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = client(monkeypatch, *MOVING, last=None, seconds=30)
    assert asked.list_kept(["orders"]) == {("orders", 0): OffsetRange(7, 7)}


def test_a_topic_that_is_being_made_is_asked_for_again(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = client(monkeypatch, last=None, seconds=30, of_topics=(KafkaError.LEADER_NOT_AVAILABLE,))
    assert asked.list_kept(["orders"]) == {("orders", 0): OffsetRange(7, 7)}


def test_a_topic_that_is_not_there_is_an_error_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = client(monkeypatch, last=None, seconds=30, of_topics=(KafkaError.UNKNOWN_TOPIC_OR_PART,))
    with pytest.raises(SourceError, match="no topic orders"):
        asked.list_kept(["orders"])


def test_a_leader_that_never_settles_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = client(monkeypatch, last=KafkaError.NOT_LEADER_FOR_PARTITION, seconds=0.2)
    with pytest.raises(SourceError, match="Not leader for partition"):
        asked.list_kept(["orders"])


def test_other_errors_are_not_asked_again(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = client(monkeypatch, KafkaError.TOPIC_AUTHORIZATION_FAILED, last=None, seconds=30)
    with pytest.raises(SourceError, match="Topic authorization failed"):
        asked.list_kept(["orders"])
