"""What happens in health and may look like a fault. Each may take a minute."""

from collections.abc import Mapping

from skewscope.adapters.simulator.effects import FaultEffects
from skewscope.adapters.simulator.faults.registry import EffectFunction, FaultTarget, drain_replica
from skewscope.adapters.simulator.simulation import FleetSimulation

RESTART_INTERVAL, RESTART_DURATION = 30.0, 20.0
"""Seconds from one restart to the next, and that a replica is away: weights that lie in memory load in so long."""


def surge(p: FaultEffects, _w: FleetSimulation, _at: FaultTarget, strength: float, _age: float) -> None:
    """More users everywhere, no more than there is room for."""
    p.arrivals *= 1.3 + 0.7 * strength


def lull(p: FaultEffects, _w: FleetSimulation, _at: FaultTarget, strength: float, _age: float) -> None:
    """Fewer users everywhere."""
    p.arrivals *= 0.7 - 0.4 * strength


def restart(p: FaultEffects, w: FleetSimulation, at: FaultTarget, _strength: float, age: float) -> None:
    """The replicas of a kind restart one after another; the balancer knows and sends nothing to the one that does."""
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
    """Experts move once, which takes a second."""
    if age < 1:
        p.halted[at.job] = 0.7
        p.other_out[list(w.fleet.jobs[at.job].nodes), 1:] += 15e9


def checkpoint(p: FaultEffects, w: FleetSimulation, _at: FaultTarget, strength: float, age: float) -> None:
    """Training jobs write their state while they go on, but for a moment."""
    for n in w.fleet.jobs_of_kind("dp", "pt"):
        nodes = list(w.fleet.jobs[n].nodes)
        if age < 20:
            p.other_out[nodes, 0] += (2 + 3 * strength) * 1e9
        if age < 1:
            p.halted[n] = 0.4


def maintenance(p: FaultEffects, w: FleetSimulation, at: FaultTarget, _strength: float, _age: float) -> None:
    """A replica is drained: it gets nothing, and the others take its part."""
    drain_replica(p, w, at.job)


def missed_scrapes(p: FaultEffects, _w: FleetSimulation, at: FaultTarget, _strength: float, age: float) -> None:
    """An exporter restarts: a few scrapes are missed."""
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
"""Events that all of a fleet notices."""
