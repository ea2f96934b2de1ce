"""Heads of tables and views: which of them have changed since an earlier look, for as little as possible."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial

from arctic_runtime.catalog.reader import CatalogReader
from arctic_runtime.model.names import TableName


@dataclass(frozen=True)
class ObservedHeads:
    """A text for each relation that exists, another one after each commit to it; `views` are those that are views."""

    heads: Mapping[TableName, str]
    views: frozenset[TableName]


def observe_heads(reader: CatalogReader, relations: Collection[TableName]) -> ObservedHeads:
    """Observes the heads of relations, without those that do not exist.

    A catalog in a database tells it of all in one query, as of one moment; of another catalog each is loaded. Raises
    CatalogError if the catalog does not answer.
    """
    files = reader.list_metadata_files({relation.schema for relation in relations})
    if files is None:
        return _load_heads(reader, relations)
    files_by_relation = {
        relation: files[relation.schema, relation.name]
        for relation in relations
        if (relation.schema, relation.name) in files
    }
    return ObservedHeads(
        {relation: file for relation, (_, file) in files_by_relation.items()},
        frozenset(relation for relation, (kind, _) in files_by_relation.items() if kind == "view"),
    )


def _load_heads(reader: CatalogReader, relations: Collection[TableName]) -> ObservedHeads:
    """Loads the head of each relation by itself; those that a namespace does not list are left out."""
    known, views = list(relations), frozenset[TableName]()
    if reader.lists_views:
        there = {schema: reader.list_relations(schema) for schema in {relation.schema for relation in relations}}
        known = [relation for relation in relations if relation.name in there[relation.schema]]
        views = frozenset(relation for relation in known if there[relation.schema][relation.name] == "view")
    with ThreadPoolExecutor(reader.thresholds.engine.parallel_actions, "heads") as pool:
        heads = pool.map(partial(_load_head, reader, views), known)
        return ObservedHeads(
            {relation: head for relation, head in zip(known, heads, strict=True) if head is not None}, views
        )


def _load_head(reader: CatalogReader, views: frozenset[TableName], relation: TableName) -> str | None:
    """Head of a relation; None if there is none, or if it went meanwhile."""
    from pyiceberg.exceptions import NoSuchTableError, NoSuchViewError

    try:
        if relation in views:
            return reader.get_view_version(relation.schema, relation.name)
        return str(reader.load_table(relation.schema, relation.name).metadata_location)
    except (NoSuchTableError, NoSuchViewError):
        return None


class SharedHeads:
    """One look for several parts of a process: a fresh look by one part sees what the others ask for as well.

    Safe to share between threads.
    """

    def __init__(self, reader: CatalogReader, clock: Callable[[], float] = time.monotonic) -> None:
        self._reader = reader
        self._clock = clock
        self._lock = threading.Lock()
        self._wanted: dict[str, frozenset[TableName]] = {}
        self._given: dict[str, _Look] = {}
        self._newest: _Look | None = None

    def observe_now(self, relations: Collection[TableName]) -> ObservedHeads:
        """Observes the heads of these relations now; others may be among those of the result.

        Raises as `observe_heads`.
        """
        return self._look_anew(relations).heads

    def get_recent(self, part: str, relations: Collection[TableName], age_seconds: float) -> ObservedHeads:
        """The same as of at most so many seconds ago, by a look that this part has not been given yet.

        `part` names who asks, and will ask again for the same relations.
        """
        asked = frozenset(relations)
        with self._lock:
            self._wanted[part] = asked
            look, last_given = self._newest, self._given.get(part)
        if look is None or look is last_given or not asked <= look.relations or self._clock() - look.at > age_seconds:
            look = self._look_anew(asked)
        with self._lock:
            self._given[part] = look
        return look.heads

    def _look_anew(self, relations: Collection[TableName]) -> _Look:
        with self._lock:
            wanted = frozenset(relations).union(*self._wanted.values())
        began = self._clock()
        look = _Look(began, wanted, observe_heads(self._reader, wanted))
        with self._lock:
            if self._newest is None or self._newest.at <= began:
                self._newest = look
        return look


@dataclass(frozen=True)
class _Look:
    """A look at relations; `at` is when it began."""

    at: float
    relations: frozenset[TableName]
    heads: ObservedHeads
