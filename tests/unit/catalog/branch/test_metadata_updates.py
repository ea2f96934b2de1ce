"""Updates between two versions of metadata: applied by others, they give the second one from the first."""

from __future__ import annotations

import copy
import json
from operator import itemgetter
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from arctic_runtime.catalog.branch.metadata_updates import (
    compute_updates,
    compute_view_updates,
    count_skipped_rows,
    has_same_view_content,
    hide_rows,
    list_requirements,
)
from tests.rest_catalog import Catalog, Refused

Json = dict[str, Any]
PROPERTIES = ("a", "b", "c")
REFS = ("main", "t1", "t2")


def new_metadata(version: int) -> Json:
    return {
        "format-version": version,
        "table-uuid": "9c12d441-03fe-4693-9a96-a0705ddf69c1",
        "location": "/w/dwd/t",
        "last-sequence-number": 0,
        "last-updated-ms": 1,
        "last-column-id": 1,
        "last-partition-id": 999,
        "current-schema-id": 0,
        "schemas": [
            {
                "type": "struct",
                "schema-id": 0,
                "fields": [{"id": 1, "name": "c1", "type": "long", "required": False}],
            }
        ],
        "default-spec-id": 0,
        "partition-specs": [{"spec-id": 0, "fields": []}],
        "default-sort-order-id": 0,
        "sort-orders": [{"order-id": 0, "fields": []}],
        "properties": {},
        "snapshots": [],
        "snapshot-log": [],
        "refs": {},
        "statistics": [],
        "partition-statistics": [],
        **({"next-row-id": 0} if version >= 3 else {}),
    }


def add_column(table: Json, _number: int) -> None:
    schema = copy.deepcopy(table["schemas"][-1])
    column = table["last-column-id"] + 1
    schema["schema-id"] = schema["schema-id"] + 1
    schema["fields"].append({"id": column, "name": f"c{column}", "type": "long", "required": False})
    table["schemas"].append(schema)
    table |= {"last-column-id": column, "current-schema-id": schema["schema-id"]}


def set_schema(table: Json, number: int) -> None:
    table["current-schema-id"] = table["schemas"][number % len(table["schemas"])]["schema-id"]


def add_spec(table: Json, number: int) -> None:
    field, spec = table["last-partition-id"] + 1, table["partition-specs"][-1]["spec-id"] + 1
    part = {"source-id": 1, "field-id": field, "name": f"p{field}", "transform": f"bucket[{number + 1}]"}
    table["partition-specs"].append({"spec-id": spec, "fields": [part]})
    table |= {"last-partition-id": field, "default-spec-id": spec}


def add_order(table: Json, number: int) -> None:
    order = table["sort-orders"][-1]["order-id"] + 1
    field = {"source-id": 1, "transform": f"bucket[{number + 1}]", "direction": "asc", "null-order": "nulls-first"}
    table["sort-orders"].append({"order-id": order, "fields": [field]})
    table["default-sort-order-id"] = order


def set_property(table: Json, number: int) -> None:
    table["properties"][PROPERTIES[number % 3]] = str(number)


def remove_property(table: Json, number: int) -> None:
    table["properties"].pop(PROPERTIES[number % 3], None)


def add_snapshot(table: Json, number: int) -> None:
    ref = REFS[number % 3]
    sequence = table["last-sequence-number"] + 1
    snapshot: Json = {
        "snapshot-id": 100 + sequence,
        "sequence-number": sequence,
        "timestamp-ms": 1_000_000 + sequence,
        "manifest-list": f"/w/{sequence}.avro",
        "schema-id": table["current-schema-id"],
        "summary": {"operation": "append"},
    }
    if parent := table["refs"].get(ref):
        snapshot["parent-snapshot-id"] = parent["snapshot-id"]
    if table["format-version"] >= 3:
        snapshot |= {"first-row-id": table["next-row-id"], "added-rows": number}
        table["next-row-id"] += number
    table["snapshots"].append(snapshot)
    table["last-sequence-number"] = sequence
    table["refs"][ref] = {"snapshot-id": snapshot["snapshot-id"], "type": "branch"}
    if ref == "main":
        table["current-snapshot-id"] = snapshot["snapshot-id"]


def tag_snapshot(table: Json, number: int) -> None:
    if table["snapshots"]:
        chosen = table["snapshots"][number % len(table["snapshots"])]["snapshot-id"]
        table["refs"][f"tag{number}"] = {"snapshot-id": chosen, "type": "tag", "max-ref-age-ms": number + 1}


def drop_ref(table: Json, number: int) -> None:
    names = sorted(name for name in table["refs"] if name != "main")
    if names:
        del table["refs"][names[number % len(names)]]


def set_statistics(table: Json, number: int) -> None:
    kind = ("statistics", "partition-statistics")[number % 2]
    if table["snapshots"]:
        chosen = table["snapshots"][number % len(table["snapshots"])]["snapshot-id"]
        others = [part for part in table[kind] if part["snapshot-id"] != chosen]
        path = f"/w/{kind}-{number}"
        more: Json = {"file-footer-size-in-bytes": 1, "blob-metadata": []} if kind == "statistics" else {}
        part = {"snapshot-id": chosen, "statistics-path": path, "file-size-in-bytes": number, **more}
        table[kind] = [*others, part]


def remove_statistics(table: Json, number: int) -> None:
    kind = ("statistics", "partition-statistics")[number % 2]
    table[kind] = table[kind][1:]


def move_location(table: Json, number: int) -> None:
    table["location"] = f"/w/moved{number}"


def expire(table: Json, _number: int) -> None:
    """Removes what is not in use, as an expiry does."""
    kept = {ref["snapshot-id"] for ref in table["refs"].values()}
    for part in ("snapshots", "statistics", "partition-statistics"):
        table[part] = [entry for entry in table[part] if entry["snapshot-id"] in kept]
    if len(table["partition-specs"]) > 2:
        table["partition-specs"] = table["partition-specs"][-2:]
    if len(table["schemas"]) > 2:
        used = {table["current-schema-id"]}
        table["schemas"] = [s for s in table["schemas"][:-1] if s["schema-id"] in used] + table["schemas"][-1:]


def upgrade(table: Json, _number: int) -> None:
    if table["format-version"] < 3:
        table |= {"format-version": 3, "next-row-id": 0}


IDS = {
    "schemas": "schema-id",
    "partition-specs": "spec-id",
    "sort-orders": "order-id",
    **dict.fromkeys(("snapshots", "statistics", "partition-statistics"), "snapshot-id"),
}
EDITS = (
    *(add_column, set_schema, add_spec, add_order, set_property, remove_property, add_snapshot, add_snapshot),
    *(add_snapshot, tag_snapshot, drop_ref, set_statistics, remove_statistics, move_location),
)
NUMBERS = st.integers(0, 9)
STEPS = st.lists(st.tuples(st.sampled_from(EDITS), NUMBERS), max_size=12)
ENDS = st.lists(st.tuples(st.sampled_from((*EDITS, expire)), NUMBERS), max_size=6)


def comparable(table: Json) -> Json:
    """Metadata without logs and times, its lists in the order of ids."""
    known = {k: v for k, v in table.items() if k not in ("last-updated-ms", "snapshot-log", "metadata-log") and v != -1}
    return known | {key: sorted(known[key], key=itemgetter(name)) for key, name in IDS.items() if key in known}


def find_last_sequence(before: Json, after: Json) -> int:
    """Finds the newest sequence number that a server knows; it never sees a snapshot that was added and expired."""
    known = [before["last-sequence-number"], *(snapshot["sequence-number"] for snapshot in after["snapshots"])]
    return max(known)


def edit(table: Json, steps: Any) -> Json:
    changed = copy.deepcopy(table)
    for change, number in steps:
        change(changed, number)
    return changed


def serve(folder: Path, table: Json | None) -> Catalog:
    catalog = Catalog(folder)
    catalog.create_namespace({"namespace": ["dwd"]})
    if table is not None:
        catalog.tables["dwd", "t"] = {"metadata": table}
    return catalog


@settings(max_examples=300, deadline=None)
@given(st.sampled_from((2, 3)), STEPS, ENDS, st.booleans())
def test_a_server_gets_the_second_version_from_the_first(version: int, first: Any, then: Any, upgrades: bool) -> None:
    before = edit(new_metadata(version), first)
    after = edit(before, [*([(upgrade, 0)] if upgrades and not before["snapshots"] else []), *then])
    updates = compute_updates(before, after)
    asked = {"requirements": list_requirements(before, updates), "updates": json.loads(json.dumps(updates))}
    if count_skipped_rows(before, after):
        return
    changed = serve(Path("/unused"), before).change("tables", "dwd", "t", asked)
    assert comparable(changed) == comparable({**after, "last-sequence-number": find_last_sequence(before, after)})
    assert compute_updates(changed, after) == []


@settings(max_examples=100, deadline=None)
@given(st.sampled_from((2, 3)), STEPS)
def test_a_new_table_has_no_rows_until_its_branches_are_set(version: int, steps: Any) -> None:
    after = edit(new_metadata(version), steps)
    catalog = serve(Path("/unused"), None)
    updates = compute_updates(None, hide_rows(after))
    asked = {"requirements": list_requirements(None, updates), "updates": updates}
    hidden = {
        **{key: [] for key in ("statistics", "partition-statistics")},
        **catalog.change("tables", "dwd", "t", asked),
    }
    assert hidden["refs"] == {}
    assert comparable(hidden) == comparable({k: v for k, v in hide_rows(after).items() if k != "current-snapshot-id"})
    catalog.tables["dwd", "t"] = {"metadata": hidden}
    updates = compute_updates(hidden, after)
    assert {update["action"] for update in updates} <= {"set-snapshot-ref"}
    asked = {"requirements": list_requirements(hidden, updates), "updates": updates}
    assert comparable(catalog.change("tables", "dwd", "t", asked)) == comparable(after)


@settings(max_examples=100, deadline=None)
@given(STEPS, ENDS)
def test_pyiceberg_gets_the_second_version_from_the_first(first: Any, then: Any) -> None:
    """pyiceberg moves no location, and removes neither schemas nor specs that are in use."""
    from pydantic import TypeAdapter
    from pyiceberg.table.metadata import TableMetadataUtil
    from pyiceberg.table.update import TableUpdate, update_table_metadata

    before = edit(new_metadata(2), first)
    after = edit(before, [step for step in then if step[0] is not expire])
    parsed = [TypeAdapter(TableUpdate).validate_python(update) for update in compute_updates(before, after)]
    changed = update_table_metadata(TableMetadataUtil.parse_obj(before), tuple(parsed))
    expected = TableMetadataUtil.parse_obj({**after, "last-updated-ms": changed.last_updated_ms})
    ignored = {"snapshot_log", "metadata_log"}
    assert changed.model_dump(exclude=ignored) == expected.model_dump(exclude=ignored)


@pytest.mark.parametrize("changed", ["main", "t1", "schema", "spec", "order"])
def test_a_commit_of_another_writer_is_refused(tmp_path: Path, changed: str) -> None:
    before = edit(new_metadata(3), [(add_snapshot, 0), (add_snapshot, 1)])
    ours = [(add_snapshot, 0), (add_snapshot, 1), (add_column, 0), (add_spec, 0), (add_order, 0)]
    theirs = {
        "main": (add_snapshot, 3),
        "t1": (add_snapshot, 1),
        "schema": (add_column, 0),
        "spec": (add_spec, 0),
        "order": (add_order, 0),
    }
    updates = compute_updates(before, edit(before, ours))
    asked = {"requirements": list_requirements(before, updates), "updates": updates}
    with pytest.raises(Refused, match="Requirement failed"):
        serve(tmp_path, edit(before, [theirs[changed]])).change("tables", "dwd", "t", asked)


def test_row_ids_that_no_snapshot_has() -> None:
    before = edit(new_metadata(3), [(add_snapshot, 3)])
    skipped = {**edit(before, [(add_snapshot, 6)]), "next-row-id": 20}
    assert count_skipped_rows(before, skipped) == 20 - 3 - 6
    assert count_skipped_rows(None, before) == 0


def a_view(query: str, number: int = 1, **properties: str) -> Json:
    fields = [{"id": 0, "name": "n", "type": "long", "required": False}]
    return {
        "view-uuid": "fa6506c3-7681-40c8-86dc-e36561f83385",
        "format-version": 1,
        "location": "/w/v",
        "current-version-id": number,
        "properties": properties,
        "schemas": [{"type": "struct", "schema-id": 0, "fields": fields}],
        "versions": [
            {
                "version-id": number,
                "timestamp-ms": number,
                "schema-id": 0,
                "summary": {"engine-name": "spark"},
                "representations": [{"type": "sql", "sql": query, "dialect": "spark"}],
                "default-namespace": ["dwd"],
            }
        ],
        "version-log": [{"timestamp-ms": number, "version-id": number}],
    }


def test_a_view_gets_the_query_and_the_properties_of_the_branch(tmp_path: Path) -> None:
    before, after = a_view("select 1", a="1", b="2"), a_view("select 2", 7, a="3")
    catalog = serve(tmp_path, None)
    catalog.views["dwd", "v"] = {"metadata": before}
    updates = compute_view_updates(before, after)
    changed = catalog.change("views", "dwd", "v", {"requirements": [], "updates": updates})
    assert has_same_view_content(changed, after)
    assert changed["properties"] == {"a": "3"}
    assert changed["current-version-id"] == 2
    assert compute_view_updates(changed, after) == []
    assert compute_view_updates(before, a_view("select 1", 9, a="1", b="2")) == []


def test_a_view_goes_back_to_an_earlier_version(tmp_path: Path) -> None:
    catalog = serve(tmp_path, None)
    catalog.views["dwd", "v"] = {"metadata": a_view("select 1")}
    wider = a_view("select 3")
    wider["schemas"][0]["fields"].append({"id": 1, "name": "m", "type": "long", "required": False})
    for after, current in ((a_view("select 2"), 2), (a_view("select 1"), 1), (wider, 3), (a_view("select 2"), 2)):
        known = catalog.views["dwd", "v"]["metadata"]
        asked = {"requirements": [], "updates": compute_view_updates(known, after)}
        changed = catalog.change("views", "dwd", "v", asked)
        assert has_same_view_content(changed, after)
        assert changed["current-version-id"] == current
        catalog.views["dwd", "v"] = {"metadata": changed}
    assert [schema["schema-id"] for schema in changed["schemas"]] == [0, 1]
