"""Benign events that may look like faults. Each lasts at most a minute."""

from collections.abc import Mapping

from skewscope.adapters.simulator.effects import FaultEffects
from skewscope.adapters.simulator.faults.registry import EffectFunction, FaultTarget, drain_replica
from skewscope.adapters.simulator.simulation import FleetSimulation

RESTART_INTERVAL, RESTART_DURATION = 30.0, 20.0
"""Seconds between two restarts, and duration of each: the time to load weights that are in memory."""


def surge(p: FaultEffects, _w: FleetSimulation, _at: FaultTarget, strength: float, _age: float) -> None:
    """Increases requests everywhere, within capacity."""
    p.arrivals *= 1.3 + 0.7 * strength


def lull(p: FaultEffects, _w: FleetSimulation, _at: FaultTarget, strength: float, _age: float) -> None:
    """Decreases requests everywhere."""
    p.arrivals *= 0.7 - 0.4 * strength


def restart(p: FaultEffects, w: FleetSimulation, at: FaultTarget, _strength: float, age: float) -> None:
    """Restarts the replicas of a kind in sequence; the balancer sends nothing to the restarting one."""
    kind = w.fleet.jobs[at.job].kind
    alike = [n for n, job in enumerate(w.fleet.jobs) if job.kind == kind]
    turn = int(age // RESTART_INTERVAL)
    if turn < len(alike) and age % RESTART_INTERVAL < RESTART_DURATION:
        now = alike[(alike.index(at.job) + turn) % len(alike)]
        drain_replica(p, w, now)
        p.halted[now] = 1.0
        p.mute_engine[w.fleet.jobs[now].nodes[0]] = 1.0
        w.serving.running[now] = w.serving.waiting[now] = 0.0


def rebalance(p: FaultEffects, w: FleetSimulation, at: FaultTarget, _strength: float, age: float) -> None:
    """Moves experts once, which takes a second."""
    if age < 1:
        p.halted[at.job] = 0.7
        p.other_out[list(w.fleet.jobs[at.job].nodes), 1:] += 15e9


def checkpoint(p: FaultEffects, w: FleetSimulation, _at: FaultTarget, strength: float, age: float) -> None:
    """Writes checkpoints of training jobs, mostly in the background."""
    for n in w.fleet.jobs_of_kind("dp", "pt"):
        nodes = list(w.fleet.jobs[n].nodes)
        if age < 20:
            p.other_out[nodes, 0] += (2 + 3 * strength) * 1e9
        if age < 1:
            p.halted[n] = 0.4


def maintenance(p: FaultEffects, w: FleetSimulation, at: FaultTarget, _strength: float, _age: float) -> None:
    """Drains a replica: it gets no requests, and the others take its share."""
    drain_replica(p, w, at.job)


def missed_scrapes(p: FaultEffects, _w: FleetSimulation, at: FaultTarget, _strength: float, age: float) -> None:
    """Restarts an exporter: a few scrapes are missing."""
    if age < 4:
        p.mute_host[at.node] = 1.0
        p.mute_gpu[at.node] = 1.0
        p.mute_page[at.node] = 1.0


BENIGN_EVENTS: Mapping[str, EffectFunction] = {
    "traffic surge": surge,
    "traffic lull": lull,
    "rolling restart": restart,
    "rebalance": rebalance,
    "checkpoint": checkpoint,
    "maintenance": maintenance,
    "exporter restart": missed_scrapes,
}

FLEET_WIDE_EVENTS = frozenset({"traffic surge", "traffic lull", "checkpoint"})
"""Events that affect the whole fleet."""
