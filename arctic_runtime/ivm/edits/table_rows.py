"""The rows of a model's own table, joined with what an edited query joins further, and filtered as it filters them."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence

from sqlglot import exp

from arctic_runtime.ivm.algebra.conditions import build_conjunction, list_equalities
from arctic_runtime.ivm.algebra.expressions import Form, build_column, list_used_columns
from arctic_runtime.ivm.algebra.tree import (
    HAS_AFTER,
    Distinct,
    Join,
    Node,
    Projection,
    Scan,
    list_columns,
    list_scans,
)
from arctic_runtime.ivm.algebra.unique import is_one_partner
from arctic_runtime.ivm.edits.block import Attached, Leaf, express, get_bare_form, list_missing_columns
from arctic_runtime.ivm.edits.matching import BlockMatch, name_lost_column
from arctic_runtime.ivm.edits.refused import NotEdited
from arctic_runtime.ivm.rules.terms import select_columns
from arctic_runtime.model.names import TableName

_OWN, _FOUND = "__arctic_own_", "__arctic_found_"


def name_own_column(column: str) -> str:
    """Returns the name that a column of the table has in trees."""
    return f"{_OWN}{column}"


class TableRows:
    """Builds the tree that has one row for each row of the table, with all that the new query computes from it.

    `known` has expressions of the new query that are columns of this tree.
    """

    def __init__(self, node: Node, known: Mapping[Form, exp.Expr], match: BlockMatch) -> None:
        self.known: dict[Form, exp.Expr] = dict(known)
        self.joined: list[str] = []
        self._node = node
        self._match = match
        self._conditions: list[exp.Expr] = []
        self._sought: set[str] = set()

    @classmethod
    def scan(
        cls, table: TableName, columns: Sequence[str], values: Mapping[str, exp.Expr], match: BlockMatch
    ) -> TableRows:
        """Scans the table; `values` are the expressions of the old query by which its columns were computed."""
        known: dict[Form, exp.Expr] = {}
        for column, value in values.items():
            if list_used_columns(value):
                known.setdefault(get_bare_form(value), build_column(name_own_column(column)))
        fields = tuple((name_own_column(column), column) for column in columns)
        rows = cls(Scan(table, fields), known, match)
        rows._learn_equal_columns()
        return rows

    def _learn_equal_columns(self) -> None:
        """Adds to the known columns those that equal one of them in every row of the table."""
        for left, right in self._list_equal_columns():
            own = self.known.get(get_bare_form(build_column(left)))
            if own is not None:
                self.known.setdefault(get_bare_form(build_column(right)), own)

    def _list_equal_columns(self) -> list[tuple[str, str]]:
        named = ((part, list_used_columns(part)) for part in self._match.old.conditions)
        pairs = (pair for part, names in named for pair in list_equalities(part, names, names))
        return [(pair.left, pair.right) for pair in pairs if pair.same]

    @property
    def is_filtered(self) -> bool:
        """Whether rows of the table may be no rows of the new result."""
        return bool(self._conditions)

    def keep_if(self, condition: exp.Expr) -> None:
        """Drops the rows for which a condition over columns of the tree is not true."""
        self._conditions.append(exp.Coalesce(this=condition, expressions=[exp.false()]))

    def build_rows(self) -> Node:
        """Builds the tree, with the flag HAS_AFTER: whether the row is one of the new result."""
        flag = build_conjunction(part.copy() for part in self._conditions) or exp.true()
        columns = ((name, build_column(name)) for name in list_columns(self._node))
        return Projection(self._node, (*columns, (HAS_AFTER, flag)))

    def guard(self, value: exp.Expr) -> exp.Expr:
        """Lets an expression be computed only for rows of the new result; for others it could raise an error."""
        is_safe = isinstance(value.unnest(), exp.Column | exp.Literal | exp.Boolean | exp.Null)
        return value if is_safe or not self.is_filtered else exp.case().when(build_column(HAS_AFTER), value)

    def list_union_columns(self, names: Iterable[str]) -> list[exp.Expr | None]:
        """Lists for columns of an old union the columns of the tree; None for one that the table lacks."""
        named = (self._match.columns.get(name, name_lost_column(name)) for name in names)
        return [self.known.get(get_bare_form(build_column(name))) for name in named]

    def resolve(self, value: exp.Expr, what: str) -> exp.Expr:
        """Writes an expression of the new query over columns of the tree; joins a source again if the table lacks one.

        Raises NotEdited if that is impossible; `what` names the expression for users.
        """
        for name in list_missing_columns(value, self.known):
            self._join_again(name)
        made = express(value, self.known)
        if made is None:
            raise NotEdited(f"{what} reads what the table does not have")
        return made

    def _join_again(self, column: str) -> None:
        """Joins the row of a source from which the rows of the table come, by the source's key, if the table has it."""
        if get_bare_form(build_column(column)) in self.known or column in self._sought:
            return
        self._sought.add(column)
        for leaf in (self._match.new.leaves[place] for place in self._match.leaves):
            if column in leaf.columns and isinstance(leaf.node, Scan) and leaf.node.key:
                self._join_by_key(leaf.node, leaf.node.key)
        for part in (self._match.new.attached[place] for place in self._match.attached if place is not None):
            if column in part.columns:
                self._join_if_unique(part.right, part.on)

    def _join_by_key(self, node: Scan, key: Sequence[str]) -> None:
        equal = self._list_equal_columns()
        for part in key:
            for other in (left for left, right in equal if right == part):
                self._join_again(other)
        own = [(self.known.get(get_bare_form(build_column(part))), part) for part in key]
        on = [exp.EQ(this=one.copy(), expression=build_column(part)) for one, part in own if one is not None]
        if len(on) == len(key):
            self._join_partner(node, on)

    def join_added_leaves(self, leaves: Iterable[Leaf], conditions: list[exp.Expr]) -> None:
        """Joins the inputs that only the new query has, and removes the conditions of these joins from `conditions`.

        Raises NotEdited if a row of the table may have several partners.
        """
        waiting = list(leaves)
        while waiting:
            leaf = next((leaf for leaf in waiting if self._join_leaf(leaf, conditions)), None)
            if leaf is None:
                raise NotEdited(f"a row may have several partners in the join with {name_sources(waiting[0].node)}")
            waiting.remove(leaf)

    def _join_leaf(self, leaf: Leaf, conditions: list[exp.Expr]) -> bool:
        own = set(leaf.columns)
        parts = [part for part in conditions if own.intersection(list_used_columns(part))]
        written = [(part, self._write_condition(part, leaf.columns)) for part in parts]
        usable = [(part, made) for part, made in written if made is not None]
        on = build_conjunction(made for _, made in usable)
        if not is_one_partner(list_columns(self._node), leaf.node, on):
            return False
        self._join_partner(leaf.node, [made for _, made in usable], is_asked="inner")
        self.joined.append(name_sources(leaf.node))
        used = [id(part) for part, _ in usable]
        conditions[:] = [part for part in conditions if id(part) not in used]
        return True

    def attach(self, part: Attached) -> None:
        """Joins the right side of a left, semi or anti join; raises NotEdited if a row may have several partners."""
        what = name_sources(part.right)
        self.joined.append(what)
        if part.kind == "left":
            if not self._join_if_unique(part.right, part.on):
                raise NotEdited(f"a row may have several partners in the join with {what}")
            return
        names = list_columns(part.right)
        on = self._write_conditions(part.on, names)
        if on is None:
            raise NotEdited(f"the condition of the join with {what} reads what the table does not have")
        right = part.right
        if not is_one_partner(list_columns(self._node), right, build_conjunction(on)):
            pairs = list_equalities(build_conjunction(on), list_columns(self._node), names)
            if not on or len(pairs) != len(on):
                raise NotEdited(f"the condition of the join with {what} has more than equalities of columns")
            right = Distinct(select_columns(right, tuple(dict.fromkeys(pair.right for pair in pairs))))
        self._join_partner(right, on, is_asked=part.kind)

    def _join_if_unique(self, right: Node, conditions: Iterable[exp.Expr]) -> bool:
        on = self._write_conditions(conditions, list_columns(right))
        if on is None or not is_one_partner(list_columns(self._node), right, build_conjunction(on)):
            return False
        self._join_partner(right, on)
        return True

    def _write_conditions(self, conditions: Iterable[exp.Expr], right: Collection[str]) -> list[exp.Expr] | None:
        """Writes the conditions of a join over columns of the tree and `right`, those of the right side."""
        made = [self._write_condition(part, right) for part in conditions]
        return None if None in made else [part for part in made if part is not None]

    def _write_condition(self, condition: exp.Expr, right: Collection[str]) -> exp.Expr | None:
        own = _keep_names(right)
        for name in list_missing_columns(condition, {**self.known, **own}):
            self._join_again(name)
        return express(condition, {**self.known, **own})

    def _join_partner(self, right: Node, on: Sequence[exp.Expr], is_asked: str = "left") -> None:
        """Joins at most one partner to each row; its columns become known.

        With `is_asked`, rows without a partner (`inner`, `semi`), or those with one (`anti`), are dropped.
        """
        names = list_columns(right)
        if is_asked != "left":
            found = f"{_FOUND}{len(list_columns(self._node))}"
            right = Projection(right, (*((name, build_column(name)) for name in names), (found, exp.true())))
            is_alone = exp.Is(this=build_column(found), expression=exp.null())
            self._conditions.append(is_alone if is_asked == "anti" else exp.not_(is_alone))
        self._node = Join("left", self._node, right, build_conjunction(on))
        if is_asked in ("left", "inner"):
            for form, column in _keep_names(names).items():
                self.known.setdefault(form, column)
            self._learn_equal_columns()


def _keep_names(names: Iterable[str]) -> dict[Form, exp.Expr]:
    return {get_bare_form(build_column(name)): build_column(name) for name in names}


def name_sources(node: Node) -> str:
    """Names the sources that a tree reads, for users."""
    return ", ".join(dict.fromkeys(str(scan.source) for scan in list_scans(node))) or "a single row"
