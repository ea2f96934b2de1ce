"""Computes the updates by which a REST catalog's server turns one version of a table's or view's metadata into another.

Metadata, updates and requirements are JSON, as in metadata files and in Iceberg's REST protocol.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

Json = dict[str, Any]
Metadata = Mapping[str, Any]

MAIN = "main"
_ADDED = {
    "add-schema": "assert-current-schema-id assert-last-assigned-field-id",
    "add-spec": "assert-default-spec-id assert-last-assigned-partition-id",
    "add-sort-order": "assert-default-sort-order-id",
    "set-current-schema": "assert-current-schema-id",
    "set-default-spec": "assert-default-spec-id",
    "set-default-sort-order": "assert-default-sort-order-id",
}
"""The requirements that an update needs, since its ids depend on what the table has."""

_COUNTERS = {
    "assert-current-schema-id": "current-schema-id",
    "assert-last-assigned-field-id": "last-column-id",
    "assert-default-spec-id": "default-spec-id",
    "assert-last-assigned-partition-id": "last-partition-id",
    "assert-default-sort-order-id": "default-sort-order-id",
}
"""The part of the metadata that a requirement compares; its own field has the name without `assert-`."""


def compute_updates(before: Metadata | None, after: Metadata) -> list[Json]:
    """Returns the updates that turn the metadata `before` of a table, None for a new table, into `after`.

    They change all but the logs, the time of the last change, and counters, which the server keeps itself. Both have
    the same UUID.
    """
    base: Metadata = {} if before is None else before
    return [
        *([{"action": "assign-uuid", "uuid": after["table-uuid"]}] if before is None else []),
        *_update_value(base, after, "format-version", "upgrade-format-version", "format-version"),
        *_update_value(base, after, "location", "set-location", "location"),
        *_add_parts(base, after, "schemas", "schema-id", ("add-schema", "schema")),
        *_update_value(base, after, "current-schema-id", "set-current-schema", "schema-id"),
        *_add_parts(base, after, "partition-specs", "spec-id", ("add-spec", "spec")),
        *_update_value(base, after, "default-spec-id", "set-default-spec", "spec-id"),
        *_add_parts(base, after, "sort-orders", "order-id", ("add-sort-order", "sort-order")),
        *_update_value(base, after, "default-sort-order-id", "set-default-sort-order", "sort-order-id"),
        *_update_properties(base, after),
        *_add_parts(base, after, "encryption-keys", "key-id", ("add-encryption-key", "encryption-key")),
        *_add_snapshots(base, after),
        *_set_refs(base, after),
        *_remove_refs(base, after),
        *_update_statistics(base, after, "statistics"),
        *_update_statistics(base, after, "partition-statistics"),
        *_remove_parts(base, after, ("snapshots", "snapshot-id"), "remove-snapshots"),
        *_remove_parts(base, after, ("partition-specs", "spec-id"), "remove-partition-specs"),
        *_remove_parts(base, after, ("schemas", "schema-id"), "remove-schemas"),
        *(
            {"action": "remove-encryption-key", "key-id": key}
            for key in _list_missing(base, after, "encryption-keys", "key-id")
        ),
    ]


def list_requirements(before: Metadata | None, updates: Iterable[Json]) -> list[Json]:
    """Returns the requirements of a commit with these updates to a table with the metadata `before`, None for none.

    The table must still be the same, and main, every ref that is changed, and the ids on which updates depend must be
    as they were.
    """
    if before is None:
        return [{"type": "assert-create"}]
    changes = list(updates)
    refs = dict.fromkeys([MAIN, *(update["ref-name"] for update in changes if "ref-name" in update)])
    counters = dict.fromkeys(kind for update in changes for kind in _ADDED.get(update["action"], "").split())
    return [
        {"type": "assert-table-uuid", "uuid": before["table-uuid"]},
        *({"type": "assert-ref-snapshot-id", "ref": ref, "snapshot-id": find_ref(before, ref)} for ref in refs),
        *({"type": kind, kind.removeprefix("assert-"): before[_COUNTERS[kind]]} for kind in counters),
    ]


def find_ref(metadata: Metadata, ref: str) -> int | None:
    """Returns the snapshot of a branch or tag; None if the table does not have it."""
    found: int | None = metadata.get("refs", {}).get(ref, {}).get("snapshot-id")
    return found


def count_skipped_rows(before: Metadata | None, after: Metadata) -> int:
    """Number of row ids that `after` has given to snapshots which it no longer has.

    A server gives ids to the rows of a snapshot after those of the snapshots that it knows. So it would give these
    again.
    """
    known = 0 if before is None else before.get("next-row-id", 0)
    added = (update["snapshot"].get("added-rows", 0) for update in _add_snapshots(before or {}, after))
    return int(after.get("next-row-id", 0) - known - sum(added))


def hide_rows(metadata: Metadata) -> Json:
    """Returns the metadata of a table without its branches and tags: it has all snapshots, and its readers see no rows.

    A later commit only has to set the branches. Iceberg refuses to add a snapshot that is older than the table.
    """
    return {**metadata, "current-snapshot-id": -1, "refs": {}}


def compute_view_updates(before: Metadata, after: Metadata) -> list[Json]:
    """Returns the updates that turn the metadata `before` of a view into `after`, as far as its readers see it.

    That is its current version, its schema, its properties and its location. A version or schema that the view has
    already is used again, as Iceberg demands; others get the next free number.
    """
    updates = [
        *_update_value(before, after, "location", "set-location", "location"),
        *_update_properties(before, after),
    ]
    if has_same_view_content(before, after):
        return updates
    version, schema = get_view_version(after)
    content = _describe_version(version, schema)
    schemas = {known["schema-id"]: known for known in before["schemas"]}
    for known in before["versions"]:
        if _describe_version(known, schemas[known["schema-id"]]) == content:
            return [*updates, {"action": "set-current-view-version", "view-version-id": known["version-id"]}]
    schema_id = next((i for i, known in schemas.items() if known["fields"] == schema["fields"]), None)
    if schema_id is None:
        schema_id = max(schemas, default=-1) + 1
        updates.append({"action": "add-schema", "schema": {**schema, "schema-id": schema_id}})
    version_id = max((known["version-id"] for known in before["versions"]), default=0) + 1
    new_version = {**version, "version-id": version_id, "schema-id": schema_id}
    updates.append({"action": "add-view-version", "view-version": new_version})
    return [*updates, {"action": "set-current-view-version", "view-version-id": version_id}]


def has_same_view_content(one: Metadata, other: Metadata) -> bool:
    """Whether two views have the same query and columns."""
    return _describe_version(*get_view_version(one)) == _describe_version(*get_view_version(other))


def _describe_version(version: Metadata, schema: Metadata) -> tuple[Json, Any]:
    return {key: part for key, part in version.items() if key not in _OF_VERSIONS}, schema["fields"]


_OF_VERSIONS = ("version-id", "schema-id", "timestamp-ms", "summary")


def get_view_version(metadata: Metadata) -> tuple[Json, Json]:
    """Returns the current version of a view, and its schema."""
    current = metadata["current-version-id"]
    version: Json = next(known for known in metadata["versions"] if known["version-id"] == current)
    schema: Json = next(known for known in metadata["schemas"] if known["schema-id"] == version["schema-id"])
    return version, schema


def _update_value(base: Metadata, after: Metadata, key: str, action: str, name: str) -> Iterator[Json]:
    if after.get(key) != base.get(key):
        yield {"action": action, name: after[key]}


def _add_parts(base: Metadata, after: Metadata, key: str, id_key: str, update: tuple[str, str]) -> Iterator[Json]:
    """Yields an update for each part, such as a schema, that only `after` has, in the order of the ids."""
    known = {part[id_key] for part in base.get(key, ())}
    action, name = update
    for part in sorted(after.get(key, ()), key=lambda part: part[id_key]):
        if part[id_key] not in known:
            yield {"action": action, name: part}


def _list_missing(base: Metadata, after: Metadata, key: str, id_key: str) -> list[Any]:
    kept = {part[id_key] for part in after.get(key, ())}
    return [part[id_key] for part in base.get(key, ()) if part[id_key] not in kept]


def _remove_parts(base: Metadata, after: Metadata, key: tuple[str, str], action: str) -> Iterator[Json]:
    gone = _list_missing(base, after, *key)
    if gone:
        yield {"action": action, f"{key[1]}s": gone}


def _update_properties(base: Metadata, after: Metadata) -> Iterator[Json]:
    old, new = base.get("properties", {}), after.get("properties", {})
    changed = {key: value for key, value in new.items() if old.get(key) != value}
    gone = [key for key in old if key not in new]
    if changed:
        yield {"action": "set-properties", "updates": changed}
    if gone:
        yield {"action": "remove-properties", "removals": gone}


def _add_snapshots(base: Metadata, after: Metadata) -> Iterator[Json]:
    """Yields the new snapshots in the order in which they were committed, as the ids of their rows demand."""
    known = {snapshot["snapshot-id"] for snapshot in base.get("snapshots", ())}
    for snapshot in sorted(after.get("snapshots", ()), key=lambda snapshot: snapshot.get("sequence-number", 0)):
        if snapshot["snapshot-id"] not in known:
            yield {"action": "add-snapshot", "snapshot": snapshot}


def _set_refs(base: Metadata, after: Metadata) -> Iterator[Json]:
    old, new = (_list_refs(side) for side in (base, after))
    for name, reference in new.items():
        if old.get(name) != reference:
            yield {"action": "set-snapshot-ref", "ref-name": name, **reference}


def _list_refs(metadata: Metadata) -> dict[str, Json]:
    """Returns the branches and tags of a table by their names, without fields that a server states as null."""
    refs = metadata.get("refs", {}).items()
    return {name: {key: value for key, value in part.items() if value is not None} for name, part in refs}


def _remove_refs(base: Metadata, after: Metadata) -> Iterator[Json]:
    for name in base.get("refs", {}):
        if name not in after.get("refs", {}):
            yield {"action": "remove-snapshot-ref", "ref-name": name}


def _update_statistics(base: Metadata, after: Metadata, key: str) -> Iterator[Json]:
    """Yields the updates of a table's statistics files, of which a snapshot has one."""
    old, new = ({part["snapshot-id"]: part for part in side.get(key, ())} for side in (base, after))
    for snapshot, part in new.items():
        if old.get(snapshot) != part:
            named = {"snapshot-id": snapshot} if key == "statistics" else {}
            yield {"action": f"set-{key}", **named, key: part}
    for snapshot in old:
        if snapshot not in new:
            yield {"action": f"remove-{key}", "snapshot-id": snapshot}


def build_table_change(namespace: Sequence[str], name: str, before: Metadata | None, updates: Sequence[Json]) -> Json:
    """Returns a commit to one table, as a request to a REST catalog's server has it."""
    return {
        "identifier": {"namespace": list(namespace), "name": name},
        "requirements": list_requirements(before, updates),
        "updates": list(updates),
    }
