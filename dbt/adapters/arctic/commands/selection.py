"""The options of commands that select models as dbt does."""

from __future__ import annotations

import argparse


def add_arguments(parser: argparse.ArgumentParser, default: str) -> None:
    """Adds `--select` and `--exclude` to a command, which by default takes the models that `default` names."""
    parser.add_argument(
        "-s",
        "--select",
        nargs="+",
        action="extend",
        default=[],
        metavar="MODEL",
        help=f"the models, selected as for dbt (default: {default})",
    )
    parser.add_argument(
        "--exclude",
        nargs="+",
        action="extend",
        default=[],
        metavar="MODEL",
        help="models to leave out, selected as for dbt",
    )
