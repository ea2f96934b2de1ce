"""A small warehouse for the tests that observe: written by pyiceberg, with the properties and summaries of a run."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.transforms import BucketTransform
from pyiceberg.types import IntegerType, LongType, NestedField, StringType, StructType

from arctic_runtime.catalog.reader import CatalogReader
from arctic_runtime.model.version import Version, encode_versions
from arctic_runtime.profile import Profile

BASE = (NestedField(1, "id", LongType(), required=False), NestedField(2, "note", StringType(), required=False))
CHANGES = (
    *BASE,
    NestedField(3, "_action", StringType(), required=False),
    NestedField(4, "_seq", IntegerType(), required=False),
    NestedField(
        5, "_before", StructType(NestedField(6, "note", StringType(), required=False)), required=False
    ),
)  # fmt: skip

Row = tuple[int, str | None]
Change = tuple[int, str | None, str] | tuple[int, str | None, str, int, dict[str, Any]]


@dataclass
class Warehouse:
    """Writes tables of format version 2 into schema `dwd` of an embedded catalog."""

    reader: CatalogReader
    directory: Path
    profile: Profile

    def create(self, name: str, fields: Sequence[NestedField] = BASE, **properties: str) -> Table:
        """An empty table; properties as `dotted` takes them."""
        return self.reader.catalog.create_table(("dwd", name), Schema(*fields), properties=dotted(properties))

    def append(self, name: str, rows: Sequence[Row | Change], branch: str = "main", **summary: str) -> Version:
        """One commit; returns its version."""
        table = self.load(name)
        names = [field.name for field in table.schema().fields]
        records = [dict(zip(names, (*row[:2], *row[2:], 0), strict=False)) for row in rows]
        frame = pa.Table.from_pylist(records, schema=table.schema().as_arrow())
        table.append(frame, snapshot_properties=dotted(summary), branch=branch)
        return self.version(name, branch)

    def version(self, name: str, branch: str = "main") -> Version:
        table = self.load(name)
        snapshot = table.snapshot_by_name(branch)
        assert snapshot is not None
        return Version(str(table.metadata.table_uuid), snapshot.snapshot_id, snapshot.sequence_number or 0)

    def load(self, name: str) -> Table:
        return self.reader.load_table("dwd", name)

    def create_view(self, name: str, sql: str, default_schema: str = "dwd", **properties: str) -> None:
        """A view as Spark writes it; pyiceberg writes none into a SQL catalog."""
        location = self.directory / f"{name}.metadata.json"
        version = {
            "version-id": 1,
            "timestamp-ms": 0,
            "schema-id": 0,
            "summary": {},
            "default-namespace": [default_schema],
            "representations": [{"type": "sql", "sql": sql, "dialect": "spark"}],
        }
        metadata = {
            "view-uuid": "00000000-0000-0000-0000-000000000001",
            "format-version": 1,
            "location": str(self.directory / name),
            "schemas": [Schema(*BASE).model_dump(by_alias=True, mode="json")],
            "current-version-id": 1,
            "versions": [version],
            "version-log": [{"timestamp-ms": 0, "version-id": 1}],
            "properties": dotted(properties),
        }
        location.write_text(json.dumps(metadata))
        assert self.profile.sqlite_file is not None
        with closing(sqlite3.connect(self.profile.sqlite_file)) as database, database:
            database.execute(
                "insert into iceberg_tables (catalog_name, table_namespace, table_name, metadata_location, "
                "previous_metadata_location, iceberg_type) values ('lake', 'dwd', ?, ?, null, 'VIEW')",
                (name, f"file://{location}"),
            )


def dotted(properties: Mapping[str, str]) -> dict[str, str]:
    """`arctic_base_snapshot` → `arctic.base-snapshot`."""
    return {key.replace("arctic_", "arctic.", 1).replace("_", "-"): value for key, value in properties.items()}


def ran(consumed: Mapping[str, Version], mode: str = "full", reason: str = "COST") -> dict[str, str]:
    """The summary of a run's commit."""
    return {
        "arctic_run": "token",
        "arctic_mode": mode,
        "arctic_reason": reason,
        "arctic_consumed": encode_versions(consumed),
    }


def merged_to(version: Version) -> dict[str, str]:
    """The summary of a merge's commit."""
    return {"arctic_merged": encode_versions({"changes": version})}


@dataclass(frozen=True)
class Writing:
    """What tests need to make tables of their own."""

    warehouse: Callable[[Path], Warehouse]
    changes: Sequence[NestedField] = CHANGES
    ran: Callable[..., dict[str, str]] = ran
    merged_to: Callable[[Version], dict[str, str]] = merged_to


@pytest.fixture(scope="session")
def writing() -> Writing:
    def warehouse(directory: Path) -> Warehouse:
        profile = Profile.for_embedded(directory)
        reader = CatalogReader(profile)
        reader.create_namespace("dwd")
        return Warehouse(reader, directory, profile)

    return Writing(warehouse)


@pytest.fixture(scope="session")
def shop(tmp_path_factory: pytest.TempPathFactory, writing: Writing) -> tuple[Warehouse, dict[str, Any]]:
    """Two models and a source, to be left as they are, and the versions of them that were committed.

    `ods` is merged on write and up to date. `dwd` is merged on read: of its four versions two are merged. It has read
    two of the three versions of `ods` that hold rows. `plain` is a table that no model made.
    """
    w = writing.warehouse(tmp_path_factory.mktemp("shop"))
    made: dict[str, Any] = {}
    w.create("plain")
    made["plain"] = w.append("plain", [(1, "p")])
    w.create("ods__changes", CHANGES, arctic_kind="changes", arctic_primary_key="id")
    made["ods"] = [w.append("ods__changes", [], **ran({}, "schema-only", "SCHEMA_ONLY"))]
    for i in (1, 2, 3):
        rows = [(i, f"n{i}", "insert"), (10 + i, None, "insert")]
        made["ods"].append(
            w.append("ods__changes", rows, **ran({"lake.dwd.plain": made["plain"]}, "create", "FIRST_RUN"))
        )
    w.create("ods", arctic_kind="base", arctic_primary_key="id")
    w.append(
        "ods", [(i, f"n{i}") for i in (1, 2, 3)] + [(10 + i, None) for i in (1, 2, 3)], **merged_to(made["ods"][3])
    )
    w.append("ods", [])  # what an engine's own maintenance leaves behind: it says nothing of versions
    with w.load("ods").update_spec() as spec:
        spec.add_field("id", BucketTransform(4))
    w.create("dwd__changes", CHANGES, arctic_kind="changes", arctic_primary_key="id")
    made["dwd"] = [
        w.append("dwd__changes", [(1, "a", "insert"), (2, "b", "insert"), (3, "c", "insert")], **ran({}, "create")),
        w.append("dwd__changes", [(1, "a2", "update")], **ran({"lake.dwd.ods": made["ods"][1]})),
        w.append(
            "dwd__changes",
            [(2, "b", "delete", 0, {"note": "b"}), (4, "d", "insert")],
            **ran({"lake.dwd.ods": made["ods"][2]}),
        ),
        w.append("dwd__changes", [(4, "d2", "update")], **ran({"lake.dwd.ods": made["ods"][2]})),
    ]
    w.create("dwd__base", arctic_kind="base", arctic_primary_key="id")
    made["base"] = w.append("dwd__base", [(1, "a2"), (2, "b"), (3, "c")], **merged_to(made["dwd"][1]))
    manage = w.load("dwd__changes").manage_snapshots()
    manage.create_branch(made["dwd"][2].snapshot, "arctic_dead").create_tag(made["dwd"][0].snapshot, "keep").commit()
    pins = {
        "arctic_base_snapshot": str(made["base"].snapshot),
        "arctic_merged_snapshot": str(made["dwd"][1].snapshot),
        "arctic_changes_snapshot": str(made["dwd"][3].snapshot),
    }
    w.create_view("dwd", "select 1", **pins)
    w.create_view("report", "select * from dwd.ods")
    return w, made
