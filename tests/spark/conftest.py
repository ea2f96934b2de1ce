"""One Spark for all suites that need one, and a namespace of its own for every test."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import pytest

from arctic_runtime.catalog.reader import CatalogReader
from arctic_runtime.profile import Profile
from arctic_runtime.spark.engine import server
from arctic_runtime.spark.engine.session import SparkEnvironment
from tests.java import INTERPRETED
from tests.spark.query_cases import TABLES
from tests.spark.texts import Texts
from tests.spark.warehouse import Warehouse

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

QUICK = {
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.leafNodeDefaultParallelism": "1",
    "spark.sql.shuffle.partitions": "1",
    "spark.sql.timeType.enabled": "true",
}

_names = (f"ns{number}" for number in itertools.count(1))


@pytest.fixture(scope="session")
def environment(
    tmp_path_factory: pytest.TempPathFactory, embedded: Callable[..., Profile], spark_settings: dict[str, str]
) -> Iterator[SparkEnvironment]:
    """A Spark on a warehouse of its own, whose sessions compile no plans."""
    settings = {**spark_settings, **INTERPRETED}
    environment = SparkEnvironment(embedded(tmp_path_factory.mktemp("spark") / "warehouse", settings=settings))
    yield environment
    environment.stop_spark()
    server.stop_server(environment.profile)


@pytest.fixture(scope="session")
def spark(environment: SparkEnvironment) -> SparkSession:
    """The session that tests share where they leave nothing behind in it."""
    return environment.new_session()


@pytest.fixture
def namespace(environment: SparkEnvironment, spark: SparkSession) -> str:
    """A fresh namespace as `catalog.name`, with nothing in it that needs quotes."""
    name = f"{environment.profile.catalog}.{next(_names)}"
    spark.sql(f"create namespace {name}")
    return name


@pytest.fixture(scope="session")
def reader(environment: SparkEnvironment, spark: SparkSession) -> CatalogReader:
    """The catalog without Spark; asks for a Spark first, since that prepares the warehouse."""
    return CatalogReader(environment.profile)


@pytest.fixture
def lake(environment: SparkEnvironment, reader: CatalogReader, spark: SparkSession, namespace: str) -> Warehouse:
    """A namespace of the test's own, to write sources into and run models in."""
    return Warehouse(environment, reader, spark, namespace.split(".")[1])


@pytest.fixture(scope="session")
def texts(environment: SparkEnvironment) -> Iterator[Texts]:
    """Compares queries to their trees, in a session whose plans are quick to make and to run over a few rows."""
    session = environment.new_session()
    for setting, value in QUICK.items():
        session.conf.set(setting, value)
    yield Texts.over(session, TABLES)
    environment.discard_session(session)
