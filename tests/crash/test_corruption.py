"""Files and catalog rows that somebody or a disk has changed: readers and runs are exact, or say what is damaged.

Nothing gets lost in silence, and nothing wrong is published: once a file is back, every table is exact again.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest
from py4j.protocol import Py4JJavaError
from pyspark.errors import AnalysisException, PySparkException

from arctic_runtime.catalog.lookup import look_up_row
from arctic_runtime.catalog.observation.manifests import observe_files
from arctic_runtime.catalog.observation.tables import observe_model
from arctic_runtime.catalog.reader import CatalogReader
from arctic_runtime.errors import ArcticError
from arctic_runtime.model.table import Model
from arctic_runtime.operations.looking import VERIFY, open_changes
from arctic_runtime.operations.maintaining import COMPACT, EXPIRE
from arctic_runtime.operations.operation import OperationContext
from arctic_runtime.spark.engine.java.java_errors import walk_java_exceptions
from tests.crash.damage import CHANGES, ROWS, TableFile, damaged, damaged_row, list_files
from tests.crash.scenarios import EVENTS, STATE
from tests.spark.prebuilt import Prebuilt
from tests.spark.warehouse import Rows, Warehouse, sorted_rows

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from arctic_runtime.spark.engine.session import SparkEnvironment

SEED = 20
LOOKED_UP = ("merged", "parts", "viewed")
"""The tables with a key whose rows are read without Spark."""
HELD_BY_CHECKSUMS = ("footer", "flip")
"""Ways of damage that change what a file says, and that nothing but checksums beside the file can tell."""


def make_models(lake: Warehouse) -> dict[str, Model]:
    """One model of each kind, and one that reads another: in the order in which they run."""
    state = {"primary_key": "id", "compaction": "off"}
    events = {"input": "changes", "sequence_by": "lsn", "compaction": "off"}
    stored = {"primary_key": "id", "delete_when": "op = 'd'", "exclude_columns": ["op", "lsn"], **events}
    return {
        "merged": lake.model("merged", "select id, region, v from {s}", **state),
        "parts": lake.model("parts", "select id, region, v from {s}", partition_by=["region"], **state),
        "viewed": lake.model("viewed", "select id, v, op, lsn from {changes(events)}", merge="on_read", **stored),
        "log": lake.model("log", "select id, v, op, lsn from {changes(events)}", primary_key=None, input="changes"),
        "below": lake.model("below", "select id, v from {parts}", **state),
    }


def load(lake: Warehouse, *changed: tuple[int, str, int]) -> None:
    rows = {key: (key, "eu" if key % 2 else "us", key) for key in range(40)} | {row[0]: row for row in changed}
    lake.load("s", rows.values(), STATE)


def build(lake: Warehouse) -> None:
    """Tables with deletion vectors, unmerged rows, and changes in their sources that they have not read."""
    load(lake)
    lake.append("events", [(key, f"v{key}", "c", key) for key in range(40)], EVENTS)
    run_models(lake)
    load(lake, (1, "eu", 100), (4, "us", 400))
    lake.append("events", [(1, "new", "u", 50), (2, "v2", "d", 51)], EVENTS)
    run_models(lake)
    load(lake, (1, "us", 101), (50, "eu", 50))
    lake.append("events", [(1, "newer", "u", 60), (50, "v50", "c", 61)], EVENTS)


def run_models(lake: Warehouse) -> None:
    for model in make_models(lake).values():
        lake.run(model)


@dataclass(frozen=True)
class Case:
    """The tables, their files, and the rows that they have before and after their models run."""

    prebuilt: Prebuilt
    files: list[TableFile]
    looked_up: Mapping[str, Any]
    before: Mapping[str, Rows]
    after: Mapping[str, Rows]


@pytest.fixture(scope="module")
def case(
    environment: SparkEnvironment, reader: CatalogReader, spark: SparkSession, tmp_path_factory: pytest.TempPathFactory
) -> Case:
    spark.sql(f"create namespace {environment.profile.catalog}.corrupt")
    small = Warehouse(environment, reader, spark, "corrupt").under(
        merge={"overwritten_base_rows": 0, "overwritten_base_values": 0, "overwritten_share": 100.0}
    )
    prebuilt = Prebuilt.of(small, build, tmp_path_factory.mktemp("copies"))
    files, looked_up, before = list_files(small), read_without_spark(small), read_rows(small)
    assert {file.kind for file in files} == set(CHANGES)
    run_models(small)
    return Case(prebuilt, files, looked_up, before, read_rows(small))


def read_rows(lake: Warehouse) -> dict[str, Rows]:
    return {name: sorted_rows(lake.spark.table(lake.sql_name(name))) for name in make_models(lake)}


def read_without_spark(lake: Warehouse) -> dict[str, Any]:
    """Everything that is read of tables without Spark: rows by their keys, change rows, files, states."""
    return {name: action() for model in make_models(lake) for name, action in list_reads(lake, model).items()}


def list_reads(lake: Warehouse, name: str) -> dict[str, Callable[[], Any]]:
    """All reads of one table without Spark, by a text for each."""
    model = make_models(lake)[name]
    reads: dict[str, Callable[[], Any]] = {f"state of {name}": partial(observe_model, lake.reader, model)}
    if name in LOOKED_UP:
        for key in (1, 2, 4, 30, 50):
            reads[f"look up {key} in {name}"] = partial(look_up, lake.reader, model, key)
        reads[f"changes of {name}"] = partial(export_changes, lake.reader, model)
        reads[f"files of {name}"] = partial(count_files, lake.reader, model)
    return reads


def look_up(reader: CatalogReader, model: Model, key: int) -> Any:
    return look_up_row(reader, model, [str(key)]).row


def export_changes(reader: CatalogReader, model: Model) -> list[str]:
    return sorted(str(row) for batch in open_changes(reader, model, None, None).batches for row in batch.to_pylist())


def count_files(reader: CatalogReader, model: Model) -> list[Any]:
    return [observe_files(reader, table) for table in (model.base, model.table.changes)]


def fresh(lake: Warehouse) -> Warehouse:
    """The same tables for a process that has read nothing of them yet."""
    return replace(lake, reader=CatalogReader(lake.reader.profile))


def list_refusals(lake: Warehouse, name: str, expected: Mapping[str, Any], is_exact: bool = True) -> list[ArcticError]:
    """The errors of all reads of a table without Spark; where reads are to be exact, the others are as expected."""
    refusals = []
    for read, action in list_reads(fresh(lake), name).items():
        try:
            result = action()
        except ArcticError as error:
            refusals.append(error)
        else:
            assert result == expected[read] or not is_exact, read
    return refusals


def choose_files(case: Case, kind: str, chance: random.Random, count: int) -> list[TableFile]:
    """Some files of a kind, of tables whose rows are read without Spark."""
    own = [file for file in case.files if file.kind == kind and file.table.partition("__")[0] in LOOKED_UP]
    return chance.sample(own, min(count, len(own)))


DAMAGES = [(kind, how) for kind, ways in CHANGES.items() for how in ways]
MANY = pytest.param(30, marks=pytest.mark.slow)


@pytest.mark.parametrize("count", [2, MANY])
@pytest.mark.parametrize(
    "has_checksums", [pytest.param(True, id="checksums"), pytest.param(False, marks=pytest.mark.in_turn, id="none")]
)
@pytest.mark.parametrize(("kind", "how"), DAMAGES, ids=[f"{kind} {how}" for kind, how in DAMAGES])
def test_a_damaged_file_is_never_read_as_other_rows(
    case: Case, kind: str, how: str, has_checksums: bool, count: int
) -> None:
    """A file of which no byte is read does no harm; without checksums it is as in a store that keeps none."""
    chance = random.Random(f"{SEED} {kind} {how}")
    lake = case.prebuilt.restore()
    is_exact = has_checksums or how not in HELD_BY_CHECKSUMS
    for file in choose_files(case, kind, chance, count):
        name = file.table.partition("__")[0]
        with damaged(file, how, chance, has_checksums):
            for error in list_refusals(lake, name, case.looked_up, is_exact):
                assert file.path.name in str(error) or not is_exact, (file, error)
                assert file.table in str(error) or not is_exact, (file, error)
                assert error.fix is not None, (file, error)
        assert list_refusals(lake, name, case.looked_up) == []


OF_RUNS = [
    *(("file", kind, how) for kind, how in DAMAGES),
    *(("bare file", kind, how) for kind, how in DAMAGES if how not in HELD_BY_CHECKSUMS),
    *(("catalog", "row", how) for how in ROWS),
]
QUICK = ("bare file", "data", "page")


@pytest.mark.in_turn
@pytest.mark.parametrize(
    ("place", "kind", "how"),
    [pytest.param(*each, id=" ".join(each), marks=[] if each == QUICK else [pytest.mark.slow]) for each in OF_RUNS],
)
def test_runs_over_damage_publish_nothing_wrong_and_are_exact_once_it_is_mended(
    case: Case, place: str, kind: str, how: str
) -> None:
    """Runs of all models, checks and compactions, while one file or row of the catalog is damaged, and afterwards."""
    chance = random.Random(f"{SEED} {kind} {how} of runs")
    lake = case.prebuilt.restore()
    with damage_something(case, lake, place, kind, how, chance) as what:
        errors = list(work_on(fresh(lake)))
        for error in errors:
            assert isinstance(error, ArcticError) or is_lost_source(error, kind), (
                what,
                list(walk_java_exceptions(error)),
            )
        for name in make_models(lake):
            assert read_if_readable(lake, name) in (None, case.before[name], case.after[name]), (what, name, errors)
    restored = fresh(lake)
    run_models(restored)
    assert read_rows(restored) == case.after, (what, errors)
    for name in KEYED:
        assert restored.broken(make_models(restored)[name]) == [], (what, name)


KEYED = ("merged", "parts", "viewed", "below")


@contextmanager
def damage_something(
    case: Case, lake: Warehouse, place: str, kind: str, how: str, chance: random.Random
) -> Iterator[str]:
    if place != "catalog":
        file = chance.choice([file for file in case.files if file.kind == kind])
        with damaged(file, how, chance, has_checksums=place == "file"):
            yield f"{how} {file}"
    else:
        table = chance.choice(sorted({file.table for file in case.files}))
        with damaged_row(lake, table, how):
            yield f"{how} {table}"


def work_on(lake: Warehouse) -> Iterator[Exception]:
    """Does everything with each table, and yields the errors."""
    models = make_models(lake)
    actions: list[Callable[[], Any]] = [partial(lake.run, model) for model in models.values()]
    context = OperationContext(lake.reader, lambda: lake.spark, tuple(models.values()))
    for name in KEYED:
        for operation, given in ((COMPACT, {"mode": "full"}), (VERIFY, {}), (EXPIRE, {})):
            values = operation.read_values(given)
            actions.append(partial(operation.run_operation, context, [models[name]], values))
    for action in actions:
        try:
            action()
        except Exception as error:
            yield error


def is_lost_source(error: Exception, kind: str) -> bool:
    """Whether Spark says that the source of a query is not there, which it names."""
    return kind == "row" and isinstance(error, AnalysisException) and error.getCondition() == "TABLE_OR_VIEW_NOT_FOUND"


@pytest.mark.slow
def test_a_base_with_a_lost_file_is_made_again_from_its_change_table(case: Case) -> None:
    """Nobody has a backup: the base is dropped, and the next run makes it."""
    lake = case.prebuilt.restore()
    chance = random.Random(SEED)
    for name in ("merged", "parts"):
        own = [file for file in case.files if file.table == name and file.kind == "data"]
        with damaged(chance.choice(own), "gone", chance):
            lake.spark.sql(f"drop table {lake.sql_name(name)}")
    run_models(fresh(lake))
    assert read_rows(lake) == case.after
    for name in KEYED:
        assert lake.broken(make_models(lake)[name]) == []


def read_if_readable(lake: Warehouse, name: str) -> Rows | None:
    """The rows that Spark reads; None where it reports an error."""
    try:
        return sorted_rows(lake.spark.table(lake.sql_name(name)))
    except (PySparkException, Py4JJavaError):
        return None
