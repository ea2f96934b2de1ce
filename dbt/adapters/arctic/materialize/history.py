"""Writes SQL that reads tables with history: the rows that were valid at a time, or the current ones."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from arctic_runtime.model.columns import IS_CURRENT, RECORDED_FROM, RECORDED_TO, VALID_FROM, VALID_TO
from arctic_runtime.spark.engine.statement import Sql, fill_statement, join_parts, quote_name, trust_query
from dbt.adapters.arctic.relations.identifiers import unquote_identifier


def write_as_of(relation: str, time: str, recorded: str | None = None) -> str:
    """Returns a subquery with the row versions of `relation` that were valid at `time`, as recorded at `recorded`.

    Both times are SQL expressions. Without `recorded`, versions that were corrected later are included.
    """
    is_valid = _is_valid((), time, recorded)
    return fill_statement("(select * from {relation} where {valid})", relation=trust_query(relation), valid=is_valid)


def write_valid_at(alias: str, time: str, recorded: str | None = None) -> str:
    """Returns the condition for row versions of the table `alias` that were valid at `time`, as recorded at `recorded`.

    Both times are SQL expressions. Without `recorded`, versions that were corrected later are included.
    """
    return fill_statement("({valid})", valid=_is_valid((unquote_identifier(alias),), time, recorded))


def write_current(relation: str) -> str:
    """Returns a subquery with the current row versions of `relation`."""
    return fill_statement("(select * from {r} where {now})", r=trust_query(relation), now=quote_name(IS_CURRENT))


HISTORY_FORMS: Final[Mapping[str, Callable[..., str]]] = {
    "as_of": write_as_of,
    "valid_at": write_valid_at,
    "current": write_current,
}
"""Functions that write SQL over a table with history, by the names that macros use."""


def _is_valid(table: tuple[str, ...], time: str, recorded: str | None) -> Sql:
    asked = [(VALID_FROM, VALID_TO, time)] + ([(RECORDED_FROM, RECORDED_TO, recorded)] if recorded else [])
    return join_parts(
        (_is_between(quote_name(*table, start), quote_name(*table, end), at) for start, end, at in asked), " and "
    )


def _is_between(start: Sql, end: Sql, time: str) -> Sql:
    at = trust_query(time)
    return fill_statement("{start} <= ({at}) and ({end} is null or ({at}) < {end})", start=start, end=end, at=at)
