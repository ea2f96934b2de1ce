"""Selects models of a manifest by the texts that `--select` and `--exclude` take: a part of dbt's syntax."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from fnmatch import fnmatchcase

from arctic_runtime.errors import ConfigError
from arctic_runtime.manifest.manifest_file import Manifest, Node, list_parents
from arctic_runtime.manifest.project_graph import invert_edges, walk_edges

_CRITERION = re.compile(r"(?P<above>\+?)(?:(?P<method>\w+):)?(?P<value>[^+:@]+?)(?P<below>\+?)")


def select_models(manifest: Manifest, select: Sequence[str], exclude: Sequence[str]) -> list[str]:
    """Returns the ids of the managed models that dbt's options would select, sorted; all of them without `select`.

    Raises ConfigError for a text that is no known criterion, and for one that selects nothing.
    """
    managed = set(manifest.list_managed())
    chosen = _select_union(manifest, select) & managed if select else managed
    return sorted(chosen - _select_union(manifest, exclude))


def _select_union(manifest: Manifest, texts: Sequence[str]) -> set[str]:
    """Returns the ids that any of the texts selects; criteria of a text that are joined by a comma all have to."""
    union: set[str] = set()
    for text in (part for written in texts for part in written.split()):
        selected = set.intersection(*(_select_criterion(manifest, part) for part in text.split(",")))
        if not selected:
            raise ConfigError(
                f"{text!r} selects no node.", where=str(manifest.file), fix="correct --select, or leave it out"
            )
        union |= selected
    return union


def _select_criterion(manifest: Manifest, text: str) -> set[str]:
    parsed = _CRITERION.fullmatch(text)
    matches = None if parsed is None else _METHODS.get(parsed["method"] or "name")
    if parsed is None or matches is None:
        raise ConfigError(
            f"{text!r} can't be selected from a manifest.",
            expected=f"name, +name or name+, a path of folders, or {', '.join(f'{name}:…' for name in _METHODS)}",
            fix="name the models",
        )
    selected = {name for name, node in manifest.nodes.items() if matches(node, parsed["value"])}
    parents = {name: list_parents(node) for name, node in manifest.nodes.items()}
    above = walk_edges(selected, parents) if parsed["above"] else set[str]()
    below = walk_edges(selected, invert_edges(parents)) if parsed["below"] else set[str]()
    return selected | above | below


def _matches_name(node: Node, value: str) -> bool:
    """Whether a node has this name, or is in this folder: `marts`, or `shop.marts.finance` with its project."""
    path = [str(part) for part in node.get("fqn") or ()]
    wanted = value.split(".")
    in_folder = wanted in (path[: len(wanted)], path[1 : len(wanted) + 1])
    return fnmatchcase(str(node.get("name")), value) or in_folder


def _matches_tag(node: Node, value: str) -> bool:
    return any(fnmatchcase(str(tag), value) for tag in node.get("tags") or ())


def _matches_path(node: Node, value: str) -> bool:
    path, wanted = str(node.get("original_file_path")).replace("\\", "/"), value.rstrip("/")
    return fnmatchcase(path, wanted) or path.startswith(f"{wanted}/")


_METHODS: Mapping[str, Callable[[Node, str], bool]] = {
    "name": _matches_name,
    "tag": _matches_tag,
    "path": _matches_path,
    "resource_type": lambda node, value: node["resource_type"] == value,
}
