"""The command `arctic apply`: carries out a plan that an agent has proposed, or lists such plans."""

from __future__ import annotations

import argparse
from dataclasses import asdict, replace
from functools import cache, partial
from typing import TYPE_CHECKING

from arctic_runtime.operations.operation import Answer
from arctic_runtime.operations.registry import get_operation
from dbt.adapters.arctic.project.project_options import get_results_folder

if TYPE_CHECKING:
    from arctic_runtime.service.agents.proposals import Proposal, ProposalStore


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("id", nargs="?", metavar="ID", help="the plan to carry out (default: list all plans)")


def perform_command(options: argparse.Namespace) -> Answer:
    """Plans the operation again, and performs it if the plan is still the proposed one; each plan once.

    Raises ConfigError for an unknown plan or one that is too old, and PlanError if the tables have moved on.
    """
    from arctic_runtime.service.agents.proposals import FOLDER, ProposalStore, get_time

    proposals = ProposalStore(get_results_folder(options) / FOLDER)
    if options.id is None:
        return _describe_proposals(proposals.list_proposals(get_time()))
    return _apply_proposal(options, proposals, proposals.get_proposal(options.id, get_time()))


def _describe_proposals(known: list[Proposal]) -> Answer:
    lines: list[str] = []
    for proposal in known:
        lines.append(
            f"{proposal.id}: {proposal.describe_call()}, by {proposal.proposed_by}, until {proposal.expires_at}"
        )
        lines += [f"  {line}" for line in proposal.lines]
    return Answer([asdict(proposal) for proposal in known], tuple(lines or ["no proposed plans"]))


def _apply_proposal(options: argparse.Namespace, proposals: ProposalStore, proposal: Proposal) -> Answer:
    from dbt.adapters.arctic.project.operation_project import load_operation_project, open_operation, open_session

    operation = get_operation(proposal.operation)
    values = operation.read_values(proposal.arguments)
    loaded, find = load_operation_project(operation, options)
    project, context = open_operation(operation, loaded, cache(partial(open_session, loaded.profile)), find)
    models = project.select_models(proposal.tables)
    proposal.check_plan(operation.run_operation(context, models, values, plan=True))
    proposals.take_proposal(proposal)
    if not options.json:
        context = replace(context, progress=partial(print, flush=True))
    return operation.run_operation(context, models, values)
