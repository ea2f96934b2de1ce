"""A warning is for people when it is new, or comes back after all was well."""

from __future__ import annotations

from arctic_runtime.service.shared_state import Repeats


def test_a_message_is_new_once_until_another_one_or_a_recovery() -> None:
    repeats = Repeats()
    assert repeats.is_new("orders", "locked")
    assert not repeats.is_new("orders", "locked")
    assert repeats.is_new("customers", "locked")
    assert repeats.is_new("orders", "gone")
    assert repeats.is_new("orders", "locked")
    repeats.clear_subject("orders")
    assert repeats.is_new("orders", "locked")
