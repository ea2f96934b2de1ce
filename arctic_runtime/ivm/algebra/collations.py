"""Refuses queries that use collations, by which different texts can be equal, for example regardless of case.

Maintenance compares keys exactly, without collations, and added and removed rows cancel out only if they are
identical. So a collation may be used only in conditions, which are evaluated for one row or one pair of rows at a time.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from sqlglot import exp

from arctic_runtime.ivm.algebra.expressions import walk_parts
from arctic_runtime.ivm.algebra.refusal import NotMaintained
from arctic_runtime.ivm.algebra.tree import Aggregate, Explode, Node, Projection, Scan, WindowColumns, walk_tree


def check_collations(tree: Node, types: Mapping[str, str]) -> None:
    """Raises NotMaintained if `tree` uses a collation outside of conditions, or reads a column with a collation.

    `types` are the types of the columns of the tree, by name.
    """
    for node in walk_tree(tree):
        if any(has_collation(part) for value in _list_values(node) for part in walk_parts(value)):
            raise NotMaintained("UNSUPPORTED", "a collation outside of conditions; write lower(…) or upper(…) instead")
        named = node.fields if isinstance(node, Scan) else ()
        collated = next((stored for name, stored in named if "collate" in types.get(name, "").lower()), None)
        if collated is not None:
            raise NotMaintained("UNSUPPORTED", f"{collated} is a column with a collation")


def has_collation(part: exp.Expr) -> bool:
    """Whether `part` itself, without the expressions inside it, applies a collation or is a type with one."""
    if isinstance(part, exp.DataType):
        return "collate" in part.sql(dialect="spark").lower()
    return isinstance(part, exp.Collate) or (isinstance(part, exp.Anonymous) and part.name.upper() == "COLLATE")


def _list_values(node: Node) -> Iterable[exp.Expr]:
    match node:
        case Projection(expressions=named) | WindowColumns(expressions=named) | Aggregate(aggregates=named):
            return [value for _, value in named]
        case Explode(generator=generator):
            return [generator]
        case _:
            return ()
