"""Files for running the service elsewhere: each is what its tool takes, and what they say of one another holds."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
import yaml
from compose_spec import PyCompose

from arctic_runtime.service.http.guard import OPEN_PATHS
from arctic_runtime.service.http_settings import HttpSettings
from arctic_runtime.service.settings import read_http
from arctic_runtime.spark.engine.java.jars import JAVA_VERSIONS
from tests.unit.service.promtool import needs_promtool, promtool

ROOT = Path(__file__).parents[3]
DEPLOY = ROOT / "deploy"
DOCKER, KUBERNETES = DEPLOY / "docker", DEPLOY / "kubernetes"
DOCKERFILE = (DOCKER / "Dockerfile").read_text()
UNIT = DEPLOY / "systemd" / "arctic.service"
PORT = HttpSettings().port

OLDEST_KUBERNETES = "1.30"
NOT_IN_KUBERNETES = ("Kustomization", "ServiceMonitor")
"""Kinds of other projects, whose schemas Kubernetes does not have."""


def needs(tool: str) -> pytest.MarkDecorator:
    return pytest.mark.skipif(shutil.which(tool) is None, reason=f"{tool} is not installed")


def run(*command: str | Path, expected: int = 0) -> str:
    done = subprocess.run([*map(str, command)], capture_output=True, text=True, check=False, timeout=60, cwd=ROOT)
    assert done.returncode == expected, done.stdout + done.stderr
    return done.stdout + done.stderr


# Containers


def compose() -> dict[str, Any]:
    document: dict[str, Any] = yaml.safe_load((DOCKER / "compose.yml").read_text())
    return document


def test_hadolint_finds_nothing_in_the_dockerfile() -> None:
    assert run(Path(sys.executable).with_name("hadolint"), DOCKER / "Dockerfile") == ""


def test_the_image_has_a_java_that_spark_takes_and_no_root() -> None:
    (java,) = re.findall(r"openjdk-(\d+)-jre-headless", DOCKERFILE)
    assert int(java) in JAVA_VERSIONS
    assert re.findall(r"^USER (.*)$", DOCKERFILE, re.MULTILINE) == ["10001:10001"]


def test_what_the_image_copies_is_there_and_sent_to_the_builder() -> None:
    copied = [
        name for line in re.findall(r"^COPY (?!--from)(.*)$", DOCKERFILE, re.MULTILINE) for name in line.split()[:-1]
    ]
    sent = re.findall(r"^!(.*)$", (DOCKER / "Dockerfile.dockerignore").read_text(), re.MULTILINE)
    assert set(copied) == set(sent)
    assert [name for name in copied if not (ROOT / name).exists()] == []


def test_the_image_looks_after_the_service_on_its_port() -> None:
    assert f"EXPOSE {PORT}\n" in DOCKERFILE
    assert f"http://127.0.0.1:{PORT}/health" in DOCKERFILE


def test_compose_takes_its_file() -> None:
    project = PyCompose.from_yaml((DOCKER / "compose.yml").read_text())
    project.validate()
    with pytest.raises(ValueError, match="imag"):
        PyCompose.from_yaml((DOCKER / "compose.yml").read_text().replace("image: dbt-arctic", "imag: dbt-arctic"))


def test_what_compose_mounts_is_there() -> None:
    mounts = [mount.split(":")[0] for service in compose()["services"].values() for mount in service.get("volumes", [])]
    files = [mount for mount in mounts if mount.startswith(".")]
    assert [file for file in files if not (DOCKER / file).exists()] == []
    assert set(mounts) - set(files) == set(compose()["volumes"])
    build = compose()["services"]["arctic"]["build"]
    assert (DOCKER / build["context"]).resolve() == ROOT
    assert (ROOT / build["dockerfile"]).read_text() == DOCKERFILE


def test_variables_of_compose_are_in_its_example() -> None:
    read = set(re.findall(r"\$\{(\w+)", (DOCKER / "compose.yml").read_text()))
    read |= {secret["environment"] for secret in compose()["secrets"].values()}
    assert set(re.findall(r"^(\w+)=$", (DOCKER / ".env.example").read_text(), re.MULTILINE)) == read


def test_images_have_a_version() -> None:
    images = [service["image"] for service in compose()["services"].values() if "build" not in service]
    assert [image for image in images if not re.search(r":v?\d", image)] == []


def test_ports_of_compose_are_open_to_this_machine_alone() -> None:
    ports = [port for service in compose()["services"].values() for port in service.get("ports", [])]
    assert [port for port in ports if not port.startswith("127.0.0.1:")] == []


@needs_promtool
def test_prometheus_takes_its_configuration() -> None:
    promtool("check", "config", "--syntax-only", DOCKER / "prometheus.yml")


def test_prometheus_scrapes_the_service_under_the_name_that_alerts_expect() -> None:
    (scraped,) = yaml.safe_load((DOCKER / "prometheus.yml").read_text())["scrape_configs"]
    alerts = (DEPLOY / "prometheus" / "alerts.yml").read_text()
    assert scraped["static_configs"] == [{"targets": [f"arctic:{PORT}"]}]
    assert set(re.findall(r'job="(\w+)"', alerts)) == {scraped["job_name"]}


def profile(file: Path) -> dict[str, Any]:
    (target,) = yaml.safe_load(file.read_text())["shop"]["outputs"].values()
    values: dict[str, Any] = target
    return values


@pytest.mark.parametrize("file", [DOCKER / "shop" / "profiles.yml", KUBERNETES / "profiles.yml"], ids=str)
def test_the_service_answers_to_the_names_that_others_call(file: Path) -> None:
    http = HttpSettings(**profile(file)["serve"]["http"] | {"token": "x" * 32})
    assert http.allows_host("arctic")
    assert http.allows_host("10.1.2.3")
    assert not http.allows_host("elsewhere.example.com")


def test_the_project_of_compose_reads_the_tables_that_its_database_has() -> None:
    (source,) = yaml.safe_load((DOCKER / "shop" / "models" / "sources.yml").read_text())["sources"]
    ingest = source["config"]["meta"]["arctic"]["ingest"]
    created = re.findall(r"create table (\w+)", (DOCKER / "postgres" / "shop.sql").read_text())
    services = compose()["services"]
    assert [table["name"] for table in source["tables"]] == created
    assert ingest["host"] in services
    assert ingest["password_env"] in services["arctic"]["environment"]
    assert "cdc" in services["arctic"]["build"]["args"]["EXTRAS"]


# systemd


@needs("systemd-analyze")
def test_systemd_takes_the_unit(tmp_path: Path) -> None:
    """With programs that there are in place of those that it starts."""
    unit = tmp_path / UNIT.name
    unit.write_text(re.sub(r"^(Exec\w+=)\S+", r"\1/bin/true", UNIT.read_text(), flags=re.MULTILINE))
    assert run("systemd-analyze", "verify", "--man=no", unit) == ""


@needs("systemd-analyze")
def test_the_unit_is_hardened() -> None:
    """systemd rates units from 0, closed, to 10, open; 2 is low for a program that has to compile at run time."""
    run("systemd-analyze", "security", "--offline=true", "--no-pager", "--threshold=20", UNIT)


def test_a_stop_reaches_python_alone_and_waits_for_commits() -> None:
    """Java has to live until the refreshes under way have ended."""
    text = UNIT.read_text()
    assert re.search(r"^KillMode=mixed$", text, re.MULTILINE)
    assert re.search(r"^TimeoutStopSec=10min$", text, re.MULTILINE)
    assert re.search(r"^Restart=always$", text, re.MULTILINE)


# Kubernetes


def manifests() -> Iterator[Any]:
    for file in sorted(KUBERNETES.glob("*.yaml")):
        yield from yaml.safe_load_all(file.read_text())


def manifest(kind: str) -> Any:
    (manifest,) = (manifest for manifest in manifests() if manifest["kind"] == kind)
    return manifest


@pytest.mark.parametrize("version", [OLDEST_KUBERNETES, kubernetes_validate.latest_version()])
@pytest.mark.parametrize(
    "manifest",
    [manifest for manifest in manifests() if manifest["kind"] not in NOT_IN_KUBERNETES],
    ids=lambda manifest: manifest["kind"],
)
def test_a_manifest_is_as_kubernetes_schemas_say(manifest: Any, version: str) -> None:
    kubernetes_validate.validate(manifest, version, strict=True)


@needs("kubectl")
def test_kustomize_builds_what_is_applied() -> None:
    built = list(yaml.safe_load_all(run("kubectl", "kustomize", KUBERNETES)))
    own = {manifest["kind"] for manifest in manifests()} - {"Kustomization", "Secret"}
    assert {manifest["kind"] for manifest in built} == own | {"ConfigMap"}
    for manifest in built:
        if manifest["kind"] not in NOT_IN_KUBERNETES:
            kubernetes_validate.validate(manifest, OLDEST_KUBERNETES, strict=True)
    deployment = next(manifest for manifest in built if manifest["kind"] == "Deployment")
    assert deployment["spec"]["template"]["spec"]["containers"][0]["image"] == "shop-arctic:1.0.0"


def test_every_file_is_part_of_what_is_applied() -> None:
    kustomization = manifest("Kustomization")
    files = {file.name for file in KUBERNETES.glob("*.yaml")} - {"kustomization.yaml", "secret.example.yaml"}
    assert set(kustomization["resources"]) == files


def container() -> Any:
    (container,) = manifest("Deployment")["spec"]["template"]["spec"]["containers"]
    return container


def test_probes_ask_what_the_service_answers_without_a_token() -> None:
    probes = {name: container()[name]["httpGet"] for name in ("startupProbe", "livenessProbe", "readinessProbe")}
    assert {probe["path"] for probe in probes.values()} == set(OPEN_PATHS)
    assert {probe["port"] for probe in probes.values()} == {"http"}
    assert container()["ports"] == [{"name": "http", "containerPort": PORT}]


def test_one_replica_leads_and_one_stands_by_on_another_machine() -> None:
    spec = manifest("Deployment")["spec"]
    assert spec["replicas"] == 2
    assert spec["strategy"]["rollingUpdate"] == {"maxSurge": 0, "maxUnavailable": 1}
    assert spec["template"]["spec"]["terminationGracePeriodSeconds"] >= 600
    assert manifest("PodDisruptionBudget")["spec"]["maxUnavailable"] == 1


def test_the_pod_has_the_user_of_the_image_and_no_rights() -> None:
    pod = manifest("Deployment")["spec"]["template"]["spec"]
    assert f"USER {pod['securityContext']['runAsUser']}:{pod['securityContext']['runAsGroup']}" in DOCKERFILE
    assert container()["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }


def test_selectors_select_the_pods() -> None:
    labels = manifest("Deployment")["spec"]["template"]["metadata"]["labels"]
    selectors = [
        manifest("Deployment")["spec"]["selector"]["matchLabels"],
        manifest("Service")["spec"]["selector"],
        manifest("PodDisruptionBudget")["spec"]["selector"]["matchLabels"],
        manifest("NetworkPolicy")["spec"]["podSelector"]["matchLabels"],
    ]
    assert selectors == [labels] * 4
    assert manifest("ServiceMonitor")["spec"]["selector"]["matchLabels"] == manifest("Service")["metadata"]["labels"]


def test_variables_of_the_profile_are_in_the_example_of_the_secret() -> None:
    read = set(re.findall(r"env_var\('(\w+)'\)", (KUBERNETES / "profiles.yml").read_text()))
    secret = manifest("Secret")
    assert set(secret["stringData"]) == read
    (scraped,) = manifest("ServiceMonitor")["spec"]["endpoints"]
    assert scraped["authorization"]["credentials"] == {"name": secret["metadata"]["name"], "key": "ARCTIC_TOKEN"}
    assert container()["envFrom"] == [{"secretRef": {"name": secret["metadata"]["name"]}}]


def test_the_monitor_names_a_port_of_the_service() -> None:
    (port,) = manifest("Service")["spec"]["ports"]
    (scraped,) = manifest("ServiceMonitor")["spec"]["endpoints"]
    assert scraped["port"] == port["name"]
    assert port["targetPort"] == container()["ports"][0]["name"]


def test_no_file_names_where_packages_come_from() -> None:
    texts = [file.read_text() for file in DEPLOY.rglob("*") if file.is_file()]
    assert [text for text in texts if re.search(r"pypi|maven|githubusercontent|index-url", text, re.IGNORECASE)] == []


# Helm


CHART = DEPLOY / "helm" / "arctic"
EXAMPLES = sorted((CHART / "examples").glob("*.yaml"))
HELM = Path(sys.executable).with_name("helm")
needs_helm = pytest.mark.skipif(not HELM.exists(), reason="there is no wheel of helm for this machine")


def render(*values: Path | str, expected: int = 0) -> str:
    """What Helm makes of the chart and of files of values, or of settings such as `replicas=1`."""
    options = [part for value in values for part in (("--values" if isinstance(value, Path) else "--set"), str(value))]
    return run(HELM, "template", "shop", CHART, "--namespace", "warehouse", *options, expected=expected)


def rendered(kind: str, *values: Path | str) -> Any:
    (found,) = (document for document in yaml.safe_load_all(render(*values)) if document["kind"] == kind)
    return found


def chart_profile(*values: Path | str) -> Any:
    (target,) = yaml.safe_load(rendered("ConfigMap", *values)["data"]["profiles.yml"])["shop"]["outputs"].values()
    return target


@needs_helm
def test_helm_finds_nothing_to_say_against_the_chart() -> None:
    assert "[WARNING]" not in run(HELM, "lint", "--strict", CHART)


@needs_helm
@pytest.mark.parametrize("version", [OLDEST_KUBERNETES, kubernetes_validate.latest_version()])
@pytest.mark.parametrize("values", [None, *EXAMPLES], ids=lambda values: values.name if values else "defaults")
def test_a_chart_renders_what_kubernetes_schemas_say(values: Path | None, version: str) -> None:
    documents = list(yaml.safe_load_all(render(*([values] if values else []))))
    assert {"ConfigMap", "Deployment", "NetworkPolicy", "PodDisruptionBudget", "Service", "ServiceAccount"} <= {
        document["kind"] for document in documents
    }
    for document in documents:
        if document["kind"] not in NOT_IN_KUBERNETES:
            kubernetes_validate.validate(document, version, strict=True)


@needs_helm
def test_the_chart_runs_what_the_manifests_run() -> None:
    """But for names, labels and the values that a user gives."""
    ours, chart = manifest("Deployment")["spec"], rendered("Deployment")["spec"]
    assert (chart["replicas"], chart["strategy"]) == (ours["replicas"], ours["strategy"])
    pod, chart_pod = ours["template"]["spec"], chart["template"]["spec"]
    for key in ("securityContext", "terminationGracePeriodSeconds", "automountServiceAccountToken"):
        assert chart_pod[key] == pod[key]
    (container,), (chart_container,) = pod["containers"], chart_pod["containers"]
    different = {"image", "imagePullPolicy", "envFrom"}
    assert {key: value for key, value in chart_container.items() if key not in different} == {
        key: value for key, value in container.items() if key not in different
    }
    assert [volume["name"] for volume in chart_pod["volumes"]] == [volume["name"] for volume in pod["volumes"]]
    assert rendered("NetworkPolicy")["spec"]["egress"] == manifest("NetworkPolicy")["spec"]["egress"]


@needs_helm
@pytest.mark.parametrize("values", [None, *EXAMPLES], ids=lambda values: values.name if values else "defaults")
def test_the_profile_of_the_chart_is_one_that_the_service_takes(values: Path | None) -> None:
    target = chart_profile(*([values] if values else []))
    http = read_http(target["serve"]["http"] | {"token": "x" * 32})
    assert http.allows_host("shop.warehouse.svc")
    assert not http.allows_host("elsewhere.example.com")
    assert ("warehouse" in target) != ("catalog_config" in target)
    if values and values.name == "glue.yaml":
        assert http.allows_host("warehouse.example.com")


@needs_helm
@pytest.mark.parametrize("values", EXAMPLES, ids=lambda values: values.name)
def test_a_catalog_of_an_example_has_nothing_of_the_default_one(values: Path) -> None:
    own = yaml.safe_load(values.read_text())["profile"]["target"].get("catalog_config") or {}
    assert chart_profile(values).get("catalog_config", {}) == {key: own[key] for key in own if own[key] is not None}


@needs_helm
@pytest.mark.parametrize("value", ["replica=1", "replicas=3", "image.repository=", "profile.target=null"])
def test_values_that_mean_nothing_are_refused(value: str) -> None:
    assert "values don't meet the specifications" in render(value, expected=1)
