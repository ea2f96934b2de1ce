"""The command `arctic spark`: starts, stops or shows the background Spark server of a target."""

from __future__ import annotations

import argparse

from arctic_runtime.errors import ConfigError
from arctic_runtime.operations.operation import Answer
from arctic_runtime.profile import Profile, mask_text
from arctic_runtime.spark.engine import server

ACTIONS = ("start", "stop", "status")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("action", choices=ACTIONS, help="what to do with the Spark of the target")


def perform_command(options: argparse.Namespace) -> Answer:
    """Performs the action `options.action`; raises ConfigError if the target has no background server."""
    from dbt.adapters.arctic.project.compiled_project import load_profile

    profile = load_profile(options.project_dir, options.profiles_dir, options.target)
    _check_target(profile, options.action)
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
    limit = known_server.keep_alive_seconds
    until = f", until it was not used for {limit / 60:.3g} minutes" if is_there and limit else ""
    return Answer({"running": is_there, **known_server.to_public_dict()}, (line + until,))


def _check_target(profile: Profile, action: str) -> None:
    """Raises ConfigError if the target can have no background server, or if `start` would not keep one."""
    if not (profile.is_kept or profile.is_local):
        raise ConfigError(
            "this target has no background Spark server.",
            expected="method: session with a local master, or method: connect and url: local",
            actual=f"method: {profile.method}, master: {profile.master}, url: {profile.url and mask_text(profile.url)}",
            fix="set `keep_alive`, or method and url, in the profile",
        )
    if action == "start" and not (profile.is_kept or profile.keeps_warm):
        raise ConfigError(
            "this target keeps no Spark.",
            where="profiles.yml",
            expected="keep_alive: 15m, or method: connect and url: local",
            actual="keep_alive: 0, the default in CI, in containers, without a terminal and if memory is short",
            fix="set `keep_alive` in the profile",
        )
