"""The files of deploy/ are valid, and agree with each other and with the program."""

import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest
import yaml

from skewscope.adapters.agent.config import AgentConfig, load
from skewscope.adapters.controller import config
from skewscope.kb.field_reader import FieldReader
from tests.adapters.controller.processes import running
from tests.support.certificates import signed_by_itself

ROOT = Path(__file__).resolve().parents[1]
DEPLOY = ROOT / "deploy"
AGENT = "skewscope_agent_"
PARTS = ("controller", "agent")
METRIC = re.compile(r"\bskewscope_[a-z_]+\b")
EXAMPLE = re.compile(r"```yaml\n(.*?)```", re.DOTALL)


def documents(part):
    folder = DEPLOY / "kubernetes" / part
    listed = yaml.safe_load((folder / "kustomization.yaml").read_text())["resources"]
    found = [one for name in listed for one in yaml.safe_load_all((folder / name).read_text())]
    return {one["kind"]: one for one in found}


def kustomization(part):
    return yaml.safe_load((DEPLOY / "kubernetes" / part / "kustomization.yaml").read_text())


def pod(part):
    kinds = documents(part)
    return (kinds.get("StatefulSet") or kinds["DaemonSet"])["spec"]["template"]["spec"]


@pytest.mark.parametrize("part", PARTS)
def test_every_file_is_listed_and_every_name_is_there(part):
    folder = DEPLOY / "kubernetes" / part
    made = {name: files for each in kustomization(part)["configMapGenerator"] for name, files in [each.values()]}
    listed = {*kustomization(part)["resources"], *(name for files in made.values() for name in files)}
    assert {file.name for file in folder.iterdir()} == listed | {"kustomization.yaml"}
    volumes = {each["name"]: each for each in pod(part)["volumes"]}
    (container,) = pod(part)["containers"]
    mounted = {each["name"] for each in container["volumeMounts"]}
    claimed = {"data"} if part == "controller" else set()
    assert mounted == {*volumes, *claimed}
    assert volumes["config"]["configMap"]["name"] in made
    assert pod(part)["serviceAccountName"] == documents(part)["ServiceAccount"]["metadata"]["name"]
    images = {each["name"] for each in kustomization(".")["images"]}
    assert container["image"].split(":")[0] in images


@pytest.mark.parametrize("part", PARTS)
def test_selectors_choose_their_own_pods(part):
    kinds = documents(part)
    work = kinds.get("StatefulSet") or kinds["DaemonSet"]
    labels = work["spec"]["template"]["metadata"]["labels"]
    assert work["spec"]["selector"]["matchLabels"] == labels
    if part == "controller":
        assert kinds["Service"]["spec"]["selector"] == labels
        assert kinds["NetworkPolicy"]["spec"]["podSelector"]["matchLabels"] == labels
        assert work["spec"]["serviceName"] == kinds["Service"]["metadata"]["name"]


@pytest.mark.parametrize("part", PARTS)
def test_nobody_may_more_than_he_needs(part):
    assert not {"Role", "ClusterRole", "RoleBinding", "ClusterRoleBinding"} & set(documents(part))
    assert documents(part)["ServiceAccount"]["automountServiceAccountToken"] is False
    assert pod(part)["automountServiceAccountToken"] is False
    (container,) = pod(part)["containers"]
    context = container["securityContext"]
    assert context["allowPrivilegeEscalation"] is False
    assert context["readOnlyRootFilesystem"] is True
    assert context["capabilities"] == {"drop": ["ALL"], **({"add": ["NET_RAW"]} if part == "agent" else {})}
    assert all(mount.get("readOnly") for mount in container["volumeMounts"] if mount["name"] not in ("data", "tmp"))


def local(text, folder):
    """Returns a configuration with the container's paths moved into a folder."""
    for path in set(re.findall(r"/etc/skewscope-[\w./-]+", text)):
        file = folder / path.replace("/", "_")
        file.write_text(f"0123456789abcdef of {file.name}")
        text = text.replace(path, str(file))
    if "tls.crt" in text:
        signed_by_itself(folder, *(f"_etc_skewscope-tls_tls.{end}" for end in ("crt", "key")))
    return text.replace("/var/lib/skewscope", str(folder))


def test_the_configs_in_kubernetes_are_good_and_meet_their_pods(tmp_path, monkeypatch):
    folder = DEPLOY / "kubernetes"
    text = (folder / "controller" / "skewscope.yaml").read_text()
    (tmp_path / "skewscope.yaml").write_text(local(text, tmp_path))
    shutil.copy(folder / "controller" / "topology.yaml", tmp_path)
    found = config.read(tmp_path / "skewscope.yaml")
    (container,) = pod("controller")["containers"]
    mounts = [mount["mountPath"] for mount in container["volumeMounts"]]
    assert [port["containerPort"] for port in container["ports"]] == [found.listen.port] == [config.DEFAULT_PORT]
    ports = documents("controller")["Service"]["spec"]["ports"]
    assert [(port["port"], port["targetPort"]) for port in ports] == [
        (config.DEFAULT_PORT, container["ports"][0]["name"])
    ]
    allowed = [port["port"] for port in documents("controller")["NetworkPolicy"]["spec"]["ingress"][0]["ports"]]
    assert allowed == [config.DEFAULT_PORT]
    named = re.findall(r"(?:file|path|certificate|key): (/[\w./-]+)", text)
    assert len(named) == 6
    assert all(any(path.startswith(f"{mount}/") for mount in mounts) for path in named)
    monkeypatch.setenv("NODE_NAME", "node-0")
    agent = load(folder / "agent" / "agent.yaml")
    assert agent.node == "node-0"
    assert agent.controllers[0].url.endswith(f":{config.DEFAULT_PORT}")
    (container,) = pod("agent")["containers"]
    assert container["livenessProbe"]["httpGet"]["port"] == AgentConfig.listen[1] == agent.listen[1]
    mounts = [mount["mountPath"] for mount in container["volumeMounts"]]
    assert {f"{agent.root}/proc", f"{agent.root}/sys"} <= set(mounts)
    assert {agent.controllers[0].token_file, agent.controllers[0].ca_file} <= set(mounts)
    (own,) = (one for one in container["volumeMounts"] if one["mountPath"] == agent.controllers[0].token_file)
    assert own["subPathExpr"] == "$(NODE_NAME)", "a pod sees the token of its node only"
    assert found.agent_secret is not None
    assert all(token.name != config.ANY_NODE for token in found.tokens)
    assert [each["name"] for each in container["env"]] == ["NODE_NAME"]


def rules_of(part, name):
    """Returns what a cluster role allows: verbs by resource."""
    roles = yaml.safe_load_all((DEPLOY / "kubernetes" / part / "cluster-role.yaml").read_text())
    role = next(one for one in roles if (one["kind"], one["metadata"]["name"]) == ("ClusterRole", name))
    return {kind: set(rule["verbs"]) for rule in role["rules"] for kind in rule["resources"]}


def test_who_acts_on_nodes_may_read_and_patch_them_and_nothing_else():
    assert rules_of("acting", "skewscope-nodes") == {"nodes": {"get", "list", "patch"}}
    assert rules_of("acting", "skewscope-evict") == {"pods": {"list"}, "pods/eviction": {"create"}}
    assert rules_of("watching", "skewscope-watch") == {kind: {"list", "watch"} for kind in ("nodes", "pods")}
    roles = yaml.safe_load_all((DEPLOY / "kubernetes/leader-election/role.yaml").read_text())
    role = next(one for one in roles if one["kind"] == "Role")
    assert [(rule.get("resourceNames"), rule["verbs"]) for rule in role["rules"]] == [
        (None, ["create"]),  # it has no name yet
        (["skewscope", "skewscope-missed"], ["get", "update"]),
    ]
    assert {kind for rule in role["rules"] for kind in rule["resources"]} == {"leases"}
    assert rules_of("node-condition", "skewscope-node-condition") == {"nodes": {"get"}, "nodes/status": {"patch"}}


@pytest.mark.parametrize("part", ["acting", "leader-election", "node-condition", "watching"])
def test_roles_are_bound_to_service_accounts_that_are_there(part):
    folder = DEPLOY / "kubernetes" / part
    listed = yaml.safe_load((folder / "kustomization.yaml").read_text())
    assert {file.name for file in folder.iterdir()} == {*listed["resources"], "kustomization.yaml"}
    found = [one for name in listed["resources"] for one in yaml.safe_load_all((folder / name).read_text())]
    bindings = [one for one in found if one["kind"].endswith("RoleBinding")]
    own = {one["metadata"]["name"] for one in found if one["kind"] == "ServiceAccount"}
    known = own | {documents("controller")["ServiceAccount"]["metadata"]["name"]}
    assert bindings
    assert {subject["name"] for one in bindings for subject in one["subjects"]} <= known
    bound = {one["roleRef"]["name"] for one in bindings}
    assert bound <= {one["metadata"]["name"] for one in found if one["kind"] in ("Role", "ClusterRole")}


def test_a_controller_that_asks_the_api_server_has_a_token_and_reaches_it():
    listed = yaml.safe_load((DEPLOY / "kubernetes/api-access/kustomization.yaml").read_text())
    patched = {each["target"]["name"] for each in listed["patches"]}
    assert patched <= {documents("controller")[kind]["metadata"]["name"] for kind in ("StatefulSet", "ServiceAccount")}
    policy = yaml.safe_load((DEPLOY / "kubernetes/api-access/network-policy.yaml").read_text())
    assert policy["spec"]["podSelector"] == documents("controller")["NetworkPolicy"]["spec"]["podSelector"]
    ports = [port["port"] for rule in policy["spec"]["egress"] for port in rule["ports"]]
    assert ports == [443, 6443]


def test_the_cron_job_runs_a_hook_of_the_image_with_a_token_that_may_read():
    job = yaml.safe_load((DEPLOY / "kubernetes/node-condition/cron-job.yaml").read_text())
    spec = job["spec"]["jobTemplate"]["spec"]["template"]["spec"]
    (container,) = spec["containers"]
    script = container["command"][1]
    assert (DEPLOY / "hooks" / Path(script).name).is_file()
    assert f"COPY deploy/hooks {Path(script).parent}" in (DEPLOY / "containers/controller.Containerfile").read_text()
    mounts = {mount["mountPath"] for mount in container["volumeMounts"]}
    named = {each["name"]: each["value"] for each in container["env"]}
    assert {str(Path(named[name]).parent) for name in ("SKEWSCOPE_TOKEN_FILE", "SSL_CERT_FILE")} == mounts
    assert container["securityContext"]["readOnlyRootFilesystem"] is True


@pytest.mark.skipif(not shutil.which("kubectl"), reason="no kubectl here")
def test_kustomize_makes_one_of_it():
    made = subprocess.run(
        ["kubectl", "kustomize", str(DEPLOY / "kubernetes")], capture_output=True, text=True, check=True, timeout=60
    )
    kinds = {one["kind"] for one in yaml.safe_load_all(made.stdout)}
    assert kinds >= {"StatefulSet", "DaemonSet", "NetworkPolicy", "Service"}


@pytest.mark.parametrize("part", PARTS)
def test_containers_begin_what_the_pods_give_arguments_to(part):
    text = (DEPLOY / "containers" / f"{part}.Containerfile").read_text()
    (container,) = pod(part)["containers"]
    begun = [json.loads(line.split(" ", 1)[1]) for line in text.splitlines() if line.startswith(("ENTRYPOINT", "CMD"))]
    assert begun[1] == container["args"]
    assert begun[0] == (
        ["/opt/skewscope/bin/python", "-m", "skewscope.adapters.agent"]
        if part == "agent"
        else ["/opt/skewscope/bin/skewscope"]
    )


@pytest.mark.skipif(not shutil.which("systemd-analyze"), reason="no systemd here")
@pytest.mark.parametrize("unit", ["skewscope", "skewscope-agent"])
def test_systemd_understands_its_units(unit, tmp_path):
    text = (DEPLOY / "systemd" / f"{unit}.service").read_text()
    (tmp_path / f"{unit}.service").write_text(text.replace("/opt/skewscope/bin/skewscope", "/bin/true"))
    if (more := DEPLOY / "systemd" / f"{unit}.service.d").is_dir():
        shutil.copytree(more, tmp_path / more.name)
    command = ["systemd-analyze", "verify", "--man=no", str(tmp_path / f"{unit}.service")]
    said = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert not [line for line in said.stderr.splitlines() if unit in line]


@pytest.fixture(scope="module")
def exported(tmp_path_factory):
    """Returns the names of all metrics of a controller."""
    with running(tmp_path_factory.mktemp("controller")) as found:
        return set(re.findall(r"^# TYPE (\w+)", found.ask("/metrics")[2].decode(), re.MULTILINE))


@pytest.mark.parametrize("file", ["grafana/skewscope.json", "prometheus/skewscope.rules.yaml"])
@pytest.mark.slow
def test_every_metric_that_is_asked_for_is_exported(file, exported):
    asked = set(METRIC.findall((DEPLOY / file).read_text()))
    agents = {name for name in asked if name.startswith(AGENT)}
    assert asked - agents
    assert asked - agents - exported == set()
    made = (ROOT / "adapters" / "agent" / "self_metrics.py").read_text()
    assert [name for name in agents if f'"{name.removeprefix(AGENT).removesuffix("_total")}' not in made] == []


def test_the_dashboard_has_places_for_all_its_panels():
    board = json.loads((DEPLOY / "grafana" / "skewscope.json").read_text())
    cells = set()
    for panel in board["panels"]:
        at = panel["gridPos"]
        mine = {(at["x"] + x, at["y"] + y) for x in range(at["w"]) for y in range(at["h"])}
        assert not mine & cells
        assert at["x"] + at["w"] <= 24
        cells |= mine
    assert len({panel["id"] for panel in board["panels"]}) == len(board["panels"])


@pytest.mark.skipif(not shutil.which("promtool"), reason="no promtool here")
def test_alert_rules_say_what_they_should_when_they_should():
    for kind, file in (("check", "skewscope.rules.yaml"), ("test", "skewscope.rules.test.yaml")):
        command = ["promtool", kind, "rules", str(DEPLOY / "prometheus" / file)]
        said = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
        assert said.returncode == 0, said.stdout + said.stderr


def test_the_guide_of_the_controller_names_every_field(tmp_path, monkeypatch):
    (text,) = EXAMPLE.findall((ROOT / "docs" / "controller.md").read_text())
    signed_by_itself(tmp_path, "server.pem", "server.key")
    signed_by_itself(tmp_path, "ca.pem", "ca.key")
    for name in ("ann", "grafana", "n0"):
        (tmp_path / f"{name}.token").write_text(f"{name}-0123456789abcdef")
    (tmp_path / "site").mkdir()
    (tmp_path / "site" / "mapping.yaml").write_text(
        "version: 1\nmetrics: [{metric: my_temp, signal: gpu.temperature}]\n"
    )
    (tmp_path / "link.key").write_text("a-key-of-at-least-thirty-two-characters")
    (tmp_path / "agents.secret").write_text("agents-0123456789abcdef-0123456789abcdef")
    monkeypatch.setenv("OPS_TOKEN", "ops-0123456789abcdef")
    (tmp_path / "topology.yaml").write_text(
        "version: 1\nnodes: [{name: n0, rack: a1}]\ngroups: [{name: job7, kind: data-parallel, members: [n0]}]\n"
        "pools: [{name: chat, team: search, replicas: [job7]}]\n"
    )
    (tmp_path / "site" / "policies").mkdir(parents=True)
    policy = next((ROOT / "rules" / "policies").iterdir())
    shutil.copy(policy, tmp_path / "site" / "policies")
    (tmp_path / "skewscope.yaml").write_text(text.replace("/shared/", f"{tmp_path}/"))
    known = {}
    before = FieldReader.check_keys

    def noting(self, at, required, optional=()):
        if self.document.file.endswith("skewscope.yaml") and at[:1] not in (("sources",), ("tell",), ("targets",)):
            known.setdefault(tuple(part for part in at if isinstance(part, str)), set()).update(required, optional)
        return before(self, at, required, optional)

    monkeypatch.setattr(FieldReader, "check_keys", noting)
    config.read(tmp_path / "skewscope.yaml")
    told = fields_in(yaml.safe_load(text))
    # A fleet in shards cannot stand beside some of them and has a page of its own, nor a lease beside a lock.
    elsewhere = {"token", "file", "fleet", "kubernetes"}
    assert {at: names for at, names in known.items() if names - told.get(at, set()) - elsewhere} == {}
    assert "\nfleet:\n" in (ROOT / "docs" / "fleet.md").read_text()


def fields_in(value, at=()):
    """Returns the names of fields by their place."""
    if isinstance(value, list):
        merged = {}
        for item in value:
            for where, names in fields_in(item, at).items():
                merged.setdefault(where, set()).update(names)
        return merged
    if not isinstance(value, dict):
        return {}
    found = {at: set(value)}
    for name, inner in value.items():
        found |= fields_in(inner, (*at, name))
    return found
