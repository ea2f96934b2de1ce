"""Random sources before and after a batch, and random trees over them, all from one seed.

Values are few and often null, so that groups merge and empty, join keys meet and part, and rows are copies of others.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from random import Random
from typing import Any

import duckdb
import pytest
import sqlglot
from sqlglot import exp

from arctic_runtime.ivm.algebra.expressions import build_column
from arctic_runtime.ivm.algebra.tree import (
    HAS_AFTER,
    HAS_BEFORE,
    MULTIPLICITY,
    Aggregate,
    Distinct,
    Explode,
    Filter,
    Join,
    Node,
    OneRow,
    Projection,
    Scan,
    SemiJoin,
    SetOperation,
    UnionAll,
    WindowColumns,
    list_columns,
    list_scans,
    walk_tree,
)
from arctic_runtime.ivm.algebra.tree import name_before as was
from arctic_runtime.ivm.render import build_query, name_input
from arctic_runtime.ivm.rules.terms import read_image
from arctic_runtime.model.names import TableName
from tests.unit.ivm import duck

Rows = list[tuple[Any, ...]]
Bag = Counter[tuple[Any, ...]]


@dataclass(frozen=True)
class Source:
    """A table of whole numbers; without a key its rows may be copies of each other."""

    name: TableName
    fields: tuple[str, ...]
    key: tuple[str, ...] | None

    def scan(self, alias: str, *fields: str) -> Scan:
        """The source under names that begin with an alias."""
        read = fields or self.fields
        key = self.key if self.key and set(self.key) <= set(read) else None
        return Scan(
            self.name,
            tuple((f"{alias}.{name}", name) for name in read),
            None if key is None else tuple(f"{alias}.{name}" for name in key),
        )


ONE = Source(TableName("lake", "raw", "one"), ("id", "a", "b"), ("id",))
TWO = Source(TableName("lake", "raw", "two"), ("id", "a", "b"), ("id", "a"))
HEAP = Source(TableName("lake", "raw", "heap"), ("a", "b", "c"), None)
SOURCES = (ONE, TWO, HEAP)


@dataclass(frozen=True)
class Batch:
    """The rows of each source before and after."""

    old: dict[Source, Rows]
    new: dict[Source, Rows]

    @property
    def changed(self) -> frozenset[TableName]:
        return frozenset(name.name for name in self.old if Counter(self.old[name]) != Counter(self.new[name]))


def load(con: duckdb.DuckDBPyConnection, batch: Batch) -> None:
    """Makes the images of all sources that trees read by `name_input`."""
    for source, before in batch.old.items():
        after = batch.new[source]
        came, went = Counter(after) - Counter(before), Counter(before) - Counter(after)
        _table(con, name_input(source.name, "old"), source.fields, before)
        _table(con, name_input(source.name, "new"), source.fields, after)
        _table(con, name_input(source.name, "either"), source.fields, [*after, *went.elements()])
        delta = [*((*row, 1) for row in came.elements()), *((*row, -1) for row in went.elements())]
        _table(con, name_input(source.name, "delta"), (*source.fields, MULTIPLICITY), delta)
        _load_pairs(con, source, set(went), set(came))


ANYTHING = 7
"""What a pair's columns hold where there is no such row."""


def _load_pairs(con: duckdb.DuckDBPyConnection, source: Source, went: Iterable[Any], came: Iterable[Any]) -> None:
    if source.key is None:
        return
    at = [source.fields.index(name) for name in source.key]
    old, new = ({tuple(row[place] for place in at): row for row in rows} for rows in (went, came))
    nothing = {
        key: tuple(key[at.index(place)] if place in at else ANYTHING for place in range(len(source.fields)))
        for key in {*old, *new}
    }
    pairs = [(*new.get(key, none), *old.get(key, none), key in new, key in old) for key, none in nothing.items()]
    names = (*source.fields, *map(was, source.fields), HAS_AFTER, HAS_BEFORE)
    view = name_input(source.name, "pair")
    _table(con, f"{view} of numbers", names, pairs)
    flags = ", ".join(f'cast("{flag}" as boolean) as "{flag}"' for flag in (HAS_AFTER, HAS_BEFORE))
    con.execute(f'create or replace view "{view}" as select * replace ({flags}) from "{view} of numbers"')


def types(tree: Node) -> dict[str, str]:
    """Sources hold whole numbers, and so does whatever is computed of them."""
    return {name: "bigint" for node in walk_tree(tree) for name in list_columns(node)}


def given(con: duckdb.DuckDBPyConnection, name: str, names: Sequence[str], rows: Iterable[tuple[Any, ...]]) -> None:
    """Makes rows that trees read as `SpoolScan`."""
    _table(con, name, names, list(rows))


@lru_cache(maxsize=256)
def sql(node: Node) -> str:
    """A tree in DuckDB's dialect, the short way where nothing but the engine's names differ.

    DuckDB's `count_if` is null where there is nothing to count, Spark's is 0.
    """
    query = build_query(node)
    for call in list(query.find_all(exp.CountIf)):
        call.replace(exp.Count(this=exp.case().when(call.this, exp.Literal.number(1))))
    if any(isinstance(part, Explode) for part in walk_tree(node)):
        return duck.in_duckdb(query.sql(dialect="spark"))
    return query.sql(dialect="duckdb")


def rows(con: duckdb.DuckDBPyConnection, node: Node) -> Bag:
    """The rows of a tree as a bag."""
    return duck.fetch(con, sql(node))


def netted(weighted: Bag) -> Bag:
    """What a signed bag adds up to: each row with its copies, negative where they go, without those that cancel out."""
    bag: Bag = Counter()
    for (*row, weight), copies in weighted.items():
        bag[tuple(row)] += weight * copies
    return Counter({row: copies for row, copies in bag.items() if copies})


def difference(after: Bag, before: Bag) -> Bag:
    """New minus old, with negative copies for rows that go."""
    bag = Counter(after)
    bag.subtract(before)
    return Counter({row: copies for row, copies in bag.items() if copies})


def picked(bag: Iterable[tuple[Any, ...]], node: Node, names: Sequence[str]) -> set[tuple[Any, ...]]:
    """Some columns of rows of a tree."""
    at = [list_columns(node).index(name) for name in names]
    return {tuple(row[position] for position in at) for row in bag}


def condition(text: str) -> exp.Expr:
    """A condition in Spark's SQL; columns are quoted with backticks."""
    return sqlglot.parse_one(text, dialect="spark")


def store(con: duckdb.DuckDBPyConnection, name: str, names: Sequence[str], bag: Bag) -> None:
    """Makes a table of rows with their copies."""
    _table(con, name, names, list(bag.elements()))


def _table(con: duckdb.DuckDBPyConnection, name: str, names: Sequence[str], rows: Rows) -> None:
    fields = ", ".join(f'"{column}" bigint' for column in names)
    con.execute(f'create or replace table "{name}" ({fields})')
    if rows:
        values = ", ".join(f"({', '.join('null' if value is None else str(value) for value in row)})" for row in rows)
        con.execute(f'insert into "{name}" values {values}')


def random_batch(random: Random) -> Batch:
    """Some sources unchanged, some emptied, some filled, most with rows inserted, updated and deleted."""
    old = {source: _rows(random, source, random.choice((0, 3, 4, 5))) for source in SOURCES}
    new = {source: _after(random, source, rows) for source, rows in old.items()}
    return Batch(old, new)


def following(random: Random, batch: Batch) -> Batch:
    """One more batch, over what the last one left."""
    return Batch(batch.new, {source: _after(random, source, rows) for source, rows in batch.new.items()})


def _value(random: Random) -> int | None:
    return random.choice((None, 0, 1, 2))


def _row(random: Random, source: Source) -> tuple[Any, ...]:
    key = source.key or ()
    return tuple(random.randint(0, 4) if name in key else _value(random) for name in source.fields)


def _unique(source: Source, rows: Rows) -> Rows:
    if source.key is None:
        return rows
    at = [source.fields.index(name) for name in source.key]
    return list({tuple(row[position] for position in at): row for row in rows}.values())


def _rows(random: Random, source: Source, count: int) -> Rows:
    return _unique(source, [_row(random, source) for _ in range(count)])


def _after(random: Random, source: Source, before: Rows) -> Rows:
    how = random.random()
    if how < 0.2:
        return before
    if how < 0.3:
        return []
    kept = [row for row in before if random.random() < 0.7]
    updated = [_updated(random, row) if random.random() < 0.4 else row for row in kept]
    return _unique(source, updated + [_row(random, source) for _ in range(random.choice((0, 1, 2)))])


def _updated(random: Random, row: tuple[Any, ...]) -> tuple[Any, ...]:
    """The last column is in no key."""
    position = random.choice((1, 2)) if row[1] is not None and row[0] is not None else 2
    value = _value(random) if position == 2 else random.choice((0, 1, 2))
    return (*row[:position], value, *row[position + 1 :])


@dataclass
class Trees:
    """Random trees, each column with a name of its own; `linear` ones only of joins, filters and projections."""

    random: Random
    linear: bool = False
    _made: int = field(default=0)

    def tree(self, depth: int, most_scans: int = 4) -> Node:
        if depth == 0 or (most_scans < 2 and self.random.random() < 0.15):
            return self._scan()
        unary = (self._project, self._filter, self._aggregate, self._window, self._distinct, self._explode)
        binary = (self._join, self._join, self._join, self._merged, self._semi, self._semi, self._union, self._set)
        if self.linear:
            unary, binary = (self._filter, self._project), (self._link, self._link, self._link)
        choices = unary if most_scans < 2 else (*unary, *binary)
        make = self.random.choice(choices)
        if make in binary:
            share = most_scans // 2
            return make(self.tree(depth - 1, share), self.tree(self.random.randint(0, depth - 1), share))
        return make(self.tree(depth - 1, most_scans))

    def path(self, source: Source, depth: int) -> tuple[Node, tuple[str, ...]]:
        """A tree in which each row of a source gives one row or none, and its columns that are the source's key."""
        self._made += 1
        node: Node = source.scan(f"{source.name.name}{self._made}")
        assert isinstance(node, Scan)
        key = node.key or ()
        others = [source_other for source_other in SOURCES if source_other is not source]
        for _ in range(depth):
            how = self.random.choice(("project", "filter", "join", "join", "join", "semi"))
            if how == "project":
                names = {name: self._name() for name in (*key, *self.some(list_columns(node), 0, 3))}
                made = [(self._name(), self._expression(node)) for _ in range(self.random.choice((0, 1)))]
                node = Projection(node, (*((name, build_column(own)) for own, name in names.items()), *made))
                key = tuple(names[name] for name in key)
            elif how == "filter":
                node = self._filter(node)
            else:
                node = self._partnered(node, key, others, how == "semi")
        return node, key

    def _partnered(self, node: Node, key: Sequence[str], others: Sequence[Source], is_asked: bool) -> Node:
        """With rows of which one at most is a partner, by what they are grouped by or by their key.

        Where rows are only asked whether they have partners, there may be several.
        """
        self._made += 1
        partner: Node = self.random.choice(others).scan(f"p{self._made}")
        assert isinstance(partner, Scan)
        unique = partner.key or ()
        if is_asked and self.random.random() < 0.5:
            names = self.some(list_columns(partner), 1, 2)
            equal = (
                self._equality(build_column(self.random.choice(list_columns(node))), build_column(name))
                for name in names
            )
            return SemiJoin(self.random.choice(("semi", "anti")), node, partner, exp.and_(*equal))
        if not unique or self.random.random() < 0.3:
            unique = self.some(list_columns(partner), 1, 2)
            partner = Aggregate(partner, unique, ((self._name(), exp.Count(this=exp.Star())),))
        if self.random.random() < 0.3:
            partner = self._filter(partner)
        mine = list_columns(node) if self.random.random() < 0.7 else key
        parts = [self._equality(build_column(self.random.choice(mine)), build_column(name)) for name in unique]
        if self.random.random() < 0.4:
            one, other = self._column(node), self._column(partner)
            extra = (exp.LTE(this=one, expression=other), self._condition(node), self._condition(partner))
            parts.append(self.random.choice(extra))
        if is_asked:
            return SemiJoin(self.random.choice(("semi", "anti")), node, partner, exp.and_(*parts))
        if self.random.random() < 0.3:
            return Join("inner", partner, node, exp.and_(*parts))
        return Join(self.random.choice(("inner", "left")), node, partner, exp.and_(*parts))

    def _equality(self, one: exp.Expr, other: exp.Expr) -> exp.Expr:
        """Also as one of different types is written."""
        kind = self.random.choice((exp.EQ, exp.EQ, exp.NullSafeEQ))
        if self.random.random() < 0.2:
            one = exp.Coalesce(this=one, expressions=[])
        return kind(this=one, expression=other) if self.random.random() < 0.5 else kind(this=other, expression=one)

    def added(self, depth: int) -> Node:
        """Sums and counts, below operators that keep each group's rows apart."""
        aggregate = self._totals(self.tree(depth, 2))
        for _ in range(self.random.choice((0, 1, 2))):
            aggregate = self.random.choice((self._filter, self._computed, self._looked_up, self._kept_by))(aggregate)
        return aggregate

    def some(self, names: Sequence[str], least: int, most: int) -> tuple[str, ...]:
        """A few names in a random order."""
        most = min(most, len(names))
        return tuple(self.random.sample(list(names), self.random.randint(min(least, most), most)))

    def _name(self) -> str:
        self._made += 1
        return f"c#{self._made}"

    def _scan(self) -> Node:
        if not self.linear and self.random.random() < 0.06:
            values = (exp.Literal.number(1), self.random.choice((exp.Literal.number(0), exp.null())))
            return Projection(OneRow(), tuple((self._name(), value) for value in values))
        self._made += 1
        source = self.random.choice((ONE, ONE, TWO) if self.linear else SOURCES)
        fields = source.fields[1:] if self.random.random() < 0.1 else source.fields
        return source.scan(f"{source.name.name}{self._made}", *fields)

    def _column(self, node: Node) -> exp.Column:
        return build_column(self.random.choice(list_columns(node)))

    def _expression(self, node: Node) -> exp.Expr:
        one, other = self._column(node), self._column(node)
        makers = (
            lambda: exp.Coalesce(this=one, expressions=[exp.Literal.number(0)]),
            lambda: exp.Mod(this=exp.paren(exp.Add(this=one, expression=other)), expression=exp.Literal.number(3)),
            lambda: exp.case().when(exp.Is(this=one, expression=exp.null()), exp.Literal.number(1)).else_(other),
            lambda: exp.Literal.number(1),
        )
        return self.random.choice(makers)()

    def _condition(self, node: Node) -> exp.Expr:
        one, other = self._column(node), self._column(node)
        makers = (
            lambda: exp.GT(this=one, expression=exp.Literal.number(0)),
            lambda: exp.EQ(this=one, expression=exp.Literal.number(1)),
            lambda: exp.EQ(this=one, expression=other),
            lambda: exp.Is(this=one, expression=exp.null()),
            lambda: exp.or_(exp.LT(this=one, expression=other), exp.Is(this=other, expression=exp.null())),
            lambda: exp.GT(this=self._expression(node), expression=exp.Literal.number(0)),
            lambda: self._either(node),
        )
        tree = self.random.choice(makers)()
        return exp.and_(tree, self._condition(node)) if self.random.random() < 0.2 else tree

    def _either(self, node: Node) -> exp.Expr:
        """An OR of ANDs, which may have a part in common."""
        shared = self.random.choice([self._condition(node), None])
        branches = [exp.and_(self._condition(node), shared or self._condition(node)) for _ in range(2)]
        return exp.or_(*branches)

    def _on(self, left: Node, right: Node) -> exp.Expr | None:
        one, other = self._column(left), self._column(right)
        equal = exp.EQ(this=one, expression=other)
        makers = (
            lambda: equal,
            lambda: equal,
            lambda: exp.EQ(this=other, expression=one),
            lambda: exp.and_(equal, exp.EQ(this=self._column(left), expression=self._column(right))),
            lambda: exp.and_(equal, exp.LTE(this=self._column(left), expression=self._column(right))),
            lambda: exp.and_(equal, self._condition(right)),
            lambda: exp.and_(equal, self._condition(left)),
            lambda: exp.or_(exp.and_(equal, self._condition(left)), exp.and_(equal, self._condition(right))),
            lambda: exp.NullSafeEQ(this=one, expression=other),
            lambda: exp.EQ(this=exp.Coalesce(this=one, expressions=[]), expression=other),
            lambda: exp.EQ(this=self._expression(left), expression=self._expression(right)),
            lambda: exp.LT(this=one, expression=other),
            lambda: None,
        )
        return self.random.choice(makers)()

    def _project(self, child: Node) -> Node:
        kept = self.some(list_columns(child), 1, 4)
        made = [self._expression(child) for _ in range(self.random.choice((0, 1, 1)))]
        return Projection(
            child, (*((self._name(), build_column(name)) for name in kept), *((self._name(), e) for e in made))
        )

    def _filter(self, child: Node) -> Node:
        return Filter(child, self._condition(child))

    def _distinct(self, child: Node) -> Node:
        return Distinct(child)

    def _explode(self, child: Node) -> Node:
        values = exp.Array(expressions=[self._column(child), self._column(child)])
        when = exp.case().when(exp.GT(this=self._column(child), expression=exp.Literal.number(0)), values)
        return Explode(child, exp.Explode(this=when.else_(exp.null())), (self._name(),), self.random.random() < 0.5)

    def _aggregate(self, child: Node) -> Node:
        values = (
            lambda: exp.Count(this=exp.Star()),
            lambda: exp.Sum(this=self._column(child)),
            lambda: exp.Max(this=self._column(child)),
            lambda: exp.Count(this=self._column(child)),
        )
        keys = self.some(list_columns(child), 0 if self.random.random() < 0.2 else 1, 2)
        made = self.random.sample(values, self.random.choice((0, 1, 2)) if keys else 1)
        return Aggregate(child, keys, tuple((self._name(), make()) for make in made))

    def _totals(self, child: Node) -> Node:
        if self.random.random() < 0.1:
            return Distinct(child)
        keys = self.some(list_columns(child), 0 if self.random.random() < 0.2 else 1, 2)
        calls = [self._total(child) for _ in range(self.random.choice((1, 2, 3)) if not keys else 2)]
        return Aggregate(child, keys, tuple((self._name(), call) for call in calls))

    def _total(self, child: Node) -> exp.Expr:
        values = (
            lambda: exp.Count(this=exp.Star()),
            lambda: exp.Count(this=self._column(child)),
            lambda: exp.Count(this=self._expression(child)),
            lambda: exp.CountIf(this=self._condition(child)),
            lambda: exp.Sum(this=self._column(child)),
            lambda: exp.Sum(this=self._expression(child)),
        )
        call = self.random.choice(values)()
        is_all = self.random.random() < 0.7
        return call if is_all else exp.Filter(this=call, expression=exp.Where(this=self._condition(child)))

    def _computed(self, child: Node) -> Node:
        """All columns and one more."""
        kept = ((name, build_column(name)) for name in list_columns(child))
        return Projection(child, (*kept, (self._name(), self._expression(child))))

    def _looked_up(self, child: Node) -> Node:
        """Each row with the one whose key a column holds, or without one."""
        self._made += 1
        other = ONE.scan(f"one{self._made}")
        on = exp.EQ(this=self._column(child), expression=build_column(list_columns(other)[0]))
        kind = self.random.choice(("inner", "left"))
        sides = (child, other) if kind == "left" or self.random.random() < 0.5 else (other, child)
        return Join(kind, *sides, on)

    def _kept_by(self, child: Node) -> Node:
        return self._semi(child, self._scan())

    def _window(self, child: Node) -> Node:
        partition = self.some(list_columns(child), 0 if self.random.random() < 0.2 else 1, 2)
        value = self.random.choice((exp.Sum, exp.Max))(this=self._column(child))
        over = exp.Window(this=value, partition_by=[build_column(name) for name in partition])
        return WindowColumns(child, partition, ((self._name(), over),))

    def _join(self, left: Node, right: Node) -> Node:
        kind = self.random.choice(("inner", "inner", "left", "left", "full"))
        on = self._on(left, right)
        return Join("inner" if on is None and kind == "full" else kind, left, right, on)

    def _link(self, left: Node, right: Node) -> Node:
        """A join on first columns, which are those that identify rows."""
        one, other = (
            build_column(self.random.choice((list_columns(node)[0], *list_columns(node)))) for node in (left, right)
        )
        on: exp.Expr = exp.EQ(this=one, expression=other)
        if self.random.random() < 0.3:
            on = exp.and_(on, self._condition(self.random.choice((left, right))))
        kind = self.random.choice(("inner", "left", "left", "semi", "anti"))
        return SemiJoin(kind, left, right, on) if kind in ("semi", "anti") else Join(kind, left, right, on)

    def _merged(self, left: Node, right: Node) -> Node:
        """A full join as `using` makes it, with a column that is the left or else the right one."""
        one, other = self._column(left), self._column(right)
        joined: Node = Join("full", left, right, exp.EQ(this=one, expression=other))
        if self.random.random() < 0.3:
            joined = Filter(joined, self._condition(joined))
        merged = exp.Coalesce(this=one, expressions=[other])
        kept = self.some(list_columns(joined), 0, 2)
        return Projection(joined, ((self._name(), merged), *((self._name(), build_column(name)) for name in kept)))

    def _semi(self, left: Node, right: Node) -> Node:
        """Also with one row that all others are compared to."""
        if self.random.random() < 0.3:
            right = self._single(right)
            one, other = self._column(left), self._column(right)
            on: exp.Expr | None = self.random.choice((exp.LTE(this=one, expression=other), self._on(left, right)))
        else:
            on = self._on(left, right)
        return SemiJoin(self.random.choice(("semi", "anti")), left, right, on)

    def _single(self, child: Node) -> Node:
        """One row, or none where it is under a condition."""
        calls = (exp.Count(this=exp.Star()), exp.Max(this=self._column(child)), exp.Sum(this=self._column(child)))
        aggregate: Node = Aggregate(child, (), ((self._name(), self.random.choice(calls)),))
        return self._filter(aggregate) if self.random.random() < 0.2 else aggregate

    def _same_width(self, left: Node, right: Node) -> tuple[Node, Node, tuple[str, ...]]:
        width = min(len(list_columns(left)), len(list_columns(right)), 3)
        left, right = (
            Projection(
                node, tuple((self._name(), build_column(name)) for name in self.some(list_columns(node), width, width))
            )
            for node in (left, right)
        )
        return left, right, tuple(self._name() for _ in range(width))

    def _union(self, left: Node, right: Node) -> Node:
        left, right, names = self._same_width(left, right)
        return UnionAll((left, right), names)

    def _set(self, left: Node, right: Node) -> Node:
        kind = self.random.choice(("intersect", "except"))
        left, right, names = self._same_width(left, right)
        return SetOperation(kind, self.random.random() < 0.5, left, right, names)


@dataclass(frozen=True)
class Case:
    """A tree over loaded images; what its rows were and are."""

    con: duckdb.DuckDBPyConnection
    random: Random
    trees: Trees
    tree: Node
    changed: frozenset[TableName]
    old: Bag
    new: Bag

    @property
    def difference(self) -> Bag:
        return difference(self.new, self.old)

    def names(self) -> tuple[str, ...]:
        """Some of the tree's columns."""
        return self.trees.some(list_columns(self.tree), 1, 3)

    def rows(self, node: Node) -> Bag:
        return rows(self.con, node)


def case(con: duckdb.DuckDBPyConnection, tree: Node, batch: Batch, random: Random, trees: Trees) -> Case:
    """A tree over a batch whose images are loaded."""
    changed = batch.changed & sources_of(tree)
    return Case(con, random, trees, tree, changed, rows(con, read_image(tree, "old", changed)), rows(con, tree))


def cases(con: duckdb.DuckDBPyConnection, seed: int, linear: bool = False) -> Iterator[Case]:
    """Some trees over one random batch for each of a few seeds, the same ones every time."""
    for number in range(seed, seed + 1 if seed < FEW else seed + STEP):
        yield from _cases(con, number, linear)


def _cases(con: duckdb.DuckDBPyConnection, seed: int, linear: bool) -> Iterator[Case]:
    random = Random(seed)
    batch = random_batch(random)
    load(con, batch)
    for depth in (1, 2) if seed < FEW else (2, 3, 4):
        trees = Trees(random, linear)
        problem = case(con, trees.tree(depth), batch, random, trees)
        if sum(problem.new.values()) < 300:
            yield problem


FEW = 2
"""Seeds that every run tries."""

STEP = 10

SEEDS = [*range(FEW), *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(FEW, 152, STEP))]


def sources_of(node: Node) -> frozenset[TableName]:
    """The tables that a tree reads."""
    return frozenset(scan.source for scan in list_scans(node))
