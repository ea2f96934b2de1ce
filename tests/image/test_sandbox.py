"""What the image has to stand, on this Python: its root is read-only, nobody knows its user or its machine."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from arctic_runtime.spark.engine.java.jars import get_cache_directory
from tests.image.sandbox import run_command

PROFILE = """\
shop:
  target: live
  outputs:
    live:
      type: arctic
      warehouse: /warehouse
      schema: dws
      server_side_parameters: {spark.driver.memory: 1g%s}
"""
MODEL = """\
{{ config(materialized='arctic', primary_key='customer') }}
select customer, count(*) as orders from {{ ref('orders') }} group by customer
"""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    if shutil.which("bwrap") is None:
        if os.environ.get("CI"):
            pytest.fail("bubblewrap is not installed: make databases installs it")
        pytest.skip("bubblewrap is not installed")
    project = tmp_path / "project"
    for folder in ("models", "seeds"):
        (project / folder).mkdir(parents=True)
    (project / "dbt_project.yml").write_text("name: shop\nprofile: shop\n")
    (project / "profiles.yml").write_text(PROFILE % "")
    (project / "models" / "spend.sql").write_text(MODEL)
    (project / "seeds" / "orders.csv").write_text("id,customer\n1,ann\n2,ann\n3,bob\n")
    return project


@pytest.fixture
def warehouse(tmp_path: Path) -> Path:
    folder = tmp_path / "warehouse"
    folder.mkdir()
    return folder


def test_a_project_is_built_and_looked_at(project: Path, warehouse: Path) -> None:
    code, output = run_command(project, warehouse, "sh", "-c", "dbt build && arctic status && arctic lookup spend ann")
    assert code == 0, output
    assert "create +2 ~0 -0" in output
    assert "customer: ann\norders: 2\n" in output, output


def test_a_library_that_the_image_lacks_is_named_before_anything_is_done(project: Path, warehouse: Path) -> None:
    (project / "profiles.yml").write_text(PROFILE % ", spark.arctic.jars: aws")
    (project / "cache" / "jars").mkdir(parents=True)
    for file in (get_cache_directory() / "jars").iterdir():
        if "aws" not in file.name:
            (project / "cache" / "jars" / file.name).symlink_to(file)
    code, output = run_command(project, warehouse, "env", "DBT_ARCTIC_HOME=/project/cache", "dbt", "run")
    assert code == 1, output
    assert "The JARs that Spark needs could not be resolved." in output
    assert "python -m arctic_runtime.spark.jars aws" in output
    assert "Traceback" not in output
