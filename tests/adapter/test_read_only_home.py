"""Commands under the mounts of the image: the home of the JARs can only be read, and the user's home is empty."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from arctic_runtime.spark.engine.java.jars import get_cache_directory

pytestmark = pytest.mark.slow

MOUNT = 'mount --bind "$1" "$1" && mount -o remount,ro,bind "$1" && shift && exec "$@"'


@pytest.mark.skipif(os.geteuid() != 0, reason="only the superuser may mount")
@pytest.mark.parametrize("keep_alive", [0, "15m"])
def test_a_run_needs_no_writable_home_of_the_jars(
    tmp_path: Path, spark_settings: dict[str, str], keep_alive: int | str
) -> None:
    project, home = tmp_path / "project", tmp_path / "home"
    (project / "models").mkdir(parents=True)
    home.mkdir()
    target: dict[str, Any] = {
        "type": "arctic",
        "schema": "dwd",
        "warehouse": str(tmp_path / "warehouse"),
        "keep_alive": keep_alive,
        "server_side_parameters": spark_settings,
    }
    (project / "profiles.yml").write_text(yaml.safe_dump({"shop": {"target": "dev", "outputs": {"dev": target}}}))
    (project / "dbt_project.yml").write_text(yaml.safe_dump({"name": "shop", "version": "1.0.0", "profile": "shop"}))
    config = "materialized='arctic', primary_key='id'"
    (project / "models/numbers.sql").write_text(f"{{{{ config({config}) }}}} select id from range(5)")
    environment = {
        **os.environ,
        "DBT_ARCTIC_HOME": str(get_cache_directory()),
        "DBT_PROFILES_DIR": str(project),
        "DBT_SEND_ANONYMOUS_USAGE_STATS": "false",
        "HOME": str(home),
    }
    mounted = ["unshare", "--mount", "sh", "-c", MOUNT, "sh", str(get_cache_directory()), sys.executable, "-m"]

    def run(*command: str) -> str:
        done = subprocess.run(
            [*mounted, *command], cwd=project, env=environment, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    assert "create +5 ~0 -0" in run("dbt.cli.main", "run")
    assert "5 rows" in run("dbt.adapters.arctic.command_line", "status")
    run("dbt.adapters.arctic.command_line", "spark", "stop")
    assert [*(home / ".local/state/dbt-arctic/logs").glob("spark-*.log")] != []
