"""Draws faults from a seed, each by the name and number of the effect that it strikes, so that one can be left out.

What strikes the n-th performance of an effect depends on the seed, the name and n alone. So a fault keeps its place if
another one is left out, as far as the run still gets there.
"""

from __future__ import annotations

import zlib
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal

Kind = Literal[
    "crash before",
    "crash after",
    "answer lost",
    "refused",
    "locked",
    "pause",
    "slow",
    "catalog away",
    "disk full",
    "clock jump",
    "events again",
]

WEATHER: tuple[dict[Kind, float], ...] = (
    {},
    {"crash before": 0.02, "crash after": 0.02},
    {"answer lost": 0.05, "refused": 0.03, "locked": 0.05},
    {"pause": 0.02, "slow": 0.1},
    {
        "crash before": 0.01,
        "crash after": 0.01,
        "answer lost": 0.02,
        "refused": 0.02,
        "locked": 0.02,
        "pause": 0.01,
        "slow": 0.05,
    },
    {"crash after": 0.05, "answer lost": 0.05},
)
"""Shares of the performances of effects that a fault strikes; a seed has one of these."""


def draw_number(*parts: object) -> float:
    """A number from 0 to 1 that depends on the parts alone."""
    state = zlib.crc32("/".join(map(str, parts)).encode())
    # Neighbours differ in few bits of a checksum; a multiplication spreads them.
    state = (state ^ (state >> 16)) * 0x45D9F3B & 0xFFFFFFFF
    state = (state ^ (state >> 16)) * 0x45D9F3B & 0xFFFFFFFF
    return ((state ^ (state >> 16)) & 0xFFFFFFFF) / 2**32


@dataclass
class Faults:
    """The faults of one run; `skip` are the ids of those that are left out. None strikes after `close`."""

    seed: int
    skip: frozenset[str]
    note: Callable[[str, str], None]
    injected: dict[str, Kind] = field(default_factory=dict)
    is_closed: bool = False
    _counts: Counter[str] = field(default_factory=Counter)

    def __post_init__(self) -> None:
        self.weather = WEATHER[int(draw_number(self.seed, "weather") * len(WEATHER))]

    def count(self, name: str) -> int:
        """Number of this performance of an effect, from 1."""
        self._counts[name] += 1
        return self._counts[name]

    def draw(self, name: str, number: int) -> Kind | None:
        """Returns the fault that strikes this performance of an effect; None for most."""
        if self.is_closed:
            return None
        left = draw_number(self.seed, name, number)
        for kind, share in self.weather.items():
            if left < share:
                return kind if self.inject(f"{name}#{number}", kind) else None
            left -= share
        return None

    def inject(self, place: str, kind: Kind) -> bool:
        """Notes that a fault strikes at a place; returns False if it is left out."""
        if self.is_closed or place in self.skip:
            return False
        self.injected[place] = kind
        self.note(kind, place)
        return True

    def delay(self, *parts: object) -> float:
        """Seconds that something takes: mostly short, at times long."""
        drawn = draw_number(self.seed, "delay", *parts)
        return drawn if drawn < 0.9 else (drawn - 0.9) * 300

    def close(self) -> None:
        self.is_closed = True
