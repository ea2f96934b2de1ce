"""Servers of open source that stand for services of a cloud, which no other suite needs."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from arctic_runtime.profile import JARS_SETTING
from tests import java
from tests.open.moto_server import MotoServer, run_moto


@pytest.fixture(scope="session")
def moto() -> Iterator[MotoServer]:
    """A server of S3, Glue and other services of AWS, on the loopback."""
    with run_moto() as server:
        yield server


@pytest.fixture
def bucket(moto: MotoServer) -> str:
    """An empty bucket of its own for each test."""
    return moto.create_bucket()


@pytest.fixture(scope="session")
def spark_settings() -> dict[str, str]:
    """Settings of the Spark that all tests of this folder share, with the JARs of all their stores and catalogs."""
    return {
        **java.INTERPRETED,
        JARS_SETTING: "kafka,aws",
        "spark.driver.extraJavaOptions": java.QUICK,
        "spark.driver.memory": "2g",
        "spark.master": "local[2]",
        "spark.sql.shuffle.partitions": "2",
    }


@pytest.fixture(autouse=True)
def _without_accounts(monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory) -> None:
    """No test depends on accounts of AWS that the machine has."""
    nowhere = tmp_path_factory.getbasetemp() / "no-account"
    for name in ("AWS_CONFIG_FILE", "AWS_SHARED_CREDENTIALS_FILE"):
        monkeypatch.setenv(name, str(Path(nowhere)))
    for name in ("AWS_PROFILE", "AWS_REGION", "AWS_DEFAULT_REGION", "AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_S3"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
