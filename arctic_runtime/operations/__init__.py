"""Operations on a table, beside its refresh."""

__all__ = [
    "arguments",
    "changing",
    "forgetting",
    "inspect",
    "looking",
    "maintaining",
    "node_tree",
    "operation",
    "refreshing",
    "registry",
    "upkeep",
    "verify",
]
