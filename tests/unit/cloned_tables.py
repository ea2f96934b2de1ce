"""Tables that pyiceberg wrote, and clones of them, without Spark."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from arctic_runtime.catalog.metadata_files import find_schema_location, write_metadata
from arctic_runtime.model.names import TableName
from arctic_runtime.model.table import Model, ModelConfig
from arctic_runtime.plan.cloning.clone_plan import CloneRequest, plan_clone
from arctic_runtime.plan.cloning.table_copy import derive_metadata
from arctic_runtime.spark.maintenance.cloning import read_origin

ODS, DWD = TableName("lake", "dwd", "ods"), TableName("lake", "dwd", "dwd")
UPSTREAMS = {TableName("lake", "dev", "ods"): ODS}


def a_clone(origin: TableName, merge: Any = "on_write", **config: Any) -> Model:
    table = replace(origin, schema="dev")
    return Model(table, "select 1", ModelConfig(**{"primary_key": ("id",), "hash_key": "id", "merge": merge, **config}))


def request_for(origin: TableName) -> CloneRequest:
    return CloneRequest(origin, 1000, "stamp", "me", UPSTREAMS)


def make_clones(writing: Any, folder: Path) -> tuple[Any, dict[str, Model]]:
    """A table that follows a source, and one that follows it; both are cloned into `dev`, as Spark does it."""
    warehouse = writing.warehouse(folder)
    warehouse.create("plain")
    plain = warehouse.append("plain", [(1, "p")])
    for name, upstream in (("ods", "plain"), ("dwd", "ods")):
        warehouse.create(f"{name}__changes", writing.changes, arctic_kind="changes", arctic_primary_key="id")
        read = {f"lake.dwd.{upstream}": plain if upstream == "plain" else warehouse.version("ods__changes")}
        for number in (1, 2):
            commit = [(number, "a", "insert")]
            warehouse.append(f"{name}__changes", commit, **writing.ran(read, "create", "FIRST_RUN"))
        warehouse.create(name, arctic_kind="base", arctic_primary_key="id")
        merged = writing.merged_to(warehouse.version(f"{name}__changes"))
        warehouse.append(name, [(1, "a"), (2, "a")], **merged)
    warehouse.reader.create_namespace("dev")
    models = {origin.name: a_clone(origin) for origin in (ODS, DWD)}
    for origin in (ODS, DWD):
        plan = plan_clone(
            models[origin.name],
            request_for(origin),
            read_origin(warehouse.reader, origin),
            find_schema_location(warehouse.reader, "dev"),
        )
        for table, tag, snapshot in plan.tags:
            warehouse.load(table.name).manage_snapshots().create_tag(snapshot, tag).commit()
        for table, copy in plan.copies:
            address = write_metadata(warehouse.reader, copy.name, derive_metadata(table.metadata, copy))
            warehouse.reader.catalog.register_table((copy.name.schema, copy.name.name), address)
    return warehouse, models
