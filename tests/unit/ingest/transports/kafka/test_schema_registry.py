"""A schema registry is asked once for each id, and what it refuses or lacks is named without a secret."""

from __future__ import annotations

import json
import socket
import time
from collections.abc import Iterator
from typing import Any

import pytest

from arctic_runtime.errors import ConfigError, SourceError
from arctic_runtime.ingest.transports.kafka.schema_registry import RegistryConnection, SchemaRegistry
from arctic_runtime.thresholds import TransportThresholds
from tests.schema_registry import Registry, running_registry

RECORD = {"type": "record", "name": "R", "fields": [{"name": "id", "type": "long"}]}
LIMITS = TransportThresholds(answer_seconds=5, registry_retries=1, registry_pause_seconds=0)


@pytest.fixture
def registry() -> Iterator[Registry]:
    with running_registry() as registry:
        yield registry


def client(registry: Registry, **settings: Any) -> SchemaRegistry:
    return SchemaRegistry(RegistryConnection(registry.url, **settings), LIMITS)


def test_a_schema_is_requested_once(registry: Registry) -> None:
    id_, reader = registry.add(RECORD), client(registry)
    first = reader.get_schema(id_)
    assert reader.get_schema(id_) is first
    assert registry.requests == [f"/schemas/ids/{id_}"]
    assert first.root["name"] == "R"


def test_a_slash_at_the_end_of_the_url_is_harmless(registry: Registry) -> None:
    id_ = registry.add(RECORD)
    registry.url += "/"
    assert client(registry).get_schema(id_).id == id_


def test_an_id_that_the_registry_does_not_know_is_asked_again(registry: Registry) -> None:
    reader = client(registry)
    with pytest.raises(SourceError, match=rf"no schema with the id 7(?s:.*){registry.url}/schemas/ids/7"):
        reader.get_schema(7)
    registry.add(RECORD, 7)
    assert reader.get_schema(7).id == 7


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({"schemaType": "PROTOBUF"}, r"type PROTOBUF, which is not read(?s:.*)AvroConverter"),
        ({"schemaType": "JSON"}, "type JSON, which is not read"),
        ({"references": [{"name": "shop.Item", "subject": "item", "version": 1}]}, "references to shop.Item"),
    ],
)
def test_schemas_that_are_not_read_are_named(registry: Registry, more: dict[str, Any], message: str) -> None:
    id_ = registry.add(RECORD, **more)
    with pytest.raises(SourceError, match=message):
        client(registry).get_schema(id_)


def test_a_schema_whose_type_is_told_is_read(registry: Registry) -> None:
    assert client(registry).get_schema(registry.add(RECORD, schemaType="AVRO", references=[])).root["name"] == "R"


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        ((500, {"message": "out of order"}), "HTTP 500 Internal Server Error out of order"),
        ((503, "starting"), "HTTP 503"),
        ((404, "no such page"), r"HTTP 404 Not Found(?s:.*)check the URL"),
        ((404, {"error_code": 404, "message": "HTTP 404 Not Found"}), "HTTP 404(?s:.*)check the URL"),
        ((200, ["AVRO"]), "HTTP 200"),
        ((200, {"schema": 1}), "HTTP 200"),
        ((200, {"schema": "{"}), "no schema of Avro"),
        ((200, {"schema": json.dumps({"type": "record"})}), "no schema of Avro"),
        ((403, {"message": "only for others"}), r"403 Forbidden only for others(?s:.*)`user`"),
    ],
)
def test_answers_without_a_schema_are_shown(registry: Registry, answer: tuple[int, Any], message: str) -> None:
    registry.answers["/schemas/ids/1"] = answer
    with pytest.raises(SourceError, match=message) as refused:
        client(registry).get_schema(1)
    assert refused.value.where == f"{registry.url}/schemas/ids/1"


def test_a_proxy_that_has_no_registry_for_a_moment_is_asked_again(registry: Registry) -> None:
    id_ = registry.add(RECORD)
    registry.answers[f"/schemas/ids/{id_}"] = (502, "")
    with pytest.raises(SourceError):
        client(registry).get_schema(id_)
    assert len(registry.requests) == 2


def test_a_user_and_a_password_are_sent_and_never_shown() -> None:
    password = "pässword-\u20ac"
    with running_registry(f"me:{password}") as registry:
        client(registry, user="me", password=password).check_registry()
        with pytest.raises(SourceError, match=r"HTTP 401(?s:.*)correct `user` and `password`") as refused:
            client(registry, user="me", password="wrong-one").check_registry()
        registry.answers["/schemas/types"] = (500, {"message": f"{password} and bWU6cMOkc3N3b3JkLeKCrA=="})
        with pytest.raises(SourceError) as failed:
            client(registry, user="me", password=password).check_registry()
    for error in (refused, failed):
        for secret in ("wrong-one", "d3Jvbmctb25l", password, "bWU6"):
            assert secret not in f"{error.value}{error.value.details}"
    assert password not in repr(RegistryConnection("http://a:1", "me", password))


def test_a_registry_without_a_list_of_types_is_a_registry(registry: Registry) -> None:
    registry.answers["/schemas/types"] = (404, {})
    client(registry).check_registry()


def test_a_registry_that_is_away_is_named() -> None:
    with socket.create_server(("127.0.0.1", 0)) as closed:
        url = f"http://127.0.0.1:{closed.getsockname()[1]}"
    reader = SchemaRegistry(RegistryConnection(url), LIMITS)
    with pytest.raises(SourceError, match=r"schema registry(?s:.*)127\.0\.0\.1(?s:.*)refused(?s:.*)that it is up"):
        reader.check_registry()


def test_a_registry_that_says_nothing_is_not_waited_for() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"http://127.0.0.1:{silent.getsockname()[1]}"
        start = time.monotonic()
        with pytest.raises(SourceError, match=r"no answer within 0\.2 s"):
            SchemaRegistry(RegistryConnection(url), TransportThresholds(answer_seconds=0.2)).check_registry()
        assert time.monotonic() - start < 3


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"url": "http://me:hidden@registry:8081"}, "a user or a password in it"),
        ({"url": "registry:8081"}, "must be one URL"),
        ({"url": "http://a:1,http://b:1"}, "must be one URL"),
        ({"url": "http://a:1", "user": "me"}, "`user` and `password` together"),
        ({"url": "http://a:1", "password": "hidden"}, "`user` and `password` together"),
    ],
)
def test_settings_that_can_not_be_used_are_named(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message) as refused:
        RegistryConnection(**settings)
    assert "hidden" not in str(refused.value)
