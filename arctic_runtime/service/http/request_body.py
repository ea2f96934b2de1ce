"""Checks that the body of a request is JSON that every reader behind it takes, before any of them sees it."""

from __future__ import annotations

import json
import re
from typing import Any

from arctic_runtime.errors import ArcticError

_STRING = re.compile(r'"(?:[^"\\]|\\.)*"?', re.DOTALL)
"""A text of JSON; one without an end goes on to the end of the body, so that it is not searched for again and again."""


def check_body(body: bytes, most_levels: int) -> None:
    """Raises ArcticError for a body that is not JSON as RFC 8259 has it, is nested too deep, or has broken Unicode.

    An empty body is left to the route, which knows if it needs one.
    """
    if not body:
        return
    try:
        text = body.decode("utf-8-sig")
        _check_levels(text, most_levels)
        value = json.loads(text, parse_constant=_refuse_constant)
        # Lone surrogates are escapes of JSON, but no text: nothing can store or print them.
        json.dumps(value, ensure_ascii=False).encode()
    except UnicodeDecodeError as error:
        raise _build_error(f"at byte {error.start} it is not UTF-8", "text in UTF-8") from error
    except UnicodeEncodeError as error:
        character = f"\\u{ord(error.object[error.start]):04x}"
        raise _build_error(f"it has half a character, {character}", "whole characters") from error
    except ValueError as error:
        raise _build_error(str(error), "JSON") from error


def _check_levels(text: str, most_levels: int) -> None:
    level = 0
    for character in _STRING.sub("", text):
        level += (character in "[{") - (character in "]}")
        if level > most_levels:
            raise _build_error(f"it has more than {most_levels} levels of arrays and objects", "what the route takes")


def _refuse_constant(name: str) -> Any:
    raise ValueError(f"{name} is no number of JSON")


def _build_error(actual: str, expected: str) -> ArcticError:
    fix = "see /api/openapi.json for what each route takes"
    return ArcticError("The body can't be read as JSON.", actual=actual, expected=expected, fix=fix)
