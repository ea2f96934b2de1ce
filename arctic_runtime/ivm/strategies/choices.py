"""Choices: values that may differ if they are recomputed, and a check that the rows of one choice change together.

`first(x)` of a group is a choice, and so is `row_number()` of rows with the same date. A table stores the values of the
run that computed them, and no later run can compute these again. If a choice decides which rows exist, as in
`where place = 1`, a run must compute all rows that depend on the choice, or none of them. Otherwise some rows of the
table would follow from one choice and some from another, which no single computation of the query could return.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace

from sqlglot import exp
from typing_extensions import assert_never

from arctic_runtime.ivm.algebra.aggregate_functions import Answers
from arctic_runtime.ivm.algebra.conditions import list_equalities, map_plain_columns
from arctic_runtime.ivm.algebra.expressions import list_used_columns
from arctic_runtime.ivm.algebra.refusal import NotMaintained
from arctic_runtime.ivm.algebra.tree import (
    Aggregate,
    Distinct,
    Explode,
    Filter,
    Join,
    Node,
    OneRow,
    Projection,
    Scan,
    SemiJoin,
    SetOperation,
    SpoolScan,
    UnionAll,
    WindowColumns,
    list_columns,
    list_scans,
    walk_tree,
)
from arctic_runtime.ivm.algebra.unique import is_unique
from arctic_runtime.ivm.frontend.reads import list_function_names
from arctic_runtime.ivm.rules.restrict import find_merged_columns
from arctic_runtime.ivm.strategies.determinism import classify_aggregate, classify_window
from arctic_runtime.model.names import TableName

_Unit = tuple[frozenset[str], ...]


@dataclass(frozen=True)
class Choice:
    """A choice of the operator `origin` for each of its groups or partitions, seen from an operator above it.

    An example is the value that `first(x)` takes of a group.
    """

    origin: Aggregate | WindowColumns
    """The operator that makes the choice."""

    call: str
    """Name of the function that makes the choice, for messages."""

    names: frozenset[str]
    """Columns of the upper operator whose values depend on the choice."""

    unit: _Unit
    """For each column that identifies the group in `origin`, the columns of the upper operator with its value.

    The set is empty if no column has the value.
    """

    fixed: frozenset[str]
    """All columns that have a single value in the rows of one choice."""

    is_near: bool
    """True if possible values differ in their last digits at most, as sums of floats do."""

    decides: bool = False
    """True if the choice decides which rows exist."""

    def mark_deciding(self, *read: Iterable[str]) -> Choice:
        """Returns this choice, with `decides` set to True if one of the columns `read` depends on it.

        `read` are the columns by which an operator selects rows.
        """
        is_read = any(not self.names.isdisjoint(names) for names in read)
        return replace(self, decides=True) if is_read else self

    def rename_columns(self, names: Mapping[str, str]) -> Choice:
        """Returns this choice with its columns renamed by `names`; columns that are not in `names` are dropped."""

        def rename_set(own: frozenset[str]) -> frozenset[str]:
            return frozenset(names[name] for name in own if name in names)

        return replace(
            self, names=rename_set(self.names), unit=tuple(map(rename_set, self.unit)), fixed=rename_set(self.fixed)
        )

    def add_equal_columns(self, equal: Mapping[str, Collection[str]]) -> Choice:
        """Returns this choice with more columns in `unit` and `fixed`: those to which `equal` maps the present ones."""

        def widen_set(own: frozenset[str]) -> frozenset[str]:
            return own.union(*(equal.get(name, ()) for name in own))

        return replace(self, unit=tuple(map(widen_set, self.unit)), fixed=widen_set(self.fixed))

    def limit_to(self, names: Collection[str]) -> Choice:
        """Returns this choice with `unit` and `fixed` limited to the columns `names`."""
        unit = tuple(part.intersection(names) for part in self.unit)
        return replace(self, unit=unit, fixed=self.fixed.intersection(names))


@dataclass(frozen=True)
class Choices:
    """All choices on which a tree's result depends, and the names of all columns that depend on a choice."""

    seen: tuple[Choice, ...]
    names: frozenset[str]

    def check_choices(self, tree: Node, key: tuple[str, ...], changed: frozenset[TableName]) -> None:
        """Raises NotMaintained if a run could recompute some rows of one choice without the others.

        A run recomputes the rows with affected values of `key`. If all rows of a choice have the same key, these are
        all or none of its rows. The same is true if all changed sources are below the choice's operator, so that the
        keys of whole groups are affected.
        """
        for choice in self.seen:
            is_shown = choice.is_near and not choice.decides
            if not is_shown and not choice.fixed.issuperset(key) and not _is_whole(choice, tree, key, changed):
                raise NotMaintained("NOT_REPEATABLE", _explain_choice(choice))


def collect_choices(tree: Node, types: Mapping[str, str]) -> Choices:
    """Collects the choices on which the result of a tree depends; `types` are the types of its columns, by name."""
    collector = _Choices(types)
    return Choices(collector.collect_from(tree), frozenset(collector.names))


def _explain_choice(choice: Choice) -> str:
    what = "which rows there are follows from it" if choice.decides else "rows that show it would not all be computed"
    do = "add up decimals" if choice.is_near else "order by something unique"
    return f"{choice.call} may give another result if it is recomputed, and {what}; {do}"


def _is_whole(choice: Choice, tree: Node, key: tuple[str, ...], changed: frozenset[TableName]) -> bool:
    """Whether the affected keys always include all keys of the rows of a choice, or none of them."""
    inside, everywhere = (sum(scan.source in changed for scan in list_scans(node)) for node in (choice.origin, tree))
    if inside < everywhere:
        return False
    if _keeps_all_rows(tree, choice.origin):
        return True
    return any(
        set(key) <= set(list_columns(node))
        and all(not part.isdisjoint(list_columns(node)) for part in choice.unit)
        and is_unique(node, key)
        for node in walk_tree(tree)
    )


def _keeps_all_rows(node: Node, origin: Node) -> bool:
    """Whether `origin` is a Window operator and each of its rows is in the result of `node`.

    If so, the key of the result is a key of the operator's rows as well.
    """
    while node is not origin:
        if isinstance(node, Projection):
            node = node.child
        elif isinstance(node, Join) and node.kind == "left":
            node = node.left
        else:
            return False
    return isinstance(origin, WindowColumns)


def _get_function_name(value: exp.Expr) -> str:
    """Name of the function that `value` calls, in lower case."""
    while isinstance(value, exp.Window | exp.Filter | exp.IgnoreNulls | exp.RespectNulls | exp.WithinGroup):
        value = value.this
    return list_function_names(value)[0].lower() if isinstance(value, exp.Func) else value.key


@dataclass
class _Choices:
    types: Mapping[str, str]
    names: set[str] = field(default_factory=set)

    def collect_from(self, node: Node) -> tuple[Choice, ...]:
        """Collects the choices on which an operator's result depends; adds columns that depend on them to `names`."""
        kept_choices = tuple(choice for choice in self._derive_choices(node) if choice.names or choice.decides)
        self.names.update(*(choice.names for choice in kept_choices))
        return kept_choices

    def _derive_choices(self, node: Node) -> Iterable[Choice]:
        match node:
            case Scan() | SpoolScan() | OneRow():
                return ()
            case Projection():
                return [_project_choice(choice, node) for choice in self.collect_from(node.child)]
            case Filter(child=child, condition=condition):
                return [choice.mark_deciding(list_used_columns(condition)) for choice in self.collect_from(child)]
            case Distinct(child=child):
                return [choice.mark_deciding(list_columns(child)) for choice in self.collect_from(child)]
            case Explode():
                return [_explode_choice(choice, node) for choice in self.collect_from(node.child)]
            case Aggregate():
                return self._derive_aggregate(node)
            case WindowColumns():
                return self._derive_window(node)
            case Join():
                return self._derive_join(node)
            case SemiJoin():
                return self._derive_semi_join(node)
            case UnionAll(inputs=inputs, names=names):
                return self._derive_by_position(inputs, names)
            case SetOperation(left=left, right=right, names=names):
                return [choice.mark_deciding(names) for choice in self._derive_by_position((left, right), names)]
            case _:
                assert_never(node)

    def _derive_by_position(self, inputs: Iterable[Node], names: tuple[str, ...]) -> Iterable[Choice]:
        for part in inputs:
            own = dict(zip(list_columns(part), names, strict=True))
            yield from (choice.rename_columns(own) for choice in self.collect_from(part))

    def _derive_aggregate(self, node: Aggregate) -> Iterable[Choice]:
        for below in self.collect_from(node.child):
            choice = below.mark_deciding(node.keys)
            shown = {
                name
                for name, call in node.aggregates
                if choice.decides or not choice.names.isdisjoint(list_used_columns(call))
            }
            yield replace(choice.limit_to(node.keys), names=choice.names.intersection(node.keys).union(shown))
        answers = [(name, call, classify_aggregate(call, node, self.types)) for name, call in node.aggregates]
        yield from _list_own_choices(node, node.keys, answers)

    def _derive_window(self, node: WindowColumns) -> Iterable[Choice]:
        for choice in self.collect_from(node.child):
            yield choice
            is_all = choice.decides or not choice.names.isdisjoint(node.partition)
            shown = {
                name
                for name, over in node.expressions
                if is_all or not choice.names.isdisjoint(list_used_columns(over))
            }
            yield replace(choice.limit_to(node.partition), names=frozenset(shown), decides=False)
        answers = [(name, over, classify_window(over, node, self.types)) for name, over in node.expressions]
        yield from _list_own_choices(node, node.partition, answers)

    def _derive_join(self, node: Join) -> Iterable[Choice]:
        """Derives the choices of a join from those of its sides.

        In an outer join, a choice that decides which pairs exist also decides which rows have no partner. Such rows
        have nulls for the other side, so that columns of that side do not identify the choice.
        """
        to_right, to_left = _map_equal_columns(node)
        read = list_used_columns(node.on)
        for below in self.collect_from(node.left):
            choice = below.mark_deciding(read)
            if node.kind == "full":
                yield choice.limit_to(()) if choice.decides else choice
            else:
                yield choice.add_equal_columns(to_right) if node.kind == "inner" else choice
        for below in self.collect_from(node.right):
            choice = below.mark_deciding(read)
            if node.kind == "inner" or not choice.decides:
                yield choice.add_equal_columns(to_left) if node.kind != "full" else choice
            else:
                yield choice.add_equal_columns(to_left).limit_to(list_columns(node.left) if node.kind == "left" else ())

    def _derive_semi_join(self, node: SemiJoin) -> Iterable[Choice]:
        _, to_left = _map_equal_columns(node)
        yield from (choice.mark_deciding(list_used_columns(node.on)) for choice in self.collect_from(node.left))
        for below in self.collect_from(node.right):
            choice = (
                below.mark_deciding(list_used_columns(node.on))
                .add_equal_columns(to_left)
                .limit_to(list_columns(node.left))
            )
            yield replace(choice, names=frozenset())


def _list_own_choices(
    node: Aggregate | WindowColumns, keys: tuple[str, ...], answers: Iterable[tuple[str, exp.Expr, Answers]]
) -> Iterable[Choice]:
    """Yields the choices that an operator itself makes for each group or partition, which `keys` identify.

    `answers` are its computed columns, each with the function call and the number of values that it may have.
    """
    unit = tuple(frozenset((name,)) for name in keys)
    for name, call, answer in answers:
        if answer != "one":
            yield Choice(node, _get_function_name(call), frozenset((name,)), unit, frozenset(keys), answer == "near")


def _project_choice(choice: Choice, node: Projection) -> Choice:
    names = {name for name, value in node.expressions if not choice.names.isdisjoint(list_used_columns(value))}
    own = map_plain_columns(node.expressions)
    unit = (frozenset(name for name, below in own.items() if below in part) for part in choice.unit)
    fixed = {name for name, value in node.expressions if choice.fixed.issuperset(list_used_columns(value))}
    either = {
        name for name, pair in find_merged_columns(node).items() if not choice.fixed.isdisjoint((pair.left, pair.right))
    }
    return replace(choice, names=frozenset(names), unit=tuple(unit), fixed=frozenset(fixed | either))


def _explode_choice(choice: Choice, node: Explode) -> Choice:
    decided = choice.mark_deciding(list_used_columns(node.generator))
    is_read = not choice.names.isdisjoint(list_used_columns(node.generator))
    return replace(decided, names=decided.names.union(node.names)) if is_read else decided


def _map_equal_columns(node: Join | SemiJoin) -> tuple[dict[str, set[str]], dict[str, set[str]]]:
    """Maps left columns to the right columns that equal them in all pairs, and right columns to left ones."""
    to_right: dict[str, set[str]] = {}
    to_left: dict[str, set[str]] = {}
    for pair in list_equalities(node.on, list_columns(node.left), list_columns(node.right)):
        to_right.setdefault(pair.left, set()).add(pair.right)
        to_left.setdefault(pair.right, set()).add(pair.left)
    return to_right, to_left
