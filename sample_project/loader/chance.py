"""Chance that repeats: each draw depends on its name and its day only.

Only ``Random.random`` is used, the one method whose sequence Python promises to keep for a seed.
"""

from __future__ import annotations

from datetime import date
from random import Random

import pyarrow as pa


def coins(name: str, day: date, count: int, rate: float) -> pa.Array:
    """``count`` booleans, each true at the rate."""
    draw = Random(f"{name} {day}").random
    return pa.array([draw() < rate for _ in range(count)], pa.bool_())


def numbers(name: str, day: date, count: int, below: int) -> list[int]:
    """``count`` integers from 0 to ``below`` - 1."""
    draw = Random(f"{name} {day}").random
    return [int(draw() * below) for _ in range(count)]
