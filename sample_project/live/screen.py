"""What a second of the live sample looks like on a terminal."""

from __future__ import annotations

from collections.abc import Sequence

from sample_project.live.pipeline import Refreshes

_WIDTHS = (6, -10, 9, 9, 7, 8, 0)
"""Of the columns; negative for those that begin at the left, 0 for the rest of the line."""

_HEAD = ("time", "phase", "played", "in ODS", "rows/s", "DWS age", "  refreshed")


def head() -> str:
    """The names of the columns."""
    return _line(_HEAD)


def second(
    elapsed: float, phase: str, played: int, ingested: int, rate: float, age: float | None, ended: Sequence[Refreshes]
) -> str:
    """A line about now; `age` is that of the newest change that DWS shows, `ended` are refreshes that ended."""
    shown = "-" if age is None else f"{age:.1f} s"
    statements = "".join(f"  {statement} in {statement.seconds:.1f} s" for statement in ended)
    return _line((f"{elapsed:.0f} s", phase, f"{played:,}", f"{ingested:,}", f"{rate:,.0f}", shown, statements))


def _line(cells: Sequence[str]) -> str:
    padded = [
        cell.ljust(-width) if width < 0 else cell.rjust(width) for cell, width in zip(cells, _WIDTHS, strict=True)
    ]
    return "  ".join(padded).rstrip()
