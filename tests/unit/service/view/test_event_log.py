"""The log of events, as readers of different speed see it."""

import threading

from arctic_runtime.service.view.event_log import EventLog


def numbers(log: EventLog, after: int) -> tuple[list[int], int]:
    events, missed = log.wait_after(after)
    return [event.number for event in events], missed


def test_a_reader_gets_what_happened_since_it_last_asked() -> None:
    log = EventLog(capacity=10)
    for name in "abc":
        log.append_event("table", name)

    assert numbers(log, 0) == ([1, 2, 3], 0)
    assert numbers(log, 2) == ([3], 0)
    assert numbers(log, 3) == ([], 0)


def test_a_reader_that_is_too_slow_is_informed_what_it_missed() -> None:
    log = EventLog(capacity=2)
    for name in "abcde":
        log.append_event("table", name)

    assert numbers(log, 1) == ([4, 5], 2)


def test_the_number_of_an_earlier_service_restarts() -> None:
    log = EventLog(capacity=10)
    log.append_event("table", "a")

    assert numbers(log, 99) == ([1], 0)


def test_a_reader_that_waits_is_woken_by_the_next_event() -> None:
    log = EventLog(capacity=10)
    values: list[object] = []
    waiting = threading.Thread(target=lambda: values.extend(event.data for event in log.wait_after(0, 30)[0]))
    waiting.start()
    log.append_event("job", "compaction")
    waiting.join(60)

    assert values == ["compaction"]
