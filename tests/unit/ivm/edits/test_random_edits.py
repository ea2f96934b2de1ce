"""Random queries with random edits: whatever is planned is exact, and most of what people do is planned."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from random import Random

import pytest

from arctic_runtime.ivm.algebra.refusal import NotMaintained
from arctic_runtime.ivm.edits.refused import NotEdited
from tests.unit.ivm.edits.edited import edit_table, random_sources
from tests.unit.ivm.trees import FEW

KEYS = {"rows": ("id",), "groups": ("customer",), "parts": ("id",)}
COLUMNS = {
    "rows": {
        "amount": "o.amount", "customer": "o.customer", "state": "o.state", "twice": "o.amount * 2",
        "size": "case when o.amount > 2 then 'big' else o.state end", "day": "o.day", "next": "o.customer + 1",
    },
    "groups": {"total": "sum(o.amount)", "n": "count(*)", "most": "max(o.amount)", "after": "customer + 1"},
    "parts": {"amount": "amount", "customer": "customer", "more": "amount + 1"},
}  # fmt: skip
JOINED = {"name": "c.name", "city": "c.city", "both": "concat(c.name, o.state)"}
CONDITIONS = {
    "rows": ("o.amount > 1", "o.amount > 2", "o.amount < 4", "o.state = 'paid'", "o.state in ('paid', 'open')",
             "o.customer is not null", "o.id > 3", "o.day >= '2024-01-15'", "(o.amount > 3 or o.state = 'open')"),
    "groups": ("o.customer > 1", "o.customer < 4", "o.customer is not null"),
    "parts": ("id > 3", "amount > 1", "amount is not null"),
}  # fmt: skip
HAVING = ("count(*) > 1", "sum(o.amount) > 3", "max(o.amount) < 5")
ASKED = (
    "exists (select 1 from lines l where l.id = o.id)",
    "not exists (select 1 from lines l where l.id = o.id and l.price > 2)",
    "o.customer in (select customer from customers where city = 'ann')",
)


@dataclass(frozen=True)
class Written:
    """A query by its parts, and the way in which it is written."""

    kind: str
    columns: tuple[str, ...]
    conditions: tuple[str, ...] = ()
    asked: tuple[str, ...] = ()
    having: tuple[str, ...] = ()
    join: str = ""
    parts: tuple[str, ...] = ("order", "heap")
    is_nested: bool = False

    @property
    def key(self) -> str:
        return KEYS[self.kind][0]

    def write(self) -> str:
        if self.kind == "parts":
            return self._write_parts()
        known = {**COLUMNS[self.kind], **(JOINED if self.join else {})}
        key = f"o.{self.key}"
        selected = ", ".join([key, *(f"{known[name]} as {name}" for name in self.columns if name in known)])
        join = f" {self.join} customers c on c.customer = o.customer" if self.join else ""
        where = self._write_where((*self.conditions, *self.asked))
        orders = "(select * from orders) o" if self.is_nested else "orders o"
        group = f" group by {key}{self._write_where(self.having, ' having ')}" if self.kind == "groups" else ""
        return f"select {selected} from {orders}{join}{where}{group}"

    def _write_parts(self) -> str:
        names = ", ".join(["id", *(f"{COLUMNS['parts'][name]} as {name}" for name in self.columns)])
        sources = {
            "order": "orders",
            "heap": "heap",
            "line": "(select 1000 + id * 9 + line as id, price as amount, line as customer from lines)",
        }
        where = self._write_where(self.conditions)
        selects = [f"select '{part}' as part, {names} from {sources[part]}{where}" for part in self.parts]
        return " union all ".join(selects)

    def _write_where(self, conditions: tuple[str, ...], word: str = " where ") -> str:
        return f"{word}{' and '.join(conditions)}" if conditions else ""


def random_query(draw: Random) -> Written:
    kind = draw.choice(("rows", "rows", "rows", "groups", "parts"))
    columns = tuple(draw.sample([*COLUMNS[kind], *(JOINED if kind == "rows" else ())], draw.choice((1, 2, 3))))
    return Written(
        kind,
        columns,
        tuple(draw.sample(CONDITIONS[kind], draw.choice((0, 1, 2)))),
        tuple(draw.sample(ASKED, 1)) if kind == "rows" and draw.random() < 0.2 else (),
        tuple(draw.sample(HAVING, 1)) if kind == "groups" and draw.random() < 0.3 else (),
        draw.choice(("", "join", "left join")) if kind == "rows" else "",
        ("order", "heap"),
        draw.random() < 0.3,
    )


def random_edit(draw: Random, query: Written) -> tuple[str, Written]:
    """One edit of a random kind, by its name."""
    known = [*COLUMNS[query.kind], *(JOINED if query.join else ())]
    kinds = ["format", "column", "no column", "narrow", "widen", "order"]
    kinds += ["join", "ask", "no question"] if query.kind == "rows" else []
    kinds += ["having"] if query.kind == "groups" else ["part", "no part"] if query.kind == "parts" else []
    kind = draw.choice(kinds)
    others = [name for name in known if name not in query.columns]
    conditions = [part for part in CONDITIONS[query.kind] if part not in query.conditions]
    match kind:
        case "column" if others:
            return kind, replace(query, columns=(*query.columns, draw.choice(others)))
        case "no column":
            return kind, replace(query, columns=query.columns[1:])
        case "order":
            return kind, replace(query, columns=tuple(draw.sample(query.columns, len(query.columns))))
        case "narrow" if conditions:
            return kind, replace(query, conditions=(*query.conditions, draw.choice(conditions)))
        case "widen":
            return kind, replace(query, conditions=query.conditions[1:])
        case "join":
            return kind, replace(query, join="" if query.join else draw.choice(("join", "left join")))
        case "ask":
            return kind, replace(query, asked=(*query.asked, draw.choice(ASKED)))
        case "no question":
            return kind, replace(query, asked=())
        case "having":
            return kind, replace(query, having=() if query.having else (draw.choice(HAVING),))
        case "part":
            return kind, replace(query, parts=("order", "heap", "line"))
        case "no part":
            return kind, replace(query, parts=draw.choice((("order",), ("heap",))))
        case _:
            return "format", replace(query, is_nested=not query.is_nested)


def make_edits(seeds: range) -> tuple[Counter[str], Counter[str]]:
    """Edits a random query of each seed; counts the kinds of edits that were planned, and those that were refused."""
    planned, refused = Counter[str](), Counter[str]()
    for seed in seeds:
        draw = Random(seed)
        old = random_query(draw)
        new, kinds = old, []
        for _ in range(draw.choice((1, 1, 2, 3))):
            kind, new = random_edit(draw, new)
            kinds.append(kind)
        try:
            edit_table(old.write(), new.write(), random_sources(draw), KEYS[old.kind])
        except NotEdited:
            refused.update(set(kinds))
            continue
        except NotMaintained:
            continue
        except AssertionError as error:
            raise AssertionError(f"seed {seed}: {old.write()} -> {new.write()}") from error
        planned.update(set(kinds))
    return planned, refused


@pytest.mark.parametrize("part", [0, *(pytest.param(part, marks=pytest.mark.slow) for part in range(1, FEW))])
def test_a_random_edit_gives_the_rows_of_the_new_query(part: int) -> None:
    planned, refused = make_edits(range(150 * part, 150 * (part + 1)))
    assert {"column", "narrow", "widen", "join", "ask", "format", "order"} <= set(planned)
    assert planned.total() > refused.total()
