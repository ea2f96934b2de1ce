"""Python models: runs the model's function in this process, with the Spark session that then writes its result."""

from __future__ import annotations

import traceback
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from dbt_common.exceptions import DbtRuntimeError

from arctic_runtime.spark.engine.messages import get_message
from arctic_runtime.spark.engine.statement import fill_statement, quote_name
from dbt.adapters.arctic.relations.identifiers import quote_identifier

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from dbt.adapters.arctic.connections.handle import SessionHandle


_FRAMES = ("pandas.DataFrame", "pandas.core.frame.DataFrame", "pyarrow.lib.Table")
"""Classes of frames with rows in this process; newer versions of pandas omit the inner module from the class's name."""


def stage_result(handle: SessionHandle, node: Mapping[str, Any], code: str) -> str:
    """Runs the function of a Python model; returns the query that reads the rows of its result from a view."""
    view = name_view(str(node["alias"]))
    rows = run_python_model(code, str(node["unique_id"]), handle.spark)
    rows.createOrReplaceTempView(quote_identifier(view))
    handle.mark_temporary_view()
    handle.mark_foreign_code()
    return write_view_query(view)


def run_python_model(code: str, model: str, spark: SparkSession) -> DataFrame:
    """Runs the function `model` of a Python model's compiled code, and returns its result as a Spark DataFrame.

    The argument `model` is the model's id, for errors. The code also has the session as the variable `spark`. Raises
    DbtRuntimeError if the code fails, with the failing line, or if the result is not a frame.
    """
    namespace: dict[str, Any] = {"spark": spark, "__name__": model}
    file = f"<{model}>"
    try:
        exec(compile(code, file, "exec"), namespace)
        returned = namespace["model"](namespace["dbtObj"](spark.table), spark)
    except Exception as error:
        raise DbtRuntimeError(f"{model}: {_format_error(error, file, code)}") from error
    return _as_frame(returned, model, spark)


def write_view_query(view: str) -> str:
    """Returns the query that reads the rows of a Python model from the temporary view `view`."""
    return str(fill_statement("SELECT * FROM {view}", view=quote_name(view)))


def name_view(identifier: str) -> str:
    """Returns the name of the temporary view with a Python model's rows; it is unlikely to be the name of a table."""
    return f"python({identifier})"


def _as_frame(returned: Any, model: str, spark: SparkSession) -> DataFrame:
    kind = f"{type(returned).__module__}.{type(returned).__qualname__}"
    if kind.startswith("pyspark.sql.") and hasattr(returned, "createOrReplaceTempView"):
        return returned  # type: ignore[no-any-return]
    if kind.startswith("pyspark.pandas."):
        return returned.to_spark()  # type: ignore[no-any-return]
    if kind in _FRAMES:
        return _from_process(returned, spark)
    raise DbtRuntimeError(
        f"{model}: its function `model` returns no frame.\n"
        "  expected: a DataFrame of Spark, of pandas or of pandas on Spark, or a table of pyarrow\n"
        f"  found: {kind}\n  what to do: return the rows that the table shall have"
    )


def _from_process(returned: Any, spark: SparkSession) -> DataFrame:
    """Converts a frame of this process to a Spark DataFrame by way of Arrow.

    This gives equal results in local and remote sessions.
    """
    import pyarrow as pa
    from pyspark.sql.pandas.types import from_arrow_schema

    from dbt.adapters.arctic.materialize.pandas_frames import to_arrow, to_storable

    table = to_storable(returned if isinstance(returned, pa.Table) else to_arrow(returned))
    rows: Any = table if table.num_rows else []
    return spark.createDataFrame(rows, schema=from_arrow_schema(table.schema))


def _format_error(error: Exception, file: str, code: str) -> str:
    """Formats an error with the line of the model's code that raised it."""
    lines = code.splitlines()
    places = [place.lineno or 1 for place in traceback.extract_tb(error.__traceback__) if place.filename == file]
    where = f"\n  line {places[-1]}: {lines[places[-1] - 1].strip()}" if places else ""
    return f"{type(error).__name__}: {get_message(error)}{where}"
