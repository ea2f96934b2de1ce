"""Rights that pages of the documentation list: statements of SQL and policies of IAM, which tests give to users."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

DOCS = Path(__file__).parents[1] / "docs"
PASSWORD = "s3cret"


def read_statements(page: str, title: str) -> list[str]:
    """Reads the statements of a page below a title, with a password in them."""
    return [part.strip() for part in _find(page, rf"^-- {re.escape(title)}\n", title).split(";") if part.strip()]


def read_policy(page: str, title: str) -> dict[str, Any]:
    """Reads the policy of a page below a title."""
    policy: dict[str, Any] = json.loads(_find(page, rf"^{re.escape(title)}\n\n```json\n", title))
    return policy


def _find(page: str, begin: str, title: str) -> str:
    text = (DOCS / page).read_text(encoding="utf-8")
    match = re.search(rf"{begin}(.*?)^```", text, re.MULTILINE | re.DOTALL)
    assert match is not None, title
    return match[1].replace("…", PASSWORD)
