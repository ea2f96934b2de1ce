"""Parts of the pages that follow from the code stand there as the code says."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from docs import generate, generate_packages
from docs.generate import PAGES, PARTS, list_pages, update_parts


@pytest.mark.parametrize("page", list_pages(), ids=lambda page: str(page.relative_to(PAGES)))
def test_a_page_says_what_the_code_says(page: Path) -> None:
    assert update_parts(page) == page.read_text(encoding="utf-8"), "run `make docs`"


def test_every_generated_part_is_on_one_page() -> None:
    texts = "".join(page.read_text(encoding="utf-8") for page in list_pages())
    assert sorted(re.findall(r"<!-- generated: ([\w ]+) -->", texts)) == sorted(PARTS)


def write_page(folder: Path) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    part = "<!-- generated: stored names -->\nnothing of the code\n<!-- end of generated: stored names -->"
    (folder / "page.md").write_text(f"before\n{part}\nafter\n")
    return folder / "page.md"


def test_text_around_a_generated_part_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(generate, "PAGES", tmp_path)
    made = update_parts(write_page(tmp_path))
    assert made.startswith("before\n<!-- generated")
    assert made.endswith("-->\nafter\n")
    assert "nothing of the code" not in made


@pytest.fixture
def outdated_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    macros = tmp_path / "macros.sql"
    macros.write_text(generate.macros_text())
    monkeypatch.setattr(generate, "PAGES", tmp_path)
    monkeypatch.setattr(generate, "MACROS", macros)
    return write_page(tmp_path)


@pytest.mark.parametrize(
    ("argument", "code", "said"), [("--help", 0, "--check"), ("--check", 1, "page.md"), ("-x", 2, "-x")]
)
def test_help_a_check_and_a_mistyped_option_write_nothing(
    outdated_page: Path, capsys: pytest.CaptureFixture[str], argument: str, code: int, said: str
) -> None:
    before = outdated_page.read_text()
    with pytest.raises(SystemExit) as ended:
        generate.main([argument])
    assert ended.value.code == code
    assert said in "".join(capsys.readouterr())
    assert outdated_page.read_text() == before


def test_a_check_passes_once_the_pages_are_written(outdated_page: Path) -> None:
    generate.main([])
    assert "nothing of the code" not in outdated_page.read_text()
    generate.main(["--check"])


def test_links_of_a_part_on_a_page_in_a_folder_lead_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(generate, "PAGES", tmp_path)
    assert "](clones.md)" in update_parts(write_page(tmp_path))
    assert "](../clones.md)" in update_parts(write_page(tmp_path / "reference"))
    assert "](clones.md)" not in update_parts(write_page(tmp_path / "reference"))


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
