"""The command `arctic sql`: answers a query over the project's tables, by DuckDB or by Spark."""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from arctic_runtime.operations.operation import Answer
from arctic_runtime.operations.row_formats import PARQUET, ROW_FORMATS, RowFormat, Rows, iterate_rows
from dbt.adapters.arctic.commands.exported_rows import choose_format, write_rows

if TYPE_CHECKING:
    import pyarrow as pa

    from arctic_runtime.profile import Profile

_TABLE = "table"
_FORMATS: Mapping[str, RowFormat] = {**ROW_FORMATS, PARQUET.name: PARQUET}
_SHOWN_ROWS = 100


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("query", metavar="QUERY", help="one select in Spark's SQL, in quotes")
    parser.add_argument(
        "--engine",
        choices=("duckdb", "spark"),
        default="duckdb",
        help="duckdb (default) answers in a second, and refuses what Spark might answer otherwise",
    )
    parser.add_argument(
        "--format",
        choices=(_TABLE, *sorted(_FORMATS)),
        default=_TABLE,
        help="a table for people (default), or an Arrow IPC stream, CSV, a JSON object a line, or Parquet",
    )
    parser.add_argument(
        "--output", type=Path, default=None, metavar="FILE", help="write to this file (default: the standard output)"
    )
    parser.add_argument(
        "--limit",
        type=_read_limit,
        default=None,
        metavar="N",
        help=f"at most so many rows (default: {_SHOWN_ROWS} in a table)",
    )
    parser.add_argument(
        "--memory", default=None, metavar="SIZE", help="memory of DuckDB, such as 2GB (default: 80%% of the machine's)"
    )


def _read_limit(text: str) -> int:
    count = int(text)
    if count < 0:
        raise argparse.ArgumentTypeError("is below 0")
    return count


def perform_command(options: argparse.Namespace) -> Answer:
    """Answers the query; raises ConfigError if it is no query, or if DuckDB may answer otherwise than Spark."""
    row_format = choose_format(options, _FORMATS, _TABLE)
    is_cut = row_format is None and not options.json and options.limit is None
    with _open_rows(options, _SHOWN_ROWS + 1 if is_cut else options.limit) as rows:
        if row_format is not None:
            write_rows(rows, row_format, options.output)
            return Answer(None, ())
        schema = rows.schema
        values = [dict(zip(schema.names, row, strict=True)) for row in iterate_rows(rows.batches)]
    shown = values[:_SHOWN_ROWS] if is_cut else values
    more = [f"({_SHOWN_ROWS} rows shown, and there are more: --limit N)"] if len(shown) < len(values) else []
    return Answer(shown, (*_draw_table(schema, shown), *more))


@contextmanager
def _open_rows(options: argparse.Namespace, limit: int | None) -> Iterator[Rows]:
    from arctic_runtime.query.answer import prepare_for_spark
    from dbt.adapters.arctic.project.cache.known_project import load_known_project
    from dbt.adapters.arctic.project.queries import answer_project_query, build_project_lookup

    project = load_known_project(options.project_dir, options.profiles_dir, options.target)
    if options.engine == "spark":
        yield _run_by_spark(prepare_for_spark(options.query, build_project_lookup(project)), project.profile, limit)
        return
    with answer_project_query(project, options.query, options.memory, limit) as rows:
        yield rows


def _run_by_spark(query: str, profile: Profile, limit: int | None) -> Rows:
    from arctic_runtime.spark.engine.session import SparkEnvironment
    from arctic_runtime.spark.tables.query_rows import read_query_rows

    return read_query_rows(SparkEnvironment(profile).new_session(), query, limit)


def _draw_table(schema: pa.Schema, rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """Draws rows as a table: numbers to the right, a null as NULL, and characters that move the cursor escaped."""
    names = schema.names
    cells = [[_write_cell(row[name]) for name in names] for row in rows]
    numeric = [str(part.type).startswith(("int", "float", "double", "decimal")) for part in schema]
    widths = [max(map(len, column)) for column in zip(names, *cells, strict=True)]

    def draw(line: Sequence[str]) -> str:
        parts = zip(line, widths, numeric, strict=True)
        return "  ".join(part.rjust(width) if right else part.ljust(width) for part, width, right in parts).rstrip()

    return [draw(names), "  ".join("-" * width for width in widths), *map(draw, cells)]


def _write_cell(value: Any) -> str:
    text = "NULL" if value is None else value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return "".join(part if part.isprintable() else repr(part)[1:-1] for part in text)
