"""Normal form of the tree of a query: two queries with equal normal forms return the same rows.

Comments, formatting, aliases, names of CTEs, the order of conditions and of the inputs of inner joins, `*` in the place
of a list of all columns, parentheses and casts to the same type leave no trace in it. Any other difference of two
queries may make their normal forms unequal, even if the queries return the same rows.

As everywhere in maintenance, functions whose result depends on the order of rows, such as `first` and `collect_list`,
may return any value that a full run could return.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from arctic_runtime.ivm.algebra.refusal import NotMaintained
from arctic_runtime.ivm.algebra.tree import Node, list_columns
from arctic_runtime.ivm.canonical.flatten import flatten_tree
from arctic_runtime.ivm.canonical.order import order_tree
from arctic_runtime.ivm.frontend.analyse import Analysed
from arctic_runtime.ivm.frontend.fresh_attributes import with_fresh_attributes
from arctic_runtime.ivm.frontend.scope import Derived, Names
from arctic_runtime.ivm.rewrite.column_pruning import prune_columns


def canonicalize_query(analysis: Analysed) -> Node:
    """Returns the normal form of a query: equal ones (`==`) have the same rows, with the same columns in order.

    The names of the output columns are not part of it. It has a column for each of them, also where two are one column
    of the analysed tree. Raises NotMaintained as `canonicalize_tree` does.
    """
    return canonicalize_tree(analysis.tree, analysis.types, [made for _, made in analysis.outputs])


def canonicalize_tree(tree: Node, types: Mapping[str, str] | None = None, columns: Sequence[str] | None = None) -> Node:
    """Returns the normal form of a tree that `analyse_query` returned: equal ones (`==`) have the same rows.

    `types` are those of the analysis; without them casts to the same type are kept. `columns` are the columns of the
    tree that the result has, in order; without them it has all, at their positions. It gives them other names. Trees
    are comparable if they were analysed with the same tables and views. Raises NotMaintained if the tree is nested too
    deeply.
    """
    try:
        flat = flatten_tree(tree, types or {}, list_columns(tree) if columns is None else columns)
        ordered = order_tree(prune_columns(flat, set(list_columns(flat))))
        return with_fresh_attributes(Derived(ordered, ()), Names()).node
    except RecursionError as error:
        raise NotMaintained("UNSUPPORTED", "the query is nested too deeply") from error
