"""The catalog that one thread uses in the place of the target's, such as a branch."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from arctic_runtime.catalog.reader import CatalogReader

_READER: ContextVar[CatalogReader | None] = ContextVar("reader", default=None)


def get_thread_reader() -> CatalogReader | None:
    """Returns the reader that this thread uses; None for the target's."""
    return _READER.get()


@contextmanager
def use_reader(reader: CatalogReader) -> Iterator[None]:
    """Makes this thread's work use the catalog of `reader`, also for Spark, until the context ends."""
    token = _READER.set(reader)
    try:
        yield
    finally:
        _READER.reset(token)
