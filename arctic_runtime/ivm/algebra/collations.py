"""Texts that compare equal and are not the same, as under a collation that does not look at case.

Keys of what may differ are compared as they are, and added and removed rows cancel out where they are the same. So a
collation may be part of a condition, which is asked of one row or one pair at a time, and of nothing else.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from sqlglot import exp

from arctic_runtime.ivm.algebra.expressions import parts
from arctic_runtime.ivm.algebra.refusal import NotMaintained
from arctic_runtime.ivm.algebra.tree import Aggregate, Explode, Node, Project, Scan, Window, walk


def check_collations(tree: Node, types: Mapping[str, str]) -> None:
    """Raises NotMaintained where a column, a group, a partition or a value is compared by a collation."""
    for node in walk(tree):
        if any(collates(part) for value in _values(node) for part in parts(value)):
            raise NotMaintained("UNSUPPORTED", "a collation outside of conditions; write lower(…) or upper(…) instead")
        named = node.fields if isinstance(node, Scan) else ()
        found = next((stored for name, stored in named if "collate" in types.get(name, "").lower()), None)
        if found is not None:
            raise NotMaintained("UNSUPPORTED", f"{found} is a column with a collation")


def collates(part: exp.Expr) -> bool:
    """Whether a part of an expression gives a text a collation."""
    if isinstance(part, exp.DataType):
        return "collate" in part.sql(dialect="spark").lower()
    return isinstance(part, exp.Collate) or (isinstance(part, exp.Anonymous) and part.name.upper() == "COLLATE")


def _values(node: Node) -> Iterable[exp.Expr]:
    match node:
        case Project(expressions=named) | Window(expressions=named) | Aggregate(aggregates=named):
            return [value for _, value in named]
        case Explode(generator=generator):
            return [generator]
        case _:
            return ()
