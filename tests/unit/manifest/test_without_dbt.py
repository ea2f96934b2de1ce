"""Commands on a manifest load nothing of dbt."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from tests.manifest_project import write_manifest

BLOCK_DBT = """
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


def run_without_dbt(folder: Path, *line: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    process = [sys.executable, "-c", BLOCK_DBT, *line]
    return subprocess.run(process, cwd=folder, env=environment, capture_output=True, text=True, check=False)


def test_commands_on_a_manifest_work_where_dbt_can_not_be_imported(tmp_path: Path) -> None:
    write_manifest(tmp_path, "duckdb")
    (tmp_path / "profile.yml").write_text("warehouse: ./warehouse\n")
    (tmp_path / "warehouse").mkdir()
    status = run_without_dbt(tmp_path, "status", "--manifest", "target/manifest.json")
    assert status.returncode == 0, status.stderr
    assert "lake.dwd.dwd_orders" in status.stdout
    run = run_without_dbt(tmp_path, "run", "--manifest", "target/manifest.json", "--select", "dwd_orderz")
    assert run.returncode == 2
    assert "'dwd_orderz' selects no node" in run.stderr
    both = run_without_dbt(tmp_path, "status", "--manifest", "target/manifest.json", "--target", "prod")
    assert (both.returncode, "--target means nothing" in both.stderr) == (2, True)
