"""The bill of materials lists what a release needs."""

from __future__ import annotations

import json
from importlib.metadata import version
from pathlib import Path

import pytest

from arctic_runtime.spark.engine.java.jars import JARS

sbom = pytest.importorskip("release.sbom", reason="it needs cyclonedx-python-lib, which `make install` installs")


def test_the_bill_has_packages_and_jars_with_their_hashes(tmp_path: Path) -> None:
    file = tmp_path / "dist" / "bom.json"
    assert sbom.main([str(file)]) == 0
    content = json.loads(file.read_text())
    assert (content["bomFormat"], content["specVersion"]) == ("CycloneDX", "1.6")
    assert content["metadata"]["component"]["name"] == "dbt-arctic"
    components = {part["name"]: part for part in content["components"]}
    assert components["pyiceberg"]["version"] == version("pyiceberg")
    assert components["sqlglot"]["purl"] == f"pkg:pypi/sqlglot@{version('sqlglot')}"
    assert {"fastapi", "confluent-kafka", "jpype1", "pyspark"} <= set(components)
    assert not {"pytest", "hypothesis", "ruff"} & set(components)
    assert [components[jar.artifact]["hashes"][0]["content"] for jar in JARS] == [jar.sha256 for jar in JARS]


def test_two_bills_of_one_release_are_the_same() -> None:
    assert sbom.format_bom(sbom.build_bom()) == sbom.format_bom(sbom.build_bom())
