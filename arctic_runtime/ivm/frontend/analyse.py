"""Analyses the text of a query into a tree of operators.

Names are resolved by Spark's rules. A view or CTE is expanded at each place that reads it, so that the tree contains it
twice if two places do. ORDER BY is dropped. NotMaintained is raised for syntax that is not known, and if a property
that a rule of maintenance requires is not proven; nothing is guessed.

Each column keeps its name from the operator that computes it up to the root: `amount#7` is the same column everywhere.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from sqlglot import exp

from arctic_runtime.ivm.algebra.expressions import build_column, list_used_columns
from arctic_runtime.ivm.algebra.refusal import NotMaintained
from arctic_runtime.ivm.algebra.tree import (
    Distinct,
    Node,
    Projection,
    SetOperation,
    UnionAll,
    list_children,
    list_columns,
    list_expressions,
    walk_tree,
)
from arctic_runtime.ivm.frontend.clauses.limits import derive_limited, has_limit
from arctic_runtime.ivm.frontend.clauses.selects import build_shape
from arctic_runtime.ivm.frontend.functions import check_clause_args, parse_query
from arctic_runtime.ivm.frontend.scope import (
    Cte,
    Derived,
    NameLookup,
    Names,
    QueryContext,
    Relation,
    SelectShape,
    ViewText,
    project_shape,
)
from arctic_runtime.ivm.frontend.type_coercion import check_collations, find_common_type, is_same, mark_unlike
from arctic_runtime.ivm.rewrite.column_pruning import prune_columns, select_exactly

__all__ = ["Analysed", "Relation", "ViewText", "analyse_query"]

_SET_PARTS = frozenset({"this", "expression", "distinct", "order", "with_", "sort", "distribute", "cluster"})


@dataclass(frozen=True)
class Analysed:
    """A query as a tree of operators.

    `outputs` has a pair for each output column, in order: its name, or "" if Spark derives the name from the
    expression's text, and the name of the column in the tree. Two output columns may be one column of the tree. `types`
    maps columns of the tree to their types, as far as these are certain.
    """

    tree: Node
    outputs: tuple[tuple[str, str], ...]
    types: Mapping[str, str] = field(default_factory=dict)


def analyse_query(
    sql: str,
    relations: Mapping[str, Relation],
    views: Mapping[str, str | ViewText],
    catalog: str,
    schema: str,
    declared: frozenset[str] = frozenset(),
) -> Analysed:
    """Analyses the text of a Spark query into a tree of operators; raises NotMaintained if no rule covers the query.

    `relations` are the tables and `views` the views that the query may read, by full name. Views are replaced by their
    queries. `catalog` and `schema` complete shorter names in `sql`; a `ViewText` has its own for its query.
    `declared` are functions, in lower case, that users define and declare as deterministic.
    """
    context = QueryContext(
        relations={name.lower(): (name, relation) for name, relation in relations.items()},
        views={name.lower(): (name, _to_view_text(view)) for name, view in views.items()},
        names=Names(),
        catalog=catalog,
        schema=schema,
        derive=_derive_query,
        shape=_build_select_shape,
        declared=declared,
    )
    try:
        return _build_analysis(sql, context)
    except RecursionError as error:
        raise NotMaintained("UNSUPPORTED", "the query is nested too deeply") from error


def _build_analysis(sql: str, context: QueryContext) -> Analysed:
    derived = _derive_query(parse_query(sql, context.declared), context, None)
    wanted = tuple(dict.fromkeys(made for _, made in derived.fields))
    tree = select_exactly(prune_columns(derived.node, set(wanted)), wanted)
    _check_columns_available(tree)
    check_collations(tree, context.names.types)
    return Analysed(mark_unlike(tree, context.names), derived.fields, dict(context.names.types))


def _to_view_text(view: str | ViewText) -> ViewText:
    return ViewText(view) if isinstance(view, str) else view


def _derive_query(query: exp.Query, context: QueryContext, outer: NameLookup | None) -> Derived:
    """Builds the tree of any query: a select, a set operation, or one of these in parentheses.

    `outer` resolves columns of the outer query if `query` is a subquery of an expression; otherwise it is None.
    """
    if has_limit(query):
        return derive_limited(query, lambda part: _derive_query(part, context, outer), context.names)
    if isinstance(query, exp.Select):
        return project_shape(_build_select_shape(query, context, outer), context.names)
    within = _with_named(query, context)
    if isinstance(query, exp.SetOperation):
        return _set_operation(query, within)
    if isinstance(query, exp.Subquery) and isinstance(query.this, exp.Query):
        check_clause_args(query, {"this", "order", "with_"})
        return _derive_query(query.this, within, outer)
    raise NotMaintained("UNSUPPORTED", f"{query.key.upper()} in place of a query")


def _build_select_shape(select: exp.Select, context: QueryContext, outer: NameLookup | None) -> SelectShape:
    return build_shape(select, _with_named(select, context), outer)


def _with_named(query: exp.Query, context: QueryContext) -> QueryContext:
    """Returns `context` with the CTEs of a query added.

    Each CTE may read those before it, and hides outer CTEs of the same name.
    """
    clause = query.args.get("with_")
    if clause is None:
        return context
    check_clause_args(clause, {"expressions"})
    for cte in clause.expressions:
        check_clause_args(cte, {"this", "alias"})
        named = Cte(cte.this, tuple(part.name for part in cte.args["alias"].columns), context)
        context = replace(context, ctes={**context.ctes, cte.alias.lower(): named})
    return context


def _set_operation(query: exp.SetOperation, context: QueryContext) -> Derived:
    check_clause_args(query, _SET_PARTS)
    left, right = (_derive_query(part, context, None) for part in (query.this, query.expression))
    if len(left.fields) != len(right.fields):
        raise NotMaintained("UNRESOLVED", f"{query.key.upper()} of {len(left.fields)} and {len(right.fields)} columns")
    left, right = _coerce_sides(query.key.upper(), left, right, context.names)
    names = tuple(_merge_names(*pair, context.names) for pair in zip(left.fields, right.fields, strict=True))
    inputs = tuple(_project_by_position(part, context.names) for part in (left, right))
    fields = tuple((field[0], made) for field, made in zip(left.fields, names, strict=True))
    return Derived(_combine_inputs(query, inputs, names), fields)


def _coerce_sides(what: str, left: Derived, right: Derived, names: Names) -> tuple[Derived, Derived]:
    """Adds to both sides of a set operation the casts that Spark adds implicitly if the types of a column differ.

    A rule of maintenance may read only one side, and the types of the result must not depend on that. Raises
    NotMaintained if the common type is not certain; `what` names the operation in the message.
    """
    wanted: list[str | None] = []
    for (name, one), (_, other) in zip(left.fields, right.fields, strict=True):
        types = names.types.get(one), names.types.get(other)
        if types[0] is None or types[1] is None or is_same(types[0], types[1]):
            wanted.append(None)
            continue
        wanted.append(find_common_type(types[0], types[1]))
        if wanted[-1] is None:
            of_types = f"a {types[0]} and a {types[1]} in column {name}"
            raise NotMaintained("UNSUPPORTED", f"{what} of {of_types}; cast one of them")
    return _cast_columns(left, wanted, names), _cast_columns(right, wanted, names)


def _cast_columns(derived: Derived, wanted: Sequence[str | None], names: Names) -> Derived:
    casts: list[tuple[str, str, exp.Expr]] = []
    for (name, made), of_type in zip(derived.fields, wanted, strict=True):
        if of_type is None or is_same(names.types[made], of_type):
            casts.append((name, made, build_column(made)))
        else:
            casts.append(
                (name, names.make_fresh(name, of_type), exp.cast(build_column(made), of_type, dialect="spark"))
            )
    if all(made == value.name for _, made, value in casts):
        return derived
    expressions = {made: value for _, made, value in casts}
    return Derived(Projection(derived.node, tuple(expressions.items())), tuple((name, made) for name, made, _ in casts))


def _merge_names(left: tuple[str, str], right: tuple[str, str], names: Names) -> str:
    of_type = names.types.get(left[1])
    return names.make_fresh(left[0] or "expression", of_type if names.types.get(right[1]) else None)


def _combine_inputs(query: exp.SetOperation, inputs: tuple[Node, ...], names: tuple[str, ...]) -> Node:
    is_distinct = bool(query.args.get("distinct"))
    if isinstance(query, exp.Union):
        together = UnionAll(_flatten_unions(inputs), names)
        return Distinct(together) if is_distinct else together
    kind = {exp.Intersect: "intersect", exp.Except: "except"}.get(type(query))
    if kind is None:
        raise NotMaintained("UNSUPPORTED", query.key)
    return SetOperation("intersect" if kind == "intersect" else "except", not is_distinct, inputs[0], inputs[1], names)


def _flatten_unions(inputs: tuple[Node, ...]) -> tuple[Node, ...]:
    """Replaces each input that is a UnionAll by that one's inputs, so that a chain of unions becomes one operator."""
    return tuple(part for node in inputs for part in (node.inputs if isinstance(node, UnionAll) else (node,)))


def _project_by_position(derived: Derived, names: Names) -> Node:
    """Projects a query to one column per output field, in order.

    If several fields are the same column of the tree, the column is copied under a fresh name for each further field.
    """
    wanted = [made for _, made in derived.fields]
    if len(set(wanted)) == len(wanted):
        return select_exactly(derived.node, wanted)
    seen: set[str] = set()
    columns_out = []
    for name, made in derived.fields:
        columns_out.append(
            (
                names.make_fresh(name or "expression", names.types.get(made)) if made in seen else made,
                build_column(made),
            )
        )
        seen.add(made)
    return Projection(derived.node, tuple(columns_out))


def _check_columns_available(tree: Node) -> None:
    """Raises NotMaintained if an operator's expression reads a column that none of its inputs has.

    This happens if a subquery refers to a query more than one level above.
    """
    for node in walk_tree(tree):
        available = {name for child in list_children(node) for name in list_columns(child)}
        if any(not available.issuperset(list_used_columns(value)) for value in list_expressions(node)):
            raise NotMaintained("SUBQUERY", "a subquery that refers to columns of a query more than one level above")
