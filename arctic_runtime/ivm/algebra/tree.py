"""The operators that a query is made of.

Every column of a tree has a name of its own, unique in the whole tree, so that an expression is understood without
knowing where it stands: expressions are sqlglot's, and their columns are unqualified names of the operator's inputs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, fields, replace
from typing import Any, Literal, get_args, get_type_hints

from sqlglot import exp
from typing_extensions import assert_never

from arctic_runtime.model.names import TableName

MULTIPLICITY = "__arctic_weight"
"""The multiplicity column of a Z-set: +1 for an added row, -1 for a removed row."""

HAS_AFTER = "__arctic_has_after"
"""The column of a pair that says whether there is such a row now; if not, what it holds beside its key is nothing."""

HAS_BEFORE = "__arctic_has_before"
"""The column of a pair that says whether there was such a row, which the columns named by `before` hold."""

Image = Literal["new", "old", "either", "delta", "pair"]
"""A source as of the end of its window, as of its start, a superset of both; the rows that came and went; or a
row for each key that changed, as it is now and as it was, with the key in both."""

Side = Literal["left", "right"]
"""Of a join."""


@dataclass(frozen=True)
class Scan:
    """A source's columns under their names in the tree; `key` are those that identify a row, None if not known."""

    source: TableName
    fields: tuple[tuple[str, str], ...]
    key: tuple[str, ...] | None = None
    image: Image = "new"

    @property
    def reads_rows(self) -> bool:
        """Whether the source's rows are read, not what changed alone."""
        return self.image in ("new", "old", "either")

    @property
    def reads_changes(self) -> bool:
        return self.image in ("delta", "pair", "either")


@dataclass(frozen=True)
class SpoolScan:
    """Rows that are at hand under a name when the plan is executed, such as the keys of affected rows.

    `key` are the columns that identify a row, None if not known.
    """

    name: str
    names: tuple[str, ...]
    key: tuple[str, ...] | None = None


@dataclass(frozen=True)
class OneRow:
    """Exactly one row, without columns: what a query without FROM starts from."""


@dataclass(frozen=True)
class Project:
    """One expression for each column, deterministic, of one row alone."""

    child: Node
    expressions: tuple[tuple[str, exp.Expr], ...]


@dataclass(frozen=True)
class Filter:
    """The rows for which a condition is true."""

    child: Node
    condition: exp.Expr


@dataclass(frozen=True)
class Join:
    """Pairs of rows for which `on` is true; left and full joins keep rows without a partner. No `on`: all pairs.

    A right join is a left join with its sides exchanged. `broadcast` is the side whose rows Spark copies to every task;
    None leaves the choice to Spark.
    """

    kind: Literal["inner", "left", "full"]
    left: Node
    right: Node
    on: exp.Expr | None
    broadcast: Side | None = None


@dataclass(frozen=True)
class SemiJoin:
    """The left rows that have a partner on the right (`semi`) or none (`anti`); `broadcast` is as in `Join`."""

    kind: Literal["semi", "anti"]
    left: Node
    right: Node
    on: exp.Expr | None
    broadcast: Side | None = None


@dataclass(frozen=True)
class Aggregate:
    """One row for each group of equal `keys` (columns of the child, nulls equal); without keys exactly one row."""

    child: Node
    keys: tuple[str, ...]
    aggregates: tuple[tuple[str, exp.Expr], ...]


@dataclass(frozen=True)
class Window:
    """The child's rows with further columns, each a window expression over the same partition.

    `partition` are columns of the child; without any, all rows are one partition.
    """

    child: Node
    partition: tuple[str, ...]
    expressions: tuple[tuple[str, exp.Expr], ...]


@dataclass(frozen=True)
class Explode:
    """Each row of the child once for each row that a generator makes of it; `outer` keeps rows without any."""

    child: Node
    generator: exp.Expr
    names: tuple[str, ...]
    outer: bool


@dataclass(frozen=True)
class Distinct:
    """The child's rows, each once."""

    child: Node


@dataclass(frozen=True)
class UnionAll:
    """The rows of all children, column by column in their order, under names of its own."""

    inputs: tuple[Node, ...]
    names: tuple[str, ...]


@dataclass(frozen=True)
class SetOperation:
    """Rows in both children (`intersect`), or in the left one only (`except`); `all` counts copies."""

    kind: Literal["intersect", "except"]
    all: bool
    left: Node
    right: Node
    names: tuple[str, ...]


Node = (
    Scan
    | SpoolScan
    | OneRow
    | Project
    | Filter
    | Join
    | SemiJoin
    | Aggregate
    | Window
    | Explode
    | Distinct
    | UnionAll
    | SetOperation
)


def list_columns(node: Node) -> tuple[str, ...]:
    """The names of a node's columns, in order."""
    cached = vars(node)
    if _COLUMNS not in cached:
        cached[_COLUMNS] = _compute_columns(node)
    names: tuple[str, ...] = cached[_COLUMNS]
    return names


_COLUMNS, _SOURCES = "_columns", "_sources"
"""Where a node keeps these, once they are worked out: rules ask for them again and again."""


def _compute_columns(node: Node) -> tuple[str, ...]:
    match node:
        case Scan(fields=fields, image=image):
            return (*(name for name, _ in fields), *(name for name, _ in list_image_fields(fields, image)))
        case SpoolScan(names=names) | UnionAll(names=names) | SetOperation(names=names):
            return names
        case OneRow():
            return ()
        case Project(expressions=expressions):
            return tuple(name for name, _ in expressions)
        case Filter(child=child) | Distinct(child=child):
            return list_columns(child)
        case Join(left=left, right=right):
            return (*list_columns(left), *list_columns(right))
        case SemiJoin(left=left):
            return list_columns(left)
        case Aggregate(keys=keys, aggregates=aggregates):
            return (*keys, *(name for name, _ in aggregates))
        case Window(child=child, expressions=expressions):
            return (*list_columns(child), *(name for name, _ in expressions))
        case Explode(child=child, names=names):
            return (*list_columns(child), *names)
        case _:
            assert_never(node)


def list_expressions(node: Node) -> list[exp.Expr]:
    """The expressions that a node computes or asks of its inputs' columns."""
    match node:
        case Project(expressions=named) | Window(expressions=named) | Aggregate(aggregates=named):
            return [value for _, value in named]
        case Filter(condition=condition):
            return [condition]
        case Join(on=on) | SemiJoin(on=on):
            return [] if on is None else [on]
        case Explode(generator=generator):
            return [generator]
    return []


def name_before(name: str) -> str:
    """The column of a pair that holds what another one was."""
    return f"__arctic_before_{name}"


def list_image_fields(fields: tuple[tuple[str, str], ...], image: Image) -> tuple[tuple[str, str], ...]:
    """Columns that an image has besides the source's own: names in the tree, and in the image."""
    if image == "delta":
        return ((MULTIPLICITY, MULTIPLICITY),)
    flags = ((HAS_AFTER, HAS_AFTER), (HAS_BEFORE, HAS_BEFORE))
    return (*((name_before(name), name_before(field)) for name, field in fields), *flags) if image == "pair" else ()


def list_children(node: Node) -> tuple[Node, ...]:
    """The inputs of a node, left before right."""
    nodes: list[Node] = []
    for name, is_many in _INPUTS[type(node)]:
        part = getattr(node, name)
        nodes.extend(part if is_many else (part,))
    return tuple(nodes)


def map_children(node: Node, function: Callable[[Node], Node]) -> Node:
    """The same node over other inputs."""
    mapped: dict[str, Any] = {}
    for name, is_many in _INPUTS[type(node)]:
        part = getattr(node, name)
        mapped[name] = tuple(function(one) for one in part) if is_many else function(part)
    return replace(node, **mapped) if mapped else node


def _list_inputs(operator: Any) -> tuple[tuple[str, bool], ...]:
    types = get_type_hints(operator)
    kinds = {Node: False, tuple[Node, ...]: True}
    return tuple((part.name, kinds[types[part.name]]) for part in fields(operator) if types[part.name] in kinds)


_INPUTS: Mapping[type, tuple[tuple[str, bool], ...]] = {operator: _list_inputs(operator) for operator in get_args(Node)}
"""The fields of each operator that are inputs, in order, and whether each holds several."""


def walk_tree(node: Node) -> Iterator[Node]:
    """A node and everything below it, the node first."""
    waiting = [node]
    while waiting:
        current = waiting.pop()
        yield current
        waiting.extend(reversed(list_children(current)))


def list_scans(node: Node) -> tuple[Scan, ...]:
    """The sources below a node, left before right; one read twice stands twice."""
    return tuple(scan for scan in walk_tree(node) if isinstance(scan, Scan))


def list_sources(node: Node) -> frozenset[TableName]:
    """Tables that are read below a node."""
    cached = vars(node)
    if _SOURCES not in cached:
        own = (node.source,) if isinstance(node, Scan) else ()
        cached[_SOURCES] = frozenset(own).union(*map(list_sources, list_children(node)))
    names: frozenset[TableName] = cached[_SOURCES]
    return names
