"""Plans clones of models: which snapshots are tagged, which tables are copied, and which clones and tags are dropped.

A clone has the snapshots that a run of the model needs: those of the change table since the version that the base
contains and since the last run, and the newest one of each other table. So it has the rows, the change rows and the
offsets of its origin, and goes on from there.
"""

from __future__ import annotations

import datetime
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from arctic_runtime.errors import ConfigError, CorruptState
from arctic_runtime.model.baseline import read_baseline
from arctic_runtime.model.clone import Clone, CloneOrigin, CloneTag, CloneTags, ReleaseClone, read_clone_origin
from arctic_runtime.model.columns import format_key
from arctic_runtime.model.names import TableName
from arctic_runtime.model.properties import (
    AGGREGATE_STATE,
    APPENDED_KIND,
    BASELINE,
    CLONED_FROM,
    KIND,
    MERGED,
    MODE,
    MODEL_TABLE,
    OFFSETS,
    PRIMARY_KEY,
    RUN,
)
from arctic_runtime.model.run_summary import SCHEMA_ONLY
from arctic_runtime.model.state import TableState
from arctic_runtime.model.table import Model
from arctic_runtime.model.version import Version, decode_versions, encode_versions
from arctic_runtime.plan.cloning.table_copy import (
    Metadata,
    TableCopy,
    choose_location,
    compute_clone_uuid,
    get_summary,
    walk_lineage,
)
from arctic_runtime.thresholds import ExpiryThresholds

Part = Literal["totals", "log", "base"]
"""A table of a model; `log` is the change table, or the table itself of a model without a primary key."""


_BUILD = "run the model, which builds it from its query"


@dataclass(frozen=True)
class OriginTable:
    """A table of the origin: its name, and its metadata as JSON."""

    name: TableName
    metadata: Metadata


@dataclass(frozen=True)
class CloneRequest:
    """The request to make a model a clone of the model named `origin`.

    Clones that are made with one `stamp` belong together. `upstreams` maps the names of upstreams to the names that
    they have for the origin.
    """

    origin: TableName
    at_ms: int
    stamp: str
    owner: str = ""
    upstreams: Mapping[TableName, TableName] | None = None


@dataclass(frozen=True)
class ClonePlan:
    """Tags to set first, and then the copies to make, in this order, each with the table that it is a copy of.

    Upkeep looks for tags of the origin's change table, so these are the first.
    """

    origin: CloneOrigin
    tags: tuple[tuple[TableName, str, int], ...]
    copies: tuple[tuple[OriginTable, TableCopy], ...]


def plan_clone(
    model: Model, request: CloneRequest, parts: Mapping[Part, OriginTable], schema_location: str | None = None
) -> ClonePlan:
    """Plans to make `model` a clone; `parts` are the tables of the origin, with metadata that was read in this order.

    The base must have been read before the change table, so that this has all versions that the base contains. Raises
    ConfigError if the model can't be a clone of this origin.
    """
    check_cloneable(model, request, parts)
    log, base, totals = parts["log"], parts.get("base"), parts.get("totals")
    kept = _list_needed_commits(log.metadata, _find_merged(base))
    version = Version(log.metadata["table-uuid"], kept[0]["snapshot-id"], kept[0]["sequence-number"])
    names = tuple(sorted((request.upstreams or {}).items()))
    origin = CloneOrigin(request.origin, version, log.name, request.at_ms, request.owner, names)
    plans = [_PartPlan("log", log, tuple(snapshot["snapshot-id"] for snapshot in kept))]
    state = _find_aggregate_state(totals, kept)
    if totals is not None and state is not None:
        plans.insert(0, _PartPlan("totals", totals, (state,)))
    if base is not None:
        baseline = read_baseline(log.metadata.get("properties", {}))
        own_tags = {} if baseline is None else {baseline.tag: baseline.snapshot}
        snapshots = dict.fromkeys([base.metadata["current-snapshot-id"], *own_tags.values()])
        plans.append(_PartPlan("base", base, tuple(snapshots), own_tags))
    tag = CloneTag(model.table, request.at_ms)
    tags = [
        (plan.table.name, replace(tag, number=number).name, snapshot)
        for plan in sorted(plans, key=lambda plan: plan.part != "log")
        for number, snapshot in enumerate(plan.snapshots)
    ]
    copies = [(plan.table, _plan_copy(model, request, origin, plan, schema_location)) for plan in plans]
    return ClonePlan(origin, tuple(tags), tuple(copies))


@dataclass(frozen=True)
class _PartPlan:
    """A table to copy, with the ids of the snapshots that its copy has, newest first, and the tags of the copy."""

    part: Part
    table: OriginTable
    snapshots: tuple[int, ...]
    tags: Mapping[str, int] = field(default_factory=dict)


def _plan_copy(
    model: Model, request: CloneRequest, origin: CloneOrigin, plan: _PartPlan, schema_location: str | None
) -> TableCopy:
    metadata, table = plan.table.metadata, plan.table.name
    name = {"totals": model.table.totals, "log": model.log, "base": model.base}[plan.part]
    own_uuid = compute_clone_uuid(metadata["table-uuid"], model.table, request.stamp)
    return TableCopy(
        name=name,
        uuid=own_uuid,
        location=choose_location(metadata["location"], table, name, own_uuid, schema_location),
        main=plan.snapshots[0],
        snapshots=plan.snapshots,
        properties={**_rewrite_properties(model, plan), CLONED_FROM: replace(origin, table=table).encode()},
        summaries=_rewrite_summaries(model, request, plan, origin.version.table),
        tags=plan.tags,
    )


def _rewrite_properties(model: Model, plan: _PartPlan) -> dict[str, str]:
    """Returns the properties of a table that name tables, with the names of the clone's tables."""
    stored = plan.table.metadata.get("properties", {})
    names = {MODEL_TABLE: str(model.table)} if MODEL_TABLE in stored else {}
    baseline = read_baseline(stored)
    return names if baseline is None else {**names, BASELINE: replace(baseline, table=model.base).encode()}


def _rewrite_summaries(model: Model, request: CloneRequest, plan: _PartPlan, log: str) -> dict[int, dict[str, str]]:
    """Returns the entries of summaries that name versions, with the versions of the clone's tables.

    `log` is the UUID of the origin's change table.
    """
    if plan.part == "base":
        merged = _find_merged(plan.table)
        assert merged is not None
        own = replace(merged, table=compute_clone_uuid(log, model.table, request.stamp))
        return {plan.snapshots[0]: {MERGED: encode_versions({"changes": own})}}
    known = [snapshot for snapshot in walk_lineage(plan.table.metadata) if snapshot["snapshot-id"] in plan.snapshots]
    return {
        snapshot["snapshot-id"]: {OFFSETS: _rename_offsets(get_summary(snapshot)[OFFSETS], request)}
        for snapshot in known
        if OFFSETS in get_summary(snapshot)
    }


def _rename_offsets(text: str, request: CloneRequest) -> str:
    """Returns offsets with the names and versions that the clone's upstreams have, as far as these have others."""
    own_names = {str(theirs): own for own, theirs in (request.upstreams or {}).items()}
    renamed: dict[str, Version] = {}
    for name, version in decode_versions(text).items():
        own = own_names.get(name)
        uuid = version.table if own is None else compute_clone_uuid(version.table, own, request.stamp)
        renamed[name if own is None else str(own)] = replace(version, table=uuid)
    return encode_versions(renamed)


def _list_needed_commits(log: Metadata, merged: Version | None) -> list[Mapping[str, Any]]:
    """Lists the snapshots of a change table since the version `merged` and since the last run, newest first."""
    lineage = list(walk_lineage(log))
    last = next(snapshot for snapshot in lineage if _is_load(snapshot))["sequence-number"]
    since = last if merged is None else min(last, merged.sequence)
    return [snapshot for snapshot in lineage if snapshot["sequence-number"] >= since]


def _is_load(snapshot: Mapping[str, Any]) -> bool:
    """Whether a run has made a snapshot of a change table, and has loaded data."""
    summary = get_summary(snapshot)
    return RUN in summary and summary.get(MODE) != SCHEMA_ONLY


def _find_merged(base: OriginTable | None) -> Version | None:
    """Returns the version of the change table that the base contains; None if there is no base, or if it is unknown."""
    if base is None:
        return None
    texts = (get_summary(snapshot).get(MERGED) for snapshot in walk_lineage(base.metadata))
    return decode_versions(next((text for text in texts if text), None)).get("changes")


def _find_aggregate_state(totals: OriginTable | None, commits: Sequence[Mapping[str, Any]]) -> int | None:
    """Returns the snapshot with the aggregate state of the last run; None if that run has stored none."""
    last = get_summary(next(snapshot for snapshot in commits if _is_load(snapshot)))
    if totals is None or AGGREGATE_STATE not in last:
        return None
    snapshots = totals.metadata.get("snapshots", ())
    return next((one["snapshot-id"] for one in snapshots if get_summary(one).get(RUN) == last[RUN]), None)


def is_unfinished_clone(model: Model, state: TableState, request: CloneRequest) -> bool:
    """Whether the model has no tables, or those of a clone of the same origin that readers do not see yet."""
    if state.log is None:
        return state.base is None
    origin = read_clone_origin(state.log.properties)
    shown = state.view if model.config.merge == "on_read" else state.base
    is_shown = state.appended is not None or shown is not None
    return origin is not None and origin.model == request.origin and not is_shown


def check_same_catalog(model: Model, request: CloneRequest) -> None:
    """Raises ConfigError if the origin is in another catalog than the model, or if it is the model itself."""
    origin = request.origin
    if origin == model.table:
        raise ConfigError(f"{model.table} can't be a clone of itself.", fix="choose another target, or another state")
    if origin.catalog != model.table.catalog:
        raise ConfigError(
            f"{model.table} can't be a clone of {origin}: a clone has the files of its origin, in the same catalog.",
            expected=f"a model in the catalog {model.table.catalog}",
            actual=f"one in {origin.catalog}",
            fix=_BUILD,
        )


def check_cloneable(model: Model, request: CloneRequest, parts: Mapping[Part, OriginTable]) -> None:
    """Raises ConfigError if `model` can't be a clone of the origin with the tables `parts`."""
    origin = request.origin
    log = parts.get("log")
    if log is None or not any(map(_is_load, walk_lineage(log.metadata))):
        raise _build_refusal(model, origin, "its origin has not been built", "run the model there first")
    stored = log.metadata.get("properties", {})
    if (first := read_clone_origin(stored)) is not None:
        raise _build_refusal(model, origin, f"its origin is a clone of {first.model}", f"clone {first.model} instead")
    if (stored.get(KIND) == APPENDED_KIND) != model.is_appended:
        raise _build_refusal(model, origin, "one of the two has a primary key", _BUILD)
    if stored.get(PRIMARY_KEY, "") != format_key(model.config.primary_key) and not model.is_appended:
        raise ConfigError(
            f"{model.table} can't be a clone of {origin}, which has another primary key.",
            expected=format_key(model.config.primary_key),
            actual=stored.get(PRIMARY_KEY, ""),
            fix=_BUILD,
        )
    if not model.is_appended:
        _check_base(model, request, parts)


def _check_base(model: Model, request: CloneRequest, parts: Mapping[Part, OriginTable]) -> None:
    """Raises an error if the base of the origin can't be copied."""
    log, base = parts["log"], parts.get("base")
    if base is None or "current-snapshot-id" not in base.metadata:
        raise _build_refusal(model, request.origin, "its origin has no base", "run the model there first")
    merged = _find_merged(base)
    if merged is None or merged.table != log.metadata["table-uuid"]:
        raise CorruptState(
            f"{base.name}: the base does not record which version of {log.name} it contains.",
            expected=f"a version of table {log.metadata['table-uuid']}",
            actual=str(merged),
            fix="run the model there, which says what to do",
        )
    if read_baseline(log.metadata.get("properties", {})) is not None and model.base != model.table:
        raise _build_refusal(model, request.origin, "its origin was adopted", "set `merge: on_write`")


def _build_refusal(model: Model, origin: TableName, why: str, fix: str) -> ConfigError:
    return ConfigError(f"{model.table} can't be a clone of {origin}: {why}.", fix=fix)


def plan_release(
    observed: Iterable[CloneTags], now_ms: int, ttl_seconds: float | None, thresholds: ExpiryThresholds
) -> tuple[ReleaseClone, ...]:
    """Plans to drop clones that nobody has used for `ttl_seconds`, and tags for clones that do not exist.

    With None for `ttl_seconds`, no clone is dropped. A tag may be older than its clone: a tag is dropped only when no
    process can still be making the clone.
    """
    return tuple(_plan_releases(observed, now_ms, ttl_seconds, thresholds))


def _plan_releases(
    observed: Iterable[CloneTags], now_ms: int, ttl_seconds: float | None, thresholds: ExpiryThresholds
) -> Iterator[ReleaseClone]:
    for seen in observed:
        if seen.clone is None:
            if now_ms - seen.tag.at_ms > 1000 * thresholds.abandoned_branch_seconds:
                yield ReleaseClone(seen.tag.clone, seen.tags, False, "there is no such clone")
        elif (reason := explain_drop(seen.clone, now_ms, ttl_seconds)) is not None:
            yield ReleaseClone(seen.tag.clone, seen.tags, True, reason)


def explain_drop(clone: Clone, now_ms: int, ttl_seconds: float | None) -> str | None:
    """Returns why a clone may be dropped: nobody has used it for `ttl_seconds`; None if it may not.

    With None for `ttl_seconds`, no clone may be dropped.
    """
    if ttl_seconds is None or now_ms - clone.used_ms <= 1000 * ttl_seconds:
        return None
    return f"it was not run for {datetime.timedelta(milliseconds=now_ms - clone.used_ms).days} days"


def is_use_outdated(clone: Clone, now_ms: int, thresholds: ExpiryThresholds) -> bool:
    """Whether the last recorded use of the clone is more than `noted_use_seconds` ago, so that a run records a new one.

    Runs with changes record their use in any case.
    """
    return now_ms - clone.used_ms > 1000 * thresholds.noted_use_seconds
