"""Claims on every catalog: creation, increments, a race of twenty writers, killed processes, a restored version."""

from __future__ import annotations

import itertools
import os
import threading
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pytest

from arctic_runtime.catalog.reader import CatalogReader
from arctic_runtime.errors import CommitConflict
from arctic_runtime.profile import JARS_SETTING, Profile
from arctic_runtime.spark.engine.session import SparkEnvironment
from arctic_runtime.spark.refresh.overwrite import restore_version
from arctic_runtime.spark.tables.capability_probe import CapabilityProbe
from tests.crash.killing import killed
from tests.java import INTERPRETED
from tests.open.catalog_servers import CATALOGS
from tests.open.glue_catalog import ENVIRONMENT
from tests.open.parked_runs import keep_landed_rows
from tests.spark.warehouse import Warehouse, refuse
from tests.thresholds import STEADY

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from arctic_runtime.model.table import Model

WRITERS = 20
EVENTS = "id int, amount int, lsn bigint"
PARKS = (
    ("killed_at_creation", "changes.create"),
    ("killed_at_publication", "commit.publish"),
    ("killed_before_the_base", "base.create"),
    ("killed_at_the_end", "commit.drop_branch"),
)
_schemas = (f"claims{number}" for number in itertools.count(1))


@dataclass(frozen=True)
class Opened:
    """A catalog that is served, by its name in `CATALOGS`, with a profile of it."""

    name: str
    profile: Profile


@pytest.fixture(scope="module")
def settings(spark_settings: dict[str, str]) -> dict[str, str]:
    """Settings of the one Spark for all catalogs."""
    os.environ.update(ENVIRONMENT)
    return {**spark_settings, **INTERPRETED, JARS_SETTING: "postgresql,aws", "spark.hadoop.fs.defaultFS": "file:///"}


@pytest.fixture(scope="module", params=CATALOGS)
def opened(
    request: pytest.FixtureRequest, settings: dict[str, str], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Opened]:
    folder = tmp_path_factory.mktemp(request.param)
    with CATALOGS[request.param].run(folder) as properties:
        yield Opened(request.param, Profile("lake", properties, settings=settings, thresholds=STEADY))


@pytest.fixture(scope="module", autouse=True)
def stopped_at_the_end(settings: dict[str, str], tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    yield
    SparkEnvironment(Profile.for_embedded(tmp_path_factory.mktemp("end"), settings=settings)).stop_spark()


@pytest.fixture
def lake(opened: Opened) -> Warehouse:
    """A schema of the test's own."""
    environment = SparkEnvironment(opened.profile)
    spark, reader, schema = environment.new_session(), CatalogReader(opened.profile), next(_schemas)
    reader.create_namespace(schema)
    return Warehouse(environment, reader, spark, schema)


def test_a_catalog_has_what_its_kind_declares_when_it_is_tried(opened: Opened, lake: Warehouse) -> None:
    tried = CapabilityProbe(lake.spark, lake.reader, lake.namespace, "tried").probe_all()
    expected = CATALOGS[opened.name].capabilities
    assert tried.complete(lake.reader.capabilities) == expected
    assert lake.reader.capabilities.complete(expected) == expected
    assert lake.reader.list_relations(lake.namespace) == {}


def test_a_model_is_created_and_follows_changes_by_increments(lake: Warehouse) -> None:
    model = keep_landed_rows(lake, "orders")
    total = lake.model(
        "per_parity", "select id % 2 as parity, sum(amount) as n from {orders} group by id % 2", primary_key="parity"
    )
    lake.append_v2("landed", [(1, 10, 1), (2, 20, 2)], EVENTS)
    assert [lake.run(each).mode for each in (model, total)] == ["create", "create"]
    lake.append_v2("landed", [(2, 25, 3), (3, 5, 4)], EVENTS)
    assert [lake.run(each).mode for each in (model, total)] == ["incremental", "incremental"]
    assert [lake.run(each, refuse).mode for each in (model, total)] == ["unchanged", "unchanged"]
    assert lake.rows(model) == [(1, 10, 1), (2, 25, 3), (3, 5, 4)]
    assert lake.rows(total) == [(0, 25), (1, 15)]
    assert [lake.broken(each) for each in (model, total)] == [[], []]
    assert lake.branches(model) == set()


def test_of_twenty_writers_one_publishes_a_window_of_changes(lake: Warehouse) -> None:
    model = keep_landed_rows(lake, "raced")
    lake.append_v2("landed", [(1, 10, 1)], EVENTS)
    lake.run(model)
    lake.append_v2("landed", [(key, 20, 2) for key in range(1, 6)], EVENTS)
    modes = Counter(race(lake, model, [lake.environment.new_session() for _ in range(WRITERS)]))
    assert modes["incremental"] == 1, modes
    assert modes["unchanged"] + modes["conflict"] == WRITERS - 1, modes
    assert lake.run(model).mode == "unchanged"
    assert lake.rows(model) == [(key, 20, 2) for key in range(1, 6)]
    assert len(lake.log(model)) == 1 + 5
    assert lake.broken(model) == []


def race(lake: Warehouse, model: Model, sessions: list[SparkSession]) -> list[str]:
    """Runs a model in all sessions at once; returns the mode of each run, or `conflict` if others were faster."""
    together = threading.Barrier(len(sessions))

    def run(session: SparkSession) -> str:
        together.wait()
        try:
            return lake.refresh_of(model, lambda: session).run_refresh().mode
        except CommitConflict:
            return "conflict"

    with ThreadPoolExecutor(len(sessions)) as threads:
        return list(threads.map(run, sessions))


def test_a_process_that_is_killed_loses_and_repeats_nothing(lake: Warehouse, opened: Opened) -> None:
    lake.append_v2("landed", [(1, 10, 1), (2, 20, 2)], EVENTS)
    profile = opened.profile
    arguments = {
        "properties": dict(profile.catalog_properties),
        "settings": {**profile.settings, "spark.driver.memory": "1g", "spark.master": "local[1]"},
        "schema": lake.namespace,
        "parks": PARKS,
    }
    assert killed("tests.open.parked_runs", arguments, "parked") == dict(PARKS)
    lake.append_v2("landed", [(2, 25, 3)], EVENTS)
    for name, _ in PARKS:
        model = keep_landed_rows(lake, name)
        lake.run(model)
        assert lake.rows(model) == [(1, 10, 1), (2, 25, 3)]
        assert lake.broken(model) == []


def test_an_earlier_version_is_restored_and_followed(lake: Warehouse) -> None:
    model = keep_landed_rows(lake, "restored")
    lake.append_v2("landed", [(1, 10, 1), (2, 20, 2)], EVENTS)
    lake.run(model)
    good = lake.head(model)
    lake.append_v2("landed", [(1, 0, 3), (3, 0, 4)], EVENTS)
    lake.run(model)
    assert restore_version(lake.session_of(model), good) == {"insert": 0, "update": 1, "delete": 1, "upsert": 0}
    assert lake.rows(model) == [(1, 10, 1), (2, 20, 2)]
    lake.append_v2("landed", [(3, 30, 5)], EVENTS)
    assert lake.run(model).mode == "incremental"
    assert lake.rows(model) == [(1, 10, 1), (2, 20, 2), (3, 30, 5)]
