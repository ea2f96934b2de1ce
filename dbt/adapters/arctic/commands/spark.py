"""The command `arctic spark`: starts, stops or shows the background Spark server of a target."""

from __future__ import annotations

import argparse

from arctic_runtime.errors import ConfigError
from arctic_runtime.operations.operation import Answer
from arctic_runtime.spark.engine import server

NAME = "spark"
DESCRIPTION = "a Spark server of your own that stays between runs"
ACTIONS = ("start", "stop", "status")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("action", choices=ACTIONS, help="what to do with it")


def perform_command(options: argparse.Namespace) -> Answer:
    """Performs the action `options.action`; raises ConfigError if the target has no background server."""
    from dbt.adapters.arctic.project.compiled_project import load_profile

    profile = load_profile(options.project_dir, options.profiles_dir, options.target)
    if not profile.is_kept:
        raise ConfigError(
            "this target has no background Spark server.",
            expected="method: connect and url: local",
            actual=f"method: {profile.method}",
            fix="set both in the profile",
        )
    known_server = {"start": server.ensure_server, "stop": server.stop_server, "status": server.find_server}[
        options.action
    ](profile)
    if known_server is None:
        return Answer({"running": False}, ("not running",), differs=options.action == "status")
    is_there = options.action != "stop"
    line = (
        f"{'running' if is_there else 'stopped'}: process {known_server.pid}, port {known_server.port}, "
        f"since {known_server.since}"
    )
    return Answer({"running": is_there, **known_server.to_public_dict()}, (line,))
