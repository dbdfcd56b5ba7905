"""Routers with three workers, of which one can be slowed down, for `bench.closed_loop`."""

import asyncio
import json
import signal
import sys
import threading
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from skewscope.adapters.sources.common.http_client import FetchOptions, PostBody, exchange
from tests.support.dynamo import DynamoWorker, running_dynamo
from tests.support.processes import answers, running, wait_until
from tests.support.target_traffic import free_port

WORKERS = 3
START_SECONDS = 40.0
PROBE = {"path": "/v1/completions", "model": "m", "tokens": 16}
PULSE = 0.1
"""Seconds in which a process that is slowed by signals runs once."""
RATE, DYNAMO_RATE = 24.0, 8.0
"""Requests per second. Steps of Dynamo's engines grow with the batch: at the higher rate two are slower than three."""


@dataclass
class Rig:
    """A router in front of workers that run."""

    url: str
    pages: tuple[str, ...]
    """HOST:PORT of the metrics page of each worker."""
    target: dict[str, Any]
    """Entry of `targets` in a controller's config."""
    set_speed: Callable[[int, float], Awaitable[None]]
    rate: float = RATE
    tokens: int = 16
    is_explicit: bool = True
    """Whether its engines export what tells a slow one from one with more work; else a person approves the change."""


@dataclass
class Throttle:
    """Lets a process group run for a share of the time, by stopping and continuing it."""

    worker: DynamoWorker
    share: float
    _ended: threading.Event = field(default_factory=threading.Event)
    _thread: threading.Thread | None = None

    def start(self) -> None:
        """Begins."""
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Ends; the process runs as before."""
        self._ended.set()
        assert self._thread is not None
        self._thread.join()

    def _run(self) -> None:
        while not self._ended.is_set():
            self.worker.signal(signal.SIGSTOP)
            time.sleep(PULSE * (1.0 - self.share))
            self.worker.signal(signal.SIGCONT)
            time.sleep(PULSE * self.share)


@asynccontextmanager
async def running_workers(folder: Path) -> AsyncIterator[tuple[int, ...]]:
    """Yields the ports of workers, each a process of its own."""
    async with AsyncExitStack() as stack:
        ports = tuple(free_port() for _ in range(WORKERS))
        for n, port in enumerate(ports):
            command = [sys.executable, "-m", "bench.serving_worker", "--port", str(port)]
            await stack.enter_async_context(running(command, folder / f"worker{n}.log"))
        for port in ports:
            await wait_until(lambda port=port: answers(f"http://127.0.0.1:{port}/health"), START_SECONDS, "worker")  # type: ignore[misc]
        yield ports


def speed_setter(ports: tuple[int, ...]) -> Callable[[int, float], Awaitable[None]]:
    """Returns what changes the speed of a worker."""

    async def set_speed(number: int, speed: float) -> None:
        body = PostBody(json.dumps({"speed": speed}).encode(), "application/json")
        await exchange(f"http://127.0.0.1:{ports[number]}/speed", FetchOptions(5.0), body)

    return set_speed


@asynccontextmanager
async def haproxy_rig(folder: Path) -> AsyncIterator[Rig]:
    """HAProxy with equal weights."""
    async with running_workers(folder) as ports:
        port, admin = free_port(), folder / "admin.sock"
        servers = "\n".join(f"  server w{n} 127.0.0.1:{p} weight 100" for n, p in enumerate(ports))
        (folder / "haproxy.cfg").write_text(
            f"global\n  stats socket {admin} mode 600 level admin\n"
            "defaults\n  mode http\n  timeout connect 2s\n  timeout client 30s\n  timeout server 30s\n"
            f"frontend fe\n  bind 127.0.0.1:{port}\n  default_backend be\n"
            f"backend be\n  balance roundrobin\n{servers}\n"
        )
        members = {f"r{n}": f"w{n}" for n in range(WORKERS)}
        target = {"kind": "haproxy", "socket": str(admin), "backend": "be", "members": members, "probe": PROBE}
        async with running(["haproxy", "-db", "-f", str(folder / "haproxy.cfg")], folder / "haproxy.log"):
            url = f"http://127.0.0.1:{port}"
            await wait_until(lambda: answers(f"{url}/health"), START_SECONDS, "haproxy")
            yield Rig(url, tuple(f"127.0.0.1:{p}" for p in ports), target, speed_setter(ports))


@asynccontextmanager
async def wheel_rig(folder: Path, module: str, kind: str, policy: str) -> AsyncIterator[Rig]:
    """A router that is a Python wheel with SGLang's options."""
    async with running_workers(folder) as ports:
        port, metrics = free_port(), free_port()
        workers = [f"http://127.0.0.1:{p}" for p in ports]
        where = ["--host", "127.0.0.1", "--port", str(port), "--prometheus-port", str(metrics), "--log-level", "error"]
        command = [sys.executable, "-m", module, *where, "--policy", policy, "--worker-urls", *workers]
        url = f"http://127.0.0.1:{port}"
        members = {f"r{n}": worker for n, worker in enumerate(workers)}
        target = {"kind": kind, "url": url, "metrics": f"http://127.0.0.1:{metrics}/metrics"}
        target |= {"members": members, "probe": PROBE}
        async with running(command, folder / "router.log"):
            await wait_until(lambda: answers(f"{url}/workers", workers[-1].encode()), START_SECONDS, "router")
            yield Rig(url, tuple(f"127.0.0.1:{p}" for p in ports), target, speed_setter(ports))


@asynccontextmanager
async def dynamo_rig(folder: Path) -> AsyncIterator[Rig]:
    """Dynamo's front end with mocker engines; a slow one is stopped for most of the time."""
    async with running_dynamo(folder, (1.0,) * WORKERS) as cluster:
        throttles: dict[int, Throttle] = {}

        async def set_speed(number: int, speed: float) -> None:
            if number in throttles:
                await asyncio.to_thread(throttles.pop(number).stop)
            if speed < 1.0:
                throttles[number] = Throttle(cluster.workers[number], speed)
                throttles[number].start()

        pages = tuple(worker.metrics for worker in cluster.workers)
        target = {
            "kind": "dynamo",
            "folder": str(cluster.folder),
            "members": {f"r{n}": worker.address for n, worker in enumerate(cluster.workers)},
            "metrics": list(pages),
            "probe": {**PROBE, "url": cluster.canary_url, "folder": str(cluster.canary_folder)},
        }
        hosts = tuple(page.removeprefix("http://").partition("/")[0] for page in pages)
        try:
            yield Rig(cluster.url, hosts, target, set_speed, DYNAMO_RATE, tokens=24, is_explicit=False)
        finally:
            for throttle in throttles.values():
                throttle.stop()


RIGS: Mapping[str, Callable[[Path], Any]] = {
    "haproxy": haproxy_rig,
    "sglang-router": lambda folder: wheel_rig(folder, "sglang_router.launch_router", "sglang-router", "round_robin"),
    "vllm-router": lambda folder: wheel_rig(folder, "vllm_router.launch_router", "vllm-router", "random"),
    "dynamo": dynamo_rig,
}
