"""The image as people run it: read-only, as another user, without a network, with 2 GiB of memory."""

from __future__ import annotations

import json
import os
import shutil
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
import yaml

from sample_project.servers import PostgreSQLServer
from tests.image.conftest import TOKEN
from tests.image.container import Conditions, Container, ask, run_once

pytestmark = pytest.mark.skipif(not os.environ.get("ARCTIC_IMAGE_TESTS"), reason="run by make test-image")

Start = Callable[..., Container]
ROWS = [["ann", "2", "50.00"], ["bob", "1", "5.00"]]
"""Orders and amount of each customer in the project of the compose file."""
USERS = pytest.mark.parametrize("user", ["", "10001:10001", "1000650000:0"], ids=["of the image", "10001", "nameless"])
"""The image's own user; the manifest's; a number that no file of the image names, as OpenShift chooses them."""


def read_rows(port: int = 8470) -> list[list[str]] | None:
    """The rows of the model as the service shows them; None before there are any."""
    code, text = ask(f"http://127.0.0.1:{port}/api/tables/dws_spend/rows", TOKEN)
    return sorted(json.loads(text)["rows"]) if code == 200 else None


def wait_for(container: Container, expected: list[list[str]], port: int = 8470, timeout: float = 180) -> None:
    """Waits until the model has these rows."""
    end = time.monotonic() + timeout
    while (rows := read_rows(port)) != expected:
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
    wait_for(container, ROWS)
    postgresql.sql("insert into orders values (4, 'cid', 7)")
    wait_for(container, [*ROWS, ["cid", "1", "7.00"]])
    postgresql.sql("delete from orders where order_id = 4")
    wait_for(container, ROWS)
    assert container.end() == 0, container.read_log()
    print(f"ready after {seconds:.1f} s, at most {container.read_peak_bytes() >> 20} MiB")


def edit_profile(conditions: Conditions, **changes: object) -> None:
    """Changes keys of the target, and its port if there is one among them."""
    file = conditions.project / "profiles.yml"
    profile = yaml.safe_load(file.read_text())
    target = profile["shop"]["outputs"]["live"]
    port = changes.pop("port", None)
    target["serve"]["http"].update({"port": port} if port else {})
    target.update(changes)
    file.write_text(yaml.safe_dump({"shop": {**profile["shop"], "outputs": {"live": without_nothing(target)}}}))


def without_nothing(target: dict[str, object]) -> dict[str, object]:
    return {key: value for key, value in target.items() if value is not None}


def copy_conditions(conditions: Conditions, folder: Path) -> Conditions:
    """The same warehouse for another replica, whose profile may be another."""
    shutil.copytree(conditions.project, folder)
    return replace(conditions, project=folder)


def test_a_stop_in_the_middle_of_work_ends_well_and_the_next_start_is_exact(
    conditions: Conditions, start: Start, postgresql: PostgreSQLServer
) -> None:
    """It ends while rows come in, one transaction after the other."""
    first = start(conditions, "serve")
    first.wait_until_ready()
    wait_for(first, ROWS)
    for number in range(100, 200):
        postgresql.sql(f"insert into orders values ({number}, 'dan', 1)")
    assert first.end() == 0, first.read_log()
    second = start(conditions, "serve")
    second.wait_until_ready()
    wait_for(second, [*ROWS, ["dan", "100", "100.00"]])
    postgresql.sql("delete from orders where customer = 'dan'")
    wait_for(second, ROWS)
    second.kill()


def test_the_other_replica_leads_once_the_first_is_dead(
    conditions: Conditions, start: Start, postgresql: PostgreSQLServer, tmp_path: Path
) -> None:
    """Over a catalog in PostgreSQL the first is killed, and a change that comes then is shown by the other."""
    postgresql.sql("create database lake", database="postgres")
    catalog = {
        "type": "jdbc",
        "uri": f"jdbc:postgresql://127.0.0.1:{postgresql.port}/lake",
        "jdbc.user": "postgres",
        "jdbc.password": "any",
        "warehouse": "/warehouse",
    }
    edit_profile(conditions, warehouse=None, catalog_config=catalog)
    other = copy_conditions(conditions, tmp_path / "other")
    edit_profile(other, port=8471)
    first = start(conditions, "serve")
    first.wait_until_ready()
    wait_for(first, ROWS)
    second = start(other, "serve")
    second.wait_until_ready(port=8471)
    first.kill()
    postgresql.sql("insert into orders values (300, 'eve', 9)")
    wait_for(second, [*ROWS, ["eve", "1", "9.00"]], port=8471)
    postgresql.sql("delete from orders where order_id = 300")
    wait_for(second, ROWS, port=8471)
    assert second.end() == 0, second.read_log()


def test_a_library_that_the_image_lacks_ends_the_start_with_its_name(conditions: Conditions, start: Start) -> None:
    edit_profile(conditions, server_side_parameters={"spark.arctic.jars": "kafka"})
    container = start(conditions, "serve")
    assert container.wait() != 0
    log = container.read_log()
    assert "python -m arctic_runtime.spark.jars kafka" in log
    assert "build argument" in log
    assert "Traceback" not in log
