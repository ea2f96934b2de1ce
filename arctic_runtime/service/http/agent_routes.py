"""HTTP routes for agents: the Model Context Protocol, and the plans that they propose, for people to carry out."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from fastapi import APIRouter, Request
from starlette.responses import Response
from starlette.routing import Route

from arctic_runtime.errors import ArcticError
from arctic_runtime.operations.registry import get_operation
from arctic_runtime.service.agents.desk import AgentDesk, Caller
from arctic_runtime.service.agents.proposals import Proposal, ProposalStore, get_time
from arctic_runtime.service.agents.service_desk import ServiceDesk
from arctic_runtime.service.agents.settings import AgentSettings
from arctic_runtime.service.http.access import AGENTS_PATH, User
from arctic_runtime.service.http.encoding import build_list_schema, build_record_schema, build_reference, encode_json
from arctic_runtime.service.http.guard import AUDIT, USER
from arctic_runtime.service.http.problems import build_problem
from arctic_runtime.service.http.threads import run_in_thread
from arctic_runtime.service.view.live_data import Job, LiveService
from arctic_runtime.thresholds import SHIPPED, AgentThresholds

if TYPE_CHECKING:
    from arctic_runtime.service.agents.mcp_server import HttpTransport

_TEXT = {"type": "string"}
_TEXTS = build_list_schema(_TEXT)
_PLAN_SCHEMA = build_record_schema(
    id=_TEXT,
    operation=_TEXT,
    tables=_TEXTS,
    arguments={"type": "object"},
    lines=_TEXTS,
    digest=_TEXT,
    proposed_by=_TEXT,
    expires_at=_TEXT,
)


@dataclass(frozen=True)
class HttpAgents:
    """What a service offers to agents: their settings, and the store of the plans that they propose."""

    settings: AgentSettings
    proposals: ProposalStore
    thresholds: AgentThresholds = SHIPPED.agents


def open_transport(service: LiveService, agents: HttpAgents, answers_sql: bool) -> HttpTransport | None:
    """Opens the transport of the protocol; None without the extra `mcp`."""
    if find_spec("mcp") is None:
        return None
    from arctic_runtime.service.agents.mcp_server import HttpTransport, build_server

    desk = AgentDesk(ServiceDesk(service, agents.thresholds, answers_sql), agents.settings, agents.proposals)
    return HttpTransport(build_server(lambda: desk, _get_caller, service.get_state().version))


def build_agent_route(transport: HttpTransport) -> Route:
    """Builds the route of the protocol."""
    return Route(AGENTS_PATH, transport.application, methods=["POST"])


def _get_caller(request: Request) -> Caller:
    user: User = request.scope[USER]
    return Caller(user.name, user.can_act_as, request.scope[AUDIT])


def build_plan_routes(service: LiveService, proposals: ProposalStore) -> APIRouter:
    """Builds the routes that list proposed plans, and that carry one out as a job."""
    router = APIRouter(prefix="/api/plans", tags=["agents"])

    async def list_plans() -> Response:
        known = await run_in_thread(proposals.list_proposals, get_time())
        return Response(encode_json([asdict(proposal) for proposal in known]), media_type="application/json")

    async def apply_plan(request: Request, plan: str) -> Response:
        proposal = await run_in_thread(proposals.get_proposal, plan, get_time())
        refused = _check_user(request.scope[USER], proposal)
        if refused is not None:
            return refused
        job = await run_in_thread(_submit_proposal, service, proposals, proposal, request.scope[AUDIT])
        return Response(encode_json(job), 202, {"location": f"/api/jobs/{job.number}"}, "application/json")

    router.add_api_route(
        "",
        list_plans,
        methods=["GET"],
        summary="The plans that agents propose",
        response_class=Response,
        responses=_describe_answer("Plans", build_list_schema(_PLAN_SCHEMA), 200),
    )
    router.add_api_route(
        "/{plan}",
        apply_plan,
        methods=["POST"],
        status_code=202,
        summary="Carries out a plan that an agent has proposed, if it is still that of the tables",
        response_class=Response,
        responses=_describe_answer("The job that does it", build_reference("Job"), 202),
    )
    return router


def _check_user(user: User, proposal: Proposal) -> Response | None:
    """Returns the refusal if only an administrator may carry out the operation, and the user is none; else None."""
    if not get_operation(proposal.operation).needs_admin or user.can_act_as("admin"):
        return None
    return build_problem(
        403,
        ArcticError(
            f"{user.name} may not {proposal.operation}.",
            expected="the role admin",
            actual=f"the role {user.role}",
            fix="ask somebody with that role",
        ),
    )


def _submit_proposal(service: LiveService, proposals: ProposalStore, proposal: Proposal, audit: Any) -> Job:
    """Plans again, and submits the operation; raises PlanError if the plan has changed."""
    operation, tables, arguments = get_operation(proposal.operation), proposal.tables, proposal.arguments
    proposal.check_plan(service.requests.answer_operation(operation, tables, arguments, plan=True))
    proposals.take_proposal(proposal)
    audit({"plan": proposal.id, "operation": operation.name, "tables": list(tables)})
    return service.requests.submit_operation(operation, tables, arguments, audit)


def _describe_answer(description: str, schema: dict[str, Any], status: int) -> dict[int | str, dict[str, Any]]:
    return {status: {"description": description, "content": {"application/json": {"schema": schema}}}}
