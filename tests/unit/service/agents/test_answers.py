"""Answers to agents: their limits, what they say of what is left out, and errors without secrets."""

from __future__ import annotations

import json
import logging
from typing import Any

import pytest
from jsonschema import validate

from arctic_runtime.errors import ConfigError
from arctic_runtime.operations.operation import Answer
from arctic_runtime.service.agents.answers import ANSWER_SCHEMA, NOTICE, build_answer, build_error, count_bytes
from arctic_runtime.service.agents.settings import AgentSettings
from tests.unit.service.agents.hostile import INSTRUCTION


def test_an_answer_within_its_limits_is_whole_and_says_that_it_is_data() -> None:
    answer = build_answer(Answer({"rows": [1, 2], "text": INSTRUCTION}, ("two",), True), AgentSettings())
    assert answer == {
        "notice": NOTICE,
        "data": {"rows": [1, 2], "text": INSTRUCTION},
        "lines": ["two"],
        "differs": True,
    }
    validate(answer, dict(ANSWER_SCHEMA))


def test_a_long_list_is_cut_and_the_answer_says_where_and_how_many_there_are() -> None:
    answer = build_answer(Answer({"rows": list(range(1234))}, ()), AgentSettings(rows=5))
    assert answer["data"]["rows"] == [0, 1, 2, 3, 4]
    assert answer["truncated"] == ["data.rows: 5 of 1,234 items"]
    validate(answer, dict(ANSWER_SCHEMA))


@pytest.mark.parametrize(
    "data",
    [
        [{"id": n, "note": "ü" * 500} for n in range(200)],
        "x" * 10_000_000,
        {f"k{n}": {f"j{m}": "y" * 90 for m in range(50)} for n in range(200)},
        [[["z" * 100] * 200] * 200] * 3,
    ],
)
def test_an_answer_has_at_most_its_bytes_and_says_that_it_is_cut(data: Any) -> None:
    settings = AgentSettings(bytes=8_000)
    answer = build_answer(Answer(data, ()), settings)
    assert count_bytes(answer) <= settings.bytes
    assert answer["data"]
    assert answer["truncated"]
    assert len(answer["truncated"]) <= 21


def test_values_that_json_lacks_are_texts() -> None:
    data = build_answer(Answer({"ratio": float("nan"), "name": ConfigError}, ()), AgentSettings())["data"]
    json.dumps(data, allow_nan=False)


def test_secrets_of_the_environment_are_hidden_in_answers_and_errors(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DBT_ENV_SECRET_STORE", "open sesame")
    answer = build_answer(Answer({"sql": ["select 'open sesame'"]}, ("open sesame",)), AgentSettings())
    error = build_error(ConfigError("no: open sesame.", where="open sesame", fix="use s3://a:hunter22@host"))
    for shown in (json.dumps(answer), json.dumps(error)):
        assert "sesame" not in shown
        assert "hunter22" not in shown


def test_an_error_has_its_parts_and_an_unexpected_one_only_a_number(caplog: pytest.LogCaptureFixture) -> None:
    error = build_error(ConfigError("no.", where="here", expected="a", actual="b", fix="do it"))["error"]
    assert error == {
        "message": "no.\n  where: here\n  expected: a\n  found: b\n  what to do: do it",
        "where": "here",
        "expected": "a",
        "actual": "b",
        "fix": "do it",
    }
    with caplog.at_level(logging.ERROR):
        unexpected = build_error(RuntimeError("token=abcdefgh"))["error"]["message"]
    assert "abcdefgh" not in unexpected
    assert "An unexpected error" in unexpected
    number = unexpected.split("look for ")[1].split()[0]
    assert number in caplog.text
