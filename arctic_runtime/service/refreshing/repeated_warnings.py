"""Warnings that come again at each look, of which only the first is for people."""

from __future__ import annotations

from collections.abc import Hashable


class Repeats:
    """The last message about each subject, for one thread."""

    def __init__(self) -> None:
        self._messages: dict[Hashable, str] = {}

    def is_new(self, subject: Hashable, message: str) -> bool:
        """Notes a message; returns whether the last one about the subject was another, or none since `clear`."""
        is_new = self._messages.get(subject) != message
        self._messages[subject] = message
        return is_new

    def clear_subject(self, subject: Hashable) -> None:
        """Notes that the subject is well again."""
        self._messages.pop(subject, None)
