"""Operators of a query, such as scans, filters and joins, which form a tree.

Every column has a name that is unique in the whole tree, so that an expression means the same in every operator.
Expressions are sqlglot's; their columns are unqualified and name columns of the operator's inputs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, fields, replace
from typing import Any, Literal, get_args, get_type_hints

from sqlglot import exp
from typing_extensions import assert_never

from arctic_runtime.ivm.algebra.clock import CLOCK, reads_clock
from arctic_runtime.model.names import TableName

MULTIPLICITY = "__arctic_weight"
"""Name of the multiplicity column of a Z-set: +1 for an added copy of a row, -1 for a removed copy."""

HAS_AFTER = "__arctic_has_after"
"""Boolean column of the image `pair`: whether the row exists after the change; if not, only its key has a meaning."""

HAS_BEFORE = "__arctic_has_before"
"""Boolean column of the image `pair`: whether the row existed before; `name_before` names the columns of old values."""

Image = Literal["new", "old", "either", "delta", "pair"]
"""Rows that a scan reads of a source table, for the window of table versions whose changes a run processes.

These are the table's rows at the end of the window (`new`), at its start (`old`), or a superset of both (`either`); the
added and removed rows (`delta`); or one row for each changed key, with its new and its old values (`pair`).
"""

Side = Literal["left", "right"]
"""A side of a join."""


@dataclass(frozen=True)
class Scan:
    """Reads the rows or the changes of a source table, as `image` says.

    `fields` are the columns, as pairs of the name in the tree and the name in the table. `key` are the names in the
    tree of the columns that identify a row of the table, None if they are not known.
    """

    source: TableName
    fields: tuple[tuple[str, str], ...]
    key: tuple[str, ...] | None = None
    image: Image = "new"

    @property
    def reads_rows(self) -> bool:
        """Whether the scan reads rows of the source table besides the changed ones."""
        return self.image in ("new", "old", "either")

    @property
    def reads_changes(self) -> bool:
        return self.image in ("delta", "pair", "either")


@dataclass(frozen=True)
class SpoolScan:
    """Reads the spool `name`: rows that the plan computed before, such as the keys of affected result rows.

    `names` are the spool's columns. `key` are the columns that identify a row, None if they are not known.
    """

    name: str
    names: tuple[str, ...]
    key: tuple[str, ...] | None = None


@dataclass(frozen=True)
class OneRow:
    """Exactly one row without columns, which is the input of a query without FROM."""


@dataclass(frozen=True)
class Projection:
    """Computes each output column by a deterministic expression over one row of the child.

    `expressions` are pairs of a column name and an expression.
    """

    child: Node
    expressions: tuple[tuple[str, exp.Expr], ...]


@dataclass(frozen=True)
class Filter:
    """Rows of the child for which the condition is true."""

    child: Node
    condition: exp.Expr


@dataclass(frozen=True)
class Join:
    """Pairs of left and right rows for which `on` is true; all pairs if `on` is None.

    As in SQL, a left join keeps left rows without a partner, and a full join keeps the rows of both sides. A right join
    is a left join with its sides exchanged. `broadcast` is the side whose rows Spark copies to every task; None leaves
    the choice to Spark.
    """

    kind: Literal["inner", "left", "full"]
    left: Node
    right: Node
    on: exp.Expr | None
    broadcast: Side | None = None


@dataclass(frozen=True)
class SemiJoin:
    """Left rows for which `on` is true with at least one right row (`semi`) or with none (`anti`).

    `broadcast` is as in `Join`.
    """

    kind: Literal["semi", "anti"]
    left: Node
    right: Node
    on: exp.Expr | None
    broadcast: Side | None = None


@dataclass(frozen=True)
class Aggregate:
    """One row for each group of child rows with equal `keys`, with its `aggregates`; exactly one row without keys.

    `keys` are columns of the child; nulls are equal. `aggregates` are pairs of a column name and an expression.
    """

    child: Node
    keys: tuple[str, ...]
    aggregates: tuple[tuple[str, exp.Expr], ...]


@dataclass(frozen=True)
class WindowColumns:
    """Rows of the child with further columns, each the value of a window function of SQL.

    All functions have the same PARTITION BY: `partition` are columns of the child; without any, all rows are one
    partition. `expressions` are pairs of a column name and a window expression.
    """

    child: Node
    partition: tuple[str, ...]
    expressions: tuple[tuple[str, exp.Expr], ...]


@dataclass(frozen=True)
class Explode:
    """Rows of the child, each joined with the rows that a generator such as `explode` returns for it.

    `names` are the columns that the generator adds. With `outer`, a row for which the generator returns no rows is
    kept, with nulls.
    """

    child: Node
    generator: exp.Expr
    names: tuple[str, ...]
    outer: bool


@dataclass(frozen=True)
class Distinct:
    """Rows of the child without duplicates."""

    child: Node


@dataclass(frozen=True)
class UnionAll:
    """Rows of all `inputs`; columns are matched by position and get the names `names`."""

    inputs: tuple[Node, ...]
    names: tuple[str, ...]


@dataclass(frozen=True)
class SetOperation:
    """Rows in both children (`intersect`), or only in the left one (`except`); `all` keeps duplicates, as in SQL.

    Columns are matched by position and get the names `names`.
    """

    kind: Literal["intersect", "except"]
    all: bool
    left: Node
    right: Node
    names: tuple[str, ...]


Node = (
    Scan
    | SpoolScan
    | OneRow
    | Projection
    | Filter
    | Join
    | SemiJoin
    | Aggregate
    | WindowColumns
    | Explode
    | Distinct
    | UnionAll
    | SetOperation
)


def list_columns(node: Node) -> tuple[str, ...]:
    """Names of an operator's output columns, in order."""
    cached = vars(node)
    if _COLUMNS not in cached:
        cached[_COLUMNS] = _compute_columns(node)
    names: tuple[str, ...] = cached[_COLUMNS]
    return names


_COLUMNS, _SOURCES = "_columns", "_sources"
"""Attributes of a node in which `list_columns` and `list_sources` cache their results."""


def _compute_columns(node: Node) -> tuple[str, ...]:
    match node:
        case Scan(fields=fields, image=image):
            return (*(name for name, _ in fields), *(name for name, _ in list_image_fields(fields, image)))
        case SpoolScan(names=names) | UnionAll(names=names) | SetOperation(names=names):
            return names
        case OneRow():
            return ()
        case Projection(expressions=expressions):
            return tuple(name for name, _ in expressions)
        case Filter(child=child) | Distinct(child=child):
            return list_columns(child)
        case Join(left=left, right=right):
            return (*list_columns(left), *list_columns(right))
        case SemiJoin(left=left):
            return list_columns(left)
        case Aggregate(keys=keys, aggregates=aggregates):
            return (*keys, *(name for name, _ in aggregates))
        case WindowColumns(child=child, expressions=expressions):
            return (*list_columns(child), *(name for name, _ in expressions))
        case Explode(child=child, names=names):
            return (*list_columns(child), *names)
        case _:
            assert_never(node)


def list_expressions(node: Node) -> list[exp.Expr]:
    """Lists the expressions that an operator itself evaluates over the columns of its inputs, conditions included."""
    match node:
        case Projection(expressions=named) | WindowColumns(expressions=named) | Aggregate(aggregates=named):
            return [value for _, value in named]
        case Filter(condition=condition):
            return [condition]
        case Join(on=on) | SemiJoin(on=on):
            return [] if on is None else [on]
        case Explode(generator=generator):
            return [generator]
    return []


def name_before(name: str) -> str:
    """Returns the name of the column that holds the old value of the column `name`, in rows with both values.

    Such rows come from a scan with the image `pair` (see `Image`): one row per changed key, which has the new values
    under the columns' own names, and the old values under these names.
    """
    return f"__arctic_before_{name}"


def list_image_fields(fields: tuple[tuple[str, str], ...], image: Image) -> tuple[tuple[str, str], ...]:
    """Lists the columns that a scan with this image has besides `fields`, such as the multiplicity of a delta.

    Each is a pair of the name in the tree and the name in the frame that the scan reads.
    """
    if image == "delta":
        return ((MULTIPLICITY, MULTIPLICITY),)
    flags = ((HAS_AFTER, HAS_AFTER), (HAS_BEFORE, HAS_BEFORE))
    return (*((name_before(name), name_before(field)) for name, field in fields), *flags) if image == "pair" else ()


def list_children(node: Node) -> tuple[Node, ...]:
    """Direct inputs of an operator, left before right."""
    nodes: list[Node] = []
    for name, is_many in _INPUTS[type(node)]:
        part = getattr(node, name)
        nodes.extend(part if is_many else (part,))
    return tuple(nodes)


def map_children(node: Node, function: Callable[[Node], Node]) -> Node:
    """Copies an operator with each direct input replaced by the result of `function`."""
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
"""Maps operator classes to the fields that hold their inputs, in order, each with whether it holds several inputs."""


def walk_tree(node: Node) -> Iterator[Node]:
    """Yields an operator and all operators below it, each before its inputs."""
    waiting = [node]
    while waiting:
        current = waiting.pop()
        yield current
        waiting.extend(reversed(list_children(current)))


def list_scans(node: Node) -> tuple[Scan, ...]:
    """Lists all scans of a tree, left before right; a source table that the query reads twice has two scans."""
    return tuple(scan for scan in walk_tree(node) if isinstance(scan, Scan))


def is_timed(node: Node) -> bool:
    """Whether a node is a filter whose condition depends on the time of the run."""
    return isinstance(node, Filter) and reads_clock(node.condition)


def list_sources(node: Node) -> frozenset[TableName]:
    """Source tables that the tree with the root `node` reads, and CLOCK if a condition depends on the time."""
    cached = vars(node)
    if _SOURCES not in cached:
        own = (node.source,) if isinstance(node, Scan) else (CLOCK,) if is_timed(node) else ()
        cached[_SOURCES] = frozenset(own).union(*map(list_sources, list_children(node)))
    names: frozenset[TableName] = cached[_SOURCES]
    return names
