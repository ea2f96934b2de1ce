"""Which errors of Spark mean that a file is missing or damaged, or that the disk is full, and which do not."""

from __future__ import annotations

import pytest
from pyspark.errors import PySparkException

from arctic_runtime.errors import ArcticError, CatalogError, CorruptState
from arctic_runtime.spark.engine.java.java_errors import explain_damaged_files, to_damage
from tests.unit.spark.test_java_errors import Sent

ICEBERG = "org.apache.iceberg.exceptions"
FILE = "file:/warehouse/dwd/orders/data/a.parquet"


@pytest.mark.parametrize(
    ("message", "kind", "word", "where"),
    [
        (f"({ICEBERG}.NotFoundException) Failed to open input stream for file: {FILE}", CorruptState, "missing", FILE),
        (f"(java.io.FileNotFoundException) File {FILE} does not exist", CorruptState, "missing", FILE),
        (f"(org.apache.hadoop.fs.ChecksumException) Checksum error: {FILE} at 0", CorruptState, "damaged", FILE),
        (f"(java.lang.RuntimeException) {FILE} is not a Parquet file", CorruptState, "damaged", FILE),
        (f"({ICEBERG}.RuntimeIOException) Failed to open file: {FILE}", CorruptState, "damaged", FILE),
        ("(org.apache.avro.InvalidAvroMagicException) Not an Avro data file.", CorruptState, "damaged", None),
        (
            "(java.io.IOException) can not read class org.apache.parquet.format.PageHeader",
            CorruptState,
            "damaged",
            None,
        ),
        (
            "(software.amazon.awssdk.services.s3.model.AccessDeniedException) User: x is not authorized to perform: "
            f"s3:GetObject on resource: {FILE}",
            CatalogError,
            "A right is missing: s3:GetObject",
            None,
        ),
        ("(java.io.IOException) No space left on device", CatalogError, "full", None),
        ("(org.sqlite.SQLiteException) [SQLITE_FULL] database or disk is full", CatalogError, "full", None),
    ],
)
def test_an_error_names_the_table_the_file_and_the_remedy(
    message: str, kind: type[ArcticError], word: str, where: str | None
) -> None:
    explained = to_damage(Sent(message), "lake.dwd.orders")
    assert type(explained) is kind
    assert word in explained.message
    assert "lake.dwd.orders" in explained.message
    assert explained.where == where
    assert explained.fix is not None


@pytest.mark.parametrize(
    "message",
    [
        "(java.lang.ArithmeticException) divide by zero",
        f"({ICEBERG}.NoSuchTableException) Table does not exist: dwd.orders",
        f"({ICEBERG}.NotFoundException) Namespace does not exist: dwd",
        f"({ICEBERG}.CommitFailedException) any words",
        "(org.apache.spark.SparkRuntimeException) The value 'No file /a/b.parquet' can't be cast",
    ],
)
def test_other_errors_stay_as_they_are(message: str) -> None:
    assert to_damage(Sent(message), "t") is None
    with pytest.raises(PySparkException), explain_damaged_files("t"):
        raise Sent(message)


def test_a_cause_that_a_server_tells_counts() -> None:
    trace = f"Caused by: org.apache.hadoop.fs.ChecksumException: Checksum error: {FILE} at 512 exp: 1 got: 2"
    explained = to_damage(Sent("(org.apache.spark.SparkException) Job aborted", trace), "t")
    assert isinstance(explained, CorruptState)
    assert explained.where == FILE


def test_an_error_of_python_is_none_of_spark() -> None:
    assert to_damage(FileNotFoundError(FILE), "t") is None
