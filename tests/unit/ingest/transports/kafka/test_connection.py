"""One description of a connection becomes the settings of both clients, and shows no secret."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from arctic_runtime.errors import ConfigError
from arctic_runtime.ingest.transports.kafka.connection import KafkaConnection


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
