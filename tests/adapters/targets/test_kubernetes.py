"""Nodes of Kubernetes, against a server with the semantics of a real API server."""

import asyncio
import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import pytest

from skewscope.adapters.actions import carry_out
from skewscope.adapters.actions.carry_out import ForeignStateError, make_change, undo_change
from skewscope.adapters.config.secret import Secret
from skewscope.adapters.sources.common.http_client import FetchOptions
from skewscope.adapters.targets import target_kinds
from skewscope.adapters.targets.common.base import BusyError, ConflictError, TargetError
from skewscope.adapters.targets.common.calls import HttpCall, SocketCall
from skewscope.adapters.targets.common.kubernetes_api import KubernetesApi
from skewscope.adapters.targets.common.settings import TargetSettings
from skewscope.adapters.targets.kubernetes import (
    CORDON,
    TAINT,
    EvictionSettings,
    KubernetesSettings,
    KubernetesTarget,
    find_usual_taints,
)
from skewscope.engine.actions.change import ABSENT, BLOCK, DEWEIGHT, DRAIN, EVICT, FOREIGN, OURS, Change
from skewscope.engine.actions.planning import TargetOffer, list_options
from skewscope.engine.model.incident import Advice
from skewscope.engine.model.topology import Group, Node, Topology
from skewscope.kb import yamlfile
from skewscope.kb.field_reader import FieldReader
from skewscope.kb.loader import catalogue
from tests.support.acting_world import SimulatedFault, build_incident
from tests.support.kube_api import BUDGET, TOKEN, KubeApi
from tests.support.loopback import Asked, Says, Server
from tests.support.target_contract import run_cycle
from tests.support.target_traffic import HANGS, scripted_server

EVICTED = {"key": "skewscope.io/evict", "value": "a-1", "effect": "NoSchedule"}
THEIRS = {"key": "gpu", "value": "h100", "effect": "PreferNoSchedule"}


def make_target(url: str, drain_by: str = TAINT, namespaces: tuple[str, ...] = ("llm",)) -> KubernetesTarget:
    common = TargetSettings("k8s", (("n0", "gpu-0"), ("n1", "gpu-1")), 1.0)
    api = KubernetesApi(url, FetchOptions(1.0, bearer=Secret(TOKEN)))
    return KubernetesTarget(KubernetesSettings(common, api, drain_by, EvictionSettings(namespaces, "app=llm")))


@contextmanager
def running_cluster(drain_by: str = TAINT) -> Iterator[tuple[KubernetesTarget, KubeApi]]:
    """Yields a target and the objects of its cluster: two nodes, pods on both."""
    cluster = KubeApi()
    cluster.add_node("gpu-0", taints=[dict(THEIRS)])
    cluster.add_node("gpu-1")
    labels = {"labels": {"app": "llm"}}
    for n in range(3):
        cluster.add_pod(f"w{n}", "gpu-0", **labels)
    cluster.add_pod("w3", "gpu-1", **labels)
    cluster.add_pod("other", "gpu-0")
    cluster.add_pod("agent", "gpu-0", ownerReferences=[{"kind": "DaemonSet"}], **labels)
    cluster.add_pod("static", "gpu-0", annotations={"kubernetes.io/config.mirror": "x"}, **labels)
    with cluster.serve() as server:
        yield make_target(server.url, drain_by), cluster


def node_without_version(cluster: KubeApi, name: str = "gpu-0") -> dict[str, Any]:
    found = json.loads(json.dumps(cluster.nodes[name]))
    for part in ("resourceVersion", "labels", "annotations"):
        value = found["metadata"].pop(part, None)
        assert part == "resourceVersion" or not value
    return found


@pytest.mark.parametrize(
    ("kind", "drain_by", "serving", "taint"),
    [
        (DEWEIGHT, TAINT, True, {"key": "skewscope.io/deweight", "value": "a-1", "effect": "PreferNoSchedule"}),
        (DRAIN, TAINT, False, {"key": "skewscope.io/drain", "value": "a-1", "effect": "NoSchedule"}),
        (DRAIN, CORDON, False, {"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}),
    ],
)
def test_a_node_is_changed_and_restored(kind, drain_by, serving, taint):
    with running_cluster(drain_by) as (target, cluster):
        start = node_without_version(cluster)

        async def check() -> None:
            node = cluster.nodes["gpu-0"]
            assert node["spec"]["taints"] == [THEIRS, taint]
            assert node["spec"].get("unschedulable", False) is (drain_by == CORDON)
            assert node["metadata"]["labels"] == {f"skewscope.io/{kind}": "a-1"}
            mark = json.loads(node["metadata"]["annotations"][f"skewscope.io/{kind}"])
            assert mark == {"action": "a-1", "reason": "slow rank", "expires": 5.0}
            member = (await target.read_state()).members["gpu-0"]
            assert (member.serving, member.owner) == (serving, "a-1")

        change = Change(kind, "k8s", "gpu-0", "a-1", "slow\n'rank'", 5.0, 0.5)
        (call,) = asyncio.run(run_cycle(target, change, check))
        assert "PATCH" in call
        assert TOKEN not in call
        assert node_without_version(cluster) == start


def test_a_change_that_another_overtook_is_repeated_on_what_is_there_now():
    with running_cluster() as (target, cluster):
        change = Change(DRAIN, "k8s", "gpu-0", "a-1")
        before = asyncio.run(target.read_state()).members["gpu-0"]

        def meddle(api: KubeApi) -> None:
            api.touch(api.nodes["gpu-0"])["spec"]["taints"].append({"key": "late", "effect": "NoExecute"})

        cluster.meddle = meddle
        asyncio.run(make_change(target, change, before))
        assert [taint["key"] for taint in cluster.nodes["gpu-0"]["spec"]["taints"]] == [
            "gpu",
            "late",
            "skewscope.io/drain",
        ]
        assert sum(method == "PATCH" for method, _ in cluster.calls) == 2


def test_an_object_that_changes_under_each_try_is_a_conflict():
    with running_cluster() as (target, cluster):
        before = asyncio.run(target.read_state()).members["gpu-0"]

        def meddle(api: KubeApi) -> None:
            api.touch(api.nodes["gpu-0"])
            api.meddle = meddle

        cluster.meddle = meddle
        with pytest.raises(ConflictError, match="the object has been modified"):
            asyncio.run(make_change(target, Change(DRAIN, "k8s", "gpu-0", "a-1"), before))
        assert len([method for method, _ in cluster.calls if method == "PATCH"]) == carry_out.MAX_TRIES


@pytest.mark.parametrize("drain_by", [TAINT, CORDON])
def test_what_somebody_else_did_stays(drain_by):
    with running_cluster(drain_by) as (target, cluster):
        change = Change(DRAIN, "k8s", "gpu-1", "a-1")

        async def run() -> None:
            before = (await target.read_state()).members["gpu-1"]
            spec = cluster.nodes["gpu-1"]["spec"]
            # The mark of another action, or an operator's cordon.
            if drain_by == CORDON:
                spec["unschedulable"] = True
            else:
                spec["taints"] = [{"key": "skewscope.io/drain", "value": "a-7", "effect": "NoSchedule"}]
            with pytest.raises(ForeignStateError):
                await make_change(target, change, before)
            assert await undo_change(target, change, before) == ()
            spec.clear()
            # An operator takes our change back, and our mark is left.
            await make_change(target, change, before)
            cluster.nodes["gpu-1"]["spec"] = {"taints": [dict(THEIRS)]}
            assert target.find_standing(change, before, await target.read_state()) == FOREIGN
            await undo_change(target, change, before)
            assert cluster.nodes["gpu-1"]["spec"] == {"taints": [THEIRS]}
            assert not cluster.nodes["gpu-1"]["metadata"]["labels"]
            # The node is gone.
            del cluster.nodes["gpu-1"]
            assert target.find_standing(change, before, await target.read_state()) == FOREIGN
            assert await undo_change(target, change, before) == ()

        asyncio.run(run())


def test_lower_preference_and_drain_of_one_node_are_independent():
    with running_cluster() as (target, cluster):
        start = node_without_version(cluster)
        lower, drain = Change(DEWEIGHT, "k8s", "gpu-0", "a-1"), Change(DRAIN, "k8s", "gpu-0", "a-2")

        async def run() -> None:
            first = (await target.read_state()).members["gpu-0"]
            await make_change(target, lower, first)
            second = (await target.read_state()).members["gpu-0"]
            await make_change(target, drain, second)
            await undo_change(target, lower, first)
            assert (await target.read_state()).members["gpu-0"].owner == "a-2"
            await undo_change(target, drain, second)

        asyncio.run(run())
        assert node_without_version(cluster) == start


def test_eviction_takes_the_selected_pods_of_the_node_only():
    with running_cluster() as (target, cluster):
        change = Change(EVICT, "k8s", "gpu-0", "a-1")

        async def run() -> None:
            state = await target.read_state()
            before = state.members["gpu-0"]
            assert target.find_standing(change, before, state) == ABSENT
            calls = await make_change(target, change, before)
            # Nothing may come back to the node meanwhile.
            assert calls[0].method == "PATCH"
            assert json.loads(calls[0].body)["spec"]["taints"] == [THEIRS, EVICTED]
            assert [call.url.rpartition("/pods/")[2] for call in calls[1:]] == [f"w{n}/eviction" for n in range(3)]
            # Accepted, and still ending: not done, and not asked for again.
            ending = await target.read_state()
            assert target.find_standing(change, before, ending) == ABSENT
            assert target.render_change(change, ending) == ()
            assert target.find_standing(change, before, await target.read_state()) == OURS
            # A pod of the same name that started since is another pod.
            cluster.add_pod("w0", "gpu-0", labels={"app": "llm"})
            assert target.find_standing(change, before, await target.read_state()) == OURS
            assert await make_change(target, change, before) == ()
            assert (await target.read_state()).members["gpu-0"].owner == "a-1"
            (call,) = await undo_change(target, change, before)
            assert call.method == "PATCH"
            assert target.find_standing(change, before, await target.read_state()) == ABSENT
            assert await undo_change(target, change, before) == ()

        start = node_without_version(cluster)
        asyncio.run(run())
        assert node_without_version(cluster) == start
        assert sorted(name for _, name in cluster.pods) == ["agent", "other", "static", "w0", "w3"]


def test_an_eviction_that_another_overtook_keeps_their_taint_and_tries_again():
    with running_cluster() as (target, cluster):
        change = Change(EVICT, "k8s", "gpu-0", "a-1")
        before = asyncio.run(target.read_state()).members["gpu-0"]

        def meddle(api: KubeApi) -> None:
            api.touch(api.nodes["gpu-0"])["spec"]["taints"].append({"key": "late", "effect": "NoExecute"})

        cluster.meddle = meddle
        asyncio.run(make_change(target, change, before))
        methods = [method for method, _ in cluster.calls if method != "GET"]
        assert methods == ["PATCH", "PATCH", "POST", "POST", "POST"]
        keys = [taint["key"] for taint in cluster.nodes["gpu-0"]["spec"]["taints"]]
        assert keys == ["gpu", "late", "skewscope.io/evict"]


def test_an_eviction_whose_taint_somebody_removed_is_not_ours_any_more():
    with running_cluster() as (target, cluster):
        change = Change(EVICT, "k8s", "gpu-0", "a-1")
        before = asyncio.run(target.read_state()).members["gpu-0"]
        asyncio.run(make_change(target, change, before))
        cluster.touch(cluster.nodes["gpu-0"])["spec"]["taints"] = [dict(THEIRS)]
        assert target.find_standing(change, before, asyncio.run(target.read_state())) == FOREIGN
        asyncio.run(undo_change(target, change, before))
        node = cluster.nodes["gpu-0"]
        assert (node["spec"]["taints"], node["metadata"]["labels"]) == ([THEIRS], {})


def test_a_node_is_drained_before_its_pods_are_evicted():
    """Also where what runs there would go on."""
    topology = Topology((Node("n0"), Node("n1")), (Group("g", "tensor-parallel", ("n0", "n1")),), ())
    incident = build_incident(SimulatedFault("n0", 0.0, 900.0, 0.2), 60.0)
    incident = replace(
        incident, kind="node", name="n0", mitigations=(Advice("evict-on-check", "scheduler", "it fails"),)
    )
    target = make_target("http://k")
    found = list_options(incident, [TargetOffer("k8s", target.members, target.support)], topology, catalogue())
    assert incident.severity == "critical"
    assert [(one.kind, one.reversible) for one in found] == [(DRAIN, True), (EVICT, True)]


def test_a_disruption_budget_holds_evictions_back(monkeypatch):
    monkeypatch.setattr(carry_out, "BUSY_WAIT", 0.01)
    with running_cluster() as (target, cluster):
        cluster.budgets["llm"] = 2
        before = asyncio.run(target.read_state()).members["gpu-0"]
        change = Change(EVICT, "k8s", "gpu-0", "a-1")
        with pytest.raises(BusyError, match="would violate the pod's disruption budget"):
            asyncio.run(make_change(target, change, before))
        # The node was tainted once, and keeps the taint until the undo.
        assert sum(method == "PATCH" for method, _ in cluster.calls) == 1
        assert EVICTED in cluster.nodes["gpu-0"]["spec"]["taints"]
        asyncio.run(undo_change(target, change, before))
        assert cluster.nodes["gpu-0"]["spec"]["taints"] == [THEIRS]
        left = [pod["metadata"]["name"] for pod in cluster.pods.values() if pod["metadata"]["name"].startswith("w")]
        assert left == ["w2", "w3"]
        assert BUDGET.startswith("Cannot evict pod")


def test_a_pod_that_was_replaced_meanwhile_is_not_evicted():
    with running_cluster() as (target, cluster):
        state = asyncio.run(target.read_state())
        call = target.render_change(Change(EVICT, "k8s", "gpu-0", "a-1"), state)[1]
        cluster.add_pod("w0", "gpu-1", labels={"app": "llm"})
        with pytest.raises(ConflictError, match="does not match the UID"):
            asyncio.run(target.make_call(call))
        assert ("llm", "w0") in cluster.pods
        del cluster.pods["llm", "w0"]
        asyncio.run(target.make_call(call))


@pytest.mark.parametrize("kind", [DEWEIGHT, DRAIN, EVICT])
def test_a_dry_run_is_checked_by_the_server_and_changes_nothing(kind):
    with running_cluster() as (target, cluster):
        state = asyncio.run(target.read_state())
        for call in target.render_change(Change(kind, "k8s", "gpu-0", "a-1"), state):
            asyncio.run(target.make_call(target.render_dry_run(call)))
        assert asyncio.run(target.read_state()) == state
        assert any("dryRun=All" in path for _, path in cluster.calls)
        assert target.render_dry_run(SocketCall("/s", "x")) is None


def test_many_nodes_are_read_in_pages():
    cluster = KubeApi()
    for n in range(130):
        cluster.add_node(f"gpu-{n}")
    with cluster.serve() as server:
        common = TargetSettings("k8s", tuple((f"n{n}", f"gpu-{n}") for n in range(0, 130, 2)), 5.0)
        api = KubernetesApi(server.url, FetchOptions(1.0, bearer=Secret(TOKEN)))
        state = asyncio.run(KubernetesTarget(KubernetesSettings(common, api)).read_state())
    assert set(state.members) == {f"gpu-{n}" for n in range(0, 130, 2)}
    assert len(cluster.calls) == 3


def test_a_token_file_is_read_at_each_call(tmp_path):
    file = tmp_path / "token"
    file.write_text("old-token-of-16-chars\n")
    cluster = KubeApi()
    cluster.add_node("gpu-0")
    with cluster.serve() as server:
        common = TargetSettings("k8s", (("n0", "gpu-0"),))
        api = KubernetesApi(server.url, FetchOptions(1.0), str(file))
        target = KubernetesTarget(KubernetesSettings(common, api))
        with pytest.raises(TargetError, match="401: Unauthorized") as caught:
            asyncio.run(target.read_state())
        assert "old-token" not in str(caught.value)
        file.write_text(TOKEN)
        assert set(asyncio.run(target.read_state()).members) == {"gpu-0"}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (Change(BLOCK, "k8s", "gpu-0", "a-1"), "cannot block a node"),
        (Change(EVICT, "k8s", "gpu-0", "a-1"), "`evict` in the config names the namespaces"),
        (Change(DRAIN, "k8s", "gpu-9", "a-1"), "no node 'gpu-9'"),
        (Change(DRAIN, "k8s", "gpu-0", "a/1"), "is no id of an action"),
    ],
)
def test_an_impossible_change_is_an_error(change, message):
    with running_cluster() as (target, _cluster):
        plain = make_target(target.settings.api.url, namespaces=())
        with pytest.raises(TargetError, match=message):
            plain.render_change(change, asyncio.run(plain.read_state()))


@pytest.mark.parametrize(
    "page",
    [
        b"",
        b"[]",
        b"[" * 100_000,
        b'{"metadata": 3, "spec": []}',
        b'{"metadata": {"name": "gpu-0"}, "spec": {"taints": {}}}',
        Says(500, b"etcd is gone"),
        Says(202, b""),
        Says(429, b'{"message": "too many requests"}'),
        None,
        HANGS,
        b"x" * (5 << 20),
    ],
)
def test_a_strange_answer_is_an_error_in_time(page):
    with scripted_server([page]) as url, pytest.raises(TargetError):
        asyncio.run(make_target(url).read_state())


def test_only_the_configured_server_is_called():
    target = make_target("http://127.0.0.1:9")
    for call in (HttpCall("PATCH", "http://127.0.0.1:99/api/v1/nodes/x"), SocketCall("/s", "x")):
        with pytest.raises(TargetError, match="no change at this API server"):
            asyncio.run(target.make_call(call))


SETTINGS = """
targets:
- {kind: kubernetes, url: "https://k:6443", members: {n0: gpu-0}, drain: cordon,
   evict: {namespaces: [llm], selector: app=llm, version: policy/v1beta1}}
- {kind: kubernetes, url: "https://u:p@k:6443", members: {n0: "../pods"}, drain: delete, evict: {namespaces: ["a/b"]}}
- {kind: kubernetes, url: "k:6443", members: {n0: gpu-0}, evict: {selector: app=llm}, token_file: none}
"""


def test_settings_are_checked(tmp_path):
    fields = FieldReader(yamlfile.parse(SETTINGS, str(tmp_path / "skewscope.yaml")))
    kind = target_kinds()["kubernetes"]
    good, *_ = [kind.read(fields, ("targets", n), f"t{n}") for n in range(3)]
    assert kind.build(good).members == {"n0": "gpu-0"}
    assert (good.drain_by, good.eviction.namespaces, good.api.url) == (CORDON, ("llm",), "https://k:6443")
    assert kind.read(fields, ("targets", 0), "t0") == good
    assert sorted((problem.line, problem.field) for problem in fields.problems) == [
        (5, "targets[1].drain"),
        (5, "targets[1].evict.namespaces[0]"),
        (5, "targets[1].members.n0"),
        (5, "targets[1].url"),
        (6, "targets[2].evict.namespaces"),
        (6, "targets[2].token_file"),
    ]


def node_with(*keys: str, effect: str = "NoSchedule") -> dict[str, Any]:
    return {"spec": {"taints": [{"key": key, "effect": effect} for key in keys]}}


@pytest.mark.parametrize(
    ("nodes", "usual"),
    [
        ([node_with("nvidia.com/gpu"), node_with()], set()),
        ([node_with("team-a"), node_with("team-a"), node_with("team-a", "broken")], {"team-a"}),
        ([node_with("team-a"), node_with("team-a"), node_with(), node_with()], set()),
        ([node_with("team-a"), node_with("team-a")], set()),
        ([node_with("node.kubernetes.io/unschedulable")] * 3, set()),
        ([node_with("skewscope.io/drain")] * 3, set()),
        ([{"spec": {"taints": "none"}}, {}, {"spec": None}], set()),
    ],
)
def test_a_taint_that_most_nodes_have_is_one_of_the_pool(nodes, usual):
    assert find_usual_taints(nodes, ("nvidia.com/gpu",)) == usual | {"nvidia.com/gpu"}


def test_a_gpu_node_with_the_usual_taint_is_in_use_and_one_with_another_is_not():
    with running_cluster() as (target, cluster):
        for name, key in (("gpu-0", "nvidia.com/gpu"), ("gpu-1", "maintenance")):
            cluster.touch(cluster.nodes[name])["spec"]["taints"] = [{"key": key, "effect": "NoSchedule"}]
        state = asyncio.run(target.read_state())
        assert {name: member.serving for name, member in state.members.items()} == {"gpu-0": True, "gpu-1": False}
        tolerating = replace(target, settings=replace(target.settings, tolerated=("maintenance",)))
        assert asyncio.run(tolerating.read_state()).members["gpu-1"].serving is True


def test_many_nodes_are_read_one_by_one_where_listing_them_is_forbidden():
    names = [f"gpu-{n}" for n in range(70)]
    nodes = {f"/api/v1/nodes/{name}": {"metadata": {"name": name}} for name in names}

    def answer(asked: Asked) -> Says:
        found = nodes.get(asked.path)
        message = {"kind": "Status", "message": "nodes is forbidden: cannot list resource"}
        return Says(200, json.dumps(found).encode()) if found else Says(403, json.dumps(message).encode())

    with Server(answer) as server:
        api = KubernetesApi(server.url, FetchOptions(5.0))
        assert set(asyncio.run(api.read_objects("/api/v1/nodes", names))) == set(names)
