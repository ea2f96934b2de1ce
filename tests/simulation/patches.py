"""Puts the simulated clock and threads in the place of Python's, in all modules of the runtime.

Each name of a module of `arctic_runtime` that stands for one of `REPLACED` gets the simulated object, and each default
argument that is a clock of Python gets the simulated clock. Nothing outside of `arctic_runtime` is changed.
"""

from __future__ import annotations

import concurrent.futures
import datetime
import inspect
import os
import platform
import queue
import sys
import threading
import time
import uuid
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from types import FunctionType, ModuleType, SimpleNamespace
from typing import Any
from unittest import mock

from arctic_runtime.catalog.observation import tables
from arctic_runtime.model.run_summary import RunSummary
from arctic_runtime.service import shared_state
from tests.simulation import threads

REPLACED: tuple[tuple[Any, Any], ...] = (
    (threading, threads.THREADING),
    (threading.current_thread, threads.current_thread),
    (time, threads.TIME),
    (uuid, threads.UUID),
    (datetime, threads.DATETIME),
    (datetime.datetime, threads.Datetime),
    (queue.SimpleQueue, threads.SimpleQueue),
    (concurrent.futures.ThreadPoolExecutor, threads.ThreadPoolExecutor),
    (concurrent.futures.Future, threads.Future),
    (concurrent.futures.wait, threads.wait),
)
CLOCKS: tuple[tuple[Any, Any], ...] = (
    (time.monotonic, threads.read_monotonic),
    (time.time, threads.read_wall_clock),
    (shared_state.SYSTEM_CLOCK, shared_state.Clock(threads.read_monotonic, threads.read_wall_clock)),
)


PURE: tuple[tuple[Any, str], ...] = (
    (tables, "_change_table"),
    (tables, "_build_base_state"),
    (tables, "_build_source_state"),
    (tables, "list_columns"),
    (RunSummary, "decode"),
)
"""Functions of metadata that never changes; their results are kept, which makes runs several times as fast."""


@contextmanager
def simulate_runtime() -> Iterator[None]:
    """Lets the runtime use the simulated clock and threads until the block ends."""
    with ExitStack() as stack:
        for module in [module for name, module in sorted(sys.modules.items()) if name.startswith("arctic_runtime")]:
            _replace_names(stack, module)
            for function in _list_functions(module):
                _replace_defaults(stack, function)
        for owner, name in PURE:
            stack.enter_context(mock.patch.object(owner, name, _keep_results(getattr(owner, name))))
        from arctic_runtime.catalog import lease

        stack.enter_context(mock.patch.object(lease, "platform", SimpleNamespace(node=_get_host)))
        stack.enter_context(mock.patch.object(lease, "os", SimpleNamespace(name=os.name, getpid=_get_pid, kill=_kill)))
        yield


def _keep_results(function: Any) -> Any:
    """Calls a function only once for the same objects, which are kept so that no other object gets their identity."""
    kept: dict[tuple[int | str, ...], tuple[Any, Any]] = {}

    def call(*arguments: Any) -> Any:
        key = tuple(argument if isinstance(argument, str) else id(argument) for argument in arguments)
        if key not in kept:
            if len(kept) > 20_000:
                kept.clear()
            kept[key] = (arguments, function(*arguments))
        return kept[key][1]

    return call


def _replace_names(stack: ExitStack, module: ModuleType) -> None:
    for name, value in list(vars(module).items()):
        for real, simulated in REPLACED:
            if value is real:
                stack.enter_context(mock.patch.object(module, name, simulated))


def _list_functions(module: ModuleType) -> Iterator[FunctionType]:
    for value in list(vars(module).values()):
        if getattr(value, "__module__", None) != module.__name__:
            continue
        if inspect.isfunction(value):
            yield value
        elif inspect.isclass(value):
            yield from (member for member in vars(value).values() if inspect.isfunction(member))


def _replace_defaults(stack: ExitStack, function: FunctionType) -> None:
    defaults = function.__defaults__
    if not defaults or not any(default is real for default in defaults for real, _ in CLOCKS):
        return
    changed = tuple(next((new for real, new in CLOCKS if default is real), default) for default in defaults)
    stack.callback(setattr, function, "__defaults__", defaults)
    function.__defaults__ = changed


def _get_host() -> str:
    process = threads.get_process()
    return process.host if process else platform.node()


def _get_pid() -> int:
    process = threads.get_process()
    return process.pid if process else os.getpid()


def _kill(pid: int, signal: int) -> None:
    assert signal == 0
    if not threads.Current.alive(_get_host(), pid):
        raise ProcessLookupError(pid)
