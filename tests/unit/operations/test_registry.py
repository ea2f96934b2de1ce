"""The registry: every operation is reachable by each of its ways, and arguments are read alike in all of them."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from dbt.adapters.base import BaseRelation
from jinja2 import Environment, Undefined

import arctic_runtime
from arctic_runtime.errors import ConfigError
from arctic_runtime.model.names import TableName
from arctic_runtime.model.table import Model, ModelConfig
from arctic_runtime.operations.operation import Answer, Argument, Operation, OperationContext, on_one
from arctic_runtime.operations.registry import OPERATIONS, get_operation
from dbt.adapters.arctic.cli import build_parser, list_command_names
from dbt.adapters.arctic.materialize import table_operations
from dbt.adapters.arctic.relations.relation import ArcticRelation
from docs.generate_macros import MACROS, macros_text

_GENERATED = re.compile(r"<!-- generated: commands -->.*?<!-- end of generated", re.DOTALL)
ROOT = Path(arctic_runtime.__file__).parents[1]
PAGES = "".join(
    _GENERATED.sub("", (ROOT / "docs" / page).read_text(encoding="utf-8")) for page in ("commands.md", "maintenance.md")
)
WITH_MACRO = [known for known in OPERATIONS if known.macro_arguments is not None]
JSON_TYPES = {"string": str, "integer": int, "boolean": bool, "array": list, "object": dict}

each = pytest.mark.parametrize("known", OPERATIONS, ids=lambda known: known.name)


@each
def test_an_operation_is_a_command_and_is_in_the_documentation(known: Operation) -> None:
    assert known.name in list_command_names()
    assert f"arctic {known.name}" in PAGES
    if known.macro_arguments is not None:
        assert f"arctic_{known.name}" in PAGES


@each
def test_every_argument_has_help_and_a_default_that_json_can_hold_and_its_reader_takes(known: Operation) -> None:
    assert len({argument.name for argument in known.arguments}) == len(known.arguments)
    for argument in known.arguments:
        assert argument.help
        assert not (argument.is_required and argument.default is not None)
        if argument.default is not None:
            assert isinstance(json.loads(json.dumps(argument.default)), JSON_TYPES[argument.json_type])
            argument.read_value(None, argument.name)


@each
def test_only_operations_that_change_something_have_a_plan(known: Operation) -> None:
    assert known.changes or known.plan is None
    assert known.plan is not None or not known.needs_confirmation


@each
def test_an_unknown_argument_is_an_error_and_a_close_one_is_named(known: Operation) -> None:
    with pytest.raises(ConfigError, match=rf"{known.name} has no argument 'nonsense'; it has "):
        known.read_values({"nonsense": 1})
    for argument in known.arguments:
        if len(argument.name) > 2:
            with pytest.raises(ConfigError, match=re.escape(f"(did you mean '{argument.name}'?)")):
                known.read_values({f"{argument.name}s": 1})


def test_an_unknown_operation_is_an_error_and_a_close_one_is_named() -> None:
    with pytest.raises(ConfigError, match=r"unknown operation 'compakt' \(did you mean 'compact'\?\)"):
        get_operation("compakt")


@pytest.mark.parametrize(
    ("name", "typed", "given"),
    [
        ("compact", ["m", "--mode", "full", "--most", "5 KiB"], {"mode": "full", "most": 5 * 1024}),
        ("compact", ["--all"], {"all": True}),
        ("expire", ["m", "--orphans", "--older-than", "7d"], {"orphans": True, "older_than": "7d"}),
        ("status", ["--tree", "--partition", "day = 1"], {"tree": True, "partition": "day = 1"}),
        ("changes", ["m", "--from", "1", "--to", "2", "--limit", "3"], {"start": 1, "end": 2, "limit": 3}),
        ("lookup", ["m", "1", "b"], {"key": [1, "b"]}),
        ("restore", ["m", "--version", "12"], {"version": 12}),
        ("restore", ["--cut", "build_20261128T083012Z_0a1b"], {"cut": "build_20261128T083012Z_0a1b"}),
        ("savepoint", ["m", "good", "--drop"], {"name": "good", "drop": True}),
        (
            "overwrite",
            ["m", "--from", "t", "--as-of", "8", "--partition", "a=1", "--partition", "b=x=y"],
            {"source": "t", "as_of": 8, "partition": {"a": 1, "b": "x=y"}},
        ),
    ],
)
def test_the_command_line_and_json_mean_the_same(name: str, typed: list[str], given: dict[str, Any]) -> None:
    known = get_operation(name)
    options = build_parser().parse_args([name, *typed])
    by_text = known.read_values(
        {argument.name: getattr(options, argument.name) for argument in known.arguments}, flags=True
    )
    assert by_text == known.read_values(json.loads(json.dumps(given)))


@pytest.mark.parametrize(
    ("name", "given", "expected"),
    [
        ("compact", {"mode": "hard"}, "unknown compaction mode 'hard'; expected one of auto, minor, major, full"),
        ("compact", {"most": "much"}, "`most` must be a number of bytes"),
        ("compact", {"all": "yes"}, "`all` must be true or false; found 'yes'"),
        ("changes", {"start": 1, "end": 2, "limit": "few"}, "`limit` must be a whole number, 0 or more; found 'few'"),
        ("changes", {"start": 1, "end": 2, "limit": True}, "`limit` must be a whole number, 0 or more; found True"),
        ("lookup", {"key": "abc"}, "`key` must be a list; found 'abc'"),
        ("savepoint", {}, "`name` has no value"),
        ("savepoint", {"name": "a", "version": "1", "drop": True}, "savepoint takes `version` or `drop`, not both"),
        ("overwrite", {"source": "t", "as_of": None}, "`as_of` has no value"),
        ("overwrite", {"source": "t", "as_of": 1, "partition": {"a": None}}, "`partition.a` has no value"),
        (
            "overwrite",
            {"source": "t", "as_of": 1, "partition": "eu"},
            "`partition` must be a mapping of columns to values",
        ),
        ("overwrite", {"source": "t", "as_of": 1, "partition": ["eu"]}, "`partition` must be a column and its value"),
        ("expire", {"older_than": "soon"}, "`older_than` must be an age"),
    ],
)
def test_a_value_that_cannot_be_used_is_an_error_that_names_it(name: str, given: Any, expected: str) -> None:
    with pytest.raises(ConfigError, match=re.escape(expected)):
        get_operation(name).read_values(given)


def test_errors_name_arguments_as_the_command_line_does_where_they_are_typed_there() -> None:
    with pytest.raises(ConfigError, match="`--older-than` must be an age"):
        get_operation("expire").read_values({"older_than": "soon"}, flags=True)


def test_an_operation_without_a_plan_says_so() -> None:
    with pytest.raises(ConfigError, match="history can't be planned without execution; run it without --plan"):
        get_operation("history").run_operation(a_context(), [], {}, plan=True)


def test_the_file_of_macros_is_what_the_registry_says() -> None:
    assert MACROS.read_text(encoding="utf-8") == macros_text(), "run `make docs`"


@pytest.mark.parametrize("known", WITH_MACRO, ids=lambda known: known.name)
def test_a_macro_passes_all_its_arguments_and_unknown_ones_too(known: Operation) -> None:
    asked: list[tuple[str, Any, dict[str, Any]]] = []
    names = known.macro_arguments or ()

    class Adapter:
        def arctic_operation(self, name: str, target: Any, arguments: dict[str, Any]) -> list[str]:
            asked.append((name, target, arguments))
            return []

    module = Environment(extensions=["jinja2.ext.do"]).from_string(macros_text()).make_module({"adapter": Adapter()})
    macro = getattr(module, f"arctic_{known.name}")
    macro("m", *(f"value of {name}" for name in names))
    macro("m", modus="full")
    (name, target, arguments), (_, _, others) = asked
    assert (name, target, arguments) == (known.name, "m", {name: f"value of {name}" for name in names})
    assert others["modus"] == "full"
    for argument in known.arguments:
        if argument.name in names and not argument.is_required:
            assert others[argument.name] == argument.default


UNUSED: Any = None
"""A catalog or a session that nothing here asks for."""


def a_context() -> OperationContext:
    return OperationContext(UNUSED, UNUSED, ())


def test_a_macros_caller_gets_lines_and_may_name_a_relation_or_leave_an_argument_out() -> None:
    model = Model(TableName("lake", "dwd", "orders"), "select 1", ModelConfig(("id",)))
    seen: list[Any] = []

    def look(context: OperationContext, model: Model, values: Any) -> Answer:
        seen.append((context.models, model, dict(values)))
        return Answer({}, ("one", "two"))

    known = Operation(
        name="look",
        description="for this test",
        tables="one",
        perform=on_one(look),
        needs_spark=False,
        changes=False,
        arguments=(
            Argument("source", "a table", get_operation("overwrite").arguments[0].read),
            Argument("at", "a place"),
        ),
        macro_arguments=("source", "at"),
    )
    relation: BaseRelation = ArcticRelation.create(database="lake", schema="raw", identifier="events")
    given = {"source": relation, "at": Undefined(name="at")}
    context = OperationContext(UNUSED, UNUSED, (model,))
    lines = table_operations.perform_on_model(known, context, model, given)
    assert lines == ["one", "two"]
    assert seen == [((model,), model, {"source": TableName("lake", "raw", "events"), "at": None})]
    with pytest.raises(ConfigError, match=r"look has no argument 'sauce' \(did you mean 'source'\?\)"):
        table_operations.perform_on_model(known, context, model, {"sauce": 1})
