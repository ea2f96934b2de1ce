"""Plans of clones, over tables that pyiceberg wrote: what is tagged, what copies have, and what is refused."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from arctic_runtime.catalog.metadata_files import read_metadata
from arctic_runtime.catalog.observation.clones import list_clones, observe_clone, observe_clone_tags
from arctic_runtime.catalog.observation.tables import observe_model, read_last_offsets
from arctic_runtime.errors import ConfigError, CorruptState
from arctic_runtime.model.baseline import Baseline
from arctic_runtime.model.clone import Clone, CloneOrigin, CloneTag, CloneTags, list_tagged_tables, parse_clone_tag
from arctic_runtime.model.names import TableName
from arctic_runtime.model.properties import BASELINE, CLONED_FROM
from arctic_runtime.model.table import Model
from arctic_runtime.model.version import Version
from arctic_runtime.plan.cloning.clone_plan import (
    ClonePlan,
    OriginTable,
    Part,
    check_same_catalog,
    is_use_outdated,
    plan_clone,
    plan_release,
)
from arctic_runtime.plan.cloning.table_copy import compute_clone_uuid
from arctic_runtime.spark.maintenance.cloning import read_origin
from arctic_runtime.thresholds import SHIPPED
from tests.unit.cloned_tables import DWD, ODS, a_clone, make_clones, request_for


def plan_for(warehouse: Any, origin: TableName, model: Model) -> ClonePlan:
    return plan_clone(model, request_for(origin), read_origin(warehouse.reader, origin))


def test_a_table_merged_on_write_has_one_tag_for_each_table(shop: Any) -> None:
    warehouse, made = shop
    plan = plan_for(warehouse, ODS, a_clone(ODS))
    head = warehouse.load("ods").current_snapshot().snapshot_id
    assert plan.tags == (
        (ODS.changes, CloneTag(a_clone(ODS).table, 1000).name, made["ods"][3].snapshot),
        (ODS, CloneTag(a_clone(ODS).table, 1000).name, head),
    )
    assert plan.origin.version == made["ods"][3]
    assert [copy.name for _, copy in plan.copies] == [a_clone(ODS).table.changes, a_clone(ODS).table]


def test_changes_that_are_not_merged_come_along_with_a_tag_each(shop: Any) -> None:
    warehouse, made = shop
    plan = plan_for(warehouse, DWD, a_clone(DWD, "on_read"))
    tagged = [snapshot for table, _, snapshot in plan.tags if table == DWD.changes]
    assert tagged == [version.snapshot for version in reversed(made["dwd"][1:])]
    numbers = [tag.number for table, name, _ in plan.tags if table == DWD.changes and (tag := parse_clone_tag(name))]
    assert numbers == [0, 1, 2]
    assert plan.copies[-1][1].name == a_clone(DWD).table.base


@pytest.fixture
def cloned(writing: Any, tmp_path: Path) -> tuple[Any, dict[str, Model]]:
    return make_clones(writing, tmp_path)


def test_a_clone_is_in_the_state_of_its_origin(cloned: Any) -> None:
    warehouse, models = cloned
    for origin, model in ((ODS, models["ods"]), (DWD, models["dwd"])):
        theirs = observe_model(warehouse.reader, Model(origin, "", model.config))
        state = observe_model(warehouse.reader, model)
        assert state.changes is not None
        assert state.base is not None
        assert theirs.changes is not None
        assert theirs.base is not None
        assert state.conflicting is None
        assert (state.base.snapshot, state.base.rows) == (theirs.base.snapshot, theirs.base.rows)
        assert state.changes.newest == replace(theirs.changes.newest, table=state.changes.uuid)  # type: ignore[type-var]
        assert state.base.merged == state.changes.newest
        assert warehouse.reader.load_table("dev", origin.name).scan().to_arrow().num_rows == 2


def test_offsets_are_those_of_clones_that_are_made_together(cloned: Any) -> None:
    warehouse, models = cloned
    ods = observe_model(warehouse.reader, models["ods"]).changes
    assert ods is not None
    assert read_last_offsets(warehouse.reader, models["dwd"].table) == {"lake.dev.ods": ods.newest}
    assert list(read_last_offsets(warehouse.reader, models["ods"].table)) == ["lake.dwd.plain"]


def test_clones_are_found_by_their_tags_and_in_the_catalog(cloned: Any) -> None:
    warehouse, models = cloned
    (seen,) = observe_clone_tags(warehouse.reader, list_tagged_tables(ODS))
    assert seen.tag == CloneTag(models["ods"].table, 1000)
    assert {table for table, _ in seen.tags} == {ODS, ODS.changes}
    assert seen.clone == observe_clone(warehouse.reader, models["ods"].table)
    assert seen.clone is not None
    assert (seen.clone.origin.model, seen.clone.origin.owner) == (ODS, "me")
    assert {clone.table for clone in list_clones(warehouse.reader)} == {model.table for model in models.values()}
    assert observe_clone(warehouse.reader, ODS) is None
    warehouse.reader.catalog.drop_table(("dev", "ods__changes"))
    (seen,) = observe_clone_tags(warehouse.reader, list_tagged_tables(ODS))
    assert seen.clone is None


def add_property(table: OriginTable, key: str, value: str) -> OriginTable:
    return replace(table, metadata={**table.metadata, "properties": {**table.metadata["properties"], key: value}})


def test_an_adopted_table_keeps_its_baseline_under_the_clones_name(shop: Any) -> None:
    warehouse, _ = shop
    parts = read_origin(warehouse.reader, ODS)
    first = parts["base"].metadata["snapshots"][0]["snapshot-id"]
    baseline = Baseline(ODS, first)
    adopted: dict[Part, OriginTable] = {
        **parts,
        "log": add_property(parts["log"], BASELINE, baseline.encode()),
    }
    plan = plan_clone(a_clone(ODS), request_for(ODS), adopted)
    (_, log), (_, base) = plan.copies
    assert log.properties[BASELINE] == replace(baseline, table=a_clone(ODS).table).encode()
    assert (base.tags, base.snapshots[-1]) == ({baseline.tag: first}, first)
    assert len(plan.tags) == 3
    with pytest.raises(ConfigError, match=r"was adopted[\s\S]*merge: on_write"):
        plan_clone(a_clone(ODS, "on_read"), request_for(ODS), adopted)


def test_what_can_not_be_cloned_is_refused_by_name(shop: Any) -> None:
    warehouse, _ = shop
    parts, request = read_origin(warehouse.reader, ODS), request_for(ODS)
    with pytest.raises(ConfigError, match="has not been built"):
        plan_clone(a_clone(ODS), request, {})
    with pytest.raises(ConfigError, match="has no base"):
        plan_clone(a_clone(ODS), request, {"log": parts["log"]})
    with pytest.raises(ConfigError, match="another primary key"):
        plan_clone(a_clone(ODS, primary_key=("note",)), request, parts)
    with pytest.raises(ConfigError, match="one of the two has a primary key"):
        plan_clone(a_clone(ODS, is_appended=True), request, parts)
    with pytest.raises(CorruptState, match="does not record"):
        plan_clone(
            a_clone(ODS), request, {**parts, "base": OriginTable(ODS, read_metadata(warehouse.reader, DWD.base) or {})}
        )
    plan = plan_clone(a_clone(ODS), request, parts)
    clone = add_property(parts["log"], CLONED_FROM, plan.origin.encode())
    with pytest.raises(ConfigError, match=r"its origin is a clone of lake\.dwd\.ods"):
        plan_clone(a_clone(ODS), request, {**parts, "log": clone})
    with pytest.raises(ConfigError, match="a clone of itself"):
        check_same_catalog(replace(a_clone(ODS), table=ODS), request)
    with pytest.raises(ConfigError, match="in the same catalog"):
        check_same_catalog(a_clone(TableName("other", "dwd", "ods")), request)


def test_a_table_of_another_name_is_not_read_as_an_origin(shop: Any) -> None:
    warehouse, _ = shop
    assert read_origin(warehouse.reader, TableName("lake", "dwd", "plain")) == {}
    assert read_metadata(warehouse.reader, TableName("lake", "dwd", "none")) is None
    assert compute_clone_uuid("u", ODS, "s") != compute_clone_uuid("u", DWD, "s")


DAY = 86_400_000
TABLE, MODEL = TableName("l", "d", "m"), TableName("l", "p", "m")
TAGS = ((MODEL.changes, "t"),)


def seen(at_days: float, used_days: float | None) -> CloneTags:
    tag = CloneTag(TABLE, round(at_days * DAY))
    origin = CloneOrigin(MODEL, Version("u", 1, 1), MODEL.changes, tag.at_ms, "me")
    clone = None if used_days is None else Clone(TABLE, origin, round(used_days * DAY))
    return CloneTags(tag, TAGS, clone)


@pytest.mark.parametrize(
    ("at", "used", "ttl", "expected"),
    [
        (100, 100, 14, None),
        (80, 87, 14, None),
        (80, 85, 14, (True, "it was not run for 15 days")),
        (80, 85, None, None),
        (99.5, None, 14, None),
        (98, None, 14, (False, "there is no such clone")),
        (98, None, None, (False, "there is no such clone")),
    ],
)
def test_clones_go_when_nobody_uses_them(
    at: float, used: float | None, ttl: float | None, expected: tuple[bool, str] | None
) -> None:
    seconds = None if ttl is None else ttl * DAY / 1000
    steps = plan_release([seen(at, used)], 100 * DAY, seconds, SHIPPED.expiry)
    assert [(step.clone, step.tags, step.is_dropped, step.reason) for step in steps] == [
        (TABLE, TAGS, *wanted) for wanted in ([expected] if expected else [])
    ]


def test_a_use_is_noted_once_a_day() -> None:
    clone = seen(1, 5).clone
    assert clone is not None
    assert not is_use_outdated(clone, round(5.9 * DAY), SHIPPED.expiry)
    assert is_use_outdated(clone, round(6.1 * DAY), SHIPPED.expiry)
