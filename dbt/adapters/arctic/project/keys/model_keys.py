"""Determines keys of a model: from constraints and tests, from its column names, or from the one relation it reads."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal

from sqlglot import exp

from arctic_runtime.ivm.algebra.refusal import NotMaintained
from arctic_runtime.ivm.frontend.functions import parse_query
from arctic_runtime.ivm.frontend.reads import GENERATORS, list_function_names

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


_REF: Final = re.compile(
    r"""\{\{-?\s*ref\(\s*(?:(?P<q>['"])(?P<package>\w+)(?P=q)\s*,\s*)?(?P<p>['"])(?P<name>\w+)(?P=p)\s*\)\s*-?\}\}"""
)
_WITHOUT_ROWS: Final = re.compile(r"\{#.*?#\}|\{\{-?\s*config\(.*?\)\s*-?\}\}", re.DOTALL)
"""Pattern of Jinja without influence on rows: comments, and the `config` call of a model."""

_PREFIX: Final = "ref:"

_CLAUSES: Final = frozenset(
    {"with_", "from_", "expressions", "where", "order", "limit", "offset", "distinct", "qualify", "hint", "windows"}
)
"""Clauses with which a SELECT returns each row of its source at most once."""


@dataclass(frozen=True)
class _Columns:
    """Columns of a source among the results of a SELECT: source column in lower case → result column.

    If `has_star`, all columns of the source are results under their own names as well.
    """

    results: Mapping[str, str]
    has_star: bool

    def rename(self, key: Sequence[str]) -> tuple[str, ...] | None:
        """Returns the result columns for the columns `key` of the source; None if one of them is not a result."""
        names = [name if self.has_star else self.results.get(name.lower()) for name in key]
        known = tuple(name for name in names if name is not None)
        return known if len(known) == len(key) else None


@dataclass(frozen=True)
class PassedRows:
    """A relation of which a query returns each row at most once, as the arguments of `ref`: its package and name.

    `package` is "" if the `ref` names none. `steps` are the SELECTs between the relation and the result, innermost
    first.
    """

    package: str
    name: str
    steps: tuple[_Columns, ...] = ()

    def rename(self, key: Sequence[str]) -> tuple[str, ...] | None:
        """Returns the names of the columns `key` of the relation in the query's result; None if one is left out."""
        names: tuple[str, ...] | None = tuple(key)
        for step in self.steps:
            names = None if names is None else step.rename(names)
        return names


def find_passed_rows(code: str) -> PassedRows | None:
    """Returns the relation whose rows a model's query returns; `code` is the model's code, with `ref` in Jinja.

    Returns None for a query with joins, aggregates, unions or functions that generate rows, and for code with any other
    Jinja, whose meaning is unknown.
    """
    sql = _REF.sub(lambda match: f"`{_PREFIX}{match['package'] or ''}:{match['name']}`", _WITHOUT_ROWS.sub("", code))
    if "{{" in sql or "{%" in sql:
        return None
    try:
        return _find_in_query(parse_query(sql), {})
    except NotMaintained:
        return None


_Ctes = Mapping[str, tuple[exp.Expr, "_Ctes"]]
"""Maps the name of a CTE in lower case to its query and to the CTEs that this query can use."""


def _find_in_query(query: exp.Expr, ctes: _Ctes) -> PassedRows | None:
    if isinstance(query, exp.Subquery):
        return None if _list_clauses(query) - {"this", "alias"} else _find_in_query(query.this, ctes)
    if not isinstance(query, exp.Select) or _list_clauses(query) - _CLAUSES:
        return None
    if query.args.get("from_") is None or any(cte.alias_column_names for cte in query.ctes):
        return None
    source = query.args["from_"].this
    columns = None if source.alias_column_names else _read_columns(query, source.alias_or_name.lower())
    if columns is None:
        return None
    for cte in query.ctes:
        ctes = {**ctes, cte.alias.lower(): (cte.this, ctes)}
    rows = _find_in_source(source, ctes)
    return None if rows is None else PassedRows(rows.package, rows.name, (*rows.steps, columns))


def _find_in_source(source: exp.Expr, ctes: _Ctes) -> PassedRows | None:
    if not isinstance(source, exp.Table):
        return _find_in_query(source, ctes) if isinstance(source, exp.Subquery) else None
    if _list_clauses(source) - {"this", "alias"} or not isinstance(source.this, exp.Identifier):
        return None
    if source.name.startswith(_PREFIX):
        package, name = source.name.removeprefix(_PREFIX).split(":")
        return PassedRows(package, name)
    known = ctes.get(source.name.lower())
    return None if known is None else _find_in_query(*known)


def _list_clauses(node: exp.Expr) -> set[str]:
    return {clause for clause, value in node.args.items() if value}


def _read_columns(query: exp.Select, source: str) -> _Columns | None:
    """Reads the columns of its source that a SELECT returns.

    None if the SELECT generates rows, or has a star that leaves out or renames columns.
    """
    results: dict[str, str] = {}
    has_star = False
    for projection in query.expressions:
        if any(GENERATORS.intersection(list_function_names(function)) for function in projection.find_all(exp.Func)):
            return None
        column = projection.unalias()
        if projection.is_star and _list_clauses(column.this if isinstance(column, exp.Column) else column):
            return None
        if projection.is_star:
            has_star = True
        elif isinstance(column, exp.Column) and column.table.lower() in ("", source):
            results[column.name.lower()] = projection.alias_or_name
    return _Columns(results, has_star)
