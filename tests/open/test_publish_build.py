"""A dbt build with `publish: build` on a REST server of others: Iceberg's own servlet."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from arctic_runtime.catalog.reader import CatalogReader
from arctic_runtime.profile import Profile
from tests.open.catalog_servers import CATALOGS

ROOT = Path(__file__).parents[2]
ORDERS = """{{ config(materialized='arctic', primary_key='id', merge='on_read') }}
select id, amount from {{ ref('raw_orders') }}
"""
TOTAL = """{{ config(materialized='table') }}
select count(*) as n from {{ ref('orders') }}
"""
YAML = """
models:
  - name: orders
    columns:
      - name: amount
        data_tests: [not_null]
"""


def write_project(folder: Path, properties: Mapping[str, str], settings: Mapping[str, str]) -> None:
    target = {
        "type": "arctic",
        "database": "lake",
        "schema": "dwd",
        "catalog_config": dict(properties),
        "publish": "build",
        "server_side_parameters": dict(settings),
    }
    profiles = {"shop": {"target": "dev", "outputs": {"dev": target}}}
    project = {"name": "shop", "version": "1.0", "profile": "shop", "seeds": {"+column_types": {"amount": "int"}}}
    files = {
        "dbt_project.yml": json.dumps(project),
        "profiles.yml": json.dumps(profiles),
        "models/orders.sql": ORDERS,
        "models/total.sql": TOTAL,
        "models/schema.yml": YAML,
    }
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)


def build(folder: Path, rows: str) -> subprocess.CompletedProcess[str]:
    (folder / "seeds").mkdir(exist_ok=True)
    (folder / "seeds" / "raw_orders.csv").write_text(f"id,amount\n{rows}")
    command = [
        sys.executable,
        "-m",
        "dbt.cli.main",
        "build",
        "--project-dir",
        str(folder),
        "--profiles-dir",
        str(folder),
    ]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)


def count_rows(reader: CatalogReader, name: str) -> int:
    snapshot = reader.load_table("dwd", name).current_snapshot()
    assert snapshot is not None
    assert snapshot.summary is not None
    return int(snapshot.summary["total-records"] or 0)


def test_a_build_is_published_after_its_tests(tmp_path: Path, spark_settings: dict[str, str]) -> None:
    settings = {key: value for key, value in spark_settings.items() if key != "spark.arctic.jars"}
    with CATALOGS["iceberg_rest"].run(tmp_path) as properties:
        project, reader = tmp_path / "project", CatalogReader(Profile("lake", properties))
        write_project(project, properties, settings)
        done = build(project, "1,10\n2,20\n")
        assert done.returncode == 0, done.stdout
        assert "one after another" in done.stdout
        relations = reader.list_relations("dwd")
        assert relations["orders"] == "view"
        assert {"orders__changes", "orders__base", "total", "raw_orders"} <= set(relations)
        assert (count_rows(reader, "raw_orders"), count_rows(reader, "orders__changes")) == (2, 2)
        held = build(project, "1,10\n2,20\n3,\n")
        assert "orders is not published" in held.stdout
        assert (count_rows(reader, "raw_orders"), count_rows(reader, "orders__changes")) == (3, 2)
        done = build(project, "1,10\n2,20\n3,30\n")
        assert done.returncode == 0, done.stdout
        assert count_rows(reader, "orders__changes") == 3
        assert len([name for name in reader.load_table("dwd", "total").metadata.refs if name.startswith("build_")]) == 2
        assert [key for key in reader.load_namespace_properties("dwd") if key.startswith("arctic.")] == []
