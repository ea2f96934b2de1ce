"""Commands on a manifest load nothing of dbt."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from tests.manifest_project import WITHOUT_DBT, write_manifest


def run_without_dbt(folder: Path, *line: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    process = [sys.executable, "-c", WITHOUT_DBT, *line]
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
