"""A REST catalog over a network that delays, cuts, truncates and repeats: tables stay exact, and errors can be read."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from arctic_runtime.catalog.reader import CatalogReader
from arctic_runtime.errors import ArcticError, CommitConflict
from arctic_runtime.profile import Profile
from arctic_runtime.spark.engine.session import SparkEnvironment
from tests.network_proxy import Fault, NetworkProxy
from tests.rest_catalog import serve
from tests.spark.warehouse import Warehouse

COLUMNS = "id int, v int"
FAULTS: Mapping[str, Fault] = {
    "delay": Fault(delay_seconds=0.02),
    "refused": Fault(is_refused=True),
    "cut request": Fault(request_bytes=700),
    "truncated answer": Fault(answer_bytes=900),
    "lost answer": Fault(answer_bytes=0),
    "repeated request": Fault(is_repeated=True),
}


@pytest.fixture
def proxy(tmp_path: Path) -> Iterator[NetworkProxy]:
    with serve(tmp_path) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        with NetworkProxy(server.server_address[1]) as proxy:
            yield proxy
        server.shutdown()


@pytest.fixture
def remote(
    proxy: NetworkProxy,
    environment: SparkEnvironment,
    embedded: Callable[..., Profile],
    tmp_path: Path,
    lake: Warehouse,
) -> Warehouse:
    """The Spark of all tests, with a session that reaches the catalog through the proxy."""
    properties = {"type": "rest", "uri": f"http://127.0.0.1:{proxy.port}", "warehouse": str(tmp_path)}
    ours = SparkEnvironment(replace(embedded(tmp_path), catalog="remote", catalog_properties=properties))
    reader = CatalogReader(ours.profile)
    reader.create_namespace("dwd")
    return Warehouse(ours, reader, ours.new_session(), "dwd")


@pytest.mark.in_turn
@pytest.mark.parametrize(
    ("name", "times"),
    [
        pytest.param(name, times, marks=[] if (name, times) == ("truncated answer", 3) else [pytest.mark.slow])
        for name in FAULTS
        for times in (1, 3, 8)
    ],
)
def test_runs_over_a_bad_network_are_exact_when_they_are_done_again(
    remote: Warehouse, proxy: NetworkProxy, name: str, times: int
) -> None:
    """The faults hit creation, runs with changes, and reads; each run is done again until it succeeds."""
    model = remote.model("m", "select id, v from {s}", primary_key="id", merge="on_read" if times == 3 else "on_write")
    rows = {key: key for key in range(10)}
    for number in range(3):
        rows |= {number: 100 + number, 50 + number: number}
        rows.pop(9 - number)
        remote.load("s", list(rows.items()), COLUMNS)
        proxy.cut_all()
        errors: list[ArcticError] = []
        with proxy.faulty(replace(FAULTS[name], times=times)):
            for _ in range(times + 1):
                try:
                    remote.run(model, may_fail=True)
                    break
                except ArcticError as error:
                    errors.append(error)
        remote.run(model, may_fail=True)
        for failure in errors:
            assert isinstance(failure, CommitConflict) or failure.fix or str(proxy.port) in str(failure), errors
        assert remote.rows(model) == sorted(rows.items(), key=repr), errors
        assert remote.broken(model) == []
    assert proxy.fault is None
