"""A query as packages for shops and ledgers have it: dozens of named queries, each of hundreds of columns."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from arctic_runtime.ivm.frontend.scope import Relation
from arctic_runtime.model.columns import Column

TABLES = 8
_TYPES = ("string", "bigint", "decimal(18,4)", "timestamp", "boolean", "double")


def wide_query(columns: int, steps: int) -> tuple[str, Mapping[str, Relation]]:
    """The query and its tables, of so many `columns`; to three named queries for each table come so many `steps`."""
    fields = {f"field_{place}": _TYPES[place % len(_TYPES)] for place in range(columns)}
    table = (Column("id", "bigint"), Column("source", "string"), *(Column(*field) for field in fields.items()))
    relations = {f"lake.raw.t{number}": Relation(table, key=("id", "source")) for number in range(TABLES)}
    named = [part for number in range(TABLES) for part in _staged(number, fields)]
    last = "final0"
    for step in range(steps):
        named += _STEPS[step % len(_STEPS)](step, last)
        last = f"step{step}"
    written = ",\n".join(f"{name} as ({text})" for name, text in named)
    return f"with {written}\nselect * from {last}", relations


def _staged(number: int, fields: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    cast = ", ".join(f"cast({name} as {kind}) as {name}" for name, kind in fields.items())
    filled = ", ".join(
        f"coalesce({name}, {name}) as {name}" if place % 5 == 0 else name for place, name in enumerate(fields)
    )
    yield f"base{number}", f"select * from lake.raw.t{number}"
    yield f"fields{number}", f"select id, source, {cast} from base{number}"
    yield f"final{number}", f"select id, source, {filled} from fields{number} where not coalesce(field_4, false)"


def _other(step: int) -> str:
    return f"final{1 + step % (TABLES - 1)}"


def _summed(step: int, last: str) -> list[tuple[str, str]]:
    sums = [f"sum_{step}_{place}" for place in (2, 8, 14)]
    added = ", ".join(f"sum(field_{name.rpartition('_')[2]}) as {name}" for name in sums)
    shown = ", ".join(f"coalesce(s.{name}, 0) as {name}" for name in sums)
    return [
        (f"sums{step}", f"select id, source, {added} from {_other(step)} group by 1, 2"),
        (
            f"step{step}",
            f"select o.*, {shown} from {last} o left join sums{step} s on o.id = s.id and o.source = s.source",
        ),
    ]


def _ranked(step: int, last: str) -> list[tuple[str, str]]:
    place = f"row_number() over (partition by field_0, source order by field_3, id) as place_{step}"
    return [(f"step{step}", f"select *, {place} from {last}")]


def _joined(step: int, last: str) -> list[tuple[str, str]]:
    other = _other(step)
    on = f"{last}.field_1 = {other}.id and {last}.source = {other}.source"
    return [(f"step{step}", f"select {last}.*, {other}.field_7 as of_{step} from {last} left join {other} on {on}")]


def _told_apart(step: int, last: str) -> list[tuple[str, str]]:
    kind = f"case when field_7 > 1 then 'new' else 'repeat' end as kind_{step}"
    return [(f"step{step}", f"select *, {kind} from {last}")]


_STEPS = (_summed, _ranked, _joined, _told_apart)
