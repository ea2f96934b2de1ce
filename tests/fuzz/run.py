"""Runs a target by Hypothesis: some examples of a fixed seed, or for a time, guided by coverage or by chance."""

from __future__ import annotations

import os
import random
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

from hypothesis import HealthCheck, Phase, given, seed, settings

from tests.fuzz.target import Report, Target

BATCH = 200
"""Examples of one seed in a run by chance."""

INPUT_BYTES = 2048
"""Bytes of an input that a guided run makes at most."""

SHOWN = 2000
"""Characters of a fault's input that are reported."""


def run_examples(target: Target, count: int, number: int = 0) -> Report:
    """Runs `count` examples of the seed `number`, without shrinking."""
    report = Report(target.name)
    started = time.process_time()
    _build_test(target, report, count, number)()
    report.processor_seconds = time.process_time() - started
    return report


def run_by_chance(target: Target, processor_seconds: float) -> Report:
    """Runs seed after seed until the processor time is over."""
    report = Report(target.name)
    started, number = time.process_time(), 0
    while time.process_time() - started < processor_seconds:
        _build_test(target, report, BATCH, number)()
        number += 1
    report.processor_seconds = time.process_time() - started
    return report


def run_guided(target: Target, processor_seconds: float, finish: Callable[[Report], None]) -> None:
    """Runs inputs that atheris chooses by coverage until the processor time is over, and ends the process.

    `finish` gets the report before. Modules have to be imported under atheris's instrumentation.
    """
    import atheris

    report = Report(target.name, is_guided=True)
    started = time.process_time()
    take_bytes = _build_test(target, report, 1, 0).hypothesis.fuzz_one_input

    def run_input(data: bytes) -> None:
        take_bytes(data)
        report.processor_seconds = time.process_time() - started
        if report.processor_seconds >= processor_seconds:
            finish(report)
            os._exit(0)

    options = [f"-max_len={INPUT_BYTES}", "-len_control=0", "-rss_limit_mb=0", "-timeout=600", "-verbosity=0"]
    atheris.Setup(["fuzz", *options, f"-seed={random.randrange(2**31)}"], run_input)
    atheris.Fuzz()


def _build_test(target: Target, report: Report, count: int, number: int) -> Any:
    """Builds a test that counts outcomes, and keeps each kind of fault once, by its place, instead of failing."""

    @seed(number)
    @settings(
        max_examples=count,
        deadline=None,
        database=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(target.inputs)
    def run_one(value: Any) -> None:
        try:
            report.count(target.check(value))
        except Exception as error:
            report.count("fault")
            report.faults.setdefault(_locate(error), f"{error!r}\ninput: {value!r}"[:SHOWN])

    return run_one


def _locate(error: Exception) -> str:
    """Names a kind of fault: the error's type, and the innermost places in our own code."""
    frames = traceback.extract_tb(error.__traceback__)
    own = [frame for frame in frames if "site-packages" not in frame.filename]
    places = " < ".join(f"{Path(frame.filename).name}:{frame.lineno}" for frame in reversed(own[-3:]))
    return f"{type(error).__name__} at {places}"
