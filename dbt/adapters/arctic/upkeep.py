"""What hooks and `dbt run-operation` ask for: upkeep, savepoints, restoring, declared rows and status of one table."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, get_args

from dbt.adapters.base import BaseRelation

from arctic_runtime.errors import ConfigError
from arctic_runtime.model.compaction import CompactionMode, describe_compaction
from arctic_runtime.model.names import named_table
from arctic_runtime.model.table import Model
from arctic_runtime.operations import inspect
from arctic_runtime.plan.expiry import describe_expiry
from dbt.adapters.arctic.materialize import maintain
from dbt.adapters.arctic.project import compiled_model, relation_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from arctic_runtime.catalog.reader import CatalogReader


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


def with_query(model: Model, config: Any, manifest: Any) -> Model:
    """A model of the project with its query as dbt compiles it, which an operation has not done before."""
    from dbt.compilation import Compiler

    arctic = filter(maintain.is_arctic, manifest.nodes.values())
    node = next(node for node in arctic if maintain.node_table(node) == model.table)
    if not node.compiled:
        node = Compiler(config).compile_node(node, manifest, write=False)
    return compiled_model(node)


def compact(model: Model, mode: str, reader: CatalogReader, session: Callable[[], SparkSession]) -> list[str]:
    """Compacts a table; returns lines for people."""
    from arctic_runtime.spark.maintenance.compaction import compact as perform
    from arctic_runtime.spark.tables.table_session import TableSession

    modes = {str(known): known for known in get_args(CompactionMode)}
    if mode not in modes:
        raise ConfigError(f"compaction has no mode {mode!r}; it has {', '.join(modes)}")
    done = perform(TableSession(model, reader, session), modes[mode])
    return [f"done: {describe_compaction(step)}" for step in done.steps] or [f"{model.table}: nothing to compact"]


def split(model: Model, reader: CatalogReader, session: Callable[[], SparkSession]) -> list[str]:
    """Splits nodes that outgrew their limit; returns lines for people."""
    from arctic_runtime.spark.maintenance.compaction import split as perform
    from arctic_runtime.spark.tables.table_session import TableSession

    done = perform(TableSession(model, reader, session))
    return [f"done: {describe_compaction(step)}" for step in done.steps] or [f"{model.table}: nothing to split"]


def expire(
    model: Model, models: Iterable[Model], reader: CatalogReader, session: Callable[[], SparkSession]
) -> list[str]:
    """Lets old versions of a table go; `models` are those of the project, any of which may read it."""
    from arctic_runtime.spark.maintenance.expiry import expire as perform
    from arctic_runtime.spark.tables.table_session import TableSession

    return describe_expiry(perform(TableSession(model, reader, session), [other.table for other in models]), "gone")


def restore(model: Model, version: int | str, reader: CatalogReader, session: Callable[[], SparkSession]) -> list[str]:
    """Takes a table back to an earlier version; returns lines for people."""
    from arctic_runtime.spark.refresh.restore import restore as perform
    from arctic_runtime.spark.tables.table_session import TableSession

    return [inspect.describe_restored(model, perform(TableSession(model, reader, session), version))]


def overwrite(
    model: Model,
    source: BaseRelation | str,
    as_of: Any,
    partition: Mapping[str, Any] | None,
    reader: CatalogReader,
    session: Callable[[], SparkSession],
) -> list[str]:
    """Says what all rows of a table are, or those of a partition; values come as YAML or Jinja has them."""
    from arctic_runtime.spark.refresh.overwrite import overwrite as perform
    from arctic_runtime.spark.refresh.run import Refresh

    rows = named_table(source, model.table) if isinstance(source, str) else maintain.table_name(source)
    place = _given("as_of", as_of)
    values = {name: _given(f"partition.{name}", value) for name, value in (partition or {}).items()}
    return [
        inspect.describe_overwritten(model, perform(Refresh.of(model, reader, session), rows, place, values), place)
    ]


def savepoint(
    model: Model,
    name: str,
    version: int | str | None,
    drop: bool,
    reader: CatalogReader,
    session: Callable[[], SparkSession],
) -> list[str]:
    """Gives a version of a table a name, or takes the name away; returns lines for people."""
    from arctic_runtime.spark.maintenance.savepoint import drop_savepoint, make_savepoint
    from arctic_runtime.spark.tables.table_session import TableSession

    table = TableSession(model, reader, session)
    if drop:
        drop_savepoint(table, name)
        return [f"{model.table}: dropped savepoint {name}"]
    made = make_savepoint(table, name, None if version is None else str(version))
    return [inspect.describe_savepoint(model, made)]


def status(model: Model, models: Iterable[Model], reader: CatalogReader) -> list[str]:
    """How a table stands, and who reads it."""
    return inspect.describe_status(inspect.status(reader, model, tuple(models)))


def _model(node: Any) -> Model:
    return maintain.to_model(relation_of(node), node.to_dict(omit_none=True), node.raw_code)


def _given(name: str, value: Any) -> str:
    if value is None:
        raise ConfigError(f"`{name}` has no value")
    return str(value)


def _is_at(model: Model, wanted: BaseRelation | str) -> bool:
    return not isinstance(wanted, str) and maintain.table_name(wanted) == model.table
