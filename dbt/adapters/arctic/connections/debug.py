"""Checks that `dbt debug` makes: Spark, the JARs, the catalog and the warehouse."""

from __future__ import annotations

import shutil
import uuid
from collections.abc import Iterator
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol

from dbt_common.exceptions import DbtRuntimeError

from arctic_runtime.catalog_kinds.capabilities import list_capability_lines
from arctic_runtime.catalog_kinds.object_stores import find_store
from arctic_runtime.effects import perform_effect
from arctic_runtime.profile import mask_secrets
from arctic_runtime.spark.engine.java.jars import verify_jars
from arctic_runtime.spark.engine.session_pool import get_pool
from arctic_runtime.spark.engine.statement import Sql, fill_statement, quote_name

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from arctic_runtime.catalog.reader import CatalogReader
    from arctic_runtime.profile import Profile


class CheckedAdapter(Protocol):
    """The attributes and methods of the adapter that the checks of `dbt debug` use."""

    config: Any
    Relation: Any

    @property
    def profile(self) -> Profile: ...

    @property
    def catalog_reader(self) -> CatalogReader: ...

    def spark_session(self) -> SparkSession: ...

    def check_schema_exists(self, database: str, schema: str) -> bool: ...

    def create_namespace(self, relation: Any) -> None: ...

    def drop_namespace(self, relation: Any) -> None: ...


def report_debug(adapter: CheckedAdapter) -> Iterator[str]:
    """Runs the checks and yields the lines to print; raises an error at the first check that fails."""
    yield from _list_catalog_lines(adapter)
    for tool, version in get_pool(adapter.profile).environment.list_versions().items():
        yield f"{tool}: {version}"
    yield from _list_jar_lines(adapter)
    yield from _try_writes(adapter)


def _list_catalog_lines(adapter: CheckedAdapter) -> Iterator[str]:
    properties = mask_secrets(adapter.profile.catalog_properties)
    kind = properties.get("type", "as the server has it")
    yield f"iceberg catalog: {adapter.profile.catalog} ({kind}) {properties.get('uri', '')}".rstrip()
    if "warehouse" in properties:
        yield f"iceberg warehouse: {properties['warehouse']}"
    reader = adapter.catalog_reader
    yield "catalog read by: " + ("this process" if reader.is_supported else "Spark alone, which is slower")


def _list_jar_lines(adapter: CheckedAdapter) -> Iterator[str]:
    if adapter.profile.method != "session" and not adapter.profile.is_kept:
        return
    for check in verify_jars():
        if not check.ok:
            raise DbtRuntimeError(
                f"{check.path} is not the JAR that dbt-arctic was tested with.\n"
                f"  expected: SHA-256 {check.expected}\n  found: {check.actual or 'no file'}\n"
                "  what to do: delete the file and run `dbt debug` again"
            )
        yield f"jar: {check.path.name} has the recorded hash"


def _remove_trial_folders(adapter: CheckedAdapter, schema: str, pattern: str) -> None:
    """Removes the folders of dropped trial tables in an embedded warehouse, and the schema's folder if it is empty.

    Purging a table leaves empty folders, and dropping a view its metadata. An object store has no folders.
    """
    profile = adapter.profile
    if profile.sqlite_file is None or find_store(profile.catalog_properties) is not None:
        return
    home = profile.sqlite_file.parent / schema
    for folder in sorted(home.glob(pattern)):
        remove = partial(shutil.rmtree, folder, ignore_errors=True)
        perform_effect("debug.remove_folders", remove, f"remove {folder}")
    with suppress(OSError):
        perform_effect("debug.remove_folders", home.rmdir, f"remove {home}")


def _try_writes(adapter: CheckedAdapter) -> Iterator[str]:
    """Tries a write and the capabilities of the catalog with small tables, and yields lines with the results.

    It uses a temporary schema if the profile's schema does not exist yet.
    """
    catalog, schema = adapter.profile.catalog, str(adapter.config.credentials.schema)
    token = uuid.uuid4().hex[:8]
    trial = f"arctic_debug_{token}"
    has_schema = adapter.check_schema_exists(catalog, schema)
    place = adapter.Relation.create(database=catalog, schema=schema if has_schema else trial)
    if not has_schema:
        adapter.create_namespace(place)
    try:
        yield _try_write(adapter.spark_session(), quote_name(catalog, str(place.schema), trial))
        yield from _list_capabilities(adapter, str(place.schema), token)
    finally:
        if not has_schema:
            adapter.drop_namespace(place)
        _remove_trial_folders(adapter, str(place.schema), f"arctic_*_{token}")


def _try_write(spark: SparkSession, table: Sql) -> str:
    """Creates and drops a small table; returns a line with the table's location."""
    from arctic_runtime.spark.tables.commit import perform_statement

    create = fill_statement("CREATE TABLE {table} (one int) USING iceberg", table=table)
    perform_statement("debug.create", spark, create)
    location = _find_location(spark, table)
    perform_statement("debug.drop", spark, fill_statement("DROP TABLE {table} PURGE", table=table))
    return f"write: a table was created and dropped in {location}"


def _list_capabilities(adapter: CheckedAdapter, schema: str, token: str) -> Iterator[str]:
    """Tries the capabilities of the catalog, and yields a line for each."""
    from arctic_runtime.spark.tables.capability_probe import CapabilityProbe

    reader = adapter.catalog_reader
    known = reader.capabilities if reader.is_supported else adapter.profile.catalog_kind.capabilities
    tried = CapabilityProbe(adapter.spark_session(), reader, schema, token).probe_all()
    yield from list_capability_lines(tried.complete(known))


def _find_location(spark: SparkSession, table: Sql) -> str:
    """Returns the location of a table's files, according to the catalog."""
    rows = spark.sql(fill_statement("DESCRIBE TABLE EXTENDED {table}", table=table)).collect()
    return next((str(row.data_type) for row in rows if row.col_name == "Location"), "an unknown place")
