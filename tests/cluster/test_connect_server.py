"""A Spark Connect server that is started again between commands, and under commands that run."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from tests.adapter.served import Served
from tests.cluster.connect_server import ConnectServer
from tests.cluster.shop import ARCTIC, DBT, Shop, open_shop
from tests.cluster.standalone import wait_for


class Lab:
    """A project, and the server that its commands use."""

    def __init__(self, shop: Shop, server: ConnectServer) -> None:
        self.shop, self.server = shop, server

    def wait_for_write(self, model: str, before: set[Any]) -> None:
        wait_for(lambda: bool(self.shop.files_of(model) - before), f"a file of {model}", poll=0.005)


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    folder = tmp_path_factory.mktemp("connect")
    with open_shop(folder) as shop:
        server = ConnectServer(folder)
        server.start()
        shop.use_target({}, method="connect", url=server.url)
        shop.land()
        shop.run(DBT, "build")
        yield Lab(shop, server)
        server.end()


@pytest.mark.slow
@pytest.mark.parametrize("model", ["ods_orders", "dwd_orders"])
def test_a_run_whose_server_is_restarted_says_so_and_the_next_one_is_exact(lab: Lab, model: str) -> None:
    shop = lab.shop
    shop.land()
    before = shop.files_of(model)
    disturbed = shop.begin(DBT, "run")
    lab.wait_for_write(model, before)
    lab.server.restart()
    said = disturbed.communicate()[0]
    assert disturbed.returncode == 1, said
    assert f"where: the server at 127.0.0.1:{lab.server.port}" in said
    assert "found: it was started again, or has ended this session" in said
    assert "what to do: see the log of the server for the cause; run again" in said
    lab.server.restart()
    shop.run(DBT, "run")
    assert shop.is_exact()
    assert shop.find_leftovers() == set()


@contextmanager
def served(lab: Lab) -> Iterator[Served]:
    one = Served(lab.shop.folder, lab.shop.folder)
    try:
        yield one
    finally:
        one.kill()


@pytest.mark.slow
def test_a_service_goes_on_when_its_server_has_come_back(lab: Lab) -> None:
    shop = lab.shop
    with served(lab) as service:
        for round_ in ("idle", "away", "at work"):
            before = shop.files_of("ods_orders")
            if round_ == "at work":
                shop.land()
                lab.wait_for_write("ods_orders", before)
            lab.server.end()
            if round_ != "at work":
                shop.land()
            lab.server.start()
            service.until(shop.is_exact, 300)
        service.stop()
    assert "Traceback" not in service.said()


@pytest.mark.slow
def test_an_ingestion_goes_on_when_its_server_has_come_back(lab: Lab) -> None:
    shop = lab.shop
    ingesting = shop.begin(ARCTIC, "ingest")
    try:
        for number in range(3):
            if number:
                lab.server.restart()
            shop.add_file(number)
            wait_for(lambda number=number: len(shop.things()) == 50 * number + 100, "the rows of a file", 300)
    finally:
        ingesting.send_signal(signal.SIGINT)
        said = ingesting.communicate(timeout=120)[0]
    assert ingesting.returncode == 0, said
    assert "source files: Spark is gone." in said
    assert "Traceback" not in said
    assert shop.things() == [(key, key + min(key // 50, 2)) for key in range(200)]
