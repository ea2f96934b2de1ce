"""The image as people run it: read-only, as another user, without a network, with 2 GiB of memory."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from sample_project.servers import PostgreSQLServer
from tests.image.conftest import TOKEN
from tests.image.container import Conditions, Container, ask, run_once

pytestmark = pytest.mark.skipif(not os.environ.get("ARCTIC_IMAGE_TESTS"), reason="run by make test-image")

Start = Callable[..., Container]
USERS = pytest.mark.parametrize("user", ["", "10001:10001", "1000650000:0"], ids=["of the image", "10001", "nameless"])
"""The image's own user; the manifest's; a number that no file of the image names, as OpenShift chooses them."""


def read_rows(port: int = 8470) -> list[list[object]] | None:
    """The rows of the model as the service shows them; None before there are any."""
    code, text = ask(f"http://127.0.0.1:{port}/api/tables/dws_spend/rows", TOKEN)
    return sorted(json.loads(text)["rows"]) if code == 200 else None


def wait_for(container: Container, expected: list[list[object]], timeout: float = 120) -> None:
    """Waits until the model has these rows."""
    end = time.monotonic() + timeout
    while (rows := read_rows()) != expected:
        assert container.process.poll() is None, container.read_log()
        assert time.monotonic() < end, f"{rows}\n{container.read_log()}"
        time.sleep(0.2)


@USERS
def test_a_build_follows_an_ingestion_that_runs_once(conditions: Conditions, tmp_path: Path, user: str) -> None:
    asked = replace(conditions, user=user)
    code, log = run_once(asked, ["arctic", "ingest", "--once"], tmp_path / "ingest.log")
    assert code == 0, log
    code, log = run_once(asked, ["dbt", "build"], tmp_path / "build.log")
    assert code == 0, log
    assert "create +2" in log


@USERS
def test_the_service_follows_a_database_until_it_is_stopped(
    conditions: Conditions, start: Start, postgresql: PostgreSQLServer, user: str
) -> None:
    container = start(replace(conditions, user=user), "serve")
    seconds = container.wait_until_ready()
    wait_for(container, [["ann", "2", "50.00"], ["bob", "1", "5.00"]])
    postgresql.sql("insert into orders values (4, 'cid', 7)")
    wait_for(container, [["ann", "2", "50.00"], ["bob", "1", "5.00"], ["cid", "1", "7.00"]])
    postgresql.sql("delete from orders where order_id = 4")
    wait_for(container, [["ann", "2", "50.00"], ["bob", "1", "5.00"]])
    assert container.end() == 0, container.read_log()
    print(f"ready after {seconds:.1f} s, at most {container.read_peak_bytes() >> 20} MiB")
