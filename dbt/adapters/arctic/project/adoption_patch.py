"""Writes a patch that makes the incremental models of a dbt project arctic models."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dbt.adapters.arctic.project.incremental_models import find_incremental_keys, is_incremental

_MATERIALIZED = re.compile(r"""(\bmaterialized\s*=\s*)(['"])incremental\2""")


@dataclass(frozen=True)
class AdoptionPatch:
    """Changes by which incremental models become arctic models.

    `diff` is a unified diff of model files, which `git apply` takes. `models` are the names of its models. `configured`
    are models whose materialization is set elsewhere, such as in dbt_project.yml; `keyless` are models without a key.
    """

    diff: str
    models: tuple[str, ...]
    configured: tuple[str, ...]
    keyless: tuple[str, ...]

    def describe(self) -> list[str]:
        """Returns lines for people; empty if the project has no incremental model."""
        lines = []
        if self.models:
            lines += [
                "Apply this patch by hand or with `arctic adopt --patch | git apply`, then run `arctic adopt` again:",
                "",
            ]
        lines += self.diff.splitlines()
        if self.configured:
            lines.append(f"set `materialized: arctic` where YAML sets `incremental`: {', '.join(self.configured)}")
        if self.keyless:
            names = ", ".join(self.keyless)
            lines.append(f"no key is known, so `primary_key` has to be configured first: {names}")
        return lines


def write_adoption_patch(project_dir: Path, manifest: Any, names: Sequence[str]) -> AdoptionPatch:
    """Writes the patch for the incremental models of a project, or for those of them that are named.

    Models of packages are left out. Comments, `is_incremental()` and all other configuration stay as they are: arctic
    models take them.
    """
    nodes = _select_nodes(manifest, names)
    keys = find_incremental_keys(manifest, nodes)
    keyless = [node for node in nodes if not keys[node.unique_id]]
    parts, models, configured = [], [], []
    for node in nodes:
        path = project_dir / node.original_file_path
        old = path.read_text(encoding="utf-8")
        new = _MATERIALIZED.sub(r"\1\2arctic\2", old)
        if node in keyless:
            continue
        if new == old:
            configured.append(node.name)
            continue
        models.append(node.name)
        parts.append(_write_diff(node.original_file_path, old, new))
    return AdoptionPatch("".join(parts), tuple(models), tuple(configured), tuple(node.name for node in keyless))


def _select_nodes(manifest: Any, names: Sequence[str]) -> list[Any]:
    own = manifest.metadata.project_name
    nodes: Iterable[Any] = sorted(manifest.nodes.values(), key=lambda node: str(node.unique_id))
    return [
        node
        for node in nodes
        if is_incremental(node) and node.package_name == own and (not names or node.name in names)
    ]


def _write_diff(path: str, old: str, new: str) -> str:
    lines = difflib.unified_diff(old.splitlines(keepends=True), new.splitlines(keepends=True), f"a/{path}", f"b/{path}")
    return "".join(line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n" for line in lines)
