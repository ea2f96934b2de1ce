"""The command `arctic mcp`: answers an agent over standard input and output."""

from __future__ import annotations

import argparse
import getpass
import logging
import sys
import threading
from dataclasses import replace
from functools import cache, partial
from typing import TYPE_CHECKING

from arctic_runtime.operations.operation import Answer
from arctic_runtime.service.agents.settings import ALLOWED
from arctic_runtime.service.audit_log import LOG, AuditLog
from dbt.adapters.arctic.__version__ import version
from dbt.adapters.arctic.project.cache.inputs import ProjectRequest
from dbt.adapters.arctic.project.target_folder import get_target_folder

if TYPE_CHECKING:
    from arctic_runtime.service.agents.desk import AgentDesk, Caller


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--allow",
        choices=ALLOWED,
        help="`plan`: agents may also propose changes, which `arctic apply` carries out (default: that of the target, "
        "or `read`)",
    )
    parser.add_argument(
        "--audit-file",
        metavar="FILE",
        help="file to which each call is appended (default: that of the service, or the standard error)",
    )


def perform_command(options: argparse.Namespace) -> Answer:
    """Answers until the standard input ends; raises ConfigError if the library of the protocol is not installed.

    The project is opened by the first request that needs it, so that a client is greeted at once.
    """
    from arctic_runtime.service.agents.mcp_server import build_server, serve_standard_streams

    _log_to_standard_error()
    opening, open_once = threading.Lock(), cache(partial(_open_desk, options))

    def get_desk() -> AgentDesk:
        with opening:
            return open_once()[0]

    serve_standard_streams(build_server(get_desk, lambda _: open_once()[1], version))
    return Answer(None, ())


def _open_desk(options: argparse.Namespace) -> tuple[AgentDesk, Caller]:
    """Reads the settings of the target; returns the tools, and their only caller, with the audit log."""
    from arctic_runtime.service.agents.desk import AgentDesk, Caller
    from arctic_runtime.service.agents.proposals import FOLDER, ProposalStore
    from dbt.adapters.arctic.project.agent_project import AgentProject
    from dbt.adapters.arctic.project.compiled_project import load_serve_settings

    serve = load_serve_settings(options.project_dir, options.profiles_dir, options.target)
    agents = serve.agents if options.allow is None else replace(serve.agents, allow=options.allow)
    user, log = getpass.getuser(), AuditLog(options.audit_file or str(serve.http.get("audit_file") or ""))
    proposals = ProposalStore(get_target_folder(options.project_dir) / FOLDER, agents.plan_age)
    request = ProjectRequest(options.project_dir, options.profiles_dir, options.target)
    caller = Caller(user, lambda _: True, partial(log.add_effect, {"user": user, "client": "stdio"}))
    return AgentDesk(AgentProject(request), agents, proposals), caller


def _log_to_standard_error() -> None:
    """Has logs written to the standard error, those of calls too; the standard output belongs to the protocol."""
    logging.basicConfig(stream=sys.stderr, level=logging.WARNING, format="arctic mcp: %(message)s")
    LOG.setLevel(logging.INFO)
