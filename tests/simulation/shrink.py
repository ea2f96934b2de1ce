"""Makes a failing seed smaller: leaves out faults and transactions while it still fails."""

from __future__ import annotations

from collections.abc import Callable

from tests.simulation.run import Result

Try = Callable[[frozenset[str]], Result]


def shrink(fails: Try, first: Result, most_runs: int = 80) -> Result:
    """Returns the failing run with the fewest faults and transactions that halving finds in so many runs."""
    best, skip, runs = first, frozenset[str](), 0
    parts = _list_parts(best)
    size = max(1, len(parts) // 2)
    while runs < most_runs:
        at, has_shrunk = 0, False
        while at < len(parts) and runs < most_runs:
            candidate = skip | frozenset(parts[at : at + size])
            result = fails(candidate)
            runs += 1
            if result.problems:
                best, skip, has_shrunk = result, candidate, True
                parts = [part for part in _list_parts(best) if part not in skip]
            else:
                at += size
        if size == 1 and not has_shrunk:
            break
        size = max(1, size // 2)
    return best


def _list_parts(result: Result) -> list[str]:
    """The faults that struck, and the transactions but for the first, which makes all tables."""
    return [*result.injected, *(f"transaction {number}" for number in result.transactions if number > 1)]
