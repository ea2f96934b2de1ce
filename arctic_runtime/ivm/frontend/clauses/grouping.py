"""Turns GROUP BY and aggregate calls into one Aggregate operator, whose columns all later expressions read."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from sqlglot import exp

from arctic_runtime.ivm.algebra.expressions import Form, build_column, get_form, list_used_columns, transform_expression
from arctic_runtime.ivm.algebra.refusal import NotMaintained
from arctic_runtime.ivm.algebra.tree import Aggregate, Node, Projection, list_columns
from arctic_runtime.ivm.frontend.clauses.grouping_sets import GroupingCalls, GroupingSets, expand_rows
from arctic_runtime.ivm.frontend.functions import check_of_one_row, is_aggregate, walk_outside_queries
from arctic_runtime.ivm.frontend.scope import Names
from arctic_runtime.ivm.frontend.subqueries.correlation import find_inner_side, is_by_values, join_domain

_WRAPPERS = (exp.Filter, exp.IgnoreNulls, exp.RespectNulls, exp.WithinGroup)

Lift = Callable[[exp.Expr, Node], tuple[exp.Expr, Node]]
"""Replaces the subqueries in an expression over a node by columns that it adds to the node; returns both."""


@dataclass(frozen=True)
class Grouped:
    """Result of `group_rows`: `node` computes the groups, and `expressions` read its columns.

    `pending` are the conditions of a correlated subquery that also read columns of the outer query, rewritten to read
    the groups; the analysis of the outer query applies them.
    """

    node: Node
    expressions: tuple[exp.Expr, ...]
    pending: tuple[exp.Expr, ...]


def group_rows(
    node: Node,
    keys: Sequence[exp.Expr] | GroupingSets,
    expressions: Sequence[exp.Expr],
    pending: Sequence[exp.Expr],
    names: Names,
    lift: Lift,
    grouping: GroupingCalls,
    around: Node | None = None,
) -> Grouped:
    """Groups the rows of `node` by `keys`, and rewrites `expressions` to read the columns of the aggregate.

    `lift` replaces subqueries by columns. `grouping` replaces the calls of `grouping` and `grouping_id` by columns.

    If the rows are those of a correlated subquery, `pending` are its conditions that also read columns of the outer
    query, such as `orders.customer = customers.id`. The rows are then also grouped by the subquery's side of each
    condition (`orders.customer`), so that outer rows can be joined with their groups. If a condition is no equality,
    the rows are first joined with the outer columns that the conditions read, and also grouped by these; `around` is
    the tree of the outer query.
    """
    if around is not None and not all(is_by_values(condition, node, names) for condition in pending):
        node, pending = join_domain(node, pending, around, names)
    inner = [find_inner_side(condition, set(list_columns(node)), names) for condition in pending]
    sets = keys if isinstance(keys, GroupingSets) else None
    if sets and pending:
        raise NotMaintained("SUBQUERY", "ROLLUP, CUBE or GROUPING SETS in a correlated subquery")
    written = keys.keys if isinstance(keys, GroupingSets) else keys
    wanted = [*written, *(own for own in inner if own is not None)]
    for key in wanted:
        check_of_one_row(key, "GROUP BY")
    asked = collect_aggregate_calls(expressions)
    lifted, node = _lift_all([*wanted, *asked], node, lift)
    key_names, computed = _name_keys(wanted, lifted[: len(wanted)], names)
    call_names = [names.make_fresh(_call_name(call), names.type_of(call)) for call in asked]
    aggregates = tuple(zip(call_names, lifted[len(wanted) :], strict=True))
    child = _add_key_columns(node, computed, [*key_names.values()], [value for _, value in aggregates])
    grouped = tuple(dict.fromkeys(key_names.values()))
    made: list[tuple[str, exp.Expr]] = []
    if sets:
        read = [name for _, value in aggregates for name in list_used_columns(value)]
        if not {name for name, _ in grouping.made.values()}.isdisjoint(read):
            raise NotMaintained("UNSUPPORTED", "grouping or grouping_id inside an aggregate")
        copies = expand_rows(child, sets, [key_names[get_form(key)] for key in written], read, names)
        child, grouped = copies.node, copies.groups
        key_names = {get_form(key): name for key, name in zip(written, copies.keys, strict=True)}
        made = grouping.list_values(sets, copies.number)
    known = key_names | {get_form(call): name for call, name in zip(asked, call_names, strict=True)}
    aggregate: Node = Aggregate(child, grouped, aggregates)
    if made:
        aggregate = Projection(aggregate, (*((name, build_column(name)) for name in list_columns(aggregate)), *made))
    kinds = frozenset(type(part) for part in (*wanted, *asked))
    above = tuple(_lift_above_groups(value, known, kinds, node) for value in expressions)
    return Grouped(aggregate, above, tuple(_replace_calls(condition, known, kinds) for condition in pending))


def collect_aggregate_calls(expressions: Sequence[exp.Expr]) -> list[exp.Expr]:
    """Collects the aggregate calls in `expressions`, each once, except calls with an OVER clause."""
    calls_by_form: dict[Form, exp.Expr] = {}
    for expression in expressions:
        _collect_calls(expression, calls_by_form)
    return list(calls_by_form.values())


def _collect_calls(node: exp.Expr, calls_by_form: dict[Form, exp.Expr]) -> None:
    """Adds the outermost aggregate calls in `node`, except calls with an OVER clause, to `calls_by_form`."""
    if isinstance(node, exp.Query | exp.Column):
        return
    if is_aggregate(node):
        _check_not_nested(node)
        calls_by_form.setdefault(get_form(node), node)
        return
    for child in _list_child_expressions(node):
        _collect_calls(child, calls_by_form)


def _list_child_expressions(node: exp.Expr) -> list[exp.Expr]:
    """Lists the children of a node; those of a window function are its arguments, its partition and its order."""
    if not isinstance(node, exp.Window):
        return list(node.iter_expressions())
    call = _unwrap_call(node.this)
    wrapping = [part for part in node.this.iter_expressions() if part is not call] if call is not node.this else []
    return [*call.iter_expressions(), *wrapping, *(part for part in node.iter_expressions() if part is not node.this)]


def _unwrap_call(call: exp.Expr) -> exp.Expr:
    while isinstance(call, _WRAPPERS):
        call = call.this
    return call


def _check_not_nested(call: exp.Expr) -> None:
    bare = _unwrap_call(call)
    for node in walk_outside_queries(call):
        is_own = node is bare or (is_aggregate(node) and _unwrap_call(node) is bare)
        if not is_own and (is_aggregate(node) or isinstance(node, exp.Window)):
            raise NotMaintained("UNSUPPORTED", "an aggregate or a window function inside an aggregate")


def _lift_all(expressions: Sequence[exp.Expr], node: Node, lift: Lift) -> tuple[list[exp.Expr], Node]:
    lifted_values = []
    for expression in expressions:
        lifted, node = lift(expression, node)
        lifted_values.append(lifted)
    return lifted_values, node


def _name_keys(
    written: Sequence[exp.Expr], lifted: Sequence[exp.Expr], names: Names
) -> tuple[dict[Form, str], list[tuple[str, exp.Expr]]]:
    """Maps the form (see `get_form`) of each key in `written` to the name of the column that holds the key.

    `lifted` are the same keys with subqueries replaced by columns. The second result has the new columns, as pairs of
    name and expression, for keys that are no plain columns.
    """
    names_by_form: dict[Form, str] = {}
    computed = []
    for key, value in zip(written, lifted, strict=True):
        if get_form(key) in names_by_form:
            continue
        if isinstance(value, exp.Column):
            names_by_form[get_form(key)] = value.name
        else:
            made = names.make_fresh("key", names.type_of(value))
            names_by_form[get_form(key)] = made
            computed.append((made, value))
    return names_by_form, computed


def _add_key_columns(
    node: Node, computed: Sequence[tuple[str, exp.Expr]], keys: Sequence[str], values: Sequence[exp.Expr]
) -> Node:
    if not computed:
        return node
    new = {name for name, _ in computed}
    needed = [name for name in keys if name not in new] + [
        name for value in values for name in list_used_columns(value)
    ]
    needed_columns = [(name, build_column(name)) for name in dict.fromkeys(needed)]
    return Projection(node, (*needed_columns, *computed))


def _lift_above_groups(
    value: exp.Expr, known: Mapping[Form, str], kinds: frozenset[type[exp.Expr]], below: Node
) -> exp.Expr:
    rewritten = _replace_calls(value, known, kinds)
    lost = set(list_columns(below)).intersection(list_columns_outside_queries(rewritten)).difference(known.values())
    if lost:
        raise NotMaintained("UNRESOLVED", f"{sorted(lost)[0].rsplit('#', 1)[0]} is neither grouped nor aggregated")
    return rewritten


def _replace_calls(value: exp.Expr, known: Mapping[Form, str], kinds: frozenset[type[exp.Expr]]) -> exp.Expr:
    """Replaces keys and aggregate calls in an expression by the columns to which `known` maps their forms.

    `kinds` are the sqlglot classes of all keys and calls; it saves the lookup of nodes of other classes. Literals are
    not replaced.
    """

    def visit_node(node: exp.Expr) -> exp.Expr:
        is_other = type(node) not in kinds or isinstance(node, exp.Literal) or _is_windows_own(node)
        made = None if is_other else known.get(get_form(node))
        if made is not None:
            return build_column(made)
        return node.copy() if isinstance(node, exp.Query) else node

    return transform_expression(value, visit_node)


def _is_windows_own(call: exp.Expr) -> bool:
    """Whether a call has an OVER clause, perhaps after a clause such as FILTER or IGNORE NULLS."""
    while call.arg_key == "this" and isinstance(call.parent, _WRAPPERS):
        call = call.parent
    return call.arg_key == "this" and isinstance(call.parent, exp.Window)


def list_columns_outside_queries(expression: exp.Expr) -> tuple[str, ...]:
    """Names of the columns that an expression reads outside of its subqueries."""
    return tuple(node.name for node in walk_outside_queries(expression) if isinstance(node, exp.Column))


def _call_name(call: exp.Expr) -> str:
    bare = _unwrap_call(call)
    return bare.name.lower() if isinstance(bare, exp.Anonymous) else bare.key
