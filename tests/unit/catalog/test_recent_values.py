"""Values that were used last are kept, others are made again."""

from __future__ import annotations

from arctic_runtime.catalog.recent_values import RecentValues


def test_values_are_kept_up_to_their_sizes_together() -> None:
    made: list[str] = []
    values: RecentValues[str] = RecentValues(5, len)

    def get(key: str) -> str:
        def make() -> str:
            made.append(key)
            return key

        return values.get(key, make)

    for key in ("aa", "bb", "ccc", "bb", "longer", "bb", "ccc", "bb", "ccc"):
        assert get(key) == key
    assert made == ["aa", "bb", "ccc", "longer"], "one that is too large is not kept"
    values.put("ccc", "c")
    get("aa")
    get("bb")
    assert made == ["aa", "bb", "ccc", "longer", "aa"]


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
