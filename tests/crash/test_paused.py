"""A run may stop for any time while it writes; what others did meanwhile stays, and nothing comes twice."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from arctic_runtime.catalog.reader import CatalogReader
from arctic_runtime.model.refs import walk_lineage
from arctic_runtime.profile import Profile
from arctic_runtime.spark.engine.session import SparkEnvironment
from tests.rest_catalog import serve
from tests.spark.warehouse import Warehouse

if TYPE_CHECKING:
    from arctic_runtime.model.table import Model

CHILD = "tests.crash.paused"
COLUMNS = "id int, v string, lsn bigint"
SLOWLY = " where java_method('java.lang.Thread', 'sleep', 4L) is not null"
CONFIG = {"primary_key": "id", "input": "changes", "sequence_by": "lsn"}
CASES = {
    "m__changes": {**CONFIG, "merge": "on_read"},
    "m": {**CONFIG, "partition_by": ["truncate(1, v)"], "changelog": "input"},
}
"""The table whose write stops, and the configuration of its model."""


@pytest.fixture
def shop(
    request: pytest.FixtureRequest, lake: Warehouse, embedded: Callable[..., Profile], tmp_path: Path
) -> Iterator[Warehouse]:
    """A warehouse of the catalog that the test asks for."""
    if request.param == "jdbc":
        yield lake
        return
    with serve(tmp_path) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        address = f"http://127.0.0.1:{server.server_address[1]}"
        properties = {"type": "rest", "uri": address, "warehouse": str(tmp_path)}
        ours = SparkEnvironment(replace(embedded(tmp_path), catalog="remote", catalog_properties=properties))
        reader = CatalogReader(ours.profile)
        reader.create_namespace("dwd")
        yield Warehouse(ours, reader, ours.new_session(), "dwd")
        server.shutdown()


@pytest.mark.parametrize(
    ("stops_at", "shop"),
    [
        pytest.param("m__changes", "jdbc", marks=pytest.mark.slow),
        pytest.param("m", "jdbc", marks=pytest.mark.slow),
        pytest.param("m__changes", "rest", marks=pytest.mark.slow),
        pytest.param("m", "rest", marks=pytest.mark.slow),
    ],
    indirect=["shop"],
)
def test_a_run_that_stopped_while_it_wrote_commits_nothing_on_top_of_later_runs(shop: Warehouse, stops_at: str) -> None:
    """Its branch is gone when it goes on, and Iceberg makes it anew on top of what the table is then."""
    shop = shop.under(expiry={"abandoned_branch_seconds": -1})
    config, rows = CASES[stops_at], 300 if stops_at == "m__changes" else 100_000
    model = shop.model("m", "select id, v, lsn from {changes(events)}", **config)
    shop.append("events", [(0, "a", 0)], COLUMNS)
    shop.run(model)
    ids = shop.spark.range(rows).selectExpr("cast(id as int) as id", "concat(id % 7, '') as v", "id + 1 as lsn")
    ids.coalesce(1).writeTo(shop.sql_name("events")).append()
    slow = SLOWLY if stops_at == "m__changes" else ""
    with paused(shop, model, model.sql + slow, config, stops_at) as go_on:
        for lsn in (rows + 1, rows + 2):
            shop.append("events", [(1, f"newer {lsn}", lsn)], COLUMNS)
            shop.run(model)
        assert shop.branches(model) == set()
        before = shop.rows(model)
        assert go_on().startswith("ran ")
    assert has_commit_of_a_branch_made_anew(shop, stops_at)
    assert shop.rows(model) == before
    assert (len(before), before[1]) == (rows, (1, f"newer {rows + 2}", rows + 2))
    assert shop.branches(model) == set()
    assert shop.broken(model) == []


class paused:  # noqa: N801 - read like a function
    """A process that runs a model, stopped while it writes; `go_on` ends that, and gives what it says at last."""

    def __init__(self, shop: Warehouse, model: Model, sql: str, config: dict[str, Any], stops_at: str) -> None:
        profile = shop.environment.profile
        request = {
            "catalog": profile.catalog,
            "properties": dict(profile.catalog_properties),
            "schema": shop.namespace,
            "name": model.table.name,
            "sql": sql,
            "config": config,
            "stops_at": stops_at,
        }
        root = Path(__file__).parents[2]
        self.process = subprocess.Popen(
            [sys.executable, "-m", CHILD, json.dumps(request)],
            cwd=root,
            env={**os.environ, "PYTHONPATH": str(root)},
            stdout=subprocess.PIPE,
            text=True,
        )

    def __enter__(self) -> Callable[[], str]:
        line = self._line()
        assert line.startswith("stopped "), line
        self.java = int(line.split()[1])
        return self.go_on

    def go_on(self) -> str:
        os.kill(self.java, signal.SIGCONT)
        return self._line()

    def _line(self) -> str:
        assert self.process.stdout is not None
        return next((line for line in self.process.stdout if line.startswith(("stopped ", "ran "))), "it said nothing")

    def __exit__(self, *_: object) -> None:
        if self.process.poll() is None and hasattr(self, "java"):
            os.kill(self.java, signal.SIGCONT)
        assert self.process.wait(120) == 0


def has_commit_of_a_branch_made_anew(shop: Warehouse, table: str) -> bool:
    """Whether a commit of an attempt came on top of main's last and did not become main: what would have been wrong."""
    metadata = shop.reader.load_table(shop.namespace, table).metadata
    parents = {snapshot.snapshot_id: snapshot.parent_snapshot_id for snapshot in metadata.snapshots}
    behind = list(walk_lineage(metadata.current_snapshot_id, parents))
    return any(parent in behind[:3] and at not in behind for at, parent in parents.items())
