"""Completes the primary keys of arctic models without `primary_key`, from constraints, tests and queries.

Models whose key can't be determined are reported in one error.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import yaml
from dbt.adapters.events.logging import AdapterLogger
from dbt_common.exceptions import CompilationError

from arctic_runtime.errors import ConfigError
from arctic_runtime.manifest.node_model import select_written_keys
from arctic_runtime.plan.config.configure import lacks_key
from dbt.adapters.arctic.materialize.maintain import is_arctic
from dbt.adapters.arctic.materialize.readers import list_words
from dbt.adapters.arctic.project.keys.model_keys import (
    Declaration,
    DeclaredModel,
    Key,
    PassedRows,
    Promise,
    find_keys,
    find_passed_rows,
    guess_key,
)

logger = AdapterLogger("Arctic")


@dataclass(frozen=True)
class _KnownTest:
    """A generic test that implies a property of a key (`promise`), and the arguments that name the columns.

    Any argument besides these and `ignored` may restrict the rows that are tested, so such a test is not used.
    """

    promise: Promise
    arguments: tuple[str, ...] = ("column_name",)
    ignored: frozenset[str] = frozenset({"model"})


_QUOTED: Final = frozenset({"model", "quote_columns", "constraint_name"})

_KNOWN_TESTS: Final[Mapping[tuple[str | None, str], _KnownTest]] = {
    (None, "unique"): _KnownTest("unique"),
    (None, "not_null"): _KnownTest("not_null"),
    ("dbt_utils", "unique_combination_of_columns"): _KnownTest("unique", ("combination_of_columns",), _QUOTED),
    ("dbt_constraints", "primary_key"): _KnownTest("primary_key", ("column_names", "column_name"), _QUOTED),
    ("dbt_constraints", "unique_key"): _KnownTest("unique", ("column_names", "column_name"), _QUOTED),
    ("dbt_expectations", "expect_column_values_to_be_unique"): _KnownTest("unique"),
    ("dbt_expectations", "expect_column_values_to_not_be_null"): _KnownTest("not_null"),
    ("dbt_expectations", "expect_compound_columns_to_be_unique"): _KnownTest("unique", ("column_list",), _QUOTED),
}

_PROMISES: Final[Mapping[str, Promise]] = {
    "primary_key": "primary_key",
    "unique": "unique",
    "not_null": "not_null",
}
"""Types of constraints that imply a property of a key."""

_OLD_TIME_SPINE: Final = "metricflow_time_spine"
"""Name of the model that is the time spine in projects without `time_spine` in their YAML."""

_INDENT: Final = "  "
_NAMED_TABLES: Final = 10
"""Number of models without a key that a run names."""

_BUILDING: Final = ("run", "build", "retry")
"""dbt commands that build models, and so need their keys."""


def complete_keys(nodes: Iterable[Any]) -> frozenset[str]:
    """Sets `primary_key` of arctic models without one to the key that their constraints and tests promise.

    If they promise none, and the query returns rows of one other model, the keys of that model are used. A model
    without a key whose `on_missing_key` is `table` becomes a table of dbt; the ids of these models are returned.
    """
    nodes = tuple(nodes)
    keyless = [node for node in nodes if _is_keyless(node)]
    finder = _KeyFinder(nodes) if keyless else None
    tables = set[str]()
    for node in keyless:
        keys = finder.find_keys(node) if finder else ()
        if keys:
            node.config["primary_key"] = list(keys[0].columns)
            others = "".join(f"; not used: {list(key.columns)}" for key in keys[1:])
            logger.debug(f"{node.unique_id}: primary key {list(keys[0].columns)} from {keys[0].reason}{others}")
        elif _may_be_table(node):
            node.config.materialized = "table"
            tables.add(node.unique_id)
    return frozenset(tables)


def find_key_origins(nodes: Iterable[Any], others: Iterable[Any]) -> dict[str, str]:
    """Says, by the ids of those of `nodes` whose key nobody configured, which constraint, test or model tells it.

    `others` are all nodes of the project, with completed keys.
    """
    finder = _KeyFinder(tuple(others))
    origins: dict[str, str] = {}
    for node in nodes:
        written = {*node.unrendered_config, *getattr(node, "config_call_dict", {})}
        columns = node.config.get("primary_key")
        if columns and written.isdisjoint(("primary_key", "unique_key")):
            reasons = [key.reason for key in finder.find_keys(node) if list(key.columns) == columns]
            origins |= {node.unique_id: reasons[0]} if reasons else {}
    return origins


def check_keys(nodes: Iterable[Any], others: Iterable[Any]) -> None:
    """Raises one ConfigError about all arctic models among `nodes` without a key; it proposes YAML with guessed keys.

    `others` are all nodes of the project, among them the tests of the models.
    """
    keyless = sorted((node for node in nodes if _is_keyless(node)), key=lambda node: str(node.unique_id))
    if keyless:
        raise _build_error(keyless, _group_tests(others))


def check_selected_keys(config: Any, nodes: Sequence[Any], tables: Collection[str]) -> None:
    """Checks the keys of the models that the running dbt command selects, before it builds the first of them.

    Raises CompilationError for models without a key. Logs once the models among `tables`, which dbt builds as tables
    since they have no key. Does nothing for commands that build no models.
    """
    from dbt.selected_resources import SELECTED_RESOURCES

    if getattr(getattr(config, "args", None), "which", None) not in _BUILDING:
        return
    selected = frozenset(SELECTED_RESOURCES)
    try:
        check_keys((node for node in nodes if node.unique_id in selected), nodes)
    except ConfigError as error:
        raise CompilationError(str(error)) from error
    built = sorted(node.name for node in nodes if node.unique_id in selected and node.unique_id in tables)
    if built:
        logger.info(f"Without a key, built as tables of dbt (`on_missing_key: table`): {_name_some(built)}")
        logger.debug(f"All models without a key that are built as tables of dbt: {', '.join(built)}")


def _name_some(names: Sequence[str]) -> str:
    """The first names, and the number of the others."""
    more = len(names) - _NAMED_TABLES
    return ", ".join(names[:_NAMED_TABLES]) + (f" and {more} more, which `dbt --debug` lists" if more > 0 else "")


def _is_keyless(node: Any) -> bool:
    if not is_arctic(node):
        return False
    try:
        return lacks_key(select_written_keys(node.to_dict(omit_none=True)))
    except ConfigError:
        return False  # The check of the manifest reports it, with the file of the model.


def _may_be_table(node: Any) -> bool:
    """Whether a model without a key may become a table of dbt, by `on_missing_key: table`.

    A model of changes or of row versions may not, since a table of dbt can't hold them.
    """
    return _has_query_rows(node) and node.config.get("on_missing_key") == "table"


def _has_query_rows(node: Any) -> bool:
    """Whether the rows of a model are those of its query, rather than changes or versions of these."""
    return bool(node.config.get("input", "state") == "state" and node.config.get("history", "none") == "none")


class _KeyFinder:
    """Determines the keys of models from declarations about them, or about the models whose rows they return."""

    def __init__(self, nodes: Sequence[Any]) -> None:
        self._tests_by_model = _group_tests(nodes)
        self._nodes_by_name: dict[str, list[Any]] = defaultdict(list)
        for node in nodes:
            if str(node.resource_type) in ("model", "seed", "snapshot"):
                self._nodes_by_name[node.name].append(node)

    def find_keys(self, node: Any, passed: tuple[Any, ...] = ()) -> tuple[Key, ...]:
        """Returns the keys of a model, the preferred one first; empty if none is declared.

        `passed` are the models whose keys are being derived from this one's, to stop at a cycle.
        """
        declared = find_keys(_describe_model(node, self._tests_by_model))
        if declared or not _has_query_rows(node) or node in passed:
            return declared
        rows = find_passed_rows(node.raw_code or "") if getattr(node, "language", "sql") == "sql" else None
        sources = self._list_sources(rows) if rows else []
        if rows is None or len(sources) != 1:
            return ()
        keys = (*_list_written_keys(sources[0]), *self.find_keys(sources[0], (*passed, node)))
        renamed = ((rows.rename(key.columns), key.reason) for key in keys)
        return tuple(Key(columns, f"{reason} of `{rows.name}`") for columns, reason in renamed if columns)

    def _list_sources(self, rows: PassedRows) -> list[Any]:
        named = self._nodes_by_name[rows.name]
        return [node for node in named if not rows.package or node.package_name == rows.package]


def _list_written_keys(node: Any) -> tuple[Key, ...]:
    """Returns the primary key that users wrote for an arctic model; empty for other models."""
    written = node.config.get("primary_key") or node.config.get("unique_key") if is_arctic(node) else None
    columns = (written,) if isinstance(written, str) else tuple(written or ())
    return (Key(columns, "primary key"),) if columns and _has_query_rows(node) else ()


def _describe_model(node: Any, tests_by_model: Mapping[str, Sequence[Any]]) -> DeclaredModel:
    tests = tests_by_model.get(node.unique_id, ())
    return DeclaredModel(
        node.name,
        tuple(node.columns),
        (
            *_list_constraints(node),
            *_list_periods(node),
            *(declared for test in tests for declared in _read_test(test)),
        ),
        frozenset(list_words(node.raw_code or "")),
    )


def _list_constraints(node: Any) -> Iterator[Declaration]:
    own = [(constraint, list(constraint.columns)) for constraint in getattr(node, "constraints", ())]
    of_columns = [(constraint, [name]) for name, column in node.columns.items() for constraint in column.constraints]
    for constraint, columns in (*own, *of_columns):
        kind = str(getattr(constraint.type, "value", constraint.type))
        if kind in _PROMISES:
            yield Declaration(_PROMISES[kind], tuple(columns), kind, kind="constraint")


def _list_periods(node: Any) -> Iterator[Declaration]:
    """Yields the column of a time spine that has one row for each period, as dbt's semantic layer defines it."""
    spine = getattr(node, "time_spine", None)
    column = "date_day" if node.name == _OLD_TIME_SPINE else getattr(spine, "standard_granularity_column", None)
    if column:
        yield Declaration("primary_key", (column,), column, kind="time spine")


def _group_tests(nodes: Iterable[Any]) -> dict[str, list[Any]]:
    """Maps the id of a model to its tests, ordered by id.

    Only tests are used that fail at the first wrong row, and that test all rows.
    """
    tests: dict[str, list[Any]] = defaultdict(list)
    for node in sorted((node for node in nodes if str(node.resource_type) == "test"), key=lambda node: node.unique_id):
        model = getattr(node, "attached_node", None)
        if model and _is_strict(node.config):
            tests[model].append(node)
    return tests


def _is_strict(config: Any) -> bool:
    is_error = str(config.severity).lower() == "error" and str(config.error_if).replace(" ", "") == "!=0"
    return is_error and bool(config.enabled) and not config.where


def _read_test(test: Any) -> Iterator[Declaration]:
    metadata: Any = getattr(test, "test_metadata", None)
    known = _KNOWN_TESTS.get((metadata.namespace, metadata.name)) if metadata else None
    if known is None or set(metadata.kwargs) - known.ignored - set(known.arguments):
        return
    written: Any = next((metadata.kwargs[name] for name in known.arguments if name in metadata.kwargs), [])
    columns = [_read_column(name) for name in ([written] if isinstance(written, str) else written)]
    names = tuple(column for column in columns if column is not None)
    if names and len(names) == len(columns):
        yield Declaration(known.promise, names, metadata.name)


def _read_column(written: Any) -> str | None:
    """Returns the column that a test names; None if the test is of an expression."""
    match = re.fullmatch(r"`([^`]+)`|\"([^\"]+)\"|(\w+)", str(written).strip())
    return next(filter(None, match.groups()), None) if match else None


# The error


def _build_error(nodes: Sequence[Any], tests_by_model: Mapping[str, Sequence[Any]]) -> ConfigError:
    guesses = {node.unique_id: guess_key(_describe_model(node, tests_by_model)) for node in nodes}
    patch = "\n".join(_write_patch(nodes, guesses))
    models = "".join(
        f"\n  - {node.unique_id} ({node.original_file_path}){'' if guesses[node.unique_id] else ': no guess'}"
        for node in nodes
    )
    number = "1 arctic model has" if len(nodes) == 1 else f"{len(nodes)} arctic models have"
    return ConfigError(
        f"{number} no key: `primary_key` is missing, and no constraint or test says which columns identify a row."
        + models,
        expected="`primary_key` or `unique_key`, a primary key among the constraints, or `unique` and `not_null` tests",
        fix=(
            "configure the key of each model, or set `on_missing_key: table`, which makes models without a key tables "
            "of dbt" + (f". For dbt_project.yml, with guesses to check:\n\n{patch}" if patch else "")
        ),
    )


def _write_patch(nodes: Sequence[Any], guesses: Mapping[str, Key | None]) -> Iterator[str]:
    """Yields lines for dbt_project.yml with the guessed keys; none if no key was guessed."""
    written = set[tuple[str, ...]]()
    for node in sorted(nodes, key=lambda node: [str(part) for part in node.fqn]):
        guess = guesses[node.unique_id]
        if guess is not None:
            folders, name = ("models", *map(str, node.fqn[:-1])), str(node.fqn[-1])
            for depth in range(len(folders)):
                if folders[: depth + 1] not in written:
                    written.add(folders[: depth + 1])
                    yield f"{_INDENT * depth}{_write_scalar(folders[depth])}:"
            columns = ", ".join(map(_write_scalar, guess.columns))
            key = f"{{+primary_key: [{columns}]}}  # a guess, by {guess.reason}"
            yield f"{_INDENT * len(folders)}{_write_scalar(name)}: {key}"


def _write_scalar(text: str) -> str:
    """Returns a text as a YAML scalar for a flow sequence."""
    return str(yaml.safe_dump([text], default_flow_style=True, allow_unicode=True, width=1000)).strip()[1:-1]
