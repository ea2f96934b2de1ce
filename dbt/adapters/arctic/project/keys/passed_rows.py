"""Determines the one relation whose rows a model's query returns, so that its keys are keys of the model too."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from sqlglot import exp

from arctic_runtime.ivm.algebra.refusal import NotMaintained
from arctic_runtime.ivm.frontend.functions import parse_query
from arctic_runtime.ivm.frontend.reads import GENERATORS, list_function_names

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
