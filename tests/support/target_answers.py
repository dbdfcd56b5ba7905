"""Every kind of target with usable answers, each of which a test may spoil, and what asks for all of them."""

import json
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from skewscope.adapters.config.secret import Secret
from skewscope.adapters.sources.common.http_client import FetchError, FetchOptions, HttpResponse, PostBody
from skewscope.adapters.targets import dynamo, haproxy, slurm
from skewscope.adapters.targets.common import transports
from skewscope.adapters.targets.common.base import Target, TargetError
from skewscope.adapters.targets.common.calls import Call, CommandCall, SocketCall, describe_calls
from skewscope.adapters.targets.common.external import ExternalSettings, ExternalTarget
from skewscope.adapters.targets.common.kubernetes_api import KubernetesApi
from skewscope.adapters.targets.common.probe import ProbeSettings
from skewscope.adapters.targets.common.settings import TargetSettings
from skewscope.adapters.targets.common.worker_router import WorkerRouterSettings
from skewscope.adapters.targets.dynamo import DynamoSettings, DynamoTarget
from skewscope.adapters.targets.envoy import EnvoySettings, EnvoyTarget
from skewscope.adapters.targets.exec import ExecSettings
from skewscope.adapters.targets.gateway_api import GatewayApiSettings, GatewayApiTarget
from skewscope.adapters.targets.haproxy import HaproxySettings, HaproxyTarget
from skewscope.adapters.targets.kubernetes import EvictionSettings, KubernetesSettings, KubernetesTarget
from skewscope.adapters.targets.llm_d import LlmDSettings, LlmDTarget
from skewscope.adapters.targets.nginx import NginxSettings, NginxTarget
from skewscope.adapters.targets.open_vswitch import SwitchSettings, SwitchTarget
from skewscope.adapters.targets.ray_serve import RayServeSettings, RayServeTarget
from skewscope.adapters.targets.rendered import RenderedSettings, RenderedTarget
from skewscope.adapters.targets.sglang_router import SglangRouterSettings, SglangRouterTarget
from skewscope.adapters.targets.slurm import SlurmSettings, SlurmTarget
from skewscope.adapters.targets.vllm_router import VllmRouterTarget
from skewscope.adapters.targets.webhook import WebhookSettings
from skewscope.engine.actions.change import Change, MemberState, TargetState

URL = "http://target"
PROBE = ProbeSettings("/health")
PARAMETERS = (
    ("class", "3"),
    ("device", "mlx5_3"),
    ("rate", "1Gbit"),
    ("setting", "ROCE_CC_PRIO_MASK_P1"),
    ("value", "8"),
)


@dataclass
class AnswerRig:
    """A target and what it is answered."""

    kind: str
    folder: Path
    answers: dict[str, str]
    """By a part of what is asked for: a path, a line, a command, an operation, the name of a file in the folder."""
    target: Target = field(init=False)

    def __post_init__(self) -> None:
        self.target = BUILDERS[self.kind.partition(" ")[0]](self)

    def answer(self, asked: str) -> str:
        """Returns the answer to something; the longest name decides."""
        found = [name for name in self.answers if name in asked]
        if not found:
            raise TargetError(f"{asked}: no answer")
        return self.answers[max(found, key=len)]

    def spoil(self, name: str, text: str) -> None:
        """Changes one answer."""
        self.answers[name] = text
        self.write_files()
        self.target = BUILDERS[self.kind.partition(" ")[0]](self)

    def write_files(self) -> None:
        """Writes the answers that are files."""
        for name, text in self.answers.items():
            if name in FILES or name.startswith("v1/"):
                (self.folder / name).parent.mkdir(parents=True, exist_ok=True)
                (self.folder / name).write_bytes(text.encode(errors="surrogatepass"))


def common(*members: str, kind: str = "t") -> TargetSettings:
    """Returns settings with members r0, r1, ..."""
    return TargetSettings(kind, tuple((f"r{n}", member) for n, member in enumerate(members)), 1.0)


def external(rig: AnswerRig) -> ExternalSettings:
    """Returns the settings of a hook that can do two things."""
    del rig
    return ExternalSettings(common("w0", "w1"), ("deweight", "drain", "evict"), ("evict",))


@dataclass
class AnswerBook:
    """Orders that are answered at once."""

    rig: AnswerRig

    async def give(self, operation: str, _parameters: Mapping[str, str], _seconds: float) -> str:
        """Returns the output of an order."""
        return self.rig.answer(operation)


def build_switch(rig: AnswerRig) -> SwitchTarget:
    """Returns a target whose orders are answered at once."""
    flows = ((("destination_port", "4791"), ("protocol", "udp")),)
    settings = SwitchSettings(common("p0", "p1"), "n0", "br0", Secret("k" * 32), flows, mirror_to="m0")
    target = SwitchTarget(settings)
    target.book = AnswerBook(rig)  # type: ignore[assignment]
    return target


def build_rendered(rig: AnswerRig) -> RenderedTarget:
    """Returns a target of the tool that the kind of the rig names."""
    tool, member = rig.kind.split()[1:]
    return RenderedTarget(RenderedSettings(common(member), tool, ((member, str(rig.folder / "output")),)))


ADDRESSES = ("10.0.0.1:8000", "10.0.0.2:8000")
WORKERS = tuple(f"http://{address}" for address in ADDRESSES)
BUILDERS: Mapping[str, Callable[[AnswerRig], Target]] = {
    "haproxy": lambda _: HaproxyTarget(HaproxySettings(common("w0", "w1"), "/s", "be", PROBE)),
    "envoy": lambda rig: EnvoyTarget(
        EnvoySettings(common(*ADDRESSES), str(rig.folder / "file"), "workers", URL, probe=PROBE)
    ),
    "nginx": lambda rig: NginxTarget(NginxSettings(common(*ADDRESSES), str(rig.folder / "file"), "be", probe=PROBE)),
    "llm-d": lambda rig: LlmDTarget(LlmDSettings(common("vllm-0", "vllm-1"), str(rig.folder / "file"), probe=PROBE)),
    "sglang-router": lambda _: SglangRouterTarget(
        SglangRouterSettings(common(*WORKERS), URL, metrics=f"{URL}/metrics", probe=PROBE)
    ),
    "vllm-router": lambda _: VllmRouterTarget(
        WorkerRouterSettings(common(*WORKERS), URL, metrics=f"{URL}/metrics", probe=PROBE)
    ),
    "dynamo": lambda rig: DynamoTarget(
        DynamoSettings(common("10.0.0.1", "10.0.0.2"), str(rig.folder), metrics=(f"{URL}/metrics",))
    ),
    "ray-serve": lambda _: RayServeTarget(
        RayServeSettings(common("worker-1", "worker-2"), URL, "h:6379", metrics=(f"{URL}/metrics",))
    ),
    "gateway-api": lambda _: GatewayApiTarget(
        GatewayApiSettings(common("vllm-0", "vllm-1"), KubernetesApi(URL), "llm", probe=PROBE)
    ),
    "kubernetes": lambda _: KubernetesTarget(
        KubernetesSettings(common("gpu-0", "gpu-1"), KubernetesApi(URL), eviction=EvictionSettings(("llm",)))
    ),
    "slurm": lambda _: SlurmTarget(SlurmSettings(common("gpu1", "gpu2"))),
    "slurm-rest": lambda _: SlurmTarget(SlurmSettings(common("gpu1", "gpu2"), rest=URL)),
    "open-vswitch": build_switch,
    "rendered": build_rendered,
    "exec": lambda rig: ExternalTarget(external(rig), ExecSettings(external(rig), ("hook",))),
    "webhook": lambda rig: ExternalTarget(external(rig), WebhookSettings(external(rig), URL)),
}
FILES = ("file", "output")


def endpoint(n: int) -> dict[str, Any]:
    """Returns an endpoint of Envoy's file."""
    address = {"socket_address": {"address": f"10.0.0.{n}", "port_value": 8000}}
    marks = {"filter_metadata": {"skewscope": {"drain": {"action": "a-7"}}}}
    return {"endpoint": {"address": address}, "load_balancing_weight": 100, "metadata": marks}


def host(n: int) -> dict[str, Any]:
    """Returns a host of Envoy's admin page."""
    address = {"socket_address": {"address": f"10.0.0.{n}", "port_value": 8000}}
    stats = [{"name": "rq_total", "value": "5"}, {"name": "rq_error"}]
    return {"address": address, "stats": stats, "health_status": {"eds_health_status": "HEALTHY"}, "weight": 100}


def node(name: str) -> dict[str, Any]:
    """Returns a node of Kubernetes."""
    meta = {"name": name, "resourceVersion": "5", "labels": {"skewscope.io/drain": "a-7"}, "annotations": {"a": "b"}}
    taint = {"key": "skewscope.io/drain", "value": "a-7", "effect": "NoSchedule"}
    ready = [{"type": "Ready", "status": "True"}]
    return {"metadata": meta, "spec": {"taints": [taint]}, "status": {"conditions": ready}}


def pod(name: str) -> dict[str, Any]:
    """Returns a pod of Kubernetes."""
    mark = {"skewscope.io/drain": '{"action": "a-7"}'}
    owner = [{"kind": "ReplicaSet"}]
    meta = {"name": name, "uid": f"u-{name}", "resourceVersion": "5", "ownerReferences": owner, "annotations": mark}
    status = {"phase": "Running", "podIP": "10.0.0.1", "conditions": [{"type": "Ready", "status": "True"}]}
    return {"metadata": meta | {"labels": {"app": "llm"}}, "spec": {"nodeName": "gpu-0"}, "status": status}


SERVERS = """1
# be_name srv_name srv_addr srv_op_state srv_admin_state srv_uweight srv_port
be w0 10.0.0.1 2 0 100 8000
be w1 10.0.0.2 2 0 100 8000
"""
STATISTICS = "# pxname,svname,qcur,stot,\nbe,FRONTEND,,9,\nbe,w0,0,4,\nbe,w1,0,5,\n"
UPSTREAM = """upstream be {
  server 10.0.0.1:8000 weight=100;
  # skewscope {"drain": {"action": "a-7", "phase": "made"}}
  server 10.0.0.2:8000 weight=100 down;
}
"""
LABELLED = {
    "endpoints": [
        {"name": "vllm-0", "address": "10.0.0.1", "port": "8000"},
        {"name": "vllm-1", "address": "10.0.0.2", "port": "8000", "labels": {"skewscope.io/state": "canary"}},
    ]
}
ENDPOINTS = {"resources": [{"cluster_name": "workers", "endpoints": [{"lb_endpoints": [endpoint(1)]}]}]}
CLUSTERS = {"cluster_statuses": [{"name": "workers", "host_statuses": [host(1)]}]}
REGISTERED = {
    "workers": [
        {"id": f"id-{n}", "url": url, "priority": 50, "is_healthy": True, "metadata": {"tier": "gold"}}
        for n, url in enumerate(WORKERS)
    ]
}
INSTANCE = {
    "namespace": "dynamo",
    "component": "backend",
    "endpoint": "generate",
    "instance_id": 0xA1,
    "transport": {"tcp": "10.0.0.1:5000/a1/generate"},
}
RAY_NODES = {
    "data": {
        "result": {
            "result": [
                {"node_id": "a1", "node_name": "worker-1", "node_ip": "10.0.0.1", "state": "ALIVE", "end_time_ms": 0},
                *(
                    {"node_id": f"b{n}", "node_name": "worker-2", "node_ip": "10.0.0.2", "state": "DEAD"}
                    | {"state_message": "Terminated: skewscope:a-1 x", "end_time_ms": n}
                    for n in (2, 3)
                ),
            ]
        }
    }
}
RAY_APPLICATIONS = {
    "applications": {
        "app": {"deployments": {"W": {"replicas": [{"node_id": "a1", "state": "RUNNING", "replica_id": "r"}]}}}
    }
}
SLURM_NODES = {
    "nodes": [
        {"name": "gpu1", "state": ["IDLE", "NOT_RESPONDING"], "state_flags": ["DRAIN"], "reason": "skewscope:a-7 x"}
        | {"weight": {"set": True, "infinite": False, "number": 1}},
        {"name": "gpu2", "state": "idle", "reason": "", "weight": 1},
    ],
    "errors": [],
}
SLURM_JOBS = {
    "jobs": [
        {"job_id": 7, "het_job_id": {"set": True, "number": 0}, "job_state": ["RUNNING"], "nodes": "gpu[1-2]"}
        | {"start_time": {"set": True, "number": 1795421000}, "batch_flag": True, "requeue": True}
    ],
    "errors": [],
}
REST_PATHS = {"paths": {"/slurm/v0.0.41/node/{node_name}": {"get": {}, "post": {}}}}
FLOWS = " cookie=0x5c09000000000001, duration=3.2s, udp,in_port=p0,tp_dst=4791 actions=meter:32769,NORMAL\n"
METERS = """OFPST_METER_CONFIG reply (OF1.5) (xid=0x2):
meter=32769 kbps burst stats bands=
type=drop rate=1600 burst_size=160
"""
PORTS = """OFPST_PORT reply (OF1.5) (xid=0x2): 2 ports
  port  p0: rx pkts=8, bytes=656, drop=0, errs=0
  port  "p1": rx pkts=8, bytes=?, drop=0, errs=0
"""
HOOK = {
    "members": {
        "w0": {"serving": True, "weight": 100, "owners": {"drain": "a-7"}, "details": {"slot": "3"}, "work": 7},
        "w1": {"serving": True},
    }
}
DEVLINK = "pci/0000:03:00.0/1: type leaf tx_max 25Gbit\n"
DEVLINK_JSON = {"rate": {"pci/0000:03:00.0/1": {"type": "leaf", "tx_max": 3125000000}}}
QOS = "".join(f"tc: {n} ratelimit: {'40 Gbps' if n == 5 else 'unlimited'}, tsa: ets\n" for n in range(8))
SETTINGS = "Configurations:   Next Boot\n*       ROCE_CC_PRIO_MASK_P1       255    0   255\n"


def page(name: str, label: str, *values: str) -> str:
    """Returns a metrics page."""
    return "".join(f'{name}{{{label}="{value}"}} {n + 4}\n' for n, value in enumerate(values))


ANSWERS: Mapping[str, Mapping[str, Any]] = {
    "haproxy": {"show servers state": SERVERS, "show info": "Pid: 7\n", "show stat": STATISTICS, "/health": "ok"},
    "envoy": {"file": ENDPOINTS, "/clusters": CLUSTERS, "/health": "ok"},
    "nginx": {"file": UPSTREAM, "/health": "ok"},
    "llm-d": {"file": LABELLED, "/health": "ok"},
    "sglang-router": {
        "/workers": REGISTERED,
        "/metrics": page("smg_worker_cb_outcomes_total", "worker", *WORKERS),
        "/health": "ok",
    },
    "vllm-router": {
        "/workers": REGISTERED,
        "/metrics": page("vllm_router_processed_requests_total", "worker", *WORKERS),
        "/health": "ok",
    },
    "dynamo": {
        "v1/instances/dynamo%2Fbackend%2Fgenerate%2Fa1": INSTANCE,
        "v1/mdc/dynamo%2Fbackend%2Fgenerate%2Fa1": {},
        "/metrics": page("dynamo_component_requests_total", "worker_id", "a1"),
    },
    "ray-serve": {
        "/api/v0/nodes": RAY_NODES,
        "/api/serve/applications/": RAY_APPLICATIONS,
        "/metrics": page("ray_serve_deployment_request_counter_total", "replica", "app#W#r"),
    },
    "gateway-api": {"/pods/vllm-0": pod("vllm-0"), "/pods/vllm-1": pod("vllm-1"), "/health": "ok"},
    "kubernetes": {
        "/nodes/gpu-0": node("gpu-0"),
        "/nodes/gpu-1": node("gpu-1"),
        "/pods?": {"metadata": {"continue": ""}, "items": [pod("w0"), pod("w1")]},
    },
    "slurm": {
        "scontrol show nodes": SLURM_NODES,
        "squeue --json": SLURM_JOBS,
        "scontrol show config": "KillWait                = 30 sec\n",
    },
    "slurm-rest": {
        "/openapi/v3": REST_PATHS,
        "/nodes/": SLURM_NODES,
        "/jobs/": SLURM_JOBS,
        "scontrol show config": "KillWait                = 30 sec\n",
    },
    "open-vswitch": {
        "dump-ports": PORTS,
        "dump-flows": FLOWS,
        "dump-meters": METERS,
        "dump-mirrors": {"data": [["skewscope-5c09000000000001"]], "headings": ["name"]},
    },
    "rendered devlink pci/0000:03:00.0/1": {"output": DEVLINK},
    "rendered devlink pci/0000:03:00.0/1 ": {"output": DEVLINK_JSON},
    "rendered mlnx_qos eth2": {"output": QOS},
    "rendered mlxconfig 03:00.0": {"output": SETTINGS},
    "rendered nccl job-a": {"output": "export NCCL_IB_HCA=mlx5_0,mlx5_3:1\n"},
    "exec": {"hook": HOOK},
    "webhook": {URL: HOOK},
}
"""Usable answers by kind of target; a second form of the same kind has a blank more."""


@pytest.fixture
def answer_rig(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AnswerRig:
    """Returns a target of the kind that the parameter names, with usable answers."""
    kind = request.param
    texts = {name: text if isinstance(text, str) else json.dumps(text) for name, text in ANSWERS[kind].items()}
    rig = AnswerRig(kind, tmp_path, texts)
    rig.write_files()

    async def exchange(url: str, _o: FetchOptions, body: PostBody | None = None, method: str = "") -> HttpResponse:
        del body, method
        try:
            # What is wrong with an address is found before anything is sent.
            parts = urlsplit(url)
            assert parts.hostname is not None, url
            assert parts.port != 0, url
            url.encode("ascii")
        except ValueError as error:
            raise FetchError(str(error)) from None
        return HttpResponse(200, {}, rig.answer(url).encode(errors="surrogatepass"))

    async def run_command(call: CommandCall, *_: object) -> str:
        return rig.answer(" ".join(call.arguments))

    async def send_line(call: SocketCall, _seconds: float) -> str:
        return rig.answer(call.line)

    monkeypatch.setattr(transports, "exchange", exchange)
    monkeypatch.setattr(haproxy, "send_line", send_line)
    for module in (slurm, "skewscope.adapters.targets.exec"):
        name = module if isinstance(module, str) else module.__name__
        monkeypatch.setattr(f"{name}.run_command", run_command)
    monkeypatch.setattr(dynamo, "SWITCH_SECONDS", 0.1)
    return rig


async def read_members(target: Target) -> Mapping[str, MemberState]:
    """Returns the state of all members; empty where there is none."""
    with suppress(TargetError):
        return (await target.read_state()).members
    return {}


async def use_target(target: Target, good: Mapping[str, MemberState], used: set[str]) -> None:
    """Does all that reads an answer, where a TargetError is no failure.

    Args:
        target: the target, with any answers.
        good: the state that was read from usable ones.
        used: states for which calls were rendered, to which this one is added: the same state gives the same calls.
    """
    with suppress(TargetError):
        work = await target.read_work()
        assert all(isinstance(count, float) and 0.0 <= count < 1e300 for count in work.values()), work
    for member in target.members.values():
        with suppress(TargetError):
            await target.probe(member)
    with suppress(TargetError):
        state = await target.read_state()
        for member in state.members.values():
            assert member.weight is None or 0.0 <= member.weight < 1e300
        known = repr((state, state.text, _list_learned(target)))
        if known in used:
            return
        used.add(known)
        parameters = PARAMETERS if isinstance(target, RenderedTarget) else ()
        for member in target.members.values():
            for kind in target.support:
                for action in ("a-1", "a-7"):
                    _use_change(
                        target, Change(kind, target.name, member, action, "", 0.0, 0.5, parameters), good, state
                    )


def _list_learned(target: Target) -> list[tuple[str, Any]]:
    """Returns what a target keeps of answers beside the state: plain values in its attributes."""
    return [(name, value) for name, value in vars(target).items() if isinstance(value, str | int | float | set)]


def _use_change(target: Target, change: Change, good: Mapping[str, MemberState], state: TargetState) -> None:
    with suppress(TargetError):
        _check_calls(target.render_change(change, state))
    usual, now = good.get(change.member), state.member(change.member)
    for before in (usual, now if now != usual else None):
        if before is None:
            continue
        with suppress(TargetError):
            target.find_standing(change, before, state)
        with suppress(TargetError):
            _check_calls(target.render_undo(change, before, state))


def _check_calls(calls: tuple[Call, ...]) -> None:
    for text in describe_calls(calls):
        text.encode()
    for call in calls:
        if isinstance(call, CommandCall):
            assert not any(word.startswith("-") and word[1:2].isdigit() for word in call.arguments), call
