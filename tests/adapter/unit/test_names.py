"""Names of relations on their way into SQL."""

from __future__ import annotations

import pytest
from dbt_common.exceptions import CompilationError

from dbt.adapters.arctic import ArcticRelation
from dbt.adapters.arctic.relations.identifiers import quote_identifier, unquote_identifier

ODD_NAMES = ["we ird", "a`b", "it's", 'say "hi"', "select", "订单", "a.b", "x;drop table y", "--", "**"]


@pytest.mark.parametrize("name", ODD_NAMES)
def test_any_name_is_one_quoted_name(name: str) -> None:
    relation = ArcticRelation.create(database="lake", schema="s", identifier=name)
    assert relation.render() == "`lake`.`s`.`" + name.replace("`", "``") + "`"
    assert unquote_identifier(quote_identifier(name)) == name


@pytest.mark.parametrize(
    ("schema", "name", "said"),
    [
        ("s", "a/b", "'/'"),
        ("s", "a\\b", "'\\\\'"),
        ("s", "a\nb", "control character"),
        ("s", "", "empty"),
        ("a.b", "t", "'.'"),
    ],
)
def test_a_name_that_no_warehouse_can_hold_never_becomes_sql(schema: str, name: str, said: str) -> None:
    relation = ArcticRelation.create(database="lake", schema=schema, identifier=name)
    with pytest.raises(CompilationError) as refused:
        str(relation)
    assert said in str(refused.value)


def test_an_empty_run_reads_no_row() -> None:
    relation = ArcticRelation.create(database="lake", schema="s", identifier="t", limit=0)
    assert str(relation) == "(select * from `lake`.`s`.`t` where false limit 0)"


def test_a_temporary_view_has_no_catalog_and_no_schema() -> None:
    relation = ArcticRelation.create(database="lake", schema="s", identifier="t")
    temporary = relation.include(database=False, schema=False)
    assert (temporary.render(), temporary.is_temporary, relation.is_temporary) == ("`t`", True, False)


def test_schemas_render_without_a_table() -> None:
    relation = ArcticRelation.create(database="lake", schema="s", identifier="t").without_identifier()
    assert relation.render() == "`lake`.`s`"


def test_subqueries_of_ephemeral_models_are_quoted_where_they_must_be() -> None:
    assert ArcticRelation.add_ephemeral_prefix("m") == "__dbt__cte__m"
    assert ArcticRelation.add_ephemeral_prefix("m x`") == "`__dbt__cte__m x```"
