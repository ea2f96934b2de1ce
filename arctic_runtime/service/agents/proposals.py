"""Plans that agents propose: kept in a folder of the project until a person carries them out, or they are too old."""

from __future__ import annotations

import hashlib
import json
import os
import re
import secrets
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any, Final

from arctic_runtime.errors import ConfigError, PlanError
from arctic_runtime.operations.operation import Answer
from arctic_runtime.service.agents.answers import to_json

FOLDER: Final = "arctic_proposals"
"""Name of the folder, below the one to which dbt writes."""

_ID = re.compile(r"[0-9a-f]{12}")


@dataclass(frozen=True)
class Proposal:
    """A proposed plan of an operation: its tables and arguments, and the plan as it was then."""

    id: str
    operation: str
    tables: tuple[str, ...]
    """Full names of the tables; empty for all."""

    arguments: Mapping[str, Any]
    lines: tuple[str, ...]
    """The plan for people."""

    digest: str
    """Digest of the plan, by which a later one is compared."""

    proposed_by: str
    expires_at: str
    """Time in ISO format."""

    def describe_call(self) -> str:
        """Describes the operation with its tables and arguments in one line."""
        arguments = [f"{name}={json.dumps(value, ensure_ascii=False)}" for name, value in self.arguments.items()]
        return " ".join([self.operation, *self.tables, *arguments])

    def check_plan(self, plan: Answer) -> None:
        """Raises PlanError unless `plan`, that of the tables as they are now, is the proposed one."""
        if digest_plan(plan) == self.digest:
            return
        raise PlanError(
            f"The plan {self.id} is not that of the tables as they are now; nothing was changed.",
            where=self.describe_call(),
            expected="\n".join(("as proposed", *self.lines)),
            actual="\n".join(("as planned now", *plan.lines)),
            fix="have it proposed again, or run the command yourself",
        )


def digest_plan(plan: Answer) -> str:
    """Returns a digest of a plan's data, which is equal for equal plans."""
    return hashlib.sha256(json.dumps(to_json(plan.data), sort_keys=True).encode()).hexdigest()


class ProposalStore:
    """Keeps proposals as files that only this user can read; each can be carried out for `age_seconds`."""

    def __init__(self, folder: Path, age_seconds: int = 0) -> None:
        self._folder = folder
        self._age = timedelta(seconds=age_seconds)

    def add_proposal(
        self,
        operation: str,
        tables: Sequence[str],
        arguments: Mapping[str, Any],
        plan: Answer,
        proposed_by: str,
        now: datetime,
    ) -> Proposal:
        """Keeps a new proposal and drops those that are too old; raises ConfigError if the folder can't be written."""
        proposal = Proposal(
            secrets.token_hex(6),
            operation,
            tuple(tables),
            to_json(arguments),
            plan.lines,
            digest_plan(plan),
            proposed_by,
            (now + self._age).isoformat(timespec="seconds"),
        )
        try:
            self._drop_expired(now)
            self._write_file(proposal)
        except OSError as error:
            raise ConfigError(
                "The proposed plan can't be kept.",
                where=str(self._folder),
                actual=str(error),
                fix="make the folder writable for the user of this process",
            ) from error
        return proposal

    def list_proposals(self, now: datetime) -> list[Proposal]:
        """Lists the proposals that can be carried out, the oldest first."""
        known = [proposal for _, proposal in self._read_files() if _is_valid(proposal, now)]
        return sorted(known, key=lambda proposal: (proposal.expires_at, proposal.id))

    def get_proposal(self, proposal_id: str, now: datetime) -> Proposal:
        """Returns a proposal; raises ConfigError if there is none of this id, or if it is too old."""
        proposal = _read_file(self._locate(proposal_id)) if _ID.fullmatch(proposal_id) else None
        if proposal is None or not _is_valid(proposal, now):
            unknown = "none of this id, or one that was carried out"
            kept = ", ".join(known.id for known in self.list_proposals(now))
            raise ConfigError(
                f"There is no proposed plan {proposal_id!r}.",
                where=str(self._folder),
                expected=kept or "a plan that an agent has proposed; there is none",
                actual=unknown if proposal is None else "one that is too old",
                fix="`arctic apply` without an id shows all; have it proposed again",
            )
        return proposal

    def take_proposal(self, proposal: Proposal) -> None:
        """Removes a proposal, so that it is carried out once; raises ConfigError if another process was faster."""
        try:
            self._locate(proposal.id).unlink()
        except FileNotFoundError:
            raise ConfigError(f"The plan {proposal.id} was carried out meanwhile.") from None

    def _locate(self, proposal_id: str) -> Path:
        return self._folder / f"{proposal_id}.json"

    def _write_file(self, proposal: Proposal) -> None:
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        handle, written = tempfile.mkstemp(dir=self._folder)  # Only its user can read such a file.
        with os.fdopen(handle, "w", encoding="utf-8") as stream:
            json.dump(asdict(proposal), stream)
        Path(written).replace(self._locate(proposal.id))

    def _read_files(self) -> Iterator[tuple[Path, Proposal]]:
        for file in sorted(self._folder.glob("*.json")):
            proposal = _read_file(file)
            if proposal is not None:
                yield file, proposal

    def _drop_expired(self, now: datetime) -> None:
        for file, proposal in self._read_files():
            if not _is_valid(proposal, now):
                file.unlink(missing_ok=True)


def _is_valid(proposal: Proposal, now: datetime) -> bool:
    return now < datetime.fromisoformat(proposal.expires_at)


def _read_file(file: Path) -> Proposal | None:
    """Reads a proposal; None if there is none, or if the file is not as it was written."""
    with suppress(OSError, ValueError, TypeError, KeyError):
        written = json.loads(file.read_text(encoding="utf-8"))
        written |= {"tables": tuple(written["tables"]), "lines": tuple(written["lines"])}
        return Proposal(**written)
    return None


def get_time() -> datetime:
    return datetime.now(timezone.utc)
