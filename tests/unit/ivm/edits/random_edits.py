"""Random queries over a shop, and random edits of them, each of a kind that people make."""
# ruff: noqa: E501

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from random import Random

from arctic_runtime.sql.spark_sql import tokenize_sql

COLUMNS = {
    "rows": {
        "amount": "o.amount", "customer": "o.customer", "state": "o.state", "twice": "o.amount * 2",
        "size": "case when o.amount > 2 then 'big' else o.state end", "day": "o.day", "next": "o.customer + 1",
        "the amount": "o.amount + o.customer", "is none": "o.amount is null", "one": "1",
        "top": "(select max(x.price) from lines x where x.id = o.id)", "heaps": "(select count(*) from heap)",
    },
    "windows": {
        "amount": "o.amount", "customer": "o.customer", "place": "o.place", "whole": "o.whole", "rest": "o.whole - o.amount",
    },
    "groups": {"total": "o.total", "n": "o.n", "most": "o.most", "after": "o.customer + 1", "mean": "o.total / o.n"},
    "distinct": {"size": "concat(o.state, '!')", "after": "o.customer + 1"},
    "parts": {"amount": "o.amount", "customer": "o.customer", "more": "o.amount + 1", "part": "o.part"},
    "united": {"amount": "o.amount", "customer": "o.customer", "more": "o.amount + 1"},
    "either": {"amount": "o.amount", "customer": "o.customer", "more": "o.amount + 1"},
    "loose": {"amount": "o.amount", "more": "o.amount + 1", "one": "1"},
    "shared": {"customer": "o.customer", "more": "o.customer + 1", "less": "o.customer - 1"},
}  # fmt: skip
"""Columns of a query of each kind, by their names."""

JOINED_COLUMNS = {
    "c": {"name": "c.name", "city": "c.city", "land": "c.country", "near": "coalesce(c.city, c.name, 'none')",
          "sum": "c.country + o.customer"},
    "t": {"title": "t.title", "both": "concat(t.title, c.name)"},
    "p": {"former": "p.amount", "change": "p.amount - o.customer"},
    "l": {"price": "l.price"},
}  # fmt: skip
"""Columns that a query may also have of what it joins, by the alias of that."""

KEYS = {
    "rows": (("id",),), "windows": (("id",),), "groups": (("customer",),), "distinct": (("customer", "state"),),
    "parts": (("id",), ("part", "id")), "united": (("id",),), "either": (("id",),),
    "shared": (("id",),), "loose": (("id",),),
}  # fmt: skip
SOURCES = {
    "rows": "select * from orders{inner}",
    "windows": "select *, row_number() over (partition by customer order by id) as place, "
    "sum(amount) over (partition by customer) as whole from orders{inner}",
    "groups": "select customer, sum(amount) as total, count(*) as n, max(amount) as most from orders{inner} "
    "group by customer{having}",
    "distinct": "select distinct customer, state from orders{inner}",
    "either": "select id, amount, customer from orders{inner} union select id, amount, customer from heap",
    "loose": "select customer as id, customer, amount from heap{inner}",
    "shared": "select id, customer from orders{inner} except select id, line from lines",
}
PARTS = {
    "order": "orders",
    "heap": "heap",
    "line": "(select 1000 + id * 9 + line as id, price as amount, line as customer from lines)",
    "twin": "orders",
    "moved": "(select id + 5000 as id, amount, customer from orders)",
}
"""Parts of a union; those of `twin` have the rows and keys of others."""

CONDITIONS = {
    "rows": ("o.amount > 1", "o.amount > 2", "o.amount < 4", "o.state = 'paid'", "o.state in ('paid', 'open')",
             "o.customer is not null", "o.id > 3", "o.day >= '2024-01-15'", "(o.amount > 3 or o.state = 'open')",
             "not (o.amount > 2)", "not (o.amount > 1 and o.state = 'paid')", "o.amount is null", "o.state <> 'paid'",
             "o.amount not in (1, 2)", "o.amount not in (1, null)", "o.amount in (1, null)", "(o.state = 'paid') is not true",
             "o.amount between 1 and 3", "coalesce(o.amount, 0) < 3", "if(o.amount > 2, null, true)", "o.state <=> 'paid'",
             "not (o.state <=> null)", "(o.amount > 1) = (o.customer > 1)", "o.state like 'p%'", "o.amount = o.customer",
             "case when o.amount > 2 then o.customer > 1 end", "o.amount >= (select min(amount) from heap)",
             "o.amount > (select max(x.price) from lines x where x.id = o.id)"),
    "windows": ("o.customer > 1", "o.place = 1", "o.place <= 2", "o.whole > 3", "o.amount > 1", "not (o.whole > 5)"),
    "groups": ("o.customer > 1", "o.customer < 4", "o.customer is not null", "o.n > 1", "o.total > 3", "not (o.most > 4)",
               "o.most is null"),
    "distinct": ("o.customer > 1", "o.customer < 4", "o.state = 'paid'", "o.state is null", "o.state <> 'paid'"),
    "parts": ("o.id > 3", "o.amount > 1", "o.amount is not null", "not (o.amount > 1)", "o.part <> 'heap'",
              "o.part in ('order', 'line')", "o.amount not in (2, null)"),
    "united": ("o.id > 3", "o.amount > 1", "o.amount is not null", "not (o.amount > 1)"),
    "either": ("o.id > 3", "o.amount > 1", "o.amount is not null", "not (o.amount > 1)"),
    "loose": ("o.amount > 3", "o.amount < 2", "o.amount = 1", "o.amount is null", "o.id > 2", "o.id is not null"),
    "shared": ("o.id > 3", "o.customer > 1", "not (o.customer > 1)"),
}  # fmt: skip
INNER = {
    "rows": ("amount > 0", "state = 'paid'"),
    "windows": ("customer > 1", "amount > 0", "customer is not null"),
    "groups": ("customer > 1", "customer < 4", "amount > 0", "customer is not null"),
    "distinct": ("customer > 1", "amount > 0"),
    "parts": ("id > 3", "amount > 1", "amount is null"),
    "united": ("id > 3", "amount > 1", "not (amount > 3)"),
    "either": ("id > 3", "amount > 1", "not (amount > 3)"),
    "loose": ("amount > 3", "amount = 2"),
    "shared": ("id > 3", "customer > 1"),
}
"""Conditions inside the subquery that a query reads, below its groups or windows."""

JOINED_CONDITIONS = {
    "c": ("c.name = 'ann'", "c.name is null", "c.country is not null", "coalesce(c.name, 'x') <> 'ann'", "c.country > 0",
          "not (c.country > 0)", "(c.name = 'ann' or c.city is null)", "c.country <> o.customer"),
    "t": ("t.title = 'ann'", "t.title is null", "not (t.title = 'bob')"),
    "p": ("p.amount > 2", "p.amount is null", "not (p.amount > 2)"),
    "l": ("l.price > 2", "l.price is null"),
}  # fmt: skip
HAVING = ("count(*) > 1", "sum(amount) > 3", "max(amount) < 5", "not (max(amount) > 2)", "min(amount) is null")
ASKED = (
    "exists (select 1 from lines l where l.id = o.{key})",
    "not exists (select 1 from lines l where l.id = o.{key} and l.price > 2)",
    "o.customer in (select customer from customers where city = 'ann')",
    "o.customer not in (select customer from customers where country = 1)",
    "o.customer not in (select customer from heap)",
    "o.customer in (select customer from heap union all select country from countries)",
    "exists (select 1 from heap h where h.customer = o.customer and h.amount > 1)",
    "not exists (select 1 from heap h where h.customer <=> o.customer)",
    "exists (select 1 from heap h where h.customer = o.customer and h.amount > o.customer)",
    "exists (select 1 from countries)",
)
JOINS = {
    "c": ("customers c", "c.customer = o.customer", ("join", "left join", "left semi join", "left anti join")),
    "t": ("countries t", "t.country = c.country", ("join", "left join")),
    "p": ("orders p", "p.id = o.customer", ("join", "left join", "left anti join")),
    "l": ("lines l", "l.id = o.customer and l.line = 0", ("join", "left join")),
    "m": ("lines m", "m.id = o.customer", ("left semi join", "left anti join", "left join")),
    "s": ("(select * from customers where country > 0) s", "s.customer = o.customer and s.name is not null",
          ("left semi join", "left anti join", "join", "left join")),
}  # fmt: skip
"""What a query may join: the table with its alias, the condition, and kinds of joins. Only `m` may give several rows."""

WIDER = dict.fromkeys(("amount", "customer", "twice", "land", "place", "price", "former", "more"), "bigint")
"""Types to which columns are cast without a loss."""

OTHER_NAMES = {"customer": "Buyer", "amount": "QUANTITY", "name": "full name", "total": "All", "place": "the place"}
"""Other names of columns beside the key, which a model can't rename."""


@dataclass(frozen=True)
class Style:
    """How a query is written, which leaves its rows as they are."""

    is_flat: bool = True
    cte: str = ""
    case: int = 0
    is_turned: bool = False


@dataclass(frozen=True)
class Written:
    """A query by its parts, and the way in which it is written."""

    kind: str
    key: tuple[str, ...]
    columns: tuple[str, ...]
    conditions: tuple[str, ...] = ()
    inner: tuple[str, ...] = ()
    asked: tuple[str, ...] = ()
    having: tuple[str, ...] = ()
    joins: tuple[tuple[str, str], ...] = ()
    parts: tuple[str, ...] = ("order", "heap")
    wider: frozenset[str] = frozenset()
    named: frozenset[str] = frozenset()
    style: Style = field(default_factory=Style)

    @property
    def outer_joins(self) -> tuple[str, ...]:
        """Aliases whose columns the query can read."""
        shown = [alias for alias, kind in self.joins if kind in ("join", "left join")]
        return tuple(alias for alias in shown if alias != "t" or "c" in shown)

    def name_output(self, column: str) -> str:
        return OTHER_NAMES[column] if column in self.named and column not in self.key else column

    def write(self) -> str:
        known = self.list_known()
        own = {name: f"o.{name}" for name in self.key}
        values = {**own, **{name: known[name] for name in self.columns if name in known and name not in own}}
        joins = "".join(self._write_joins())
        read = [*self.conditions, *self.asked]
        conditions = [
            part.format(key="id" if "id" in self.key else "customer") for part in read if self._is_readable(part)
        ]
        if self.style.is_turned:
            conditions.reverse()
        selected = ", ".join(
            f"{self._widen(name, value)} as `{self.name_output(name)}`" for name, value in values.items()
        )
        source, before = self._write_source()
        return self._change_case(f"{before}select {selected} from {source} o{joins}{write_where(conditions)}")

    def list_shown(self) -> set[str]:
        """Names of the columns that the query has."""
        return {*self.key, *(name for name in self.columns if name in self.list_known())}

    def list_known(self) -> dict[str, str]:
        """Lists the columns that the query can have."""
        known = dict(COLUMNS[self.kind])
        for alias in self.outer_joins:
            known |= JOINED_COLUMNS.get(alias, {})
        return known

    def _is_readable(self, condition: str) -> bool:
        aliases = {part[0] for part in re.findall(r"\b[ctpl]\.", condition)} if condition not in ASKED else set()
        return aliases <= set(self.outer_joins)

    def _widen(self, name: str, value: str) -> str:
        return f"cast({value} as {WIDER[name]})" if name in self.wider else value

    def _write_joins(self) -> list[str]:
        shown = self.outer_joins
        written = [(alias, kind) for alias, kind in self.joins if alias != "t" or "t" in shown]
        return [f" {kind} {JOINS[alias][0]} on {JOINS[alias][1]}" for alias, kind in written]

    def _write_source(self) -> tuple[str, str]:
        """The source, and the WITH clause before the query."""
        if self.kind in ("parts", "united"):
            text = self._write_parts()
        else:
            text = SOURCES[self.kind].format(inner=write_where(self.inner), having=write_where(self.having, "having"))
        if self.style.is_flat and text == "select * from orders":
            return "orders", ""
        if self.style.cte:
            return f"`{self.style.cte}`", f"with `{self.style.cte}` as ({text}) "
        return f"({text})", ""

    def _write_parts(self) -> str:
        label = "'{}' as part, " if self.kind == "parts" else ""
        selects = (
            f"select {label.format(part)}id, amount, customer from {PARTS[part]}{write_where(self.inner)}"
            for part in self.parts
        )
        return " union all ".join(selects)

    def _change_case(self, sql: str) -> str:
        draw = Random(self.style.case)
        if not self.style.case:
            return sql
        texts = [sql[token.start : token.end + 1] for token in tokenize_sql(sql)]
        return " ".join(
            text.upper() if re.fullmatch(r"[a-z_]+", text) and draw.random() < 0.5 else text for text in texts
        )


def write_where(conditions: Sequence[str], word: str = "where") -> str:
    return f" {word} {' and '.join(conditions)}" if conditions else ""


def random_query(draw: Random) -> Written:
    kind = draw.choice(
        ("rows", "rows", "rows", "groups", "parts", "windows", "distinct", "united", "either", "shared", "loose")
    )
    query = Written(kind, draw.choice(KEYS[kind]), (), style=_random_style(draw))
    for _ in range(draw.choice((0, 1, 1, 2))):
        query = _change_join(draw, query)
    return replace(
        query,
        columns=tuple(draw.sample(sorted(query.list_known()), draw.choice((1, 2, 3))))
        if kind != "distinct"
        else ("size",),
        conditions=tuple(draw.sample(_list_conditions(query), draw.choice((0, 0, 1, 2)))),
        inner=tuple(draw.sample(INNER[kind], draw.choice((0, 0, 1)))),
        asked=tuple(draw.sample(ASKED, 1)) if draw.random() < 0.2 else (),
        having=tuple(draw.sample(HAVING, 1)) if kind == "groups" and draw.random() < 0.3 else (),
        parts=tuple(draw.sample(sorted(PARTS), draw.choice((1, 2, 2, 3)))) if kind in ("parts", "united") else (),
        wider=frozenset(draw.sample(sorted(WIDER), 2)) if draw.random() < 0.2 else frozenset(),
        named=frozenset(draw.sample(sorted(OTHER_NAMES), 2)) if draw.random() < 0.2 else frozenset(),
    )


def random_edit(draw: Random, query: Written) -> tuple[str, Written]:
    """One edit of a random kind, by its name, which changes the text of the query."""
    edits = _ROW_EDITS | _MORE_EDITS.get(query.kind, {})
    while True:
        kind = draw.choice(sorted(edits))
        edited = edits[kind](draw, query)
        if edited.write() != query.write():
            return kind, edited


def _random_style(draw: Random) -> Style:
    return Style(
        draw.random() < 0.5,
        draw.choice(("", "", "src", "Its Rows")),
        draw.choice((0, 0, draw.randrange(1, 99))),
        draw.random() < 0.3,
    )


def _list_conditions(query: Written) -> list[str]:
    joined = [part for alias in query.outer_joins for part in JOINED_CONDITIONS.get(alias, ())]
    return [*CONDITIONS[query.kind], *joined]


def _add(draw: Random, own: tuple[str, ...], known: Iterable[str]) -> tuple[str, ...]:
    others = [part for part in known if part not in own]
    return (*own, draw.choice(others)) if others else own


def _drop(draw: Random, own: tuple[str, ...]) -> tuple[str, ...]:
    gone = draw.choice(own) if own else None
    return tuple(part for part in own if part != gone)


def _change_join(draw: Random, query: Written) -> Written:
    """Adds a join, removes it, or changes its kind."""
    alias, joins = draw.choice(sorted(JOINS)), dict(query.joins)
    kinds = [kind for kind in JOINS[alias][2] if kind != joins.get(alias)]
    if alias in joins and draw.random() < 0.5:
        del joins[alias]
    else:
        joins[alias] = draw.choice(kinds)
    return replace(query, joins=tuple((name, joins[name]) for name in JOINS if name in joins))


def _change_parts(draw: Random, query: Written) -> Written:
    """Removes a part of a union, and adds another one."""
    others = [part for part in PARTS if part not in query.parts]
    kept = _drop(draw, query.parts) if len(query.parts) > 1 else query.parts
    return replace(query, parts=(*kept, draw.choice(others)) if others else kept)


def _toggle(draw: Random, own: frozenset[str], known: Iterable[str]) -> frozenset[str]:
    return own ^ {draw.choice(sorted(known))}


_ROW_EDITS: Mapping[str, Callable[[Random, Written], Written]] = {
    "style": lambda draw, query: replace(query, style=_random_style(draw)),
    "column": lambda draw, query: replace(query, columns=_add(draw, query.columns, query.list_known())),
    "no column": lambda draw, query: replace(query, columns=_drop(draw, query.columns)),
    "order": lambda draw, query: replace(query, columns=tuple(draw.sample(query.columns, len(query.columns)))),
    "narrow": lambda draw, query: replace(query, conditions=_add(draw, query.conditions, _list_conditions(query))),
    "widen": lambda draw, query: replace(query, conditions=_drop(draw, query.conditions)),
    "inner narrow": lambda draw, query: replace(query, inner=_add(draw, query.inner, INNER[query.kind])),
    "inner widen": lambda draw, query: replace(query, inner=_drop(draw, query.inner)),
    "join": _change_join,
    "joined column": lambda draw, query: replace(
        query, columns=_add(draw, query.columns, [name for name in query.list_known() if name not in COLUMNS[query.kind]])
    ),
    "ask": lambda draw, query: replace(query, asked=_add(draw, query.asked, ASKED)),
    "no question": lambda draw, query: replace(query, asked=_drop(draw, query.asked)),
    "type": lambda draw, query: replace(query, wider=_toggle(draw, query.wider, WIDER)),
    "name": lambda draw, query: replace(query, named=_toggle(draw, query.named, OTHER_NAMES)),
}  # fmt: skip
_UNION_EDITS: Mapping[str, Callable[[Random, Written], Written]] = {
    "part": lambda draw, query: replace(query, parts=_add(draw, query.parts, PARTS)),
    "no part": lambda draw, query: replace(query, parts=_drop(draw, query.parts) or query.parts),
    "other parts": _change_parts,
}
_MORE_EDITS = {
    "parts": _UNION_EDITS,
    "united": _UNION_EDITS,
    "groups": {"having": lambda draw, query: replace(query, having=() if query.having else (draw.choice(HAVING),))},
}
EDITS = frozenset(_ROW_EDITS)
"""Names of the edits that every query may get."""
