"""Reads which columns of a node are masked in reports, from `meta: {mask: true}`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from arctic_runtime.model.masking import ALL_COLUMNS


def read_masks(node: Any) -> dict[str, bool]:
    """Returns whether columns of a node are masked: by lower-case name, and for all columns by `*`.

    The node is an object of dbt's manifest, or the mapping that it is in a file. Only columns that say so have an
    entry. `meta` may be at the node or a column itself, or in its `config`; of several values `true` wins.
    """
    masks = dict(_read_mask(ALL_COLUMNS, node))
    for name, column in (_get_part(node, "columns") or {}).items():
        masks |= _read_mask(str(name).lower(), column)
    return masks


def _read_mask(name: str, part: Any) -> Iterator[tuple[str, bool]]:
    metas = (_get_part(part, "meta"), _get_part(_get_part(part, "config"), "meta"))
    values = [meta["mask"] for meta in metas if isinstance(meta, Mapping) and "mask" in meta]
    if values:
        # A value that is not a boolean, such as a text, rather hides too much.
        yield name, any(value is not False for value in values)


def _get_part(whole: Any, name: str) -> Any:
    return whole.get(name) if isinstance(whole, Mapping) else getattr(whole, name, None)
