"""The project of a soak: accounts and orders of a PostgreSQL, cities of a MariaDB, and models over both."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

MODELS: Mapping[str, str] = {
    "accounts": """{{ config(materialized='arctic', primary_key='id', merge='on_read') }}
select id, region, balance from {{ source('shop', 'accounts') }}
""",
    "open_orders": """{{ config(materialized='arctic', primary_key='id') }}
select o.id, o.account, o.amount, a.region
from {{ source('shop', 'orders') }} o join {{ source('shop', 'accounts') }} a on o.account = a.id
where o.state <> 'closed'
""",
    "regions": """{{ config(materialized='arctic', primary_key='region') }}
select region, count(*) as accounts, sum(balance) as balance from {{ ref('accounts') }} group by region
""",
    "cities": """{{ config(materialized='arctic', primary_key='city') }}
select c.city, count(*) as orders, sum(o.amount) as amount
from {{ ref('open_orders') }} o join {{ source('crm', 'customers') }} c on o.account = c.account group by c.city
""",
}
"""Names of models → their texts."""

RETENTION = {"versions": "5m"}
"""Retention of all tables, so that their histories no longer grow when a soak has become warm."""

TESTS: Mapping[str, Any] = {
    "models": [
        {"name": "regions", "columns": [{"name": "region", "data_tests": ["unique", "not_null"]}]},
        {"name": "open_orders", "columns": [{"name": "amount", "data_tests": ["not_null"]}]},
    ]
}


def write_project(folder: Path, postgresql: Mapping[str, Any], mariadb: Mapping[str, Any]) -> None:
    """Writes a dbt project; the mappings are the connections of the two sources."""
    target = {"type": "arctic", "schema": "dwd", "warehouse": str(folder / "warehouse"), "threads": 2}
    outputs = {"dev": target, "whole": {**target, "publish": "build"}}
    _write_yaml(folder / "profiles.yml", {"soak": {"target": "dev", "outputs": outputs}})
    models = {"soak": {"+retention": RETENTION}}
    project = {"name": "soak", "profile": "soak", "version": "1.0", "models": models}
    project["flags"] = {"send_anonymous_usage_stats": False}
    _write_yaml(folder / "dbt_project.yml", project)
    shop = _build_source("shop", {"connector": "postgresql", **postgresql}, ("accounts", "orders"))
    crm = _build_source("crm", {"connector": "mariadb", **mariadb}, ("customers",))
    (folder / "models").mkdir()
    _write_yaml(folder / "models" / "sources.yml", {"sources": [shop, crm]})
    _write_yaml(folder / "models" / "tests.yml", TESTS)
    for name, text in MODELS.items():
        (folder / "models" / f"{name}.sql").write_text(text, encoding="utf-8")


def _build_source(name: str, ingest: Mapping[str, Any], tables: tuple[str, ...]) -> dict[str, Any]:
    config = {"meta": {"arctic": {"ingest": dict(ingest)}}}
    table_config = {"config": {"meta": {"arctic": {"retention": RETENTION}}}}
    return {
        "name": name,
        "schema": "ods",
        "config": config,
        "tables": [{"name": table, **table_config} for table in tables],
    }


def _write_yaml(file: Path, content: Any) -> None:
    file.write_text(yaml.safe_dump(content, sort_keys=False), encoding="utf-8")
