"""Every configuration key of an arctic model: its reader, its default, its effect, and its row in the documentation."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

from arctic_runtime.model.table import (
    Changelog,
    FormatVersion,
    Input,
    Merge,
    OnConfigurationChange,
    OnMatch,
    OnSchemaChange,
    Refresh,
)
from arctic_runtime.plan.config_readers import (
    read_file_size,
    read_names,
    read_nodes,
    read_properties,
    read_renamed,
    read_text,
    read_transforms,
    reader_of,
)
from arctic_runtime.plan.maintenance_settings import read_compaction, read_retention


@dataclass(frozen=True)
class ConfigKey:
    """A configuration key; `values`, `default` and `meaning` are Markdown, as docs/configuration.md shows them.

    `read` makes the typed value of the field of `ModelConfig` that has the key's name, which has the default as well;
    None for a key that is not built yet. `only` are the values that are supported so far; None for all.
    """

    name: str
    values: str
    default: str
    meaning: str
    read: Callable[[str, Any], Any] | None = None
    only: tuple[str, ...] | None = None
    needs_changes: bool = False
    """Whether the key has a meaning with `input: changes` alone."""

    is_filled_by_dbt: bool = False
    """Whether dbt fills in a default of its own where a user wrote none."""

    effect: Literal["rows", "layout", "none"] = "none"
    """What another value means for a table that is there: its rows are computed in full (`rows`: the value is in the
    fingerprint), its base is laid out anew (`layout`), or neither."""


CONFIGURATION = (
    ConfigKey(
        "primary_key",
        "column, or list of columns",
        "required",
        (
            "identifies a row: never null, unique in the table. `[]` for a query with exactly one row. It can't "
            "be changed later"
        ),
        read=read_names,
    ),
    ConfigKey(
        "unique_key",
        "column, or list of columns",
        "",
        "another name of `primary_key`",
        read=read_names,
    ),
    ConfigKey(
        "partition_by",
        "column, transform, or list",
        "none",
        (
            "level 1 of the layout: `c`, `years(c)`, `months(c)`, `days(c)`, `hours(c)`, `bucket(n, c)`, "
            "`truncate(w, c)`"
        ),
        read=read_transforms,
        effect="layout",
    ),
    ConfigKey(
        "hash_key",
        "column",
        "first column of `primary_key`",
        (
            "level 2: the column of the primary key that buckets the nodes. A number, text, date or timestamp; "
            "no boolean or float"
        ),
        read=read_text,
        effect="layout",
    ),
    ConfigKey(
        "sort_key",
        "column, or list of columns",
        "none",
        "level 3: rows inside a node are sorted by it",
        read=read_names,
        effect="layout",
    ),
    ConfigKey(
        "merge",
        "`on_write`, `on_read`",
        "`on_write`",
        "`on_write`: every run merges into the table. `on_read`: the table is a view over base and changes",
        read=reader_of(Merge),
    ),
    ConfigKey(
        "input",
        "`state`, `changes`",
        "`state`",
        "`state`: the query says what the table is. `changes`: it says what happened",
        read=reader_of(Input),
    ),
    ConfigKey(
        "refresh",
        "`auto`, `incremental`, `strict`, `full`",
        "`auto`",
        "how a model of `input: state` follows its upstreams: [below](#refresh)",
        read=reader_of(Refresh),
    ),
    ConfigKey(
        "sequence_by",
        "column",
        "none",
        "changes: the event with the highest value wins. A number, text, date or timestamp, never null",
        read=read_text,
        needs_changes=True,
    ),
    ConfigKey(
        "delete_when",
        "SQL predicate",
        "none",
        "changes: which events delete the row. Over the columns of the query",
        read=read_text,
        needs_changes=True,
    ),
    ConfigKey(
        "truncate_when",
        "SQL predicate",
        "none",
        "changes: which events empty the table",
        only=(),
    ),
    ConfigKey(
        "on_match",
        "`replace`, `update`, `ignore`",
        "`replace`",
        ("changes, where the key is there: take the new row; take its columns that are not null; or keep the old row"),
        read=reader_of(OnMatch),
        needs_changes=True,
    ),
    ConfigKey(
        "exclude_columns",
        "column, or list of columns",
        "none",
        "changes: columns that the query needs and the table does not keep",
        read=read_names,
        needs_changes=True,
        effect="rows",
    ),
    ConfigKey(
        "renamed_columns",
        "mapping of new names to old ones",
        "none",
        ("columns that stay what they were under another name. See [schema changes](operations.md#schema-changes)"),
        read=read_renamed,
    ),
    ConfigKey(
        "history",
        "`none`, `scd2`",
        "`none`",
        "every version of a row, with the time it was valid",
        only=("none",),
    ),
    ConfigKey(
        "changelog",
        "`lookup`, `input`",
        "`lookup`",
        (
            "changes: `lookup` finds the old row, so that `_action` and `_before` are exact. `input` does not: "
            "it only appends, as `upsert` and `delete`, without `_before`. The first load and full refreshes "
            "are exact anyway"
        ),
        read=reader_of(Changelog),
        needs_changes=True,
    ),
    ConfigKey(
        "keep",
        "`net`, `all`",
        "`net`",
        "one row per key and commit in the change table, or every event",
        only=("net",),
    ),
    ConfigKey(
        "on_schema_change",
        "`append_new_columns`, `sync_all_columns`, `fail`, `ignore`",
        "`append_new_columns`",
        (
            "what to do where the columns of the query differ from the table's. See [schema "
            "changes](operations.md#schema-changes)"
        ),
        read=reader_of(OnSchemaChange),
        is_filled_by_dbt=True,
        effect="rows",
    ),
    ConfigKey(
        "on_configuration_change",
        "`apply`, `continue`, `fail`",
        "`apply`",
        (
            "what to do where the layout changed: lay the base out anew, leave it as it is, or fail. A full "
            "refresh always applies it. See [changed configuration](operations.md#changed-configuration)"
        ),
        read=reader_of(OnConfigurationChange),
        is_filled_by_dbt=True,
    ),
    ConfigKey(
        "compaction",
        "`auto`, `off`, mapping",
        "`auto`",
        "whether a run compacts where that is due, and from what on: [below](#compaction-and-retention)",
        read=read_compaction,
    ),
    ConfigKey(
        "retention",
        "`off`, mapping",
        "`{versions: 5d}`",
        "how long versions are kept that nobody needs: [below](#compaction-and-retention)",
        read=read_retention,
    ),
    ConfigKey(
        "nodes",
        "`auto`, a power of two",
        "`auto`",
        (
            "nodes of a new base. `auto` follows the size of the first load, in the mean of its partitions: one "
            "per half of `node_bytes`, and enough for all cores from 16 MiB each. Later partitions are "
            "[split](operations.md#bucket-split-and-merge) as they grow"
        ),
        read=read_nodes,
        effect="layout",
    ),
    ConfigKey(
        "target_file_bytes",
        "bytes, or a text such as `64 MiB`",
        "`128 MiB`",
        (
            "size at which files of a base are cut, by its sort order. A base keeps what it was made with until "
            "compaction writes its files anew"
        ),
        read=read_file_size,
    ),
    ConfigKey(
        "node_bytes",
        "bytes, or a text such as `1 GiB`",
        "`256 MiB`",
        (
            "size from which a node of a partition is [split](operations.md#bucket-split-and-merge). A base is "
            "made with nodes of up to half of it"
        ),
        read=read_file_size,
    ),
    ConfigKey(
        "format_version",
        "`3`, `2`",
        "`3`",
        (
            "Iceberg format version of the base. `2` is for [readers](readers.md#format-version-2) that know no "
            "deletion vectors. The change table is of version 3 in any case"
        ),
        read=reader_of(FormatVersion),
        effect="layout",
    ),
    ConfigKey(
        "tblproperties",
        "mapping",
        "none",
        (
            "further Iceberg table properties of change table and base, given when these are made. "
            "`format-version` and names that start with `arctic.` are refused"
        ),
        read=read_properties,
        effect="layout",
    ),
)
"""All keys, in the order of the documentation."""

KEYS = tuple(key.name for key in CONFIGURATION)

_EFFECTS = {"rows": "computes all rows once", "layout": "lays the base out anew", "none": ""}


def describe_configuration() -> str:
    """The table of model keys in docs/configuration.md, in Markdown."""
    header = "| key | values | default | meaning | another value | now |\n|---|---|---|---|---|---|"
    return "\n".join([header, *map(_row, CONFIGURATION)])


def _supported(key: ConfigKey) -> str:
    if key.only is None:
        return "yes"
    return "only " + ", ".join(f"`{value}`" for value in key.only) if key.only else "not yet"


def _row(key: ConfigKey) -> str:
    cells = (f"`{key.name}`", key.values, key.default, key.meaning, _EFFECTS[key.effect], _supported(key))
    return "".join(f"| {cell} " if cell else "| " for cell in cells) + "|"
