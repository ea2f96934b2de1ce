"""Counts the rows that a command of dbt will read, from metadata, before Java starts with options that suit them."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import cache, partial
from itertools import chain
from typing import Any

from arctic_runtime.catalog.observation.tables import count_table_rows
from arctic_runtime.catalog.reader import CatalogReader
from arctic_runtime.model.names import TableName
from arctic_runtime.spark.engine.java.process import PROCESS
from arctic_runtime.thresholds import EngineThresholds

_STORED = frozenset({"model", "seed", "snapshot", "source"})
_VIEWS = frozenset({"view", "ephemeral"})
"""Materializations whose readers read what these read."""


def prepare_start(manifest: Any, get_reader: Callable[[], CatalogReader], selected: Collection[str]) -> None:
    """Lets Spark, if it is needed, start with options that suit the rows of the nodes with the ids `selected`."""
    nodes = (*manifest.nodes.values(), *manifest.sources.values())

    def count_rows() -> int | None:
        reader = get_reader()
        return count_command_rows(nodes, selected, partial(count_table_rows, reader), reader.thresholds.engine)

    PROCESS.count_rows = count_rows


def count_command_rows(
    nodes: Iterable[Any],
    selected: Collection[str],
    count_rows: Callable[[TableName], int | None],
    limits: EngineThresholds,
) -> int | None:
    """Returns the rows of all tables that the nodes with the ids `selected` read or write, counted for each node.

    `nodes` are the nodes and sources of a manifest, and `count_rows` returns the rows of a table, None if they are not
    known. A table that the command creates is taken to be as large as the largest that it is made of. Returns None if
    the rows of a table are not known, or if there are more tables than `limits.counted_relations`.
    """
    known = {node.unique_id: node for node in nodes}
    inputs = {name: [*_list_inputs(known[name], known)] for name in selected if name in known}
    names = inputs.keys() | set(chain.from_iterable(inputs.values()))
    if len(names) > limits.counted_relations:
        return None
    with ThreadPoolExecutor(limits.parallel_actions, "rows") as pool:
        stored = dict(zip(names, pool.map(lambda name: _count_stored(known[name], count_rows), names), strict=True))

    @cache
    def estimate_rows(name: str) -> int | None:
        is_created = stored[name] is None and inputs.get(name) and getattr(known[name], "language", "") != "python"
        return _combine(max, map(estimate_rows, inputs[name])) if is_created else stored[name]

    return _combine(sum, map(estimate_rows, chain(inputs, *inputs.values())))


def _combine(function: Callable[[list[int]], int], counts: Iterable[int | None]) -> int | None:
    """Returns the result of `function` for counts of rows; None if one of them is not known."""
    known: list[int] = []
    for rows in counts:
        if rows is None:
            return None
        known.append(rows)
    return function(known)


def _list_inputs(node: Any, known: Mapping[str, Any]) -> Iterator[str]:
    """Lists the ids of the tables that a node reads, also through views."""
    for name in getattr(getattr(node, "depends_on", None), "nodes", ()):
        if (other := known.get(name)) is None:
            continue
        if _is_stored(other):
            yield name
        else:
            yield from _list_inputs(other, known)


def _is_stored(node: Any) -> bool:
    kind = str(node.resource_type)
    return kind in _STORED and not (kind == "model" and node.config.materialized in _VIEWS)


def _count_stored(node: Any, count_rows: Callable[[TableName], int | None]) -> int | None:
    """Returns the rows of a node's table; 0 for a node without a table and for a seed, which comes from a file."""
    if not _is_stored(node):
        return 0
    name = node.identifier if str(node.resource_type) == "source" else node.alias
    rows = count_rows(TableName(str(node.database), str(node.schema), str(name)))
    return 0 if rows is None and str(node.resource_type) == "seed" else rows
