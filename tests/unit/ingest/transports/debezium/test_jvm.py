"""Messages of Debezium come by Python's logging, at a level by which people see those that they can act on."""

from __future__ import annotations

import logging
from types import SimpleNamespace
from typing import Any

import pytest

from arctic_runtime.ingest.transports.debezium import jvm


def build_event(logger: str, message: str, is_error: bool) -> Any:
    return SimpleNamespace(
        getLevel=lambda: SimpleNamespace(isMoreSpecificThan=lambda _: is_error),
        getLoggerName=lambda: logger,
        getMessage=lambda: SimpleNamespace(getFormattedMessage=lambda: message),
    )


@pytest.mark.parametrize(
    ("logger", "message", "is_error", "level"),
    [
        ("io.debezium.schema.AbstractTopicNamingStrategy", "Topic 'ü' name isn't valid", False, logging.INFO),
        ("io.debezium.Reader", "can't go on", True, logging.WARNING),
        ("io.debezium.embedded.async.AsyncEmbeddedEngine", "can't go on", True, logging.DEBUG),
        ("io.debezium.Slot", "slot.drop.on.stop = true", False, logging.DEBUG),
    ],
)
def test_a_message_of_debezium_is_a_warning_if_it_is_an_error_that_nobody_raises(
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    logger: str,
    message: str,
    is_error: bool,
    level: int,
) -> None:
    monkeypatch.setattr(jvm, "load_java_class", lambda _: SimpleNamespace(ERROR="ERROR"))
    caplog.set_level(logging.DEBUG)
    jvm.log_java_event(build_event(logger, message, is_error))
    (record,) = caplog.records
    assert (record.name, record.levelno) == ("arctic_runtime.debezium", level)
    assert record.getMessage() == f"Debezium ({logger.rpartition('.')[2]}): {message}"
