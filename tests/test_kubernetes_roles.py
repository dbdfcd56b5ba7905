"""The roles that are shipped allow each call that is made to the API server, and no other."""

import asyncio
import importlib.util
from pathlib import Path
from types import SimpleNamespace
from urllib.parse import urlsplit

import pytest
import yaml

from skewscope.adapters.actions.carry_out import make_change
from skewscope.adapters.config.secret import Secret
from skewscope.adapters.controller.kubernetes_lease import KubernetesLease
from skewscope.adapters.health_client import HealthAnswer
from skewscope.adapters.sources.common.http_client import FetchOptions
from skewscope.adapters.targets.common.kubernetes_api import MAX_SINGLE, KubernetesApi
from skewscope.adapters.targets.common.settings import TargetSettings
from skewscope.adapters.targets.kubernetes import TAINT, EvictionSettings, KubernetesSettings, KubernetesTarget
from skewscope.engine.actions.change import DRAIN, EVICT, Change
from tests.adapters.controller.test_kubernetes_lease import Leases, Now, lease_config
from tests.support.kube_api import TOKEN, KubeApi
from tests.support.loopback import Server
from tests.support.target_contract import run_cycle

ROOT = Path(__file__).resolve().parents[1]
KUBERNETES = ROOT / "deploy" / "kubernetes"
VERBS = {"POST": "create", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}


def rules_of(path):
    """Returns what the roles in a file allow: (group, resource, verb, names; None for all)."""
    roles = [one for one in yaml.safe_load_all((KUBERNETES / path).read_text()) if one["kind"].endswith("Role")]
    return {
        (group, resource, verb, tuple(rule.get("resourceNames", ())))
        for role in roles
        for rule in role["rules"]
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
    }


def describe_call(method, path):
    """Returns group, resource, verb and name of a call, as the API server checks them."""
    words = urlsplit(path).path.strip("/").split("/")
    group = "" if words[0] == "api" else words[1]
    rest = words[2:] if words[0] == "api" else words[3:]
    if rest[0] == "namespaces" and len(rest) > 2:
        rest = rest[2:]
    resource, name, part = (*rest, "", "")[:3]
    verb = VERBS.get(method) or ("get" if name else "list")
    return group, f"{resource}/{part}" if part else resource, verb, name


def check_calls(calls, rules):
    """Fails unless each call is allowed, and each rule is needed."""
    needed = set()
    for method, path in calls:
        group, resource, verb, name = describe_call(method, path)
        fitting = {rule for rule in rules if rule[:3] == (group, resource, verb) and (not rule[3] or name in rule[3])}
        assert fitting, f"{method} {path} is not allowed"
        needed |= fitting
    assert rules == needed, "allowed, and never called"


def test_what_a_target_calls_is_what_acting_allows():
    cluster = KubeApi()
    members = tuple((f"n{n}", f"gpu-{n}") for n in range(MAX_SINGLE + 1))
    for _, name in members:
        cluster.add_node(name)
    for n in range(2):
        cluster.add_pod(f"w{n}", "gpu-0", labels={"app": "llm"})
    with cluster.serve() as server:
        api = KubernetesApi(server.url, FetchOptions(2.0, bearer=Secret(TOKEN)))
        evict = EvictionSettings(("llm",), "app=llm")
        few = KubernetesTarget(KubernetesSettings(TargetSettings("k8s", members[:2], 2.0), api, TAINT, evict))
        many = KubernetesTarget(KubernetesSettings(TargetSettings("k8s", members, 2.0), api, TAINT, evict))

        asyncio.run(run_cycle(few, Change(DRAIN, "k8s", "gpu-0", "a-1", "slow", 5.0, 0.5)))
        before = asyncio.run(few.read_state()).member("gpu-0")
        asyncio.run(make_change(few, Change(EVICT, "k8s", "gpu-0", "a-2", "slow", 5.0, 0.5), before))
        asyncio.run(many.read_state())
    assert any(method == "POST" for method, _ in cluster.calls)
    check_calls(cluster.calls, rules_of("acting/cluster-role.yaml"))


def test_what_leader_election_calls_is_what_its_role_allows(tmp_path):
    known, calls = Leases(), []

    def answer(asked):
        calls.append((asked.method, asked.path))
        return known.answer(asked)

    with Server(answer) as server:
        place = lease_config(server.server_port, tmp_path, name="skewscope")
        first, second = (KubernetesLease(place, name, Now()) for name in ("first", "second"))
        for lease in (first, second):
            lease.acquire("")
            lease.now.t += 10.1
        assert first.acquire("said")
        second.message = "an opening"
        second.acquire("")
        first.acquire("")
        first.release("")
    check_calls(calls, rules_of("leader-election/role.yaml"))


def test_what_the_cron_job_calls_is_what_its_role_allows(monkeypatch):
    path = ROOT / "deploy" / "hooks" / "kubernetes_node_condition.py"
    spec = importlib.util.spec_from_file_location("node_condition", path)
    hook = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(hook)
    calls = []

    class RecordedCluster:
        def ask(self, method, path, _body=None):
            calls.append((method, path))
            return {}

    overview = SimpleNamespace(trouble="", answers=(HealthAnswer("node", "gpu-0", 0.2),))
    monkeypatch.setattr(hook, "Cluster", RecordedCluster)
    monkeypatch.setattr(
        hook, "Health", SimpleNamespace(from_environment=lambda **_: SimpleNamespace(query_all=lambda **_: overview))
    )
    assert hook.main() == 0
    check_calls(calls, rules_of("node-condition/cluster-role.yaml"))


@pytest.mark.parametrize(
    ("method", "path", "call"),
    [
        ("GET", "/api/v1/nodes?limit=50", ("", "nodes", "list", "")),
        ("PATCH", "/api/v1/nodes/a/status", ("", "nodes/status", "patch", "a")),
        ("POST", "/api/v1/namespaces/llm/pods/w/eviction", ("", "pods/eviction", "create", "w")),
        ("PUT", "/apis/coordination.k8s.io/v1/namespaces/s/leases/l", ("coordination.k8s.io", "leases", "update", "l")),
    ],
)
def test_calls_are_read_as_the_server_reads_them(method, path, call):
    assert describe_call(method, path) == call
