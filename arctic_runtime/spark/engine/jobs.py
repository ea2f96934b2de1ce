"""Names of work on Spark's own pages, and cancellation of that work."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def describe_jobs(session: SparkSession, text: str) -> None:
    """Names the jobs that this thread starts from now on; a server of Spark Connect names its jobs by itself."""
    if not type(session).__module__.startswith("pyspark.sql.connect"):
        session.sparkContext.setJobDescription(text)


@contextmanager
def make_cancellable(session: SparkSession, tag: str) -> Iterator[Callable[[], None]]:
    """While this lasts, jobs that this thread starts can be cancelled, from any thread, by what it gives.

    `tag` must be no other work's.
    """
    session.addTag(tag)
    try:
        yield lambda: _ignore_result(session.interruptTag(tag))
    finally:
        session.removeTag(tag)


def _ignore_result(_: object) -> None:
    """Ignores which operations ended, since the jobs themselves report it."""
