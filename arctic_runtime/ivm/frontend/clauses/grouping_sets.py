"""Turns ROLLUP, CUBE and GROUPING SETS into one aggregate over rows that are repeated for each grouping set.

Spark does the same. Each copy of a row has null in the keys that its grouping set lacks, and the number of the grouping
set, which distinguishes such a null from a null of the row. An input without rows gives no grand total either.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import reduce
from itertools import combinations

from sqlglot import exp

from arctic_runtime.ivm.algebra.expressions import (
    Form,
    build_column,
    get_form,
    list_used_columns,
    transform_expression,
    unwrap_parens,
    walk_parts,
)
from arctic_runtime.ivm.algebra.refusal import NotMaintained
from arctic_runtime.ivm.algebra.tree import Explode, Node, Projection, list_columns
from arctic_runtime.ivm.frontend.functions import check_clause_args
from arctic_runtime.ivm.frontend.scope import Names

_KINDS = (exp.Rollup, exp.Cube, exp.GroupingSets)
_SUFFIXES = {"rollup": exp.Rollup, "cube": exp.Cube, "grouping_sets": exp.GroupingSets}
_CALLS: Mapping[str, str] = {"GROUPING": "tinyint", "GROUPING_ID": "bigint"}
_MOST = 512
_MOST_KEYS = 63

_Set = tuple[exp.Expr, ...]


@dataclass(frozen=True)
class GroupingSets:
    """Grouping sets of a GROUP BY.

    `keys` are the distinct keys of all sets; `sets` has for each set the positions of its keys in `keys`.
    """

    keys: tuple[exp.Expr, ...]
    sets: tuple[tuple[int, ...], ...]

    @property
    def numbers(self) -> tuple[int, ...]:
        """Value of `grouping_id()` for each set: one bit per key, the first key highest, 1 if the set lacks the key."""
        last = len(self.keys) - 1
        return tuple(
            sum(1 << (last - place) for place in range(len(self.keys)) if place not in one) for one in self.sets
        )

    def list_sets_with_key(self, place: int) -> tuple[int, ...]:
        """Lists the distinct `numbers` of the grouping sets that contain the key at the position `place` in `keys`."""
        return tuple(dict.fromkeys(number for number, one in zip(self.numbers, self.sets, strict=True) if place in one))


@dataclass(frozen=True)
class Expanded:
    """Result of `expand_rows`: a tree whose rows are the input rows, each repeated for each grouping set.

    `keys` are the columns of the keys, null if the row's grouping set lacks the key. `number` is the column with the
    value of `grouping_id()`. `groups` are the columns by which the aggregate must group.
    """

    node: Node
    keys: tuple[str, ...]
    number: str
    groups: tuple[str, ...]


@dataclass
class GroupingCalls:
    """Collects the calls of the SQL functions `grouping` and `grouping_id` in a select, and replaces them by columns.

    Unless `is_allowed`, calls are not replaced; a later check refuses them as functions that are not supported.
    """

    names: Names
    is_allowed: bool
    made: dict[Form, tuple[str, exp.Expr]] = field(default_factory=dict)

    def replace_calls(self, expression: exp.Expr) -> exp.Expr:
        """Replaces the calls of `grouping` and `grouping_id` in an expression by columns, and adds them to `made`.

        Calls inside subqueries are not replaced.
        """

        def visit_node(node: exp.Expr) -> exp.Expr:
            if isinstance(node, exp.Query):
                return node.copy()
            of_type = _CALLS.get(node.name.upper()) if isinstance(node, exp.Anonymous) else None
            if of_type is None:
                return node
            made = self.made.setdefault(get_form(node), (self.names.make_fresh(node.name.lower(), of_type), node))
            return build_column(made[0])

        return transform_expression(expression, visit_node) if self.is_allowed else expression

    def list_values(self, grouping: GroupingSets, number: str) -> list[tuple[str, exp.Expr]]:
        """Lists the column of each collected call, with the expression that computes its value.

        `number` is the column with the value of `grouping_id()`.
        """
        return [(name, _compute_call_value(call, grouping, number)) for name, call in self.made.values()]


def has_grouping_sets(select: exp.Select) -> bool:
    clause = select.args.get("group")
    return clause is not None and (
        any(isinstance(part, _KINDS) for part in clause.expressions)
        or any(clause.args.get(part) for part in (*_SUFFIXES, "totals"))
    )


def read_grouping_sets(clause: exp.Group, key: Callable[[exp.Expr], exp.Expr]) -> GroupingSets:
    """Analyses a GROUP BY with ROLLUP, CUBE or GROUPING SETS; `key` resolves a key of SQL to an expression.

    Raises NotMaintained for too many sets or keys, and for keys that can't be maintained.
    """
    check_clause_args(clause, {"expressions", *_SUFFIXES})
    suffixes = [(kind, clause.args[name]) for name, kind in _SUFFIXES.items() if clause.args.get(name)]
    if not suffixes:
        together = [_read_sets(part) for part in clause.expressions]
        listed = [leaf for part in clause.expressions for leaf in _list_leaves(part)]
    elif len(suffixes) > 1 or any(isinstance(part, _KINDS) for part in clause.expressions):
        raise NotMaintained("GROUPING_SETS", "several ways of writing grouping sets in one GROUP BY")
    else:
        (kind, (behind, *_)) = suffixes[0]
        together = [_SETS[kind](behind.expressions or clause.expressions)]
        listed = [unwrap_parens(part) for part in clause.expressions]
    _check_number(together)
    keys = {get_form(made): made for made in map(key, listed)}
    _check_keys(tuple(keys.values()))
    order = list(keys)
    sets = tuple(
        tuple(sorted({_find_key_index(key(part), order) for part in one})) for one in reduce(_cross_sets, together)
    )
    return GroupingSets(tuple(keys.values()), sets)


def expand_rows(
    node: Node, grouping: GroupingSets, keys: Sequence[str], output_columns: Iterable[str], names: Names
) -> Expanded:
    """Repeats each row of `node` for each grouping set.

    `keys` are the columns of `node` that hold `grouping.keys`. The result has copies of these, the columns that tell
    the sets apart, and `output_columns` of `node`.
    """
    number = names.make_fresh("grouping_id", "bigint")
    numbers = grouping.numbers
    place = names.make_fresh("grouping_set", "int")
    listed = exp.Array(expressions=[_build_number(one, "bigint") for one in numbers])
    is_once = len(set(numbers)) == len(numbers)
    telling = (number,) if is_once else (place, number)
    copies = Explode(node, (exp.Explode if is_once else exp.Posexplode)(this=listed), telling, False)
    made = []
    for place_of, name in enumerate(keys):
        holders = grouping.list_sets_with_key(place_of)
        value: exp.Expr = build_column(name)
        if len(holders) < len(set(numbers)):
            holds = exp.In(this=build_column(number), expressions=[exp.Literal.number(one) for one in holders])
            value = exp.case().when(holds, value) if holders else exp.case().when(exp.false(), value)
        made.append((names.make_fresh(name.rpartition("#")[0], names.types.get(name)), value))
    wanted = [
        (name, build_column(name))
        for name in dict.fromkeys((*output_columns, *telling))
        if name in list_columns(copies)
    ]
    own = tuple(name for name, _ in made)
    return Expanded(Projection(copies, (*wanted, *made)), own, number, (*own, *telling))


def _build_number(number: int, of_type: str) -> exp.Expr:
    return exp.cast(exp.Literal.number(number), of_type, dialect="spark")


def _read_sets(part: exp.Expr) -> list[_Set]:
    """Lists the grouping sets of one part of GROUP BY; a plain key is one set with this key."""
    of_kind = _SETS.get(type(part))
    return [(unwrap_parens(part),)] if of_kind is None else of_kind(part.expressions)


def _expand_rollup(written: Sequence[exp.Expr]) -> list[_Set]:
    elements = [_read_elements(one) for one in written]
    return [_join_elements(elements[:length]) for length in range(len(elements), -1, -1)]


def _expand_cube(written: Sequence[exp.Expr]) -> list[_Set]:
    if len(written) >= _MOST.bit_length():
        raise _build_too_many_error()
    elements = [_read_elements(one) for one in written]
    return [_join_elements(some) for length in range(len(elements), -1, -1) for some in combinations(elements, length)]


def _list_sets(written: Sequence[exp.Expr]) -> list[_Set]:
    return [
        one for part in written for one in (_read_sets(part) if isinstance(part, _KINDS) else [_read_elements(part)])
    ]


_SETS: Mapping[type[exp.Expr], Callable[[Sequence[exp.Expr]], list[_Set]]] = {
    exp.Rollup: _expand_rollup,
    exp.Cube: _expand_cube,
    exp.GroupingSets: _list_sets,
}


def _read_elements(part: exp.Expr) -> _Set:
    """Returns the expressions of a tuple such as `(a, b)`; any other expression is its only element."""
    return tuple(map(unwrap_parens, part.expressions)) if isinstance(part, exp.Tuple) else (unwrap_parens(part),)


def _join_elements(elements: Iterable[_Set]) -> _Set:
    return tuple(one for element in elements for one in element)


def _list_leaves(part: exp.Expr) -> list[exp.Expr]:
    if isinstance(part, (*_KINDS, exp.Tuple)):
        return [leaf for inner in part.expressions for leaf in _list_leaves(inner)]
    return [unwrap_parens(part)]


def _cross_sets(left: list[_Set], right: list[_Set]) -> list[_Set]:
    return [(*one, *other) for one in left for other in right]


def _check_number(together: Iterable[list[_Set]]) -> None:
    number = 1
    for part in together:
        number *= len(part)
        if number > _MOST:
            raise _build_too_many_error()


def _build_too_many_error() -> NotMaintained:
    return NotMaintained("GROUPING_SETS", f"more than {_MOST} grouping sets")


def _find_key_index(key: exp.Expr, order: Sequence[Form]) -> int:
    if get_form(key) not in order:
        raise NotMaintained("UNRESOLVED", f"{key.sql('spark')} in GROUPING SETS is not grouped by")
    return order.index(get_form(key))


def _check_keys(keys: Sequence[exp.Expr]) -> None:
    """Raises NotMaintained if it is uncertain which expressions of the select list Spark replaces by a key.

    Spark replaces `1 + a` by a key `a + 1`. Without grouping sets both have the same value; with them the key is null
    in the sets that lack it. Also raises for constants and for too many keys.
    """
    if len(keys) > _MOST_KEYS:
        raise NotMaintained("GROUPING_SETS", f"grouping sets of more than {_MOST_KEYS} keys")
    for key in keys:
        if not list_used_columns(key):
            raise NotMaintained("GROUPING_SETS", "a constant among the keys of grouping sets")
        others = {name for other in keys if other is not key for name in list_used_columns(other)}
        is_turned = any(isinstance(part, exp.Binary | exp.Predicate | exp.Not) for part in walk_parts(key))
        if is_turned and others.issuperset(list_used_columns(key)):
            raise NotMaintained(
                "GROUPING_SETS",
                f"grouping sets by {key.sql('spark')} and by its columns; compute it in a subquery",
            )


def _compute_call_value(call: exp.Expr, grouping: GroupingSets, number: str) -> exp.Expr:
    forms = [get_form(key) for key in grouping.keys]
    asked = [get_form(unwrap_parens(part)) for part in call.expressions]
    if call.name.upper() == "GROUPING_ID":
        if asked and asked != forms:
            raise NotMaintained("UNRESOLVED", "grouping_id of other columns than those of GROUP BY")
        return build_column(number)
    if len(asked) != 1 or asked[0] not in forms:
        raise NotMaintained("UNRESOLVED", "grouping of what GROUP BY does not name")
    holders = grouping.list_sets_with_key(forms.index(asked[0]))
    holds = exp.In(this=build_column(number), expressions=[exp.Literal.number(one) for one in holders])
    return (
        exp.case().when(holds, _build_number(0, "tinyint")).else_(_build_number(1, "tinyint"))
        if holders
        else _build_number(1, "tinyint")
    )
