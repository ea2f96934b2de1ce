"""Change rows over HTTP: in the format that a client accepts, as a whole or not at all."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from http.client import IncompleteRead
from typing import Any

import pyarrow as pa
import pytest

from arctic_runtime.errors import ConfigError, CorruptState
from arctic_runtime.service.http.server import HttpServer
from arctic_runtime.service.http_settings import HttpSettings
from arctic_runtime.thresholds import HttpThresholds
from tests.service.fake import FakeService
from tests.unit.service.http.client import Client

Serve = Callable[..., Client]
PATH = "/api/tables/ods_flights/changes"
ARROW = "application/vnd.apache.arrow.stream"


def read_ids(body: bytes) -> list[int]:
    with pa.ipc.open_stream(body) as stream:
        ids: list[int] = stream.read_all()["id"].to_pylist()
    return ids


def test_an_arrow_stream_comes_with_the_version_to_ask_from_next(client: Client, fake: FakeService) -> None:
    answer = client.get(f"{PATH}?from=7&to=good", Accept=ARROW)
    assert (answer.status, answer.headers["content-type"], answer.headers["arctic-next-version"]) == (200, ARROW, "42")
    assert read_ids(answer.body) == [1, 2, 3, 4]
    assert fake.asked == [("changes", "ods_flights", "7", "good")]
    assert read_ids(client.get(PATH).body) == [1, 2, 3, 4]
    assert fake.asked[1:] == [("changes", "ods_flights", None, None)]


def test_nothing_new_is_a_stream_without_rows(client: Client, fake: FakeService) -> None:
    fake.batches = ()
    answer = client.get(PATH)
    assert (answer.status, read_ids(answer.body), answer.headers["arctic-next-version"]) == (200, [], "42")
    assert client.get(PATH, Accept="application/jsonl").body == b""


def test_rows_come_in_the_format_that_a_client_accepts(client: Client) -> None:
    lines = client.get(PATH, Accept="application/jsonl").body.splitlines()
    assert [json.loads(line)["id"] for line in lines] == [1, 2, 3, 4]
    answer = client.get(PATH, Accept="text/csv")
    assert answer.headers["content-type"].startswith("text/csv")
    assert answer.body.splitlines()[:2] == [b'"id","_action"', b'1,"insert"']
    refused = client.get(PATH, Accept="text/html")
    assert (refused.status, refused.json["expected"]) == (406, f"{ARROW}, application/jsonl, text/csv")


@pytest.mark.parametrize("query", ["?from=", "?to="])
def test_an_empty_version_is_refused(client: Client, query: str) -> None:
    assert client.get(PATH + query).status == 422


def test_an_error_before_the_first_row_is_a_problem(client: Client, fake: FakeService) -> None:
    assert client.get("/api/tables/nothing/changes").status == 404
    fake.failure = ConfigError("no version 7", fix="ask without `from`")
    answer = client.get(f"{PATH}?from=7")
    assert (answer.status, answer.json["fix"]) == (422, "ask without `from`")
    fake.failure, fake.batches = None, (CorruptState("a file is gone"),)
    assert client.get(PATH).status == 500


def test_a_stream_that_fails_does_not_look_whole(client: Client, fake: FakeService) -> None:
    fake.batches = ((1, 2), CorruptState("a file is gone"))
    with pytest.raises(IncompleteRead):
        client.get(PATH)


def test_a_stream_may_take_longer_than_a_request_but_no_part_of_it(serve: Serve, fake: FakeService) -> None:
    client = serve(request_seconds=1.0)
    fake.batches = Slow(0.4, 5)
    assert read_ids(client.get(PATH).body) == [1] * 5
    fake.batches = Slow(0.0, 1, never=True)
    with pytest.raises(IncompleteRead):
        client.get(PATH)


class Slow:
    """Batches with a pause before each, and with `never`, a wait after them that outlasts the request."""

    def __init__(self, seconds: float, count: int, never: bool = False) -> None:
        self.seconds, self.count, self.never = seconds, count, never

    def __iter__(self) -> Iterator[Any]:
        for _ in range(self.count):
            threading.Event().wait(self.seconds)
            yield (1,)
        if self.never:
            threading.Event().wait(3.0)


def test_only_so_many_clients_read_change_rows_at_once_and_each_ended_one_makes_room(fake: FakeService) -> None:
    going_on = threading.Event()

    class Held:
        def __iter__(self) -> Iterator[Any]:
            yield (1,)
            going_on.wait(10.0)

    fake.batches = Held()  # type: ignore[assignment]
    with HttpServer(fake, HttpSettings(port=0), thresholds=HttpThresholds(exports=1)) as server:
        client = Client(server.url)
        with client.opened("GET", PATH) as response:
            assert response.status == 200
            assert client.get(PATH).status == 503
            going_on.set()
            assert read_ids(response.read()) == [1]
        fake.failure = ConfigError("no such version")
        assert [client.get(PATH).status for _ in range(2)] == [422, 422]
        fake.failure, fake.batches = None, ((5,),)
        assert read_ids(client.get(PATH).body) == [5]
