"""Makes arctic models clones of those of another environment, for `dbt clone`."""

from __future__ import annotations

import getpass
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from dbt.adapters.contracts.connection import AdapterResponse
from dbt.adapters.events.logging import AdapterLogger
from dbt_common.invocation import get_invocation_id

from arctic_runtime.errors import ConfigError
from arctic_runtime.model.names import TableName
from arctic_runtime.model.properties import APPENDED_KIND, KIND
from arctic_runtime.plan.cloning.clone_plan import CloneRequest
from dbt.adapters.arctic.materialize import maintain

if TYPE_CHECKING:
    from dbt.adapters.base import BaseRelation
    from pyspark.sql import SparkSession

    from arctic_runtime.catalog.reader import CatalogReader

logger = AdapterLogger("Arctic")


def is_arctic_table(reader: CatalogReader, table: TableName) -> bool:
    """Whether an arctic model has made the table or view of this name."""
    log = reader.describe_relation(table.changes.schema, table.changes.name)
    if log is not None and log.properties.get(KIND) == "changes":
        return True
    own = reader.describe_relation(table.schema, table.name)
    return own is not None and own.properties.get(KIND) == APPENDED_KIND


def clone_relation(
    relation: BaseRelation,
    node: Mapping[str, Any],
    origin: TableName,
    nodes: Sequence[Any],
    reader: CatalogReader,
    session: Callable[[], SparkSession],
    replaces: bool,
) -> AdapterResponse:
    """Makes the arctic model of `node` a clone of the model whose table is `origin`; no row is copied.

    `nodes` are those of the manifest, with their relations in the other environment. If `replaces`, the relation is
    dropped first.
    """
    from arctic_runtime.spark.maintenance.cloning import clone_model
    from arctic_runtime.spark.tables.table_session import TableSession

    model = maintain.to_model(relation, node, "")
    request = CloneRequest(
        origin,
        at_ms=round(1000 * time.time()),
        stamp=get_invocation_id(),
        owner=_get_user(),
        upstreams=_map_upstreams(node, nodes),
    )
    made = clone_model(TableSession(model, reader, session), request, replaces)
    return AdapterResponse(_message=f"clone of {made.model}", code="OK", rows_affected=0)


def clone_if_possible(
    relation: BaseRelation,
    node: Mapping[str, Any],
    origin: TableName,
    nodes: Sequence[Any],
    reader: CatalogReader,
    session: Callable[[], SparkSession],
) -> None:
    """Makes the arctic model of `node` a clone as `clone_relation` does; if it can't be one, logs why."""
    try:
        made = clone_relation(relation, node, origin, nodes, reader, session, replaces=False)
        logger.info(f"{relation.render()} is a {made} now")
    except ConfigError as error:
        logger.info(f"{relation.render()} is built from its query. {str(error).splitlines()[0]}")


def leave_deferred(nodes: Iterable[Any], selected: Collection[str], reader: CatalogReader) -> tuple[Any, ...]:
    """Selects the nodes that queries read in this environment: those that this command runs, and those that exist.

    Queries read all others in the other environment.
    """
    return tuple(node for node in nodes if node.unique_id in selected or _exists(node, reader))


def _exists(node: Any, reader: CatalogReader) -> bool:
    if getattr(node, "defer_relation", None) is None:
        return True
    table = maintain.get_node_table(node)
    return reader.describe_relation(table.schema, table.name) is not None


def _get_user() -> str:
    try:
        return getpass.getuser()
    except (OSError, KeyError, ImportError):
        return ""


def _map_upstreams(node: Mapping[str, Any], nodes: Iterable[Any]) -> dict[TableName, TableName]:
    """Maps the name of each upstream of a node, direct or not, to its name in the other environment if that differs."""
    known = {str(other.unique_id): other for other in nodes}
    pairs = (
        (maintain.get_node_table(upstream), _get_deferred_table(upstream))
        for upstream in _walk_upstreams(node, known)
        if getattr(upstream, "defer_relation", None) is not None
    )
    return {own: theirs for own, theirs in pairs if own != theirs}


def _walk_upstreams(node: Mapping[str, Any], known: Mapping[str, Any]) -> Iterator[Any]:
    """Yields the nodes that a node depends on, directly or not, each once."""
    waiting, seen = list(node.get("depends_on", {}).get("nodes", ())), set()
    while waiting:
        name = waiting.pop()
        if name in known and name not in seen:
            seen.add(name)
            yield known[name]
            waiting += known[name].depends_on_nodes


def _get_deferred_table(node: Any) -> TableName:
    other = node.defer_relation
    return TableName(str(other.database), str(other.schema), str(other.alias))
