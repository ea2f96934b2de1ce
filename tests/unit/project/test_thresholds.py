"""Thresholds stand in one object that is passed in: no module has one of its own, and no test overwrites one."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import arctic_runtime
from tests.unit.project.test_private_names import root

ROOT = Path(arctic_runtime.__file__).parents[1]
CONSTANT = re.compile(r"_?[A-Z][A-Z0-9_]*")
FACTS = {
    "audit/report.py: _LONGEST": "the length of a text in a report",
    "catalog/change_rows/log_files.py: LINEAGE_FIELD": "a field's id in Iceberg's specification",
    "catalog/deleted_positions.py: _PUFFIN_TAIL": "the format of Puffin files",
    "catalog/deleted_positions.py: _VECTOR_LENGTH": "the format of deletion vectors",
    "catalog/deleted_positions.py: _VECTOR_SUM": "the format of deletion vectors",
    "catalog/json_metadata.py: OLDEST_VERSION": "the format versions of Iceberg",
    "catalog/storage/checksums.py: CHUNK_BYTES": "the chunks of which Hadoop writes checksums",
    "catalog/storage/checksums.py: _SUM_BYTES": "the format of Hadoop's checksums",
    "catalog/observation/manifests.py: DEFAULT_TARGET_BYTES": "Iceberg's default",
    "catalog/observation/manifests.py: _PATH_FIELD": "a field's id in Iceberg's specification",
    "catalog/observation/columns.py: UNSORTED": "an id in Iceberg's specification",
    "ingest/writing/decode_values.py: _DECIMAL_DIGITS": "the most digits of a decimal",
    "ingest/writing/fold.py: _ARRIVAL_OFFSET": "the meaning of a column of change tables",
    "ingest/writing/decode_values.py: _MOST_MICROS": "what a bigint of microseconds holds",
    "ingest/formats/avro_events.py: _MOST_BYTES": "the most digits of a decimal, in bytes",
    "ingest/transports/kafka/avro_messages.py: _HEAD_BYTES": "the wire format of messages in Avro",
    "ingest/transports/kafka/avro_messages.py: _MOST_BYTES": "the most bytes of a value in Spark",
    "ingest/transports/kafka/schema_registry.py: _AWAY": "statuses of HTTP",
    "ingest/transports/kafka/schema_registry.py: _UNKNOWN_ID": "an error code of schema registries",
    "ingest/transports/kafka/transport.py: _PARTITION_BITS": "room for a topic's partitions in the order of events",
    "ingest/transports/files/transport.py: _ROW_BITS": "how Spark numbers rows",
    "ingest/formats/mysql_types.py: WIDEST_DECIMAL": "the most digits of a decimal",
    "ingest/formats/connect_schema.py: MOST_DIGITS": "the most digits of a decimal",
    "ingest/transports/debezium/connection.py: _OWN_IDS": "a range of ids of MySQL's replicas",
    "ingest/transports/debezium/connection.py: _SLOT_LENGTH": "the longest name of a slot in PostgreSQL",
    "ingest/transports/debezium/servers/mysql.py: _NEWEST_STATUS": "a version of MySQL",
    "ingest/transports/debezium/servers/postgresql_requirements.py: _OLDEST_VERSION": "a version of PostgreSQL",
    "ivm/strategies/aggregates.py: _MOST_AVERAGED_DIGITS": "Spark's types of averages",
    "ivm/strategies/aggregates.py: _MOST_AVERAGED_BEHIND": "Spark's types of averages",
    "ivm/strategies/aggregates.py: _MOST_COUNTED_DIGITS": "the digits of a bigint",
    "ivm/algebra/inferred_types.py: _LEAST_AVERAGED": "Spark's types of averages",
    "ivm/algebra/numbers.py: _MORE_IN_SUM": "Spark's types of sums",
    "ivm/algebra/numbers.py: _MOST_DIGITS": "the most digits of a decimal",
    "ivm/edits/matching.py: _MOST_CHOICES": "a bound of the work of one analysis",
    "model/query_text.py: _MOST_CHARACTERS": "what each commit of a table may write again",
    "ivm/algebra/unique.py: _MOST": "a bound of the work of one analysis",
    "ivm/frontend/clauses/grouping_sets.py: _MOST": "grouping sets of a query that is followed",
    "ivm/frontend/clauses/grouping_sets.py: _MOST_KEYS": "bits of Spark's number of a grouping set",
    "ivm/frontend/scope.py: _MOST_COLUMNS": "a bound of the work of one analysis",
    "ivm/rewrite/semi_join_reducers.py: _MOST_LOOKS": "a bound of the work of one analysis",
    "ivm/algebra/refusal.py: MOST_TEXT": "the length of a text in a reason",
    "ivm/frontend/type_coercion.py: _MOST_DIGITS": "the most digits of a decimal",
    "ivm/strategies/aggregates.py: _MOST_SUMMED_BEHIND": "Spark's types of sums",
    "sql/spark_sql.py: WRITTEN_VERSION": "a version that fingerprints keep",
    "model/files/layout.py: MAX_DEPTH": "the layout of tables",
    "model/files/layout.py: NEWEST_FORMAT": "a version of Iceberg's format",
    "query/expressions.py: _SHORT_DIGITS": "the digits of a decimal that DuckDB keeps in 64 bits",
    "model/masking.py: SHOWN_DIGITS": "the length of a hash in a report",
    "operations/masks.py: _SHORTEST_SECRET": "the length from which on a text is a secret",
    "model/table.py: MAX_VERSIONS": "the default of a key that users set",
    "model/table.py: VERSIONS_SECONDS": "the default of a key that users set",
    "plan/config/config_readers.py: _SMALLEST_FILE": "a bound of a key that users set",
    "plan/refresh/session_changes.py: _PATCHES": "a property of Spark's releases",
    "plan/refresh/fingerprint.py: RULES": "a version that fingerprints keep",
    "plan/row_tests.py: RULES": "a version that hashes of tests keep",
    "spark/tables/merge.py: _OLDEST_WITHOUT_PARTITIONS": "a version of Spark",
    "service/http_settings.py: SHORTEST_TOKEN": "a bound of a setting of users",
    "service/telemetry/declared_metrics.py: SECONDS_BUCKETS": "the bounds of histograms, which queries of users name",
    "spark/engine/connection.py: CONNECT_PORT": "Spark's default",
    "spark/engine/serve.py: _PORTS": "ports below those that systems give to connections",
    "spark/engine/java/jars.py: JAVA_OLDEST": "a version of Java",
    "spark/engine/java/jars.py: JAVA_NEWEST": "a version of Java",
    "spark/engine/java/jars.py: JAVA_VERSIONS": "versions of Java",
    "spark/tables/file_rewrite.py: ANY_COUNT": "more than any number of files",
    "spark/tables/file_rewrite.py: ANY_SIZE": "larger than any file",
    "spark/refresh/aggregate_state.py: _MOST_BEHIND": "Spark's types of sums",
    "model/sources/positions.py: _SHOWN": "the length of a position in a line",
    "ivm/frontend/functions.py: _SHOWN": "the length of a text in an error",
    "spark/refresh/query_analysis.py: _SHOWN": "the length of a text in an error",
}
"""Numbers that no setting could change, with what says them."""

OVERWRITTEN = {
    "adapter/test_upkeep.py: upkeep._SECONDS": "a length of time that people write",
    "spark/refresh/test_fingerprints.py: fingerprints.RULES": "as a later release has it",
    "spark/refresh/test_parser_check.py: fingerprint.WRITTEN_VERSION": "as an earlier release had it",
    "unit/plan/refresh/test_fingerprint.py: fingerprints.RULES": "as a later release has it",
    "unit/spark/test_jars.py: jars.GROUPS": "a JAR that need not be downloaded",
    "unit/spark/test_jars.py: jars.JAVA_PLACES": "the folders of a machine",
    "unit/spark/test_jars.py: jars.JARS": "a JAR that need not be downloaded",
    "unit/spark/test_server.py: server.SERVER_COMMAND": "a server without Spark",
    "unit/spark/test_warm_server.py: server.SERVER_COMMAND": "a server without Spark",
}
"""Constants of the runtime that tests overwrite, with what they stand for."""


def test_no_module_has_a_threshold_of_its_own() -> None:
    files = (file for file in (ROOT / "arctic_runtime").rglob("*.py") if file.parent.name != "thresholds")
    names = {
        f"{file.relative_to(ROOT / 'arctic_runtime').as_posix()}: {name}"
        for file in files
        for name in numbers(file.read_text())
    }
    assert names - set(FACTS) == set()
    assert set(FACTS) - names == set()


def test_no_test_overwrites_a_constant_of_the_runtime() -> None:
    paths = {
        f"{file.relative_to(ROOT / 'tests').as_posix()}: {name}"
        for file in (ROOT / "tests").rglob("*.py")
        for name in overwritten(file.read_text())
    }
    assert paths - set(OVERWRITTEN) == set()


@pytest.mark.parametrize(
    ("line", "is_number"),
    [
        ("FEW_ROWS = 1_000", True),
        ("_BYTES: Final = 16 * 1024 * 1024", True),
        ("BOUNDS = (-1, 2.5)", True),
        ("NAME = 'rows'", False),
        ("IS_ON = True", False),
        ("def f():\n    ROWS = 3", False),
    ],
)
def test_a_number_at_the_top_of_a_module_is_seen(line: str, is_number: bool) -> None:
    assert bool(list(numbers(line))) == is_number


@pytest.mark.parametrize(
    "line",
    [
        "from arctic_runtime.spark.tables import frames\nmonkeypatch.setattr(frames, 'FEW_KEYS', 1)",
        "import arctic_runtime.errors\nmonkeypatch.setattr(arctic_runtime.errors, 'MOST', 1)",
        "with patch.context() as patched:\n    patched.setattr('arctic_runtime.errors.MOST', 1)",
    ],
)
def test_a_constant_that_a_test_overwrites_is_seen(line: str) -> None:
    assert list(overwritten(line))


def numbers(source: str) -> Iterator[str]:
    """Names at the top of a module that stand for a number, or for several."""
    for node in ast.parse(source).body:
        match node:
            case ast.Assign(targets=[ast.Name(id=name)], value=value) if is_number(value):
                yield name
            case ast.AnnAssign(target=ast.Name(id=name), value=ast.expr() as value) if is_number(value):
                yield name


def is_number(value: ast.expr) -> bool:
    match value:
        case ast.Constant(value=bool()):
            return False
        case ast.Constant(value=int() | float()):
            return True
        case ast.UnaryOp(operand=operand):
            return is_number(operand)
        case ast.BinOp(left=left, right=right):
            return is_number(left) and is_number(right)
        case ast.Tuple(elts=parts):
            return bool(parts) and all(map(is_number, parts))
        case _:
            return False


def overwritten(source: str) -> Iterator[str]:
    """Constants of the runtime's modules that a text gives other values."""
    tree = ast.parse(source)
    imports = [node for node in ast.walk(tree) if isinstance(node, ast.Import | ast.ImportFrom)]
    ours = {name for node in imports for name in names_of_the_runtime(node)}
    for node in ast.walk(tree):
        match node:
            case ast.Call(func=ast.Attribute(attr="setattr"), args=[owner, ast.Constant(value=str(name)), *_]):
                if CONSTANT.fullmatch(name) and root(owner) in ours:
                    yield f"{ast.unparse(owner)}.{name}"
            case ast.Call(func=ast.Attribute(attr="setattr"), args=[ast.Constant(value=str(path)), *_]):
                if path.startswith("arctic_runtime.") and CONSTANT.fullmatch(path.rpartition(".")[2]):
                    yield path


def names_of_the_runtime(node: ast.Import | ast.ImportFrom) -> Iterator[str]:
    for alias in node.names:
        module = node.module or "" if isinstance(node, ast.ImportFrom) else alias.name
        if module.split(".")[0] == "arctic_runtime":
            yield alias.asname or alias.name.split(".")[0]
