"""One description of a connection becomes the settings of both clients, and shows no secret."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from concurrent.futures import Future
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException
from confluent_kafka import admin as kafka_admin
from hypothesis import given
from hypothesis import strategies as st

from arctic_runtime.errors import ConfigError, SourceError
from arctic_runtime.ingest.transports.kafka.connection import KafkaConnection, KafkaOffsets
from arctic_runtime.ingest.transports.kafka.offsets import OffsetRange
from arctic_runtime.thresholds import TransportThresholds


def unquoted(text: str) -> str:
    """A quoted value as JAAS reads it."""
    value, at = "", 0
    while at < len(text):
        at += text[at] == "\\"
        value += text[at]
        at += 1
    return value


def test_without_more_a_connection_is_plain() -> None:
    plain = KafkaConnection("a:1,b:2")
    assert plain.build_spark_options() == {"kafka.bootstrap.servers": "a:1,b:2", "kafka.security.protocol": "PLAINTEXT"}
    assert plain.build_client_options() == {"bootstrap.servers": "a:1,b:2", "security.protocol": "PLAINTEXT"}


@given(st.text(min_size=1), st.text(min_size=1))
def test_names_and_passwords_arrive_as_they_are(user: str, password: str) -> None:
    connection = KafkaConnection("a:1", user, password)
    login = connection.build_spark_options()["kafka.sasl.jaas.config"]
    name, _, secret = login.partition('required username="')[2].removesuffix('";').partition('" password="')
    if '" password="' not in user:
        assert (unquoted(name), unquoted(secret)) == (user, password)
    assert connection.build_client_options()["sasl.username"] == user
    assert connection.build_client_options()["sasl.password"] == password


def test_a_password_is_not_shown() -> None:
    connection = KafkaConnection("a:1", "me", "hidden", properties={"ssl.key.password": "hidden"})
    assert "hidden" not in repr(connection)


def test_certificates_are_given_to_both_clients() -> None:
    connection = KafkaConnection(
        "a:1", "me", "x", "SCRAM-SHA-512", tls=True, ca_file="/ca.pem", certificate_file="/me.pem"
    )
    spark, client = connection.build_spark_options(), connection.build_client_options()
    assert spark["kafka.security.protocol"] == client["security.protocol"] == "SASL_SSL"
    assert spark["kafka.sasl.mechanism"] == client["sasl.mechanism"] == "SCRAM-SHA-512"
    assert "ScramLoginModule" in spark["kafka.sasl.jaas.config"]
    assert (spark["kafka.ssl.truststore.location"], spark["kafka.ssl.keystore.location"]) == ("/ca.pem", "/me.pem")
    assert (client["ssl.ca.location"], client["ssl.certificate.location"]) == ("/ca.pem", "/me.pem")


@pytest.mark.parametrize(
    ("given", "named"),
    [({"user": "me"}, "`password`"), ({"password": "x"}, "`user`"), ({"ca_file": "/ca.pem"}, "`tls: true`")],
)
def test_parts_that_contradict_are_refused(given: dict[str, Any], named: str) -> None:
    with pytest.raises(ConfigError, match=named):
        KafkaConnection("a:1", **given)


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
