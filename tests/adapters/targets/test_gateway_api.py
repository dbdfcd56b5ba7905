"""Pods of an inference pool, against a server with the semantics of a real API server."""

import asyncio
import json
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from skewscope.adapters.actions.carry_out import ForeignStateError, make_change, undo_change
from skewscope.adapters.config.secret import Secret
from skewscope.adapters.sources.common.http_client import FetchOptions
from skewscope.adapters.targets import target_kinds
from skewscope.adapters.targets.common.base import TargetError
from skewscope.adapters.targets.common.kubernetes_api import KubernetesApi
from skewscope.adapters.targets.common.probe import ProbeSettings
from skewscope.adapters.targets.common.settings import TargetSettings
from skewscope.adapters.targets.gateway_api import GatewayApiSettings, GatewayApiTarget
from skewscope.engine.actions.change import ABSENT, DEWEIGHT, DRAIN, FOREIGN, Change
from skewscope.kb import yamlfile
from skewscope.kb.field_reader import FieldReader
from tests.support.kube_api import TOKEN, KubeApi
from tests.support.openai_worker import OpenaiWorker
from tests.support.target_contract import run_cycle
from tests.support.target_traffic import HANGS, scripted_server

CHANGE = Change(DRAIN, "pool", "vllm-0", "a-1", "slow", 5.0)
LABELS = ("skewscope.io/state", "app")


def make_target(url: str, label: str = LABELS[0], port: int = 8000) -> GatewayApiTarget:
    common = TargetSettings("pool", (("r0", "vllm-0"), ("r1", "vllm-1")), 1.0)
    api = KubernetesApi(url, FetchOptions(1.0, bearer=Secret(TOKEN)))
    return GatewayApiTarget(GatewayApiSettings(common, api, "llm", label, port=port, probe=ProbeSettings("/health")))


@contextmanager
def running_pool(label: str = LABELS[0]) -> Iterator[tuple[GatewayApiTarget, KubeApi]]:
    """Yields a target and the objects of its cluster: two pods, with the label `app` by which a pool selects."""
    cluster = KubeApi()
    for n in range(2):
        cluster.add_pod(f"vllm-{n}", labels={"app": "vllm"}, annotations={"a": "b"})
    with cluster.serve() as server:
        yield make_target(server.url, label), cluster


@pytest.mark.parametrize("label", LABELS)
def test_a_pod_is_labelled_and_restored(label):
    with running_pool(label) as (target, cluster):

        async def check() -> None:
            meta = cluster.pods["llm", "vllm-0"]["metadata"]
            assert meta["labels"] == {"app": "vllm"} | {label: "drained"}
            mark = json.loads(meta["annotations"].pop("skewscope.io/drain"))
            meta["annotations"]["skewscope.io/drain"] = json.dumps(mark)
            assert mark == {"action": "a-1", "reason": "slow", "expires": 5.0}
            state = await target.read_state()
            assert [state.members[name].serving for name in target.members.values()] == [False, True]

        asyncio.run(run_cycle(target, CHANGE, check))
        meta = cluster.pods["llm", "vllm-0"]["metadata"]
        assert (meta["labels"], meta["annotations"]) == ({"app": "vllm"}, {"a": "b"})


def test_a_pod_that_started_anew_is_taken_out_again():
    with running_pool() as (target, cluster):

        async def run() -> None:
            before = (await target.read_state()).members["vllm-0"]
            await make_change(target, CHANGE, before)
            cluster.add_pod("vllm-0", labels={"app": "vllm"})
            assert target.find_standing(CHANGE, before, await target.read_state()) == ABSENT
            assert await undo_change(target, CHANGE, before) == ()
            assert await make_change(target, CHANGE, before)

        asyncio.run(run())


@pytest.mark.parametrize("theirs", [json.dumps({"action": "a-9"}), "[]", "yes"])
def test_what_somebody_else_marked_stays(theirs):
    with running_pool() as (target, cluster):

        async def run() -> None:
            before = (await target.read_state()).members["vllm-0"]
            meta = cluster.pods["llm", "vllm-0"]["metadata"]
            meta["annotations"]["skewscope.io/drain"] = theirs
            with pytest.raises(ForeignStateError):
                await make_change(target, CHANGE, before)
            assert await undo_change(target, CHANGE, before) == ()
            # Our mark, and a label that an operator wrote over ours.
            meta["annotations"]["skewscope.io/drain"] = json.dumps({"action": "a-1"})
            meta["labels"]["skewscope.io/state"] = "broken"
            assert target.find_standing(CHANGE, before, await target.read_state()) == FOREIGN
            await undo_change(target, CHANGE, before)
            assert cluster.pods["llm", "vllm-0"]["metadata"]["labels"]["skewscope.io/state"] == "broken"
            assert cluster.pods["llm", "vllm-0"]["metadata"]["annotations"] == {"a": "b"}
            # The pod is gone.
            cluster.pods.clear()
            assert target.find_standing(CHANGE, before, await target.read_state()) == FOREIGN
            assert await undo_change(target, CHANGE, before) == ()

        asyncio.run(run())


def test_a_pod_is_probed_at_its_address():
    async def run() -> None:
        async with OpenaiWorker("w") as worker:
            cluster = KubeApi()
            cluster.add_pod("vllm-0")
            cluster.add_pod("vllm-1")["status"]["podIP"] = "host.evil"
            with cluster.serve() as server:
                target = make_target(server.url, port=worker.port)
                assert (await target.probe("vllm-0") or 9.0) < 1.0
                with pytest.raises(TargetError, match="has no address"):
                    await target.probe("vllm-1")

    asyncio.run(run())


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (Change(DEWEIGHT, "pool", "vllm-0", "a-1"), "cannot deweight"),
        (Change(DRAIN, "pool", "vllm-9", "a-1"), "no pod 'vllm-9'"),
        (Change(DRAIN, "pool", "vllm-0", ""), "is no id of an action"),
    ],
)
def test_an_impossible_change_is_an_error(change, message):
    with running_pool() as (target, _cluster), pytest.raises(TargetError, match=message):
        target.render_change(change, asyncio.run(target.read_state()))


@pytest.mark.parametrize("page", [b"", b"3", None, HANGS])
def test_a_strange_answer_is_an_error_in_time(page):
    with scripted_server([page]) as url, pytest.raises(TargetError):
        asyncio.run(make_target(url).read_state())


SETTINGS = """
targets:
- {kind: gateway-api, url: "https://k:6443", namespace: llm, members: {r0: vllm-0}, label: app, value: out}
- {kind: gateway-api, url: "https://k:6443", namespace: "a/b", members: {r0: "a b"}, label: "a b", value: "x y",
   port: 0}
"""


def test_settings_are_checked():
    fields = FieldReader(yamlfile.parse(SETTINGS, "skewscope.yaml"))
    kind = target_kinds()["gateway-api"]
    good, _ = [kind.read(fields, ("targets", n), f"t{n}") for n in range(2)]
    assert kind.build(good).members == {"r0": "vllm-0"}
    names = ("label", "members.r0", "namespace", "port", "value")
    assert sorted(problem.field for problem in fields.problems) == [f"targets[1].{name}" for name in names]
