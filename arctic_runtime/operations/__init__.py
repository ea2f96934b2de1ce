"""What can be asked of a table, beside its refresh."""

__all__ = [
    "inspect",
    "node_tree",
]
