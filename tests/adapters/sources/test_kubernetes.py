"""Nodes and pods by list and watch: a server with the semantics of a real one, which forgets versions, is followed."""

import asyncio
import json
from dataclasses import dataclass, field
from urllib.parse import parse_qs, urlsplit

import pytest

from skewscope.adapters.discovery.living_topology import LivingTopology
from skewscope.adapters.discovery.sighting_log import SightingLog
from skewscope.adapters.discovery.sightings import see_series
from skewscope.adapters.mapping.names import MetricResolver
from skewscope.adapters.sources import SourceContext, source_kinds
from skewscope.adapters.sources.common.base import BatchSink
from skewscope.adapters.sources.common.http_client import FetchError, FetchOptions
from skewscope.adapters.sources.common.object_mirror import ApiAnswerError, ObjectMirror
from skewscope.adapters.sources.kubernetes import (
    SERVER,
    UNHEALTHY_EVENT,
    KubernetesSource,
    KubernetesWatchSettings,
    read,
)
from skewscope.engine.model.topology import Node, Topology
from skewscope.kb.field_reader import FieldReader
from skewscope.kb.loader import catalogue
from skewscope.kb.yamlfile import parse
from tests.adapters.controller.clocks import FakeClock
from tests.support.loopback import Says, Server

TOKEN = "token-of-16-chars"


def node(name, address="10.0.0.1", ready="True", **conditions):
    given = {"Ready": ready, **conditions}
    return {
        "metadata": {"name": name},
        "status": {
            "addresses": [{"type": "InternalIP", "address": address}, {"type": "Hostname", "address": name}],
            "conditions": [{"type": kind, "status": status} for kind, status in given.items()],
        },
    }


def pod(name, on, gpus=2, waiting="", phase="Running"):
    container = {"name": "vllm", "resources": {"limits": {"nvidia.com/gpu": str(gpus)} if gpus else {"cpu": "1"}}}
    state = {"waiting": {"reason": waiting}} if waiting else {"running": {}}
    return {
        "metadata": {"name": name, "namespace": "serving"},
        "spec": {"nodeName": on, "containers": [container]},
        "status": {
            "phase": phase,
            "hostIP": "10.0.0.1",
            "podIP": "10.2.0.9",
            "containerStatuses": [{"name": "vllm", "restartCount": 3, "state": state}],
        },
    }


@dataclass
class ApiServer:
    """Collections with versions: lists come in pages of one object, watches give the events since a version."""

    objects: dict[str, dict[str, dict]] = field(default_factory=lambda: {"nodes": {}, "pods": {}})
    events: list[tuple[int, str, dict]] = field(default_factory=list)
    version: int = 100
    forgotten: int = 0
    """Versions up to this one are answered with 410."""
    as_event: bool = True
    """Whether 410 comes as an event of a watch that was accepted."""
    asked: list[tuple[str, str]] = field(default_factory=list)
    status: int = 200

    def put(self, kind, item, what="MODIFIED"):
        self.version += 1
        item["metadata"]["resourceVersion"] = str(self.version)
        name = item["metadata"]["name"]
        if what == "DELETED":
            self.objects[kind].pop(name)
        else:
            self.objects[kind][name] = item
        self.events.append((self.version, kind, {"type": what, "object": item}))

    def answer(self, asked):
        url = urlsplit(asked.path)
        query = {name: values[0] for name, values in parse_qs(url.query).items()}
        kind = url.path.rpartition("/")[2]
        self.asked.append((kind, "watch" if "watch" in query else "list"))
        assert asked.headers["authorization"] == f"Bearer {TOKEN}"
        if self.status != 200:
            return Says(self.status, b"{}")
        return self.watch(kind, query) if "watch" in query else self.page(kind, int(query.get("continue", 0)))

    def page(self, kind, begin):
        items = list(self.objects[kind].values())
        about = {"resourceVersion": str(self.version)}
        if begin + 1 < len(items):
            about["continue"] = str(begin + 1)
        return Says(200, json.dumps({"kind": "List", "metadata": about, "items": items[begin : begin + 1]}).encode())

    def watch(self, kind, query):
        assert query["allowWatchBookmarks"] == "true"
        since = int(query["resourceVersion"])
        if since < self.forgotten:
            status = {"kind": "Status", "code": 410, "reason": "Expired", "message": "too old resource version"}
            if not self.as_event:
                return Says(410, json.dumps(status).encode())
            return Says(200, json.dumps({"type": "ERROR", "object": status}).encode())
        found = [event for at, of, event in self.events if at > since and of == kind]
        found.append({"type": "BOOKMARK", "object": {"metadata": {"resourceVersion": str(self.version)}}})
        return Says(200, b"".join(json.dumps(event).encode() + b"\n" for event in found))


@dataclass
class Followed:
    """A source that follows a server, one period at a time."""

    api: ApiServer
    clock: FakeClock = field(default_factory=FakeClock)
    log: SightingLog = field(default_factory=SightingLog)

    def run(self, tmp_path, *acts):
        """Returns what the topology is after each act, with a second for each period."""
        (tmp_path / "token").write_text(TOKEN)
        found = []

        async def follow():
            with Server(self.api.answer) as server:
                names = MetricResolver(catalogue(), Topology(), witness=see_series)
                settings = KubernetesWatchSettings("k8s", server.url, FetchOptions(5.0), 15.0, str(tmp_path / "token"))
                source = KubernetesSource(settings, SourceContext(Topology(), names, self.clock, trusts_sources=True))
                living, sink = LivingTopology(), BatchSink(self.clock)
                for act in acts:
                    act(self.api)
                    await self.step(source, sink, 4)
                    drawn = living.draw(self.clock.now(), self.log.list_living(), 15.0)
                    found.append({each.name for each in drawn.topology.nodes} - set(drawn.gone.nodes))

        asyncio.run(follow())
        return found

    async def step(self, source, sink, periods):
        for _ in range(periods):
            for mirror in (source.nodes, source.pods):
                await source._follow(mirror)
            batch = source._build_batch(self.clock.now())
            if batch is not None:
                sink.put(batch)
            self.log.take_in({"k8s": sink.take()})
            await self.clock.pass_(15.0)


def begin(api):
    for name in ("gpu-01", "gpu-02", "gpu-03"):
        api.put("nodes", node(name, f"10.0.0.{name[-1]}"), "ADDED")


def test_nodes_come_and_go(tmp_path):
    api = ApiServer()
    found = Followed(api).run(
        tmp_path,
        begin,
        lambda api: api.put("nodes", node("gpu-04", "10.0.0.4"), "ADDED"),
        lambda api: api.put("nodes", node("gpu-02"), "DELETED"),
    )
    first = {"gpu-01", "gpu-02", "gpu-03"}
    assert found == [first, first | {"gpu-04"}, {"gpu-01", "gpu-03", "gpu-04"}]
    # A list is read once, in its pages; then only what changes is asked for.
    assert api.asked.count(("nodes", "list")) == 3


@pytest.mark.parametrize("as_event", [True, False])
def test_a_version_that_the_server_has_forgotten_is_listed_anew(tmp_path, as_event):
    api = ApiServer(as_event=as_event)

    def compact(api):
        api.put("nodes", node("gpu-02"), "DELETED")
        api.put("nodes", node("gpu-05", "10.0.0.5"), "ADDED")
        api.events.clear()
        api.forgotten = api.version

    assert Followed(api).run(tmp_path, begin, compact)[-1] == {"gpu-01", "gpu-03", "gpu-05"}


def series_of(item_kind, item):
    context = SourceContext(Topology(), MetricResolver(catalogue(), Topology()), FakeClock())
    source = KubernetesSource(KubernetesWatchSettings("k8s", SERVER, FetchOptions(), 15.0), context)
    described = {"nodes": source.nodes, "pods": source.pods}[item_kind].describe(item)
    return {(name, *(value for _, value in labels)): value for name, labels, value in described}


def test_conditions_of_a_node_are_those_that_kube_state_metrics_writes():
    found = series_of("nodes", node("gpu-01", ready="Unknown", GpuThermalWatch="True"))
    assert found["kube_node_status_condition", "Ready", "gpu-01", "unknown"] == 1
    assert found["kube_node_status_condition", "Ready", "gpu-01", "true"] == 0
    assert found["kube_node_status_condition", "GpuThermalWatch", "gpu-01", "true"] == 1
    assert found["node_uname_info", "10.0.0.1", "gpu-01"] == 1


@pytest.mark.parametrize(
    ("capacity", "allocatable", "lost"),
    [
        ({"nvidia.com/gpu": "8", "cpu": "96"}, {"nvidia.com/gpu": "8", "cpu": "95"}, 0),
        ({"nvidia.com/gpu": "8"}, {"nvidia.com/gpu": "7"}, 1),
        ({"nvidia.com/mig-1g.10gb": "7", "nvidia.com/gpu": "0"}, {"nvidia.com/mig-1g.10gb": "5"}, 2),
        ({"amd.com/gpu": "8"}, {}, 8),
        ({"nvidia.com/gpu": "8"}, None, 8),
        ({"cpu": "96"}, {"cpu": "90"}, None),
        ({"nvidia.com/gpu": "many"}, {}, None),
    ],
)
def test_gpus_that_a_node_has_and_cannot_allocate_are_unhealthy(capacity, allocatable, lost):
    item = node("gpu-01")
    item["status"] |= {"capacity": capacity, "allocatable": allocatable}
    found = series_of("nodes", item)
    counts = [value for (name, *_), value in found.items() if name == UNHEALTHY_EVENT]
    assert counts == ([] if lost is None else [lost])


def test_lost_gpus_are_an_event_of_the_node():
    known = MetricResolver(catalogue(), Topology((Node("gpu-01"),)))
    source = KubernetesSource(
        KubernetesWatchSettings("k8s", SERVER, FetchOptions(), 15.0, reports_for=("fleet",)),
        SourceContext(Topology((Node("gpu-01"),)), known, FakeClock(), trusts_sources=True),
    )
    item = node("gpu-01")
    item["status"] |= {"capacity": {"nvidia.com/gpu": "8"}, "allocatable": {"nvidia.com/gpu": "7"}}
    source.nodes.kept["gpu-01"] = tuple(source.nodes.describe(item))
    batch = source._build_batch(0.0)
    keys = [batch.columns.keys[number] for number in batch.numbers]
    assert ("event.kubernetes_gpus_unhealthy", "gpu-01") in {(key.signal, key.entity) for key in keys}


@pytest.mark.parametrize(
    ("item", "seen"),
    [
        (pod("a", "gpu-01"), True),
        (pod("a", "gpu-01", gpus=0), False),
        (pod("a", ""), False),
        (pod("a", "gpu-01", phase="Succeeded"), False),
    ],
)
def test_pods_that_use_gpus_are_followed_while_they_are_on_a_node(item, seen):
    assert any(key[0] == "kube_pod_info" for key in series_of("pods", item)) is seen


@pytest.mark.parametrize(("waiting", "value"), [("CrashLoopBackOff", 1), ("ContainerCreating", 0), ("", 0)])
def test_a_crash_loop_is_told_and_ends(waiting, value):
    found = series_of("pods", pod("a", "gpu-01", waiting=waiting))
    assert found["kube_pod_container_status_waiting_reason", "vllm", "serving", "a", "CrashLoopBackOff"] == value
    assert found["kube_pod_container_status_restarts_total", "vllm", "serving", "a"] == 3


@pytest.mark.parametrize("status", [401, 403])
def test_a_refusal_names_the_verbs_that_are_missing(tmp_path, status):
    with pytest.raises(FetchError, match="needs the verbs list and watch"):
        Followed(ApiServer(status=status)).run(tmp_path, begin)


@pytest.mark.parametrize(
    "answer",
    [b"", b"[]", b'{"items": 3, "metadata": {}}', b'{"items": [3], "metadata": {}}', b"{" * 100_000],
)
def test_what_is_no_list_is_an_error(answer):
    with pytest.raises(ApiAnswerError):
        ObjectMirror("/api/v1/nodes", dict).take_page(answer)


@pytest.mark.parametrize(
    "answer",
    [b"x", b'{"type": "ADDED"}', b'{"type": "ERROR", "object": {"code": 500, "message": "no"}}', b'{"object": {}}'],
)
def test_what_is_no_event_is_an_error(answer):
    with pytest.raises(ApiAnswerError):
        ObjectMirror("/api/v1/nodes", dict, version="1").take_events(answer)


def test_within_a_cluster_nothing_has_to_be_set(tmp_path):
    fields = FieldReader(parse("{kind: kubernetes}", str(tmp_path / "c.yaml")))
    settings = read(fields, (), "k8s")
    assert not fields.problems
    assert (settings.url, settings.token_file.endswith("/token"), settings.period) == (SERVER, True, 5.0)
    assert "kubernetes" in source_kinds()
