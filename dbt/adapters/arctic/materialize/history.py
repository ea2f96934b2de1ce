"""SQL that reads tables with history: as of a time, and as of now."""

from __future__ import annotations

from arctic_runtime.model.columns import IS_CURRENT, RECORDED_FROM, RECORDED_TO, VALID_FROM, VALID_TO
from arctic_runtime.spark.engine.statement import Sql, listed, name, own_query, statement


def as_of(relation: str, time: str, recorded: str | None = None) -> str:
    """The versions of a relation that were valid at a time, an SQL expression; as it was recorded at another time."""
    is_valid = _is_valid((), time, recorded)
    return statement("(select * from {relation} where {valid})", relation=own_query(relation), valid=is_valid)


def valid_at(alias: str, time: str, recorded: str | None = None) -> str:
    """Whether a row of a table with an alias was valid at a time, an SQL expression."""
    return statement("({valid})", valid=_is_valid((alias,), time, recorded))


def current(relation: str) -> str:
    """The current versions of a relation."""
    return statement("(select * from {r} where {now})", r=own_query(relation), now=name(IS_CURRENT))


def _is_valid(table: tuple[str, ...], time: str, recorded: str | None) -> Sql:
    asked = [(VALID_FROM, VALID_TO, time)] + ([(RECORDED_FROM, RECORDED_TO, recorded)] if recorded else [])
    return listed((_is_between(name(*table, start), name(*table, end), at) for start, end, at in asked), " and ")


def _is_between(start: Sql, end: Sql, time: str) -> Sql:
    at = own_query(time)
    return statement("{start} <= ({at}) and ({end} is null or ({at}) < {end})", start=start, end=end, at=at)
