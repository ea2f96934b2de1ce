"""The notebook of the documentation is kept as nobody has run it yet."""

from __future__ import annotations

import json
from pathlib import Path

CONTENT = json.loads((Path(__file__).parents[3] / "docs" / "notebook.ipynb").read_text(encoding="utf-8"))


def test_no_cell_of_the_notebook_has_an_output_or_a_number() -> None:
    code = [cell for cell in CONTENT["cells"] if cell["cell_type"] == "code"]
    assert len(code) > 5
    assert [cell["id"] for cell in code if cell["outputs"] or cell["execution_count"] is not None] == []


def test_the_notebook_is_of_a_format_that_every_jupyter_opens() -> None:
    assert (CONTENT["nbformat"], CONTENT["nbformat_minor"]) == (4, 5)
    assert CONTENT["metadata"]["kernelspec"]["name"] == "python3"
    ids = [cell["id"] for cell in CONTENT["cells"]]
    assert len({*ids}) == len(ids)
