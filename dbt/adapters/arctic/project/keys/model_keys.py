"""Determines the primary key of a model from its constraints and tests, or guesses one from its column names."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Literal

Promise = Literal["primary_key", "unique", "not_null"]


@dataclass(frozen=True)
class Declaration:
    """A promise about columns: they are unique together, each of them is not null, or both (`primary_key`).

    `kind` is the source of the promise; `name` is the name of the test, or the type of the constraint.
    """

    promise: Promise
    columns: tuple[str, ...]
    name: str
    kind: Literal["test", "constraint", "time spine"] = "test"

    @property
    def origin(self) -> str:
        """The declaration in words, such as "test `unique`"."""
        return f"{self.kind} `{self.name}`"


@dataclass(frozen=True)
class DeclaredModel:
    """A project's declarations about a model: its columns in their order, and promises of its constraints and tests.

    `words` are the words of the model's code in lower case.
    """

    name: str
    columns: tuple[str, ...] = ()
    declarations: tuple[Declaration, ...] = ()
    words: frozenset[str] = frozenset()


@dataclass(frozen=True)
class Key:
    """Columns that identify a row, with a text that says why they do."""

    columns: tuple[str, ...]
    reason: str


@dataclass(frozen=True)
class _Candidate:
    key: Key
    rank: int


def find_keys(model: DeclaredModel) -> tuple[Key, ...]:
    """Returns all keys that constraints and tests of a model promise, the preferred one first.

    A declared primary key comes first, then a single column that is unique and not null, then combinations of columns
    that are unique: those whose columns are all not null, then the others. Among equals, the key with fewer columns
    comes first, then the one whose columns come first in the model.
    """
    never_null = {
        column.lower()
        for declaration in model.declarations
        if declaration.promise != "unique"
        for column in declaration.columns
    }
    candidates = (
        candidate
        for declaration in model.declarations
        if (candidate := _build_candidate(declaration, never_null)) is not None
    )
    places = {column.lower(): place for place, column in reversed(list(enumerate(model.columns)))}
    ordered = sorted(candidates, key=lambda candidate: (candidate.rank, *_order_columns(candidate.key.columns, places)))
    unique_keys = {frozenset(map(str.lower, candidate.key.columns)): candidate.key for candidate in reversed(ordered)}
    return tuple(reversed(unique_keys.values()))


def _build_candidate(declaration: Declaration, never_null: set[str]) -> _Candidate | None:
    columns = declaration.columns
    if declaration.promise == "not_null" or not columns:
        return None
    if declaration.promise == "primary_key":
        return _Candidate(Key(columns, declaration.origin), int(declaration.kind != "constraint"))
    is_complete = all(column.lower() in never_null for column in columns)
    if len(columns) == 1:
        return _Candidate(Key(columns, f"{declaration.origin} and not null"), 2) if is_complete else None
    return _Candidate(Key(columns, declaration.origin), 3 if is_complete else 4)


def _order_columns(columns: tuple[str, ...], places: dict[str, int]) -> tuple[int, list[int], list[str]]:
    """Returns the sort key of columns: their number, then their positions in the model; unlisted columns come last."""
    names = [column.lower() for column in columns]
    return len(names), sorted(places.get(name, len(places)) for name in names), names


def guess_key(model: DeclaredModel) -> Key | None:
    """Guesses a key that the model may have, for a person to check; None if no column looks like a key.

    A unique column is taken even if it may be null; otherwise the column is guessed by a usual name of keys, among the
    columns that the project lists or the words of the code.
    """
    for declaration in model.declarations:
        if declaration.promise == "unique":
            return Key(declaration.columns, f"{declaration.origin}, without `not_null`")
    listed = {column.lower(): column for column in model.columns}
    for name in dict.fromkeys(_list_usual_names(model.name.lower())):
        if name in listed:
            return Key((listed[name],), "its name")
        if not listed and name in model.words:
            return Key((name,), "its name in the query")
    return None


_LAYERS = ("stg", "staging", "base", "int", "intermediate", "dim", "fct", "fact", "mart", "ods", "dwd", "dws", "ads")
_ENDINGS = ("id", "key", "sk", "pk")


def _list_usual_names(model: str) -> Iterator[str]:
    """Yields the usual names of a model's key, the likeliest first: `order_id` and `id` for `stg_shop__orders`."""
    for entity in _list_entities(model):
        yield from (f"{entity}_{ending}" for ending in _ENDINGS)
    yield from _ENDINGS


def _list_entities(model: str) -> Iterator[str]:
    """Yields possible names of the entity in a model's rows, the singular first.

    They are the model's name without layer and source, such as `order` for `stg_shop__orders`, and its whole name.
    """
    words = model.rsplit("__", maxsplit=1)[-1].split("_")
    while words and words[0] in _LAYERS:
        words = words[1:]
    yield from _list_singulars("_".join(words))
    yield model


def _list_singulars(name: str) -> Iterable[str]:
    if name.endswith("ies"):
        return (name[:-3] + "y", name)
    if name.endswith(("ses", "xes", "ches", "shes")):
        return (name[:-2], name[:-1], name)
    return (name[:-1], name) if name.endswith("s") and not name.endswith("ss") else (name,)
