"""Grants, which no Iceberg catalog keeps for Spark: one message says that they are ignored, or an error on request."""

from __future__ import annotations

from typing import Any

import pytest
from dbt.adapters.events.types import AdapterEventWarning
from dbt.tests.util import run_dbt, write_file
from dbt_common.events.event_catcher import EventCatcher
from dbt_common.exceptions import CompilationError

MODEL = "{{ config(materialized='%s', unique_key='id', grants={'select': ['reader']}) }} select 1 as id"
SNAPSHOT = """
snapshots:
  - name: as_snapshot
    relation: ref('plain')
    config: {unique_key: id, strategy: check, check_cols: all, grants: {select: [reader]}}
"""
OF_A_USER = """
{% materialization of_a_user, default %}
  {%- call statement('main') -%} create or replace table {{ this }} as {{ sql }} {%- endcall -%}
  {% do apply_grants(this, config.get('grants')) %}
  {{ return({'relations': [this.incorporate(type='table')]}) }}
{% endmaterialization %}
"""


class TestGrantsAreIgnored:
    KINDS = ("table", "view", "incremental", "arctic")

    @pytest.fixture(scope="class")
    def models(self) -> dict[str, str]:
        return {f"as_{kind}.sql": MODEL % kind for kind in self.KINDS} | {"plain.sql": "select 1 as id"}

    @pytest.fixture(scope="class")
    def snapshots(self) -> dict[str, str]:
        return {"snapshots.yml": SNAPSHOT}

    @pytest.fixture(scope="class")
    def seeds(self) -> dict[str, str]:
        return {"as_seed.csv": "id\n1\n"}

    @pytest.fixture(scope="class")
    def macros(self) -> dict[str, str]:
        return {"of_a_user.sql": OF_A_USER}

    @pytest.fixture(scope="class")
    def project_config_update(self) -> dict[str, Any]:
        return {"seeds": {"+grants": {"select": ["reader"]}}}

    def test_all_is_built_and_one_message_names_all(self, project: Any) -> None:
        catcher = EventCatcher(AdapterEventWarning)
        assert len(run_dbt(["build"], callbacks=[catcher.catch])) == 7
        messages = [event.data.base_msg for event in catcher.caught_events]
        assert len(messages) == 1
        reason = "an Iceberg catalog keeps no grants: access is set in the catalog or the storage"
        assert f"`grants` (dbt): {reason} [6 in the project]" in messages[0]

    def test_a_materialization_of_a_user_has_a_message_too(self, project: Any) -> None:
        write_file(MODEL % "of_a_user", "models", "other.sql")
        catcher = EventCatcher(AdapterEventWarning)
        run_dbt(["run", "--select", "other"], callbacks=[catcher.catch])
        messages = [event.data.base_msg for event in catcher.caught_events]
        assert sum("`grants` of " in text and "are ignored" in text for text in messages) == 1

    def test_on_request_they_are_an_error_before_anything_runs(self, project: Any) -> None:
        write_file((MODEL % "table").replace("unique_key='id'", "on_foreign_config='error'"), "models", "strict.sql")
        with pytest.raises(CompilationError, match=r"`grants` \(dbt\)"):
            run_dbt(["run", "--select", "strict"])
        assert "strict" not in project.adapter.catalog_reader.list_relations(project.test_schema)
