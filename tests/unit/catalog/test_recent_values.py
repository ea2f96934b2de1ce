"""Values that were used last are kept, others are made again."""

from __future__ import annotations

from arctic_runtime.catalog.recent_values import RecentValues


def test_the_value_that_was_used_longest_ago_goes_first() -> None:
    made: list[str] = []
    values: RecentValues[str | None] = RecentValues(2)

    def get(key: str) -> str | None:
        return values.get(key, lambda: made.append(key))

    for key in ("a", "b", "a", "c", "a", "b"):
        get(key)
    assert made == ["a", "b", "c", "b"], "None is a value as any other"
    values.put("a", "given")
    assert get("a") == "given"
