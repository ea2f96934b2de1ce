"""The macros that dbt runs: materializations, and operations on tables."""

from pathlib import Path

PACKAGE_PATH = str(Path(__file__).parent)
