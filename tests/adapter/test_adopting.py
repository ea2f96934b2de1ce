"""An existing dbt project that takes `materialized: arctic` for a whole folder, and gives it back."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from dbt.tests.util import run_dbt, run_dbt_and_capture, write_file
from dbt_common.exceptions import CompilationError

ARCTIC = {"+materialized": "arctic", "+on_missing_key": "{{ var('missing', 'error') }}"}
LANDED = "select * from {{ source('shop', 'landed') }}"
SOURCES = """
sources:
  - name: shop
    schema: "{{ target.schema }}"
    tables: [{name: landed}, {name: taken}]
"""
KEYS = """
models:
  - name: by_constraint
    constraints: [{type: primary_key, columns: [id]}]
  - name: by_tests
    columns: [{name: id, data_tests: [unique, not_null]}]
  - name: by_combination
    data_tests: [{dbt_utils.unique_combination_of_columns: {arguments: {combination_of_columns: [customer, id]}}}]
"""
COMBINATION = """
{% test unique_combination_of_columns(model, combination_of_columns) %}
select {{ combination_of_columns | join(', ') }} from {{ model }}
group by {{ combination_of_columns | join(', ') }} having count(*) > 1
{% endtest %}
"""


def rows(project: Any, name: str) -> list[tuple[Any, ...]]:
    return sorted(project.run_sql(f"select id, customer, amount from {table(project, name)}", fetch="all"))


def table(project: Any, name: str) -> str:
    return f"`lake`.`{project.test_schema}`.`{name}`"


def messages(results: Any) -> dict[str, str]:
    return {result.node.name: result.message for result in results}


class Landed:
    @pytest.fixture(scope="class")
    def project_config_update(self) -> dict[str, Any]:
        return {"models": {"test": ARCTIC}}

    @pytest.fixture(scope="class", autouse=True)
    def landed(self, project: Any) -> None:
        project.run_sql(f"create table {table(project, 'landed')} (id bigint, customer string, amount bigint)")
        project.run_sql(f"insert into {table(project, 'landed')} values (1,'a',10),(2,'b',20),(3,'a',30)")


class TestKeys(Landed):
    """Keys that the project tells already are taken, and the others are asked for at once."""

    @pytest.fixture(scope="class")
    def packages(self) -> dict[str, Any]:
        folder = Path("dbt_utils")
        (folder / "macros").mkdir(parents=True, exist_ok=True)
        (folder / "dbt_project.yml").write_text("{name: dbt_utils, version: 1.0.0, config-version: 2}")
        (folder / "macros" / "combination.sql").write_text(COMBINATION)
        return {"packages": [{"local": str(folder.absolute())}]}

    @pytest.fixture(scope="class")
    def models(self) -> dict[str, str]:
        by_ref = "select * from {{ ref('odd') }}"
        told = {f"{name}.sql": LANDED for name in ("by_constraint", "by_tests", "by_combination")}
        return {
            "sources.yml": SOURCES,
            "schema.yml": KEYS,
            **told,
            "odd.sql": LANDED,
            "below.sql": "{{ config(primary_key='id') }}" + by_ref,
            "ids.sql": "select id from {{ ref('odd') }}",
            "by_query.sql": "with rows as (select * from {{ ref('by_tests') }}) select * from rows where amount > 0",
        }

    @pytest.fixture(scope="class", autouse=True)
    def installed(self, project: Any, landed: None) -> None:
        run_dbt(["deps"])

    def test_a_run_of_keyless_models_is_one_error_before_the_first_model(self, project: Any) -> None:
        with pytest.raises(CompilationError) as raised:
            run_dbt(["run"])
        assert "2 arctic models have no key" in str(raised.value)
        assert "model.test.odd (models/odd.sql): no guess" in str(raised.value)
        assert "    ids: {+primary_key: [id]}  # a guess" in str(raised.value)
        assert project.adapter.catalog_reader.list_relations(project.test_schema).keys() == {"landed"}

    def test_keyless_models_that_are_not_selected_do_not_matter(self, project: Any) -> None:
        run_dbt(["compile"])
        names = ["by_constraint", "by_tests", "by_combination", "by_query"]
        assert messages(run_dbt(["run", "--select", *names])) == dict.fromkeys(names, "create +3 ~0 -0")
        keys = {"by_constraint": "id", "by_tests": "id", "by_combination": "customer,id", "by_query": "id"}
        for name in names:
            described = project.adapter.catalog_reader.describe_relation(project.test_schema, f"{name}__changes")
            assert described.properties["arctic.primary-key"] == keys[name]
        assert set(messages(run_dbt(["run", "--select", *names])).values()) == {"unchanged"}

    def test_models_without_a_key_are_tables_if_they_may(self, project: Any) -> None:
        chosen = ["run", "--vars", json.dumps({"missing": "table"})]
        results, log = run_dbt_and_capture([*chosen, "--select", "odd", "below", "ids"])
        assert log.count("built as tables of dbt (`on_missing_key: table`): ids, odd") == 1
        assert messages(results)["below"] == "create +3 ~0 -0"
        project.run_sql(f"insert into {table(project, 'landed')} values (4,'c',40)")
        project.run_sql(f"update {table(project, 'landed')} set amount = 11 where id = 1")
        changed = messages(run_dbt([*chosen, "--select", "odd", "below", "ids"]))["below"]
        assert changed.endswith("+1 ~1 -0")
        assert rows(project, "below") == rows(project, "odd") == rows(project, "landed")
        assert "ids__changes" not in project.adapter.catalog_reader.list_relations(project.test_schema)


@pytest.mark.in_turn
class TestMaterializations(Landed):
    """A model changes its materialization, and its table keeps the rows of its query."""

    @pytest.fixture(scope="class")
    def models(self) -> dict[str, str]:
        return {"sources.yml": SOURCES, "m.sql": LANDED, "taken.sql": "select 1 as id", "keys.yml": "models: []"}

    @pytest.fixture(scope="class")
    def project_config_update(self) -> dict[str, Any]:
        return {}

    def materialize(self, project: Any, materialized: str, **config: str) -> str:
        config = {"materialized": materialized, "primary_key": "id", **config}
        write_file("{{ config(**" + json.dumps(config) + ") }} " + LANDED, "models", "m.sql")
        message = str(run_dbt(["run", "--select", "m"]).results[0].message)
        assert rows(project, "m") == rows(project, "landed")
        return message

    def list_parts(self, project: Any) -> set[str]:
        return {name for name in project.adapter.catalog_reader.list_relations(project.test_schema) if name[0] == "m"}

    @pytest.mark.parametrize("merge", ["on_write", "on_read"])
    def test_an_arctic_model_takes_the_place_of_every_other_and_gives_it_back(self, project: Any, merge: str) -> None:
        for other in ("table", "view", "incremental", "table"):
            self.materialize(project, other)
            assert self.list_parts(project) == {"m"}
            assert self.materialize(project, "arctic", merge=merge) == "create +3 ~0 -0"
            assert self.materialize(project, "arctic", merge=merge) == "unchanged"
            assert "m__changes" in self.list_parts(project)
        self.materialize(project, "view")
        assert self.list_parts(project) == {"m"}

    def test_a_run_that_fails_keeps_the_rows_of_the_table_before(self, project: Any) -> None:
        self.materialize(project, "table")
        before = rows(project, "m")
        write_file("{{ config(materialized='arctic', primary_key='customer') }} " + LANDED, "models", "m.sql")
        assert "duplicate key" in run_dbt(["run", "--select", "m"], expect_pass=False).results[0].message
        assert rows(project, "m") == before
        self.materialize(project, "arctic")
        write_file("{{ config(materialized='view') }} select nothing from " + LANDED[14:], "models", "m.sql")
        run_dbt(["run", "--select", "m"], expect_pass=False)
        assert rows(project, "m") == before

    def test_a_table_that_is_a_source_of_the_project_is_never_replaced(self, project: Any) -> None:
        project.run_sql(f"create table {table(project, 'taken')} as select 7 as id, 'x' as customer, 1 as amount")
        write_file("{{ config(materialized='arctic', primary_key='id') }} select 1 as id", "models", "taken.sql")
        assert "another relation" in run_dbt(["run", "--select", "taken"], expect_pass=False).results[0].message
        assert rows(project, "taken") == [(7, "x", 1)]


class TestTargetType:
    """Packages that compare `target.type` see the adapter that the profile names."""

    @pytest.fixture(scope="class")
    def dbt_profile_target(self, profile_target: dict[str, Any]) -> dict[str, Any]:
        return {**profile_target, "target_type": "databricks"}

    @pytest.fixture(scope="class")
    def models(self) -> dict[str, str]:
        enabled = "{{ config(enabled=target.type == 'databricks') }}"
        return {"m.sql": enabled + "select '{{ target.type }}' as shown, '{{ adapter.type() }}' as own"}

    def test_models_are_parsed_and_compiled_by_it(self, project: Any) -> None:
        assert run_dbt(["compile"]).results[0].node.compiled_code == "select 'databricks' as shown, 'arctic' as own"


FIVETRAN = """
{% macro json_parse(string, string_path) %}
  {{ adapter.dispatch('json_parse', 'fivetran_utils')(string, string_path) }}
{% endmacro %}
{% macro spark__json_parse(string, string_path) %}
  {{ string }} : {% for s in string_path %}{% if s is number %}[{{ s }}]{% else %}['{{ s }}']{% endif %}{% endfor %}
{% endmacro %}
{% macro other() %}{{ adapter.dispatch('other', 'fivetran_utils')() }}{% endmacro %}
{% macro spark__other() %}'of the package'{% endmacro %}
"""


class TestMacrosOfPackages:
    """A macro of a package whose form for Spark runs on Databricks alone has a form of this adapter."""

    @pytest.fixture(scope="class")
    def packages(self) -> dict[str, Any]:
        folder = Path("fivetran_utils")
        (folder / "macros").mkdir(parents=True, exist_ok=True)
        (folder / "dbt_project.yml").write_text("{name: fivetran_utils, version: 1.0.0, config-version: 2}")
        (folder / "macros" / "json_parse.sql").write_text(FIVETRAN)
        return {"packages": [{"local": str(folder.absolute())}]}

    @pytest.fixture(scope="class")
    def models(self) -> dict[str, str]:
        parsed = "{{ fivetran_utils.json_parse('receipt', ['charges', 0, 'exchange rate']) }}"
        rows = """(values (1, '{"charges": [{"exchange rate": 1.5}]}'), (2, '{}'), (3, null)) as t (id, receipt)"""
        own = "{{ config(materialized='arctic', primary_key='id') }}"
        return {"m.sql": f"{own} select id, {parsed} as rate, {{{{ fivetran_utils.other() }}}} as other from {rows}"}

    def test_a_path_into_json_is_read_by_spark(self, project: Any) -> None:
        run_dbt(["deps"])
        run_dbt(["run"])
        read = project.run_sql(f"select id, rate, other from {table(project, 'm')} order by id", fetch="all")
        assert [tuple(row) for row in read] == [
            (1, "1.5", "of the package"),
            (2, None, "of the package"),
            (3, None, "of the package"),
        ]
