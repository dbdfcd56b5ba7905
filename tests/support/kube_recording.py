"""What a real Kubernetes API server answered to targets: recorded once, replayed by tests.

`python -m tests.support.kube_recording URL TOKEN_FILE FILE` plays the scenes against an API server of one's own, which
needs neither nodes nor controllers, and writes FILE. A replay wants the very same requests in the same order.
"""

import asyncio
import json
import ssl
import sys
import time
import urllib.request
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any
from urllib.error import HTTPError

import pytest

from skewscope.adapters.actions.carry_out import make_change, undo_change
from skewscope.adapters.sources.common.http_client import FetchOptions
from skewscope.adapters.targets.common.base import BusyError, ConflictError, TargetError
from skewscope.adapters.targets.common.kubernetes_api import KubernetesApi
from skewscope.adapters.targets.common.settings import TargetSettings
from skewscope.adapters.targets.gateway_api import GatewayApiSettings, GatewayApiTarget
from skewscope.adapters.targets.kubernetes import CORDON, TAINT, EvictionSettings, KubernetesSettings, KubernetesTarget
from skewscope.engine.actions.change import ABSENT, DEWEIGHT, DRAIN, EVICT, FOREIGN, OURS, Change
from tests.support.loopback import Asked, Says, Server
from tests.support.target_contract import run_cycle

RECORDED = Path(__file__).resolve().parents[1] / "adapters/targets/recorded/kubernetes-1.20.json"
NODE, POD, SPACE = "gpu-0", "w0", "llm"
Outside = Callable[[str, str, Any], Awaitable[None]]
"""What somebody else does at the server: method, path, body. Nothing, in a replay."""
NODES, PODS = "/api/v1/nodes", f"/api/v1/namespaces/{SPACE}/pods"
BUDGETS = f"/apis/policy/v1beta1/namespaces/{SPACE}/poddisruptionbudgets"
MERGE = "application/merge-patch+json"
READY = {"conditions": [{"type": "Ready", "status": "True"}]}
POD_RUNS = {"status": {"phase": "Running", "podIP": "10.0.0.7", **READY}}


def node_target(url: str, drain_by: str = TAINT) -> KubernetesTarget:
    """Returns the target of one node, whose pods may be evicted."""
    eviction = EvictionSettings((SPACE,), "app=llm", "policy/v1beta1")
    api = KubernetesApi(url, FetchOptions(5.0))
    return KubernetesTarget(KubernetesSettings(TargetSettings("k8s", (("n0", NODE),)), api, drain_by, eviction))


def pod_target(url: str) -> GatewayApiTarget:
    """Returns the target of one pod of a pool."""
    settings = GatewayApiSettings(TargetSettings("pool", (("r0", POD),)), KubernetesApi(url, FetchOptions(5.0)), SPACE)
    return GatewayApiTarget(settings)


def change_of(kind: str, member: str = NODE) -> Change:
    """Returns a change of an action."""
    return Change(kind, "k8s", member, "a-1", "slow rank", 5.0, 0.5 if kind == DEWEIGHT else 0.0)


# --- scenes


async def play_taint(url: str, _outside: Outside) -> None:
    """A node is drained by a taint, and given back."""
    await run_cycle(node_target(url), change_of(DRAIN))


async def play_preference(url: str, _outside: Outside) -> None:
    """A node is made less preferred, and given back."""
    await run_cycle(node_target(url), change_of(DEWEIGHT))


async def play_cordon(url: str, _outside: Outside) -> None:
    """A node is drained by a cordon, and given back."""
    await run_cycle(node_target(url, CORDON), change_of(DRAIN))


async def play_conflict(url: str, outside: Outside) -> None:
    """Somebody else changes the node between reading and writing: 409, and their taint is kept."""
    target, change = node_target(url), change_of(DRAIN)
    state = await target.read_state()
    (call,) = target.render_change(change, state)
    theirs = {"spec": {"taints": [{"key": "theirs", "value": "x", "effect": "NoSchedule"}]}}
    await outside("PATCH", f"{NODES}/{NODE}", theirs)
    with pytest.raises(ConflictError, match="the object has been modified"):
        await target.make_call(call)
    # What is there before the change is read anew, as a plan does.
    before = (await target.read_state()).members[NODE]
    await make_change(target, change, before)
    after = await target.read_state()
    assert [each["key"] for each in json.loads(after.members[NODE].detail("taints"))] == [
        "theirs",
        "skewscope.io/drain",
    ]
    await undo_change(target, change, before)


async def play_dry_run(url: str, outside: Outside) -> None:
    """The server checks a taint, a cordon and an eviction, and changes nothing."""
    await outside("DELETE", f"{BUDGETS}/llm", None)
    for target, kind in ((node_target(url), DRAIN), (node_target(url, CORDON), DRAIN), (node_target(url), EVICT)):
        start = await target.read_state()
        for call in target.render_change(change_of(kind), start):
            dry = target.render_dry_run(call)
            assert dry is not None
            await target.make_call(dry)
        assert await target.read_state() == start, "a dry run has changed something"


async def play_eviction(url: str, outside: Outside) -> None:
    """A budget forbids an eviction (429); without it the pod ends, and the taint goes with the undo."""
    target, change = node_target(url), change_of(EVICT)
    before = (await target.read_state()).members[NODE]
    taint, evict = target.render_change(change, await target.read_state())
    await target.make_call(taint)
    with pytest.raises(BusyError, match="Cannot evict pod as it would violate the pod's disruption budget"):
        await target.make_call(evict)
    await outside("DELETE", f"{BUDGETS}/llm", None)
    (again,) = await make_change(target, change, before)
    assert again == evict
    ending = await target.read_state()
    assert target.find_standing(change, before, ending) == ABSENT
    assert target.render_change(change, ending) == ()
    await outside("DELETE", f"{PODS}/{POD}", {"gracePeriodSeconds": 0})
    assert target.find_standing(change, before, await target.read_state()) == OURS
    # It has ended meanwhile: nothing to do.
    await target.make_call(evict)
    await undo_change(target, change, before)
    assert target.find_standing(change, before, await target.read_state()) == ABSENT


async def play_replaced_pod(url: str, outside: Outside) -> None:
    """A pod of the same name that was started meanwhile is not evicted: 409."""
    target = node_target(url)
    evict = target.render_change(change_of(EVICT), await target.read_state())[1]
    await outside("DELETE", f"{BUDGETS}/llm", None)
    await outside("DELETE", f"{PODS}/{POD}", {"gracePeriodSeconds": 0})
    await outside("POST", PODS, build_pod())
    await outside("PATCH", f"{PODS}/{POD}/status", POD_RUNS)
    with pytest.raises(ConflictError, match="does not match the UID in record"):
        await target.make_call(evict)


async def play_theirs(url: str, outside: Outside) -> None:
    """What an operator cordons stays as it is."""
    target, change = node_target(url, CORDON), change_of(DRAIN)
    before = (await target.read_state()).members[NODE]
    await outside("PATCH", f"{NODES}/{NODE}", {"spec": {"unschedulable": True}})
    state = await target.read_state()
    assert target.find_standing(change, before, state) == FOREIGN
    assert target.render_undo(change, before, state) == ()


async def play_label(url: str, _outside: Outside) -> None:
    """A pod leaves a pool by its label, and comes back."""
    await run_cycle(pod_target(url), change_of(DRAIN, POD))


async def play_refusals(url: str, outside: Outside) -> None:
    """A node that is gone is no member; a taint with a wrong effect is refused (422)."""
    target, change = node_target(url), change_of(DRAIN)
    (call,) = target.render_change(change, await target.read_state())
    wrong = replace(call, body=call.body.replace('"NoSchedule"', '"Never"'))
    with pytest.raises(TargetError, match=r"the answer 422: .*effect"):
        await target.make_call(wrong)
    await outside("DELETE", f"{NODES}/{NODE}", None)
    assert (await target.read_state()).members == {}


SCENES: Mapping[str, Callable[[str, Outside], Awaitable[None]]] = {
    "taint": play_taint,
    "preference": play_preference,
    "cordon": play_cordon,
    "conflict": play_conflict,
    "dry run": play_dry_run,
    "eviction": play_eviction,
    "replaced pod": play_replaced_pod,
    "theirs": play_theirs,
    "label": play_label,
    "refusals": play_refusals,
}


def build_pod() -> dict[str, Any]:
    """Returns a pod that runs on the node, as it is created."""
    meta = {"name": POD, "namespace": SPACE, "labels": {"app": "llm"}}
    container = {"name": "c", "image": "example.invalid/x"}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": {"nodeName": NODE, "containers": [container]}}


# --- replay


@dataclass
class ReplayedApi:
    """Answers each request of a scene with what the server answered."""

    exchanges: list[Mapping[str, Any]]
    differences: list[str] = field(default_factory=list)

    def answer(self, asked: Asked) -> Says:
        """Returns the recorded answer; a request that was not recorded here is noted, and answered with 500."""
        body = json.loads(asked.body) if asked.body else None
        request = {"method": asked.method, "path": asked.path, "body": body}
        if asked.body:
            request["type"] = asked.headers.get("content-type")
        wanted = self.exchanges.pop(0) if self.exchanges else {"request": "nothing more"}
        if request != wanted["request"]:
            self.differences.append(f"{request} instead of {wanted['request']}")
            return Says(500, b"no such request was recorded")
        return Says(wanted["status"], json.dumps(wanted["answer"]).encode(), {"Content-Type": "application/json"})


@contextmanager
def replayed_api(scene: str) -> Iterator[str]:
    """Yields the URL of a server that replays a scene; all of it has to be asked for."""
    api = ReplayedApi(list(json.loads(RECORDED.read_text())["scenes"][scene]))
    with Server(api.answer) as server:
        yield server.url
    assert not api.differences, api.differences
    assert not api.exchanges, f"not asked for: {[each['request'] for each in api.exchanges]}"


# --- recording


@dataclass
class Recorder:
    """Passes requests on to a real server, and keeps them with their answers."""

    url: str
    token: str
    exchanges: list[dict[str, Any]] = field(default_factory=list)

    def send(self, method: str, path: str, body: bytes | None, kind: str) -> tuple[int, Any]:
        """Returns status and content of the server's answer."""
        headers = {"Authorization": f"Bearer {self.token}", "Content-Type": kind, "Accept": "application/json"}
        request = urllib.request.Request(self.url + path, body, headers, method=method)
        unchecked = ssl._create_unverified_context()
        try:
            with urllib.request.urlopen(request, timeout=20, context=unchecked) as answer:
                return answer.status, json.loads(answer.read())
        except HTTPError as error:
            return error.code, json.loads(error.read())

    def answer(self, asked: Asked) -> Says:
        """Returns the server's answer, without what nobody reads."""
        kind = asked.headers.get("content-type", "application/json")
        status, content = self.send(asked.method, asked.path, asked.body or None, kind)
        strip_fields(content)
        body = json.loads(asked.body) if asked.body else None
        request = {"method": asked.method, "path": asked.path, "body": body} | ({"type": kind} if asked.body else {})
        self.exchanges.append({"request": request, "status": status, "answer": content})
        return Says(status, json.dumps(content).encode(), {"Content-Type": "application/json"})

    async def act(self, method: str, path: str, body: Any) -> None:
        """Does what somebody else does."""
        kind = MERGE if method == "PATCH" else "application/json"
        data = None if body is None else json.dumps(body).encode()
        status, content = await asyncio.to_thread(self.send, method, path, data, kind)
        assert status in (200, 201, 404), content

    async def set_stage(self) -> None:
        """Leaves one node, one pod that runs on it, and a budget that lets none go."""
        await self.act("DELETE", f"{PODS}/{POD}", {"gracePeriodSeconds": 0})
        await self.act("DELETE", f"{NODES}/{NODE}", None)
        await self.act("DELETE", f"{BUDGETS}/llm", None)
        await self.act("POST", NODES, {"apiVersion": "v1", "kind": "Node", "metadata": {"name": NODE}})
        await self.act("PATCH", f"{NODES}/{NODE}/status", {"status": READY})
        # The server itself taints what is new.
        await self.act("PATCH", f"{NODES}/{NODE}", {"spec": {"taints": None}})
        await self.act("POST", PODS, build_pod())
        await self.act("PATCH", f"{PODS}/{POD}/status", POD_RUNS)
        spec = {"minAvailable": 1, "selector": {"matchLabels": {"app": "llm"}}}
        budget = {
            "apiVersion": "policy/v1beta1",
            "kind": "PodDisruptionBudget",
            "metadata": {"name": "llm"},
            "spec": spec,
        }
        await self.act("POST", BUDGETS, budget)
        counts = {"observedGeneration": 1, "disruptionsAllowed": 0, "currentHealthy": 1}
        counts |= {"desiredHealthy": 1, "expectedPods": 1}
        await self.act("PATCH", f"{BUDGETS}/llm/status", {"status": counts})


KEPT = {"status": ("conditions", "phase", "podIP"), "spec": ("nodeName", "taints", "unschedulable")}
"""What is kept of nodes and pods; the history of fields in their metadata is most of an answer."""


def strip_fields(content: Any) -> None:
    """Removes what no target reads from the objects of an answer; a Status stays as it is."""
    if not isinstance(content, dict):
        return
    for part, names in KEPT.items():
        if isinstance(content.get(part), dict):
            content[part] = {name: value for name, value in content[part].items() if name in names}
    if isinstance(content.get("metadata"), dict):
        content["metadata"].pop("managedFields", None)
    for each in content.get("items", ()):
        strip_fields(each)


async def record(url: str, token: str) -> dict[str, Any]:
    """Returns the exchanges of all scenes."""
    recorder = Recorder(url, token)
    _, version = recorder.send("GET", "/version", None, "application/json")
    space = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": SPACE}}
    recorder.send("POST", "/api/v1/namespaces", json.dumps(space).encode(), "application/json")
    scenes = {}
    with Server(recorder.answer) as server:
        for name, play in SCENES.items():
            await recorder.set_stage()
            recorder.exchanges = []
            await play(server.url, recorder.act)
            scenes[name] = recorder.exchanges
            statuses = sorted({each["status"] for each in recorder.exchanges})
            sys.stdout.write(f"{name}: {len(recorder.exchanges)} exchanges, {statuses}\n")
    return {"server": version["gitVersion"], "recorded": time.strftime("%Y-%m-%d"), "scenes": scenes}


def main() -> None:
    """Records."""
    url, token, file = sys.argv[1:]
    found = asyncio.run(record(url.rstrip("/"), Path(token).read_text().strip()))
    lines = [f" {json.dumps(name)}: [\n{_list_lines(scene)}\n ]" for name, scene in found.pop("scenes").items()]
    head = json.dumps(found).removesuffix("}")
    Path(file).write_text(f'{head}, "scenes": {{\n{", ".join(lines)}\n}}}}\n')


def _list_lines(scene: list[dict[str, Any]]) -> str:
    return ",\n".join(f"  {json.dumps(each)}" for each in scene)


if __name__ == "__main__":
    main()
