"""Servers of open source that stand for services of a cloud, which no other suite needs."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

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
