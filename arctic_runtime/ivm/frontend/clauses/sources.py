"""Analyses the FROM clause: tables, views, CTEs, joins and lateral views."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from sqlglot import exp

from arctic_runtime.errors import ConfigError
from arctic_runtime.ivm.algebra.conditions import build_conjunction
from arctic_runtime.ivm.algebra.expressions import build_column
from arctic_runtime.ivm.algebra.refusal import NotMaintained
from arctic_runtime.ivm.algebra.tree import (
    Explode,
    Join,
    Node,
    OneRow,
    Projection,
    Scan,
    SemiJoin,
    UnionAll,
    list_columns,
)
from arctic_runtime.ivm.frontend.clauses.pivots import apply_pivots
from arctic_runtime.ivm.frontend.fresh_attributes import with_fresh_attributes
from arctic_runtime.ivm.frontend.functions import (
    check_clause_args,
    check_functions,
    check_of_one_row,
    is_generator,
    parse_query,
)
from arctic_runtime.ivm.frontend.scope import (
    Cte,
    Derived,
    Field,
    NameLookup,
    Names,
    QueryContext,
    Relation,
    Rows,
    Source,
    ViewText,
    find_column,
    find_matching_fields,
    look_up_locally,
    require_one,
    resolve_names,
)
from arctic_runtime.model.names import TableName

_JOIN_ARGS = frozenset({"this", "side", "kind", "method", "on", "using"})
_KINDS = {"": "inner", "INNER": "inner", "CROSS": "inner", "OUTER": "inner", "SEMI": "semi", "ANTI": "anti"}


def read_from(select: exp.Select, context: QueryContext) -> Rows:
    """Builds the rows that a select reads: its FROM with joins and lateral views, or one empty row without FROM."""
    clause = select.args.get("from_")
    start = Rows(OneRow(), (), ()) if clause is None else _derive_from_item(clause.this, context)
    rows = _derive_joins(start, select.args.get("joins") or [], context)
    for lateral in select.args.get("laterals") or []:
        rows = _derive_lateral(rows, lateral, context.names)
    return rows


def derive_generator(node: Node, generator: exp.Expr, names: Sequence[str], outer: bool, context: Names) -> Derived:
    """Applies a generator, such as `explode`, to each row of `node`; `fields` of the result are the generated columns.

    `outer` keeps rows for which the generator returns no rows. Without `names` the generated columns have Spark's
    default names; NotMaintained is raised if these are not known.
    """
    own = tuple(names) or _get_default_names(generator, context)
    made = tuple(context.make_fresh(name) for name in own)
    call, keeps = _strip_outer(generator)
    return Derived(Explode(node, call, made, outer or keeps), tuple(zip(own, made, strict=True)))


def _derive_from_item(item: exp.Expr, context: QueryContext) -> Rows:
    if isinstance(item, exp.Table):
        check_clause_args(item, {"this", "db", "catalog", "alias", "joins", "pivots"})
        rows = apply_pivots(_derive_table(item, context), item.args.get("pivots") or [], context.names)
        return _derive_joins(rows, item.args.get("joins") or [], context)
    if isinstance(item, exp.Subquery):
        check_clause_args(item, {"this", "alias", "order", "joins", "pivots"})
        rows = apply_pivots(_derive_subquery(item, context), item.args.get("pivots") or [], context.names)
        return _derive_joins(rows, item.args.get("joins") or [], context)
    if isinstance(item, exp.Values):
        check_clause_args(item, {"expressions", "alias"})
        return _apply_alias(_derive_values(item, context.names), item, ())
    raise NotMaintained("UNSUPPORTED", f"{item.key.upper()} in FROM")


def _derive_values(item: exp.Values, names: Names) -> Derived:
    """Builds the rows of a VALUES clause."""
    rows = [list(row.expressions) if isinstance(row, exp.Tuple) else [row] for row in item.expressions]
    if len({len(row) for row in rows}) != 1:
        raise NotMaintained("UNRESOLVED", "VALUES with rows of different lengths")
    parts = [_build_values_row(row, names) for row in rows]
    made = tuple(list_columns(parts[0]))
    if len(parts) > 1:
        of_types = [{names.types.get(list_columns(part)[place]) for part in parts} for place in range(len(made))]
        made = tuple(
            names.make_fresh("value", value_types.pop() if len(value_types) == 1 else None) for value_types in of_types
        )
    fields = tuple((f"col{place}", name) for place, name in enumerate(made, start=1))
    return Derived(UnionAll(tuple(parts), made) if len(parts) > 1 else parts[0], fields)


def _build_values_row(values: Sequence[exp.Expr], names: Names) -> Node:
    for value in values:
        if value.find(exp.Query, exp.Alias):
            raise NotMaintained("UNSUPPORTED", "VALUES with a subquery or a name inside")
        check_functions(value)
        check_of_one_row(value, "VALUES")
    resolved = [resolve_names(value, lambda _: None) for value in values]
    return Projection(OneRow(), tuple((names.make_fresh("value", names.type_of(value)), value) for value in resolved))


def _derive_subquery(item: exp.Subquery, context: QueryContext) -> Rows:
    inner = item.this
    if isinstance(inner, exp.Query) and not (isinstance(inner, exp.Subquery) and _is_joins(inner)):
        return _apply_alias(context.derive(inner, context, None), item, ())
    rows = _derive_from_item(inner, context)
    return _apply_alias(Derived(rows.node, rows.visible), item, ()) if item.alias else rows


def _is_joins(item: exp.Subquery) -> bool:
    """Whether parentheses in FROM contain tables and joins, as in `(a join b)`, and not a query."""
    return not isinstance(item.unnest(), exp.Query)


def _derive_table(item: exp.Table, context: QueryContext) -> Rows:
    if not isinstance(item.this, exp.Identifier):
        raise NotMaintained("UNSUPPORTED", "a table function in FROM")
    cte = None if item.db else context.ctes.get(item.name.lower())
    if cte is not None:
        return _apply_alias(_derive_cte(cte), item, (item.name,))
    parts = (item.catalog or context.catalog, item.db or context.schema, item.name)
    return _apply_alias(_derive_stored_table(parts, context), item, parts)


def _derive_cte(cte: Cte) -> Derived:
    if cte.derived:
        return with_fresh_attributes(cte.derived[0], cte.context.names)
    cte.derived.append(_rename_fields(cte.context.derive(cte.query, cte.context, None), cte.columns))
    return cte.derived[0]


def _derive_stored_table(parts: tuple[str, str, str], context: QueryContext) -> Derived:
    name = ".".join(parts)
    view = context.views.get(name.lower())
    if view is not None:
        return _derive_view(*view, context)
    known = context.relations.get(name.lower())
    if known is None:
        raise NotMaintained("UNRESOLVED", f"{name} is not a known table or view")
    return _build_scan(_get_stored_spelling(parts, known[0]), known[1], context.names)


def _derive_view(name: str, view: ViewText, context: QueryContext) -> Derived:
    if name in context.inside:
        raise NotMaintained("UNSUPPORTED", f"{name} reads itself")
    catalog, schema = ([*name.split("."), "", ""])[:2]
    within = replace(
        context,
        catalog=view.catalog or catalog,
        schema=view.schema or schema,
        ctes={},
        inside=context.inside | {name},
    )
    return _rename_fields(context.derive(parse_query(view.sql, context.declared), within, None), view.columns)


def _get_stored_spelling(parts: tuple[str, str, str], name: str) -> TableName:
    """Splits `name`, the full name of a table in the catalog's spelling, into catalog, schema and table.

    `parts` are the three levels in the query's spelling, which may differ in case only; `name` is split by their
    lengths, because a level may contain dots.
    """
    first, second = len(parts[0]), len(parts[0]) + 1 + len(parts[1])
    try:
        return TableName(name[:first], name[first + 1 : second], name[second + 1 :])
    except ConfigError as error:
        raise NotMaintained("UNRESOLVED", f"{name} is not a valid table name") from error


def _build_scan(source: TableName, relation: Relation, names: Names) -> Derived:
    own = tuple(stored_column.name for stored_column in relation.columns)
    if not own:
        raise NotMaintained("UNSUPPORTED", f"{source} has no columns")
    fields = tuple(
        (stored_column.name, names.make_fresh(stored_column.name, stored_column.type.lower()))
        for stored_column in relation.columns
    )
    key = None
    if relation.key is not None:
        key = tuple(require_one(find_matching_fields(fields, part), f"{source}, key {part}") for part in relation.key)
    names.never_null.update(key or ())
    names.never_null.update(
        require_one(find_matching_fields(fields, part), f"{source}, column {part}") for part in relation.not_null
    )
    return Derived(Scan(source, tuple((made, name) for name, made in fields), key), fields)


def _apply_alias(derived: Derived, item: exp.Expr, qualifier: tuple[str, ...]) -> Rows:
    alias = item.args.get("alias")
    renamed = _rename_fields(derived, tuple(part.name for part in alias.columns) if alias else ())
    reached = (alias.name,) if alias and alias.name else qualifier
    return Rows(renamed.node, renamed.fields, (Source(reached, renamed.fields),))


def _rename_fields(derived: Derived, names: Sequence[str]) -> Derived:
    if not names:
        return derived
    if len(names) != len(derived.fields):
        raise NotMaintained("UNRESOLVED", f"{len(names)} column aliases for {len(derived.fields)} columns")
    fields = tuple((name, made) for name, (_, made) in zip(names, derived.fields, strict=True))
    return replace(derived, fields=fields)


def _derive_joins(rows: Rows, joins: Sequence[exp.Join], context: QueryContext) -> Rows:
    _check_commas(joins)
    for join in joins:
        rows = _derive_join(rows, join, context)
    return rows


def _check_commas(joins: Sequence[exp.Join]) -> None:
    """Raises NotMaintained for a RIGHT, FULL or NATURAL join after a comma or a cross join.

    Sqlglot parses a comma in FROM as a cross join, although JOIN binds tighter than a comma. Only for these joins does
    the result depend on it.
    """
    crossed = False
    for join in joins:
        if crossed and (join.side in ("RIGHT", "FULL") or join.method):
            raise NotMaintained("UNSUPPORTED", "RIGHT, FULL or NATURAL JOIN after a comma or a CROSS JOIN")
        crossed = crossed or join.kind == "CROSS" or not (join.side or join.args.get("on") or join.args.get("using"))


def _derive_join(left: Rows, join: exp.Join, context: QueryContext) -> Rows:
    check_clause_args(join, _JOIN_ARGS)
    kind = _KINDS.get(join.kind)
    if kind is None or join.method not in ("", "NATURAL") or (kind != "inner" and join.side not in ("", "LEFT")):
        raise NotMaintained("UNSUPPORTED", " ".join(f"{join.method} {join.side} {join.kind} JOIN".split()))
    right = _derive_from_item(join.this, context)
    together = Rows(left.node, left.visible + right.visible, left.sources + right.sources)
    using = _pair_using_columns(left, right, join)
    on = (
        build_conjunction(
            [exp.EQ(this=build_column(left[1]), expression=build_column(right[1])) for left, right in using]
        )
        if using
        else _resolve_on(join, look_up_locally(together, None))
    )
    if kind in ("semi", "anti"):
        return replace(left, node=SemiJoin("semi" if kind == "semi" else "anti", left.node, right.node, on))
    node = _build_join(join.side, left.node, right.node, on)
    return (
        _merge_using_columns(node, left, right, using, join.side, context.names)
        if using
        else replace(together, node=node)
    )


def _build_join(side: str, left: Node, right: Node, on: exp.Expr | None) -> Join:
    if side == "RIGHT":
        return Join("left", right, left, on)
    return Join("left" if side == "LEFT" else "full" if side == "FULL" else "inner", left, right, on)


def _resolve_on(join: exp.Join, lookup: NameLookup) -> exp.Expr | None:
    written = join.args.get("on")
    if written is None:
        return None
    if written.find(exp.Query):
        raise NotMaintained("SUBQUERY", "a subquery in the ON clause of a join")
    condition = resolve_names(written, lookup)
    check_functions(condition)
    check_of_one_row(condition, "ON")
    return None if isinstance(condition, exp.Boolean) and condition.this else condition


def _pair_using_columns(left: Rows, right: Rows, join: exp.Join) -> tuple[tuple[Field, Field], ...]:
    """Pairs each column of the left side that USING or NATURAL merges with its column of the right side."""
    names = [name.name for name in join.args.get("using") or []]
    if join.method == "NATURAL":
        names = [name for name, _ in left.visible if find_matching_fields(right.visible, name)]
    return tuple(
        (
            (name, require_one(find_matching_fields(left.visible, name), name)),
            (name, require_one(find_matching_fields(right.visible, name), name)),
        )
        for name in names
    )


def _merge_using_columns(
    node: Join, left: Rows, right: Rows, using: Sequence[tuple[Field, Field]], side: str, names: Names
) -> Rows:
    """Returns the rows of a join with USING: the columns of `*` begin with the merged columns.

    Names with a qualifier still refer to the columns of both sides.
    """
    dropped = {made for pair in using for _, made in pair}
    merged = [(pair[0][0], pair[1][1] if side == "RIGHT" else pair[0][1]) for pair in using]
    rest = [field for field in (*left.visible, *right.visible) if field[1] not in dropped]
    sources = tuple(_mark_star_order(source, dropped) for source in (*left.sources, *right.sources))
    if side != "FULL":
        return Rows(node, (*merged, *rest), sources)
    made = [
        (name, names.make_fresh(name, _get_same_type(pair, names)))
        for (name, _), pair in zip(merged, using, strict=True)
    ]
    node_columns = [(name, build_column(name)) for name in list_columns(node)]
    values = [(new, _build_coalesce(pair)) for (_, new), pair in zip(made, using, strict=True)]
    return Rows(Projection(node, (*node_columns, *values)), (*made, *rest), sources)


def _build_coalesce(pair: tuple[Field, Field]) -> exp.Expr:
    return exp.Coalesce(this=build_column(pair[0][1]), expressions=[build_column(pair[1][1])])


def _get_same_type(pair: tuple[Field, Field], names: Names) -> str | None:
    left, right = (names.types.get(made) for _, made in pair)
    return left if left == right else None


def _mark_star_order(source: Source, merged: set[str]) -> Source:
    """Sets `in_order` of a source to False unless the columns that USING merges are its first columns.

    Spark returns the merged columns first for `t.*`, so `t.*` is refused unless they are the first anyway. `merged` are
    columns of the tree.
    """
    places = [place for place, (_, made) in enumerate(source.fields) if made in merged]
    return replace(source, in_order=source.in_order and places == list(range(len(places))))


def _derive_lateral(rows: Rows, lateral: exp.Lateral, names: Names) -> Rows:
    check_clause_args(lateral, {"this", "view", "outer", "alias", "ordinality"})
    if not lateral.args.get("view") or not is_generator(lateral.this):
        raise NotMaintained(
            "UNSUPPORTED", "LATERAL with a subquery, or with a function other than a generator such as explode"
        )
    call = resolve_names(lateral.this, lambda parts: find_column(rows, parts))
    check_functions(call)
    alias = lateral.args["alias"]
    made = derive_generator(
        rows.node, call, [part.name for part in alias.columns], bool(lateral.args.get("outer")), names
    )
    source = Source((alias.name,), made.fields)
    return Rows(made.node, rows.visible + made.fields, (*rows.sources, source))


def _get_default_names(generator: exp.Expr, names: Names) -> tuple[str, ...]:
    call, _ = _strip_outer(generator)
    of_type = names.type_of(call.this) if isinstance(call, exp.Explode | exp.Posexplode) else None
    default_names = {"array": ("col",), "map": ("key", "value")}.get((of_type or "").split("<")[0])
    if default_names is None:
        raise NotMaintained("UNSUPPORTED", "a generator such as explode without column names; add AS (…)")
    return ("pos", *default_names) if isinstance(call, exp.Posexplode) else default_names


def _strip_outer(generator: exp.Expr) -> tuple[exp.Expr, bool]:
    """Replaces `explode_outer` by `explode` and so on; also returns whether the generator was an outer one."""
    if isinstance(generator, exp.Anonymous) and generator.name.upper() == "INLINE_OUTER":
        return exp.Inline(this=generator.expressions[0].copy()), True
    if isinstance(generator, exp.PosexplodeOuter):
        return exp.Posexplode(this=generator.this.copy()), True
    if isinstance(generator, exp.ExplodeOuter):
        return exp.Explode(this=generator.this.copy()), True
    return generator, False
