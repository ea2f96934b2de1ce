"""Stands in for Spark: understands the statements by which the runtime commits, and writes rows that Python computed.

The statements themselves are the runtime's own, as are the functions that make them: branches, fast-forwards, tags,
properties, views, expiry and orphaned files. What Spark does with rows is modelled here: to fold change rows, to merge
them into a base, to rewrite its files.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from types import SimpleNamespace
from typing import Any

from pyspark.errors import PySparkException

from arctic_runtime.effects import perform_effect
from arctic_runtime.model.columns import ACTION, BEFORE, SEQUENCE, TIMESTAMP, Column, strip_change_columns
from arctic_runtime.model.names import TableName
from arctic_runtime.model.properties import MODEL_TABLE
from arctic_runtime.model.shape import ChangeSet
from arctic_runtime.model.step import CreateBase, CreateChangeTable, MergeBase
from arctic_runtime.plan.refresh.reconcile import is_overwritten
from arctic_runtime.spark.engine.java.java_errors import SPARK
from arctic_runtime.spark.tables.commit import build_base_summary, commit_summary, swap_in
from arctic_runtime.spark.tables.context import Appended, Context
from arctic_runtime.spark.tables.create import build_base_properties, build_table_properties
from tests.simulation.lake import Catalog, Name, Refused, View
from tests.simulation.rows import apply_changes, fold_until, read_base, read_changes

EVENTS = "simulated.events"
"""Entry of a commit's summary with the ids of the source's events that are in it."""

_SUMMARY = "snapshot-property."
_SETTING = f"spark.sql.iceberg.{_SUMMARY}"
_NAME = r"(`[^`]+`(?:\.`[^`]+`)*)"
_QUOTED = re.compile(r"`([^`]+)`")
_PAIR = re.compile(r"'((?:[^'\\]|\\.)*)' = '((?:[^'\\]|\\.)*)'")


class SparkRefused(PySparkException):
    """An error of Iceberg as Spark Connect passes it on."""

    def __init__(self, name: str, message: str) -> None:
        super().__init__(f"({name}) {message}")

    def getCondition(self) -> None:  # noqa: N802 - PySpark's name
        return None


class Conf:
    def __init__(self) -> None:
        self.values: dict[str, str] = {"spark.sql.shuffle.partitions": "2"}

    def get(self, key: str, default: Any = None) -> Any:
        return self.values.get(key, default)

    def set(self, key: str, value: str) -> None:
        self.values[key] = value

    def unset(self, key: str) -> None:
        self.values.pop(key, None)

    @property
    def getAll(self) -> dict[str, str]:  # noqa: N802 - PySpark's name
        return dict(self.values)


class Spark:
    """A session over the simulated catalog."""

    version = "4.1.1"

    def __init__(self, catalog: Catalog) -> None:
        self.lake = catalog
        self.conf = Conf()
        self.sparkContext = SimpleNamespace(setJobDescription=lambda _: None)
        self.catalog = SimpleNamespace(dropTempView=lambda _: None)

    def addTag(self, tag: str) -> None:  # noqa: N802 - PySpark's name
        """Nothing is cancelled here."""

    removeTag = interruptTag = addTag  # noqa: N815 - PySpark's names

    def sql(self, text: str) -> SimpleNamespace:
        perform, match = _find_statement(text)
        rows: list[Any] = []
        with as_spark_error():
            rows = perform(self.lake, match) or []
        return SimpleNamespace(collect=lambda: rows)

    def table(self, name: str) -> SimpleNamespace:
        """Only rows of a table without rows can be written, as commits without rows are made."""
        return SimpleNamespace(limit=lambda _: SimpleNamespace(writeTo=self._begin_write))

    def _begin_write(self, name: str) -> SimpleNamespace:
        def with_options(**options: str) -> SimpleNamespace:
            summary = {key.removeprefix(_SUMMARY): value for key, value in options.items() if key.startswith(_SUMMARY)}
            return SimpleNamespace(append=lambda: self.commit(tuple(_QUOTED.findall(name)), "append", (), summary))

        return SimpleNamespace(options=with_options)

    def commit(
        self,
        parts: tuple[str, ...],
        operation: str,
        added: tuple[str, ...],
        summary: Mapping[str, str],
        removed: frozenset[str] = frozenset(),
        expected: int | None = None,
        deleted: Mapping[str, frozenset[int]] = {},
    ) -> None:
        """Commits files to a table or branch, with the entries for the summary that the session's settings have."""
        settings = {
            key.removeprefix(_SETTING): value for key, value in self.conf.values.items() if key.startswith(_SETTING)
        }
        branch = parts[3].removeprefix("branch_") if len(parts) == 4 else "main"
        with as_spark_error():
            entries = {**settings, **summary}
            self.lake.commit((parts[1], parts[2]), branch, operation, added, entries, removed, expected, deleted)


class as_spark_error:  # noqa: N801 - reads as a statement
    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: Any, error: BaseException | None, _: Any) -> None:
        if isinstance(error, Refused):
            raise SparkRefused(error.name, str(error)) from error


def _name(text: str) -> Name:
    parts = _QUOTED.findall(text)
    return (parts[1], parts[2])


def _replace_view(lake: Catalog, match: re.Match[str]) -> None:
    name = _name(match[1])
    base = lake.get_table((name[0], f"{name[1]}__base"))
    lake.put(View(name, base.columns, dict(_PAIR.findall(match[2])), match.string))


def _expire(lake: Catalog, match: re.Match[str]) -> None:
    lake.expire(_name(match[1]), [int(number) for number in re.findall(r"\d+", match[2])])


def _remove_orphans(lake: Catalog, match: re.Match[str]) -> list[Any]:
    import datetime

    before = datetime.datetime.fromisoformat(match[2]).timestamp()
    orphans = lake.list_orphans(_name(match[1]), before)
    if match[3] == "false":
        for path in orphans:
            del lake.files[path]
    return [(path,) for path in orphans]


Perform = Callable[[Catalog, "re.Match[str]"], Any]
_STATEMENTS: tuple[tuple[str, Perform], ...] = (
    (
        rf"ALTER TABLE {_NAME} CREATE BRANCH `([^`]+)` AS OF VERSION (\d+)$",
        lambda lake, m: lake.create_branch(_name(m[1]), m[2], int(m[3])),
    ),
    (rf"ALTER TABLE {_NAME} DROP BRANCH IF EXISTS `([^`]+)`$", lambda lake, m: lake.drop_ref(_name(m[1]), m[2])),
    (
        rf"CALL `\w+`.system.fast_forward\(table => '{_NAME}', branch => 'main', to => '([^']+)'\)$",
        lambda lake, m: lake.fast_forward(_name(m[1]), m[2]),
    ),
    (
        rf"ALTER TABLE {_NAME} CREATE OR REPLACE TAG `([^`]+)` AS OF VERSION (\d+)$",
        lambda lake, m: lake.set_tag(_name(m[1]), m[2], int(m[3])),
    ),
    (rf"ALTER TABLE {_NAME} DROP TAG IF EXISTS `([^`]+)`$", lambda lake, m: lake.drop_ref(_name(m[1]), m[2])),
    (
        rf"ALTER TABLE {_NAME} SET TBLPROPERTIES \((.*)\)$",
        lambda lake, m: lake.set_properties(_name(m[1]), {key: _unescape(value) for key, value in _PAIR.findall(m[2])}),
    ),
    (rf"CREATE OR REPLACE VIEW {_NAME} .*TBLPROPERTIES \((.*?)\) AS ", _replace_view),
    (rf"CALL `\w+`.system.expire_snapshots\(table => '{_NAME}', .*array\(([\d, ]+)\)\)$", _expire),
    (
        rf"CALL `\w+`.system.remove_orphan_files\(table => '{_NAME}', older_than => TIMESTAMP '([^']+)', "
        r"dry_run => (\w+)\)$",
        _remove_orphans,
    ),
    (r"SHOW VIEWS IN ", lambda lake, m: []),
    (rf"DROP TABLE IF EXISTS {_NAME} PURGE$", lambda lake, m: lake.drop_table(_name(m[1]))),
)


def _find_statement(text: str) -> tuple[Perform, re.Match[str]]:
    for pattern, perform in _STATEMENTS:
        match = re.match(pattern, text, re.DOTALL)
        if match:
            return perform, match
    raise AssertionError(f"no such statement is simulated: {text}")


def _unescape(text: str) -> str:
    escapes = {"\\n": "\n", "\\r": "\r", "\\t": "\t", "\\'": "'", "\\\\": "\\", "\\u0024": "$"}
    return re.sub(r"\\(?:u0024|.)", lambda match: escapes.get(match[0], match[0][1:]), text)


# What Spark does with rows


def create_change_table(step: CreateChangeTable, context: Context) -> None:
    """Creates the change table with an empty snapshot, as one commit."""
    lake = _get_lake(context)
    tail = (Column(ACTION, "string"), Column(TIMESTAMP, "timestamp"), Column(SEQUENCE, step.sequence_type))
    properties = {**build_table_properties(context.model, "changes"), MODEL_TABLE: str(context.model.table)}

    def create() -> None:
        with as_spark_error():
            columns = (*step.columns, *tail, Column(BEFORE, "string"))
            lake.create_table(_pair(step.table), columns, properties, ((), {}))

    perform_effect("changes.create", create, f"create {step.table}", SPARK)


def create_base(step: CreateBase, context: Context) -> None:
    """Creates the base with the rows of the change table at a version, as one commit."""
    assert not step.replaces, "bases are not replaced in a simulation"
    lake, changes = _get_lake(context), context.state.changes
    assert changes is not None
    rows = fold_until(lake, lake.get_table(_pair(context.model.table.changes)), step.version.sequence)
    properties = build_base_properties(context.model, step.bytes, context.thresholds.layout)

    def create() -> None:
        with as_spark_error():
            file = lake.write_file(_pair(step.table), rows.values())
            summary = build_base_summary(step.version, context.state.changes)
            columns = strip_change_columns(changes.columns)
            lake.create_table(_pair(step.table), columns, properties, ((file,), summary))

    perform_effect("base.create", create, f"create {step.table}", SPARK)


def merge_base(step: MergeBase, context: Context) -> None:
    """Merges change rows into the base: all rows in one commit, or a delete and an append on a branch."""
    lake, base, spark = _get_lake(context), context.state.base, context.spark
    assert base is not None
    own, table = _pair(step.table), lake.get_table(_pair(context.model.table.changes))
    start = step.start.sequence if step.start else 0
    changes = read_changes(lake, table, step.end.snapshot, start, step.end.sequence)
    found = lake.get_table(own).find(step.expected)
    if found is None:
        raise SparkRefused("org.apache.iceberg.exceptions.ValidationException", "Cannot commit: no such snapshot")
    old = read_base(lake, lake.get_table(own), step.expected)
    new = apply_changes(old, changes)
    summary, gone = build_base_summary(step.end, context.state.changes), frozenset(found.files)
    if is_overwritten(context.model, base, context.thresholds.merge):

        def overwrite() -> None:
            file = lake.write_file(own, new.values())
            spark.commit(step.table.parts, "overwrite", (file,), summary, gone, expected=step.expected)

        perform_effect("base.overwrite", overwrite, f"overwrite {step.table}", SPARK)
        return
    kept = {key: row for key, row in old.items() if new.get(key) == row}

    def merge(branch: tuple[str, ...]) -> None:
        def delete() -> None:
            spark.commit(branch, "overwrite", (lake.write_file(own, kept.values()),), {}, gone)

        def append() -> None:
            added = [row for key, row in new.items() if kept.get(key) != row]
            spark.commit(branch, "append", (lake.write_file(own, added),), summary)

        perform_effect("base.merge.delete", delete, f"delete from {step.table}", SPARK)
        perform_effect("base.merge.append", append, f"append to {step.table}", SPARK)

    swap_in(context.attempt, step.table, step.expected, merge)


def publish_changes(changes: ChangeSet, context: Context, *_: object) -> Appended:
    """Appends change rows in one commit, on a branch that is then published."""
    lake, step, rows = _get_lake(context), changes.commit, list(changes.rows)

    def write(branch: tuple[str, ...]) -> Appended:
        def append() -> None:
            files = (lake.write_file(_pair(step.table), rows),) if rows else ()
            events = getattr(changes.rows, "events", ())
            noted = {EVENTS: " ".join(f"{number}.{place}" for number, place in events)} if events else {}
            context.spark.commit(branch, "append", files, {**changes.summary.encode(), **noted})

        perform_effect("commit.append", append, f"append changes to {step.table}", SPARK)
        counts = {action: sum(row[0] == action for row in rows) for action in ("insert", "update", "delete", "upsert")}
        changes.confirm()
        return Appended(step.expected, counts)

    return swap_in(context.attempt, step.table, step.expected, write)


def rewrite_base(context: Context, expected: int) -> None:
    """Joins the files of the base to one, on a branch that is then published."""
    lake, own = _get_lake(context), _pair(context.model.base)
    found = lake.get_table(own).find(expected)
    assert context.state.base is not None
    merged = context.state.base.merged
    if found is None or merged is None:
        raise SparkRefused("org.apache.iceberg.exceptions.ValidationException", "Cannot commit: no such snapshot")
    rows = read_base(lake, lake.get_table(own), expected)

    def rewrite(branch: tuple[str, ...]) -> None:
        def write() -> None:
            context.spark.commit(branch, "replace", (lake.write_file(own, rows.values()),), {}, frozenset(found.files))

        perform_effect("compaction.rewrite", write, f"rewrite {context.model.base}", SPARK)
        commit_summary("compaction.stamp", context.spark, branch, build_base_summary(merged, context.state.changes))

    swap_in(context.attempt, context.model.base, expected, rewrite)


def rewrite_changes(context: Context, expected: int) -> None:
    """Joins the files of the change table to one, whose rows keep the numbers of their commits."""
    lake, own = _get_lake(context), _pair(context.model.table.changes)
    found = lake.get_table(own).find(expected)
    if found is None:
        raise SparkRefused("org.apache.iceberg.exceptions.ValidationException", "Cannot commit: no such snapshot")
    found_rows = list(lake.list_rows(found))
    rows, numbers = [row for _, _, row in found_rows], [sequence for sequence, _, _ in found_rows]

    def rewrite(branch: tuple[str, ...]) -> None:
        def write() -> None:
            files = (lake.write_file(own, rows, tuple(numbers)),) if rows else ()
            context.spark.commit(branch, "replace", files, {}, frozenset(found.files))

        perform_effect("compaction.rewrite", write, f"rewrite {context.model.table.changes}", SPARK)

    swap_in(context.attempt, context.model.table.changes, expected, rewrite)


def _get_lake(context: Context) -> Catalog:
    lake: Catalog = context.spark.lake
    return lake


def _pair(table: TableName) -> Name:
    return (table.schema, table.name)
