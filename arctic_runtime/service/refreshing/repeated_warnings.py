"""Suppresses warnings that recur at each check of the tables, so that people see only the first."""

from __future__ import annotations

from collections.abc import Hashable


class Repeats:
    """The last message about each subject, to recognise repeated ones; for use by one thread."""

    def __init__(self) -> None:
        self._messages: dict[Hashable, str] = {}

    def is_new(self, subject: Hashable, message: str) -> bool:
        """Records a message; returns whether it differs from the last one about `subject`.

        The first message about a subject, or the first since `clear_subject`, is new.
        """
        is_new = self._messages.get(subject) != message
        self._messages[subject] = message
        return is_new

    def clear_subject(self, subject: Hashable) -> None:
        """Removes the stored message about a subject, since the subject works again."""
        self._messages.pop(subject, None)
