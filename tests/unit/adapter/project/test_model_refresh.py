"""What of a model is left to dbt's own code, and which queries are compiled before each refresh."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from dbt.adapters.arctic.project.model_refresh import is_persisting_docs, is_volatile, needs_dbt


class Config(SimpleNamespace):
    def get(self, key: str) -> Any:
        return getattr(self, key, None)


def node(raw_code: str = "select 1", macros: tuple[str, ...] = (), parents: tuple[str, ...] = (), **config: Any) -> Any:
    language = config.pop("language", "sql")
    ephemeral = config.pop("is_ephemeral_model", False)
    return SimpleNamespace(
        raw_code=raw_code,
        language=language,
        depends_on=SimpleNamespace(macros=list(macros)),
        depends_on_nodes=list(parents),
        is_ephemeral_model=ephemeral,
        config=Config(**{"pre_hook": [], "post_hook": [], **config}),
    )


def macro(sql: str, *calls: str) -> Any:
    return SimpleNamespace(macro_sql=sql, depends_on=SimpleNamespace(macros=list(calls)))


MACROS = {
    "macro.dbt_arctic.changes": macro("{{ return(adapter.changes_of(relation, model)) }}"),
    "macro.dbt.type_string": macro("{{ return(adapter.dispatch('type_string', 'dbt')()) }}"),
    "macro.utils.star": macro("{{ utils.columns() }}", "macro.utils.columns"),
    "macro.utils.columns": macro("{% set found = adapter.get_columns_in_relation(relation) %}", "macro.utils.star"),
}
MANIFEST = SimpleNamespace(
    macros=MACROS,
    nodes={
        "model.clock": node("select '{{ run_started_at }}'", is_ephemeral_model=True),
        "model.table": node("select '{{ run_started_at }}'"),
    },
)


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (node("select * from {{ ref('a') }} {{ var('x') }} {{ target.schema }}"), False),
        (node("{{ changes(ref('a')) }}", ("macro.dbt_arctic.changes", "macro.dbt.type_string")), False),
        (node("{% if is_incremental() %} where 1 {% endif %}"), True),
        (node("{% set found = run_query('select 1') %}"), True),
        (node("{{ modules.datetime.datetime.now() }}"), True),
        (node("{{ utils.star() }}", ("macro.utils.star",)), True),
        (node(parents=("model.clock",)), True),
        (node(parents=("model.table", "source.gone")), False),
    ],
)
def test_a_query_is_volatile_where_its_jinja_asks_the_warehouse_or_the_clock(value: Any, expected: bool) -> None:
    assert is_volatile(value, MANIFEST) is expected


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (node(), False),
        (node(full_refresh=False), False),
        (node(full_refresh=True), True),
        (node(grants={"select": ["me"]}), False),
        (node(post_hook=["select 1"]), True),
        (node(pre_hook=["select 1"]), True),
        (node(language="python"), True),
    ],
)
def test_dbt_runs_what_has_more_to_it_than_rows(value: Any, expected: bool) -> None:
    assert needs_dbt(value) is expected


@pytest.mark.parametrize(
    ("docs", "expected"),
    [(None, False), ({"relation": False}, False), ({"relation": True}, True), ({"columns": 1}, True)],
)
def test_descriptions_are_kept_where_they_are_asked_for(docs: Any, expected: bool) -> None:
    assert is_persisting_docs(node(persist_docs=docs)) is expected
