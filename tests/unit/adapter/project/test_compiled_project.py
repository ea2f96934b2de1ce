"""Projects that dbt parses for commands of `arctic`."""

from __future__ import annotations

from pathlib import Path

import pytest

from dbt.adapters.arctic.project.compiled_project import parse_manifest


def test_a_parse_that_is_interrupted_is_no_fault_of_the_project(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """dbt returns an interrupt like an error, with no text."""

    def interrupt(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("dbt.cli.requires.load_profile", interrupt)
    with pytest.raises(KeyboardInterrupt):
        parse_manifest(tmp_path, tmp_path, None)
