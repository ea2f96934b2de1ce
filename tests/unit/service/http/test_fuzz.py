"""Whatever is sent: the server answers as its description says, and never with an error of its own."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis.errors import Unsatisfiable
from requests import Session

from tests.unit.service.http.client import Client

schemathesis = pytest.importorskip("schemathesis", reason="it needs Python 3.11")
CHECKS = pytest.importorskip("schemathesis.checks").CHECKS

TOKEN = "a-token-that-nobody-guesses"
# Each request carries the token, so one that is broken only by the lack of it would be sound once it is sent.
CONFIG = schemathesis.Config.from_dict({"generation": {"with-security-parameters": False}})
ENDLESS = "/api/events"
TELLING = (
    "/api/tables/{table}",
    "/api/tables/{table}/changes",
    "/api/pause",
    "/api/operations/status",
    "/api/operations/savepoint",
)
"""A route of each kind."""

Serve = Callable[..., Client]


def fuzz(client: Client, examples: int, paths: tuple[str, ...] = ()) -> int:
    """Sends so many requests to each route, and as many broken ones; how many routes were asked."""
    schema = schemathesis.openapi.from_dict(client.get("/api/openapi.json").json, config=CONFIG)
    chosen = schema.include(path=list(paths)) if paths else schema.exclude(path=ENDLESS)
    operations = [operation.ok() for operation in chosen.get_all_operations()]
    headers = {"Authorization": f"Bearer {TOKEN}"}
    with Session() as session:

        def send(case: schemathesis.Case) -> None:
            # A name that fits the description may still be that of no table.
            refusals = [CHECKS.get_one("positive_data_acceptance")]
            if case.path == "/ready":
                # Its status 503 is an answer.
                refusals.append(CHECKS.get_one("not_a_server_error"))
            case.call_and_validate(base_url=client.url, session=session, headers=headers, excluded_checks=refusals)

        for operation in operations:
            for mode in schemathesis.GenerationMode:
                cases = operation.as_strategy(generation_mode=mode)
                # Nothing can be broken in a request that has no part.
                with suppress(Unsatisfiable):
                    quietly(examples)(given(cases)(send))()
    return len(operations)


def quietly(examples: int) -> settings:
    return settings(
        max_examples=examples,
        derandomize=True,
        deadline=None,
        database=None,
        suppress_health_check=list(HealthCheck),
    )


def test_a_route_of_each_kind_answers_as_it_is_described(serve: Serve) -> None:
    assert fuzz(serve(token=TOKEN), 4, TELLING) == len(TELLING)


@pytest.mark.slow
def test_every_route_answers_as_it_is_described(serve: Serve) -> None:
    assert fuzz(serve(token=TOKEN), 20) > 20
