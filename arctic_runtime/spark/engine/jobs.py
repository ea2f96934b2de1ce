"""Describes Spark jobs for Spark's web UI, and cancels them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def describe_jobs(session: SparkSession, text: str) -> None:
    """Sets the description of all Spark jobs that this thread starts from now on.

    Does nothing with Spark Connect, since the server describes its jobs itself.
    """
    if not type(session).__module__.startswith("pyspark.sql.connect"):
        session.sparkContext.setJobDescription(text)


@contextmanager
def make_cancellable(session: SparkSession, tag: str) -> Iterator[Callable[[], None]]:
    """Yields a function that cancels the Spark jobs that this thread starts within the block.

    The function may be called from any thread. `tag` marks the jobs, and must not be used for other work.
    """
    session.addTag(tag)
    try:
        yield lambda: _ignore_result(session.interruptTag(tag))
    finally:
        session.removeTag(tag)


def _ignore_result(_: object) -> None:
    """Discards the ids of the cancelled operations, which Spark returns."""
