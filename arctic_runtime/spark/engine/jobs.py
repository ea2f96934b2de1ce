"""Names of jobs in Spark's web UI, and their cancellation."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def describe_jobs(session: SparkSession, text: str) -> None:
    """Sets the description of all jobs that this thread starts from now on.

    With Spark Connect it does nothing, since the server describes its jobs by itself.
    """
    if not type(session).__module__.startswith("pyspark.sql.connect"):
        session.sparkContext.setJobDescription(text)


@contextmanager
def make_cancellable(session: SparkSession, tag: str) -> Iterator[Callable[[], None]]:
    """Yields a function that cancels the jobs which this thread starts within the `with` block.

    It may be called from any thread. `tag` must not be used for other work.
    """
    session.addTag(tag)
    try:
        yield lambda: _ignore_result(session.interruptTag(tag))
    finally:
        session.removeTag(tag)


def _ignore_result(_: object) -> None:
    """Ignores which operations ended, since the jobs themselves report it."""
