"""Keeps the values that were used last."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable
from typing import Generic, TypeVar

T = TypeVar("T")


class RecentValues(Generic[T]):
    """Values by key, of which those that were used last are kept; safe to share between threads.

    The sizes of all values are at most `most`; without `measure`, each has the size 1.
    """

    def __init__(self, most: int, measure: Callable[[T], int] = lambda _: 1) -> None:
        self._most = most
        self._measure = measure
        self._size = 0
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
        """Keeps a value, in the place of an earlier one, unless it is larger than all values together may be."""
        with self._changing:
            if key in self._values:
                self._size -= self._measure(self._values.pop(key))
            if self._measure(value) > self._most:
                return
            self._values[key] = value
            self._size += self._measure(value)
            while self._size > self._most:
                self._size -= self._measure(self._values.popitem(last=False)[1])
