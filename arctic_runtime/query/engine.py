"""A DuckDB of its own for one query: it can read the files of the tables that the query names, and nothing else."""

from __future__ import annotations

import sys
import tempfile
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlparse

from sqlglot import exp

from arctic_runtime.catalog.change_rows.log_files import LINEAGE_FIELD, LogReader
from arctic_runtime.catalog.change_rows.projection import build_arrow_fields
from arctic_runtime.catalog.damaged_files import REMEDY
from arctic_runtime.catalog.reader import to_spark_type
from arctic_runtime.errors import ArcticError, ConfigError, CorruptState
from arctic_runtime.query.duckdb_types import call, cast, column, number, text, to_duckdb_type, write_duckdb
from arctic_runtime.query.refusal import BY_SPARK
from arctic_runtime.query.table_files import ReadFile, keeps_nested_fields
from arctic_runtime.thresholds import Thresholds

if TYPE_CHECKING:
    import pyarrow as pa
    from duckdb import DuckDBPyConnection
    from pyiceberg.table import Table
    from pyiceberg.types import NestedField

    from arctic_runtime.query.file_system import TableFileSystem

_GLOB = frozenset("*?[]#%")
"""Characters in a path that DuckDB, or the reading of an address, does not take as they are."""


@dataclass(frozen=True)
class Limits:
    """Limits of a query; None for none of its own. Sizes are as DuckDB writes them, such as `4GB`."""

    memory: str | None = None
    max_rows: int | None = None
    spilled: str | None = None
    """Space on disk for what does not fit into the memory."""

    seconds: float | None = None
    """Time to find the files of the tables, to run the query, and to read its rows."""

    def build_settings(self, folder: Path) -> dict[str, str]:
        """Builds the settings of DuckDB; `folder` is for what does not fit into the memory."""
        sizes = {"memory_limit": self.memory, "max_temp_directory_size": self.spilled}
        known = {name: size for name, size in sizes.items() if size is not None}
        return {"temp_directory": str(folder / "spilled"), "TimeZone": "UTC", **known}


@dataclass
class QueryEngine:
    """A connection to a DuckDB in memory, the paths that it may read, and what is registered in it."""

    connection: DuckDBPyConnection
    batch_rows: int
    """Number of rows that are read and returned together."""

    paths: list[str] = field(default_factory=list)
    files: TableFileSystem | None = None
    numbers: Iterator[int] = field(default_factory=count)
    """Numbers for the names of what is registered."""

    def select_rows(
        self, table: Table, fields: Sequence[NestedField], files: Sequence[ReadFile], has_sequence: bool = False
    ) -> exp.Query:
        """Builds the query of some columns of a table's files without deleted rows; columns are named by field ids.

        With `has_sequence` there is a column `sequence` with the sequence number of the commit of each row.
        """
        if not files:
            return self._select_nothing(fields, has_sequence)
        if not keeps_nested_fields(table, fields) or any(map(has_odd_default, fields)):
            return self._select_by_arrow(table, fields, files, has_sequence)
        parts = [
            self._select_by_path(table, fields, group, has_sequence)
            for group in (
                [file for file in files if not file.deleted],
                [file for file in files if file.deleted],
            )
            if group
        ]
        united: exp.Query = parts[0]
        for part in parts[1:]:
            united = exp.Union(this=united, expression=part, distinct=False)
        return united

    def _select_nothing(self, fields: Sequence[NestedField], has_sequence: bool) -> exp.Query:
        nulls = [exp.alias_(cast(exp.Null(), to_spark_type(part.field_type)), name_field(part)) for part in fields]
        nulls += [exp.alias_(cast(exp.Null(), "bigint"), "sequence")] if has_sequence else []
        return exp.Select(expressions=nulls or [exp.true()]).where(exp.false())

    def _select_by_path(
        self, table: Table, fields: Sequence[NestedField], files: Sequence[ReadFile], has_sequence: bool
    ) -> exp.Query:
        addresses = exp.Array(expressions=[text(self._allow_path(table, part.file.path)) for part in files])
        wanted = [(part.field_id, to_file_type(part), part.initial_default) for part in fields]
        wanted += [(LINEAGE_FIELD, "BIGINT", None)] if has_sequence or not wanted else []
        schema = exp.EQ(this=exp.to_identifier("schema"), expression=_build_schema(wanted))
        source = exp.alias_(exp.Table(this=call("read_parquet", addresses, schema)), "t", table=True)
        shown: list[exp.Expr] = [exp.alias_(_read_field(part), name_field(part), quoted=True) for part in fields]
        if has_sequence:
            sequences = exp.Array(expressions=[number(part.file.sequence) for part in files])
            place = exp.Add(this=cast(column("file_index", "t"), "bigint"), expression=number(1))
            own = call("list_extract", sequences, place)
            lineage = column(f"f{LINEAGE_FIELD}", "t")
            shown.append(exp.alias_(cast(call("coalesce", lineage, own), "bigint"), "sequence", quoted=True))
        query = exp.Select(expressions=shown or [exp.true()]).from_(source, copy=False)
        return query.where(self._build_not_deleted(files), copy=False) if files[0].deleted else query

    def _build_not_deleted(self, files: Sequence[ReadFile]) -> exp.Expr:
        """Builds the condition that a row of `read_parquet` over the files is not at a deleted position."""
        import pyarrow as pa

        indexes = [place for place, part in enumerate(files) for _ in part.deleted]
        positions = [position for part in files for position in part.deleted]
        deleted = pa.table({"f": pa.array(indexes, pa.uint64()), "p": pa.array(positions, pa.int64())})
        name = self._create_table(deleted)
        matches = exp.and_(
            exp.EQ(this=column("f", "g"), expression=column("file_index", "t")),
            exp.EQ(this=column("p", "g"), expression=column("file_row_number", "t")),
        )
        gone = exp.Select(expressions=[number(1)]).from_(exp.alias_(exp.to_table(name), "g", table=True))
        return exp.Not(this=exp.Exists(this=gone.where(matches)))

    def _create_table(self, rows: pa.Table) -> str:
        name, given = (f"deleted{next(self.numbers)}", "given")
        self.connection.register(given, rows)
        self.connection.execute(f"CREATE TABLE {name} AS SELECT * FROM {given}")
        self.connection.unregister(given)
        return name

    def _select_by_arrow(
        self, table: Table, fields: Sequence[NestedField], files: Sequence[ReadFile], has_sequence: bool
    ) -> exp.Query:
        """Builds the query of rows that this process reads and converts by field ids at each level of the columns."""
        import pyarrow as pa
        from pyiceberg.types import StructType

        wanted = StructType(*fields)
        arrow_fields = build_arrow_fields(wanted)
        reader = LogReader(table, wanted, arrow_fields, self.batch_rows)

        def read_batches() -> Iterator[pa.RecordBatch]:
            for part in files:
                yield from reader.read_rows(part.file, 0, sys.maxsize)

        names = [*map(name_field, fields), "sequence"]
        kinds = [*(arrow_field.type for arrow_field in arrow_fields), pa.int64()]
        schema = pa.schema(list(zip(names, kinds, strict=True)))
        renamed = (pa.RecordBatch.from_arrays(batch.columns, schema=schema) for batch in read_batches())
        name = f"rows{next(self.numbers)}"
        self.connection.register(name, pa.RecordBatchReader.from_batches(schema, renamed))
        shown = names if has_sequence else names[:-1]
        return exp.Select(expressions=[column(part) for part in shown] or [exp.true()]).from_(exp.to_table(name))

    def _allow_path(self, table: Table, path: str) -> str:
        """Allows DuckDB to read a file, and returns the address under which it does."""
        address = urlparse(path)
        is_local = address.scheme in ("", "file") and not address.netloc and not _GLOB.intersection(path)
        known = address.path if is_local else self._get_file_system().add_file(table, path)
        self.paths.append(known)
        return known

    def _get_file_system(self) -> TableFileSystem:
        if self.files is None:
            from arctic_runtime.query.file_system import TableFileSystem

            self.files = TableFileSystem()
            self.connection.register_filesystem(self.files)
        return self.files

    def create_view(self, name: str, query: exp.Query) -> None:
        """Creates a view, under which the query of a user finds the rows of a table."""
        table = exp.Table(this=exp.to_identifier(name, quoted=True))
        self.connection.execute(write_duckdb(exp.Create(this=table, kind="VIEW", expression=query)))

    def configure(self, settings: Mapping[str, str]) -> None:
        """Sets settings of DuckDB; raises ConfigError for a value that it does not take."""
        import duckdb

        for name, value in settings.items():
            try:
                self._set(name, text(value))
            except duckdb.Error as error:
                raise ConfigError(
                    f"The setting {name} can't have this value.", expected="a size such as 2GB", actual=value
                ) from error

    def _set(self, name: str, value: exp.Expr) -> None:
        setting = exp.EQ(this=exp.to_identifier(name), expression=value)
        self.connection.execute(write_duckdb(exp.Set(expressions=[exp.SetItem(this=setting)])))

    def run_query(self, query: exp.Query) -> pa.RecordBatchReader:
        """Runs the query of a user, which can reach no other file and change no setting."""
        # Values are written into the statements, since for a parameter DuckDB imports pandas, if that is installed.
        self._set("allowed_paths", exp.Array(expressions=[text(path) for path in self.paths]))
        self._set("enable_external_access", exp.false())
        self._set("lock_configuration", exp.true())
        return self.connection.execute(write_duckdb(query)).to_arrow_reader(self.batch_rows)


@contextmanager
def open_engine(limits: Limits, thresholds: Thresholds) -> Iterator[QueryEngine]:
    """Opens a DuckDB in memory, which writes to a temporary folder of its own where its memory is too small."""
    try:
        import duckdb
    except ImportError:
        raise ConfigError(
            "A query without Spark needs DuckDB.", fix=f"pip install 'dbt-arctic[sql]', or {BY_SPARK}"
        ) from None
    with tempfile.TemporaryDirectory(prefix="arctic-sql-") as folder:
        connection = duckdb.connect(config={"autoload_known_extensions": False, "autoinstall_known_extensions": False})
        try:
            engine = QueryEngine(connection, thresholds.exports.batch_rows)
            engine.configure(limits.build_settings(Path(folder)))
            with _limit_time(connection, limits.seconds, thresholds.queries.interrupt_seconds):
                yield engine
        except duckdb.Error as error:
            raise _explain_error(error) from error
        finally:
            connection.close()


@contextmanager
def _limit_time(connection: DuckDBPyConnection, seconds: float | None, pause: float) -> Iterator[None]:
    """Interrupts what a connection does after so many seconds, and what it begins after them, until the context ends.

    An interrupt ends only what DuckDB does at that moment, so there is another one after each `pause`, in seconds.

    Raises ConfigError for what was interrupted, wherever the error of it came from.
    """
    if seconds is None:
        yield
        return
    ended, interrupted = threading.Event(), threading.Event()

    def interrupt_late() -> None:
        is_over = ended.wait(seconds)
        while not is_over:
            interrupted.set()
            connection.interrupt()
            is_over = ended.wait(pause)

    watch = threading.Thread(target=interrupt_late, name="query-limit", daemon=True)
    watch.start()
    try:
        yield
    except Exception as error:
        if not interrupted.is_set() or "Interrupt" not in str(error):
            raise
        raise ConfigError(
            f"The query was given up after {seconds:g} seconds, which is the limit.",
            fix="read fewer rows, or run it by `arctic sql`, which has no such limit",
        ) from error
    finally:
        ended.set()
        watch.join()


def iterate_batches(reader: pa.RecordBatchReader) -> Iterator[pa.RecordBatch]:
    """Yields the rows of an answer; raises ConfigError for an error that DuckDB meets while they are read."""
    import pyarrow as pa

    try:
        yield from reader
    except (OSError, pa.ArrowException) as error:
        raise _explain_error(error) from error


_DAMAGE = ("No files found", "magic bytes", "too small to be a Parquet file", "TProtocolException", "Cannot open file")
"""Parts of DuckDB's messages about a file that is missing or damaged."""


def _explain_error(error: Exception) -> ArcticError:
    kind, _, message = str(error).partition(": ")
    reason = message.partition("\n\nLINE")[0].strip() or kind
    if any(part in reason for part in _DAMAGE):
        return CorruptState("A file of a table is missing or damaged.", actual=reason, fix=REMEDY)
    if kind == "Out of Memory Error":
        return ConfigError(
            "The query needs more memory, or space on disk, than it may have.",
            actual=reason.partition("\n")[0],
            fix="read fewer rows or columns, or give `arctic sql` more: --memory",
        )
    return ConfigError(f"The query failed: {reason}")


def name_field(part: NestedField) -> str:
    """Returns the name under which the rows of a table's files have a column."""
    return f"f{part.field_id}"


def has_odd_default(part: NestedField) -> bool:
    """Whether a column has a default value that DuckDB does not read from a text."""
    return isinstance(part.initial_default, bytes | dict | list) or (
        part.initial_default is not None and not part.field_type.is_primitive
    )


def to_file_type(part: NestedField) -> str:
    """Returns DuckDB's type of a column in files: `UUID` for one that Spark reads as texts."""
    from pyiceberg.types import UUIDType

    return "UUID" if isinstance(part.field_type, UUIDType) else to_duckdb_type(to_spark_type(part.field_type))


def _read_field(part: NestedField) -> exp.Expr:
    value = column(name_field(part), "t")
    return cast(value, "string") if to_file_type(part) == "UUID" else value


def _build_schema(wanted: Iterable[tuple[int, str, Any]]) -> exp.Expr:
    """Builds the argument of `read_parquet` by which columns are found by their field ids in each file."""
    entries = list(wanted)
    keys = exp.Array(expressions=[number(field_id) for field_id, _, _ in entries])
    values = exp.Array(
        expressions=[
            _build_struct(
                {
                    "name": text(f"f{field_id}"),
                    "type": text(of_type),
                    "default_value": exp.Null() if default is None else text(_write_default(default)),
                }
            )
            for field_id, of_type, default in entries
        ]
    )
    return call("map", keys, values)


def _build_struct(parts: Mapping[str, exp.Expr]) -> exp.Struct:
    return exp.Struct(
        expressions=[exp.PropertyEQ(this=exp.to_identifier(name), expression=value) for name, value in parts.items()]
    )


def _write_default(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else repr(value) if isinstance(value, float) else str(value)
