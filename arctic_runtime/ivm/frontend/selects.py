"""One select: conditions, groups, windows, generators and the list of what is selected."""

from __future__ import annotations

from collections.abc import Sequence

from sqlglot import exp

from arctic_runtime.ivm.algebra.expressions import bare, column, used
from arctic_runtime.ivm.algebra.refusal import NotMaintained
from arctic_runtime.ivm.algebra.tree import Node, columns
from arctic_runtime.ivm.frontend.clauses import check_of_one_row, only_args, outside_queries
from arctic_runtime.ivm.frontend.functions import check_functions, is_generator
from arctic_runtime.ivm.frontend.grouping import calls, group
from arctic_runtime.ivm.frontend.grouping_sets import GroupingCalls, GroupingSets, grouping_sets, has_grouping_sets
from arctic_runtime.ivm.frontend.having import of_groups
from arctic_runtime.ivm.frontend.ordering import check_order
from arctic_runtime.ivm.frontend.scope import (
    Context,
    Lookup,
    Rows,
    Shape,
    find,
    local,
    matching,
    name_parts,
    one,
    reaches,
    resolve,
)
from arctic_runtime.ivm.frontend.select_list import Item, aliased
from arctic_runtime.ivm.frontend.sources import exploded, read_from
from arctic_runtime.ivm.frontend.subqueries import has_query, lift, restrict
from arctic_runtime.ivm.frontend.windowing import windowed, write_out
from arctic_runtime.ivm.rewrite.join_predicates import arrange, conjuncts, filtered

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


def shape_of(select: exp.Select, context: Context, outer: Lookup | None) -> Shape:
    """Everything below a select's list, with the list in its terms; names in `context` include its own CTEs."""
    only_args(select, _PARTS)
    check_order(select, context)
    rows = read_from(select, context)
    lookup = local(rows, outer)
    node, pending = _where(select, rows, lookup, context)
    grouping = GroupingCalls(context.names, is_allowed=has_grouping_sets(select))
    items = _items(select, rows, outer, grouping)
    keys = _keys(select, items, rows, outer)
    having = _having(select, items, keys or (), rows, outer, grouping)
    values = [item.value for item in items]
    is_grouped = keys is not None or bool(having) or bool(calls(values))
    if is_grouped:
        node, values, pending = _grouped(node, keys or (), values, having, pending, lookup, context, grouping)
    is_windowed = any(isinstance(part, exp.Window) for value in _computed(values) for part in outside_queries(value))
    if is_windowed and pending:
        raise NotMaintained("SUBQUERY", "a window function in a correlated subquery")
    node, values = _listed(node, values, lookup, context)
    _check_generators(items, is_grouped or is_windowed)
    node, named = _generated(node, items, values, context)
    return Shape(
        node,
        named,
        tuple(pending),
        "many" if keys else "one" if is_grouped else "none",
        not (having or is_windowed or select.args.get("distinct")),
        _is_distinct(select),
    )


def _computed(values: Sequence[exp.Expr]) -> list[exp.Expr]:
    """Those that are more than a column: most of a wide list are no more."""
    return [value for value in values if type(value) is not exp.Column]


def _is_distinct(select: exp.Select) -> bool:
    clause = select.args.get("distinct")
    if clause is not None:
        only_args(clause, frozenset())
    return clause is not None


def _where(select: exp.Select, rows: Rows, lookup: Lookup, context: Context) -> tuple[Node, list[exp.Expr]]:
    """The rows that WHERE leaves, and the conditions that compare them with the query around."""
    clause = select.args.get("where")
    condition = resolve(clause.this, lookup) if clause else None
    if condition is not None:
        check_functions_outside(condition)
        check_of_one_row(condition, "WHERE")
    found = conjuncts(condition)
    available = set(columns(rows.node))
    plain = [part for part in found if not has_query(part)]
    here = [part for part in plain if available.issuperset(used(part))]
    node = restrict(arrange(rows.node, here), [part for part in found if has_query(part)], lookup, context)
    return node, [part for part in plain if not available.issuperset(used(part))]


def check_functions_outside(expression: exp.Expr) -> None:
    """Checks an expression's own functions; queries in it are checked when their turn comes."""

    def visit(node: exp.Expr) -> exp.Expr:
        return exp.Null() if isinstance(node, exp.Query) else node

    if type(expression) is not exp.Column:
        check_functions(expression.transform(visit) if has_query(expression) else expression)


def _items(select: exp.Select, rows: Rows, outer: Lookup | None, grouping: GroupingCalls) -> list[Item]:
    found: list[Item] = []
    named = select.args.get("windows") or []
    for written in select.expressions:
        star = _star(written, rows)
        if star is None:
            item = _item(write_out(written, named), _with_aliases(rows, found, outer))
            found.append(Item(item.names, grouping.replaced(item.value)))
        else:
            found.extend(star)
    for item in found:
        check_functions_outside(item.value)
    return found


def _item(written: exp.Expr, lookup: Lookup) -> Item:
    if isinstance(written, exp.Aliases):
        return Item(tuple(part.name for part in written.expressions), resolve(written.this, lookup))
    if isinstance(written, exp.Alias):
        return Item((written.alias,), bare(resolve(written.this, lookup)))
    named = name_parts(bare(written))
    return Item(named[-1:] if named else (), bare(resolve(written, lookup)))


def _with_aliases(rows: Rows, before: Sequence[Item], outer: Lookup | None) -> Lookup:
    """Finds a name in FROM, else among what is selected to its left, else in the query around."""
    known = list(before)

    def lookup(parts: tuple[str, ...]) -> exp.Expr | None:
        found = find(rows, parts)
        if found is not None:
            return found
        to_the_left = aliased(known, parts)
        around = outer(parts) if outer else None
        if to_the_left is not None and around is not None:
            raise NotMaintained("UNRESOLVED", f"{'.'.join(parts)} is ambiguous: it matches several columns")
        return around if to_the_left is None else to_the_left

    return lookup


def _star(written: exp.Expr, rows: Rows) -> list[Item] | None:
    star = written.this if isinstance(written, exp.Column) else written
    if not isinstance(star, exp.Star):
        return None
    only_args(star, {"except_"})
    qualifier = tuple(part.name for part in written.parts[:-1]) if isinstance(written, exp.Column) else ()
    fields = _starred(rows, qualifier) if qualifier else rows.visible
    if not fields:
        raise NotMaintained("UNRESOLVED", "* without FROM")
    dropped = [_excepted(part, fields, rows) for part in star.args.get("except_") or []]
    return [Item((name,), column(made)) for name, made in fields if made not in dropped]


def _starred(rows: Rows, qualifier: tuple[str, ...]) -> tuple[tuple[str, str], ...]:
    found = [source for source in rows.sources if reaches(source.qualifier, qualifier)]
    if len(found) != 1 or not found[0].in_order:
        raise NotMaintained(
            "UNRESOLVED",
            f"{'.'.join(qualifier)}.* matches no table in FROM, several tables, or a table whose columns USING "
            "has merged",
        )
    return found[0].fields


def _excepted(part: exp.Expr, fields: Sequence[tuple[str, str]], rows: Rows) -> str:
    named = name_parts(part) if isinstance(part, exp.Column | exp.Dot) else (part.name,)
    if named is None or len(named) == 1:
        return one(matching(fields, part.name), part.name)
    found = find(rows, named)
    if not isinstance(found, exp.Column):
        raise NotMaintained(
            "UNSUPPORTED", f"* except ({'.'.join(named)}), which is a field of a column and not a column"
        )
    return found.name


def _keys(
    select: exp.Select, items: Sequence[Item], rows: Rows, outer: Lookup | None
) -> tuple[exp.Expr, ...] | GroupingSets | None:
    """What GROUP BY names, by place, by alias or as it is; None where there is no such clause."""
    clause = select.args.get("group")
    if clause is None:
        return None
    if has_grouping_sets(select):
        sets = grouping_sets(clause, lambda part: _key(part, items, rows))
        for key in sets.keys:
            check_functions_outside(key)
        return sets
    only_args(clause, {"expressions", "all"})
    written = [bare(part) for part in clause.expressions]
    if clause.args.get("all"):
        if not written and not _is_named("all", items, rows, outer):
            return _all_keys(items)
        written.insert(0, exp.column("all"))
    found = tuple(_key(part, items, rows) for part in written)
    for key in found:
        check_functions_outside(key)
    return found


def _is_named(name: str, items: Sequence[Item], rows: Rows, outer: Lookup | None) -> bool:
    """Whether there is a column of this name, which Spark takes before the word that is no name."""
    if outer is not None and outer((name,)) is not None:
        raise NotMaintained("UNRESOLVED", f"{name} in GROUP BY may be a column of the outer query")
    return find(rows, (name,)) is not None or aliased(items, (name,)) is not None


def _all_keys(items: Sequence[Item]) -> tuple[exp.Expr, ...]:
    found = [item.value for item in items if not calls([item.value])]
    if any(value.find(exp.Window, exp.Query) for value in found) or (found and not any(map(used, found))):
        raise NotMaintained(
            "UNSUPPORTED", "GROUP BY ALL where the select list has window functions, subqueries or constants alone"
        )
    return tuple(found)


def _key(written: exp.Expr, items: Sequence[Item], rows: Rows) -> exp.Expr:
    if isinstance(written, exp.Tuple):
        raise NotMaintained("UNSUPPORTED", "a tuple in GROUP BY")
    if isinstance(written, exp.Literal) and written.is_int:
        place = int(written.name)
        if not 1 <= place <= len(items):
            raise NotMaintained("UNRESOLVED", f"GROUP BY {place} is not a position in the select list")
        return items[place - 1].value
    if isinstance(written, exp.Column) and not written.table and find(rows, (written.name,)) is None:
        found = aliased(items, (written.name,))
        if found is not None:
            return bare(found)
    return resolve(written, lambda parts: find(rows, parts))


def _having(
    select: exp.Select,
    items: Sequence[Item],
    keys: Sequence[exp.Expr] | GroupingSets,
    rows: Rows,
    outer: Lookup | None,
    grouping: GroupingCalls,
) -> list[exp.Expr]:
    clause = select.args.get("having")
    if clause is None:
        return []
    written = keys.keys if isinstance(keys, GroupingSets) else keys
    found = grouping.replaced(of_groups(clause.this, items, written, rows, outer, grouping.names))
    check_functions_outside(found)
    return conjuncts(found)


def _grouped(
    node: Node,
    keys: Sequence[exp.Expr] | GroupingSets,
    values: Sequence[exp.Expr],
    having: Sequence[exp.Expr],
    pending: Sequence[exp.Expr],
    lookup: Lookup,
    context: Context,
    grouping: GroupingCalls,
) -> tuple[Node, list[exp.Expr], list[exp.Expr]]:
    def lifted(expression: exp.Expr, below: Node) -> tuple[exp.Expr, Node]:
        return lift(expression, below, lookup, context)

    made = group(node, keys, [*values, *having], pending, context.names, lifted, grouping, context.around)
    above = made.expressions[len(values) :]
    below = filtered(made.node, [part for part in above if not has_query(part)])
    found = restrict(below, [part for part in above if has_query(part)], lookup, context)
    return found, list(made.expressions[: len(values)]), list(made.pending)


def _listed(node: Node, values: Sequence[exp.Expr], lookup: Lookup, context: Context) -> tuple[Node, list[exp.Expr]]:
    """The list with its queries and its window functions as columns of the node."""
    found = []
    for value in values:
        lifted, node = lift(value, node, lookup, context) if has_query(value) else (value, node)
        found.append(lifted)
    node, replaced = windowed(node, found, context.names)
    return node, list(replaced)


def _check_generators(items: Sequence[Item], over_groups: bool) -> None:
    at_top = [item for item in items if is_generator(item.value)]
    values = _computed([item.value for item in items])
    inside = [part for value in values for part in outside_queries(value) if is_generator(part)]
    if len(inside) > len(at_top) or len(at_top) > 1 or (at_top and over_groups):
        raise NotMaintained(
            "UNSUPPORTED",
            "a generator such as explode inside an expression, next to another generator, or over groups or windows",
        )
    if any(len(item.names) > 1 and not is_generator(item.value) for item in items):
        raise NotMaintained("UNSUPPORTED", "several column names for one expression")


def _generated(
    node: Node, items: Sequence[Item], values: Sequence[exp.Expr], context: Context
) -> tuple[Node, tuple[tuple[str, exp.Expr], ...]]:
    found: list[tuple[str, exp.Expr]] = []
    for item, value in zip(items, values, strict=True):
        if is_generator(value):
            made = exploded(node, value, item.names, False, context.names)
            node = made.node
            found.extend((name, column(own)) for name, own in made.fields)
        else:
            found.append((item.names[0] if item.names else "", value))
    return node, tuple(found)
