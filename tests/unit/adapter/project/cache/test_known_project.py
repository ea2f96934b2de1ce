"""The tables of a project that an earlier command has kept: used as long as dbt would return the same, else ignored."""

from __future__ import annotations

import json
import os
import random
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from arctic_runtime.profile import Profile
from arctic_runtime.thresholds import Thresholds
from dbt.adapters.arctic import cli
from dbt.adapters.arctic.credentials import ArcticCredentials
from dbt.adapters.arctic.project.cache import inputs, known_project
from dbt.adapters.arctic.project.cache.inputs import ProjectRequest
from dbt.adapters.arctic.project.cache.known_names import list_known_names
from dbt.adapters.arctic.project.project_tables import CompiledProject

PASSWORD, LITERAL, HIDDEN = "open sesame 1", "open sesame 2", "open sesame 3"
FILES = {
    "dbt_project.yml": "{name: shop, version: '1.0', profile: shop, vars: {suffix: a}}",
    "profiles.yml": """
shop:
  target: dev
  outputs:
    dev: &dev
      type: arctic
      schema: dws
      warehouse: "{{ env_var('SHOP_WAREHOUSE') }}"
      server_side_parameters:
        spark.hadoop.fs.s3a.secret.key: "{{ env_var('DBT_ENV_SECRET_STORE') }}"
        spark.shop.password: open sesame 2
    prod: {<<: *dev, schema: prod}
""",
    "packages.yml": "packages: [{local: pack}]",
    "dbt_packages/pack/dbt_project.yml": "{name: pack, version: '1.0'}",
    "dbt_packages/pack/macros/pack.sql": "{% macro packed(n) %}{{ n }}_{{ env_var('SHOP_PACK', 'p') }}{% endmacro %}",
    "macros/names.sql": "{% macro name_it(name) %}{{ name }}_{{ var('suffix') }}{% endmacro %}",
    "models/orders.sql": "{{ config(materialized='arctic', primary_key='id', alias=name_it('orders')) }} select 1 id",
    "models/totals.sql": "{{ config(materialized='arctic', primary_key='id', alias=pack.packed('totals')) }}"
    " select id, '{{ env_var(\"SHOP_PASSWORD\") }}' as p from {{ ref('orders') }}",
    "models/sources.yml": """
sources:
  - name: raw
    schema: ods
    meta:
      arctic:
        ingest:
          {connector: postgresql, host: db, database: shop, user: me, password: "{{ env_var('SHOP_PASSWORD') }}"}
    tables: [{name: a}]
  - {name: theirs, tables: [{name: b}]}
models:
  - name: orders
    description: orders
    columns: [{name: id, description: id}]
""",
    "seeds/rates.csv": "id,rate\n1,2\n",
}
VARIABLES = {
    "SHOP_WAREHOUSE": "warehouse",
    "SHOP_PASSWORD": PASSWORD,
    "DBT_ENV_SECRET_STORE": HIDDEN,
}


def write_files(project: Path) -> None:
    for name, text in FILES.items():
        (project / name).parent.mkdir(parents=True, exist_ok=True)
        (project / name).write_text(text)
    (project / "target").mkdir()


@pytest.fixture(scope="module", autouse=True)
def shipped_thresholds() -> Iterator[None]:
    """Suites of the adapter that run in the same process have changed them for all of their commands."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ArcticCredentials, "thresholds", Thresholds())
        yield


@pytest.fixture(scope="module")
def compiled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A project that a command has compiled once; tests leave it as it is."""
    project = tmp_path_factory.mktemp("shop")
    write_files(project)
    with pytest.MonkeyPatch.context() as patch:
        set_up(patch, project)
        known_project.load_known_project(project, project, None)
    return project


def set_up(patch: pytest.MonkeyPatch, project: Path) -> None:
    for name, value in VARIABLES.items():
        patch.setenv(name, value)
    patch.setenv("DBT_ARCTIC_STATE", str(project / "state"))
    patch.delenv("SHOP_PACK", raising=False)


@pytest.fixture
def project(compiled: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    set_up(monkeypatch, compiled)
    return compiled


def read_kept(project: Path, target: str | None = None, profiles: Path | None = None) -> CompiledProject | None:
    """Returns the kept project; None if dbt has to compile it."""
    file = project / "target" / known_project.FILE
    return known_project.read_project(ProjectRequest(project, profiles or project, target), file)


def get_tables(known: CompiledProject | None) -> list[str]:
    return [] if known is None else [str(model.table) for model in known.models]


TABLES = ["lake.dws.orders_a", "lake.dws.totals_p"]


def test_what_is_kept_has_the_tables_and_the_profile_that_dbt_gives(project: Path) -> None:
    from dbt.adapters.arctic.project.compiled_project import load_project

    kept, compiled = read_kept(project), load_project(project, project, None)
    assert kept is not None
    assert get_tables(kept) == get_tables(compiled) == TABLES
    assert kept.profile == compiled.profile
    assert HIDDEN in kept.profile.settings.values()
    assert kept.models == tuple(map(known_project.strip_texts, compiled.models))
    assert kept.sources == tuple(replace(source, connection={}) for source in compiled.sources)
    assert kept.graph.nodes == compiled.graph.nodes


def test_no_secret_is_in_the_file_which_only_its_user_can_read(project: Path) -> None:
    file = project / "target" / known_project.FILE
    assert file.stat().st_mode & 0o777 == 0o600
    assert not [secret for secret in (PASSWORD, LITERAL, HIDDEN) if secret in file.read_text()]
    assert "select" not in json.loads(file.read_text())["content"]


PRINT_LOADED = """
import sys
from dbt.adapters.arctic.command_line import main
main(sys.argv[1:])
print(*sys.modules, file=sys.stderr)
"""


def test_a_command_that_only_looks_loads_neither_dbt_nor_a_parser_of_sql(project: Path) -> None:
    (project / "warehouse").mkdir(exist_ok=True)
    line = ["status", "--project-dir", ".", "--profiles-dir", str(project)]
    process = [sys.executable, "-c", PRINT_LOADED, *line]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}

    def list_loaded() -> set[str]:
        ended = subprocess.run(process, cwd=project, env=environment, capture_output=True, text=True, check=True)
        return {name.partition(".arctic")[0] for name in ended.stderr.splitlines()[-1].split()}

    known_file = project / "target" / known_project.FILE
    written = known_file.read_bytes()
    try:
        assert "dbt.cli" in list_loaded()
        loaded = list_loaded()
    finally:
        known_file.write_bytes(written)
    assert {name for name in loaded if name.startswith("dbt")} == {"dbt", "dbt.adapters"}
    assert not loaded & {
        "sqlglot",
        "pandas",
        "pyspark",
        "jinja2",
        "pyarrow",
        "pydantic",
        "pyiceberg.table",
        "sqlalchemy",
    }


def edit_in_place(file: Path) -> None:
    """Changes one letter, so that size and modification time are the same after it."""
    before, text = file.stat(), file.read_text()
    assert "orders" in text
    file.write_text(text.replace("orders", "orderz", 1))
    os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert (file.stat().st_size, file.stat().st_mtime_ns) == (before.st_size, before.st_mtime_ns)


def append(name: str, text: str = "\n") -> Callable[[Path], None]:
    return lambda project: (project / name).open("a").write(text) and None


def create(name: str, text: str = "") -> Callable[[Path], None]:
    def create_file(project: Path) -> None:
        (project / name).parent.mkdir(parents=True, exist_ok=True)
        (project / name).write_text(text)

    return create_file


def replace_by_link(project: Path) -> None:
    file = project / "models/orders.sql"
    file.rename(project / "elsewhere.sql")
    (project / "elsewhere.sql").write_text("select 2 as id")
    file.symlink_to(project / "elsewhere.sql")


EDITS: dict[str, Callable[[Path], object]] = {
    "model of the same size and time": lambda project: edit_in_place(project / "models/orders.sql"),
    "model that is longer": append("models/orders.sql"),
    "model that is new": create("models/deep/new.sql", "select 1 as id"),
    "model that is deleted": lambda project: (project / "models/totals.sql").unlink(),
    "model that is renamed": lambda project: (project / "models/totals.sql").rename(project / "models/sums.sql"),
    "model that is a link": replace_by_link,
    "properties": append("models/sources.yml"),
    "macro": append("macros/names.sql"),
    "folder that is deleted": lambda project: shutil.rmtree(project / "macros"),
    "folder that is new": create("snapshots/orders.yml"),
    "test": create("tests/positive.sql"),
    "documentation": create("models/docs.md"),
    "seed": append("seeds/rates.csv", "2,3\n"),
    "configuration": append("dbt_project.yml"),
    "variable of the configuration": lambda project: (project / "dbt_project.yml").write_text(
        FILES["dbt_project.yml"].replace("suffix: a", "suffix: b")
    ),
    "profile": append("profiles.yml"),
    "profile that is deleted": lambda project: (project / "profiles.yml").unlink(),
    "selectors": create("selectors.yml"),
    "variables in a file": create("vars.yml"),
    "ignored files": create(".dbtignore", "models/"),
    "list of packages": append("packages.yml"),
    "macro of a package": append("dbt_packages/pack/macros/pack.sql"),
    "configuration of a package": append("dbt_packages/pack/dbt_project.yml"),
    "package that is new": lambda project: (project / "dbt_packages/other").mkdir(),
    "package that is deleted": lambda project: shutil.rmtree(project / "dbt_packages/pack"),
}


@pytest.mark.parametrize("edit", EDITS)
def test_an_edit_makes_the_next_command_compile(project: Path, tmp_path: Path, edit: str) -> None:
    saved = tmp_path / "saved"
    shutil.copytree(project, saved, symlinks=True)
    assert read_kept(project) is not None
    try:
        EDITS[edit](project)
        assert read_kept(project) is None
    finally:
        shutil.rmtree(project)
        shutil.copytree(saved, project, symlinks=True)
    assert read_kept(project) is not None


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("SHOP_PASSWORD", "other"),
        ("SHOP_WAREHOUSE", "other"),
        ("SHOP_PACK", "p"),
        ("DBT_ENV_SECRET_STORE", "other"),
        ("DBT_TARGET", "prod"),
        ("DBT_PROFILES_DIR", "/"),
        ("DBT_PARTIAL_PARSE", "0"),
        ("DBT_NEW_OPTION", ""),
        ("HOME", "/"),
    ],
)
def test_a_variable_makes_the_next_command_compile(
    project: Path, monkeypatch: pytest.MonkeyPatch, name: str, value: str
) -> None:
    monkeypatch.setenv(name, value)
    assert read_kept(project) is None


@pytest.mark.parametrize("name", VARIABLES)
def test_a_variable_that_is_gone_makes_the_next_command_compile(
    project: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.delenv(name)
    assert read_kept(project) is None


def test_a_variable_that_nothing_reads_changes_nothing(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SHOP_COLOUR", "red")
    assert get_tables(read_kept(project)) == TABLES


def test_other_options_make_the_next_command_compile(project: Path, tmp_path: Path) -> None:
    shutil.copy(project / "profiles.yml", tmp_path)
    assert read_kept(project, target="prod") is None
    assert read_kept(project, target="dev") is None
    assert read_kept(project, profiles=tmp_path) is None


def test_another_place_makes_the_next_command_compile(
    project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    moved = tmp_path / "moved"
    shutil.copytree(project, moved)
    assert read_kept(moved) is None
    monkeypatch.chdir(tmp_path)
    assert read_kept(project) is None


def test_another_version_makes_the_next_command_compile(
    project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(inputs, "version", "99.0")
        assert read_kept(project) is None
    monkeypatch.syspath_prepend(tmp_path)
    assert read_kept(project) is not None
    (tmp_path / "dbt_core-99.0.dist-info").mkdir()
    assert read_kept(project) is None
    (tmp_path / "dbt_core-99.0.dist-info").rmdir()
    (tmp_path / "dbt_plugin.py").touch()
    assert read_kept(project) is None


def test_a_file_that_is_damaged_is_ignored(project: Path) -> None:
    file = project / "target" / known_project.FILE
    written, chance = file.read_bytes(), random.Random(7)
    damaged = [b"", b"{}", b"[]", b"null", b'{"digest": 1, "content": "{}"}', b"\xff", b"[" * 100_000]
    damaged += [written[: chance.randrange(len(written))] for _ in range(10)]
    for place in (chance.randrange(len(written)) for _ in range(30)):
        damaged.append(written[:place] + bytes([written[place] ^ 1]) + written[place + 1 :])
    try:
        for content in damaged:
            file.write_bytes(content)
            assert read_kept(project) is None, content[:80]
    finally:
        file.write_bytes(written)
    assert read_kept(project) is not None


@pytest.mark.parametrize("mode", [0o644, 0o640])
def test_a_key_that_others_can_read_is_not_used(project: Path, mode: int) -> None:
    key = project / "state" / "project-key"
    key.chmod(mode)
    assert read_kept(project) is None
    key.chmod(0o600)
    assert read_kept(project) is not None


def test_a_file_of_another_user_is_ignored(project: Path) -> None:
    key = project / "state" / "project-key"
    written = key.read_bytes()
    key.write_bytes(bytes(32))
    assert read_kept(project) is None
    key.write_bytes(written)


@pytest.fixture
def fresh(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project that no command has compiled."""
    write_files(tmp_path)
    set_up(monkeypatch, tmp_path)
    return tmp_path


def test_after_an_edit_a_command_has_the_tables_of_the_edited_project(
    fresh: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def load() -> list[str]:
        return get_tables(known_project.load_known_project(fresh, fresh, None))

    assert load() == load() == TABLES
    (fresh / "macros/names.sql").write_text(FILES["macros/names.sql"].replace("}}_{{", "}}-{{").replace("-", "_x_"))
    monkeypatch.setenv("SHOP_PACK", "q")
    assert load() == load() == ["lake.dws.orders_x_a", "lake.dws.totals_q"]


UNCERTAIN = {
    "a variable whose name is computed": ("macros/more.sql", "{% macro f(n) %}{{ env_var(n) }}{% endmacro %}"),
    "a function under another name": ("macros/more.sql", "{% set e = env_var %}{{ e(n) }}"),
    "partial parsing that is off": (
        "dbt_project.yml",
        "{name: shop, version: '1.0', profile: shop, vars: {suffix: a}, flags: {partial_parse: false}}",
    ),
}


@pytest.mark.parametrize("reason", UNCERTAIN)
def test_nothing_is_kept_with(fresh: Path, reason: str) -> None:
    name, text = UNCERTAIN[reason]
    (fresh / name).write_text(text)
    assert known_project.observe_inputs(ProjectRequest(fresh, fresh, None)) is None


@dataclass(frozen=True)
class Keeping:
    """All that is needed to keep a project once more."""

    request: ProjectRequest
    file: Path
    inputs: known_project.ProjectInputs
    project: CompiledProject

    def is_kept(self, project: CompiledProject) -> bool:
        known_project.keep_project(self.request, self.file, self.inputs, "", project)
        return self.file.exists()


@pytest.fixture
def keeping(project: Path, tmp_path: Path) -> Keeping:
    kept, request = read_kept(project), ProjectRequest(project, project, None)
    observed = known_project.observe_inputs(request)
    assert kept is not None
    assert observed is not None
    return Keeping(request, tmp_path / known_project.FILE, observed[0], kept)


def test_a_project_is_kept_again(keeping: Keeping) -> None:
    assert keeping.is_kept(keeping.project)


@pytest.mark.parametrize("secret", [PASSWORD, LITERAL, HIDDEN])
def test_a_project_with_a_secret_in_a_table_is_not_kept(keeping: Keeping, secret: str) -> None:
    model = keeping.project.models[0]
    config = replace(model.config, tblproperties={"login": f"me:{secret}"})
    assert not keeping.is_kept(replace(keeping.project, models=(replace(model, config=config),)))


def test_a_project_with_a_profile_that_reads_otherwise_is_not_kept(keeping: Keeping) -> None:
    profile = keeping.project.profile
    assert not keeping.is_kept(replace(keeping.project, profile=replace(profile, catalog="other")))
    assert not keeping.is_kept(replace(keeping.project, profile=replace(profile, clone_ttl_seconds=1.0)))


def test_a_folder_that_can_not_be_written_changes_nothing(keeping: Keeping, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise PermissionError("read-only")

    monkeypatch.setattr(known_project, "write_atomically", refuse)
    assert not keeping.is_kept(keeping.project)


def test_nothing_is_kept_of_a_project_with_nodes_of_a_plugin(fresh: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from dbt import plugins

    manager = SimpleNamespace(hooks={"get_nodes": [print]})
    monkeypatch.setattr(plugins, "get_plugin_manager", lambda _: manager)
    assert inputs.read_dbt_inputs(ProjectRequest(fresh, fresh, None)) is None


def test_a_folder_with_variables_of_its_own_is_left_to_dbt(fresh: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (fresh / "below").mkdir()
    monkeypatch.chdir(fresh / "below")
    assert not inputs.has_dotenv_file(Path.cwd())
    (fresh / ".env").write_text("SHOP_PACK=q")
    assert inputs.has_dotenv_file(Path.cwd())


def test_a_project_that_does_not_compile_is_reported_and_not_kept(
    fresh: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (fresh / "models/totals.sql").write_text("{{ config(materialized='arctic', primary_key='id') }} {{ nothing( }}")
    assert cli.main(["status", "--project-dir", str(fresh), "--profiles-dir", str(fresh)]) == cli.WRONG_USE
    assert "dbt could not parse the project" in capsys.readouterr().err
    assert not (fresh / "target" / known_project.FILE).exists()


def test_no_folder_is_made_for_a_project_without_one(fresh: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (fresh / "target").rmdir()
    compiled = CompiledProject(Profile.for_embedded(fresh), ())
    monkeypatch.setattr(known_project, "compile_project", lambda _: compiled)
    assert known_project.load_known_project(fresh, fresh, None) is compiled
    assert not (fresh / "target").exists()


def test_a_file_that_changes_while_dbt_reads_is_read_again(fresh: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    compile_project = known_project.compile_project

    def edit_meanwhile(request: ProjectRequest, manifest: object = None) -> CompiledProject:
        compiled = compile_project(request, manifest)
        (fresh / "models/new.sql").write_text("{{ config(materialized='arctic', primary_key='id') }} select 1 as id")
        return compiled

    monkeypatch.setattr(known_project, "compile_project", edit_meanwhile)
    assert get_tables(known_project.load_known_project(fresh, fresh, None)) == TABLES
    assert read_kept(fresh) is None


def test_the_names_that_a_shell_completes_are_kept(project: Path) -> None:
    assert list_known_names(project, "models") == ["a", "orders_a", "totals_p"]
    assert list_known_names(project, "sources") == ["raw"]
