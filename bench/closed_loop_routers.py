"""One of three replicas slows down behind a router, with and without a controller that acts.

A run: load at a fixed rate; after a warm-up, two minutes are counted. The replica is slowed to a fifth at 20 s and
recovers at 80 s (`Timetable`). A controller (`skewscope run`) scrapes the workers once per second; the router is its
target.
"""

import asyncio
import json
import os
import sys
import tempfile
import time
from collections.abc import Iterable
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from bench.closed_loop_load import Answers, Load, send_load
from bench.closed_loop_person import Person, write_token
from bench.closed_loop_rigs import RIGS, WORKERS, Rig
from tests.support.processes import answers, running, wait_until
from tests.support.target_traffic import free_port

SLOW, SLOW_REPLICA = 0.2, 2
DEADLINE = 0.5
"""Seconds within which an answer is good: more than twice the healthy time, half of that of the slow replica."""
COMMAND = "import sys; from skewscope.tui.cli.main import main; sys.exit(main())"


@dataclass(frozen=True)
class Timetable:
    """When what happens, in seconds of the counted time."""

    fault_at: float = 20.0
    fault_end: float = 80.0
    seconds: float = 120.0
    """Length of the counted time."""
    warm_up: float = 45.0
    """Seconds of load before it: the measurement of what an action gained wants a healthy past."""
    probe_every: float = 2.0


@dataclass
class LoopRun:
    """One run."""

    times: Timetable
    answers: Answers
    events: list[tuple[float, str]] = field(default_factory=list)
    """Seconds after the start of the counted time, and what happened."""
    action: dict[str, Any] = field(default_factory=dict)
    incidents: list[dict[str, Any]] = field(default_factory=list)
    others: int = 0
    """Further actions: there should be none."""

    steps: dict[str, float] = field(default_factory=dict)
    """Seconds of the action's `started_at`, `applied_at`, `verified_at` and `ended_at`, where it came to that."""


async def run_pair(target: str, times: Timetable) -> tuple[LoopRun, LoopRun]:
    """Runs a target with a controller that acts, and then with one that observes."""
    acting = await run_loop(target, "act", times)
    return acting, await run_loop(target, "observe", times)


async def run_loop(target: str, mode: str, times: Timetable) -> LoopRun:
    """Runs a target with a controller in one mode."""
    async with AsyncExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="closed-loop.")))
        rig = await stack.enter_async_context(RIGS[target](folder))
        url = f"http://127.0.0.1:{write_config(folder, rig, mode, times.probe_every)}"
        command = [sys.executable, "-c", COMMAND, "run", "--config", str(folder / "skewscope.yaml")]
        environment = {"PYTHONPATH": os.pathsep.join(each for each in sys.path if each)}
        await stack.enter_async_context(running(command, folder / "controller.log", environment))
        await wait_until(lambda: answers(f"{url}/readyz"), 30.0, "controller")
        person, begun, epoch = Person(url), time.monotonic(), time.time()
        load = Load(rig.rate, rig.tokens, times.warm_up + times.seconds)
        sending = asyncio.create_task(send_load(rig.url, load, begun))
        if mode == "act" and not rig.is_explicit:
            stack.push_async_callback(_cancel, asyncio.create_task(_approve_proposals(person)))
        await _sleep_until(begun + times.warm_up + times.fault_at)
        await rig.set_speed(SLOW_REPLICA, SLOW)
        await _sleep_until(begun + times.warm_up + times.fault_end)
        await rig.set_speed(SLOW_REPLICA, 1.0)
        found = await sending
        found.due = [due - times.warm_up for due in found.due]
        run = LoopRun(times, found)
        await asyncio.to_thread(_read_controller, run, person, epoch + times.warm_up)
        return run


async def _approve_proposals(person: Person) -> None:
    while True:
        await asyncio.to_thread(person.approve_proposals)
        await asyncio.sleep(0.5)


async def _cancel(task: asyncio.Task[None]) -> None:
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


async def _sleep_until(t: float) -> None:
    await asyncio.sleep(max(t - time.monotonic(), 0.0))


def write_config(folder: Path, rig: Rig, mode: str, probe_every: float) -> int:
    """Writes topology and config of a controller; returns its port."""
    port = free_port()
    names = [f"r{n}" for n in range(WORKERS)]
    topology = {
        "version": 1,
        "nodes": [{"name": f"n{n}", "gpus": 1} for n in range(WORKERS)],
        "groups": [
            {
                "name": name,
                "kind": "tensor-parallel",
                "members": [f"n{n}"],
                "front_end": f"n{n}",
                "engine": {"instance": page},
            }
            for n, (name, page) in enumerate(zip(names, rig.pages, strict=True))
        ],
        "pools": [{"name": "pool", "replicas": names}],
    }
    config = {
        "version": 1,
        "topology": "topology.yaml",
        "listen": {"host": "127.0.0.1", "port": port},
        "auth": {"tokens": write_token(folder)},
        "sources": [{"kind": "scrape", "name": "engines", "targets": list(rig.pages), "period": 1}],
        "targets": [{"name": "router", **rig.target}],
        "actions": {
            "mode": mode,
            "timing": {"probe_every": probe_every, "grace": 10.0},
            "acknowledge": {"no_shadow_evidence": "a bench"},
        },
        "store": {"path": "skewscope.db"},
    }
    (folder / "topology.yaml").write_text(yaml.safe_dump(topology))
    (folder / "skewscope.yaml").write_text(yaml.safe_dump(config))
    return port


def _read_controller(run: LoopRun, person: Person, start: float) -> None:
    """Adds what the controller saw and did."""
    run.incidents = json.loads(person.ask("/api/v1/incidents") or b"")["incidents"]
    actions = json.loads(person.ask("/api/v1/actions") or b"")["actions"]
    run.events = [(run.times.fault_at, f"fault: r{SLOW_REPLICA} slowed to {SLOW:g} of its speed")]
    run.events.append((run.times.fault_end, "end of fault"))
    if actions:
        run.action, run.others = actions[-1], len(actions) - 1
        run.events += _list_events(run.action, start)
        names = ("started_at", "applied_at", "verified_at", "ended_at")
        run.steps = {name: run.action[name] - start for name in names if run.action[name] is not None}
    run.events.sort(key=lambda event: event[0])


def _list_events(action: dict[str, Any], start: float) -> Iterable[tuple[float, str]]:
    reason = action["reason"]
    rule = f"{reason['condition']} of {reason['name']} by {reason['rule']}"
    yield reason["opened_at"] - start, f"diagnosis: {rule}, confidence {reason['confidence']:g}"
    for entry in action["history"]:
        firsts = [call.partition("\n")[0] for call in action["plan"]["calls"]]
        calls = " and ".join(firsts) if entry["what"] == "planned" else ""
        yield entry["t"] - start, f"{action['title']}: {entry['what']}" + (f": {calls}" if calls else "")
