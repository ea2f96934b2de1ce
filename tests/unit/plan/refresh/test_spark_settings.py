"""The tables of Spark's settings have only settings that the installed Spark has, each in one table."""

from __future__ import annotations

import re
from pathlib import Path
from zipfile import ZipFile

import pyspark
import pytest

from arctic_runtime.plan.refresh.spark_settings import DEFAULTS, HARMLESS, is_harmless

OF_ICEBERG = "spark.sql.iceberg."
_DECLARING = re.compile(r"org/apache/spark/sql/(\w+/)*(StaticSQLConf|SQLConf|SqlApiConfHelper|HiveUtils)\$?\.class")
_SETTING = re.compile(rb"spark\.sql\.[\w.]*")


@pytest.fixture(scope="module")
def declared() -> set[str]:
    """Names of the settings in the classes that declare them, internal ones too; read from the files of Spark."""
    names: set[str] = set()
    for path in Path(pyspark.__file__).parent.glob("jars/spark-*.jar"):
        with ZipFile(path) as jar:
            for name in filter(_DECLARING.fullmatch, jar.namelist()):
                names.update(found.decode() for found in _SETTING.findall(jar.read(name)))
    assert len(names) > 500
    return names


@pytest.mark.parametrize("name", [name for name in HARMLESS if name != OF_ICEBERG])
def test_a_harmless_setting_exists_in_this_spark(name: str, declared: set[str]) -> None:
    assert any(known.startswith(name) for known in declared) if name.endswith(".") else name in declared


@pytest.mark.parametrize("name", DEFAULTS)
def test_a_setting_with_a_default_exists_and_may_change_results(name: str, declared: set[str]) -> None:
    assert name in declared
    assert not is_harmless(name)


@pytest.mark.parametrize(
    "name",
    [
        *("spark.sql.ansi.enabled", "spark.sql.session.timeZone", "spark.sql.timestampType"),
        *("spark.sql.legacy.timeParserPolicy", "spark.sql.files.ignoreCorruptFiles", "spark.sql.unheard"),
        *("spark.sql.optimizer.decorrelateSubqueryLegacyIncorrectCountHandling.enabled", "spark.sql.defaultCatalog"),
        *("spark.sql.parquet.int96RebaseModeInRead", "spark.sql.execution.pythonUDF.arrow.enabled"),
    ],
)
def test_a_setting_that_may_change_results_is_not_harmless(name: str) -> None:
    assert not is_harmless(name)
