"""Analyses one select: WHERE, groups, HAVING, window functions, generators and the select list."""

from __future__ import annotations

from collections.abc import Sequence

from sqlglot import exp

from arctic_runtime.ivm.algebra.expressions import build_column, list_used_columns, unwrap_parens
from arctic_runtime.ivm.algebra.refusal import NotMaintained
from arctic_runtime.ivm.algebra.tree import Node, list_columns
from arctic_runtime.ivm.frontend.clauses.grouping import collect_aggregate_calls, group_rows
from arctic_runtime.ivm.frontend.clauses.grouping_sets import (
    GroupingCalls,
    GroupingSets,
    has_grouping_sets,
    read_grouping_sets,
)
from arctic_runtime.ivm.frontend.clauses.having import Item, resolve_alias, resolve_having
from arctic_runtime.ivm.frontend.clauses.limits import check_order
from arctic_runtime.ivm.frontend.clauses.sources import derive_generator, read_from
from arctic_runtime.ivm.frontend.clauses.windowing import compute_windows, inline_window_names
from arctic_runtime.ivm.frontend.functions import (
    check_clause_args,
    check_functions,
    check_of_one_row,
    is_generator,
    walk_outside_queries,
)
from arctic_runtime.ivm.frontend.scope import (
    NameLookup,
    QueryContext,
    Rows,
    SelectShape,
    find_column,
    find_matching_fields,
    look_up_locally,
    matches_qualifier,
    name_parts,
    require_one,
    resolve_names,
)
from arctic_runtime.ivm.frontend.subqueries.subqueries import filter_by_subqueries, has_query, lift_subqueries
from arctic_runtime.ivm.rewrite.predicate_pushdown import apply_filter, arrange_joins, split_conjuncts

_PARTS = frozenset(
    {
        "cluster",
        "distinct",
        "distribute",
        "expressions",
        "from_",
        "group",
        "having",
        "hint",
        "joins",
        "laterals",
        "order",
        "sort",
        "where",
        "windows",
        "with_",
    }
)


def build_shape(select: exp.Select, context: QueryContext, outer: NameLookup | None) -> SelectShape:
    """Analyses a select: builds the tree below its select list, and resolves the list's expressions over that tree.

    `context` includes the select's CTEs. `outer` resolves columns of the outer query; None if there is none.
    """
    check_clause_args(select, _PARTS)
    check_order(select, context)
    rows = read_from(select, context)
    lookup = look_up_locally(rows, outer)
    node, pending = _apply_where(select, rows, lookup, context)
    grouping = GroupingCalls(context.names, is_allowed=has_grouping_sets(select))
    items = _resolve_items(select, rows, outer, grouping)
    keys = _resolve_group_keys(select, items, rows, outer)
    having = _resolve_having_conditions(select, items, keys or (), rows, outer, grouping)
    values = [item.value for item in items]
    is_grouped = keys is not None or bool(having) or bool(collect_aggregate_calls(values))
    if is_grouped:
        node, values, pending = _build_groups(node, keys or (), values, having, pending, lookup, context, grouping)
    is_windowed = any(
        isinstance(part, exp.Window) for value in _select_computed(values) for part in walk_outside_queries(value)
    )
    if is_windowed and pending:
        raise NotMaintained("SUBQUERY", "a window function in a correlated subquery")
    node, values = _lift_select_list(node, values, lookup, context)
    _check_generators(items, is_grouped or is_windowed)
    node, named = _add_generators(node, items, values, context)
    return SelectShape(
        node,
        named,
        tuple(pending),
        "many" if keys else "one" if is_grouped else "none",
        not (having or is_windowed or select.args.get("distinct")),
        _is_distinct(select),
    )


def _select_computed(values: Sequence[exp.Expr]) -> list[exp.Expr]:
    """Returns the expressions in `values` that are not plain columns."""
    return [value for value in values if type(value) is not exp.Column]


def _is_distinct(select: exp.Select) -> bool:
    clause = select.args.get("distinct")
    if clause is not None:
        check_clause_args(clause, frozenset())
    return clause is not None


def _apply_where(
    select: exp.Select, rows: Rows, lookup: NameLookup, context: QueryContext
) -> tuple[Node, list[exp.Expr]]:
    """Applies WHERE to `rows`; returns the resulting tree, and the conjuncts that also read columns of the outer query.

    These conjuncts are not applied.
    """
    clause = select.args.get("where")
    condition = resolve_names(clause.this, lookup) if clause else None
    if condition is not None:
        check_functions_outside(condition)
        check_of_one_row(condition, "WHERE")
    conditions = split_conjuncts(condition)
    available = set(list_columns(rows.node))
    plain = [part for part in conditions if not has_query(part)]
    here = [part for part in plain if available.issuperset(list_used_columns(part))]
    node = filter_by_subqueries(
        arrange_joins(rows.node, here), [part for part in conditions if has_query(part)], lookup, context
    )
    return node, [part for part in plain if not available.issuperset(list_used_columns(part))]


def check_functions_outside(expression: exp.Expr) -> None:
    """Raises NotMaintained if an expression calls a function that is not supported, outside of its subqueries.

    Subqueries are checked when they are analysed.
    """

    def visit_node(node: exp.Expr) -> exp.Expr:
        return exp.Null() if isinstance(node, exp.Query) else node

    if type(expression) is not exp.Column:
        check_functions(expression.transform(visit_node) if has_query(expression) else expression)


def _resolve_items(select: exp.Select, rows: Rows, outer: NameLookup | None, grouping: GroupingCalls) -> list[Item]:
    items: list[Item] = []
    named = select.args.get("windows") or []
    for written in select.expressions:
        star = _expand_star(written, rows)
        if star is None:
            item = _build_item(inline_window_names(written, named), _with_aliases(rows, items, outer))
            items.append(Item(item.names, grouping.replace_calls(item.value)))
        else:
            items.extend(star)
    for item in items:
        check_functions_outside(item.value)
    return items


def _build_item(written: exp.Expr, lookup: NameLookup) -> Item:
    if isinstance(written, exp.Aliases):
        return Item(tuple(part.name for part in written.expressions), resolve_names(written.this, lookup))
    if isinstance(written, exp.Alias):
        return Item((written.alias,), unwrap_parens(resolve_names(written.this, lookup)))
    named = name_parts(unwrap_parens(written))
    return Item(named[-1:] if named else (), unwrap_parens(resolve_names(written, lookup)))


def _with_aliases(rows: Rows, before: Sequence[Item], outer: NameLookup | None) -> NameLookup:
    """Returns a lookup for an item of a select list, of which `before` are the items to its left.

    A name is resolved as a column of `rows`; failing that, as an alias of an item in `before`; and last by `outer`. The
    lookup raises NotMaintained for a name that is both an alias and a column of the outer query.
    """
    known = list(before)

    def look_up(parts: tuple[str, ...]) -> exp.Expr | None:
        resolved = find_column(rows, parts)
        if resolved is not None:
            return resolved
        to_the_left = resolve_alias(known, parts)
        around = outer(parts) if outer else None
        if to_the_left is not None and around is not None:
            raise NotMaintained("UNRESOLVED", f"{'.'.join(parts)} is ambiguous: it matches several columns")
        return around if to_the_left is None else to_the_left

    return look_up


def _expand_star(written: exp.Expr, rows: Rows) -> list[Item] | None:
    star = written.this if isinstance(written, exp.Column) else written
    if not isinstance(star, exp.Star):
        return None
    check_clause_args(star, {"except_"})
    qualifier = tuple(part.name for part in written.parts[:-1]) if isinstance(written, exp.Column) else ()
    fields = _list_star_fields(rows, qualifier) if qualifier else rows.visible
    if not fields:
        raise NotMaintained("UNRESOLVED", "* without FROM")
    dropped = [_resolve_excepted(part, fields, rows) for part in star.args.get("except_") or []]
    return [Item((name,), build_column(made)) for name, made in fields if made not in dropped]


def _list_star_fields(rows: Rows, qualifier: tuple[str, ...]) -> tuple[tuple[str, str], ...]:
    matches = [source for source in rows.sources if matches_qualifier(source.qualifier, qualifier)]
    if len(matches) != 1 or not matches[0].in_order:
        raise NotMaintained(
            "UNRESOLVED",
            f"{'.'.join(qualifier)}.* matches no table in FROM, several tables, or a table whose columns USING "
            "has merged",
        )
    return matches[0].fields


def _resolve_excepted(part: exp.Expr, fields: Sequence[tuple[str, str]], rows: Rows) -> str:
    named = name_parts(part) if isinstance(part, exp.Column | exp.Dot) else (part.name,)
    if named is None or len(named) == 1:
        return require_one(find_matching_fields(fields, part.name), part.name)
    resolved = find_column(rows, named)
    if not isinstance(resolved, exp.Column):
        raise NotMaintained(
            "UNSUPPORTED", f"* except ({'.'.join(named)}), which is a field of a column and not a column"
        )
    return resolved.name


def _resolve_group_keys(
    select: exp.Select, items: Sequence[Item], rows: Rows, outer: NameLookup | None
) -> tuple[exp.Expr, ...] | GroupingSets | None:
    """Resolves the keys of GROUP BY to expressions over `rows`; None without a GROUP BY.

    A key may be a position or an alias in the select list, `items`. `outer` resolves columns of the outer query.
    """
    clause = select.args.get("group")
    if clause is None:
        return None
    if has_grouping_sets(select):
        sets = read_grouping_sets(clause, lambda part: _resolve_group_key(part, items, rows))
        for key in sets.keys:
            check_functions_outside(key)
        return sets
    check_clause_args(clause, {"expressions", "all"})
    written = [unwrap_parens(part) for part in clause.expressions]
    if clause.args.get("all"):
        if not written and not _is_named("all", items, rows, outer):
            return _list_group_by_all_keys(items)
        written.insert(0, exp.column("all"))
    keys = tuple(_resolve_group_key(part, items, rows) for part in written)
    for key in keys:
        check_functions_outside(key)
    return keys


def _is_named(name: str, items: Sequence[Item], rows: Rows, outer: NameLookup | None) -> bool:
    """Whether a column or an alias has the name `name`; Spark then prefers it to the keyword of that name (`ALL`).

    Raises NotMaintained if the outer query has a column of this name.
    """
    if outer is not None and outer((name,)) is not None:
        raise NotMaintained("UNRESOLVED", f"{name} in GROUP BY may be a column of the outer query")
    return find_column(rows, (name,)) is not None or resolve_alias(items, (name,)) is not None


def _list_group_by_all_keys(items: Sequence[Item]) -> tuple[exp.Expr, ...]:
    keys = [item.value for item in items if not collect_aggregate_calls([item.value])]
    if any(value.find(exp.Window, exp.Query) for value in keys) or (keys and not any(map(list_used_columns, keys))):
        raise NotMaintained(
            "UNSUPPORTED", "GROUP BY ALL where the select list has window functions, subqueries or constants alone"
        )
    return tuple(keys)


def _resolve_group_key(written: exp.Expr, items: Sequence[Item], rows: Rows) -> exp.Expr:
    if isinstance(written, exp.Tuple):
        raise NotMaintained("UNSUPPORTED", "a tuple in GROUP BY")
    if isinstance(written, exp.Literal) and written.is_int:
        place = int(written.name)
        if not 1 <= place <= len(items):
            raise NotMaintained("UNRESOLVED", f"GROUP BY {place} is not a position in the select list")
        return items[place - 1].value
    if isinstance(written, exp.Column) and not written.table and find_column(rows, (written.name,)) is None:
        aliased_value = resolve_alias(items, (written.name,))
        if aliased_value is not None:
            return unwrap_parens(aliased_value)
    return resolve_names(written, lambda parts: find_column(rows, parts))


def _resolve_having_conditions(
    select: exp.Select,
    items: Sequence[Item],
    keys: Sequence[exp.Expr] | GroupingSets,
    rows: Rows,
    outer: NameLookup | None,
    grouping: GroupingCalls,
) -> list[exp.Expr]:
    clause = select.args.get("having")
    if clause is None:
        return []
    written = keys.keys if isinstance(keys, GroupingSets) else keys
    condition = grouping.replace_calls(resolve_having(clause.this, items, written, rows, outer, grouping.names))
    check_functions_outside(condition)
    return split_conjuncts(condition)


def _build_groups(
    node: Node,
    keys: Sequence[exp.Expr] | GroupingSets,
    values: Sequence[exp.Expr],
    having: Sequence[exp.Expr],
    pending: Sequence[exp.Expr],
    lookup: NameLookup,
    context: QueryContext,
    grouping: GroupingCalls,
) -> tuple[Node, list[exp.Expr], list[exp.Expr]]:
    def lift_below(expression: exp.Expr, below: Node) -> tuple[exp.Expr, Node]:
        return lift_subqueries(expression, below, lookup, context)

    made = group_rows(node, keys, [*values, *having], pending, context.names, lift_below, grouping, context.around)
    above = made.expressions[len(values) :]
    below = apply_filter(made.node, [part for part in above if not has_query(part)])
    restricted = filter_by_subqueries(below, [part for part in above if has_query(part)], lookup, context)
    return restricted, list(made.expressions[: len(values)]), list(made.pending)


def _lift_select_list(
    node: Node, values: Sequence[exp.Expr], lookup: NameLookup, context: QueryContext
) -> tuple[Node, list[exp.Expr]]:
    """Replaces subqueries and window functions in `values` by new columns of `node`; returns `node` and the values."""
    values_out = []
    for value in values:
        lifted, node = lift_subqueries(value, node, lookup, context) if has_query(value) else (value, node)
        values_out.append(lifted)
    node, replaced = compute_windows(node, values_out, context.names)
    return node, list(replaced)


def _check_generators(items: Sequence[Item], over_groups: bool) -> None:
    at_top = [item for item in items if is_generator(item.value)]
    values = _select_computed([item.value for item in items])
    inside = [part for value in values for part in walk_outside_queries(value) if is_generator(part)]
    if len(inside) > len(at_top) or len(at_top) > 1 or (at_top and over_groups):
        raise NotMaintained(
            "UNSUPPORTED",
            "a generator such as explode inside an expression, next to another generator, or over groups or windows",
        )
    if any(len(item.names) > 1 and not is_generator(item.value) for item in items):
        raise NotMaintained("UNSUPPORTED", "several column names for one expression")


def _add_generators(
    node: Node, items: Sequence[Item], values: Sequence[exp.Expr], context: QueryContext
) -> tuple[Node, tuple[tuple[str, exp.Expr], ...]]:
    outputs: list[tuple[str, exp.Expr]] = []
    for item, value in zip(items, values, strict=True):
        if is_generator(value):
            made = derive_generator(node, value, item.names, False, context.names)
            node = made.node
            outputs.extend((name, build_column(own)) for name, own in made.fields)
        else:
            outputs.append((item.names[0] if item.names else "", value))
    return node, tuple(outputs)
