"""The vocabulary: what a table, a version, a window, a state and a step are. Data only."""

__all__ = [
    "branch",
    "change_set",
    "columns",
    "compaction",
    "declared",
    "expiry",
    "hash_tree",
    "key",
    "layout",
    "names",
    "placement",
    "properties",
    "run_summary",
    "savepoint",
    "shape",
    "state",
    "step",
    "table",
    "types",
    "version",
]
