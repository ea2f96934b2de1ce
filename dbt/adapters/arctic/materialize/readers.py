"""Determines the arctic models that may read a table, according to the manifest of a project."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator
from functools import cached_property
from typing import Any

from arctic_runtime.model.names import TableName
from dbt.adapters.arctic.materialize.maintain import get_node_table, is_arctic

# Readers of these read their stored rows, not the tables from which the rows were computed.
_OWN_ROWS = frozenset({"table", "incremental", "seed", "snapshot"})


class Readers:
    """The arctic models that read each table of a project; indexes of the manifest are built once, at first use."""

    def __init__(self, nodes: Iterable[Any], sources: Iterable[Any]) -> None:
        self._nodes, self._sources = tuple(nodes), tuple(sources)

    def list_readers(self, table: TableName) -> tuple[TableName, ...]:
        """Returns the arctic models that read `table` by `ref` or `source`, also through views, or whose SQL names it.

        Names that a macro composes, and names in models of other projects, are not recognized.
        """
        readers = {get_node_table(node) for node in self._walk_downstream(self._ids.get(table, []))}
        named = set(list_words(table.name))
        readers |= {reader for reader, words in self._mentioned if named <= words}
        quarantines = {reader.quarantine for reader in readers & self._quarantined}
        return tuple(sorted((readers | quarantines) - {table}))

    def _walk_downstream(self, ids: Iterable[str]) -> Iterator[Any]:
        waiting, seen = list(ids), set(ids)
        while waiting:
            for node in self._children.get(waiting.pop(), ()):
                if is_arctic(node):
                    yield node
                elif node.unique_id not in seen and node.config.materialized not in _OWN_ROWS:
                    seen.add(node.unique_id)
                    waiting.append(node.unique_id)

    @cached_property
    def _quarantined(self) -> frozenset[TableName]:
        """The tables of the models with a quarantine, which reads what its model reads."""
        return frozenset(
            get_node_table(node)
            for node in filter(is_arctic, self._nodes)
            if node.config.get("on_failed_row") == "quarantine"
        )

    @cached_property
    def _mentioned(self) -> list[tuple[TableName, frozenset[str]]]:
        return [(get_node_table(node), frozenset(list_words(node.raw_code))) for node in self._nodes if is_arctic(node)]

    @cached_property
    def _children(self) -> dict[str, list[Any]]:
        children: dict[str, list[Any]] = defaultdict(list)
        for node in self._nodes:
            for parent in node.depends_on_nodes:
                children[parent].append(node)
        return children

    @cached_property
    def _ids(self) -> dict[TableName, list[str]]:
        """Maps each table to the ids of the arctic models and sources that have this table, or have it as quarantine.

        A table can belong to both a model and a source.
        """
        ids: dict[TableName, list[str]] = defaultdict(list)
        for node in filter(is_arctic, self._nodes):
            ids[get_node_table(node)].append(node.unique_id)
            ids[get_node_table(node).quarantine].append(node.unique_id)
        for source in self._sources:
            ids[TableName(str(source.database), str(source.schema), str(source.identifier))].append(source.unique_id)
        return ids


def list_words(text: str) -> list[str]:
    return re.findall(r"\w+", text.lower())
