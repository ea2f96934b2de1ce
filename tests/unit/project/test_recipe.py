"""The recipe for AWS: what it says of charts, clusters and images holds; `tests/open/test_recipe.py` types the rest."""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
import yaml

from arctic_runtime.spark.engine.java.jars import GROUPS
from tests.recipe_aws import CHART, EXEC, HELM, NAMESPACE, PAGE, ROOT, read_blocks, read_values

needs_helm = pytest.mark.skipif(not HELM.exists(), reason="there is no wheel of helm for this machine")
needs_kubectl = pytest.mark.skipif(shutil.which("kubectl") is None, reason="kubectl is not installed")


def list_commands() -> list[list[str]]:
    """Lists the commands of the page that need a cluster or a builder of images, as words."""
    blocks = re.findall(r"^```text\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
    lines = [line for block in blocks for line in block.replace("\\\n", " ").splitlines()]
    return [shlex.split(line) for line in lines if re.match(r"(kubectl|helm|docker) ", line)]


def select_commands(*words: str) -> list[list[str]]:
    """Selects the commands that have all of some words."""
    return [command for command in list_commands() if set(words) <= set(command)]


def render(command: list[str], folder: Path) -> dict[str, Any]:
    """Renders what a command of Helm installs, by kind; the options are those of the command."""
    (folder / "my-values.yaml").write_text(yaml.safe_dump(read_values()))
    words = ["template", *(str(CHART) if word == "deploy/helm/arctic" else word for word in command[2:])]
    done = subprocess.run([HELM, *words], cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return {document["kind"]: document for document in yaml.safe_load_all(done.stdout)}


@pytest.fixture
def installed(tmp_path: Path) -> dict[str, Any]:
    (command,) = select_commands("helm", "install")
    return render(command, tmp_path)


@needs_helm
@pytest.mark.parametrize("verb", ["install", "upgrade"])
def test_the_chart_with_the_values_of_the_recipe_is_as_kubernetes_schemas_say(verb: str, tmp_path: Path) -> None:
    (command,) = select_commands("helm", verb)
    documents = render(command, tmp_path)
    assert "ServiceMonitor" in documents
    for kind, document in documents.items():
        if kind != "ServiceMonitor":
            kubernetes_validate.validate(document, kubernetes_validate.latest_version(), strict=True)
    (target,) = yaml.safe_load(documents["ConfigMap"]["data"]["profiles.yml"])["shop"]["outputs"].values()
    assert target["catalog_config"] == {"type": "glue", "warehouse": "s3://lake/shop"}
    (container,) = documents["Deployment"]["spec"]["template"]["spec"]["containers"]
    assert container["image"].rpartition(":")[2] == {"install": "1.0.0", "upgrade": "1.1.0"}[verb]


@needs_helm
def test_commands_name_what_the_chart_installs(installed: dict[str, Any]) -> None:
    deployment, service = installed["Deployment"], installed["Service"]
    names = {"deployment/" + deployment["metadata"]["name"], "service/" + service["metadata"]["name"]}
    pod = deployment["spec"]["template"]
    for command in list_commands():
        if command[0] == "kubectl":
            assert {word for word in command if re.match(r"(deployment|service)/", word)} <= names
            assert command[2] in (NAMESPACE, "namespace")
    for command in select_commands("wait"):
        key, _, value = command[command.index("--selector") + 1].partition("=")
        assert pod["metadata"]["labels"][key] == value
        (seconds,) = re.findall(r"--timeout=(\d+)s", shlex.join(command))
        assert int(seconds) > pod["spec"]["terminationGracePeriodSeconds"]
    (forwarded,) = select_commands("port-forward")
    (port,) = service["spec"]["ports"]
    assert forwarded[-1] == f"8470:{port['port']}"
    scaled = {word for command in select_commands("scale") for word in command if word.startswith("--replicas")}
    assert scaled == {"--replicas=0", f"--replicas={deployment['spec']['replicas']}"}
    assert select_commands("rollback") == [["helm", "rollback", "shop", "--namespace", NAMESPACE]]


@needs_helm
def test_the_role_of_the_recipe_is_for_the_account_of_the_pods(installed: dict[str, Any]) -> None:
    (trust,) = read_blocks("1. Bucket and rights", "json")
    name = installed["Deployment"]["spec"]["template"]["spec"]["serviceAccountName"]
    assert f'"system:serviceaccount:{NAMESPACE}:{name}"' in trust
    role = installed["ServiceAccount"]["metadata"]["annotations"]["eks.amazonaws.com/role-arn"]
    (created,) = re.findall(r"aws iam create-role --role-name (\S+)", PAGE)
    assert role.endswith(f":role/{created}")


@needs_kubectl
def test_the_secret_of_the_recipe_is_the_one_that_the_chart_reads(tmp_path: Path) -> None:
    (tmp_path / "secrets.env").write_text("ARCTIC_TOKEN=x\nSHOP_PASSWORD=y\n")
    namespace, secret = (
        yaml.safe_load(
            subprocess.check_output([*command, "--dry-run=client", "--output=yaml"], cwd=tmp_path, text=True)
        )
        for command in select_commands("kubectl", "create")
    )
    assert namespace["metadata"]["name"] == secret["metadata"]["namespace"] == NAMESPACE
    assert secret["metadata"]["name"] == yaml.safe_load((CHART / "values.yaml").read_text())["secret"]
    assert set(secret["data"]) == {"ARCTIC_TOKEN", "SHOP_PASSWORD"}


def test_alerts_become_a_rule_of_the_operator() -> None:
    (block,) = read_blocks("5. Alerts")
    text, _, command = block.partition(" | kubectl ")
    assert shlex.split(command) == ["-n", "monitoring", "apply", "-f", "-"]
    rule = yaml.safe_load(subprocess.check_output(["bash", "-e", "-c", text], cwd=ROOT, text=True))
    assert rule["kind"] == "PrometheusRule"
    assert rule["spec"] == yaml.safe_load((ROOT / "deploy" / "prometheus" / "alerts.yml").read_text())


def test_images_have_extras_and_jars_that_exist() -> None:
    (built,) = select_commands("docker", "--build-arg")
    arguments = dict(word.split("=", 1) for word in built if word.startswith(("EXTRAS=", "JARS=")))
    table = re.findall(r"`EXTRAS=([\w,]+)`, `JARS=(\w+)`", PAGE)
    assert (arguments["EXTRAS"], arguments["JARS"]) == table[0]
    dockerfile = (ROOT / built[built.index("-f") + 1]).read_text()
    declared = set(re.findall(r"^(\w+) = \[", (ROOT / "pyproject.toml").read_text(), re.MULTILINE))
    for extras, jars in table:
        assert set(extras.split(",")) <= declared
        assert jars in GROUPS
    assert all(f"\nARG {name}=" in dockerfile for name in arguments)
    image = read_values()["image"]
    assert {command[-1] for command in select_commands("docker", "push")} == {f"{image['repository']}:{image['tag']}"}


def test_what_the_page_says_of_its_tests_is_so() -> None:
    """The suite on open servers types all commands of these parts but those for a cluster."""
    text = (ROOT / "tests" / "open" / "test_recipe.py").read_text()
    headings = set(re.findall(r'read_blocks\("(\d)[^"]+"', text))
    assert f"commands of parts {' and '.join(', '.join(sorted(headings)).rsplit(', ', 1))} " in PAGE
    assert EXEC in PAGE
