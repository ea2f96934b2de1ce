"""Extracts readable messages from Spark's errors, without Java's stack traces and without query plans."""

from __future__ import annotations

import re

from arctic_runtime.catalog_kinds.missing_rights import find_missing_right
from arctic_runtime.errors import ArcticError, ConfigError

_CALL = re.compile(r"^An error occurred while calling [^\n]*\n: ")
# The class is in parentheses if the error comes from a server, and there are two if a thread passed the error on.
_JAVA_CLASS = re.compile(r"^(?:(?:[a-z_][\w$]*\.)+[A-Z][\w$]*(?:: |$)|\((?:[a-z_][\w$]*\.)+[A-Z][\w$]*\) )+")
_PLAN = re.compile(r"(; line \d+ pos \d+)?;\n'?[A-Z][^\n]*(\n[ :+'].*|$)", re.DOTALL)
_TRACE_LINE = re.compile(r"^\s*(at |\.\.\. \d+ more|Suppressed: )")
_CAUSE = re.compile(r"^\s*Caused by: (.*)$", re.MULTILINE)

_CLOCK = re.compile(r"\[BUG\] Expected sorted|Invalid (?:update|snapshot) timestamp")
_CLOCK_ADVICE = (
    "\n  found: the clock is more than a minute behind the newest commit to the table"
    "\n  what to do: set the clock of the machine that writes, or of the one that wrote ahead; then it is tried again"
)

_QUALIFY = re.compile(r"\bqualify\b", re.IGNORECASE)
_QUALIFY_ADVICE = (
    "\n  found: QUALIFY, which other databases have and Spark does not"
    "\n  what to do: select from the query in parentheses, and compare the column of the window function in WHERE"
)

_CANCELLED = re.compile(r"^\[(?:SPARK_JOB_CANCELLED|OPERATION_CANCELED)\]", re.MULTILINE)
_CANCELLED_ADVICE = (
    "\n  found: somebody has cancelled the work: on Spark's page, at its server, or by a limit on queries"
    "\n  what to do: run again: what was committed stays, and nothing is applied twice"
)


def get_message(error: BaseException) -> str:
    """Returns the message of an error of Spark or Iceberg; adds the innermost cause if its message is not included.

    If Iceberg says only that commit times are out of order, adds an explanation and advice; if a right is missing, adds
    its name and advice, unless the error is of ours and has them. A syntax error in a query with QUALIFY says that
    Spark has none, and an error about work that was cancelled says that it may be done again.
    """
    message = _extract_message(error)
    if _CLOCK.search(message):
        return f"{message}{_CLOCK_ADVICE}"
    if "[PARSE_SYNTAX_ERROR]" in message and _QUALIFY.search(message):
        return f"{message}{_QUALIFY_ADVICE}"
    if _CANCELLED.search(message) and not isinstance(error, ArcticError):
        return f"{message}{_CANCELLED_ADVICE}"
    right = None if isinstance(error, ArcticError) else find_missing_right(message)
    return message if right is None else f"{message}\n  expected: the right {right.name}\n  what to do: {right.fix}"


def to_query_error(error: BaseException) -> ConfigError | None:
    """Converts the error of a query that Spark can't analyse to a readable ConfigError; None for any other error."""
    from pyspark.errors import AnalysisException

    if not isinstance(error, AnalysisException):
        return None
    return ConfigError(f"Spark can't run the query: {get_message(error)}", fix="correct the query")


def get_error_details(error: BaseException) -> dict[str, str]:
    """Returns the details of an ArcticError by field name, as `ArcticError.details`; empty for other errors."""
    return error.details if isinstance(error, ArcticError) else {}


def _extract_message(error: BaseException) -> str:
    text = _CALL.sub("", str(error).strip())
    causes = [_JAVA_CLASS.sub("", cause).strip() for cause in _CAUSE.findall(text)]
    text = text.split("\n\nJVM stacktrace:")[0]
    text_before_cause = text[: match.start()] if (match := _CAUSE.search(text)) else text
    lines = [line for line in text_before_cause.splitlines() if not _TRACE_LINE.match(line)]
    message = _JAVA_CLASS.sub("", "\n".join(lines).strip())
    message = _PLAN.sub(lambda plan: plan.group(1) or "", message).strip()
    innermost = causes[-1] if causes else ""
    if innermost and innermost not in message:
        return f"{message}\n{innermost}".strip()
    return message or type(error).__name__
