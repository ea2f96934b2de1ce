"""Clones: models whose tables have the snapshots of another model's tables, with the same files."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass

from arctic_runtime.errors import ConfigError, CorruptState
from arctic_runtime.model.names import TableName, escape_table_name, unescape_table_name
from arctic_runtime.model.properties import CLONE_TAG_PREFIX, CLONED_FROM, USED_AT
from arctic_runtime.model.state import ChangeTableState, SourceState
from arctic_runtime.model.version import Version

_TAG = re.compile(rf"{CLONE_TAG_PREFIX}(\d+)_(\d+)_(.+)")


@dataclass(frozen=True)
class CloneOrigin:
    """The origin of a clone, as each table of the clone has it in a property.

    The clone's change table begins with the commits of the origin's up to `version`; later commits are those of the
    clone alone.
    """

    model: TableName
    """Name of the model that was cloned."""

    version: Version
    """Newest version of the origin's change table, or of its table without a key, that the clone contains."""

    table: TableName
    """The table of the origin whose snapshots this table has."""

    at_ms: int
    """Time of the clone, in milliseconds since 1970."""

    owner: str
    """Who made the clone; empty if that is not known."""

    upstreams: tuple[tuple[TableName, TableName], ...] = ()
    """Names of upstreams of the clone, each with the name that this upstream has for the origin."""

    def encode(self) -> str:
        """Returns the origin as JSON, for a property of a table."""
        fields = {
            **vars(self),
            "model": self.model.parts,
            "table": self.table.parts,
            "version": vars(self.version),
            "upstreams": [[own.parts, theirs.parts] for own, theirs in self.upstreams],
        }
        return json.dumps(fields, separators=(",", ":"))


def read_clone_origin(properties: Mapping[str, str]) -> CloneOrigin | None:
    """Reads the origin from the properties of a table; None if the table is not a part of a clone.

    Raises CorruptState if the property can't be read.
    """
    text = properties.get(CLONED_FROM)
    if text is None:
        return None
    try:
        fields = json.loads(text)
        names = {part: TableName(*fields[part]) for part in ("model", "table")}
        version = Version(**fields["version"])
        upstreams = tuple((TableName(*own), TableName(*theirs)) for own, theirs in fields["upstreams"])
        return CloneOrigin(**{**fields, **names, "version": version, "upstreams": upstreams})
    except (ValueError, TypeError, KeyError, AttributeError, ConfigError) as error:
        raise CorruptState(
            f"The property {CLONED_FROM} of a table can't be read.",
            expected="JSON with the model, the version and the table that were cloned",
            actual=text,
            fix="drop the clone with `arctic reset`, and clone again",
        ) from error


@dataclass(frozen=True)
class CloneTag:
    """A tag of a table that was cloned: it keeps a snapshot, and so its files, for the clone."""

    clone: TableName
    """Name of the model that is the clone."""

    at_ms: int
    """Time of the clone, in milliseconds since 1970."""

    number: int = 0
    """Place of the snapshot among those that the clone needs."""

    @property
    def name(self) -> str:
        return f"{CLONE_TAG_PREFIX}{self.at_ms}_{self.number}_{escape_table_name(self.clone)}"


def parse_clone_tag(name: str) -> CloneTag | None:
    """Reads the name of a tag; None if it is not that of a tag for a clone."""
    match = _TAG.fullmatch(name)
    if match is None:
        return None
    try:
        return CloneTag(unescape_table_name(match[3]), int(match[1]), int(match[2]))
    except ConfigError:
        return None


SHARED_FILES = {"gc.enabled": "false"}
"""Iceberg's property of a table whose files belong to another table as well: Iceberg deletes none of them."""


def shares_files(properties: Mapping[str, str]) -> bool:
    """Whether files of a table may belong to another table as well, so that none of them may be deleted.

    This is the one rule for everything that deletes files of tables.
    """
    return any(properties.get(key) == value for key, value in SHARED_FILES.items())


@dataclass(frozen=True)
class Clone:
    """A clone that exists, and its last use, in milliseconds since 1970: when it was made, or a later run of it."""

    table: TableName
    origin: CloneOrigin
    used_ms: int

    @property
    def tag(self) -> CloneTag:
        """The first of the tags that the clone has set."""
        return CloneTag(self.table, self.origin.at_ms)


def read_clone(table: TableName, properties: Mapping[str, str], last_commit_ms: int) -> Clone | None:
    """Reads a clone from the properties of its change table, whose newest commit was made at `last_commit_ms`.

    None if the model `table` is no clone.
    """
    origin = read_clone_origin(properties)
    if origin is None:
        return None
    return Clone(table, origin, max(origin.at_ms, last_commit_ms, int(properties.get(USED_AT, 0))))


@dataclass(frozen=True)
class CloneUpstream:
    """A clone that another clone reads, and the version that the run made whose rows the other clone has read."""

    clone: Clone
    made: Version


@dataclass(frozen=True)
class ObservedClone:
    """A clone with what it has computed, which its origin may take over."""

    clone: Clone
    changes: ChangeTableState
    """Its change table."""

    source: SourceState
    """The clone as other models read it."""

    aggregate_state: int | None
    """Snapshot id of the aggregate state that belongs to its newest run; None if that run stored none."""

    upstreams: Mapping[str, CloneUpstream]
    """Those of the tables that its newest run has read which are clones as well, by their names."""

    tables: Mapping[TableName, TableName]
    """Names of tables in the environment of the clone, each with the name of the same table in that of its origin."""


def list_tagged_tables(model: TableName) -> tuple[TableName, ...]:
    """Lists the names of all tables of a model that may have tags for clones.

    The change table comes last: upkeep looks for its tags, so they are dropped after all others.
    """
    return (model, model.base, model.totals, model.changes)


@dataclass(frozen=True)
class CloneTags:
    """The tags of a model's tables for one clone, made at one time; `clone` is None if there is no such clone."""

    tag: CloneTag
    tags: tuple[tuple[TableName, str], ...]
    """Each table with the name of one of its tags."""

    clone: Clone | None = None


@dataclass(frozen=True)
class ReleaseClone:
    """Step: drop the tags for a clone; if it `is_dropped`, its tables before."""

    clone: TableName
    tags: tuple[tuple[TableName, str], ...]
    is_dropped: bool
    reason: str


def describe_release(step: ReleaseClone) -> str:
    """Describes a step for people, without its verb."""
    what = f"clone {step.clone}" if step.is_dropped else f"{len(step.tags)} tag(s) for the clone {step.clone}"
    return f"{what}: {step.reason}"
