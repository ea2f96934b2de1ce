"""The recipe for AWS as tests read it: its commands by the part in which they stand, and its values for the chart."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "docs" / "recipe-aws.md").read_text(encoding="utf-8")
CHART = ROOT / "deploy" / "helm" / "arctic"
HELM = Path(sys.executable).with_name("helm")
NAMESPACE = "warehouse"
EXEC = f"kubectl -n {NAMESPACE} exec deployment/shop -- "
"""What stands before a command that is typed in a pod."""


def read_blocks(heading: str, *languages: str) -> list[str]:
    """Reads the blocks of a part of the page, by default those with commands."""
    section = re.split(r"^## ", PAGE.split(f"\n## {heading}\n", 1)[1], maxsplit=1, flags=re.MULTILINE)[0]
    blocks = re.findall(r"^```(\w+)\n(.*?)^```$", section, re.MULTILINE | re.DOTALL)
    return [text for language, text in blocks if language in (languages or ("text", "sh"))]


def read_values() -> Any:
    """Reads the values that the page gives the chart."""
    (text,) = read_blocks("4. Install", "yaml")
    return yaml.safe_load(text)
