"""Reads the tests that a project declares for models with `on_failed_row: quarantine` as conditions of their rows."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any

from arctic_runtime.plan.row_conditions import KNOWN_TESTS, DeclaredTest, RowCondition, build_condition

_PREFIXES = ("", "default__", "spark__", "arctic__")
"""Prefixes of the names by which a project may replace a macro of a package."""

_WHERE_MACRO = "macro.dbt.get_where_subquery"


class RowConditions:
    """The conditions of the rows of models, from the tests of a manifest, which are read at their first use.

    A test is a condition if it fails with severity `error` at the first wrong row, if its macro is known to return
    single rows, and if the project does not replace this macro.
    """

    def __init__(self, manifest: Any) -> None:
        self._manifest = manifest

    def list_conditions(self, unique_id: str) -> tuple[RowCondition, ...]:
        """Returns the conditions of the rows of a model, by the id of its node."""
        key = _list_key(self._manifest.nodes.get(unique_id))
        built = (build_condition(test, key) for test in self._list_tests(unique_id))
        return tuple(condition for condition in built if condition is not None)

    def _list_tests(self, unique_id: str) -> Iterator[DeclaredTest]:
        for node in self._tests.get(unique_id, ()):
            test = _read_test(node) if _is_strict(node.config) else None
            if test is None or test.macro in self._replaced:
                continue
            if test.where is None or _WHERE_MACRO not in self._replaced:
                yield test

    @cached_property
    def _tests(self) -> Mapping[str, Sequence[Any]]:
        """The tests of each node, by its id."""
        tests: dict[str, list[Any]] = defaultdict(list)
        for node in self._manifest.nodes.values():
            if str(node.resource_type) == "test" and getattr(node, "attached_node", None):
                tests[node.attached_node].append(node)
        return tests

    @cached_property
    def _replaced(self) -> frozenset[str]:
        """The ids of those macros that the project or a package replaces."""
        names = [(macro.name, macro.package_name) for macro in getattr(self._manifest, "macros", {}).values()]
        return frozenset(known for known in (*KNOWN_TESTS, _WHERE_MACRO) if _is_replaced(known, names))


def _is_replaced(macro: str, names: Sequence[tuple[str, str]]) -> bool:
    _, own_package, own_name = macro.split(".")
    wanted = {prefix + own_name for prefix in _PREFIXES}
    return any(name in wanted and package != own_package for name, package in names)


def _list_key(node: Any) -> tuple[str, ...]:
    written = None if node is None else node.config.get("primary_key") or node.config.get("unique_key")
    return (written,) if isinstance(written, str) else tuple(written or ())


def _is_strict(config: Any) -> bool:
    """Whether a test fails with an error at the first row that it returns."""
    is_error = str(config.severity).lower() == "error" and str(config.error_if).replace(" ", "") == "!=0"
    return is_error and bool(config.enabled) and str(config.fail_calc).replace(" ", "").lower() == "count(*)"


def _read_test(node: Any) -> DeclaredTest | None:
    """Returns a generic test with the macro that it calls; None for any other test."""
    metadata = getattr(node, "test_metadata", None)
    if metadata is None:
        return None
    called = [str(macro) for macro in node.depends_on.macros if str(macro).endswith(f".test_{metadata.name}")]
    if len(called) != 1:
        return None
    where = node.config.where
    return DeclaredTest(str(node.name), called[0], dict(metadata.kwargs), None if where is None else str(where))
