"""Faults of the network between nodes."""

import numpy as np

from skewscope.adapters.simulator.effects import FaultEffects
from skewscope.adapters.simulator.faults.registry import BARRIER_JOBS, FaultTarget, fault, prefer_replica
from skewscope.adapters.simulator.simulation import FleetSimulation

RAIL_SPEED = 50e9


@fault("fabric-congestion", "leaf")
def congestion(p: FaultEffects, w: FleetSimulation, at: FaultTarget, strength: float, _age: float) -> None:
    """A leaf has less uplink capacity than its nodes need."""
    hit = list(at.nodes)
    p.capacity[hit, at.port] *= 0.5 - 0.35 * strength
    p.queue[hit, at.port] += (40 + 200 * strength) * 1e-6 * w.random.uniform(0.8, 1.2, len(hit))
    p.mark[hit, at.port] += 0.05 + 0.3 * strength


@fault("incast-all-to-all", "port", ("ep", "tp", "pd"))
def incast(p: FaultEffects, _w: FleetSimulation, at: FaultTarget, strength: float, _age: float) -> None:
    """Many senders write to one port at once."""
    p.other_in[at.node, at.port] += RAIL_SPEED * (0.5 + 0.45 * strength)
    p.queue[at.node, at.port] += (60 + 250 * strength) * 1e-6
    p.mark[at.node, at.port] += 0.1 + 0.4 * strength
    p.flows[at.node, at.port] *= 3 + 5 * strength


@fault("fabric-loss", "port")
def packet_loss(p: FaultEffects, _w: FleetSimulation, at: FaultTarget, strength: float, _age: float) -> None:
    """A link loses packets in both directions; some arrive corrupt."""
    p.loss_out[at.node, at.port] += 0.004 + 0.03 * strength
    p.loss_in[at.node, at.port] += 0.004 + 0.03 * strength
    p.corrupt[at.node, at.port] += 0.0005 + 0.003 * strength


@fault("out-of-order-spurious-retransmit", "job", ("dp", "ep", "tp"), ("roce",))
def packet_spraying(p: FaultEffects, w: FleetSimulation, at: FaultTarget, strength: float, _age: float) -> None:
    """Packets of a flow take several paths, and the adapters expect them in order."""
    p.reorder[list(w.fleet.jobs[at.job].nodes), 1:] += 0.01 + 0.06 * strength


@fault("ecmp-hash-collision", "port", ("dp", "ep", "tp", "pd"))
def hash_collision(p: FaultEffects, w: FleetSimulation, at: FaultTarget, strength: float, _age: float) -> None:
    """Flows of one port share an uplink while others are empty."""
    p.hot_flow[at.node, at.port] += 0.15 + 0.3 * strength
    p.tail[at.node, at.port] += (100 + 400 * strength) * 1e-6
    p.capacity[at.node, at.port] *= 0.6 - 0.3 * strength
    p.queue[at.node, at.port] += (30 + 100 * strength) * 1e-6 * w.random.uniform(0.8, 1.2)
    p.mark_out[at.node, at.port] += 0.03 + 0.1 * strength


@fault("cross-job-contention", "job", ("dp", "ep", "tp"))
def job_contention(p: FaultEffects, w: FleetSimulation, at: FaultTarget, strength: float, age: float) -> None:
    """Another job's exchanges occasionally coincide with this job's."""
    coincide = 0.5 + 0.5 * np.sin(age / 2.5) > 0.4
    nodes = list(w.fleet.jobs[at.job].nodes)
    if coincide:
        p.capacity[nodes, 1:] *= 0.55 - 0.3 * strength
        p.queue[nodes, 1:] += (20 + 80 * strength) * 1e-6
        p.mark[nodes, 1:] += 0.02 + 0.1 * strength


@fault("congestion-control-mistuning", "job", ("dp", "ep"), ("roce",))
def mistuning(p: FaultEffects, w: FleetSimulation, at: FaultTarget, strength: float, _age: float) -> None:
    """Senders are slowed by marks although there is no queue."""
    nodes = list(w.fleet.jobs[at.job].nodes)
    p.mark[nodes, 1:] += 0.001 + 0.003 * strength
    p.capacity[nodes, 1:] *= 0.6 - 0.3 * strength


@fault("pfc-storm", "port", fabrics=("roce",))
def pause_storm(p: FaultEffects, w: FleetSimulation, at: FaultTarget, strength: float, _age: float) -> None:
    """One adapter sends pause frames continuously."""
    p.pausing[at.node, at.port] += 0.7 + 0.3 * strength
    for n in range(w.fleet.plan.nodes):
        if n != at.node and w.fleet.leaf_of(n) == w.fleet.leaf_of(at.node):
            p.paused[n, at.port] += 0.05 + 0.3 * strength


@fault("head-of-line-blocking", "port", fabrics=("roce",))
def head_of_line_blocking(p: FaultEffects, _w: FleetSimulation, at: FaultTarget, strength: float, _age: float) -> None:
    """The port is paused due to congestion of others."""
    p.paused[at.node, at.port] += 0.15 + 0.5 * strength


@fault("credit-starvation", "port", fabrics=("infiniband",))
def no_credits(p: FaultEffects, _w: FleetSimulation, at: FaultTarget, strength: float, _age: float) -> None:
    """The receiver grants no credits."""
    p.credits[at.node, at.port] += 0.2 + 0.6 * strength


@fault("link-flap", "port")
def link_flap(p: FaultEffects, _w: FleetSimulation, at: FaultTarget, strength: float, age: float) -> None:
    """The link goes down for a moment, repeatedly."""
    every = 10 - 6 * strength
    if age % every < 1.0:
        p.flaps[at.node, at.port] += 1
        p.down[at.node, at.port] = 1.0
    p.corrupt[at.node, at.port] += 1e-4


@fault("nic-failure-hang", "port")
def nic_failure(p: FaultEffects, _w: FleetSimulation, at: FaultTarget, _strength: float, age: float) -> None:
    """The adapter fails, and its job halts."""
    if age < 1:
        p.flaps[at.node, at.port] += 1
    p.down[at.node, at.port] = 1.0
    p.halted[at.job] = 1.0
    p.spinning[at.job] = 1.0


@fault("rail-underuse", "node", ("tp", "ep", "dp", "pd"))
def rail_underuse(p: FaultEffects, w: FleetSimulation, at: FaultTarget, strength: float, _age: float) -> None:
    """All or nearly all traffic of a node uses its first rail."""
    left = 0.2 - 0.2 * strength
    p.part[at.node, 2:] *= left
    p.part[at.node, 1] *= w.fleet.plan.rails - left * (w.fleet.plan.rails - 1)


@fault("qp-connection-state-thrash", "node", ("ep", "pd", "dp"))
def connection_thrash(p: FaultEffects, _w: FleetSimulation, at: FaultTarget, strength: float, _age: float) -> None:
    """There are more connections than the adapter's cache holds."""
    p.flows[at.node, 1:] *= 60 + 200 * strength
    p.capacity[at.node, 1:] *= 0.6 - 0.3 * strength
    p.read_stall[at.node, 1:] += 0.1 + 0.2 * strength


@fault("collective-hang", "job", (*BARRIER_JOBS, "pd"))
def collective_hang(p: FaultEffects, _w: FleetSimulation, at: FaultTarget, _strength: float, _age: float) -> None:
    """A collective never ends."""
    p.halted[at.job] = 1.0
    p.spinning[at.job] = 1.0


@fault("cross-node-load-skew", "front", ("tp", "pp"))
def replica_load_skew(p: FaultEffects, w: FleetSimulation, at: FaultTarget, strength: float, _age: float) -> None:
    """A balancer with a wrong metric prefers one replica far too much."""
    prefer_replica(p, w, at, 1.5 + 4 * strength)


@fault("pp-bubble", "node", ("pp", "pt"))
def slow_stage(p: FaultEffects, _w: FleetSimulation, at: FaultTarget, strength: float, _age: float) -> None:
    """One stage takes longer than the others."""
    p.share[at.job, at.member] *= 1.3 + 1.2 * strength
