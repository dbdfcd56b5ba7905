"""Faults between clients and replicas."""

from skewscope.adapters.simulator.effects import FaultEffects
from skewscope.adapters.simulator.faults.registry import (
    SERVING_JOBS,
    FaultTarget,
    drain_replica,
    fault,
    pool_replicas,
    prefer_replica,
)
from skewscope.adapters.simulator.simulation import FleetSimulation

FRONT_SPEED = 25e9


@fault("burst-admission-backlog", "pool", SERVING_JOBS)
def burst(p: FaultEffects, w: FleetSimulation, at: FaultTarget, strength: float, _age: float) -> None:
    """There are far more requests than the replicas of a pool can admit."""
    p.arrivals[pool_replicas(w.fleet, at.job)] *= 6 + 10 * strength


@fault("ingress-starvation", "front", SERVING_JOBS)
def ingress_starvation(p: FaultEffects, _w: FleetSimulation, at: FaultTarget, strength: float, _age: float) -> None:
    """An upstream component stalls: requests do not arrive."""
    p.arrivals[at.job] *= 0.35 * (1 - strength)


@fault("flow-session-skew", "front", ("tp", "pp"))
def session_skew(p: FaultEffects, w: FleetSimulation, at: FaultTarget, strength: float, _age: float) -> None:
    """Sessions are bound to one replica, over a few connections."""
    prefer_replica(p, w, at, 1 + 5 * strength)
    p.hot_flow[at.node, 0] += 0.3 + 0.4 * strength


@fault("ingress-loss", "front", SERVING_JOBS)
def ingress_loss(p: FaultEffects, w: FleetSimulation, at: FaultTarget, strength: float, _age: float) -> None:
    """Requests are dropped in the host's network stack."""
    p.loss_in[at.node, 0] += 0.02 + 0.08 * strength
    p.drops[at.node] += 0.5 * (0.02 + 0.08 * strength) * w.net.rx_packets[at.node, 0]


@fault("egress-loss", "front", SERVING_JOBS)
def egress_loss(p: FaultEffects, _w: FleetSimulation, at: FaultTarget, strength: float, _age: float) -> None:
    """Tokens are lost on the path to clients."""
    p.loss_out[at.node, 0] += 0.01 + 0.07 * strength


@fault("egress-jitter", "front", SERVING_JOBS)
def jitter(p: FaultEffects, w: FleetSimulation, at: FaultTarget, strength: float, _age: float) -> None:
    """The path to clients has a variable delay."""
    p.queue[at.node, 0] += w.random.exponential(0.01 + 0.05 * strength)


@fault("egress-backlog", "front", SERVING_JOBS)
def egress_backlog(p: FaultEffects, _w: FleetSimulation, at: FaultTarget, strength: float, age: float) -> None:
    """The send queue grows: the egress is too slow."""
    p.egress[at.job] += min(0.2 * age, 1.0) * (0.5 + 1.5 * strength)
    p.queue[at.node, 0] += min(0.05 * age, 1.0) * (0.3 + 1.5 * strength)


@fault("edge-saturation", "front", SERVING_JOBS)
def edge_saturation(p: FaultEffects, w: FleetSimulation, at: FaultTarget, strength: float, _age: float) -> None:
    """A bulk transfer fills the front-end link."""
    p.other_out[at.node, 0] += FRONT_SPEED * (0.94 + 0.06 * strength)
    p.other_in[at.node, 0] += FRONT_SPEED * 0.1
    p.queue[at.node, 0] += 0.001 + 0.01 * strength * w.random.random()
    p.hot_flow[at.node, 0] += 0.5


@fault("retry-storm", "pool", SERVING_JOBS)
def retries(p: FaultEffects, w: FleetSimulation, at: FaultTarget, strength: float, age: float) -> None:
    """Clients time out and retry; what is computed for timed-out requests is discarded."""
    pool, times = pool_replicas(w.fleet, at.job), 1 + (2 + 4 * strength) * min(age / 10, 1.0)
    p.arrivals[pool] *= times
    if age < 1:
        # The cause is gone: the queue that it left is longer than the clients' timeout.
        w.serving.waiting[pool] += 60 + 60 * strength
    # A client gets at most one answer, however often it retries.
    p.left[pool] = 1 - (0.7 - 0.4 * strength) / times


@fault("early-completion-skew", "job", SERVING_JOBS)
def early_completion_skew(p: FaultEffects, _w: FleetSimulation, at: FaultTarget, strength: float, _age: float) -> None:
    """Most answers end soon while a few continue, and free slots are not filled."""
    p.output[at.job] *= 1 - 0.6 * strength
    p.admitting[at.job] *= 0.05


@fault("engine-connection-liveness", "job", SERVING_JOBS)
def dead_engine(p: FaultEffects, _w: FleetSimulation, at: FaultTarget, _strength: float, _age: float) -> None:
    """The engine hangs; its connections stay open."""
    p.halted[at.job] = 1.0
    p.admitting[at.job] = 0.0


@fault("tenant-unfairness", "job", SERVING_JOBS)
def tenant_unfairness(p: FaultEffects, _w: FleetSimulation, at: FaultTarget, strength: float, _age: float) -> None:
    """One tenant's long prompts over few connections occupy the engine."""
    p.prompt[at.job] *= 7 + 6 * strength
    p.hot_flow[at.node, 0] += 0.4 + 0.3 * strength


@fault("weights-cold-start", "job", SERVING_JOBS)
def cold_start(p: FaultEffects, w: FleetSimulation, at: FaultTarget, strength: float, _age: float) -> None:
    """A new replica reads its weights before it can serve."""
    w.serving.running[at.job] = w.serving.waiting[at.job] = 0.0
    p.admitting[at.job] = 0.0
    p.halted[at.job] = 1.0
    drain_replica(p, w, at.job)
    nodes = list(w.fleet.jobs[at.job].nodes)
    p.other_in[nodes, 0] += FRONT_SPEED * (0.4 + 0.4 * strength)
    p.wait_io[nodes] += 0.3 + 0.3 * strength
    p.pcie_in[nodes] += FRONT_SPEED * 0.4 / 8
