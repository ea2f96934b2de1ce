"""Placement of a table's files, as far as joins can use it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Placement:
    """Placement of a table's files: the column that its nodes are of, and the numbers of nodes that files are among.

    There is one number, unless files of several depths lie side by side. `partitions` are the columns that the table
    is partitioned by besides. `otherwise` says why there are no nodes to join by, if that is so.
    """

    column: str = ""
    nodes: tuple[int, ...] = ()
    partitions: tuple[str, ...] = ()
    otherwise: str = ""


NOT_BUCKETED = Placement(otherwise="is not bucketed")
