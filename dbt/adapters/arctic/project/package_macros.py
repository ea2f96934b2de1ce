"""Macros of packages that Spark can't run, and that this adapter has in a form of its own."""

from __future__ import annotations

from collections.abc import Iterable, MutableSequence
from typing import Any, Final

COMPLETED_PACKAGES: Final = ("fivetran_utils",)
"""Packages some of whose macros are in `macros/packages.sql` of this adapter."""

_OWN_MACROS: Final = "dbt"
"""The package in which dbt finds the macros of an adapter."""


def complete_search_order(dispatch: MutableSequence[Any], project: str) -> None:
    """Lets dbt look for macros of the packages in this adapter first, then in the packages.

    `dispatch` is the configuration of `project`: what it puts before a package, such as itself, stays first.
    """
    for package in COMPLETED_PACKAGES:
        entry = next((entry for entry in dispatch if entry["macro_namespace"] == package), None)
        order = list(entry["search_order"]) if entry else [project, package]
        if _OWN_MACROS in order:
            continue
        place = order.index(package) if package in order else len(order)
        completed = {"macro_namespace": package, "search_order": [*order[:place], _OWN_MACROS, *order[place:]]}
        if entry:
            dispatch[dispatch.index(entry)] = completed
        else:
            dispatch.append(completed)


def write_json_path(parts: Iterable[str | int]) -> str:
    """A path of `get_json_object`, such as `$['charges'][0]`."""
    return "$" + "".join(f"[{part}]" if isinstance(part, int) else f"['{part}']" for part in parts)
