"""NVIDIA Dynamo with discovery in a folder: driven for real where it is installed, and on written keys."""

import asyncio
import json
import time
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from skewscope.adapters.actions.carry_out import ForeignStateError, make_change, undo_change
from skewscope.adapters.sources.common.http_client import FetchOptions, PostBody, exchange
from skewscope.adapters.targets import target_kinds
from skewscope.adapters.targets.common.base import ConflictError, TargetError
from skewscope.adapters.targets.common.calls import FileCall
from skewscope.adapters.targets.common.probe import ProbeSettings
from skewscope.adapters.targets.common.settings import TargetSettings
from skewscope.adapters.targets.dynamo import CanarySettings, DynamoSettings, DynamoTarget
from skewscope.engine.actions.change import ABSENT, DEWEIGHT, DRAIN, FOREIGN, Change
from skewscope.kb import yamlfile
from skewscope.kb.field_reader import FieldReader
from tests.support import dynamo
from tests.support.dynamo import MODEL, DynamoCluster, running_dynamo
from tests.support.strange_server import strange_server
from tests.support.target_contract import run_cycle, wait_for_standing

needs_dynamo = pytest.mark.skipif(not dynamo.is_installed(), reason="ai-dynamo is not installed (see .ci/run)")


# --- a real cluster


@asynccontextmanager
async def target_of_cluster(folder: Path) -> AsyncIterator[tuple[DynamoTarget, DynamoCluster]]:
    async with running_dynamo(folder) as cluster:
        members = tuple((f"r{n}", worker.address) for n, worker in enumerate(cluster.workers))
        probe = ProbeSettings("/v1/completions", MODEL, 8)
        yield (
            DynamoTarget(
                DynamoSettings(
                    TargetSettings("front", members),
                    str(cluster.folder),
                    metrics=tuple(worker.metrics for worker in cluster.workers),
                    canary=CanarySettings(cluster.canary_url, str(cluster.canary_folder), probe),
                )
            ),
            cluster,
        )


async def send(url: str, count: int, tokens: int = 4) -> Counter[int]:
    """Sends requests and returns the number of answers by status."""
    found: Counter[int] = Counter()
    body = {"model": MODEL, "prompt": "hello there", "max_tokens": tokens, "ignore_eos": True}
    for _ in range(count):
        post = PostBody(json.dumps(body).encode(), "application/json")
        found[(await exchange(f"{url}/v1/completions", FetchOptions(20.0), post)).status] += 1
    return found


@needs_dynamo
@pytest.mark.slow
def test_a_worker_without_its_key_gets_no_requests_until_it_is_back(tmp_path):
    async def run() -> tuple[str, ...]:
        async with target_of_cluster(tmp_path) as (target, cluster):
            member = cluster.workers[2].address

            async def check() -> None:
                await asyncio.sleep(0.5)
                work = await target.read_work()
                assert await send(cluster.url, 12) == {200: 12}
                moved = await target.read_work()
                assert {m: moved[m] - work[m] for m in work} == {w.address: 6 for w in cluster.workers[:2]} | {
                    member: 0
                }
                # The probe reaches it all the same, and its requests are not seen by the front end's users.
                assert 0.0 < (await target.probe(member) or 0.0) < 5.0
                # Longer than keys live without the heartbeat of their worker.
                await asyncio.sleep(11.0)
                state = await target.read_state()
                assert state.members[member].detail("alive") == "yes"

            calls = await run_cycle(target, Change(DRAIN, "front", member, "a-1"), check)
            await asyncio.sleep(0.5)
            work = await target.read_work()
            assert await send(cluster.url, 12) == {200: 12}
            assert (await target.read_work())[member] == work[member] + 4
            return calls

    keep, remove = asyncio.run(run())
    assert "skewscope/a-1" in keep
    assert "\n+{" in keep
    assert "v1/instances" in remove
    assert "\n-{" in remove


@needs_dynamo
@pytest.mark.slow
def test_requests_under_way_finish(tmp_path):
    async def run() -> Counter[int]:
        async with target_of_cluster(tmp_path) as (target, cluster):
            under_way = [asyncio.create_task(send(cluster.url, 1, 300)) for _ in range(6)]
            await asyncio.sleep(0.7)
            change = Change(DRAIN, "front", cluster.workers[2].address, "a-1")
            before = (await target.read_state()).members[change.member]
            await make_change(target, change, before)
            assert not any(task.done() for task in under_way)
            return sum(await asyncio.gather(*under_way), Counter())

    assert asyncio.run(run()) == {200: 6}


@needs_dynamo
@pytest.mark.slow
def test_a_worker_that_ended_is_not_put_back(tmp_path):
    async def run() -> None:
        async with target_of_cluster(tmp_path) as (target, cluster):
            change = Change(DRAIN, "front", cluster.workers[2].address, "a-1")
            before = (await target.read_state()).members[change.member]
            await make_change(target, change, before)
            dynamo.stop(cluster.workers[2])
            await wait_for_standing_of_ended(target, change, before)
            await undo_change(target, change, before)
            assert len(cluster.keys()) == 2
            assert await send(cluster.url, 6) == {200: 6}
            with pytest.raises(TargetError, match="no worker at"):
                await target.probe(change.member)

    asyncio.run(run())


async def wait_for_standing_of_ended(target, change, before) -> None:
    # A key lives ten seconds without its worker.
    for _ in range(200):
        if target.find_standing(change, before, await target.read_state()) == FOREIGN:
            return
        await asyncio.sleep(0.1)
    await wait_for_standing(target, change, before, FOREIGN)


# --- written keys


def write_worker(folder: Path, number: int, address: str, *, card: bool = True, endpoint: str = "generate") -> Path:
    """Writes the key of a worker, and its card; returns the file of the key."""
    content = {"type": "Endpoint", "namespace": "dynamo", "component": "backend", "endpoint": endpoint}
    content |= {"instance_id": number, "transport": {"tcp": f"{address}/{number:x}/dynamo/backend/{endpoint}"}}
    key = f"dynamo%2Fbackend%2F{endpoint}%2F{number:x}"
    for place, text in (("instances", json.dumps(content)), ("mdc", "{}")):
        (folder / "v1" / place).mkdir(parents=True, exist_ok=True)
        if place == "instances" or card:
            (folder / "v1" / place / key).write_text(text)
    return folder / "v1/instances" / key


def make_target(folder: Path, *members: str, metrics: tuple[str, ...] = ()) -> DynamoTarget:
    named = tuple((f"r{n}", member) for n, member in enumerate(members))
    return DynamoTarget(DynamoSettings(TargetSettings("front", named), str(folder), metrics=metrics))


@pytest.mark.parametrize("member", ["10.0.0.1:5000", "10.0.0.1"])
def test_cycle_on_written_keys(tmp_path, member):
    key = write_worker(tmp_path, 0xA1, "10.0.0.1:5000")
    write_worker(tmp_path, 0xA1, "10.0.0.1:5000", endpoint="worker_query")
    write_worker(tmp_path, 0xB2, "10.0.0.2:5000")
    content = key.read_text()

    async def check() -> None:
        assert not key.exists()
        assert (tmp_path / "skewscope/a-1" / key.name).read_text() == content

    asyncio.run(run_cycle(make_target(tmp_path, member, "10.0.0.2"), Change(DRAIN, "front", member, "a-1"), check))
    assert key.read_text() == content
    assert not list((tmp_path / "skewscope/a-1").iterdir())
    assert not [file for file in tmp_path.iterdir() if file.name.startswith(".")]


def test_a_change_that_was_broken_off_is_finished(tmp_path):
    key = write_worker(tmp_path, 0xA1, "10.0.0.1:5000")
    target, change = make_target(tmp_path, "10.0.0.1"), Change(DRAIN, "front", "10.0.0.1", "a-1")

    async def run() -> None:
        before = (await target.read_state()).members["10.0.0.1"]
        keep, remove = target.render_change(change, await target.read_state())
        await target.make_call(keep)
        state = await target.read_state()
        assert target.find_standing(change, before, state) == ABSENT
        assert target.render_change(change, state) == (remove,)
        assert await make_change(target, change, before) == (remove,)
        restore, forget = target.render_undo(change, before, await target.read_state())
        await target.make_call(restore)
        assert await undo_change(target, change, before) == (forget,)
        assert key.exists()

    asyncio.run(run())


def test_only_the_key_of_this_action_is_put_back(tmp_path):
    key = write_worker(tmp_path, 0xA1, "10.0.0.1:5000")
    target, change = make_target(tmp_path, "10.0.0.1"), Change(DRAIN, "front", "10.0.0.1", "a-1")

    async def run() -> None:
        before = (await target.read_state()).members["10.0.0.1"]
        await make_change(target, Change(DRAIN, "front", "10.0.0.1", "b-2"), before)
        assert target.find_standing(change, before, await target.read_state()) == FOREIGN
        with pytest.raises(ForeignStateError):
            await make_change(target, change, before)
        assert await undo_change(target, change, before) == ()
        assert not key.exists()

    asyncio.run(run())


def test_a_key_that_an_operator_removed_is_theirs(tmp_path):
    key = write_worker(tmp_path, 0xA1, "10.0.0.1:5000")
    target, change = make_target(tmp_path, "10.0.0.1"), Change(DRAIN, "front", "10.0.0.1", "a-1")

    async def run() -> None:
        before = (await target.read_state()).members["10.0.0.1"]
        key.unlink()
        state = await target.read_state()
        assert target.find_standing(change, before, state) == FOREIGN
        with pytest.raises(TargetError, match="has no key"):
            target.render_change(change, state)

    asyncio.run(run())


def test_a_worker_that_restarted_with_a_new_id_is_not_ours(tmp_path):
    write_worker(tmp_path, 0xA1, "10.0.0.1:5000")
    target, change = make_target(tmp_path, "10.0.0.1"), Change(DRAIN, "front", "10.0.0.1", "a-1")

    async def run() -> None:
        before = (await target.read_state()).members["10.0.0.1"]
        await make_change(target, change, before)
        (tmp_path / "v1/mdc/dynamo%2Fbackend%2Fgenerate%2Fa1").unlink()
        assert target.find_standing(change, before, await target.read_state()) == FOREIGN
        write_worker(tmp_path, 0xC3, "10.0.0.1:6000")
        state = await target.read_state()
        assert state.members["10.0.0.1"].detail("id") == "c3"
        assert target.find_standing(change, before, state) == ABSENT
        assert await undo_change(target, change, before) == ()

    asyncio.run(run())


def test_a_key_that_changed_since_it_was_read_is_a_conflict(tmp_path):
    key = write_worker(tmp_path, 0xA1, "10.0.0.1:5000")
    target = make_target(tmp_path, "10.0.0.1")
    with pytest.raises(ConflictError, match="changed by somebody else"):
        asyncio.run(target.make_call(FileCall(str(key), "something else", "")))
    with pytest.raises(ConflictError, match="changed by somebody else"):
        asyncio.run(target.make_call(FileCall(str(key), "", "something else")))
    assert key.exists()


@pytest.mark.parametrize("path", ["/etc/hosts", "{root}/../outside", "{root}"])
def test_a_path_outside_of_the_folder_is_refused(tmp_path, path):
    call = FileCall(path.format(root=tmp_path), "", "content")
    with pytest.raises(TargetError, match="no key of"):
        asyncio.run(make_target(tmp_path, "h").make_call(call))


def test_an_id_of_an_action_that_is_a_path_is_refused(tmp_path):
    write_worker(tmp_path, 0xA1, "10.0.0.1:5000")
    target = make_target(tmp_path, "10.0.0.1")
    with pytest.raises(TargetError, match="no id of an action"):
        target.render_change(Change(DRAIN, "front", "10.0.0.1", "../../up"), asyncio.run(target.read_state()))


@pytest.mark.parametrize(
    "content",
    ["", "{", "[" * 50_000, "[]", '{"transport": 3}', '{"transport": {"tcp": 3}}', '{"instance_id": "x"}', "\x00"],
)
def test_keys_that_cannot_be_read_are_left_out(tmp_path, content):
    write_worker(tmp_path, 0xA1, "10.0.0.1:5000")
    (tmp_path / "v1/instances/half").write_text(content)
    state = asyncio.run(make_target(tmp_path, "10.0.0.1", "10.0.0.9").read_state())
    assert [state.members[name].serving for name in ("10.0.0.1", "10.0.0.9")] == [True, False]


def test_a_name_of_two_workers_is_an_error(tmp_path):
    write_worker(tmp_path, 0xA1, "10.0.0.1:5000")
    write_worker(tmp_path, 0xB2, "10.0.0.1:6000")
    with pytest.raises(TargetError, match=r"2 workers \(10\.0\.0\.1:5000, 10\.0\.0\.1:6000\); write HOST:PORT"):
        asyncio.run(make_target(tmp_path, "10.0.0.1").read_state())


def test_impossible_changes_are_errors(tmp_path):
    write_worker(tmp_path, 0xA1, "10.0.0.1:5000")
    target = make_target(tmp_path, "10.0.0.1")
    state = asyncio.run(target.read_state())
    with pytest.raises(TargetError, match="Dynamo cannot deweight"):
        target.render_change(Change(DEWEIGHT, "front", "10.0.0.1", "a-1", share=0.1), state)
    with pytest.raises(TargetError, match="names no worker"):
        target.render_change(Change(DRAIN, "front", "10.0.0.9", "a-1"), state)
    with pytest.raises(TargetError, match="no such folder"):
        asyncio.run(make_target(tmp_path / "none", "10.0.0.1").read_state())


def test_work_comes_from_pages_that_answer(tmp_path):
    write_worker(tmp_path, 0xA1, "10.0.0.1:5000")
    page = b"""dynamo_component_requests_total{dynamo_endpoint="generate",worker_id="a1"} 20
dynamo_component_requests_total{dynamo_endpoint="other",worker_id="a1"} 1
dynamo_component_requests_total{dynamo_endpoint="generate",worker_id="ff"} 7
"""

    async def run(*answers: tuple[int, bytes]) -> object:
        pages = iter(answers)
        async with strange_server(lambda _method, _path: next(pages)) as url:
            target = make_target(tmp_path, "10.0.0.1", metrics=tuple(f"{url}/metrics" for _ in answers))
            return await target.read_work()

    assert asyncio.run(run((500, b""), (200, page))) == {"10.0.0.1": 21.0}
    with pytest.raises(TargetError, match="none of the 2 metrics pages answers"):
        asyncio.run(run((500, b""), (500, b"")))
    assert asyncio.run(make_target(tmp_path, "10.0.0.1").read_work()) == {}


@pytest.mark.slow
def test_a_front_end_for_probes_that_never_follows_is_an_error_in_time(tmp_path):
    write_worker(tmp_path, 0xA1, "10.0.0.1:5000")
    (tmp_path / "canary").mkdir()

    async def run() -> None:
        async with strange_server(lambda _method, _path: (200, b'{"data": []}')) as url:
            canary = CanarySettings(url, str(tmp_path / "canary"), ProbeSettings("/v1/completions", "m"))
            settings = DynamoSettings(TargetSettings("front", (("r0", "10.0.0.1"),)), str(tmp_path), canary=canary)
            await DynamoTarget(settings).probe("10.0.0.1")

    begun = time.monotonic()
    with pytest.raises(TargetError, match="the model does not appear"):
        asyncio.run(run())
    assert time.monotonic() - begun < 10.0
    assert asyncio.run(make_target(tmp_path, "10.0.0.1").probe("10.0.0.1")) is None


def test_settings_are_checked(tmp_path):
    (tmp_path / "kv").mkdir()
    (tmp_path / "canary").mkdir()
    text = """
targets:
- kind: dynamo
  folder: kv
  members: {r0: 10.0.0.7}
  metrics: ["10.0.0.7:9090/metrics"]
  probe: {url: "localhost:8001", folder: canary, model: m}
- {kind: dynamo, folder: none, endpoint: generate, members: {r0: a}, probe: {url: "http://x", model: m}}
"""
    (tmp_path / "skewscope.yaml").write_text(text)
    fields = FieldReader(yamlfile.parse(text, str(tmp_path / "skewscope.yaml")))
    kind = target_kinds()["dynamo"]
    good, _bad = [kind.read(fields, ("targets", n), f"t{n}") for n in range(2)]
    assert kind.build(good).members == {"r0": "10.0.0.7"}
    assert good.folder == str(tmp_path / "kv")
    assert good.metrics == ("http://10.0.0.7:9090/metrics",)
    assert good.canary.url == "http://localhost:8001"
    assert hash(good) == hash(kind.read(fields, ("targets", 0), "t0"))
    assert sorted({(problem.line, problem.found) for problem in fields.problems}) == [
        (8, "'generate'"),
        (8, "no folder 'none'"),
        (8, "no value"),
        (8, "nothing"),
    ]
