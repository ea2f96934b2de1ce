"""Runs calls that may block in threads, so that they do not block the event loop."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import ParamSpec, TypeVar

from anyio import to_thread

Given = ParamSpec("Given")
Result = TypeVar("Result")


async def run_in_thread(call: Callable[Given, Result], *arguments: Given.args, **named: Given.kwargs) -> Result:
    """Runs a call in a thread and returns its result; if the request is cancelled, does not wait for the call."""
    return await to_thread.run_sync(partial(call, *arguments, **named), abandon_on_cancel=True)
