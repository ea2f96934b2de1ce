"""Keeps the values that were used last."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable
from typing import Generic, TypeVar

T = TypeVar("T")


class RecentValues(Generic[T]):
    """At most `most` values by key, of which those that were used last are kept; safe to share between threads."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._changing = threading.Lock()
        self._values: OrderedDict[str, T] = OrderedDict()

    def get(self, key: str, make: Callable[[], T]) -> T:
        """Returns the value of a key; calls `make` if it is not kept, perhaps in several threads at once."""
        with self._changing:
            if key in self._values:
                self._values.move_to_end(key)
                return self._values[key]
        value = make()
        self.put(key, value)
        return value

    def put(self, key: str, value: T) -> None:
        """Keeps a value, in the place of an earlier one."""
        with self._changing:
            self._values[key] = value
            self._values.move_to_end(key)
            while len(self._values) > self._most:
                self._values.popitem(last=False)
