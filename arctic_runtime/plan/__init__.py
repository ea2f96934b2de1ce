"""Pure decisions: from what was observed to what has to be done. No Spark, no clock, no I/O."""

__all__ = [
    "base_rewrite",
    "bucket_resizing",
    "changelog_compaction",
    "commit_groups",
    "compaction",
    "config_readers",
    "configuration",
    "configure",
    "cost",
    "decide",
    "expiry",
    "fingerprint",
    "hash_trees",
    "increment",
    "landing",
    "maintenance_settings",
    "reconcile",
    "savepoint",
    "schema",
    "split",
]
