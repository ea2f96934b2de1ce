"""Reading a catalog and the metadata of its tables by pyiceberg, without Spark."""

__all__ = [
    "disk_files",
    "embedded_warehouse",
    "foreign_types",
    "heads",
    "landing",
    "lease",
    "lookup",
    "manifests",
    "metered_io",
    "observe",
    "observe_views",
    "partial_progress",
    "pinned_snapshots",
    "reader",
    "removals",
    "service_table",
    "sqlite_file",
    "table_facts",
    "unmerged_rows",
]
