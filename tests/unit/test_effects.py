"""The gateway of effects: names, waiting, meanings of failures, failpoints; and nothing writes past it."""

from __future__ import annotations

import ast
import errno
import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import arctic_runtime
from arctic_runtime.effects import (
    EFFECTS,
    VARIABLE,
    Engine,
    EngineFailure,
    FailureKind,
    parse_failpoints,
    perform_effect,
    retry_on_conflict,
    set_failpoint,
    wait_for_lock,
)
from arctic_runtime.errors import CatalogError, CommitConflict, ConfigError
from arctic_runtime.thresholds import CommitThresholds

ROOT = Path(arctic_runtime.__file__).parents[1]
EXEMPT = ("ivm/", "model/", "plan/", "service/agents/proposals.py", "service/telemetry/metrics_file.py")
EXEMPT += ("spark/engine/", "spark/jars.py", "sql/")
"""Parts of the runtime that can't write to a warehouse: they are pure, write a file of their own, or start Spark."""

GATEWAYS = ("perform_effect", "perform_change", "perform_statement", "set_properties", "delete_matching")
"""Functions that perform an effect; their first argument is its name."""

READING = {
    "dbt/adapters/arctic/connections/handle.py": {"'DROP VIEW ' + quote_identifier(view.viewName)", "statement"},
    "arctic_runtime/spark/data_tests.py": {"sql.strip().rstrip(';')"},
    "arctic_runtime/spark/tables/query_rows.py": {"query"},
    "arctic_runtime/spark/refresh/query_analysis.py": {"sql", "written", "create"},
    "arctic_runtime/spark/tables/rows/frames.py": {"template"},
}
"""Texts of `….sql(text)` that are no effect of ours: statements of users, views and functions of a session, queries."""

READERS = tuple(f"fill_statement('{verb}" for verb in ("DESCRIBE", "EXPLAIN", "SELECT", "USE"))
QUERIES = ("render_sql(", "pin_query(", "replace_with_history(", "trust_query(", *READERS, "'SHOW")
CHANGES = re.compile(r"\b(ALTER|CALL|CREATE|DELETE|DROP|INSERT|MERGE|REPLACE|TRUNCATE|UPDATE)\b", re.IGNORECASE)
WRITES_WITHOUT_ARGUMENTS = {"append", "create", "replace", "merge"}
WRITES = {"createOrReplace", "overwrite", "overwritePartitions", "insertInto", "saveAsTable"}
WRITES |= {"rmdir", "unlink", "rmtree", "delete_file"}
WRITES_OF_CATALOGS = {"create_namespace", "create_namespace_if_not_exists", "drop_namespace"}
WRITES_OF_CATALOGS |= {"create_table", "drop_table", "drop_view", "purge_table", "rename_table"}


class Broken(Exception):
    """An error of an engine."""


def engine(*kinds: FailureKind | None) -> Engine:
    """An engine whose errors mean one of these each, in turn."""
    left = list(kinds)

    def failure_of(error: Exception) -> EngineFailure | None:
        kind = left.pop(0)
        return EngineFailure(kind, str(error)) if kind else None

    return Engine((Broken,), failure_of, thresholds=CommitThresholds(lock_wait_seconds=0.05, lock_poll_seconds=0.01))


def failing(times: int) -> tuple[Callable[[], str], list[int]]:
    """An action that fails so many times, and a list of its calls."""
    calls: list[int] = []

    def action() -> str:
        calls.append(len(calls))
        if len(calls) <= times:
            raise Broken("no")
        return "done"

    return action, calls


def test_an_unregistered_effect_is_refused() -> None:
    with pytest.raises(KeyError, match=r"commit\.pubish"):
        perform_effect("commit.pubish", lambda: None, "publish")


def test_names_of_effects_are_levels_and_each_says_what_it_does() -> None:
    for name, entry in EFFECTS.items():
        assert all(part.replace("_", "").isalpha() and part.islower() for part in name.split("."))
        assert len(name.split(".")) in (2, 3)
        assert entry.does.endswith(".")
        assert entry.does[0].isupper()
    assert len({entry.does for entry in EFFECTS.values()}) == len(EFFECTS)


def test_a_repeatable_effect_waits_for_a_locked_catalog() -> None:
    action, calls = failing(2)
    assert perform_effect("view.replace", action, "replace", engine("locked", "locked")) == "done"
    assert len(calls) == 3


def test_a_lock_that_stays_is_named_after_a_while() -> None:
    action, _ = failing(1000)
    with pytest.raises(CatalogError, match=r"kept it locked[\s\S]*fuser"):
        perform_effect("view.replace", action, "replace", engine(*["locked"] * 1000))


@pytest.mark.parametrize(
    ("kind", "expected", "says"),
    [
        ("locked", CommitConflict, "The catalog was locked"),
        ("conflict", CommitConflict, "Another writer committed first"),
        ("unwritable", CatalogError, "The warehouse can't be written"),
        (None, Broken, "no"),
    ],
)
def test_an_effect_that_is_done_once_is_never_sent_twice(
    kind: FailureKind | None, expected: type[Exception], says: str
) -> None:
    action, calls = failing(1)
    with pytest.raises(expected, match=says):
        perform_effect("commit.append", action, "append", engine(kind))
    assert len(calls) == 1


@pytest.mark.parametrize("name", ["view.replace", "commit.append"])
def test_a_store_that_refuses_a_user_is_named_with_the_right(name: str) -> None:
    def write() -> None:
        raise OSError("AWS Error ACCESS_DENIED during DeleteObject operation: Access Denied")

    with pytest.raises(CatalogError, match=r"A right is missing: s3:DeleteObject[\s\S]*replace m"):
        perform_effect(name, write, "replace m")


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EROFS, errno.EACCES])
@pytest.mark.parametrize("name", ["view.replace", "commit.append"])
def test_a_disk_that_takes_nothing_is_named_by_any_effect(name: str, number: int) -> None:
    def write() -> None:
        raise OSError(number, os.strerror(number))

    with pytest.raises(CatalogError, match=rf"replace m[\s\S]*{os.strerror(number)}[\s\S]*the disk"):
        perform_effect(name, write, "replace m")


def test_another_error_of_the_machine_stays_as_it_is() -> None:
    def write() -> None:
        raise ConnectionResetError(errno.ECONNRESET, "reset")

    with pytest.raises(ConnectionResetError):
        perform_effect("view.replace", write, "replace m")


def test_a_question_waits_and_is_no_effect() -> None:
    reached: list[str] = []
    action, _ = failing(1)
    with set_failpoint(lambda name, _: reached.append(name)):
        assert wait_for_lock(action, "ask", engine("locked")) == "done"
    assert reached == []


def test_what_loses_races_is_tried_again_and_in_the_end_says_so() -> None:
    calls: list[int] = []

    def loses() -> str:
        calls.append(1)
        if len(calls) < 3:
            raise CommitConflict("first")
        return "won"

    assert retry_on_conflict(loses, 5) == "won"
    calls.clear()
    with pytest.raises(CommitConflict):
        retry_on_conflict(loses, 2)


# Failpoints


def test_a_failpoint_is_called_in_the_place_of_each_effect_until_its_block_ends() -> None:
    reached: list[str] = []

    def never(name: str, action: Callable[[], Any]) -> str:
        reached.append(name)
        return "instead"

    with set_failpoint(never):
        assert perform_effect("commit.branch", lambda: "done", "branch") == "instead"
    assert perform_effect("commit.branch", lambda: "done", "branch") == "done"
    assert reached == ["commit.branch"]


def test_a_failpoint_may_raise_before_or_after_or_at_one_of_several_times() -> None:
    done: list[str] = []

    def act() -> None:
        perform_effect("commit.publish", lambda: done.append("published"), "publish")

    for text, kept in {"commit.publish=raise": 0, "commit.publish=raise-after": 1}.items():
        done.clear()
        hook = parse_failpoints(text)
        assert hook is not None
        with set_failpoint(hook), pytest.raises(CatalogError, match=r"failpoint commit\.publish"):
            act()
        assert len(done) == kept
    hook = parse_failpoints("commit.branch=kill, commit.publish=raise@2")
    assert hook is not None
    with set_failpoint(hook):
        act()
        with pytest.raises(CatalogError):
            act()
        act()


@pytest.mark.parametrize(
    "text", ["commit.pubish=kill", "commit.publish", "commit.publish=die", "commit.publish=kill@x"]
)
def test_a_failpoint_that_can_not_be_read_is_refused(text: str) -> None:
    with pytest.raises(ConfigError, match="is not a failpoint"):
        parse_failpoints(text)


def test_no_text_is_no_failpoint() -> None:
    assert parse_failpoints("") is None


@pytest.mark.parametrize(("mode", "printed"), [("kill", ""), ("kill-after", "acted\n")])
def test_a_failpoint_of_the_environment_kills_a_process(mode: str, printed: str) -> None:
    code = (
        "from arctic_runtime.effects import perform_effect\n"
        "perform_effect('commit.publish', lambda: print('acted', flush=True), 'publish')\nprint('lived')"
    )
    environment = {**os.environ, VARIABLE: f"commit.publish={mode}", "PYTHONPATH": str(ROOT)}
    ended = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=False)
    assert (ended.returncode, ended.stdout) == (-signal.SIGKILL, printed)


# Nothing writes past the gateway


def test_every_effect_has_its_place_in_the_code_and_every_name_there_is_registered() -> None:
    used = {name for _, source in sources() for name in names_used(ast.parse(source))}
    assert used == set(EFFECTS)


def test_nothing_writes_outside_of_an_effect() -> None:
    writes = [f"{path}:{line}: {text}" for path, source in sources() for line, text in writes_outside(source, path)]
    assert writes == []


@pytest.mark.parametrize(
    "line",
    [
        "rows.writeTo('t').append()",
        "rows.writeTo('t').options(**options).overwrite(F.lit(True))",
        "wait_for_lock(writer.createOrReplace, 'write', SPARK)",
        "spark.sql(fill_statement('DROP TABLE {t}', t=t))",
        "context.spark.sql(sql).collect()",
        "self.catalog.drop_namespace((namespace,))",
        "self._fetch_rows('CREATE SCHEMA ' + name)",
        "folder.rmdir()",
    ],
)
def test_a_write_outside_of_an_effect_is_seen(line: str) -> None:
    assert [text for _, text in writes_outside(f"def f():\n    {line}", "f.py")]
    assert not list(writes_outside(f"def f():\n    perform_effect('base.create', lambda: {line}, 'create')", "f.py"))
    nested = f"def f():\n    def g():\n        {line}\n    perform_effect('a.b', g, 'create')"
    assert not list(writes_outside(nested, "f.py"))


def sources() -> Iterator[tuple[str, str]]:
    """The modules that could write, by their paths."""
    exempt = tuple(f"arctic_runtime/{folder}" for folder in EXEMPT)
    for folder in ("arctic_runtime", "dbt/adapters/arctic"):
        for file in sorted((ROOT / folder).rglob("*.py")):
            path = file.relative_to(ROOT).as_posix()
            if not path.startswith(exempt):
                yield path, file.read_text()


def names_used(tree: ast.AST) -> Iterator[str]:
    """The names of effects that a module gives to a gateway, or to a function that gives them to one."""
    for call in ast.walk(tree):
        if isinstance(call, ast.Call) and call.args and isinstance(first := call.args[0], ast.Constant):
            passing = (
                "SetProperties",
                "set_tag",
                "drop_tags",
                "create_branch",
                "_change_refs",
                "create_table",
                "create_internal_table",
                "replace_rows",
                "replace_internal_table",
                "_drop_branches",
                "commit_summary",
            )
            if called(call) in (*GATEWAYS, *passing) and isinstance(first.value, str):
                yield first.value


def writes_outside(source: str, path: str) -> Iterator[tuple[int, str]]:
    """Lines of a module that may write, as far as their form tells, and are no part of an effect."""
    tree = ast.parse(source)
    imports = [node for node in ast.walk(tree) if isinstance(node, ast.Import | ast.ImportFrom)]
    modules = {alias.asname or alias.name for node in imports for alias in node.names}
    inside = {id(part) for action in actions(tree) for part in ast.walk(action)}
    calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call)]
    with_arguments = {id(call.func) for call in calls if call.args or call.keywords}
    for node in ast.walk(tree):
        if id(node) in inside:
            continue
        if isinstance(node, ast.Call) and is_statement(node, path):
            yield node.lineno, ast.unparse(node)
        if isinstance(node, ast.Attribute) and is_writer(node, id(node) in with_arguments, modules):
            yield node.lineno, ast.unparse(node)


def actions(tree: ast.AST) -> Iterator[ast.AST]:
    """What gateways are given to do: arguments, and functions that are arguments by their names."""
    for function in ast.walk(tree):
        if isinstance(function, ast.FunctionDef):
            calls = [node for node in ast.walk(function) if isinstance(node, ast.Call) and called(node) in GATEWAYS]
            given = {argument.id for call in calls for argument in call.args if isinstance(argument, ast.Name)}
            for call in calls:
                yield from call.args
            yield from (node for node in function.body if isinstance(node, ast.FunctionDef) and node.name in given)


def called(call: ast.Call) -> str:
    match call.func:
        case ast.Name(id=name) | ast.Attribute(attr=name):
            return name
        case _:
            return ""


def is_statement(call: ast.Call, path: str) -> bool:
    """Whether a call gives Spark a statement that is no query."""
    if not call.args or called(call) not in ("sql", "_fetch_rows"):
        return False
    text = ast.unparse(call.args[0])
    if called(call) == "_fetch_rows":
        return CHANGES.search(text) is not None
    return not (text.startswith(QUERIES) or text.endswith("model.sql") or text in READING.get(path, ()))


def is_writer(attribute: ast.Attribute, has_arguments: bool, modules: set[str]) -> bool:
    """Whether an attribute is a method that writes; functions of modules, keys and thresholds are none."""
    owner = ast.unparse(attribute.value)
    if owner in modules or owner.endswith(("config", "thresholds")):
        return False
    if attribute.attr in WRITES_OF_CATALOGS:
        return owner.endswith("catalog")
    return attribute.attr in WRITES or (attribute.attr in WRITES_WITHOUT_ARGUMENTS and not has_arguments)
