"""Decides after an error of an incremental run whether a run that computes the whole query would avoid it.

The incremental plan evaluates expressions on other rows and in another order than the query, so it can fail although
the query does not. A computation of the whole query does not help after a broken contract or a conflict with other
writers, or if Spark has stopped or is out of memory.
"""

from __future__ import annotations

from py4j.protocol import Py4JError, Py4JJavaError
from pyspark.errors import (
    AnalysisException,
    ArithmeticException,
    ArrayIndexOutOfBoundsException,
    DateTimeException,
    IllegalArgumentException,
    PySparkException,
    PythonException,
    QueryExecutionException,
    SparkNoSuchElementException,
    SparkRuntimeException,
    SparkUpgradeException,
    UnsupportedOperationException,
)

from arctic_runtime.errors import ArcticError
from arctic_runtime.ivm.algebra.refusal import NotMaintained, Refusal, get_first_line
from arctic_runtime.spark.engine.java.java_errors import SPARK_ERRORS

_OF_DATA = (
    AnalysisException,
    ArithmeticException,
    ArrayIndexOutOfBoundsException,
    DateTimeException,
    IllegalArgumentException,
    PythonException,
    QueryExecutionException,
    SparkNoSuchElementException,
    SparkRuntimeException,
    SparkUpgradeException,
    UnsupportedOperationException,
)
_OF_THE_MOMENT = (
    "OutOfMemory",
    "cancelled",
    "OPERATION_CANCELED",
    "StatusCode.",
    "shut down",
    "stopped SparkContext",
    "ExecutorLostFailure",
    "No space left on device",
)
_FOR_OTHERS = (ArcticError, MemoryError, OSError)


def to_refusal(error: Exception) -> Refusal | None:
    """Returns why the whole query is computed after `error` of an incremental run; None if that would not help.

    The refusal also applies to later runs if the query or its rows cause the error. Spark gives such errors an error
    condition, such as `CAST_INVALID_INPUT`.
    """
    if isinstance(error, NotMaintained):
        return Refusal(error.reason, error.because, lasts=error.reason not in ("COST", "QUERY_CHANGED"))
    if isinstance(error, _FOR_OTHERS) or (isinstance(error, Py4JError) and not isinstance(error, Py4JJavaError)):
        return None
    if not isinstance(error, SPARK_ERRORS):
        return Refusal("INCREMENT_FAILED", get_first_line(error))
    if isinstance(error, PySparkException) and isinstance(error, _OF_DATA):
        return Refusal("INCREMENT_FAILED", get_first_line(error), lasts=error.getCondition() is not None)
    if any(sign in str(error) for sign in _OF_THE_MOMENT):
        return None
    return Refusal("INCREMENT_FAILED", _get_first_line(error), lasts=False)


def _get_first_line(error: Exception) -> str:
    return get_first_line(error.java_exception) if isinstance(error, Py4JJavaError) else get_first_line(error)
