"""Where tables and views stand: which of them have changed since an earlier look, for as little as possible."""

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
    """Where these relations stand, without those that do not exist.

    A catalog in a database tells it of all in one query, as of one moment; of another catalog each is loaded. Raises
    CatalogError where the catalog does not answer.
    """
    files = reader.metadata_files({of.schema for of in relations})
    if files is None:
        return _loaded(reader, relations)
    found = {of: files[of.schema, of.name] for of in relations if (of.schema, of.name) in files}
    return ObservedHeads(
        {of: file for of, (_, file) in found.items()},
        frozenset(of for of, (kind, _) in found.items() if kind == "view"),
    )


def _loaded(reader: CatalogReader, relations: Collection[TableName]) -> ObservedHeads:
    """Where relations stand, each loaded by itself; those that a namespace does not list are left out."""
    known, views = list(relations), frozenset[TableName]()
    if reader.lists_views:
        there = {schema: reader.list_relations(schema) for schema in {of.schema for of in relations}}
        known = [of for of in relations if of.name in there[of.schema]]
        views = frozenset(of for of in known if there[of.schema][of.name] == "view")
    with ThreadPoolExecutor(reader.thresholds.engine.parallel_actions, "heads") as pool:
        heads = pool.map(partial(_head, reader, views), known)
        return ObservedHeads({of: head for of, head in zip(known, heads, strict=True) if head is not None}, views)


def _head(reader: CatalogReader, views: frozenset[TableName], relation: TableName) -> str | None:
    """What a relation is now; None where there is none, or where it went meanwhile."""
    from pyiceberg.exceptions import NoSuchTableError, NoSuchViewError

    try:
        if relation in views:
            return reader.view_version(relation.schema, relation.name)
        return str(reader.load_table(relation.schema, relation.name).metadata_location)
    except (NoSuchTableError, NoSuchViewError):
        return None


class SharedHeads:
    """One look for several parts of a process: whoever looks anew sees what the others ask for as well.

    Safe to share between threads.
    """

    def __init__(self, reader: CatalogReader, clock: Callable[[], float] = time.monotonic) -> None:
        self._reader = reader
        self._clock = clock
        self._lock = threading.Lock()
        self._wanted: dict[str, frozenset[TableName]] = {}
        self._given: dict[str, _Look] = {}
        self._newest: _Look | None = None

    def look(self, relations: Collection[TableName]) -> ObservedHeads:
        """Where these relations stand now; others may be among those of the result. Raises as `observe_heads`."""
        return self._look_anew(relations).found

    def recent(self, part: str, relations: Collection[TableName], age_seconds: float) -> ObservedHeads:
        """The same as of at most so many seconds ago, by a look that this part has not been given yet.

        `part` names who asks, and will ask again for the same relations.
        """
        asked = frozenset(relations)
        with self._lock:
            self._wanted[part] = asked
            look, given = self._newest, self._given.get(part)
        if look is None or look is given or not asked <= look.relations or self._clock() - look.at > age_seconds:
            look = self._look_anew(asked)
        with self._lock:
            self._given[part] = look
        return look.found

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
    found: ObservedHeads
