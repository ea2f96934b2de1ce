"""Models of a manifest by the texts of `--select` and `--exclude`."""

from __future__ import annotations

from pathlib import Path

import pytest

from arctic_runtime.errors import ConfigError
from arctic_runtime.manifest.manifest_file import Manifest
from arctic_runtime.manifest.selection import select_models

KEYED = {"meta": {"arctic": {"primary_key": "id"}}, "materialized": "table"}


def node(name: str, folder: str, *parents: str, keyed: bool = True, tags: tuple[str, ...] = ()) -> dict[str, object]:
    return {
        "resource_type": "model",
        "name": name,
        "fqn": ["shop", folder, name],
        "original_file_path": f"models/{folder}/{name}.sql",
        "tags": list(tags),
        "config": KEYED if keyed else {"materialized": "view"},
        "depends_on": {"nodes": list(parents)},
    }


MANIFEST = Manifest(
    Path("manifest.json"),
    "shop",
    {
        "ods": node("ods", "staging", tags=("daily",)),
        "view": node("view", "staging", "ods", keyed=False),
        "dwd": node("dwd", "marts", "view", tags=("daily", "core")),
        "dws": node("dws", "marts", "dwd"),
    },
)


@pytest.mark.parametrize(
    ("select", "exclude", "expected"),
    [
        ([], [], ["dwd", "dws", "ods"]),
        (["dwd"], [], ["dwd"]),
        (["+dwd"], [], ["dwd", "ods"]),
        (["ods+"], ["dws"], ["dwd", "ods"]),
        (["view"], [], []),
        (["d*"], [], ["dwd", "dws"]),
        (["marts"], [], ["dwd", "dws"]),
        (["shop.staging"], [], ["ods"]),
        (["path:models/marts"], [], ["dwd", "dws"]),
        (["tag:daily,path:models/marts"], [], ["dwd"]),
        (["ods dws"], [], ["dws", "ods"]),
        ([], ["tag:daily"], ["dws"]),
    ],
)
def test_models_with_keys_are_selected_as_dbt_does(select: list[str], exclude: list[str], expected: list[str]) -> None:
    assert select_models(MANIFEST, select, exclude) == expected


@pytest.mark.parametrize("text", ["state:modified", "@dwd", "1+dwd", "dwdd", "tag:none"])
def test_a_text_that_selects_nothing_or_is_not_known_is_an_error(text: str) -> None:
    with pytest.raises(ConfigError, match="select"):
        select_models(MANIFEST, [text], [])
