"""Registry of fault models by condition, and selection of their targets."""

import importlib
import pkgutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache

import numpy as np

from skewscope.adapters.simulator.effects import FaultEffects
from skewscope.adapters.simulator.fleet import GPUS_PER_NODE, JOB_KINDS, SimulatedFleet
from skewscope.adapters.simulator.simulation import FleetSimulation


@dataclass(frozen=True, slots=True)
class FaultTarget:
    """Target of a fault; irrelevant fields are 0."""

    kind: str
    """Entity kind as in an incident: gpu, node, port, group, replica, pool, fleet."""
    name: str
    also: tuple[str, ...] = ()
    """Other accepted entities: what the target belongs to, or what consists of the target alone."""
    node: int = 0
    gpu: int = 0
    port: int = 0
    job: int = 0
    member: int = 0
    nodes: tuple[int, ...] = ()


EffectFunction = Callable[[FaultEffects, FleetSimulation, FaultTarget, float, float], None]


@dataclass(frozen=True, slots=True)
class FaultModel:
    """A fault model."""

    condition: str
    target: str
    """One of `TARGET_BUILDERS`."""
    apply: EffectFunction
    jobs: tuple[str, ...]
    """Kinds of job that it can affect."""
    fabrics: tuple[str, ...]


_registry: dict[str, FaultModel] = {}

ALL_JOBS = tuple(JOB_KINDS)
SERVING_JOBS = tuple(name for name, kind in JOB_KINDS.items() if kind.is_serving)
TRAINING_JOBS = tuple(name for name, kind in JOB_KINDS.items() if not kind.is_serving)
BARRIER_JOBS = ("tp", "ep", "dp")
"""Jobs whose members all wait for each other; prefill members do not wait for decode members."""


def fault(
    condition: str, target: str, jobs: tuple[str, ...] = ALL_JOBS, fabrics: tuple[str, ...] = ("roce", "infiniband")
) -> Callable[[EffectFunction], EffectFunction]:
    """Registers the fault model of a condition."""

    def register(act: EffectFunction) -> EffectFunction:
        _registry[condition] = FaultModel(condition, target, act, jobs, fabrics)
        return act

    return register


@cache
def fault_models() -> Mapping[str, FaultModel]:
    """Returns every fault model, by condition."""
    import skewscope.adapters.simulator.faults as folder  # noqa: PLC0415

    for module in pkgutil.iter_modules(folder.__path__):
        importlib.import_module(f"{folder.__name__}.{module.name}")
    return dict(sorted(_registry.items()))


def choose_target(fault_: FaultModel, fleet: SimulatedFleet, random: np.random.Generator) -> FaultTarget:
    """Chooses a random target of a fault."""
    numbers = fleet.jobs_of_kind(*fault_.jobs)
    job = int(random.choice(numbers))
    member = int(random.integers(len(fleet.jobs[job].nodes)))
    node = fleet.jobs[job].nodes[member]
    gpu, rail = int(random.integers(GPUS_PER_NODE)), 1 + int(random.integers(fleet.plan.rails))
    return TARGET_BUILDERS[fault_.target](fleet, job, member, node, gpu, rail)


def pool_replicas(fleet: SimulatedFleet, job: int) -> list[int]:
    """Returns the replicas of a replica's pool, including itself."""
    names = next((pool.replicas for pool in fleet.topology.pools if fleet.jobs[job].name in pool.replicas), ())
    return [n for n, one in enumerate(fleet.jobs) if one.name in names]


def prefer_replica(p: FaultEffects, w: FleetSimulation, at: FaultTarget, times: float) -> None:
    """Makes a balancer prefer one replica of a pool by a factor; the total stays the same."""
    pool = pool_replicas(w.fleet, at.job)
    p.arrivals[pool] *= len(pool) / (times + len(pool) - 1)
    p.arrivals[at.job] *= times


def drain_replica(p: FaultEffects, w: FleetSimulation, job: int) -> None:
    """Makes a balancer send one replica nothing; the others of its pool get its share."""
    others = [n for n in pool_replicas(w.fleet, job) if n != job and p.out[n] <= 0]
    p.arrivals[others] *= (len(others) + 1) / max(len(others), 1)
    p.arrivals[job] = 0.0
    p.out[job] = 1.0


def prefill_nodes(nodes: Sequence[int]) -> tuple[int, ...]:
    """Returns the prefill nodes of a job with separate roles."""
    return tuple(nodes[: len(nodes) // 2])


def _gpu_target(fleet: SimulatedFleet, job: int, member: int, node: int, gpu: int, _rail: int) -> FaultTarget:
    name = fleet.topology.nodes[node].name
    return FaultTarget("gpu", f"{name}/gpu{gpu}", (name,), node, gpu, 0, job, member)


def _node_target(fleet: SimulatedFleet, job: int, member: int, node: int, _gpu: int, _rail: int) -> FaultTarget:
    name = fleet.topology.nodes[node].name
    ports = tuple(fleet.port_name(node, p) for p in range(fleet.ports))
    gpus = tuple(f"{name}/gpu{g}" for g in range(GPUS_PER_NODE))
    return FaultTarget("node", name, (*ports, *gpus), node, 0, 0, job, member)


def _port_target(fleet: SimulatedFleet, job: int, member: int, node: int, _gpu: int, rail: int) -> FaultTarget:
    return FaultTarget(
        "port", fleet.port_name(node, rail), (fleet.topology.nodes[node].name,), node, 0, rail, job, member
    )


def _front_target(fleet: SimulatedFleet, job: int, _member: int, _node: int, _gpu: int, _rail: int) -> FaultTarget:
    node = fleet.jobs[job].nodes[0]
    name = fleet.topology.nodes[node].name
    return FaultTarget("node", name, (fleet.port_name(node, 0), fleet.jobs[job].name), node, 0, 0, job, 0)


def _job_target(fleet: SimulatedFleet, job: int, _member: int, _node: int, _gpu: int, _rail: int) -> FaultTarget:
    made = fleet.jobs[job]
    front = fleet.topology.nodes[made.nodes[0]].name
    pools = [pool for pool in fleet.topology.pools if made.name in pool.replicas]
    only = tuple(pool.name for pool in pools if len(pool.replicas) == 1)
    # A fault of a whole job may be reported on any of its rails.
    rails = tuple(fleet.port_name(n, p) for n in made.nodes for p in range(1, fleet.ports))
    return FaultTarget("group", made.name, (front, *only, *rails), made.nodes[0], 0, 0, job, 0, made.nodes)


def _job_gpus_target(fleet: SimulatedFleet, job: int, member: int, node: int, gpu: int, rail: int) -> FaultTarget:
    whole = _job_target(fleet, job, member, node, gpu, rail)
    every = tuple(f"{fleet.topology.nodes[n].name}/gpu{g}" for n in whole.nodes for g in range(GPUS_PER_NODE))
    return replace(whole, also=(*whole.also, *every))


def _prefill_target(fleet: SimulatedFleet, job: int, member: int, node: int, gpu: int, rail: int) -> FaultTarget:
    whole = _job_target(fleet, job, member, node, gpu, rail)
    fronts = tuple(fleet.port_name(n, 0) for n in prefill_nodes(whole.nodes))
    return replace(whole, also=(*whole.also, *fronts))


def _member_target(fleet: SimulatedFleet, job: int, member: int, node: int, _gpu: int, _rail: int) -> FaultTarget:
    made = fleet.jobs[job]
    return FaultTarget("group", made.name, (fleet.topology.nodes[node].name,), node, 0, 0, job, member, made.nodes)


def _pool_target(fleet: SimulatedFleet, job: int, _member: int, _node: int, _gpu: int, _rail: int) -> FaultTarget:
    made = fleet.jobs[job]
    pool = next((pool for pool in fleet.topology.pools if made.name in pool.replicas), None)
    names = pool.replicas if pool else (made.name,)
    fronts = tuple(fleet.topology.nodes[one.nodes[0]].name for one in fleet.jobs if one.name in names)
    return FaultTarget("pool", pool.name if pool else made.name, (*names, *fronts), made.nodes[0], 0, 0, job, 0)


def _leaf_target(fleet: SimulatedFleet, job: int, _member: int, node: int, _gpu: int, rail: int) -> FaultTarget:
    nodes = tuple(n for n in range(fleet.plan.nodes) if fleet.leaf_of(n) == fleet.leaf_of(node))
    ports = tuple(fleet.port_name(n, rail) for n in nodes)
    groups = tuple(one.name for one in fleet.jobs if set(one.nodes) & set(nodes))
    names = tuple(fleet.topology.nodes[n].name for n in nodes)
    return FaultTarget(
        "link",
        f"{fleet.plan.prefix}leaf{fleet.leaf_of(node)}-r{rail - 1}",
        (*ports, *groups, *names),
        node,
        0,
        rail,
        job,
        0,
        nodes,
    )


TARGET_BUILDERS: Mapping[str, Callable[[SimulatedFleet, int, int, int, int, int], FaultTarget]] = {
    "gpu": _gpu_target,
    "node": _node_target,
    "port": _port_target,
    "front": _front_target,
    "job": _job_target,
    "gpus": _job_gpus_target,
    "prefill": _prefill_target,
    "member": _member_target,
    "pool": _pool_target,
    "leaf": _leaf_target,
}


DWELL = 10.0, 15.0
"""Minimum and maximum seconds after which a moving fault changes its member."""


def move_between_members(fault_: FaultModel) -> FaultModel:
    """Returns a fault model that moves between the members of a job, as data-dependent faults do."""

    def act(p: FaultEffects, w: FleetSimulation, at: FaultTarget, strength: float, age: float) -> None:
        member, since = _current_member(w.fleet, at.job, age)
        node = w.fleet.jobs[at.job].nodes[member]
        now = TARGET_BUILDERS[fault_.target](w.fleet, at.job, member, node, at.gpu, max(at.port, 1))
        fault_.apply(p, w, now, strength, since)

    return replace(fault_, target="job", apply=act)


def _current_member(fleet: SimulatedFleet, job: int, age: float) -> tuple[int, float]:
    """Returns the present member of a moving fault, and the seconds since it moved there."""
    random = np.random.default_rng([fleet.plan.seed, job])
    members = len(fleet.jobs[job].nodes)
    member, since, stays = int(random.integers(members)), age, random.uniform(*DWELL)
    while since >= stays:
        member = (member + int(random.integers(1, max(members, 2)))) % members
        since, stays = since - stays, random.uniform(*DWELL)
    return member, since
