"""Resolves the names of a select list in other clauses, above all in HAVING, whose conditions are on groups.

If a name is both, Spark first resolves it as the column. It remains the column inside an aggregate, and inside an
expression that is selected or grouped by; elsewhere Spark then replaces it by the alias. If the name is compared with a
value of another type, Spark has added a cast for the column's type by then, and keeps it.

In HAVING a name may be a column or an alias of the select list.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from sqlglot import exp

from arctic_runtime.ivm.algebra.expressions import Form, get_form, transform_expression, unwrap_parens
from arctic_runtime.ivm.algebra.inferred_types import type_of
from arctic_runtime.ivm.algebra.numbers import find_wider_type, get_precision_and_scale, is_integer
from arctic_runtime.ivm.algebra.refusal import NotMaintained
from arctic_runtime.ivm.frontend.functions import is_aggregate, walk_outside_queries
from arctic_runtime.ivm.frontend.scope import (
    NameLookup,
    Names,
    Rows,
    find_column,
    look_up_locally,
    name_parts,
    resolve_name,
    resolve_names,
    select_nested_field,
)
from arctic_runtime.ivm.frontend.type_coercion import is_same
from arctic_runtime.model.columns import is_same_name


@dataclass(frozen=True)
class Item:
    """One entry of a select list: an expression with the names of the columns that it returns.

    Only a generator may return several columns. `names` is empty if Spark derives the name from the expression's text.
    """

    names: tuple[str, ...]
    value: exp.Expr


def resolve_alias(items: Sequence[Item], parts: tuple[str, ...]) -> exp.Expr | None:
    """Returns the expression with the alias `parts[0]`, and selects the nested fields `parts[1:]`; None without one.

    The expression is in parentheses unless it is a column. Raises NotMaintained if several different expressions have
    this alias.
    """
    same = [item.value for item in items if len(item.names) == 1 and is_same_name(item.names[0], parts[0])]
    values = list({get_form(value): value for value in same}.values())
    if len(values) > 1:
        raise NotMaintained("UNRESOLVED", f"{'.'.join(parts)} is ambiguous: it matches several columns")
    return select_nested_field(_wrap_in_parentheses(values[0]), parts[1:]) if values else None


def _wrap_in_parentheses(value: exp.Expr) -> exp.Expr:
    return value.copy() if isinstance(value, exp.Column) else exp.paren(value)


_CONDITIONS = (exp.Predicate, exp.Connector, exp.Not, exp.Boolean)


def resolve_having(
    condition: exp.Expr,
    items: Sequence[Item],
    keys: Sequence[exp.Expr],
    rows: Rows,
    outer: NameLookup | None,
    names: Names,
) -> exp.Expr:
    """Resolves the names in a HAVING condition to columns of the rows before they are grouped.

    `items` are the entries of the select list, `keys` the grouped expressions, `rows` the result of FROM, and `outer`
    resolves columns of the outer query. A result that is not boolean is cast to boolean, as Spark does only in HAVING.
    """
    resolved = _GroupNames((*keys, *(item.value for item in items)), items, rows, outer, names).resolve_condition(
        unwrap_parens(condition)
    )
    if any(isinstance(part, exp.Window) for part in walk_outside_queries(resolved)):
        raise NotMaintained("UNSUPPORTED", "a window function in HAVING")
    is_condition = isinstance(resolved, _CONDITIONS) or names.type_of(resolved) == "boolean"
    return resolved if is_condition else exp.cast(resolved, "boolean", dialect="spark")


@dataclass(frozen=True)
class _GroupNames:
    """Names and expressions that HAVING can refer to; `made` are the selected and the grouped expressions."""

    made: tuple[exp.Expr, ...]
    items: Sequence[Item]
    rows: Rows
    outer: NameLookup | None
    names: Names

    @cached_property
    def forms(self) -> set[Form]:
        return {get_form(value) for value in self.made}

    @cached_property
    def kinds(self) -> set[type[exp.Expr]]:
        return {_get_comparable_kind(value) for value in self.made if not isinstance(value, exp.Column | exp.Literal)}

    def resolve_condition(self, condition: exp.Expr) -> exp.Expr:
        """Resolves each name in a condition as a column or as an alias.

        Spark also identifies equivalent expressions, such as `1 + a` with `a + 1`. Raises NotMaintained if the result
        depends on that.
        """

        def visit_node(node: exp.Expr) -> exp.Expr:
            whole = self._resolve_whole(node, self._as_selected)
            if whole is not None:
                self._check_type(node, whole)
            if whole is not None or _get_comparable_kind(node) not in self.kinds:
                return whole or node
            read = self._with_names(node, self._as_read)
            if get_form(read) in self.forms:
                return read
            if get_form(read) != get_form(self._with_names(node, self._as_selected)):
                raise NotMaintained(
                    "UNRESOLVED", "a name in HAVING that is both a column and the alias of another column"
                )
            return node

        return transform_expression(condition, visit_node)

    def _with_names(self, node: exp.Expr, lookup: NameLookup) -> exp.Expr:
        return transform_expression(node, lambda part: self._resolve_whole(part, lookup) or part)

    def _resolve_whole(self, node: exp.Expr, lookup: NameLookup) -> exp.Expr | None:
        """Resolves `node` if it is a name or an aggregate, and copies it if it is a subquery.

        Returns None for any other node, whose parts the caller has to resolve one by one.
        """
        if isinstance(node, exp.Query):
            return node.copy()
        if is_aggregate(node):
            return resolve_names(node, look_up_locally(self.rows, self.outer))
        parts = name_parts(node)
        return None if parts is None else resolve_name(parts, lookup)

    def _as_selected(self, parts: tuple[str, ...]) -> exp.Expr | None:
        own, alias = find_column(self.rows, parts), resolve_alias(self.items, parts)
        if own is None:
            return alias if alias is not None or self.outer is None else self.outer(parts)
        if alias is None:
            return own
        if isinstance(own, exp.Dot) and get_form(own) != get_form(alias):
            raise NotMaintained(
                "UNRESOLVED", f"{'.'.join(parts)} in HAVING may be a field of a column, or of the alias of another one"
            )
        return own if get_form(own) in self.forms else alias

    def _check_type(self, node: exp.Expr, resolved: exp.Expr) -> None:
        """Raises NotMaintained if the name `node` is both an alias and a column of another type.

        Spark might then keep a cast to the column's type. `resolved` is the expression of the alias.
        """
        parts = name_parts(node)
        own = None if parts is None else find_column(self.rows, parts)
        if own is None or get_form(own) == get_form(unwrap_parens(resolved)):
            return
        hidden, shown = self.names.type_of(own) or "", self.names.type_of(resolved) or ""
        is_alike = is_same(hidden, shown) or (
            get_precision_and_scale(shown) is not None and _is_beside_whole_number(node, hidden)
        )
        if not hidden or not is_alike:
            raise NotMaintained(
                "UNRESOLVED",
                f"{node.sql('spark')} in HAVING is both an alias and a column, perhaps of different types; "
                "rename the alias, or repeat its expression in HAVING",
            )

    def _as_read(self, parts: tuple[str, ...]) -> exp.Expr | None:
        own = find_column(self.rows, parts)
        return self._as_selected(parts) if own is None else own


def _is_beside_whole_number(name: exp.Expr, of_type: str) -> bool:
    """Whether `name` is compared with an integer literal whose value fits `of_type`, an integer or decimal type."""
    comparison = name.parent
    if not isinstance(comparison, exp.EQ | exp.NEQ | exp.GT | exp.GTE | exp.LT | exp.LTE):
        return False
    sides = [unwrap_parens(side) for side in (comparison.this, comparison.expression) if side is not name]
    number = sides[0].this if isinstance(sides[0], exp.Neg) else sides[0]
    size, kind = get_precision_and_scale(of_type), type_of(number, {})
    if size is None or kind is None or not isinstance(number, exp.Literal) or not is_integer(kind):
        return False
    return find_wider_type(of_type, kind) == of_type if is_integer(of_type) else size[0] - size[1] >= len(number.name)


def _get_comparable_kind(value: exp.Expr) -> type[exp.Expr]:
    """Returns the class of an expression; one class for all predicates, as Spark turns `not a < b` into `a >= b`."""
    return exp.Predicate if isinstance(value, exp.Predicate | exp.Not) else type(value)
