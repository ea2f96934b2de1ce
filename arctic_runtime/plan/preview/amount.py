"""An estimated amount, such as bytes or seconds, with the range in which it is expected."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True)
class Amount:
    """An estimate with its range: `low` is at most `expected`, and `high` at least."""

    low: float = 0.0
    expected: float = 0.0
    high: float = 0.0

    @classmethod
    def from_estimates(cls, expected: float, others: Iterable[float] = ()) -> Amount:
        """Builds an amount whose range spans `expected` and all `others`."""
        known = (expected, *others)
        return cls(min(known), expected, max(known))

    def __add__(self, other: Amount) -> Amount:
        return Amount(self.low + other.low, self.expected + other.expected, self.high + other.high)

    def scale_by(self, low: float, expected: float, high: float) -> Amount:
        """Multiplies each part by a factor of its own; the range still contains the estimate."""
        return Amount.from_estimates(self.expected * expected, (self.low * low, self.high * high))

    def limit_to(self, most: float) -> Amount:
        """Returns the amount with no part above `most`."""
        return Amount(min(self.low, most), min(self.expected, most), min(self.high, most))

    @property
    def is_exact(self) -> bool:
        return self.low == self.high


NONE = Amount()


def sum_amounts(amounts: Iterable[Amount]) -> Amount:
    """Adds up amounts; zero for none."""
    return sum(amounts, NONE)
