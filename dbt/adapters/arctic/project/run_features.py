"""Determines the features of a dbt run that a model needs, and whether its query may differ at each compilation."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

_CHANGING = re.compile(
    r"\b(run_query|statement|load_result|is_incremental|run_started_at|invocation_id|modules)\b"
    r"|\badapter\s*\.\s*(?!dispatch\b|quote\b|changes_of\b|quarantine_of\b)"
)
"""Pattern of Jinja whose result depends on the warehouse, the invocation or the clock."""

_OWN_MACROS = ("macro.dbt_arctic.changes", "macro.dbt_arctic.quarantine")
"""Macros that call the adapter, but return the same text at each compilation."""


def needs_dbt(node: Any) -> bool:
    """Whether a refresh of a model needs dbt for more than its rows: hooks, Python or a set `full_refresh`."""
    config = node.config
    return bool(node.language == "python" or config.pre_hook or config.post_hook or config.get("full_refresh"))


def is_persisting_docs(node: Any) -> bool:
    """Whether the model's descriptions are stored in the catalog (`persist_docs`)."""
    wanted = node.config.get("persist_docs") or {}
    return bool(wanted.get("relation") or wanted.get("columns"))


def is_volatile(node: Any, manifest: Any) -> bool:
    """Whether a model's compiled query may depend on more than the project's files, such as tables or the clock."""
    return any(_CHANGING.search(text) for text in _list_jinja_texts(node, manifest, set()))


def _list_jinja_texts(node: Any, manifest: Any, seen: set[str]) -> Iterator[str]:
    """Yields the Jinja texts of a node, of the macros that it calls, and of ephemeral models compiled into it.

    Macros whose ids are in `seen` are left out; the ids of yielded macros are added to `seen`.
    """
    yield node.raw_code
    yield from _list_macros(node, manifest, seen)
    for unique_id in node.depends_on_nodes:
        parent = manifest.nodes.get(unique_id)
        if parent is not None and parent.is_ephemeral_model:
            yield from _list_jinja_texts(parent, manifest, seen)


def _list_macros(owner: Any, manifest: Any, seen: set[str]) -> Iterator[str]:
    for unique_id in owner.depends_on.macros:
        macro = manifest.macros.get(unique_id)
        if macro is not None and unique_id not in seen and unique_id not in _OWN_MACROS:
            seen.add(unique_id)
            yield macro.macro_sql
            yield from _list_macros(macro, manifest, seen)
