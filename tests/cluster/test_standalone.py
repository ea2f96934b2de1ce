"""The sample project on a Spark standalone cluster and an Iceberg REST catalog, by its profile alone."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import yaml
from pyiceberg.catalog import load_catalog

from sample_project.loader import FIRST_DAY
from sample_project.loader.landing import append
from tests.cluster.standalone import Cluster, standalone
from tests.rest_catalog import serve

ROOT = Path(__file__).parents[2]
SAMPLE = ROOT / "sample_project"


class Project:
    """The sample project with a profile of this test's; every command is a process of its own."""

    def __init__(self, folder: Path, cluster: Cluster, catalog: dict[str, str]) -> None:
        self.folder, self.cluster = folder, cluster
        self.landing = load_catalog("lake", **catalog)
        settings = {
            "spark.driver.bindAddress": "127.0.0.1",
            "spark.driver.host": "127.0.0.1",
            "spark.executor.memory": "768m",
            "spark.sql.shuffle.partitions": 2,
        }
        target = {
            "type": "arctic",
            "schema": "dwd",
            "master": cluster.url,
            "catalog_config": catalog,
            "threads": 2,
            "server_side_parameters": settings,
        }
        profile = {"nyc_flights": {"target": "cluster", "outputs": {"cluster": target}}}
        (folder / "profiles.yml").write_text(yaml.safe_dump(profile))

    def land(self, day: int) -> None:
        append(self.landing, FIRST_DAY + timedelta(days=day))

    def begin(self, *command: str) -> subprocess.Popen[str]:
        where = ["--project-dir", str(SAMPLE), "--profiles-dir", str(self.folder)]
        environment = {**os.environ, "DBT_TARGET_PATH": str(self.folder / "target"), "SPARK_LOCAL_IP": "127.0.0.1"}
        environment |= {"DBT_LOG_PATH": str(self.folder / "logs"), "PYTHONPATH": str(ROOT)}
        return subprocess.Popen(
            [sys.executable, "-m", *command, *where],
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def do(self, *command: str) -> str:
        process = self.begin(*command)
        said = process.communicate()[0]
        assert process.returncode == 0, said
        return said

    def modes(self) -> set[str]:
        results: Any = json.loads((self.folder / "target" / "run_results.json").read_text())["results"]
        return {str(result["adapter_response"].get("mode")) for result in results}


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Project]:
    folder = tmp_path_factory.mktemp("cluster")
    with serve(folder / "warehouse") as server, standalone(folder, workers=2) as cluster:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        uri = f"http://127.0.0.1:{server.server_address[1]}"
        yield Project(folder, cluster, {"type": "rest", "uri": uri, "warehouse": f"file://{folder}/warehouse"})
        server.shutdown()


@pytest.mark.slow
def test_the_sample_runs_on_a_cluster_and_is_exact_after_executors_were_lost(project: Project) -> None:
    project.land(0)
    project.do("dbt.cli.main", "build", "--resource-type", "seed", "--resource-type", "model")
    assert "create" in project.modes()
    project.land(1)
    disturbed = project.begin("dbt.cli.main", "run")
    killed = project.cluster.kill_executors(3, during=disturbed)
    said = disturbed.communicate()[0]
    assert killed == 3, said
    project.do("dbt.cli.main", "run")
    project.do("dbt.adapters.arctic.command_line", "verify")
    project.do("dbt.cli.main", "run")
    assert project.modes() == {"unchanged"}
