"""What hooks and `dbt run-operation` ask for: compaction, expiry, restoring and status of one model's table."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, get_args

from dbt.adapters.base import BaseRelation

from arctic_runtime import inspect
from arctic_runtime.errors import ConfigError
from arctic_runtime.model.compaction import CompactionMode, describe_compaction
from arctic_runtime.model.table import Model
from arctic_runtime.plan.expiry import describe_expiry
from dbt.adapters.arctic import maintain
from dbt.adapters.arctic.relation import ArcticRelation

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from arctic_runtime.catalog import CatalogReader


def project_models(nodes: Iterable[Any]) -> dict[str, Model]:
    """Name → every arctic model of a project; queries as they are written, which upkeep does not look at."""
    found = (node for node in nodes if maintain.is_arctic(node))
    return {str(node.name): _model(node) for node in found}


def one(models: dict[str, Model], wanted: BaseRelation | str) -> Model:
    """The model of this name, or of this relation; raises ConfigError where there is none."""
    for name, model in models.items():
        if wanted in (name, model.table.name, str(model.table)) or _is_at(model, wanted):
            return model
    raise ConfigError(f"no arctic model is called {wanted}.\n  found in the project: {', '.join(models) or 'none'}")


def compact(model: Model, mode: str, reader: CatalogReader, session: Callable[[], SparkSession]) -> list[str]:
    """Compacts a table; returns lines for people."""
    from arctic_runtime.spark.compaction import compact as perform
    from arctic_runtime.spark.run import Run

    modes = {str(known): known for known in get_args(CompactionMode)}
    if mode not in modes:
        raise ConfigError(f"compaction has no mode {mode!r}; it has {', '.join(modes)}")
    done = perform(Run(model, reader, session), modes[mode])
    return [f"done: {describe_compaction(step)}" for step in done.steps] or [f"{model.table}: nothing to compact"]


def split(model: Model, reader: CatalogReader, session: Callable[[], SparkSession]) -> list[str]:
    """Splits nodes that outgrew their limit; returns lines for people."""
    from arctic_runtime.spark.compaction import split as perform
    from arctic_runtime.spark.run import Run

    done = perform(Run(model, reader, session))
    return [f"done: {describe_compaction(step)}" for step in done.steps] or [f"{model.table}: nothing to split"]


def expire(
    model: Model, models: Iterable[Model], reader: CatalogReader, session: Callable[[], SparkSession]
) -> list[str]:
    """Lets old versions of a table go; `models` are those of the project, any of which may read it."""
    from arctic_runtime.spark.expiry import expire as perform
    from arctic_runtime.spark.run import Run

    return describe_expiry(perform(Run(model, reader, session), [other.table for other in models]), "gone")


def restore(model: Model, version: int | str, reader: CatalogReader, session: Callable[[], SparkSession]) -> list[str]:
    """Takes a table back to an earlier version; returns lines for people."""
    from arctic_runtime.spark.restore import restore as perform
    from arctic_runtime.spark.run import Run

    if not str(version).isdecimal():
        raise ConfigError(f"a version is a number, as `arctic history` shows it; found {version!r}")
    return [inspect.describe_restored(model, perform(Run(model, reader, session), int(version)))]


def status(model: Model, models: Iterable[Model], reader: CatalogReader) -> list[str]:
    """How a table stands, and who reads it."""
    return inspect.describe_status(inspect.status(reader, model, tuple(models)))


def _model(node: Any) -> Model:
    relation = ArcticRelation.create(database=node.database, schema=node.schema, identifier=node.alias)
    return maintain.to_model(relation, node.to_dict(omit_none=True), node.raw_code)


def _is_at(model: Model, wanted: BaseRelation | str) -> bool:
    return not isinstance(wanted, str) and maintain.table_name(wanted) == model.table
