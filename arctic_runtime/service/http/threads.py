"""Calls that may take a while, in threads beside the loop that serves."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import ParamSpec, TypeVar

from anyio import to_thread

Given = ParamSpec("Given")
Result = TypeVar("Result")


async def run_in_thread(call: Callable[Given, Result], *arguments: Given.args, **named: Given.kwargs) -> Result:
    """The result of a call; a request that is given up does not wait for its end."""
    return await to_thread.run_sync(partial(call, *arguments, **named), abandon_on_cancel=True)
