"""Which arctic models may read a table, as the manifest of a project tells."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator
from functools import cached_property
from typing import Any

from arctic_runtime.model.names import TableName
from dbt.adapters.arctic.materialize.maintain import is_arctic, node_table

# What reads these reads their rows, and not what they were made of.
_OWN_ROWS = frozenset({"table", "incremental", "seed", "snapshot"})


class Readers:
    """The readers of each table of a project; the manifest is looked through once, and not for each model."""

    def __init__(self, nodes: Iterable[Any], sources: Iterable[Any]) -> None:
        self._nodes, self._sources = tuple(nodes), tuple(sources)

    def of(self, table: TableName) -> tuple[TableName, ...]:
        """Models that read a table by `ref` or `source`, through views too, and those whose text has its name.

        A name that a macro puts together is not known, as that in a model of another project is not.
        """
        found = {node_table(node) for node in self._below(self._ids.get(table, []))}
        named = set(words_of(table.name))
        found |= {reader for reader, words in self._mentioned if named <= words}
        return tuple(sorted(found - {table}))

    def _below(self, ids: Iterable[str]) -> Iterator[Any]:
        waiting, seen = list(ids), set(ids)
        while waiting:
            for node in self._children.get(waiting.pop(), ()):
                if is_arctic(node):
                    yield node
                elif node.unique_id not in seen and node.config.materialized not in _OWN_ROWS:
                    seen.add(node.unique_id)
                    waiting.append(node.unique_id)

    @cached_property
    def _mentioned(self) -> list[tuple[TableName, frozenset[str]]]:
        return [(node_table(node), frozenset(words_of(node.raw_code))) for node in self._nodes if is_arctic(node)]

    @cached_property
    def _children(self) -> dict[str, list[Any]]:
        found: dict[str, list[Any]] = defaultdict(list)
        for node in self._nodes:
            for parent in node.depends_on_nodes:
                found[parent].append(node)
        return found

    @cached_property
    def _ids(self) -> dict[TableName, list[str]]:
        """Ids by table; a source may be another name of a model's table."""
        found: dict[TableName, list[str]] = defaultdict(list)
        for node in filter(is_arctic, self._nodes):
            found[node_table(node)].append(node.unique_id)
        for source in self._sources:
            found[TableName(str(source.database), str(source.schema), str(source.identifier))].append(source.unique_id)
        return found


def words_of(text: str) -> list[str]:
    return re.findall(r"\w+", text.lower())
