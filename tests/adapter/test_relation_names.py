"""No relation of a project takes the place of one that is kept for another: such a project is not parsed."""

from __future__ import annotations

from typing import Any

import pytest
from dbt.exceptions import CompilationError
from dbt.tests.util import rm_file, run_dbt, write_file

ARCTIC = "{{ config(materialized='arctic', primary_key='id'%s) }} select 1 as id"
PLAIN = "{{ config(materialized='%s'%s) }} select 1 as id"
WITH_FEED = ARCTIC % ", changes_view='o__base'"
WITH_VIEW = ARCTIC % ", current_view='o__base', input='changes', sequence_by='id', history='scd2'"
SNAPSHOT = (
    "{%% snapshot %s %%}{{ config(target_schema=target.schema, unique_key='id', strategy='check', check_cols='all') }}"
    " select 1 as id {%% endsnapshot %%}"
)
INGESTED = """
sources:
  - name: shop
    schema: "{{ target.schema }}"
    meta: {arctic: {ingest: {connector: files, path: /landing}}}
    tables: [{name: orders}]
  - name: changes
    schema: "{{ target.schema }}"
    tables: [{name: o__changes}]
"""


class TestNamesOfRelations:
    @pytest.fixture(scope="class")
    def models(self) -> dict[str, str]:
        return {"o.sql": ARCTIC % "", "sources.yml": INGESTED}

    @pytest.mark.parametrize(
        ("path", "text", "kept_for"),
        [
            ("models/o__changes.sql", PLAIN % ("table", ""), "the change table of model.test.o"),
            ("models/o__base.sql", PLAIN % ("view", ""), "the base of model.test.o"),
            ("models/o__totals.sql", ARCTIC % "", "the aggregate state of model.test.o"),
            ("models/o__forget.sql", PLAIN % ("incremental", ""), "the table of keys to forget of model.test.o"),
            ("models/m.sql", PLAIN % ("table", ", alias='O__Changes'"), "the change table of model.test.o"),
            ("models/m.sql", WITH_VIEW, "`current_view` of model.test.m"),
            ("models/m.sql", WITH_FEED, "`changes_view` of model.test.m"),
            ("seeds/o__base.csv", "id\n1\n", "the base of model.test.o"),
            ("snapshots/o__changes.sql", SNAPSHOT % "o__changes", "the change table of model.test.o"),
            ("models/orders.sql", PLAIN % ("table", ""), "the ingested table of source shop.orders"),
            ("models/orders__changes.sql", PLAIN % ("table", ""), "the change table of source shop.orders"),
            ("models/orders__snapshot.sql", PLAIN % ("table", ""), "the table for rows of a snapshot of source shop"),
            ("models/shop__dead_letters.sql", PLAIN % ("table", ""), "the dead letter table of source shop"),
            ("models/arctic__service.sql", PLAIN % ("table", ""), "the table of `arctic serve`"),
        ],
    )  # fmt: skip
    def test_a_node_with_the_name_of_a_helper_is_an_error_that_names_both(
        self, project: Any, path: str, text: str, kept_for: str
    ) -> None:
        place = (project.project_root, *path.split("/"))
        write_file(text, *place)
        try:
            with pytest.raises(CompilationError) as error:
                run_dbt(["parse"])
        finally:
            rm_file(*place)
        assert kept_for in str(error.value)
        assert path in str(error.value) or "_view`" in kept_for

    def test_what_has_another_place_is_no_collision(self, project: Any) -> None:
        """An ephemeral model has no relation, another schema is another place, and a source is what there is."""
        others = {
            "o__base.sql": PLAIN % ("ephemeral", ""),
            "o__changes.sql": PLAIN % ("table", ", schema='other'"),
            "o__snapshot.sql": PLAIN % ("table", ""),
            "o_current.sql": PLAIN % ("table", ""),
        }
        for name, text in others.items():
            write_file(text, project.project_root, "models", name)
        run_dbt(["parse"])
