"""The project `shop`, which is compiled for dbt-arctic here, and whose manifests of other adapters are stored."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).parents[1]
MANIFESTS = ROOT / "tests" / "data" / "manifests"
MODELS = ("dwd_orders", "dws_customers", "ods_events")
"""The models with keys of dbt-arctic."""

WITHOUT_DBT = """
import sys

class Refuse:
    def find_spec(self, name, path=None, target=None):
        own = ("dbt", "dbt.adapters")
        is_dbt = name.split(".")[0] in ("dbt", "dbt_common") and name not in own
        if is_dbt and not name.startswith("dbt.adapters.arctic"):
            raise ModuleNotFoundError(f"no {name} here")

sys.meta_path.insert(0, Refuse())
from dbt.adapters.arctic.command_line import main
sys.exit(main(sys.argv[1:]))
"""
"""Program that runs the command where nothing of dbt can be imported."""


def write_project(folder: Path, target: dict[str, Any], sources: str) -> None:
    """Writes the project with the package for dbt-arctic; its sources are in the schema `sources`."""
    shutil.copytree(MANIFESTS / "shop", folder, dirs_exist_ok=True)
    (folder / "packages.yml").write_text(yaml.safe_dump({"packages": [{"local": str(ROOT / "dbt_package")}]}))
    shutil.copytree(ROOT / "dbt_package", folder / "dbt_packages" / "arctic")
    outputs = {"shop": {"target": "dev", "outputs": {"dev": {"type": "arctic", **target}}}}
    (folder / "profiles.yml").write_text(yaml.safe_dump(outputs))
    file = folder / "models" / "sources.yml"
    file.write_text(file.read_text().replace("schema: ods", f"schema: {sources}"))


def write_manifest(folder: Path, adapter: str) -> Path:
    """Writes the manifest of an adapter to the folder `target` of a project."""
    file = folder / "target" / "manifest.json"
    file.parent.mkdir(exist_ok=True)
    shutil.copyfile(MANIFESTS / f"{adapter}.json", file)
    return file
