"""The audit of packages says clearly what it knows, and what it does not."""

from __future__ import annotations

import json
import subprocess
from typing import Any

import pytest

from release import audit


def answer(text: str, error: str = "") -> Any:
    return lambda command: subprocess.CompletedProcess(command, 1, text, error)


def report(*packages: dict[str, Any]) -> str:
    return json.dumps({"dependencies": list(packages)})


SOUND = {"name": "a", "version": "1", "vulns": []}
WEAK = {"name": "b", "version": "2", "vulns": [{"id": "CVE-1", "fix_versions": ["3"]}]}
SKIPPED = {"name": "c", "skip_reason": "Dependency not found on PyPI and could not be audited: c (3)"}


@pytest.mark.parametrize(
    ("text", "code", "said"),
    [
        (report(SOUND), 0, "1 packages were audited, 0 are not"),
        (report(SOUND, SKIPPED), 0, "1 packages were audited, 1 are not"),
        (report(SOUND, WEAK), 1, "b 2: CVE-1; mended in 3"),
        (report(SKIPPED, SKIPPED), 3, "Nothing was audited"),
        (report(), 3, "Nothing was audited"),
        ("", 3, "can't be reached"),
        ("[]", 3, "can't be reached"),
    ],
)
def test_the_audit_never_takes_silence_for_soundness(
    text: str, code: int, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert audit.main(answer(text, "HTTPSConnectionPool: Max retries exceeded")) == code
    assert said in capsys.readouterr().out
