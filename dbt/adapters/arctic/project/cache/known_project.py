"""Loads the tables of a project from the file in which an earlier command has kept them, or from dbt.

The file has no queries, no settings of connections and no texts for the catalog, so none of their secrets either.

Digests in the file are made with a key of this user, so that nobody who has one can try out secrets with it.
"""

from __future__ import annotations

import hmac
import json
import os
import secrets
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from arctic_runtime.errors import ArcticError
from arctic_runtime.ingest.source import IngestSource
from arctic_runtime.manifest.project_graph import ProjectGraph
from arctic_runtime.model.table import Model
from arctic_runtime.profile import Profile, is_secret
from arctic_runtime.spark.engine.java.state_directory import get_state_directory
from arctic_runtime.target_settings import UnreadableSettings
from arctic_runtime.thresholds import Thresholds
from dbt.adapters.arctic.project.cache.encoding import decode_value, encode_value
from dbt.adapters.arctic.project.cache.inputs import (
    ProjectRequest,
    WatchedFiles,
    describe_request,
    digest_files,
    find_variables,
    has_dotenv_file,
    read_dbt_inputs,
    select_environment,
    walk_files,
)
from dbt.adapters.arctic.project.cache.known_names import FILE, MODELS, SOURCES
from dbt.adapters.arctic.project.cache.target_profile import read_target_profile
from dbt.adapters.arctic.project.project_tables import CompiledProject
from dbt.adapters.arctic.project.target_folder import get_target_folder

_FILE = "project-key"
_BYTES = 32


def read_private_key() -> bytes | None:
    """Reads the key; None if there is none that only this user can read."""
    try:
        with (get_state_directory() / _FILE).open("rb") as stream:
            stat, key = os.fstat(stream.fileno()), stream.read(_BYTES + 1)
    except OSError:
        return None
    is_private = stat.st_uid == os.getuid() and not stat.st_mode & 0o077
    return key if is_private and len(key) == _BYTES else None


def create_private_key() -> bytes:
    """Returns the key, which is made if there is none; raises OSError if it can't be written."""
    known = read_private_key()
    if known is not None:
        return known
    folder = get_state_directory()
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    key = secrets.token_bytes(_BYTES)
    write_atomically(folder / _FILE, key)
    return key


def write_atomically(file: Path, content: bytes) -> None:
    """Writes a file that only this user can read; others see the old content, or all of the new one."""
    with tempfile.TemporaryDirectory(prefix=f".{file.name}.", dir=file.parent) as folder:
        written = Path(folder) / file.name
        written.touch(mode=0o600)
        written.write_bytes(content)
        written.replace(file)


_SECRET_PREFIX = "DBT_ENV_SECRET"
_DAMAGE = (OSError, ValueError, TypeError, LookupError, AttributeError, RecursionError)
"""Errors of Python that a file raises which is not as it was written."""


@dataclass(frozen=True)
class ProjectInputs:
    """Files and variables from which a project was compiled, and the names of its profile and target."""

    watched: WatchedFiles
    variables: tuple[str, ...]
    profile: str
    target: str


def load_known_project(project_dir: Path, profiles_dir: Path | None, target: str | None) -> CompiledProject:
    """Loads a project for commands that only look; its models have no queries if an earlier command has compiled it.

    Raises the errors of `compiled_project.load_project`.
    """
    request = ProjectRequest(project_dir, profiles_dir, target)
    file = get_target_folder(project_dir) / FILE
    if not file.parent.is_dir() or has_dotenv_file(Path.cwd()):
        return compile_project(request)
    known = read_project(request, file)
    return _compile_and_keep(request, file) if known is None else known


def compile_project(request: ProjectRequest, manifest: Any = None) -> CompiledProject:
    """Compiles a project; `manifest` is the result of `parse_manifest`, or None."""
    from dbt.adapters.arctic.project.compiled_project import load_project

    given = () if manifest is None else (manifest,)
    return load_project(request.project_dir, request.profiles_dir, request.target, *given)


def read_project(request: ProjectRequest, file: Path) -> CompiledProject | None:
    """Reads the kept project; None if there is none, or if it may differ from the result of dbt."""
    key = read_private_key()
    if key is None:
        return None
    try:
        kept = json.loads(file.read_bytes())
        content = json.loads(kept["content"])
        inputs = _decode_inputs(content["inputs"])
        files = digest_files(walk_files(inputs.watched))
        if not hmac.compare_digest(kept["digest"], _sign_content(key, request, inputs, files, kept["content"])):
            return None
        models, sources, landing, nodes = (decode_value(content[name]) for name in _PARTS)
        profile = _read_profile(request, inputs)
    except (*_DAMAGE, UnreadableSettings, ArcticError):
        return None
    return CompiledProject(profile, models, sources, landing, graph=ProjectGraph(nodes))


_PARTS = ("models", "sources", "landing", "nodes")


def _decode_inputs(written: Mapping[str, Any]) -> ProjectInputs:
    known = written["watched"]
    folders = tuple(known["roots"]), tuple(known["folders"])
    watched = WatchedFiles(known["profiles_file"], *folders, known["packages_folder"])
    return ProjectInputs(watched, tuple(written["variables"]), written["profile"], written["target"])


def _sign_content(key: bytes, request: ProjectRequest, inputs: ProjectInputs, files: str, content: str) -> str:
    environment = select_environment(os.environ, inputs.variables)
    signed = json.dumps([describe_request(request), asdict(inputs), environment, files, content])
    return hmac.new(key, signed.encode(), "sha256").hexdigest()


def _read_profile(request: ProjectRequest, inputs: ProjectInputs) -> Profile:
    file = Path(inputs.watched.profiles_file)
    return read_target_profile(file, inputs.profile, inputs.target, request.project_dir, os.environ, Thresholds())


def _compile_and_keep(request: ProjectRequest, file: Path) -> CompiledProject:
    """Compiles a project, and keeps its tables if the next command can find out whether they are still right."""
    from dbt.adapters.arctic.project.compiled_project import parse_manifest

    # The files are read before dbt reads them, so that an edit in the meantime is seen by the next command.
    observed = observe_inputs(request)
    if observed is None:
        return compile_project(request)
    inputs, files = observed
    manifest = parse_manifest(request.project_dir, request.profiles_dir, request.target)
    project = compile_project(request, manifest)
    if set(manifest.env_vars) <= {*inputs.variables}:
        keep_project(request, file, inputs, files, project)
    return project


def observe_inputs(request: ProjectRequest) -> tuple[ProjectInputs, str] | None:
    """Returns the inputs of a project, and the digest of its files; None if the project can't be kept."""
    asked = read_dbt_inputs(request)
    if asked is None:
        return None
    try:
        contents = list(walk_files(asked.watched))
    except OSError:
        return None
    variables = find_variables(content for _, content in contents if content is not None)
    if variables is None:
        return None
    return ProjectInputs(asked.watched, variables, asked.profile, asked.target), digest_files(contents)


def keep_project(
    request: ProjectRequest, file: Path, inputs: ProjectInputs, files: str, project: CompiledProject
) -> None:
    """Writes the tables of a project, unless they could not be read as they are, or have a secret."""
    parts = (
        tuple(map(strip_texts, project.models)),
        tuple(replace(source, connection={}) for source in project.sources),
        tuple(map(strip_texts, project.landing)),
        project.graph.nodes,
    )
    try:
        encoded = {name: encode_value(part) for name, part in zip(_PARTS, parts, strict=True)}
        content = json.dumps({"inputs": asdict(inputs), **encoded})
        if tuple(map(decode_value, json.loads(json.dumps(list(encoded.values()))))) != parts:
            return
        if not _is_same_profile(_read_profile(request, inputs), project.profile):
            return
        if any(secret in content for secret in _list_secrets(inputs, project)):
            return
        digest = _sign_content(create_private_key(), request, inputs, files, content)
        written = {"digest": digest, "names": _list_names(project), "content": content}
        write_atomically(file, json.dumps(written).encode())
    except (*_DAMAGE, UnreadableSettings, ArcticError):
        return


def _list_names(project: CompiledProject) -> dict[str, list[str]]:
    """Lists the names that a shell completes; nobody else reads them, so they are not signed."""
    ingested = [table.table.name for source in project.sources for table in source.tables]
    return {
        MODELS: sorted({*ingested, *(model.table.name for model in project.models)}),
        SOURCES: [source.name for source in project.sources],
    }


def strip_texts(model: Model) -> Model:
    """Returns a model without its query, checks, comments and foreign tables, which only its runs need."""
    quarantine = None if model.quarantine is None else strip_texts(model.quarantine)
    texts: dict[str, Any] = {"sql": "", "checks": (), "comment": None, "column_comments": {}}
    return replace(model, **texts, foreign_tables=frozenset(), quarantine=quarantine)


def _is_same_profile(own: Profile, compiled: Profile) -> bool:
    return own == compiled and (own.clone_ttl_seconds, own.keep_alive_seconds, own.thresholds) == (
        compiled.clone_ttl_seconds,
        compiled.keep_alive_seconds,
        compiled.thresholds,
    )


def _list_secrets(inputs: ProjectInputs, project: CompiledProject) -> Iterator[str]:
    """Yields the values of settings and environment variables whose names mark them as secret, escaped as in JSON."""
    values: list[tuple[str, Any]] = [
        *select_environment(os.environ, inputs.variables),
        *project.profile.catalog_properties.items(),
        *project.profile.settings.items(),
        *(setting for source in project.sources for setting in _list_settings(source)),
    ]
    for name, value in values:
        if value and (is_secret(name) or name.startswith(_SECRET_PREFIX)):
            yield json.dumps(str(value))[1:-1]


def _list_settings(source: IngestSource) -> Iterator[tuple[str, Any]]:
    for name, value in source.connection.items():
        yield from value.items() if isinstance(value, Mapping) else ((name, value),)
