"""Semi-join reducers: one read of a large source that keeps only the rows which an incremental plan can need.

If several tables of a join have changed, the plan is a union with one term for each of them, and each term reads the
largest table. The join keys by which the terms look up rows of that table can be computed first. One read then collects
the rows for all terms.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from sqlglot import exp
from typing_extensions import assert_never

from arctic_runtime.ivm.algebra.conditions import (
    Equality,
    build_conjunction,
    list_equalities,
    map_plain_columns,
    split_conjuncts,
    substitute_columns,
)
from arctic_runtime.ivm.algebra.expressions import build_column, get_form, walk_parts
from arctic_runtime.ivm.algebra.tree import (
    Aggregate,
    Distinct,
    Explode,
    Filter,
    Image,
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
    list_children,
    list_columns,
    list_scans,
    map_children,
)
from arctic_runtime.ivm.rewrite.predicate_pushdown import push_down_filters
from arctic_runtime.ivm.rules.operators.semi_join import is_membership_change
from arctic_runtime.ivm.rules.restrict import restrict_to_keys
from arctic_runtime.ivm.rules.terms import project_columns, select_columns
from arctic_runtime.model.names import TableName

_MOST_LOOKS = 3
"""Maximum number of reads of one source of which each supplies the values that the next one looks up.

No reducer is planned if more reads would be needed.
"""

_COMPARISONS = (
    *(exp.Column, exp.Identifier, exp.Literal, exp.Boolean, exp.Null, exp.Cast, exp.DataType, exp.DataTypeParam),
    *(exp.Paren, exp.And, exp.Or, exp.Not),
    *(exp.EQ, exp.NEQ, exp.GT, exp.GTE, exp.LT, exp.LTE, exp.NullSafeEQ, exp.Between, exp.In, exp.Is),
)


@dataclass(frozen=True)
class RowLookup:
    """Selects the rows of a source whose columns `fields` equal, by position, a row that the tree `values` computes.

    `fields` are names in the source table. Nulls are equal to each other if `null_safe`.
    """

    fields: tuple[str, ...]
    values: Node
    null_safe: bool


@dataclass(frozen=True)
class SemiJoinReducer:
    """One read of `source` for the rows that match any of the `lookups`; plans read these rows in place of `scans`.

    The read also filters by `condition`, over the source's own columns, unless it is None. The rows are stored as
    spools, one for each image of the source, whose names begin with `name`.
    """

    source: TableName
    name: str
    lookups: tuple[RowLookup, ...]
    scans: tuple[Scan, ...]
    condition: exp.Expr | None = None

    @property
    def images(self) -> dict[Image, str]:
        """Maps each image of the source that the plans read to the name of its spool."""
        return {scan.image: f"{self.name}_{scan.image}" for scan in self.scans}

    def reduce_tree(self, tree: Node) -> Node:
        """Replaces the scans of the source's rows in a tree by scans of the spools; scans of its changes remain."""
        if isinstance(tree, Scan):
            return self._spool_scan(tree) if _list_row_scans(tree, self.source) else tree
        return map_children(tree, self.reduce_tree)

    def _spool_scan(self, scan: Scan) -> Node:
        rows = SpoolScan(self.images[scan.image], tuple(dict.fromkeys(own for _, own in scan.fields)))
        return Projection(rows, tuple((made, build_column(own)) for made, own in scan.fields))

    @property
    def full_scan(self) -> Scan:
        """Scan of all current rows of the source, with all columns that the plans read."""
        fields = dict.fromkeys(name for scan in self.scans for _, name in scan.fields)
        key = next((scan.key for scan in self.scans if scan.key), None)
        named = {made: name for scan in self.scans for made, name in scan.fields}
        return Scan(self.source, tuple((name, name) for name in fields), key and tuple(named[part] for part in key))

    @property
    def changes(self) -> Scan | None:
        """Scan of the source's changes, to derive old rows from current rows; None if no plan reads old rows."""
        is_new = all(scan.image == "new" for scan in self.scans)
        return None if is_new else replace(self.full_scan, image="delta")

    @property
    def input_trees(self) -> tuple[Node, ...]:
        """Trees that must be computed besides the read of the source: the lookups' values and, if any, `changes`."""
        made = tuple(one.values for one in self.lookups)
        return made if self.changes is None else (*made, self.changes)


def add_reducers(
    trees: Sequence[Node], sources: Iterable[TableName], few: Collection[str] = ()
) -> tuple[tuple[Node, ...], tuple[SemiJoinReducer, ...]]:
    """Replaces reads of `sources` in `trees` by reads of semi-join reducers, unless a tree needs all rows of a source.

    Returns the new trees, and the reducers in the order in which they must be computed, because one may read the rows
    of an earlier one. `few` are the names of spools that have about as many rows as the sources have changed rows.
    """
    added: list[SemiJoinReducer] = []
    for source in sources:
        known = frozenset(few).union(*(part.images.values() for part in added))
        made = _plan_reducers(trees, source, known, len(added))
        if made:
            trees = [made[-1].reduce_tree(tree) for tree in trees]
            added.extend(made)
    return tuple(trees), tuple(added)


def _plan_reducers(
    trees: Sequence[Node], source: TableName, few: frozenset[str], first: int, depth: int = 1
) -> tuple[SemiJoinReducer, ...]:
    """Plans the reducer of a source, preceded by reducers of the same source from which its lookups take their values.

    The reducers are numbered from `first`; `depth` is the number of reads that depend on this one, plus 1. Empty if the
    trees need all rows of the source, or if `depth` would exceed its limit.
    """
    lookups = _collect_lookups(trees, source, few)
    if not lookups:
        return ()
    repeated = [one.values for one in lookups if _list_row_scans(one.values, source)]
    helpers = _plan_reducers(repeated, source, few, first, depth + 1) if repeated and depth < _MOST_LOOKS else ()
    if repeated and not helpers:
        return ()
    if helpers:
        lookups = tuple(replace(one, values=helpers[-1].reduce_tree(one.values)) for one in lookups)
    read = tuple(scan for tree in trees for scan in _list_row_scans(tree, source))
    part = SemiJoinReducer(
        source, f"__arctic_part_{first + len(helpers)}", lookups, read, _find_common_condition(trees, source)
    )
    return (*helpers, part)


def _collect_lookups(trees: Iterable[Node], source: TableName, few: frozenset[str]) -> tuple[RowLookup, ...] | None:
    """Collects lookups that together select all rows of a source, old or current, that the trees can need.

    None if the trees can need all rows. `few` is as in `add_reducers`.
    """
    collector = _LookupCollector(source, few)
    try:
        for tree in trees:
            collector.visit_node(tree, ())
    except _NeedsAllRows:
        return None
    return tuple(dict.fromkeys(collector.lookups))


def _list_row_scans(tree: Node, source: TableName) -> tuple[Scan, ...]:
    """Lists the scans of a source in a tree, except those that read only the source's changes."""
    return tuple(scan for scan in list_scans(tree) if scan.source == source and scan.reads_rows)


def _find_common_condition(trees: Iterable[Node], source: TableName) -> exp.Expr | None:
    """Finds the conjuncts by which every scan of a source is filtered; None if there are none.

    They are over the source's own columns. Only comparisons are returned, because a pattern match of a row costs more
    than the lookup of the row.
    """
    condition_sets = [
        {get_form(part): part for part in conditions}
        for tree in trees
        for conditions in _list_scan_conditions(push_down_filters(tree), source)
    ]
    common = set(condition_sets[0]).intersection(*condition_sets[1:])
    return build_conjunction(
        part for made, part in condition_sets[0].items() if made in common and _is_comparison(part)
    )


def _is_comparison(condition: exp.Expr) -> bool:
    return all(isinstance(part, _COMPARISONS) for part in walk_parts(condition))


def _list_scan_conditions(node: Node, source: TableName) -> Iterator[tuple[exp.Expr, ...]]:
    """Yields, for each scan of a source's rows, the conjuncts of the filter on it, over the source's own columns."""
    scan, conditions = (node.child, split_conjuncts(node.condition)) if isinstance(node, Filter) else (node, ())
    if not isinstance(scan, Scan):
        for child in list_children(node):
            yield from _list_scan_conditions(child, source)
    elif scan.source == source and scan.reads_rows:
        own = {name: build_column(field) for name, field in scan.fields}
        yield tuple(substitute_columns(part, own) for part in conditions)


class _NeedsAllRows(Exception):
    """Raised if a tree needs all rows of a source, so that no set of lookups selects enough of them."""


@dataclass(frozen=True)
class _Restriction:
    """Restriction of a tree to the rows whose `columns` equal, by position, a row that the tree `values` computes.

    Nulls are equal to each other if `null_safe`.
    """

    columns: tuple[str, ...]
    values: Node
    null_safe: bool


_Restrictions = tuple[_Restriction, ...]


@dataclass(frozen=True)
class _LookupCollector:
    """Collects one lookup for each scan of a source's rows in a tree.

    If several restrictions apply to a scan, each of them alone selects enough rows. `few` is as in `add_reducers`.
    `small` caches the results of `is_small` by the id of the node.
    """

    source: TableName
    few: frozenset[str]
    lookups: list[RowLookup] = field(default_factory=list)
    small: dict[int, tuple[Node, bool]] = field(default_factory=dict)

    def visit_node(self, node: Node, restrictions: _Restrictions) -> None:
        """Adds a lookup to `lookups` for each scan of the source at or below `node`.

        Only those rows of `node` are needed that meet all `restrictions`.
        """
        if not _list_row_scans(node, self.source):
            return
        match node:
            case Scan():
                self._note_lookup(node, restrictions)
            case SpoolScan() | OneRow():
                pass
            case Projection(child=child, expressions=expressions):
                self.visit_node(child, _rename_restrictions(restrictions, map_plain_columns(expressions)))
            case Filter(child=child) | Distinct(child=child):
                self.visit_node(child, restrictions)
            case Aggregate(child=child, keys=names) | WindowColumns(child=child, partition=names):
                self.visit_node(child, _rename_restrictions(restrictions, {name: name for name in names}))
            case Explode(child=child):
                self.visit_node(child, _rename_restrictions(restrictions, {name: name for name in list_columns(child)}))
            case Join() | SemiJoin():
                for side, below in zip((node.left, node.right), self._split_by_side(node, restrictions), strict=True):
                    self.visit_node(side, below)
            case UnionAll(names=names) | SetOperation(names=names):
                for part in list_children(node):
                    self.visit_node(
                        part, _rename_restrictions(restrictions, dict(zip(names, list_columns(part), strict=True)))
                    )
            case _:
                assert_never(node)

    def _note_lookup(self, node: Scan, restrictions: _Restrictions) -> None:
        """Adds the lookup for one scan: by the one of the `restrictions` whose values are cheapest to compute.

        The values may be a superset of those needed if they are values of the source's key, because a lookup by the key
        returns at most one row for each, and if the exact values would need another read of the source. Raises
        `_NeedsAllRows` if `restrictions` is empty.
        """
        if not restrictions:
            raise _NeedsAllRows
        fields = dict(node.fields)
        ways = [
            self._select_superset(one.values, list_columns(one.values))
            if set(node.key or ()) == set(one.columns) or _list_row_scans(one.values, self.source)
            else one.values
            for one in restrictions
        ]
        values, best = min(zip(ways, restrictions, strict=True), key=lambda way: self._rank_cost(way[0]))
        self.lookups.append(RowLookup(tuple(fields[name] for name in best.columns), values, best.null_safe))

    def _rank_cost(self, values: Node) -> tuple[int, int]:
        whole = [scan.source for scan in list_scans(values) if not self.is_small(scan)]
        return whole.count(self.source), len(whole)

    def _split_by_side(self, node: Join | SemiJoin, restrictions: _Restrictions) -> tuple[_Restrictions, _Restrictions]:
        """Derives the restrictions of the left and right side of a join from `restrictions`, those of its result.

        A restriction of a column of one side also restricts the columns of the other side that equal it. Besides, a
        side is restricted to rows with join keys that the other side has.
        """
        if node.kind == "full":
            return (), ()
        equal = list_equalities(node.on, list_columns(node.left), list_columns(node.right))
        to_right, to_left = {pair.left: pair.right for pair in equal}, {pair.right: pair.left for pair in equal}
        own = {name: name for name in list_columns(node)}
        left = _rename_restrictions(
            restrictions, {**(to_left if node.kind == "inner" else {}), **_select_side_columns(own, node.left)}
        )
        right = _rename_restrictions(
            restrictions, {**to_right, **(_select_side_columns(own, node.right) if node.kind == "inner" else {})}
        )
        by_left = self._restrict_partners(node.left, left, equal, to_right)
        by_right = self._restrict_partners(node.right, right, equal, to_left) if node.kind in ("inner", "semi") else ()
        return (*left, *by_right), (*right, *by_left)

    def _restrict_partners(
        self, side: Node, restrictions: _Restrictions, equal: Collection[Equality], others: Mapping[str, str]
    ) -> _Restrictions:
        """Derives restrictions of the other side of a join to the join keys of the rows of `side`.

        `others` maps the join columns of `side` to those of the other side. If `side` has many rows, each restriction
        in `restrictions`, which are those of `side`, gives a restriction to the join keys of the rows that meet it.
        """
        if not equal:
            return ()
        null_safe = any(pair.null_safe for pair in equal)
        limits = ((one.columns, one.values, one.null_safe) for one in restrictions)
        few = [side] if self.is_small(side) else [restrict_to_keys(side, *one) for one in limits]
        return tuple(
            _Restriction(tuple(others.values()), select_columns(rows, tuple(others)), null_safe) for rows in few
        )

    def is_small(self, node: Node) -> bool:
        """Whether a tree has about as many rows as the sources have changed rows; the answer is cached in `small`."""
        if id(node) not in self.small:
            self.small[id(node)] = (node, self._is_small(node))
        return self.small[id(node)][1]

    def _is_small(self, node: Node) -> bool:
        match node:
            case Scan():
                return not node.reads_rows
            case SpoolScan(name=name):
                return name in self.few
            case OneRow():
                return True
            case Filter() if is_membership_change(node):
                return True
            case Projection() | Filter() | Distinct() | Explode() | Aggregate() | WindowColumns():
                return self.is_small(node.child)
            case Join(kind="full") | UnionAll():
                return all(map(self.is_small, list_children(node)))
            case Join(kind="inner") | SemiJoin(kind="semi"):
                has_link = bool(list_equalities(node.on, list_columns(node.left), list_columns(node.right)))
                return has_link and any(map(self.is_small, list_children(node)))
            case Join() | SemiJoin() | SetOperation(kind="except"):
                return self.is_small(node.left)
            case SetOperation():
                return any(map(self.is_small, list_children(node)))
            case _:
                assert_never(node)

    def _select_superset(self, node: Node, names: tuple[str, ...]) -> Node:
        """Builds a tree of the values of the columns `names` of `node`, or of a superset that is cheaper to compute.

        The superset is that of a side of a join before the join, if the side is small and has the columns.
        """
        match node:
            case Projection(child=child, expressions=expressions) if set(names) <= set(map_plain_columns(expressions)):
                inner = map_plain_columns(expressions)
                below = self._select_superset(child, tuple(dict.fromkeys(inner[name] for name in names)))
                return project_columns(below, [(name, build_column(inner[name])) for name in names])
            case SemiJoin(kind="semi") if set(names) <= (equal := self._map_right_columns(node)).keys():
                below = self._select_superset(node.right, tuple(dict.fromkeys(equal[name] for name in names)))
                return project_columns(below, [(name, build_column(equal[name])) for name in names])
            case Join() | SemiJoin():
                sides = (node.left, node.right) if node.kind == "inner" else (node.left,)
                alone = (side for side in sides if self.is_small(side) and set(names) <= set(list_columns(side)))
                small_side = next(alone, None) if node.kind != "full" else None
                return self._select_superset(small_side, names) if small_side else select_columns(node, names)
            case UnionAll(inputs=inputs):
                places = [node.names.index(name) for name in names]
                at = (tuple(list_columns(part)[place] for place in places) for part in inputs)
                return UnionAll(tuple(map(self._select_superset, inputs, at)), names)
            case Aggregate(child=child, keys=keys) if set(names) <= set(keys):
                return self._select_superset(child, names)
            case _:
                return select_columns(node, names)

    def _map_right_columns(self, node: SemiJoin) -> dict[str, str]:
        """Maps the left join columns of a semi-join to the right ones, which have all their values.

        Empty unless the right side is small and the left side is not.
        """
        if self.is_small(node.left) or not self.is_small(node.right):
            return {}
        pairs = list_equalities(node.on, list_columns(node.left), list_columns(node.right))
        return {pair.left: pair.right for pair in pairs}


def _select_side_columns(names: Mapping[str, str], side: Node) -> dict[str, str]:
    return {name: own for name, own in names.items() if name in list_columns(side)}


def _rename_restrictions(restrictions: _Restrictions, names: Mapping[str, str]) -> _Restrictions:
    """Renames the columns of restrictions by `names`, to columns of an input; other columns are dropped."""
    renamed = []
    for one in restrictions:
        positions = [place for place, name in enumerate(one.columns) if name in names]
        if positions:
            values = select_columns(one.values, [list_columns(one.values)[place] for place in positions])
            renamed.append(_Restriction(tuple(names[one.columns[place]] for place in positions), values, one.null_safe))
    return tuple(renamed)
