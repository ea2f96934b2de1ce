"""A service may end while it takes its lease, or while it commits; the next one makes all tables exact."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.crash.killing import killed
from tests.crash.served import expected, namespace_of, project
from tests.spark.serving import Project, jobs_of, running, until
from tests.spark.warehouse import Rows, Warehouse

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from arctic_runtime.catalog.reader import CatalogReader
    from arctic_runtime.spark.engine.session import SparkEnvironment

ROUNDS: tuple[tuple[str, ...], ...] = (
    ("service.create_table", "service.commit", "changes.create", "commit.branch"),
    ("commit.append", "commit.publish", "commit.drop_branch", "base.create"),
)
"""Effects that a service comes to; for each round one process is killed, in which a service has come to each of them.

`test_effects` has all effects, one at a time and without a service.
"""


@pytest.mark.slow
@pytest.mark.parametrize("names", ROUNDS, ids=lambda names: names[0])
def test_a_service_that_is_killed_at_an_effect_continues_exactly(
    environment: SparkEnvironment, reader: CatalogReader, spark: SparkSession, names: tuple[str, ...]
) -> None:
    warehouse = Path(environment.profile.catalog_properties["warehouse"].removeprefix("file:"))
    batches = killed("tests.crash.served", {"warehouse": str(warehouse), "names": names}, "stopped")
    assert sorted(batches) == sorted(names), "not reached"
    for name, count in batches.items():
        lake = Warehouse(environment, reader, spark, namespace_of(name))
        goes_on_exactly(project(lake, edited=True), int(count))


def goes_on_exactly(project: Project, batches: int) -> None:
    """Another service brings all tables to what the events say; each event was taken once."""
    lake = project.lake
    wanted, one = expected(batches), running(project)
    models = {model.table.name: model for model in project.models}

    def shown(name: str) -> Rows | None:
        return lake.rows(models[name]) if name in lake.reader.list_relations(lake.namespace) else None

    def differing() -> dict[str, object]:
        """The tables that are not fresh, or show something else, and what is known of them."""
        result = {name: (one.table(name), jobs_of(one, name), shown(name)) for name in wanted}
        return {
            name: (overview, jobs, rows)
            for name, (overview, jobs, rows) in result.items()
            if overview is None or overview.state != "fresh" or rows != wanted[name]
        }

    try:
        until(lambda: not differing(), describe=differing)
    finally:
        one.stop()
    for name, model in models.items():
        assert lake.broken(model) == []
        assert lake.rows(model) == wanted[name]
