"""Functions that build, copy, compare and search sqlglot expressions over the columns of a tree."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator
from typing import Any

from sqlglot import exp

Form = tuple[Hashable, ...]


def build_column(name: str) -> exp.Column:
    """Builds the sqlglot expression that reads the column `name`, unqualified and quoted."""
    return exp.Column(this=exp.Identifier(this=name, quoted=True))


def unwrap_parens(expression: exp.Expr) -> exp.Expr:
    """Removes the parentheses around an expression, except those of a subquery, which belong to it."""
    while type(expression) is exp.Paren:
        expression = expression.this
    return expression


def transform_expression(expression: exp.Expr, visit: Callable[[exp.Expr], exp.Expr]) -> exp.Expr:
    """Returns a copy of an expression in which each part is replaced by the result of `visit`.

    `visit` is called for the outermost part first. If it returns another expression, the parts inside are not visited;
    if it returns its argument, they are. Does the same as sqlglot's `transform` in a third of the time.
    """
    waiting: list[tuple[exp.Expr, exp.Expr]] = []

    def transform_part(part: Any) -> Any:
        made = visit(part) if isinstance(part, exp.Expr) else part
        if made is not part or not isinstance(part, exp.Expr):
            return made
        made = type(part)()
        waiting.append((part, made))
        return made

    result: exp.Expr = transform_part(expression)
    while waiting:
        node, made = waiting.pop()
        for name, value in node.args.items():
            made.set(
                name, [transform_part(part) for part in value] if isinstance(value, list) else transform_part(value)
            )
    return result


def get_form(expression: exp.Expr) -> Form:
    """Returns the form of an expression: a hashable key, which is the same for equal expressions.

    The case of function names is ignored only for functions that sqlglot does not know.
    """
    items: list[Hashable] = []
    waiting: list[Any] = [expression]
    while waiting:
        part = waiting.pop()
        if not isinstance(part, exp.Expr):
            items.append(part)
            continue
        signature: list[Hashable] = [part.key]
        for name, value in sorted(part.args.items()):
            values = value if isinstance(value, list) else [] if value is None or value is False else [value]
            if values:
                signature += (name, len(values))
                waiting += [str(value).upper()] if name == "this" and isinstance(part, exp.Anonymous) else values
        items.append(tuple(signature))
    return tuple(items)


def walk_parts(expression: exp.Expr, whole: type[exp.Expr] | None = None) -> Iterator[exp.Expr]:
    """Yields an expression and all its parts, level by level, but not the parts inside nodes of the class `whole`.

    Does the same as sqlglot's `walk` in half of the time.
    """
    waiting = [expression]
    for node in waiting:
        yield node
        if whole is not None and isinstance(node, whole):
            continue
        for value in node.args.values():
            if isinstance(value, exp.Expr):
                waiting.append(value)
            elif isinstance(value, list):
                waiting.extend([part for part in value if isinstance(part, exp.Expr)])


def list_used_columns(expression: exp.Expr | None) -> tuple[str, ...]:
    """Names of the columns that an expression reads, each once."""
    if expression is None:
        return ()
    if type(expression) is exp.Column:
        return (expression.name,)
    used_parts = walk_parts(expression, whole=exp.Column)
    return tuple(dict.fromkeys([part.name for part in used_parts if isinstance(part, exp.Column)]))
