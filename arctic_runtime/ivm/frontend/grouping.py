"""GROUP BY, aggregates and HAVING: one Aggregate, and everything above it in terms of its columns."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from sqlglot import exp

from arctic_runtime.ivm.algebra.expressions import Form, column, form, transformed, used
from arctic_runtime.ivm.algebra.refusal import NotMaintained
from arctic_runtime.ivm.algebra.tree import Aggregate, Node, Project, columns
from arctic_runtime.ivm.frontend.clauses import check_of_one_row, outside_queries
from arctic_runtime.ivm.frontend.correlation import is_by_values, over_domain, side_inside
from arctic_runtime.ivm.frontend.functions import is_aggregate
from arctic_runtime.ivm.frontend.grouping_sets import GroupingCalls, GroupingSets, expanded
from arctic_runtime.ivm.frontend.scope import Names

_WRAPPERS = (exp.Filter, exp.IgnoreNulls, exp.RespectNulls, exp.WithinGroup)

Lift = Callable[[exp.Expr, Node], tuple[exp.Expr, Node]]
"""Turns the queries inside an expression into columns of a wider node."""


@dataclass(frozen=True)
class Grouped:
    """An aggregate, expressions above it, and what is left of the conditions on the query around it."""

    node: Node
    expressions: tuple[exp.Expr, ...]
    pending: tuple[exp.Expr, ...]


def group(
    node: Node,
    keys: Sequence[exp.Expr] | GroupingSets,
    expressions: Sequence[exp.Expr],
    pending: Sequence[exp.Expr],
    names: Names,
    lift: Lift,
    grouping: GroupingCalls,
    around: Node | None = None,
) -> Grouped:
    """Groups rows by `keys`, and by what `pending` conditions compare with the query around.

    A correlated aggregate sees the rows that its condition picks; grouped by what the condition compares, they are
    one group (or, with keys of its own, as many as it would make). Where that is no equality, they are grouped by all
    that it reads of the rows `around`.
    """
    if around is not None and not all(is_by_values(condition, node, names) for condition in pending):
        node, pending = over_domain(node, pending, around, names)
    inner = [side_inside(condition, set(columns(node)), names) for condition in pending]
    sets = keys if isinstance(keys, GroupingSets) else None
    if sets and pending:
        raise NotMaintained("SUBQUERY", "ROLLUP, CUBE or GROUPING SETS in a correlated subquery")
    written = keys.keys if isinstance(keys, GroupingSets) else keys
    wanted = [*written, *(own for own in inner if own is not None)]
    for key in wanted:
        check_of_one_row(key, "GROUP BY")
    asked = calls(expressions)
    lifted, node = _lift_all([*wanted, *asked], node, lift)
    key_names, computed = _named_keys(wanted, lifted[: len(wanted)], names)
    call_names = [names.fresh(_call_name(call), names.type_of(call)) for call in asked]
    aggregates = tuple(zip(call_names, lifted[len(wanted) :], strict=True))
    child = _with_keys(node, computed, [*key_names.values()], [value for _, value in aggregates])
    grouped = tuple(dict.fromkeys(key_names.values()))
    made: list[tuple[str, exp.Expr]] = []
    if sets:
        read = [name for _, value in aggregates for name in used(value)]
        if not {name for name, _ in grouping.made.values()}.isdisjoint(read):
            raise NotMaintained("UNSUPPORTED", "grouping or grouping_id inside an aggregate")
        copies = expanded(child, sets, [key_names[form(key)] for key in written], read, names)
        child, grouped = copies.node, copies.groups
        key_names = {form(key): name for key, name in zip(written, copies.keys, strict=True)}
        made = grouping.values(sets, copies.number)
    known = key_names | {form(call): name for call, name in zip(asked, call_names, strict=True)}
    aggregate: Node = Aggregate(child, grouped, aggregates)
    if made:
        aggregate = Project(aggregate, (*((name, column(name)) for name in columns(aggregate)), *made))
    kinds = frozenset(type(of) for of in (*wanted, *asked))
    above = tuple(_above(value, known, kinds, node) for value in expressions)
    return Grouped(aggregate, above, tuple(_rewritten(condition, known, kinds) for condition in pending))


def calls(expressions: Sequence[exp.Expr]) -> list[exp.Expr]:
    """The aggregates that a group's rows are asked for, each once, without those of window functions."""
    found: dict[Form, exp.Expr] = {}
    for expression in expressions:
        _collect(expression, found)
    return list(found.values())


def _collect(node: exp.Expr, found: dict[Form, exp.Expr]) -> None:
    """Finds calls outermost first; that of a window function is none, but its arguments may hold some."""
    if isinstance(node, exp.Query | exp.Column):
        return
    if is_aggregate(node):
        _check_not_nested(node)
        found.setdefault(form(node), node)
        return
    for child in _inner(node):
        _collect(child, found)


def _inner(node: exp.Expr) -> list[exp.Expr]:
    """What a node is made of; of a window the arguments of its function, and how it is partitioned and ordered."""
    if not isinstance(node, exp.Window):
        return list(node.iter_expressions())
    call = _bare(node.this)
    wrapping = [part for part in node.this.iter_expressions() if part is not call] if call is not node.this else []
    return [*call.iter_expressions(), *wrapping, *(part for part in node.iter_expressions() if part is not node.this)]


def _bare(call: exp.Expr) -> exp.Expr:
    while isinstance(call, _WRAPPERS):
        call = call.this
    return call


def _check_not_nested(call: exp.Expr) -> None:
    bare = _bare(call)
    for node in outside_queries(call):
        is_own = node is bare or (is_aggregate(node) and _bare(node) is bare)
        if not is_own and (is_aggregate(node) or isinstance(node, exp.Window)):
            raise NotMaintained("UNSUPPORTED", "an aggregate or a window function inside an aggregate")


def _lift_all(expressions: Sequence[exp.Expr], node: Node, lift: Lift) -> tuple[list[exp.Expr], Node]:
    found = []
    for expression in expressions:
        lifted, node = lift(expression, node)
        found.append(lifted)
    return found, node


def _named_keys(
    written: Sequence[exp.Expr], lifted: Sequence[exp.Expr], names: Names
) -> tuple[dict[Form, str], list[tuple[str, exp.Expr]]]:
    """The column of each key by its form, and those columns that are yet to be computed."""
    found: dict[Form, str] = {}
    computed = []
    for key, value in zip(written, lifted, strict=True):
        if form(key) in found:
            continue
        if isinstance(value, exp.Column):
            found[form(key)] = value.name
        else:
            made = names.fresh("key", names.type_of(value))
            found[form(key)] = made
            computed.append((made, value))
    return found, computed


def _with_keys(
    node: Node, computed: Sequence[tuple[str, exp.Expr]], keys: Sequence[str], values: Sequence[exp.Expr]
) -> Node:
    if not computed:
        return node
    new = {name for name, _ in computed}
    needed = [name for name in keys if name not in new] + [name for value in values for name in used(value)]
    kept = [(name, column(name)) for name in dict.fromkeys(needed)]
    return Project(node, (*kept, *computed))


def _above(value: exp.Expr, known: Mapping[Form, str], kinds: frozenset[type[exp.Expr]], below: Node) -> exp.Expr:
    found = _rewritten(value, known, kinds)
    lost = set(columns(below)).intersection(used_outside(found)).difference(known.values())
    if lost:
        raise NotMaintained("UNRESOLVED", f"{sorted(lost)[0].rsplit('#', 1)[0]} is neither grouped nor aggregated")
    return found


def _rewritten(value: exp.Expr, known: Mapping[Form, str], kinds: frozenset[type[exp.Expr]]) -> exp.Expr:
    """The expression with keys and calls, which are of some `kinds`, replaced by the aggregate's columns.

    Literals need no replacing.
    """

    def visit(node: exp.Expr) -> exp.Expr:
        is_other = type(node) not in kinds or isinstance(node, exp.Literal) or _is_windows_own(node)
        made = None if is_other else known.get(form(node))
        if made is not None:
            return column(made)
        return node.copy() if isinstance(node, exp.Query) else node

    return transformed(value, visit)


def _is_windows_own(call: exp.Expr) -> bool:
    """Whether a call is that of a window function, perhaps with a filter or the like around it."""
    while call.arg_key == "this" and isinstance(call.parent, _WRAPPERS):
        call = call.parent
    return call.arg_key == "this" and isinstance(call.parent, exp.Window)


def used_outside(expression: exp.Expr) -> tuple[str, ...]:
    """The columns that an expression reads itself, without those of the queries in it."""
    return tuple(node.name for node in outside_queries(expression) if isinstance(node, exp.Column))


def _call_name(call: exp.Expr) -> str:
    bare = _bare(call)
    return bare.name.lower() if isinstance(bare, exp.Anonymous) else bare.key
