"""Makes arctic models clones of those of another environment, for `dbt clone`, and finds clones to take over."""

from __future__ import annotations

import functools
import getpass
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dbt.adapters.contracts.connection import AdapterResponse
from dbt_common.invocation import get_invocation_id

from arctic_runtime.catalog.observation.clones import observe_computed
from arctic_runtime.manifest.project_graph import ProjectGraph, ProjectNode
from arctic_runtime.model.names import TableName
from arctic_runtime.model.properties import APPENDED_KIND, KIND
from arctic_runtime.plan.cloning.clone_plan import CloneRequest
from dbt.adapters.arctic.materialize import maintain
from dbt.adapters.arctic.project.environments import list_manifest_nodes, read_state_nodes

if TYPE_CHECKING:
    from dbt.adapters.base import BaseRelation
    from pyspark.sql import SparkSession

    from arctic_runtime.catalog.reader import CatalogReader
    from arctic_runtime.model.clone import ObservedClone
    from arctic_runtime.model.table import Model


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
    selected: Collection[str] | None = None,
) -> AdapterResponse:
    """Makes the arctic model of `node` a clone of the model whose table is `origin`; no row is copied.

    `nodes` are those of the manifest, with their relations in the other environment. If `replaces`, the relation is
    dropped first. `selected` has the unique ids of the nodes that a deferred run builds: it reads all others that do
    not exist yet in the other environment. None for a command that reads no node there. Raises ConfigError if the model
    can't be a clone.
    """
    from arctic_runtime.spark.maintenance.cloning import clone_model
    from arctic_runtime.spark.tables.table_session import TableSession

    model = maintain.to_model(relation, node, "")
    request = CloneRequest(
        origin,
        at_ms=round(1000 * time.time()),
        stamp=get_invocation_id(),
        owner=_get_user(),
        upstreams=_map_upstreams(node, nodes, lambda other: _is_read_here(other, selected, reader)),
    )
    failed = model.quarantine
    if failed is not None and _is_cloned(failed, origin.quarantine, reader, replaces):
        clone_model(TableSession(failed, reader, session), replace(request, origin=origin.quarantine), replaces)
    made = clone_model(TableSession(model, reader, session), request, replaces)
    return AdapterResponse(_message=f"clone of {made.model}", code="OK", rows_affected=0)


def _is_cloned(quarantine: Model, origin: TableName, reader: CatalogReader, replaces: bool) -> bool:
    """Whether a quarantine is to be cloned; its first run builds it if it has no origin.

    One that is there is kept, unless it is replaced: it is one of a clone that was not finished, or its next run
    follows all that has changed since.
    """
    return is_arctic_table(reader, origin) and (replaces or not is_arctic_table(reader, quarantine.table))


def find_clone(
    model: Model, state: str, project_root: str, manifest: Any, reader: CatalogReader
) -> ObservedClone | None:
    """Returns the clone of a model in the environment of the manifest in the folder `state`; None if there is none."""
    counterparts = ProjectGraph(list_manifest_nodes(manifest)).find_counterparts(
        _read_state(state, project_root, get_invocation_id())
    )
    other = counterparts.get(model.table)
    if other is None or other.table == model.table or other.table.catalog != model.table.catalog:
        return None
    tables = {counterpart.table: own for own, counterpart in counterparts.items()}
    return observe_computed(reader, replace(model, table=other.table), tables)


@functools.lru_cache(maxsize=1)
def _read_state(state: str, project_root: str, _invocation: str) -> tuple[ProjectNode, ...]:
    return tuple(read_state_nodes(state, Path(project_root)))


def _get_user() -> str:
    try:
        return getpass.getuser()
    except (OSError, KeyError, ImportError):
        return ""


def _is_read_here(node: Any, selected: Collection[str] | None, reader: CatalogReader) -> bool:
    """Whether a query reads a node in this environment, and not in the other one."""
    if selected is None or node.unique_id in selected or getattr(node, "defer_relation", None) is None:
        return True
    table = maintain.get_node_table(node)
    return reader.describe_relation(table.schema, table.name) is not None


def _map_upstreams(
    node: Mapping[str, Any], nodes: Iterable[Any], is_read_here: Callable[[Any], bool]
) -> dict[TableName, TableName]:
    """Maps the name of each upstream of a node, direct or not, to its name in the other environment if that differs.

    An upstream has a quarantine, if any, in both environments.

    Upstreams that are read in the other environment are left out, and so is what is read through them.
    """
    known = {str(other.unique_id): other for other in nodes}
    pairs = (
        (maintain.get_node_table(upstream), _get_deferred_table(upstream))
        for upstream in _walk_upstreams(node, known, is_read_here)
        if getattr(upstream, "defer_relation", None) is not None
    )
    return {
        own: theirs
        for table, other in pairs
        for own, theirs in ((table, other), (table.quarantine, other.quarantine))
        if own != theirs
    }


def _walk_upstreams(
    node: Mapping[str, Any], known: Mapping[str, Any], is_read_here: Callable[[Any], bool]
) -> Iterator[Any]:
    """Yields the nodes that a node depends on, directly or not, each once, as far as they are read here."""
    waiting, seen = list(node.get("depends_on", {}).get("nodes", ())), set()
    while waiting:
        name = waiting.pop()
        if name in known and name not in seen:
            seen.add(name)
            if is_read_here(known[name]):
                yield known[name]
                waiting += known[name].depends_on_nodes


def _get_deferred_table(node: Any) -> TableName:
    other = node.defer_relation
    return TableName(str(other.database), str(other.schema), str(other.alias))
