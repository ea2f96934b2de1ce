"""Heads of tables and views: texts that change with each commit, and so show which tables and views have changed."""

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
    """The head of each observed table or view that exists: a text that changes with each commit to it.

    `views` has the names of those that are views.
    """

    heads: Mapping[TableName, str]
    views: frozenset[TableName]


def observe_heads(reader: CatalogReader, relations: Collection[TableName]) -> ObservedHeads:
    """Reads the heads of tables and views, texts that change with each commit; leaves out those that do not exist.

    A catalog in a database returns all heads by one query, so they were current at the same time; from other catalogs
    each table or view is loaded. Raises CatalogError if the catalog does not answer.
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
    """Loads each table or view to get its head, several at a time; leaves out those that do not exist."""
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
    """Returns the head of a table or view: the path of a table's metadata file, or a text with a view's version.

    `views` has the names of all views. Returns None if the table or view does not exist.
    """
    from pyiceberg.exceptions import NoSuchTableError, NoSuchViewError

    try:
        if relation in views:
            return reader.get_view_version(relation.schema, relation.name)
        return str(reader.load_table(relation.schema, relation.name).metadata_location)
    except (NoSuchTableError, NoSuchViewError):
        return None


class SharedHeads:
    """Observes heads of tables and views for several parts of a process, which share each observation.

    A head is a text that changes with each commit. Each observation includes the tables and views that any part has
    asked for. Safe to share between threads.
    """

    def __init__(self, reader: CatalogReader, clock: Callable[[], float] = time.monotonic) -> None:
        self._reader = reader
        self._clock = clock
        self._lock = threading.Lock()
        self._wanted: dict[str, frozenset[TableName]] = {}
        self._given: dict[str, _Look] = {}
        self._newest: _Look | None = None

    def observe_now(self, relations: Collection[TableName]) -> ObservedHeads:
        """Reads the heads of `relations` from the catalog; the result also has those that other parts asked for.

        Raises CatalogError if the catalog does not answer.
        """
        return self._look_anew(relations).heads

    def get_recent(self, part: str, relations: Collection[TableName], age_seconds: float) -> ObservedHeads:
        """Returns heads that were read at most `age_seconds` ago; never the same observation twice to the same `part`.

        `part` is the name of the caller, which is expected to ask again for the same relations. If there is no such
        observation, reads the heads from the catalog. Raises CatalogError if the catalog does not answer.
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
    """One observation of the heads of `relations`; `at` is the time when it began, by the clock of `SharedHeads`."""

    at: float
    relations: frozenset[TableName]
    heads: ObservedHeads
