"""A small Iceberg REST catalog in memory, for tests: `python -m tests.rest_catalog FOLDER` prints its address.

It keeps metadata as the JSON that clients send and read, compares and swaps under one lock, and refuses a commit
whose requirements don't hold. Files lie below FOLDER. It listens on the loopback alone.
"""

from __future__ import annotations

import copy
import json
import sys
import threading
import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, ClassVar
from urllib.parse import unquote, urlsplit

Json = dict[str, Any]
ADDED_SCHEMA = "added-schema"
"""Which schema a commit added last, while it is applied."""
COUNTERS = {"last-assigned-field-id": "last-column-id", "last-assigned-partition-id": "last-partition-id"}
"""The names that metadata has for counters which requirements name otherwise."""
NAMESPACES = "/v1/{prefix}/namespaces"
REGISTER = f"{NAMESPACES}/{{namespace}}/register"
TRANSACTION = "/v1/{prefix}/transactions/commit"
ENDPOINTS = (
    *(f"{verb} {NAMESPACES}" for verb in ("GET", "POST")),
    *(f"{verb} {NAMESPACES}/{{namespace}}" for verb in ("GET", "HEAD", "DELETE")),
    *(f"{verb} {NAMESPACES}/{{namespace}}/{kind}s" for verb in ("GET", "POST") for kind in ("table", "view")),
    *(
        f"{verb} {NAMESPACES}/{{namespace}}/{kind}s/{{{kind}}}"
        for verb in ("GET", "HEAD", "POST", "DELETE")
        for kind in ("table", "view")
    ),
    f"POST {NAMESPACES}/{{namespace}}/properties",
    f"POST {REGISTER}",
    f"POST {TRANSACTION}",
    "POST /v1/{prefix}/tables/rename",
    "POST /v1/{prefix}/views/rename",
)


class Refused(Exception):
    def __init__(self, code: int, kind: str, message: str) -> None:
        super().__init__(message)
        self.answer = {"error": {"code": code, "type": kind, "message": message}}
        self.code = code


@dataclass
class Catalog:
    """Namespaces and their tables and views; every method is one request.

    Other servers lack something: they do not stage the creation of a table (`stages`), or forget the branches of tables
    (`keeps_branches`), have no views (`has_views`), do not take metadata files of others (`registers`), or change one
    table at a time (`has_transactions`). `config` is what they return with each table, such as credentials.
    """

    folder: Path
    stages: bool = True
    keeps_branches: bool = True
    has_views: bool = True
    registers: bool = True
    has_transactions: bool = True
    config: Json = field(default_factory=dict)
    namespaces: dict[str, Json] = field(default_factory=dict)
    tables: dict[tuple[str, str], Json] = field(default_factory=dict)
    views: dict[tuple[str, str], Json] = field(default_factory=dict)
    lock: threading.RLock = field(default_factory=threading.RLock)

    def held(self, kind: str) -> dict[tuple[str, str], Json]:
        return self.tables if kind == "tables" else self.views

    def of(self, kind: str, namespace: str, name: str) -> Json:
        """Where the namespace is not there either it is still the table that is missed, as the protocol says."""
        try:
            return self.held(kind)[namespace, name]
        except KeyError:
            noun = kind.removesuffix("s").capitalize()
            raise Refused(404, f"NoSuch{noun}Exception", f"{noun} does not exist: {namespace}.{name}") from None

    def namespace(self, name: str) -> Json:
        if name not in self.namespaces:
            raise Refused(404, "NoSuchNamespaceException", f"Namespace does not exist: {name}")
        return self.namespaces[name]

    def create_namespace(self, asked: Json) -> Json:
        name = ".".join(asked["namespace"])
        if name in self.namespaces:
            raise Refused(409, "AlreadyExistsException", f"Namespace already exists: {name}")
        self.namespaces[name] = asked.get("properties", {})
        return {"namespace": asked["namespace"], "properties": self.namespaces[name]}

    def update_namespace(self, name: str, asked: Json) -> Json:
        known, removals, updates = self.namespace(name), asked.get("removals") or [], asked.get("updates") or {}
        removed = [key for key in removals if known.pop(key, None) is not None]
        known.update(updates)
        return {"removed": removed, "updated": [*updates], "missing": [key for key in removals if key not in removed]}

    def drop_namespace(self, name: str) -> None:
        self.namespace(name)
        if any(namespace == name for namespace, _ in [*self.tables, *self.views]):
            raise Refused(409, "NamespaceNotEmptyException", f"Namespace {name} is not empty")
        del self.namespaces[name]

    def create(self, kind: str, namespace: str, asked: Json) -> Json:
        self.namespace(namespace)
        name = asked["name"]
        if asked.get("stage-create") and not self.stages:
            raise Refused(400, "BadRequestException", "stage-create is not supported")
        self.refuse_taken(namespace, name)
        location = asked.get("location") or f"file://{self.folder}/{namespace}/{name}"
        made = new_table(asked, location) if kind == "tables" else new_view(asked, location)
        if asked.get("stage-create"):
            return {"metadata": made, "config": {}}
        return self.keep(kind, namespace, name, made)

    def register(self, namespace: str, asked: Json) -> Json:
        self.namespace(namespace)
        self.refuse_taken(namespace, asked["name"])
        address = asked["metadata-location"]
        metadata = json.loads(Path(urlsplit(address).path).read_text())
        kept = {"metadata-location": address, "metadata": metadata, "config": {}}
        self.tables[namespace, asked["name"]] = kept
        return kept

    def commit(self, kind: str, namespace: str, name: str, asked: Json) -> Json:
        return self.keep(kind, namespace, name, self.change(kind, namespace, name, asked))

    def commit_transaction(self, asked: Json) -> None:
        """All changes are computed, and their requirements checked, before one of them is kept."""
        changed = []
        for change in asked["table-changes"]:
            at = ".".join(change["identifier"]["namespace"]), change["identifier"]["name"]
            if any(requirement["type"] == "assert-create" for requirement in change["requirements"]):
                raise Refused(400, "BadRequestException", "A transaction can't create a table")
            changed.append((*at, self.change("tables", *at, change)))
        for namespace, name, metadata in changed:
            self.keep("tables", namespace, name, metadata)

    def change(self, kind: str, namespace: str, name: str, asked: Json) -> Json:
        """What a relation is after a commit; nothing is kept yet."""
        is_new = any(requirement["type"] == "assert-create" for requirement in asked["requirements"])
        if is_new:
            self.refuse_taken(namespace, name)
        base = empty_table() if is_new else self.of(kind, namespace, name)["metadata"]
        for requirement in asked["requirements"]:
            check(requirement, base, kind)
        changed = copy.deepcopy(base)
        for update in asked["updates"]:
            UPDATES[update["action"]](changed, update)
        changed.pop(ADDED_SCHEMA, None)
        if kind == "tables":
            check_time(changed, base, asked["updates"], is_new)
            if not self.keeps_branches:
                changed["refs"] = {name: ref for name, ref in changed["refs"].items() if name == "main"}
        return changed

    def rename(self, kind: str, asked: Json) -> None:
        source, target = (
            (".".join(relation["namespace"]), relation["name"]) for relation in (asked["source"], asked["destination"])
        )
        moved = self.of(kind, *source)
        self.namespace(target[0])
        self.refuse_taken(*target)
        self.held(kind)[target] = moved
        del self.held(kind)[source]

    def refuse_taken(self, namespace: str, name: str) -> None:
        for noun, held in (("Table", self.tables), ("View", self.views)):
            if (namespace, name) in held:
                raise Refused(409, "AlreadyExistsException", f"{noun} already exists: {namespace}.{name}")

    def keep(self, kind: str, namespace: str, name: str, metadata: Json) -> Json:
        """Keeps what a relation is now, and writes it down, as readers of files expect."""
        folder = Path(urlsplit(metadata["location"]).path) / "metadata"
        folder.mkdir(parents=True, exist_ok=True)
        number = len(list(folder.glob("*.metadata.json")))
        file = folder / f"{number:05}-{uuid.uuid4()}.metadata.json"
        file.write_text(json.dumps(metadata))
        kept = {"metadata-location": f"file://{file}", "metadata": metadata, "config": self.config}
        self.held(kind)[namespace, name] = kept
        return kept


def now() -> int:
    return round(time.time() * 1000)


def empty_table() -> Json:
    return {
        "format-version": 2,
        "table-uuid": str(uuid.uuid4()),
        "location": "",
        "last-sequence-number": 0,
        "last-updated-ms": 0,
        "last-column-id": 0,
        "last-partition-id": 999,
        "current-schema-id": -1,
        "default-spec-id": -1,
        "default-sort-order-id": -1,
        "properties": {},
        "refs": {},
        **{
            name: []
            for name in ("schemas", "partition-specs", "sort-orders", "snapshots", "snapshot-log", "metadata-log")
        },
    }


def new_table(asked: Json, location: str) -> Json:
    from pyiceberg.partitioning import UNPARTITIONED_PARTITION_SPEC, PartitionSpec
    from pyiceberg.schema import Schema
    from pyiceberg.table.metadata import new_table_metadata
    from pyiceberg.table.sorting import UNSORTED_SORT_ORDER, SortOrder

    spec, order = asked.get("partition-spec"), asked.get("write-order")
    properties = dict(asked.get("properties") or {})
    version = int(properties.pop("format-version", 2))
    metadata = new_table_metadata(
        Schema.model_validate(asked["schema"]),
        PartitionSpec.model_validate(spec) if spec else UNPARTITIONED_PARTITION_SPEC,
        SortOrder.model_validate(order) if order else UNSORTED_SORT_ORDER,
        location,
        {**properties, "format-version": "2"},
    )
    # pyiceberg writes no version 3, which differs here by no more than this.
    made: Json = {**json.loads(metadata.model_dump_json()), "format-version": version}
    return {**made, "next-row-id": 0} if version >= 3 else made


def new_view(asked: Json, location: str) -> Json:
    version = {**asked["view-version"], "schema-id": asked["schema"]["schema-id"]}
    return {
        "view-uuid": str(uuid.uuid4()),
        "format-version": 1,
        "location": location,
        "schemas": [asked["schema"]],
        "current-version-id": version["version-id"],
        "versions": [version],
        "version-log": [{"timestamp-ms": version["timestamp-ms"], "version-id": version["version-id"]}],
        "properties": asked.get("properties") or {},
    }


def check(requirement: Json, base: Json, kind: str) -> None:
    """Raises Refused where a requirement does not hold."""
    what = requirement["type"]
    if what == "assert-create":
        return
    if what == "assert-ref-snapshot-id":
        ref = base["refs"].get(requirement["ref"])
        snapshot, wanted = ref and ref["snapshot-id"], requirement.get("snapshot-id")
    elif what in ("assert-table-uuid", "assert-view-uuid"):
        snapshot, wanted = base["table-uuid" if kind == "tables" else "view-uuid"], requirement["uuid"]
    else:
        key = what.removeprefix("assert-")
        snapshot, wanted = base[COUNTERS.get(key, key)], requirement[key]
    if snapshot != wanted:
        raise Refused(409, "CommitFailedException", f"Requirement failed: {what}: expected {wanted}, found {snapshot}")


def check_time(changed: Json, base: Json, updates: list[Json], is_new: bool) -> None:
    """A table is as old as the last snapshot that was added; as in Iceberg, that is not long before its last commit."""
    added = [update["snapshot"]["timestamp-ms"] for update in updates if update["action"] == "add-snapshot"]
    changed["last-updated-ms"] = added[-1] if added else now()
    if not is_new and changed["last-updated-ms"] < base["last-updated-ms"] - 60_000:
        raise Refused(400, "ValidationException", "Invalid update timestamp: before the last commit")


def add_schema(base: Json, update: Json) -> None:
    schema = update["schema"]
    if "view-uuid" in base and any(known["fields"] == schema["fields"] for known in base["schemas"]):
        return  # As in Iceberg, it is then not the one that was added last.
    if all(known["schema-id"] != schema["schema-id"] for known in base["schemas"]):
        base["schemas"].append(schema)
    base[ADDED_SCHEMA] = schema["schema-id"]
    if "last-column-id" in base:
        base["last-column-id"] = max([base["last-column-id"], *field_ids(schema)])


def field_ids(part: Any) -> Iterator[int]:
    """The ids of all fields of a schema, those inside of types too."""
    if isinstance(part, Mapping):
        yield from (part[key] for key in ("id", "element-id", "key-id", "value-id") if isinstance(part.get(key), int))
        for inner in part.values():
            yield from field_ids(inner)
    elif isinstance(part, list):
        for inner in part:
            yield from field_ids(inner)


def add_spec(base: Json, update: Json) -> None:
    spec = update["spec"]
    base["partition-specs"].append(spec)
    base["last-partition-id"] = max([base["last-partition-id"], *(part["field-id"] for part in spec["fields"])])


def add_snapshot(base: Json, update: Json) -> None:
    snapshot = update["snapshot"]
    base["snapshots"].append(snapshot)
    base["last-sequence-number"] = max(base["last-sequence-number"], snapshot.get("sequence-number", 0))
    if base["format-version"] >= 3:
        if snapshot["first-row-id"] < base.get("next-row-id", 0):
            raise Refused(400, "ValidationException", "The row ids of the snapshot are behind those of the table")
        base["next-row-id"] = base.get("next-row-id", 0) + snapshot.get("added-rows", 0)


def set_ref(base: Json, update: Json) -> None:
    reference = {key: value for key, value in update.items() if key not in ("action", "ref-name")}
    base["refs"][update["ref-name"]] = reference
    if update["ref-name"] == "main":
        base["current-snapshot-id"] = update["snapshot-id"]
        base["snapshot-log"].append({"snapshot-id": update["snapshot-id"], "timestamp-ms": now()})


def remove_snapshots(base: Json, update: Json) -> None:
    gone = set(update["snapshot-ids"])
    for part in ("snapshots", "snapshot-log"):
        base[part] = [kept for kept in base[part] if kept["snapshot-id"] not in gone]
    base["refs"] = {name: ref for name, ref in base["refs"].items() if ref["snapshot-id"] not in gone}


def upgrade(base: Json, update: Json) -> None:
    base["format-version"] = update["format-version"]
    if update["format-version"] >= 3:
        base.setdefault("next-row-id", 0)


def current(base: Json, key: str, wanted: int, last: int) -> None:
    base[key] = last if wanted == -1 else wanted


def add_view_version(base: Json, update: Json) -> None:
    version = update["view-version"]
    if version["schema-id"] == -1:
        if ADDED_SCHEMA not in base:
            raise Refused(400, "ValidationException", "Cannot set last added schema: no schema has been added")
        version = {**version, "schema-id": base[ADDED_SCHEMA]}
    base["versions"].append(version)


def set_view_version(base: Json, update: Json) -> None:
    current(base, "current-version-id", update["view-version-id"], base["versions"][-1]["version-id"])
    base["version-log"].append({"timestamp-ms": now(), "version-id": base["current-version-id"]})


def without(base: Json, part: str, key: str, ids: list[int]) -> None:
    base[part] = [kept for kept in base.get(part, []) if kept[key] not in ids]


def set_part(part: str, base: Json, update: Json) -> None:
    """Replaces the statistics of a snapshot, of the kind `part`."""
    without(base, part, "snapshot-id", [update[part]["snapshot-id"]])
    base[part].append(update[part])


STATISTICS = ("statistics", "partition-statistics")
UPDATES: dict[str, Callable[[Json, Json], Any]] = {
    "assign-uuid": lambda b, u: b.update({"view-uuid" if "view-uuid" in b else "table-uuid": u["uuid"]}),
    "upgrade-format-version": upgrade,
    "add-schema": add_schema,
    "set-current-schema": lambda b, u: current(b, "current-schema-id", u["schema-id"], b.get(ADDED_SCHEMA, 0)),
    "add-spec": add_spec,
    "set-default-spec": lambda b, u: current(b, "default-spec-id", u["spec-id"], b["partition-specs"][-1]["spec-id"]),
    "add-sort-order": lambda b, u: b["sort-orders"].append(u["sort-order"]),
    "set-default-sort-order": lambda b, u: current(
        b, "default-sort-order-id", u["sort-order-id"], b["sort-orders"][-1]["order-id"]
    ),
    "add-snapshot": add_snapshot,
    "set-snapshot-ref": set_ref,
    "remove-snapshots": remove_snapshots,
    "remove-snapshot-ref": lambda b, u: b["refs"].pop(u["ref-name"], None),
    "set-location": lambda b, u: b.update(location=u["location"]),
    "set-properties": lambda b, u: b["properties"].update(u.get("updates") or u.get("updated")),
    "remove-properties": lambda b, u: [b["properties"].pop(key, None) for key in u.get("removals") or u["removed"]],
    "remove-partition-specs": lambda b, u: without(b, "partition-specs", "spec-id", u["spec-ids"]),
    "remove-schemas": lambda b, u: without(b, "schemas", "schema-id", u["schema-ids"]),
    "add-view-version": add_view_version,
    "set-current-view-version": set_view_version,
    **{f"set-{part}": partial(set_part, part) for part in STATISTICS},
    **{
        f"remove-{part}": lambda b, u, part=part: without(b, part, "snapshot-id", [u["snapshot-id"]])  # type: ignore[misc]
        for part in STATISTICS
    },
}


class Handler(BaseHTTPRequestHandler):
    """Requests by their paths: /v1/namespaces/NAMESPACE/{tables,views}/NAME and what is above and below these."""

    catalog: ClassVar[Catalog]
    protocol_version = "HTTP/1.1"
    # Else an answer's body waits until the client has acknowledged its headers: 40 ms a request.
    disable_nagle_algorithm = True

    def _serve(self) -> None:
        length = int(self.headers.get("Content-Length") or 0)
        asked = json.loads(self.rfile.read(length) or b"{}") if length else {}
        path = [unquote(part).replace("\x1f", ".") for part in urlsplit(self.path).path.split("/")[2:]]
        try:
            with self.catalog.lock:
                body = json.dumps(answer(self.catalog, self.command, path, asked) or {}).encode()
            code = 200 if body != b"{}" else 204
        except Refused as refused:
            code, body = refused.code, json.dumps(refused.answer).encode()
        content = b"" if code == 204 or self.command == "HEAD" else body
        self.send_response(code)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    do_GET = do_POST = do_HEAD = do_DELETE = _serve  # noqa: N815

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
        """Nothing: tests print what they want to tell."""


def answer(catalog: Catalog, verb: str, path: list[str], asked: Json) -> Json | None:
    """What a request gets; None for an empty answer."""
    match (verb, *path):
        case "GET", "config":
            known = [endpoint for endpoint in ENDPOINTS if catalog.has_views or "/views" not in endpoint]
            known = [endpoint for endpoint in known if catalog.registers or REGISTER not in endpoint]
            known = [endpoint for endpoint in known if catalog.has_transactions or TRANSACTION not in endpoint]
            return {"defaults": {}, "overrides": {}, "endpoints": known}
        case "GET", "namespaces":
            return {"namespaces": [name.split(".") for name in catalog.namespaces]}
        case "POST", "namespaces":
            return catalog.create_namespace(asked)
        case "GET", "namespaces", name:
            return {"namespace": name.split("."), "properties": catalog.namespace(name)}
        case "HEAD", "namespaces", name:
            catalog.namespace(name)
            return None
        case "DELETE", "namespaces", name:
            return catalog.drop_namespace(name)
        case "POST", "namespaces", name, "properties":
            return catalog.update_namespace(name, asked)
        case "POST", "transactions", "commit" if catalog.has_transactions:
            return catalog.commit_transaction(asked)
        case "POST", "namespaces", name, "register":
            return catalog.register(name, asked)
        case "POST", ("tables" | "views") as kind, "rename":
            return catalog.rename(kind, asked)
        case _, "namespaces", name, ("tables" | "views") as kind, *rest:
            return answer_of_relations(catalog, verb, kind, name, rest, asked)
        case _:
            raise Refused(404, "NotFoundException", f"No such endpoint: {verb} {'/'.join(path)}")


def answer_of_relations(
    catalog: Catalog, verb: str, kind: str, namespace: str, path: list[str], asked: Json
) -> Json | None:
    match (verb, *path):
        case ("GET",):
            catalog.namespace(namespace)
            names = [name for owner, name in catalog.held(kind) if owner == namespace]
            return {"identifiers": [{"namespace": namespace.split("."), "name": name} for name in names]}
        case ("POST",):
            return catalog.create(kind, namespace, asked)
        case "GET", name:
            return catalog.of(kind, namespace, name)
        case "HEAD", name:
            catalog.of(kind, namespace, name)
            return None
        case "POST", name:
            return catalog.commit(kind, namespace, name, asked)
        case "DELETE", name:
            catalog.of(kind, namespace, name)
            del catalog.held(kind)[namespace, name]
            return None
        case "POST", _, "metrics":
            return None
        case _:
            raise Refused(404, "NotFoundException", f"No such endpoint: {verb} {kind} {'/'.join(path)}")


def serve(folder: Path, **lacks: Any) -> ThreadingHTTPServer:
    """A catalog that listens, and that answers once `serve_forever` is called; `lacks` are fields of `Catalog`."""
    handler = type("Bound", (Handler,), {"catalog": Catalog(folder, **lacks)})
    return ThreadingHTTPServer(("127.0.0.1", 0), handler)


if __name__ == "__main__":
    with serve(Path(sys.argv[1]).absolute()) as server:
        print(f"http://127.0.0.1:{server.server_address[1]}", flush=True)
        threading.Thread(target=lambda: (sys.stdin.read(), server.shutdown()), daemon=True).start()
        server.serve_forever()
