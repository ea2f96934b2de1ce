"""Random queries: harmless rewrites leave their normal forms as they are, and other edits change them."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from random import Random

import pytest

from tests.unit.ivm.analysed_queries import RELATIONS
from tests.unit.ivm.canonical.spellings import canonicalize, has_one_form, load_tables, respell
from tests.unit.ivm.duck import rows

SEEDS = [*range(8), *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(8, 60))]


@dataclass(frozen=True)
class _Query:
    """Meaning of a random query. Inputs of joins are tables; `conditions` are comparisons (left, operator, right)."""

    tables: tuple[str, ...]
    kinds: tuple[str, ...]
    links: tuple[tuple[str, str, str], ...]
    conditions: tuple[tuple[str, str, str], ...]
    outputs: tuple[str, ...]
    calls: tuple[str, ...]
    is_distinct: bool


_NUMBERS = {
    "orders": {"id": "bigint", "customer": "int", "amount": "int"},
    "items": {"id": "bigint", "line": "int", "price": "int"},
    "customers": {"customer": "int"},
}
_OPERATORS = ("=", "<=>", "<", ">", "<=", ">=", "<>")
_MIRRORED = {"<": ">", ">": "<", "<=": ">=", ">=": "<="}
_CALLS = ("count({})", "sum({})", "max({})", "count(distinct {})")


def _draw_query(draw: Random) -> _Query:
    tables = tuple(draw.choice(list(_NUMBERS)) for _ in range(draw.choice((1, 2, 2, 3))))

    def pick(place: int) -> str:
        return f"{place}.{draw.choice(list(_NUMBERS[tables[place]]))}"

    def pick_any() -> str:
        return pick(draw.randrange(len(tables)))

    return _Query(
        tables,
        tuple(draw.choice(("inner", "inner", "left")) for _ in tables[1:]),
        tuple((pick(place), draw.choice(_OPERATORS), pick(place - 1)) for place in range(1, len(tables))),
        tuple(
            (pick_any(), draw.choice(_OPERATORS), draw.choice((str(draw.randrange(9)), pick_any())))
            for _ in range(draw.choice((0, 1, 2, 3)))
        ),
        tuple(pick_any() for _ in range(draw.choice((1, 2, 3)))),
        tuple(draw.choice(_CALLS).format(pick_any()) for _ in range(draw.choice((0, 0, 1, 2)))),
        draw.random() < 0.2,
    )


def _write_query(query: _Query, draw: Random | None) -> str:
    """The text of a query; with `draw` one of its many texts."""
    aliases = {
        place: f"t{place}" if draw is None else f"{draw.choice('abc')}{place}" for place in range(len(query.tables))
    }
    ctes: list[str] = []

    def write(text: str) -> str:
        return re.sub(r"\b(\d)\.(\w+)", lambda match: _write_column(query, aliases, match[1], match[2], draw), text)

    def compare(parts: tuple[str, str, str]) -> str:
        left, operator, right = (*(write(parts[0]), parts[1]), write(parts[2]))
        if draw is not None and draw.random() < 0.5:
            left, operator, right = right, _MIRRORED.get(operator, operator), left
        text = f"{left} {operator} {right}"
        return text if draw is None or draw.random() < 0.6 else f"({text})"

    def write_table(place: int) -> str:
        table = query.tables[place]
        form = "plain" if draw is None else draw.choice(("plain", "cte", "star", "listed"))
        if form == "cte":
            ctes.append(f"w{place} as (select * from {table})")
            return f"w{place} as {aliases[place]}"
        listed = ", ".join(column.name for column in RELATIONS[f"lake.raw.{table}"].columns)
        return {
            "plain": f"{table} {aliases[place]}",
            "star": f"(select * from {table}) {aliases[place]}",
            "listed": f"(select {listed} from {table}) as {aliases[place]}",
        }[form]

    places = list(range(len(query.tables)))
    conditions = [compare(parts) for parts in query.conditions]
    links = [compare(parts) for parts in query.links]
    if draw is not None and set(query.kinds) == {"inner"} and _has_distinct_tables(query):
        conditions += links
        draw.shuffle(places)
        source = ", ".join(map(write_table, places))
    else:
        joins = zip(query.kinds, places[1:], links, strict=True)
        source = write_table(0) + "".join(f" {kind} join {write_table(place)} on {on}" for kind, place, on in joins)
    if draw is not None:
        draw.shuffle(conditions)
    items = [f"{write(name)} as c{place}" for place, name in enumerate(query.outputs)]
    items += [f"{write(call)} as d{place}" for place, call in enumerate(query.calls)]
    head = f"with {', '.join(ctes)} " if ctes else ""
    where = f" where {' and '.join(conditions)}" if conditions else ""
    keys = (
        list(dict.fromkeys(map(write, query.outputs)))
        if draw is None
        else [str(1 + n) for n in range(len(query.outputs))]
    )
    if draw is not None:
        draw.shuffle(keys)
    group = f" group by {', '.join(keys)}" if query.calls else ""
    return f"{head}select {'distinct ' if query.is_distinct else ''}{', '.join(items)} from {source}{where}{group}"


def _has_distinct_tables(query: _Query) -> bool:
    return len(set(query.tables)) == len(query.tables)


def _write_column(query: _Query, aliases: dict[int, str], place: str, name: str, draw: Random | None) -> str:
    plain = f"{aliases[int(place)]}.{name}"
    of_type = _NUMBERS[query.tables[int(place)]][name]
    forms = (plain,) if draw is None else (plain, plain, f"({plain})", f"cast({plain} as {of_type})")
    return forms[0] if draw is None else draw.choice(forms)


@pytest.mark.parametrize("seed", SEEDS)
def test_harmless_rewrites_of_random_queries_leave_no_trace(seed: int) -> None:
    draw = Random(seed)
    query = _draw_query(draw)
    plain = _write_query(query, None)
    for _ in range(5):
        other = respell(_write_query(query, draw), draw)
        assert has_one_form(other, plain), (plain, other)


def _harm_query(query: _Query, draw: Random) -> _Query:
    """Another query that differs in one place."""
    first = f"0.{next(iter(_NUMBERS[query.tables[0]]))}"
    edits: list[Callable[[], _Query]] = [
        lambda: replace(query, is_distinct=not query.is_distinct),
        lambda: replace(query, conditions=(*query.conditions, (first, "=", "77"))),
        lambda: replace(query, outputs=(*query.outputs, query.outputs[0])),
        lambda: replace(query, calls=(*query.calls, f"min({first})")),
    ]  # fmt: skip
    if query.kinds:
        other = "left" if query.kinds[-1] == "inner" else "inner"
        edits.append(lambda: replace(query, kinds=(*query.kinds[:-1], other)))
        left, operator, right = query.links[-1]
        safer = "=" if operator == "<=>" else "<=>"
        edits.append(lambda: replace(query, links=(*query.links[:-1], (left, safer, right))))
    if query.conditions and query.conditions[0][2].isdigit():
        left, operator, right = query.conditions[0]
        edits.append(lambda: replace(query, conditions=((left, operator, right + "5"), *query.conditions[1:])))
        edits.append(lambda: replace(query, conditions=query.conditions[1:]))
    return draw.choice(edits)()


@pytest.mark.parametrize("seed", SEEDS)
def test_harmful_edits_of_random_queries_change_the_normal_form(seed: int) -> None:
    draw = Random(seed)
    query = _draw_query(draw)
    for _ in range(5):
        harmed = _harm_query(query, draw)
        one, other = _write_query(query, draw), _write_query(harmed, draw)
        assert not has_one_form(one, other), (one, other)


def test_equal_normal_forms_of_random_queries_have_equal_rows() -> None:
    draw = Random(7)
    texts: dict[object, str] = {}
    with load_tables(3) as con:
        for _ in range(80):
            sql = _write_query(_draw_query(draw), draw)
            same = texts.setdefault(canonicalize(sql), sql)
            assert rows(con, same) == rows(con, sql), (same, sql)
