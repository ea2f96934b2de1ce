"""Which tables `arctic diff` compares with which, and what it says of them; the comparison itself is stood in for."""

from __future__ import annotations

import importlib.util
import json
from collections.abc import Callable, Collection
from types import SimpleNamespace
from typing import Any

import pytest

from arctic_runtime.errors import ConfigError
from arctic_runtime.model.columns import Column
from arctic_runtime.model.names import TableName
from arctic_runtime.model.table import Model, ModelConfig
from arctic_runtime.model.table_diff import ColumnDiff, Counterpart, RowExample, TableDiff, ValueChange
from arctic_runtime.operations import differences, masks
from arctic_runtime.operations.differences import DIFF
from arctic_runtime.operations.masks import MASK_KEY
from arctic_runtime.operations.operation import Answer, OperationContext
from arctic_runtime.service.http.encoding import encode_json
from arctic_runtime.spark.maintenance import table_comparison
from arctic_runtime.spark.maintenance.paired_rows import DiffRequest
from arctic_runtime.spark.tables import versions
from arctic_runtime.thresholds import Thresholds

CANARY = "canary-4711"
Ask = Callable[..., Answer]


def table(name: str, schema: str = "dev", catalog: str = "lake") -> TableName:
    return TableName(catalog, schema, name)


ORDERS = Model(table("orders"), "select 1", ModelConfig(("id",)), masks={"id": True})
DAILY = Model(table("daily"), "select 1", ModelConfig(("id",)))
LOG = Model(table("log"), "select 1", ModelConfig((), is_appended=True))
VERSIONS = {"orders": ("good", "17"), "daily": ("good",)}
EXISTING = {table(name, schema) for name in ("orders", "daily", "log") for schema in ("dev", "prod")}


def compare(model: Model, other: TableName, request: DiffRequest, **more: Any) -> TableDiff:
    is_orders = model is ORDERS
    row = {"id": CANARY, "mail": CANARY, "n": 1}
    return TableDiff(
        model.table,
        other,
        {"added": 1, "removed": 0, "changed": 1} if is_orders else dict.fromkeys(("added", "removed", "changed"), 0),
        200 if request.needs_rows else None,
        (ColumnDiff("mail", 1, (ValueChange(CANARY, None, 1),)),) if is_orders else (),
        examples=(RowExample("added", {"id": CANARY}, None, row),) if is_orders else (),
        removed_columns=(Column("old", "int"),) if is_orders else (),
        column_names=("id", "mail", "n"),
        **more,
    )


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[tuple[Any, ...]]:
    """The comparisons that were asked for."""
    calls: list[tuple[Any, ...]] = []

    def compare_with_table(session: Any, other: TableName, request: DiffRequest) -> TableDiff:
        calls.append((session.model.table.name, str(other), request))
        return compare(session.model, other, request)

    def compare_versions(session: Any, start: str, end: str | None, request: DiffRequest) -> TableDiff:
        calls.append((session.model.table.name, start, end, request))
        return compare(session.model, session.model.table, request, versions=(start, end or "9"))

    monkeypatch.setattr(table_comparison, "compare_with_table", compare_with_table)
    monkeypatch.setattr(table_comparison, "compare_versions", compare_versions)

    def find_window(reader: Any, model: Model, start: str, end: str | None) -> None:
        if start not in VERSIONS[model.table.name]:
            raise ConfigError(f"{model.table} has no version {start}")

    monkeypatch.setattr(versions, "find_window", find_window)
    monkeypatch.setattr(differences, "observe_clone", lambda *_: None)
    return calls


@pytest.fixture
def ask(asked: list[tuple[Any, ...]]) -> Ask:
    def describe_relation(schema: str, name: str) -> object | None:
        known = {(one.schema, one.name) for one in EXISTING}
        return object() if (schema, name) in known else None

    def list_descendants(tables: Collection[TableName]) -> Collection[TableName]:
        return [DAILY.table, LOG.table] if ORDERS.table in tables else []

    def find_counterparts(state: str | None, target: str | None) -> dict[TableName, Counterpart]:
        catalog = "pond" if state == "far" else "lake"
        found = {model.table: Counterpart(table(model.table.name, "prod", catalog)) for model in (ORDERS, DAILY, LOG)}
        return {**found, ORDERS.table: Counterpart(table("orders", "prod", catalog), {"mail": True})}

    reader: Any = SimpleNamespace(describe_relation=describe_relation, thresholds=Thresholds())
    context = OperationContext(
        reader,
        lambda: pytest.fail("Spark was asked"),  # type: ignore[arg-type, return-value]
        (DAILY, LOG, ORDERS),
        find_counterparts=find_counterparts,
        list_descendants=list_descendants,
    )

    def run(*models: Model, **given: Any) -> Answer:
        return DIFF.run_operation(context, models or context.models, DIFF.read_values(given))

    return run


@pytest.mark.parametrize("given", [{"state": "prod"}, {"other_target": "prod"}, {"other_schema": "prod"}])
def test_a_model_is_compared_with_all_below_it(ask: Ask, asked: list[Any], given: dict[str, str]) -> None:
    answer = ask(ORDERS, **given)
    request = DiffRequest()
    assert asked == [("orders", "lake.prod.orders", request), ("daily", "lake.prod.daily", request)]
    assert answer.differs
    assert answer.lines[-1] == "no differences: lake.dev.daily"
    assert [diff["differs"] for diff in answer.data] == [True, False]
    asked.clear()
    assert not ask(DAILY, **given).differs
    ask(ORDERS, only=True, **given)
    assert [call[0] for call in asked] == ["daily", "orders"]
    asked.clear()
    ask(**given)
    assert [call[0] for call in asked] == ["daily", "orders"]


def test_versions_are_those_of_each_table(ask: Ask, asked: list[Any]) -> None:
    answer = ask(ORDERS, start="good", column="mail", limit=7)
    request = DiffRequest("mail", 7)
    assert asked == [("orders", "good", None, request), ("daily", "good", None, request)]
    assert answer.lines[0] == "lake.dev.orders from good to 9"
    asked.clear()
    assert len(ask(ORDERS, start="17").data) == len(ask(start="17").data) == 1
    with pytest.raises(ConfigError, match="daily has no version 17"):
        ask(DAILY, start="17")
    with pytest.raises(ConfigError, match="nothing to compare"):
        ask(start="unknown")
    with pytest.raises(ConfigError, match="A version to compare with is missing"):
        ask(ORDERS, end="9")


def test_rows_are_counted_only_for_percentages(ask: Ask, asked: list[Any]) -> None:
    assert ask(ORDERS, other_schema="prod", fail_on="changed>0").differs
    assert not asked[-1][-1].needs_rows
    assert not ask(ORDERS, other_schema="prod", fail_on="changed>0.5%").differs
    assert asked[-1][-1].needs_rows
    assert ask(ORDERS, other_schema="prod", fail_on="changed>0.4%").differs


def test_masked_values_are_in_no_answer(ask: Ask, monkeypatch: pytest.MonkeyPatch) -> None:
    for markdown in (False, True):
        answer = ask(ORDERS, state="prod", markdown=markdown)
        shown = f"{answer}{json.dumps(answer.data)}{encode_json(answer)!r}{answer!r}"
        assert CANARY not in shown
        assert answer.data[0]["masked_columns"] == ("id", "mail")
    monkeypatch.setenv("DBT_ENV_SECRET_ANY", CANARY)
    assert CANARY not in str(ask(ORDERS, other_schema="prod"))
    monkeypatch.delenv("DBT_ENV_SECRET_ANY")
    assert CANARY in str(ask(ORDERS, other_schema="prod")), "without a mask of the other side its values show"


def test_the_key_of_hashes_is_of_one_process(ask: Ask) -> None:
    assert str(ask(ORDERS, state="prod")) == str(ask(ORDERS, state="prod"))
    spec = importlib.util.find_spec(masks.__name__)
    assert spec is not None
    assert spec.loader is not None
    other = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(other)
    assert len(MASK_KEY) == len(other.MASK_KEY) == 32
    assert MASK_KEY != other.MASK_KEY


def test_what_can_not_be_compared_is_refused_by_name(ask: Ask) -> None:
    with pytest.raises(ConfigError, match="different catalogs") as raised:
        ask(ORDERS, state="far")
    assert raised.value.actual == "pond.prod.orders"
    for given in ({}, {"other_schema": "nowhere"}, {"other_schema": "dev"}):
        with pytest.raises(ConfigError, match="nothing to compare"):
            ask(ORDERS, **given)
    with pytest.raises(ConfigError, match="No compared table has a column 'male'"):
        ask(ORDERS, other_schema="prod", column="male")
    with pytest.raises(ConfigError, match="not both"):
        ask(ORDERS, other_schema="prod", state="prod")


def test_tables_without_a_project_have_no_other_environment() -> None:
    reader: Any = None
    context = OperationContext(reader, lambda: pytest.fail("Spark"), ())  # type: ignore[arg-type, return-value]
    with pytest.raises(ConfigError, match="known only to a dbt project"):
        DIFF.run_operation(context, [], DIFF.read_values({"state": "prod"}))
