"""Keys that the manifest of a project tells: set, missing in one error, or done without as tables of dbt."""

from __future__ import annotations

from types import SimpleNamespace as Namespace
from typing import Any

import pytest
import yaml

from arctic_runtime.errors import ConfigError
from dbt.adapters.arctic.project.keys import missing_keys
from dbt.adapters.arctic.project.keys.missing_keys import (
    check_keys,
    check_selected_keys,
    complete_keys,
    find_key_origins,
)


class Config(dict[str, Any]):
    """A node's configuration, by key and by attribute, as dbt's."""

    __getattr__ = dict.__getitem__
    __setattr__ = dict.__setitem__  # type: ignore[assignment]


def a_model(name: str, *columns: str, constraints: tuple[Any, ...] = (), **config: Any) -> Any:
    node = Namespace(
        unique_id=f"model.shop.{name}",
        name=name,
        resource_type="model",
        original_file_path=f"models/{name}.sql",
        fqn=["shop", *(["marts"] if name.startswith("fct") else []), name],
        config=Config({"materialized": "arctic", **config}),
        constraints=constraints,
        columns={column: Namespace(constraints=[]) for column in columns},
        raw_code="select 1",
        unrendered_config=dict(config),
    )
    node.to_dict = lambda omit_none: {
        "unique_id": node.unique_id,
        "config": dict(node.config),
        "unrendered_config": dict(config),
    }
    return node


def a_test(
    model: str, name: str, package: str | None = None, config: dict[str, Any] | None = None, **kwargs: Any
) -> Any:
    settings = {"severity": "ERROR", "error_if": "!= 0", "enabled": True, "where": None, **(config or {})}
    return Namespace(
        unique_id=f"test.shop.{name}_{model}_{len(kwargs)}",
        resource_type="test",
        attached_node=f"model.shop.{model}",
        test_metadata=Namespace(name=name, namespace=package, kwargs={"model": "{{ m }}", **kwargs}),
        config=Config(settings),
    )


def list_key_tests(**changed: Any) -> list[Any]:
    return [
        a_test("m", "unique", column_name="id", **changed),
        a_test("m", "not_null", column_name="id"),
    ]


def complete(model: Any, *others: Any) -> Any:
    complete_keys([model, *others])
    return model.config.get("primary_key")


def test_a_key_that_tests_promise_is_set() -> None:
    assert complete(a_model("m", "id"), *list_key_tests()) == ["id"]


@pytest.mark.parametrize(
    "config", [{"where": "id > 0"}, {"severity": "warn"}, {"error_if": "> 10"}, {"enabled": False}]
)
def test_a_test_that_leaves_rows_out_or_lets_them_pass_promises_nothing(config: dict[str, Any]) -> None:
    assert complete(a_model("m", "id"), *list_key_tests(config=config)) is None


@pytest.mark.parametrize(
    ("name", "package", "kwargs", "key"),
    [
        ("unique_combination_of_columns", "dbt_utils", {"combination_of_columns": ["a", "b"]}, ["a", "b"]),
        ("unique_combination_of_columns", None, {"combination_of_columns": ["a", "b"]}, None),
        ("primary_key", "dbt_constraints", {"column_name": "a"}, ["a"]),
        ("primary_key", "dbt_constraints", {"column_names": ["a", "b"]}, ["a", "b"]),
        ("expect_compound_columns_to_be_unique", "dbt_expectations", {"column_list": ["a", "b"]}, ["a", "b"]),
        (
            "expect_compound_columns_to_be_unique",
            "dbt_expectations",
            {"column_list": ["a", "b"], "row_condition": "a > 1"},
            None,
        ),
        ("unique_combination_of_columns", "dbt_utils", {"combination_of_columns": ["a || b", "c"]}, None),
        ("unique_combination_of_columns", "dbt_utils", {"combination_of_columns": ["`a`", '"b c"']}, ["a", "b c"]),
    ],
)
def test_tests_of_packages_are_read_and_expressions_are_no_columns(
    name: str, package: str | None, kwargs: dict[str, Any], key: list[str] | None
) -> None:
    assert complete(a_model("m"), a_test("m", name, package, **kwargs)) == key


def test_a_primary_key_among_the_constraints_is_set_in_its_order() -> None:
    primary = Namespace(type=Namespace(value="primary_key"), columns=["shop", "day"])
    assert complete(a_model("m", "day", "shop", constraints=(primary,))) == ["shop", "day"]


BY_REF = "select *, 1 as one from {{ ref('m') }}"


def a_model_below(code: str = BY_REF, **config: Any) -> Any:
    model = a_model("below", **config)
    model.raw_code = code
    return model


@pytest.mark.parametrize("materialized", ["arctic", "view", "ephemeral"])
def test_a_model_has_the_key_of_the_one_whose_rows_it_returns(materialized: str) -> None:
    below = a_model_below("select id as order_id from {{ ref('m') }} where id > 1")
    complete_keys([below, a_model("m", "id", materialized=materialized), *list_key_tests()])
    assert below.config["primary_key"] == ["order_id"]


def test_a_key_comes_through_several_models_and_from_a_configured_one() -> None:
    below, middle = a_model_below("select * from {{ ref('middle') }}"), a_model_below()
    middle.name = middle.unique_id = "middle"
    complete_keys([below, middle, a_model("m", primary_key="id")])
    assert below.config["primary_key"] == middle.config["primary_key"] == ["id"]


@pytest.mark.parametrize(
    ("code", "upstream"),
    [
        ("select one from {{ ref('m') }}", {}),
        (BY_REF, {"history": "scd2", "primary_key": "id"}),
        (BY_REF, {"materialized": "incremental", "unique_key": "id"}),
        ("select * from {{ ref('below') }}", {}),
    ],
)
def test_no_key_comes_from_a_model_that_has_or_passes_none(code: str, upstream: dict[str, Any]) -> None:
    below = a_model_below(code)
    complete_keys([below, a_model("m", **upstream)])
    assert "primary_key" not in below.config


def test_no_key_comes_through_changes_or_from_one_of_two_models_with_a_name() -> None:
    below, other = a_model_below(input="changes"), a_model("m")
    complete_keys([below, a_model("m", "id"), *list_key_tests()])
    assert "primary_key" not in below.config
    below = a_model_below()
    complete_keys([below, a_model("m", "id"), other, *list_key_tests()])
    assert "primary_key" not in below.config


def test_a_time_spine_has_its_period_as_the_key() -> None:
    spine = a_model("days")
    spine.time_spine = Namespace(standard_granularity_column="day")
    assert complete(spine) == ["day"]
    assert complete(a_model("metricflow_time_spine")) == ["date_day"]


@pytest.mark.parametrize("config", [{"primary_key": "x"}, {"unique_key": "x"}, {"primary_key": None}])
def test_a_configured_key_stays(config: dict[str, Any]) -> None:
    model = a_model("m", "id", **config)
    complete_keys([model, *list_key_tests()])
    assert {key: model.config[key] for key in config} == config


def test_a_model_that_is_not_arctic_is_left_alone() -> None:
    model = a_model("m", "id", materialized="table", on_missing_key="table")
    assert complete_keys([model, *list_key_tests()]) == frozenset()
    assert "primary_key" not in model.config


def test_a_model_without_a_key_becomes_a_table_if_it_may() -> None:
    model = a_model("m", on_missing_key="table")
    assert complete_keys([model]) == {"model.shop.m"}
    assert model.config["materialized"] == "table"


@pytest.mark.parametrize("config", [{"input": "changes"}, {"history": "scd2"}])
def test_changes_and_versions_are_never_kept_in_a_table_of_dbt(config: dict[str, str]) -> None:
    model = a_model("m", on_missing_key="table", **config)
    assert complete_keys([model]) == frozenset()
    with pytest.raises(ConfigError, match="1 arctic model has no key"):
        check_keys([model], [model])


def test_one_error_lists_all_models_with_their_files_and_a_patch_of_guesses() -> None:
    models = [a_model("orders", "id", "order_id"), a_model("fct_x", "x_sk"), a_model("odd", "n"), a_model("fct_y")]
    unique = a_test("fct_y", "unique", column_name="code")
    with pytest.raises(ConfigError) as raised:
        check_keys(models, [*models, unique])
    text = str(raised.value)
    assert text.startswith("4 arctic models have no key: `primary_key` is missing")
    for model in models:
        assert f"{model.unique_id} ({model.original_file_path})" in text
    assert "model.shop.odd (models/odd.sql): no guess" in text
    assert "on_missing_key: table" in text
    assert text.count("# a guess, by ") == 3
    assert "# a guess, by test `unique`, without `not_null`" in text
    patch = yaml.safe_load(text[text.index("models:\n") :])
    assert patch == {
        "models": {
            "shop": {
                "marts": {"fct_x": {"+primary_key": ["x_sk"]}, "fct_y": {"+primary_key": ["code"]}},
                "orders": {"+primary_key": ["order_id"]},
            }
        }
    }


def test_models_with_a_key_are_no_error() -> None:
    model = a_model("m", "id")
    complete_keys([model, *list_key_tests()])
    check_keys([model], [model])


@pytest.mark.parametrize(("number", "more"), [(10, ""), (12, " and 2 more, which `dbt --debug` lists")])
def test_a_run_names_the_first_ten_tables_without_a_key(
    number: int, more: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    nodes = [a_model(f"m{n:02}", on_missing_key="table") for n in range(number)]
    tables = complete_keys(nodes)
    lines: dict[str, list[str]] = {"info": [], "debug": []}
    logger = Namespace(info=lines["info"].append, debug=lines["debug"].append)
    monkeypatch.setattr(missing_keys, "logger", logger)
    monkeypatch.setattr("dbt.selected_resources.SELECTED_RESOURCES", list(tables))
    check_selected_keys(Namespace(args=Namespace(which="run")), nodes, tables)
    assert [line.partition("`): ")[2] for line in lines["info"]] == [", ".join(f"m{n:02}" for n in range(10)) + more]
    assert all(node.name in lines["debug"][-1] for node in nodes)


def test_the_origin_of_a_key_is_told_unless_it_is_configured() -> None:
    told, own = a_model("m", "id"), a_model("own", "id", primary_key=["id"])
    other = a_model("other")
    other.raw_code = "select id from {{ ref('m') }}"
    nodes = [told, own, other, *list_key_tests()]
    complete_keys(nodes)
    assert find_key_origins([told, own, other], nodes) == {
        "model.shop.m": "test `unique` and not null",
        "model.shop.other": "primary key of `m`",
    }
