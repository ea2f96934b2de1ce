"""Plans how the rows of a table become those of its edited query, from the table's rows as far as they are the same.

The result is a tree of pairs, as in maintenance by pairs: each row of the table beside the row of the new query. Rows
that only the new query has are computed from the sources.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace

from sqlglot import exp

from arctic_runtime.ivm.algebra.conditions import substitute_columns
from arctic_runtime.ivm.algebra.expressions import build_column, list_used_columns
from arctic_runtime.ivm.algebra.refusal import NotMaintained
from arctic_runtime.ivm.algebra.tree import (
    HAS_AFTER,
    HAS_BEFORE,
    Aggregate,
    Filter,
    Node,
    Projection,
    UnionAll,
    list_columns,
    list_scans,
    name_before,
)
from arctic_runtime.ivm.algebra.unique import is_unique
from arctic_runtime.ivm.canonical.tree import canonicalize_tree
from arctic_runtime.ivm.edits.block import express, get_bare_form, get_condition_form
from arctic_runtime.ivm.edits.implication import is_implied
from arctic_runtime.ivm.edits.inserts import list_inserted, list_removed_conditions
from arctic_runtime.ivm.edits.matching import BlockMatch, match_queries, name_lost_column
from arctic_runtime.ivm.edits.refused import NotEdited
from arctic_runtime.ivm.edits.table_rows import TableRows, name_own_column, name_sources
from arctic_runtime.ivm.render import format_expression
from arctic_runtime.ivm.rewrite.column_pruning import prune_columns
from arctic_runtime.ivm.rules.terms import project_columns, select_columns, union_terms
from arctic_runtime.ivm.strategies.determinism import is_deterministic
from arctic_runtime.model.names import TableName

_COPIES = "__arctic_copies"


@dataclass(frozen=True)
class Query:
    """An analysed query: its tree, pairs of an output name and a column of the tree, and the columns of the key."""

    tree: Node
    outputs: tuple[tuple[str, str], ...]
    key: tuple[str, ...]
    types: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class OwnTable:
    """The table of a model. `columns` maps the output columns of its last query, in lower case, to the table's columns.

    `stored` are all columns of the table.
    """

    name: TableName
    columns: Mapping[str, str]
    stored: tuple[str, ...]


@dataclass(frozen=True)
class Edit:
    """The rows by which the result of an edited query differs from the table.

    The tree `rows` computes them as pairs: the columns of the new query's tree, for each stored column of the table one
    that `name_before` names, and the flags HAS_AFTER and HAS_BEFORE. It scans the table under its own name, and sources
    at the versions that the last run read. None if there is no difference. Pairs may also have rows that are the same.

    The tree `repeated` computes the keys that several rows of the new result have, if the query does not prove that
    there are none; None if it does. `differences` describes the edit for users.
    """

    own: TableName
    rows: Node | None
    repeated: Node | None = None
    differences: tuple[str, ...] = ()

    @property
    def trees(self) -> tuple[Node, ...]:
        return tuple(tree for tree in (self.rows, self.repeated) if tree is not None)

    @property
    def sources(self) -> frozenset[TableName]:
        """Sources that are read, without the table itself."""
        return frozenset(scan.source for tree in self.trees for scan in list_scans(tree)) - {self.own}

    @property
    def reads_table(self) -> bool:
        return any(scan.source == self.own for tree in self.trees for scan in list_scans(tree))


def plan_edit(old: Query, new: Query, own: OwnTable) -> Edit:
    """Plans the edit from the query `old`, whose result the table `own` holds, to the query `new`.

    Raises NotEdited with an explanation if the new result can't be derived from the table's rows.
    """
    if _is_same(old, new):
        return Edit(own.name, None)
    match = match_queries(old.tree, new.tree)
    if match is None:
        raise NotEdited(_explain_lost_input(old.tree, new.tree))
    table = TableRows.scan(own.name, own.stored, _map_values(match, old, own), match)
    _check_key(match, old, new, own, table)
    differences = _keep_rows(match, table)
    inserted = [select_columns(tree, list_columns(new.tree)) for tree in list_inserted(match, list_columns(new.tree))]
    if inserted and not is_deterministic(new.tree, new.types):
        raise NotEdited("rows are added to a result that may differ between two computations")
    pairs = _pair_rows(match, new, own, table)
    names = (*list_columns(new.tree), *map(name_before, own.stored), HAS_AFTER, HAS_BEFORE)
    rows = union_terms([pairs, *(_insert_rows(tree, own) for tree in inserted)], names)
    proven = not inserted or (match.union is None and is_unique(new.tree, new.key))
    return Edit(
        own.name,
        None if rows is None else prune_columns(rows, set(names)),
        None if proven else _find_repeated_keys(match, new, table, inserted),
        (*differences, *_describe_columns(match, old, new)),
    )


def keeps_columns(old: Query, new: Query, names: Collection[str]) -> bool:
    """Whether two queries give rows with the same values in the columns `names`, and as many of each."""
    wanted = {name.lower() for name in names}
    one, other = (
        replace(query, outputs=tuple(output for output in query.outputs if output[0].lower() in wanted))
        for query in (old, new)
    )
    return len(one.outputs) == len(wanted) and _is_same(one, other)


def _is_same(old: Query, new: Query) -> bool:
    """Whether two queries are one query in other words, with the same columns in any order."""
    named = [sorted((name.lower(), made) for name, made in query.outputs) for query in (old, new)]
    names = [[name for name, _ in pairs] for pairs in named]
    if names[0] != names[1] or len(set(names[0])) < len(names[0]):
        return False
    queries = zip((old, new), named, strict=True)
    try:
        one, other = (
            canonicalize_tree(query.tree, query.types, [made for _, made in pairs]) for query, pairs in queries
        )
    except NotMaintained:
        return False
    return one == other


def _explain_lost_input(old: Node, new: Node) -> str:
    lost = [scan.source for scan in list_scans(old) if scan.source not in {other.source for other in list_scans(new)}]
    if lost:
        return f"the query no longer reads {', '.join(map(str, dict.fromkeys(lost)))}"
    return "a subquery, a group or a window of the query changed"


def _map_values(match: BlockMatch, old: Query, own: OwnTable) -> dict[str, exp.Expr]:
    """Maps columns of the table to the expressions by which the old query computes them."""
    named = ((own.columns.get(name.lower()), made) for name, made in old.outputs if name)
    return {column: match.old.values[made] for column, made in named if column is not None}


def _check_key(match: BlockMatch, old: Query, new: Query, own: OwnTable, table: TableRows) -> None:
    """Raises NotEdited if a row of the table may have another key in the new result."""
    for name, before, after in zip(_list_names(old, old.key), old.key, new.key, strict=True):
        value, stored = match.new.values[after], own.columns.get(name.lower())
        is_same = get_bare_form(value) == get_bare_form(match.old.values[before])
        if stored is None or not (is_same or express(value, table.known) == build_column(name_own_column(stored))):
            raise NotEdited(f"the key column {name} is computed in another way")


def _list_names(query: Query, columns: Iterable[str]) -> list[str]:
    named = {made: name for name, made in reversed(query.outputs)}
    return [named[column] for column in columns]


def _keep_rows(match: BlockMatch, table: TableRows) -> list[str]:
    """Joins the table's rows with what the new query joins, and filters them by its new conditions.

    Returns a description of each difference.
    """
    known = {get_condition_form(part) for part in match.old.conditions}
    added = [part for part in match.new.conditions if get_condition_form(part) not in known]
    of_joins = {name for leaf in match.added_leaves for name in leaf.columns}
    own = [part for part in added if of_joins.isdisjoint(list_used_columns(part))]
    differences = [f"where {_format_condition(part)}" for part in own]
    differences += [f"no longer where {_format_condition(part)}" for part in list_removed_conditions(match)]
    differences += [f"no longer joined with {name_sources(part.right)}" for part in match.removed_attached]
    table.join_added_leaves(match.added_leaves, added)
    for part in match.added_attached:
        table.attach(part)
    for condition in added:
        if not is_implied(condition, match.old.conditions):
            table.keep_if(table.resolve(condition, f"the condition {format_expression(condition)}"))
    if match.union is not None and match.union.removed:
        table.keep_if(exp.not_(_tell_removed(match, table)))
        differences.append("parts of a union were removed")
    if match.union is not None and match.union.added:
        differences.append("parts were added to a union")
    return [*differences, *(f"joined with {name}" for name in table.joined)]


def _format_condition(condition: exp.Expr) -> str:
    """Formats a condition for users, also one over columns that the new tree does not have."""
    lost = name_lost_column("")
    named = {name: build_column(name.removeprefix(lost)) for name in list_used_columns(condition)}
    return format_expression(substitute_columns(condition, named))


def _tell_removed(match: BlockMatch, table: TableRows) -> exp.Expr:
    """Builds the condition that a row of the table is of a removed part of a union, by a column with constants."""
    assert match.union is not None
    leaf = match.old.leaves[0]
    assert isinstance(leaf.node, UnionAll)
    for place, value in enumerate(table.list_union_columns(leaf.node.names)):
        inputs = zip(leaf.node.inputs, leaf.inputs, strict=True)
        parts = [block.values[list_columns(part)[place]] for part, block in inputs]
        constants = [part.unnest() for part in parts]
        if value is None or not all(isinstance(part, exp.Literal) for part in constants):
            continue
        removed = {get_bare_form(constants[at]): constants[at] for at in match.union.removed}
        kept = {get_bare_form(part) for at, part in enumerate(constants) if at not in match.union.removed}
        if kept.isdisjoint(removed):
            return exp.In(this=value, expressions=[part.copy() for part in removed.values()])
    raise NotEdited("a part of the union was removed, and no column with a constant tells which rows are of it")


def _pair_rows(match: BlockMatch, new: Query, own: OwnTable, table: TableRows) -> Node | None:
    """Builds the pairs of the table's rows; None if all of them are rows of the new result as they are."""
    values = {
        name: table.resolve(match.new.values[name], _describe_output(new, name)) for name in list_columns(new.tree)
    }
    stored = {name.lower(): build_column(name_own_column(column)) for name, column in own.columns.items()}
    is_changed = any(values[made] != stored.get(name.lower()) for name, made in new.outputs)
    if not is_changed and not table.is_filtered:
        return None
    rows = table.build_rows()
    if not is_changed:
        rows = Filter(rows, exp.not_(build_column(HAS_AFTER)))
    before = [(name_before(column), build_column(name_own_column(column))) for column in own.stored]
    flags = [(HAS_AFTER, build_column(HAS_AFTER)), (HAS_BEFORE, exp.true())]
    after = [(name, table.guard(value)) for name, value in values.items()]
    return Projection(rows, (*after, *before, *flags))


def _describe_output(query: Query, column: str) -> str:
    name = next((name for name, made in query.outputs if made == column and name), "")
    return f"the column {name}" if name else "a column"


def _insert_rows(tree: Node, own: OwnTable) -> Node:
    values = [(name, build_column(name)) for name in list_columns(tree)]
    nothing: list[tuple[str, exp.Expr]] = [(name_before(column), exp.null()) for column in own.stored]
    return Projection(tree, (*values, *nothing, (HAS_AFTER, exp.true()), (HAS_BEFORE, exp.false())))


def _find_repeated_keys(match: BlockMatch, new: Query, table: TableRows, inserted: Iterable[Node]) -> Node:
    key = tuple(dict.fromkeys(new.key))
    kept = Filter(table.build_rows(), build_column(HAS_AFTER))
    values = [(name, table.resolve(match.new.values[name], "the key")) for name in key]
    keys = [project_columns(kept, values), *(select_columns(tree, key) for tree in inserted)]
    count = exp.Count(this=exp.Star(), big_int=True)
    counted = Aggregate(UnionAll(tuple(keys), key), key, ((_COPIES, count),))
    repeated = Filter(counted, exp.GT(this=build_column(_COPIES), expression=exp.Literal.number(1)))
    return prune_columns(select_columns(repeated, key), set(key))


def _describe_columns(match: BlockMatch, old: Query, new: Query) -> Iterable[str]:
    """Describes the columns that only one of the two queries has, or that they compute in two ways."""
    before = {name.lower(): get_bare_form(match.old.values[made]) for name, made in old.outputs}
    after = {name.lower(): get_bare_form(match.new.values[made]) for name, made in new.outputs}
    yield from (f"no column {name}" for name in before if name not in after)
    yield from (f"column {name}" for name, form in after.items() if before.get(name) != form)
