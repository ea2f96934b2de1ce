"""Leadership of a service: its end reaches what was begun before and after it."""

from __future__ import annotations

import threading

from arctic_runtime.service.parts import Leadership


def test_the_end_calls_what_was_registered_and_not_what_was_taken_back() -> None:
    leadership, called, removed = Leadership(), threading.Event(), threading.Event()
    leadership.call_at_end(called.set)
    remove = leadership.call_at_end(removed.set)
    remove()
    leadership.end_leadership()
    assert called.wait(10)
    assert leadership.ended.is_set()
    assert not removed.is_set()


def test_an_action_that_is_registered_after_the_end_is_called_at_once() -> None:
    leadership, called = Leadership(), threading.Event()
    leadership.end_leadership()
    leadership.call_at_end(called.set)
    assert called.is_set()
