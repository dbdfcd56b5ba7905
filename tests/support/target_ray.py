"""A Ray cluster on the loopback: a head, two workers, and an application with a replica on each worker.

The program `ray` need not be in the environment of the tests: SKEWSCOPE_RAY names its folder, such as RAYVENV/bin.
"""

import asyncio
import contextlib
import os
import shutil
import subprocess
import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from tests.support.processes import answers, running, wait_until
from tests.support.target_traffic import free_port

START_SECONDS, STOP_SECONDS = 120.0, 20.0
APPLICATION = """
import sys

import ray
from ray import serve


@serve.deployment(num_replicas=2, ray_actor_options={"num_cpus": 1})
class Worker:
    def __call__(self, request):
        return "ok"


ray.init(address=sys.argv[1], log_to_driver=False)
serve.start(http_options={"host": "127.0.0.1", "port": int(sys.argv[2]), "location": "HeadOnly"})
serve.run(Worker.bind(), name="chat")
"""


def find_ray() -> str | None:
    """Returns the program `ray`; None where it or the dashboard, which answers for Ray Serve, is not installed."""
    found = shutil.which("ray", path=os.environ.get("SKEWSCOPE_RAY") or str(Path(sys.executable).parent))
    python = Path(found).with_name("python") if found else None
    if python is None or not python.exists():
        return None
    # The extra `fleet` installs Ray without it.
    has_dashboard = subprocess.run(
        [python, "-c", "import importlib.util, sys; sys.exit(importlib.util.find_spec('aiohttp_cors') is None)"],
        check=False,
        timeout=60,
    )
    return found if has_dashboard.returncode == 0 else None


@dataclass(frozen=True)
class RayCluster:
    """Where a cluster answers."""

    program: str
    address: str
    dashboard: str
    url: str
    metrics: Mapping[str, str]
    """Page of each node."""


@asynccontextmanager
async def _running_node(arguments: list[str], log: Path, environment: Mapping[str, str]) -> AsyncIterator[None]:
    """Runs a node, which ends what it has started when it is asked to end."""
    async with running(arguments, log, environment) as process:
        try:
            yield
        finally:
            with contextlib.suppress(ProcessLookupError, TimeoutError):
                process.terminate()
                async with asyncio.timeout(STOP_SECONDS):
                    await process.wait()


@asynccontextmanager
async def running_ray(folder: Path) -> AsyncIterator[RayCluster]:
    """Yields a cluster whose application answers."""
    program = find_ray()
    assert program is not None
    control, dashboard, client, front = (free_port() for _ in range(4))
    pages = {name: free_port() for name in ("head", "worker-1", "worker-2")}
    # A node that is asked to end drains itself first.
    quick = {"RAY_GRACEFUL_SHUTDOWN_DRAIN_TIMEOUT_S": "0", "RAY_USAGE_STATS_ENABLED": "0"}
    environment = {**quick, "PATH": f"{Path(program).parent}:/usr/bin:/bin"}
    common = ["--block", "--disable-usage-stats", "--object-store-memory", "80000000"]
    head = [
        "--head",
        "--port",
        str(control),
        "--dashboard-port",
        str(dashboard),
        "--ray-client-server-port",
        str(client),
    ]
    made = RayCluster(
        program,
        f"127.0.0.1:{control}",
        f"http://127.0.0.1:{dashboard}",
        f"http://127.0.0.1:{front}",
        {name: f"http://127.0.0.1:{port}/metrics" for name, port in pages.items()},
    )
    nodes = f"{made.dashboard}/api/v0/nodes"

    def start(name: str, cpus: int, where: list[str]) -> list[str]:
        own = ["--node-name", name, "--num-cpus", str(cpus), "--metrics-export-port", str(pages[name])]
        return [program or "", "start", *where, *own, *common]

    async with AsyncExitStack() as stack:
        await stack.enter_async_context(_running_node(start("head", 0, head), folder / "head.log", environment))
        await wait_until(lambda: answers(nodes, b'"ALIVE"'), START_SECONDS, "head of Ray")
        join = ["--address", made.address]
        # The second worker has no room for the replica of the first, but the first has for that of the second.
        # One after the other: a node gives up where it is not up within seconds.
        for name, cpus, total in (("worker-1", 2, b'"total": 2'), ("worker-2", 1, b'"total": 3')):
            await stack.enter_async_context(_running_node(start(name, cpus, join), folder / f"{name}.log", environment))
            await wait_until(partial(answers, nodes, total), START_SECONDS, f"{name} of Ray")
        (folder / "application.py").write_text(APPLICATION)
        command = [str(Path(program).parent / "python"), "application.py", made.address, str(front)]
        deploy = await asyncio.create_subprocess_exec(*command, cwd=folder, env=environment)
        assert await deploy.wait() == 0
        await wait_until(lambda: answers(made.url, b"ok"), START_SECONDS, "application")
        yield made
