"""The chart: sets of values, rendered and validated for three versions of Kubernetes; it is what kustomize makes."""

import importlib.util
import re
import shutil
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest
import yaml

from skewscope.adapters.agent.config import load as load_agent
from skewscope.adapters.controller import config
from tests.support.certificates import signed_by_itself

ROOT = Path(__file__).resolve().parents[1]
CHART, KUBERNETES = ROOT / "deploy" / "chart", ROOT / "deploy" / "kubernetes"
SETS = ("observe", "pair", "act", "without-dpus")
VERSIONS = ("1.29", "1.33", "1.36")
CUSTOM = {"ServiceMonitor", "PodMonitor", "PrometheusRule"}
"""Kinds of the Prometheus operator, which are no part of Kubernetes."""

needs_helm = pytest.mark.skipif(not shutil.which("helm"), reason="no helm here")
needs_kubectl = pytest.mark.skipif(not shutil.which("kubectl"), reason="no kubectl here")


@cache
def render(name, *more):
    """Returns the objects of a set of values."""
    words = [
        "helm",
        "template",
        "skewscope",
        str(CHART),
        "-n",
        "skewscope",
        "-f",
        str(CHART / "ci" / f"{name}.yaml"),
        *more,
    ]
    made = subprocess.run(words, capture_output=True, text=True, check=True, timeout=60).stdout
    return [one for one in yaml.safe_load_all(made) if one]


def find(name, kind, of="skewscope"):
    (found,) = (one for one in render(name) if one["kind"] == kind and one["metadata"]["name"] == of)
    return found


def pods_of(name):
    """Yields the specs of all pods."""
    for one in render(name):
        if one["kind"] in ("StatefulSet", "DaemonSet"):
            yield one["spec"]["template"]["spec"]
        elif one["kind"] == "CronJob":
            yield one["spec"]["jobTemplate"]["spec"]["template"]["spec"]


def test_every_set_of_values_is_tried():
    assert {path.stem for path in (CHART / "ci").iterdir()} == set(SETS)


@needs_helm
@pytest.mark.parametrize("name", SETS)
def test_helm_finds_nothing_wrong(name):
    words = ["helm", "lint", "--strict", str(CHART), "-f", str(CHART / "ci" / f"{name}.yaml")]
    done = subprocess.run(words, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 0, done.stdout


@needs_helm
@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("name", SETS)
def test_every_object_is_valid(name, version):
    validate = pytest.importorskip("kubernetes_validate")
    for one in render(name):
        if one["kind"] not in CUSTOM:
            validate.validate(one, version, strict=True)


@needs_helm
@pytest.mark.parametrize("name", SETS)
def test_the_configs_are_valid(name, tmp_path, monkeypatch):
    (tmp_path / "lib").mkdir()
    data = find(name, "ConfigMap")["data"]
    knowledge = [one for one in render(name) if one["metadata"]["name"] == "skewscope-knowledge"]
    text = data["skewscope.yaml"].replace("/var/lib/skewscope", str(tmp_path / "lib"))
    if knowledge:
        write_knowledge(name, knowledge[0], tmp_path / "knowledge")
        text = text.replace("/etc/skewscope-knowledge", "knowledge")
    signed_by_itself(tmp_path, "tls.crt", "tls.key")
    for secret in ("reader", "agents", "ops"):
        (tmp_path / secret).write_text(f"{secret}-0123456789abcdef-0123456789abcdef")
    text = re.sub(r"/etc/skewscope-(tokens|tls)/", "", text)
    account = "/var/run/secrets/kubernetes.io/serviceaccount/"
    if account in text:
        shutil.copy(tmp_path / "tls.crt", tmp_path / "ca.crt")
        (tmp_path / "token").write_text("token-0123456789abcdef")
        text = text.replace(account, "")
    (tmp_path / "skewscope.yaml").write_text(text)
    (tmp_path / "topology.yaml").write_text(data["topology.yaml"])
    found = config.read(tmp_path / "skewscope.yaml")
    assert (found.leader is not None) == (find(name, "StatefulSet")["spec"]["replicas"] > 1)
    assert (found.knowledge is not None) == bool(knowledge)
    agents = [
        one for one in render(name) if one["metadata"]["name"] == "skewscope-agent" and one["kind"] == "ConfigMap"
    ]
    monkeypatch.setenv("NODE_NAME", "node-0")
    for one in agents:
        (tmp_path / "agent.yaml").write_text(one["data"]["agent.yaml"])
        assert load_agent(tmp_path / "agent.yaml").node == "node-0"


def write_knowledge(name, config_map, folder):
    """Writes the files of the knowledge as the volume of the pod has them."""
    (volume,) = (one for one in next(pods_of(name))["volumes"] if one["name"] == "knowledge")
    for item in volume["configMap"]["items"]:
        path = folder / item["path"]
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(config_map["data"][item["key"]])


@needs_helm
@pytest.mark.parametrize("name", SETS)
def test_pods_have_read_only_roots_and_no_privileges(name):
    for pod in pods_of(name):
        for container in pod["containers"]:
            context = container["securityContext"]
            assert context["readOnlyRootFilesystem"] is True
            assert context["allowPrivilegeEscalation"] is False
            assert context["capabilities"]["drop"] == ["ALL"]
            is_root = context.get("runAsUser", pod["securityContext"].get("runAsUser")) == 0
            assert is_root == (context["capabilities"].get("add") == ["NET_RAW"])
            assert container["resources"]["limits"]["memory"]


@needs_helm
@pytest.mark.parametrize("name", SETS)
def test_what_is_named_is_there(name):
    """What pods and bindings name is in the chart; their secrets are made by commands of a page."""
    made = {(one["kind"], one["metadata"]["name"]) for one in render(name)}
    page = (ROOT / "docs" / "tokens.md").read_text()
    for pod in pods_of(name):
        assert ("ServiceAccount", pod["serviceAccountName"]) in made
        for volume in pod["volumes"]:
            if "configMap" in volume:
                assert ("ConfigMap", volume["configMap"]["name"]) in made
            if "secret" in volume:
                assert re.search(rf"create secret \w+ {volume['secret']['secretName']}\b", page)
    for one in render(name):
        if one["kind"].endswith("Binding"):
            assert (one["roleRef"]["kind"], one["roleRef"]["name"]) in made
            assert all((each["kind"], each["name"]) in made for each in one["subjects"])


@needs_helm
def test_agents_run_on_tainted_nodes_each_with_its_own_token():
    pod = find("observe", "DaemonSet", "skewscope-agent")["spec"]["template"]["spec"]
    assert {each["key"] for each in pod["tolerations"]} == {"nvidia.com/gpu", "amd.com/gpu"}
    assert pod["priorityClassName"] == "system-node-critical"
    mounts = {each["mountPath"]: each for each in pod["containers"][0]["volumeMounts"]}
    assert mounts["/etc/skewscope-token/token"]["subPathExpr"] == "$(NODE_NAME)"


@needs_helm
@pytest.mark.parametrize("name", SETS)
def test_the_controller_gets_a_token_of_kubernetes_only_where_it_uses_one(name):
    uses = name in ("act", "pair")
    assert find(name, "ServiceAccount")["automountServiceAccountToken"] is uses
    pod = find(name, "StatefulSet")["spec"]["template"]["spec"]
    assert pod["automountServiceAccountToken"] is uses
    roles = {one["metadata"]["name"] for one in render(name) if one["kind"] in ("Role", "ClusterRole")}
    expected = {"act": {"skewscope-nodes", "skewscope-evict", "skewscope-node-condition"}, "pair": {"skewscope-leader"}}
    assert roles == expected.get(name, set())
    reaches = [one for one in render(name) if one["metadata"]["name"] == "skewscope-api-server"]
    assert bool(reaches) is uses


@needs_helm
def test_pods_are_evicted_only_in_namespaces_that_are_named():
    bindings = [
        one for one in render("act") if one["metadata"]["name"] == "skewscope-evict" and "Binding" in one["kind"]
    ]
    assert [(one["kind"], one["metadata"]["namespace"]) for one in bindings] == [("RoleBinding", "serving")]


@needs_helm
def test_what_monitors_selects_the_pods_and_has_all_alerts():
    labels = find("act", "StatefulSet")["spec"]["template"]["metadata"]["labels"]
    assert (
        find("act", "ServiceMonitor")["spec"]["selector"]["matchLabels"]
        == find("act", "Service")["metadata"]["labels"]
        == labels
    )
    agent = find("act", "DaemonSet", "skewscope-agent")["spec"]["template"]
    monitor = find("act", "PodMonitor", "skewscope-agent")["spec"]
    assert monitor["selector"]["matchLabels"] == agent["metadata"]["labels"]
    ports = {each["name"] for each in agent["spec"]["containers"][0]["ports"]}
    assert {each["port"] for each in monitor["podMetricsEndpoints"]} <= ports
    rules = yaml.safe_load((ROOT / "deploy" / "prometheus" / "skewscope.rules.yaml").read_text())
    assert find("act", "PrometheusRule")["spec"] == rules


@needs_helm
def test_a_changed_config_replaces_the_pods():
    text = find("observe", "StatefulSet")["spec"]["template"]["metadata"]["annotations"]["checksum/config"]
    (other,) = (one for one in render("observe", "--set", "topology=version: 1") if one["kind"] == "StatefulSet")
    assert other["spec"]["template"]["metadata"]["annotations"]["checksum/config"] != text


# --- kustomize


def load_renderer():
    spec = importlib.util.spec_from_file_location("render", ROOT / "deploy" / "render.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@needs_helm
def test_the_files_for_kustomize_are_those_of_the_chart():
    made = load_renderer().list_files()
    here = {str(path.relative_to(KUBERNETES)): path.read_text() for path in KUBERNETES.glob("*/*.yaml")}
    here = {name: text for name, text in here.items() if not name.endswith("kustomization.yaml")}
    assert made.keys() == here.keys()
    assert [name for name, text in made.items() if here[name] != text] == [], "run python deploy/render.py"


@needs_kubectl
@pytest.mark.parametrize("components", [[], ["api-access", "acting", "leader-election", "monitoring"]])
def test_kustomize_makes_valid_objects_of_them(components, tmp_path):
    validate = pytest.importorskip("kubernetes_validate")
    shutil.copytree(KUBERNETES, tmp_path / "k")
    path = tmp_path / "k" / "kustomization.yaml"
    path.write_text(path.read_text() + f"components: {components}\n")
    words = ["kubectl", "kustomize", str(tmp_path / "k")]
    made = subprocess.run(words, capture_output=True, text=True, check=False, timeout=60)
    assert made.returncode == 0, made.stderr
    found = [one for one in yaml.safe_load_all(made.stdout) if one]
    for one in found:
        if one["kind"] not in CUSTOM:
            validate.validate(one, VERSIONS[-1], strict=True)
    (work,) = (one for one in found if one["kind"] == "StatefulSet")
    spec = work["spec"]["template"]["spec"]
    assert spec["automountServiceAccountToken"] is bool(components)
    assert (
        spec["containers"][0]["image"]
        == f"registry.example/skewscope:{yaml.safe_load((CHART / 'Chart.yaml').read_text())['version']}"
    )


def test_the_version_of_the_chart_is_that_of_the_program():
    version = re.search(r'^version = "(.+)"', (ROOT / "pyproject.toml").read_text(), re.MULTILINE)[1]
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text())
    values = yaml.safe_load((CHART / "values.yaml").read_text())
    assert {chart["version"], chart["appVersion"], values["image"]["tag"], values["agent"]["image"]["tag"]} == {version}


def test_the_config_of_the_page_without_dpus_is_valid(tmp_path):
    (text,) = re.findall(r"```yaml\n(.*?)```", (ROOT / "docs" / "without-dpus.md").read_text(), re.DOTALL)
    (tmp_path / "skewscope.yaml").write_text(text)
    assert [source.kind for source in config.read(tmp_path / "skewscope.yaml").sources] == ["prometheus-query"]


def test_the_commands_of_the_page_on_tokens_make_what_a_controller_takes(tmp_path):
    """Its first block is run as it is, and the config of the chart reads what it makes."""
    page = (ROOT / "docs" / "tokens.md").read_text()
    (block,) = re.findall(r"## Make them\n\n((?:    .*\n)+)", page)
    values = yaml.safe_load((CHART / "values.yaml").read_text())
    text = re.sub(r"/etc/skewscope-(tokens|tls)/", "", values["config"]).replace("/var/lib/skewscope/", "")
    (tmp_path / "skewscope.yaml").write_text(text)
    (tmp_path / "topology.yaml").write_text(values["topology"])
    program = f"{sys.executable} -m skewscope.tui.cli.main"
    script = re.sub(r"^    ", "", block, flags=re.MULTILINE).replace("    skewscope ", "skewscope ")
    script = re.sub(r"^skewscope ", f"{program} ", script, flags=re.MULTILINE)
    done = subprocess.run(
        ["bash", "-euc", script], cwd=tmp_path, capture_output=True, text=True, check=False, timeout=120
    )
    assert done.returncode == 0, done.stderr
    assert {path.name for path in (tmp_path / "tokens").iterdir()} == {"node-0", "node-1"}
    found = config.read(tmp_path / "skewscope.yaml")
    assert found.tls is not None
    assert found.agent_secret is not None
