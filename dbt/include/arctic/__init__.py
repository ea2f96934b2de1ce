"""The macros that dbt runs: materializations and operations, each of which calls one adapter method."""

from pathlib import Path

PACKAGE_PATH = str(Path(__file__).parent)
