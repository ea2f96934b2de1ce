"""Plans the Iceberg tags that create or drop a savepoint, a named version of a model's table."""

from __future__ import annotations

from collections.abc import Sequence

from arctic_runtime.errors import ConfigError
from arctic_runtime.model.files.expiry import Snapshots
from arctic_runtime.model.properties import BRANCH_PREFIX
from arctic_runtime.model.refs import Savepoint, SetTag
from arctic_runtime.model.state import Commit
from arctic_runtime.model.table import Model


def plan_savepoint(
    model: Model, name: str, commit: Commit, base: Snapshots, known: Sequence[Savepoint]
) -> tuple[SetTag, ...]:
    """Plans the tags of a savepoint at `commit` of the change table, in the order in which they must be created.

    `known` are the existing savepoints. The tag of the change table defines the savepoint, whose rows can be computed
    from the change rows alone; it is created first and dropped last. The tag of the base table keeps the base's newest
    snapshot without later changes, if there is one. Raises ConfigError for an invalid name, and for a name that is in
    use for another version.
    """
    _check_name(model, name)
    taken = next((tag for tag in known if tag.name == name), None)
    if taken is not None and taken.commit.version != commit.version:
        raise ConfigError(
            f"{model.table}: the savepoint {name} exists already.",
            expected="a new name",
            actual=f"{name} at version {taken.commit.version.snapshot}",
            fix=f"choose another name, or drop the savepoint first: arctic savepoint {model.table.name} {name} --drop",
        )
    snapshots = [tag for tag in base.lineage if tag.merged and tag.merged.sequence <= commit.version.sequence]
    rows = (SetTag(base.table, name, snapshots[-1].id),) if snapshots else ()
    return (SetTag(model.table.changes, name, commit.version.snapshot), *rows)


def plan_savepoint_drop(model: Model, name: str, known: Sequence[Savepoint]) -> tuple[SetTag, ...]:
    """Plans to drop the tags of the savepoint `name`; raises ConfigError if there is no such savepoint."""
    find_savepoint(model, name, known)
    return drop_savepoint_tags(model, name)


def drop_savepoint_tags(model: Model, name: str) -> tuple[SetTag, ...]:
    """Returns the steps that drop the tags of the savepoint `name`; it is no error if a table does not have it.

    The change table comes last, as its tag is the one that is listed.
    """
    return SetTag(model.base, name, None), SetTag(model.table.changes, name, None)


def find_savepoint(model: Model, name: str, known: Sequence[Savepoint]) -> Savepoint:
    """Returns the savepoint with the name `name` among `known`; raises ConfigError if there is none."""
    for savepoint in known:
        if savepoint.name == name:
            return savepoint
    raise ConfigError(
        f"{model.table} has no savepoint {name}.",
        actual=", ".join(tag.name for tag in known) or "none",
        fix=f"give the name of a savepoint, or a number that `arctic history {model.table.name}` shows",
    )


def _check_name(model: Model, name: str) -> None:
    if not name.strip() or name.isdecimal() or name == "main" or name.startswith(BRANCH_PREFIX):
        raise ConfigError(
            f"{model.table}: {name!r} is not a valid name of a savepoint.",
            expected=f"a name that is not a number, is not main, and does not begin with {BRANCH_PREFIX}",
            fix="choose another name",
        )
