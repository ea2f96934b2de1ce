"""The first question to an object store, and what each answer means with each kind of catalog."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from arctic_runtime.catalog.storage.embedded_warehouse import check_store, prepare_warehouse
from arctic_runtime.errors import CatalogError
from arctic_runtime.profile import Profile

SECRET = "HUSH"


@pytest.fixture
def serve(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[int], str]]:
    """Starts a store that answers each request with one status; returns its address."""
    for name in ("AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_S3", "AWS_REGION", "AWS_DEFAULT_REGION"):
        monkeypatch.delenv(name, raising=False)
    servers: list[ThreadingHTTPServer] = []

    def start(status: int) -> str:
        class Handler(BaseHTTPRequestHandler):
            def do_HEAD(self) -> None:
                self.send_response(status)
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, format: str, *args: object) -> None:  # noqa: A002
                """Says nothing."""

        servers.append(ThreadingHTTPServer(("127.0.0.1", 0), Handler))
        threading.Thread(target=servers[-1].serve_forever, daemon=True).start()
        return f"http://127.0.0.1:{servers[-1].server_address[1]}"

    yield start
    for server in servers:
        server.shutdown()
        server.server_close()


def build_profile(kind: str, endpoint: str) -> Profile:
    uri = "http://127.0.0.1:9" if kind == "rest" else "jdbc:sqlite:/nowhere/catalog.db"
    properties = {"type": kind, "uri": uri, "warehouse": "s3://lake/wh", "s3.endpoint": endpoint}
    return Profile(catalog_properties={**properties, "s3.access-key-id": "ME", "s3.secret-access-key": SECRET})


@pytest.mark.parametrize(
    ("kind", "status", "message"),
    [
        ("jdbc", 403, "refuses this user"),
        ("jdbc", 404, "has no such bucket"),
        ("rest", 404, "has no such bucket"),
    ],
)
def test_an_answer_that_helps_nobody_is_an_error_that_names_bucket_and_endpoint(
    kind: str, status: int, message: str, serve: Callable[[int], str]
) -> None:
    endpoint = serve(status)
    with pytest.raises(CatalogError, match=message) as refused:
        check_store(build_profile(kind, endpoint))
    assert f"s3://lake/wh at {endpoint}" in str(refused.value)
    assert SECRET not in str(refused.value)


@pytest.mark.parametrize(("kind", "status"), [("jdbc", 200), ("rest", 200), ("rest", 403)])
def test_a_bucket_that_is_there_is_enough_and_a_rest_catalog_may_give_the_rights(
    kind: str, status: int, serve: Callable[[int], str]
) -> None:
    check_store(build_profile(kind, serve(status)))


@pytest.mark.parametrize("kind", ["jdbc", "rest"])
def test_a_store_that_can_not_be_reached_is_an_error_with_every_catalog(kind: str, serve: Callable[[int], str]) -> None:
    with pytest.raises(CatalogError, match="does not answer"):
        check_store(build_profile(kind, "http://127.0.0.1:9"))


def test_a_folder_is_asked_for_nothing(tmp_path: Path) -> None:
    check_store(Profile.for_embedded(tmp_path / "warehouse"))


def test_a_catalog_that_was_copied_without_its_log_is_no_empty_warehouse(tmp_path: Path) -> None:
    """The file alone may have nothing of what is in the log beside it."""
    profile = Profile.for_embedded(tmp_path)
    prepare_warehouse(profile)
    (tmp_path / "ods" / "orders" / "metadata").mkdir(parents=True)
    (tmp_path / "ods" / "orders" / "metadata" / "1.metadata.json").write_text("{}")
    prepare_warehouse(profile)
    (tmp_path / "catalog.db").write_bytes(b"")
    for _ in range(2):
        with pytest.raises(CatalogError, match="does not know") as caught:
            prepare_warehouse(profile)
        assert "ods/orders" in str(caught.value)
        assert "catalog.db-wal" in str(caught.value)


def test_an_empty_folder_gets_a_catalog(tmp_path: Path) -> None:
    prepare_warehouse(Profile.for_embedded(tmp_path / "new"))
    prepare_warehouse(Profile.for_embedded(tmp_path / "new"))
