"""A model as it would be in another environment."""

from __future__ import annotations

from arctic_runtime.model.names import TableName, format_changes_view
from arctic_runtime.model.table import Model, ModelConfig
from arctic_runtime.plan.preview.renamed_model import move_model

ORDERS, MORE = TableName("lake", "dev", "orders"), TableName("lake", "dev", "orders`x")
PROD = {ORDERS: TableName("lake", "prod", "orders"), MORE: ORDERS}
CONFIG = ModelConfig(("id",))


def test_tables_and_the_views_of_their_changes_get_their_other_names_once() -> None:
    sql = f"select * from `lake`.`dev`.`orders` join `lake`.`dev`.`orders``x` join `{format_changes_view(ORDERS)}`"
    moved = move_model(Model(ORDERS, sql, CONFIG, tested_table=MORE), PROD)
    theirs = format_changes_view(PROD[ORDERS])
    assert moved.sql == f"select * from `lake`.`prod`.`orders` join `lake`.`dev`.`orders` join `{theirs}`"
    assert (moved.table, moved.tested_table) == (PROD[ORDERS], ORDERS)


def test_a_table_that_the_environment_does_not_have_keeps_its_name() -> None:
    model = Model(TableName("lake", "dev", "new"), "select 1 from `lake`.`dev`.`orders_2`", CONFIG)
    assert move_model(model, PROD) == model
    assert move_model(model, {}) == model
