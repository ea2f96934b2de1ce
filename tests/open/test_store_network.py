"""S3 over a network that delays, cuts, truncates and repeats: tables stay exact, and errors can be read."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from arctic_runtime.catalog.reader import CatalogReader
from arctic_runtime.errors import ArcticError, CommitConflict
from arctic_runtime.profile import Profile, place_warehouse
from arctic_runtime.spark.engine.session import SparkEnvironment
from tests.network_proxy import Fault, NetworkProxy
from tests.open.moto_server import SECRET, MotoServer
from tests.spark.warehouse import Rows, Warehouse
from tests.thresholds import STEADY

SCHEMA = "dwd"
COLUMNS = "id int, v int"
FAULTS: Mapping[str, Fault] = {
    "delay": Fault(delay_seconds=0.02),
    "refused": Fault(is_refused=True),
    "cut request": Fault(request_bytes=1_000),
    "truncated answer": Fault(answer_bytes=900),
    "lost answer": Fault(answer_bytes=0),
    "repeated request": Fault(is_repeated=True),
}
RETRIES = {"s3.retry.num-retries": "2", "s3.retry.min-wait-ms": "50", "s3.retry.max-wait-ms": "200"}
"""Fewer and shorter than by default, so that some faults outlast them."""


@pytest.fixture
def proxy(moto: MotoServer) -> Iterator[NetworkProxy]:
    port = urlsplit(moto.endpoint).port
    assert port is not None
    with NetworkProxy(port) as proxy:
        yield proxy


@pytest.fixture
def profile(
    proxy: NetworkProxy, moto: MotoServer, bucket: str, tmp_path: Path, spark_settings: dict[str, str]
) -> Profile:
    """Profile of a warehouse in a bucket that is reached through the proxy alone."""
    properties = {**moto.file_properties, **RETRIES, "s3.endpoint": f"http://127.0.0.1:{proxy.port}"}
    warehouse = place_warehouse(f"s3://{bucket}/wh", tmp_path, properties)
    profile = Profile.for_embedded(warehouse, settings=spark_settings, thresholds=STEADY)
    CatalogReader(profile).create_namespace(SCHEMA)
    return profile


@pytest.fixture
def lake(profile: Profile) -> Iterator[Warehouse]:
    environment = SparkEnvironment(profile)
    yield Warehouse(environment, CatalogReader(profile), environment.new_session(), SCHEMA)
    environment.stop_spark()


@pytest.mark.parametrize(
    ("name", "times"),
    [
        ("truncated answer", 3),
        pytest.param("refused", 12, marks=pytest.mark.slow),
        pytest.param("lost answer", 12, marks=pytest.mark.slow),
    ],
)
def test_runs_over_a_bad_network_are_exact_when_they_are_done_again(
    lake: Warehouse, proxy: NetworkProxy, name: str, times: int
) -> None:
    """The faults hit creation, runs with changes, and reads; each run is done again until it succeeds."""
    model = lake.model("m", "select id, v from {s}", primary_key="id", merge="on_read" if times == 3 else "on_write")
    rows = {key: key for key in range(10)}
    for number in range(3):
        rows |= {number: 100 + number, 50 + number: number}
        rows.pop(9 - number)
        lake.load("s", list(rows.items()), COLUMNS)
        proxy.cut_all()
        errors: list[ArcticError] = []
        with proxy.faulty(replace(FAULTS[name], times=times)):
            for _ in range(times + 1):
                try:
                    lake.run(model, may_fail=True)
                    break
                except ArcticError as error:
                    errors.append(error)
            assert proxy.hurt > 0
        lake.run(model, may_fail=True)
        for failure in errors:
            check_readable(failure, proxy)
        assert lake.rows(model) == sorted(rows.items(), key=repr), errors
        assert lake.broken(model) == []


def check_readable(error: ArcticError, proxy: NetworkProxy) -> None:
    text = str(error)
    assert isinstance(error, CommitConflict) or error.fix or str(proxy.port) in text, text
    assert "\tat " not in text, text
    assert SECRET not in text


ROWS = [(key, key) for key in range(2_000)]
SIZES = (0, 1, 300, 600, 1_200, 2_400, 4_800, 9_600)


def load_rows(reader: CatalogReader) -> None:
    """Creates the table `s` with `ROWS`."""
    import pyarrow as pa

    rows = pa.table({name: pa.array([row[place] for row in ROWS], pa.int32()) for place, name in enumerate("iv")})
    table = reader.catalog.create_table((SCHEMA, "s"), rows.schema, properties={"format-version": "2"})
    table.append(rows)


@pytest.mark.parametrize("times", [1, 2, None])
@pytest.mark.parametrize("size", SIZES)
def test_pyiceberg_reads_no_fewer_rows_of_a_truncated_object(
    profile: Profile, proxy: NetworkProxy, size: int, times: int | None
) -> None:
    """Answers end early at any place; an error that can be read is all that comes in the place of rows."""
    load_rows(CatalogReader(profile))
    proxy.cut_all()
    reader = CatalogReader(profile)
    with proxy.faulty(Fault(answer_bytes=size, times=times)):
        try:
            load_metadata_and_rows(reader)
        except ArcticError as error:
            check_readable(error, proxy)
        assert proxy.hurt > 0
    assert load_metadata_and_rows(reader) == ROWS


@pytest.mark.parametrize("name", FAULTS)
def test_pyiceberg_writes_over_a_bad_network(profile: Profile, proxy: NetworkProxy, name: str) -> None:
    """A table is wholly written, or there is none."""
    proxy.cut_all()
    reader = CatalogReader(profile)
    with proxy.faulty(replace(FAULTS[name], times=2)), suppress(Exception):
        load_rows(reader)
    if not reader.catalog.table_exists((SCHEMA, "s")):
        load_rows(reader)
    elif reader.load_table(SCHEMA, "s").current_snapshot() is None:
        reader.catalog.drop_table((SCHEMA, "s"))
        load_rows(reader)
    assert load_metadata_and_rows(reader) == ROWS


def load_metadata_and_rows(reader: CatalogReader) -> Rows:
    """Reads all rows; pyiceberg's scan raises errors of its own, in the place of which nothing is returned."""
    table = reader.load_table(SCHEMA, "s")
    try:
        rows = table.scan().to_arrow()
    except Exception:
        return []
    read = sorted((row["i"], row["v"]) for row in rows.to_pylist())
    assert read == ROWS
    return read
