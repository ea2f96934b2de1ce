"""Parts of the pages that follow from the code stand there as the code says."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from docs import generate_packages
from docs.generate import PAGES, PARTS, generated


@pytest.mark.parametrize("page", sorted(PAGES.rglob("*.md")), ids=lambda page: str(page.relative_to(PAGES)))
def test_a_page_says_what_the_code_says(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    assert generated(text) == text, "run `make docs`"


def test_every_generated_part_is_on_one_page() -> None:
    texts = "".join(page.read_text(encoding="utf-8") for page in PAGES.rglob("*.md"))
    assert sorted(re.findall(r"<!-- generated: ([\w ]+) -->", texts)) == sorted(PARTS)


def test_text_around_a_generated_part_stays() -> None:
    part = "<!-- generated: stored names -->\nnothing of the code\n<!-- end of generated: stored names -->"
    page = f"before\n{part}\nafter\n"
    made = generated(page)
    assert made.startswith("before\n<!-- generated")
    assert made.endswith("-->\nafter\n")
    assert "nothing of the code" not in made


def test_a_package_without_a_docstring_has_no_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(generate_packages, "ROOT", tmp_path)
    for package, text in (("dbt/include/arctic", '"""Macros."""'), ("dbt/adapters/arctic", '"""Adapter.\n\nMore."""')):
        (tmp_path / package).mkdir(parents=True)
        (tmp_path / package / "__init__.py").write_text(text)
    assert generate_packages.describe_parts().endswith("| `dbt/adapters/arctic/` | Adapter |")
    (tmp_path / "arctic_runtime" / "new").mkdir(parents=True)
    (tmp_path / "arctic_runtime" / "new" / "__init__.py").write_text("")
    with pytest.raises(ValueError, match="arctic_runtime/new has no docstring"):
        generate_packages.describe_parts()
