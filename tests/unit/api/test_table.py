"""Methods of a table are the operations of the registry, with the same arguments."""

from __future__ import annotations

import inspect

import pytest

import arctic_runtime as arctic
from arctic_runtime.operations.operation import Operation
from arctic_runtime.operations.registry import OPERATIONS

OF_SEVERAL_TABLES = {"all", "cut"}
RENAMED: dict[str, dict[str, str | None]] = {
    "changes": {"start": "since", "end": "until", "limit": None},
    "diff": {"start": "since", "end": "until"},
}
"""Arguments with another name in Python; None is one that a DataFrame makes needless."""


@pytest.mark.parametrize("operation", OPERATIONS, ids=lambda operation: operation.name)
def test_an_operation_is_a_method_with_its_arguments(operation: Operation) -> None:
    renamed = RENAMED.get(operation.name, {})
    expected = {renamed.get(argument.name, argument.name) for argument in operation.arguments}
    expected |= {"confirmed"} if operation.needs_confirmation else {"plan"} if operation.plan else set()
    parameters = set(inspect.signature(getattr(arctic.Table, operation.name)).parameters)
    assert parameters - {"self"} == expected - OF_SEVERAL_TABLES - {None}


@pytest.mark.parametrize("operation", OPERATIONS, ids=lambda operation: operation.name)
def test_defaults_of_a_method_are_those_of_its_operation(operation: Operation) -> None:
    parameters = inspect.signature(getattr(arctic.Table, operation.name)).parameters
    for argument in operation.arguments:
        if (operation.name, argument.name) == ("restore", "version"):
            assert parameters["version"].default is inspect.Parameter.empty
        elif argument.name in parameters and not argument.is_required and argument.name != "key":
            assert parameters[argument.name].default in (argument.default, None)
