"""One trial of `bench.acting_trials`: HAProxy, workers, load and controller, and a watcher of HAProxy's own table."""

import asyncio
import csv
import io
import json
import os
import signal
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

import yaml

from bench.closed_loop_load import Answers, Load, send_load
from bench.trial_scenarios import (
    CRASH,
    DRAIN,
    EVENTS_S,
    HIDE_PROMPTS,
    KILL,
    LIE,
    LONG_PROMPTS,
    READY,
    RELOAD,
    RESTART_ROUTER,
    SETTLE_S,
    SPARE,
    SPEED,
    WARM_UP_S,
    WORKERS,
    Event,
    Scenario,
)
from skewscope.adapters.sources.common.http_client import FetchError, FetchOptions, PostBody, exchange
from tests.support.processes import answers, running, wait_until
from tests.support.target_traffic import free_port

RATE, TOKENS = 15.0, 16
LONG_RATE = 2.0
MINIMUM = 2
PROBE_EVERY_S = 2.0
WATCH_S = 0.25
START_S = 60.0
COMMAND = "import sys; from skewscope.tui.cli.main import main; sys.exit(main())"
TIMING = {"probe_every": PROBE_EVERY_S, "effect_within": 30, "hold": 15, "state_within": 5, "traffic_within": 10}
LIMITS = {"cool_down": 10, "per_hour": 30, "at_once": 2}


@dataclass
class TrialRun:
    """What was seen in one trial. Times are seconds after the end of the warm-up."""

    scenario: Scenario
    answers: Answers
    table: list[tuple[float, frozenset[str]]] = field(default_factory=list)
    """The workers that HAProxy uses, whenever that changed; those that it reports as down are not among them."""
    by_hand: list[tuple[float, str, bool]] = field(default_factory=list)
    """What persons changed: time, worker, and whether it is in use since."""
    actions: list[dict[str, Any]] = field(default_factory=list)
    incidents: list[dict[str, Any]] = field(default_factory=list)
    log: str = ""

    def as_json(self) -> str:
        """Returns all but the answers and the log, by which a trial is read afterwards."""
        table = [[round(t, 2), sorted(used)] for t, used in self.table]
        events = [[event.t, event.kind, event.worker, event.value] for event in self.scenario.events]
        seen = {"events": events, "speeds": self.scenario.speeds, "table": table, "by_hand": self.by_hand}
        return json.dumps(seen | {"actions": self.actions, "incidents": self.incidents}, indent=1)


@dataclass
class TrialRig:
    """The processes of a trial."""

    folder: Path
    mode: str
    scenario: Scenario
    stack: AsyncExitStack
    run: TrialRun = field(init=False)
    _begun: float = 0.0
    _long: tuple[int, int] | None = None
    """The worker that gets long prompts, and their length in tokens."""

    def __post_init__(self) -> None:
        self.run = TrialRun(self.scenario, Answers())
        self.ports = tuple(free_port() for _ in range(WORKERS))
        self.front, self.api = free_port(), free_port()
        self.socket = self.folder / "admin.sock"
        self._processes: dict[str, Any] = {}

    # --- processes

    async def start(self) -> None:
        """Starts workers, router and controller."""
        for number in range(WORKERS):
            await self._start_worker(number)
        await self._start_router()
        await self._drain_spare()
        self._write_config()
        await self._start_controller()

    async def _start(self, name: str, command: list[str], ready: Callable[[], Awaitable[bool]]) -> None:
        environment = {"PYTHONPATH": os.pathsep.join(each for each in sys.path if each)}
        process = await self.stack.enter_async_context(running(command, self.folder / f"{name}.log", environment))
        self._processes[name] = process
        await wait_until(ready, START_S, name)

    async def _kill(self, name: str, how: signal.Signals = signal.SIGKILL) -> None:
        process = self._processes[name]
        with suppress(ProcessLookupError):
            os.killpg(process.pid, how)
        await process.wait()

    async def _start_worker(self, number: int) -> None:
        port = self.ports[number]
        command = [sys.executable, "-m", "bench.serving_worker", "--port", str(port)]
        await self._start(f"worker{number}", command, lambda: answers(f"http://127.0.0.1:{port}/health"))
        await self._control(number, speed=self.scenario.speeds.get(number, 1.0))

    async def _start_router(self) -> None:
        servers = "\n".join(f"  server w{n} 127.0.0.1:{p} weight 100 check inter 1s" for n, p in enumerate(self.ports))
        (self.folder / "haproxy.cfg").write_text(
            f"global\n  stats socket {self.socket} mode 600 level admin\n"
            "defaults\n  mode http\n  timeout connect 2s\n  timeout client 30s\n  timeout server 30s\n"
            f"  option redispatch\n  retries 2\nfrontend fe\n  bind 127.0.0.1:{self.front}\n  default_backend be\n"
            "backend be\n  balance roundrobin\n"
            + "".join(f"  use-server w{n} if {{ req.hdr(X-Worker) {n} }}\n" for n in range(WORKERS))
            + f"{servers}\n"
        )
        command = ["haproxy", "-db", "-f", str(self.folder / "haproxy.cfg")]
        await self._start("router", command, lambda: answers(f"http://127.0.0.1:{self.front}/health"))

    async def _start_controller(self) -> None:
        command = [sys.executable, "-c", COMMAND, "run", "--config", str(self.folder / "skewscope.yaml")]
        await self._start("controller", command, lambda: answers(f"http://127.0.0.1:{self.api}/readyz"))

    async def _drain_spare(self) -> None:
        """Takes the spare out of use, as whoever scales the pool has it."""
        await self._send(f"set server be/w{SPARE} state maint")

    def _write_config(self) -> None:
        names = [f"r{n}" for n in range(WORKERS)]
        pages = [f"127.0.0.1:{port}" for port in self.ports]
        groups = [
            {
                "name": name,
                "kind": "tensor-parallel",
                "members": [f"n{n}"],
                "front_end": f"n{n}",
                "engine": {"instance": page},
            }
            for n, (name, page) in enumerate(zip(names, pages, strict=True))
        ]
        topology = {
            "version": 1,
            "nodes": [{"name": f"n{n}", "gpus": 1} for n in range(WORKERS)],
            "groups": groups,
            "pools": [{"name": "pool", "replicas": names}],
        }
        probe = {"path": "/v1/completions", "model": "m", "tokens": TOKENS}
        members = {name: f"w{n}" for n, name in enumerate(names)}
        target = {"kind": "haproxy", "name": "front", "socket": str(self.socket), "backend": "be", "members": members}
        config = {
            "version": 1,
            "topology": "topology.yaml",
            "listen": {"host": "127.0.0.1", "port": self.api},
            "sources": [{"kind": "scrape", "name": "engines", "targets": pages, "period": 1}],
            "targets": [target | {"probe": probe}],
            "actions": {
                "mode": self.mode,
                "acknowledge": {"no_shadow_evidence": "a trial on a simulated pool"},
                "minimum_healthy": {"pool": MINIMUM},
                "timing": TIMING,
                "limits": LIMITS,
            },
            "store": {"path": "skewscope.db"},
        }
        (self.folder / "topology.yaml").write_text(yaml.safe_dump(topology))
        (self.folder / "skewscope.yaml").write_text(yaml.safe_dump(config))

    # --- what happens

    async def play(self) -> TrialRun:
        """Lets everything happen, and returns what was seen."""
        self._begun = time.monotonic() + WARM_UP_S
        seconds = WARM_UP_S + EVENTS_S + SETTLE_S
        sending = asyncio.create_task(send_load(self._url, Load(RATE, TOKENS, seconds), self._begun - WARM_UP_S))
        others = [asyncio.create_task(self._watch()), asyncio.create_task(self._send_long_prompts())]
        for event in sorted(self.scenario.events):
            await asyncio.sleep(max(event.t - self._now, 0.0))
            await self._play_event(event)
        self.run.answers = await sending
        self.run.answers.due = [due - WARM_UP_S for due in self.run.answers.due]
        await self._read_controller()
        for task in others:
            task.cancel()
        self.run.log = (self.folder / "controller.log").read_text(errors="replace")
        return self.run

    @property
    def _url(self) -> str:
        return f"http://127.0.0.1:{self.front}"

    @property
    def _now(self) -> float:
        return time.monotonic() - self._begun

    async def _play_event(self, event: Event) -> None:
        if event.kind == SPEED:
            await self._control(event.worker, speed=event.value * self.scenario.speeds.get(event.worker, 1.0))
        elif event.kind == LIE:
            await self._control(event.worker, lie=event.value)
        elif event.kind == HIDE_PROMPTS:
            for number in range(WORKERS):
                await self._control(number, hides_prompts=1.0)
        elif event.kind == LONG_PROMPTS:
            self._long = (event.worker, int(event.value)) if event.value else None
        elif event.kind in (DRAIN, READY):
            await self._change_by_hand(event.worker, event.kind == READY)
        else:
            await self._restart(event)

    async def _restart(self, event: Event) -> None:
        if event.kind == KILL:
            await self._kill("controller")
            await self._start_controller()
        elif event.kind == RELOAD:
            os.kill(self._processes["controller"].pid, signal.SIGHUP)
        elif event.kind == RESTART_ROUTER:
            await self._kill("router", signal.SIGTERM)
            await self._start_router()
            await self._drain_spare()
            self.run.by_hand.append((self._now, f"w{SPARE}", False))
        elif event.kind == CRASH:
            await self._kill(f"worker{event.worker}")
            await self._start_worker(event.worker)

    async def _change_by_hand(self, worker: int, is_used: bool) -> None:
        self.run.by_hand.append((self._now, f"w{worker}", is_used))
        await self._send(f"set server be/w{worker} state {'ready' if is_used else 'maint'}")

    async def _control(self, number: int, **values: float) -> None:
        body = PostBody(json.dumps(values).encode(), "application/json")
        with suppress(FetchError):
            await exchange(f"http://127.0.0.1:{self.ports[number]}/speed", FetchOptions(5.0), body)

    async def _send_long_prompts(self) -> None:
        while True:
            await asyncio.sleep(1.0 / LONG_RATE)
            if self._long is not None:
                worker, length = self._long
                asyncio.get_running_loop().create_task(self._send_long(worker, length))

    async def _send_long(self, worker: int, length: int) -> None:
        body = {"model": "m", "prompt": "word" * length, "max_tokens": TOKENS}
        post = PostBody(json.dumps(body).encode(), "application/json", (("X-Worker", str(worker)),))
        with suppress(FetchError):
            await exchange(f"{self._url}/v1/completions", FetchOptions(20.0), post)

    # --- what is seen

    async def _send(self, line: str) -> str:
        reader, writer = await asyncio.open_unix_connection(str(self.socket))
        try:
            writer.write(line.encode() + b"\n")
            async with asyncio.timeout(5.0):
                return (await reader.read(1 << 20)).decode()
        finally:
            writer.close()

    async def _watch(self) -> None:
        last: frozenset[str] | None = None
        while True:
            with suppress(OSError, TimeoutError):
                used = read_used(await self._send("show stat"))
                if used and used != last:
                    self.run.table.append((self._now, used))
                    last = used
            await asyncio.sleep(WATCH_S)

    async def _read_controller(self) -> None:
        url = f"http://127.0.0.1:{self.api}/api/v1"
        self.run.actions = json.loads((await exchange(f"{url}/actions", FetchOptions(10.0))).body)["actions"]
        listed = json.loads((await exchange(f"{url}/incidents", FetchOptions(10.0))).body)
        self.run.incidents = listed["incidents"] if isinstance(listed, dict) else listed
        start = time.time() - self._now
        for action in self.run.actions:
            for name in ("created", "started_at", "applied_at", "ended_at", "undo_at"):
                action[name] = None if action[name] is None else action[name] - start
            for note in action["history"]:
                note["t"] -= start
        for incident in self.run.incidents:
            for name in ("opened_at", "began_at", "resolved_at"):
                if incident[name] is not None:
                    incident[name] = datetime.fromisoformat(incident[name]).timestamp() - start


def read_used(answer: str) -> frozenset[str]:
    """Returns the servers that HAProxy gives work to, from its `show stat`; empty for an answer without any."""
    rows = csv.DictReader(io.StringIO(answer.lstrip("# ")))
    servers = [row for row in rows if row.get("pxname") == "be" and row["svname"] not in ("FRONTEND", "BACKEND")]
    return frozenset(row["svname"] for row in servers if row["status"].startswith(("UP", "no check")))


@asynccontextmanager
async def trial_rig(scenario: Scenario, mode: str) -> AsyncIterator[TrialRig]:
    """Yields the processes of a trial, which end with it."""
    async with AsyncExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="trial.")))
        rig = TrialRig(folder, mode, scenario, stack)
        await rig.start()
        yield rig
