"""SQL that reads tables with history: as of a time, and as of now."""

from __future__ import annotations

from arctic_runtime.model.columns import IS_CURRENT, VALID_FROM, VALID_TO
from arctic_runtime.spark.engine.statement import Sql, name, own_query, statement


def as_of(relation: str, time: str) -> str:
    """The versions of a relation that were valid at a time, which is an SQL expression."""
    is_valid = _is_valid(name(VALID_FROM), name(VALID_TO), time)
    return statement("(select * from {relation} where {valid})", relation=own_query(relation), valid=is_valid)


def valid_at(alias: str, time: str) -> str:
    """Whether a row of a table with an alias was valid at a time, which is an SQL expression."""
    return statement("({valid})", valid=_is_valid(name(alias, VALID_FROM), name(alias, VALID_TO), time))


def current(relation: str) -> str:
    """The current versions of a relation."""
    return statement("(select * from {r} where {now})", r=own_query(relation), now=name(IS_CURRENT))


def _is_valid(start: Sql, end: Sql, time: str) -> Sql:
    at = own_query(time)
    return statement("{start} <= ({at}) and ({end} is null or ({at}) < {end})", start=start, end=end, at=at)
