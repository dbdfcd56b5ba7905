"""Faults by the id of their condition, and whom they befall."""

import importlib
import pkgutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache

import numpy as np

from skewscope.adapters.simulator.fleet import GPUS, KINDS, Fleet
from skewscope.adapters.simulator.push import Push
from skewscope.adapters.simulator.world import World


@dataclass(frozen=True, slots=True)
class Target:
    """Whom a fault befalls; what does not matter is 0."""

    kind: str
    """As an incident names it: gpu, node, port, group, replica, pool, fleet."""
    name: str
    also: tuple[str, ...] = ()
    """Other names under which it would be rightly told: what the entity lies on, or what it alone is made of."""
    node: int = 0
    gpu: int = 0
    port: int = 0
    job: int = 0
    member: int = 0
    nodes: tuple[int, ...] = ()


Act = Callable[[Push, World, Target, float, float], None]


@dataclass(frozen=True, slots=True)
class Fault:
    """A way in which a fleet can be sick."""

    condition: str
    target: str
    """One of `TARGETS`."""
    act: Act
    jobs: tuple[str, ...]
    """Kinds of job that can have it."""
    fabrics: tuple[str, ...]


_found: dict[str, Fault] = {}

ALL = tuple(KINDS)
SERVING = tuple(name for name, kind in KINDS.items() if kind.serves)
TRAINING = tuple(name for name, kind in KINDS.items() if not kind.serves)
BARRIERS = ("tp", "ep", "dp")
"""Jobs whose members all wait for each other; those that prefill do not wait for those that decode."""


def fault(
    condition: str, target: str, jobs: tuple[str, ...] = ALL, fabrics: tuple[str, ...] = ("roce", "infiniband")
) -> Callable[[Act], Act]:
    """Registers what a condition does."""

    def register(act: Act) -> Act:
        _found[condition] = Fault(condition, target, act, jobs, fabrics)
        return act

    return register


@cache
def faults() -> Mapping[str, Fault]:
    """Every fault, by condition."""
    import skewscope.adapters.simulator.faults as folder  # noqa: PLC0415

    for module in pkgutil.iter_modules(folder.__path__):
        importlib.import_module(f"{folder.__name__}.{module.name}")
    return dict(sorted(_found.items()))


def target(fault_: Fault, fleet: Fleet, random: np.random.Generator) -> Target:
    """Somebody whom a fault can befall."""
    numbers = fleet.of(*fault_.jobs)
    job = int(random.choice(numbers))
    member = int(random.integers(len(fleet.jobs[job].nodes)))
    node = fleet.jobs[job].nodes[member]
    gpu, rail = int(random.integers(GPUS)), 1 + int(random.integers(fleet.plan.rails))
    return TARGETS[fault_.target](fleet, job, member, node, gpu, rail)


def alike(fleet: Fleet, job: int) -> list[int]:
    """The replicas of a replica's pool, itself among them."""
    names = next((pool.replicas for pool in fleet.topology.pools if fleet.jobs[job].name in pool.replicas), ())
    return [n for n, one in enumerate(fleet.jobs) if one.name in names]


def prefer(p: Push, w: World, at: Target, times: float) -> None:
    """A balancer sends one replica so many times what each other one of its pool gets; as many come in all."""
    pool = alike(w.fleet, at.job)
    p.arrivals[pool] *= len(pool) / (times + len(pool) - 1)
    p.arrivals[at.job] *= times


def spare(p: Push, w: World, job: int) -> None:
    """A balancer sends one replica nothing; the others of its pool get its part."""
    others = [n for n in alike(w.fleet, job) if n != job and p.out[n] <= 0]
    p.arrivals[others] *= (len(others) + 1) / max(len(others), 1)
    p.arrivals[job] = 0.0
    p.out[job] = 1.0


def prefilling(nodes: Sequence[int]) -> tuple[int, ...]:
    """Those of a job's nodes that prefill, where the others decode."""
    return tuple(nodes[: len(nodes) // 2])


def _gpu(fleet: Fleet, job: int, member: int, node: int, gpu: int, _rail: int) -> Target:
    name = fleet.topology.nodes[node].name
    return Target("gpu", f"{name}/gpu{gpu}", (name,), node, gpu, 0, job, member)


def _node(fleet: Fleet, job: int, member: int, node: int, _gpu: int, _rail: int) -> Target:
    name = fleet.topology.nodes[node].name
    ports = tuple(fleet.port(node, p) for p in range(fleet.ports))
    gpus = tuple(f"{name}/gpu{g}" for g in range(GPUS))
    return Target("node", name, (*ports, *gpus), node, 0, 0, job, member)


def _port(fleet: Fleet, job: int, member: int, node: int, _gpu: int, rail: int) -> Target:
    return Target("port", fleet.port(node, rail), (fleet.topology.nodes[node].name,), node, 0, rail, job, member)


def _front(fleet: Fleet, job: int, _member: int, _node: int, _gpu: int, _rail: int) -> Target:
    node = fleet.jobs[job].nodes[0]
    name = fleet.topology.nodes[node].name
    return Target("node", name, (fleet.port(node, 0), fleet.jobs[job].name), node, 0, 0, job, 0)


def _job(fleet: Fleet, job: int, _member: int, _node: int, _gpu: int, _rail: int) -> Target:
    made = fleet.jobs[job]
    front = fleet.topology.nodes[made.nodes[0]].name
    pools = [pool for pool in fleet.topology.pools if made.name in pool.replicas]
    only = tuple(pool.name for pool in pools if len(pool.replicas) == 1)
    # What befalls a whole job may be told on any of its rails.
    rails = tuple(fleet.port(n, p) for n in made.nodes for p in range(1, fleet.ports))
    return Target("group", made.name, (front, *only, *rails), made.nodes[0], 0, 0, job, 0, made.nodes)


def _gpus(fleet: Fleet, job: int, member: int, node: int, gpu: int, rail: int) -> Target:
    whole = _job(fleet, job, member, node, gpu, rail)
    every = tuple(f"{fleet.topology.nodes[n].name}/gpu{g}" for n in whole.nodes for g in range(GPUS))
    return replace(whole, also=(*whole.also, *every))


def _prefill(fleet: Fleet, job: int, member: int, node: int, gpu: int, rail: int) -> Target:
    whole = _job(fleet, job, member, node, gpu, rail)
    fronts = tuple(fleet.port(n, 0) for n in prefilling(whole.nodes))
    return replace(whole, also=(*whole.also, *fronts))


def _member(fleet: Fleet, job: int, member: int, node: int, _gpu: int, _rail: int) -> Target:
    made = fleet.jobs[job]
    return Target("group", made.name, (fleet.topology.nodes[node].name,), node, 0, 0, job, member, made.nodes)


def _pool(fleet: Fleet, job: int, _member: int, _node: int, _gpu: int, _rail: int) -> Target:
    made = fleet.jobs[job]
    pool = next((pool for pool in fleet.topology.pools if made.name in pool.replicas), None)
    names = pool.replicas if pool else (made.name,)
    fronts = tuple(fleet.topology.nodes[one.nodes[0]].name for one in fleet.jobs if one.name in names)
    return Target("pool", pool.name if pool else made.name, (*names, *fronts), made.nodes[0], 0, 0, job, 0)


def _leaf(fleet: Fleet, job: int, _member: int, node: int, _gpu: int, rail: int) -> Target:
    nodes = tuple(n for n in range(fleet.plan.nodes) if fleet.leaf(n) == fleet.leaf(node))
    ports = tuple(fleet.port(n, rail) for n in nodes)
    groups = tuple(one.name for one in fleet.jobs if set(one.nodes) & set(nodes))
    names = tuple(fleet.topology.nodes[n].name for n in nodes)
    return Target(
        "link",
        f"{fleet.plan.prefix}leaf{fleet.leaf(node)}-r{rail - 1}",
        (*ports, *groups, *names),
        node,
        0,
        rail,
        job,
        0,
        nodes,
    )


TARGETS: Mapping[str, Callable[[Fleet, int, int, int, int, int], Target]] = {
    "gpu": _gpu,
    "node": _node,
    "port": _port,
    "front": _front,
    "job": _job,
    "gpus": _gpus,
    "prefill": _prefill,
    "member": _member,
    "pool": _pool,
    "leaf": _leaf,
}


DWELL = 10.0, 15.0
"""Seconds after which a fault that moves goes on to another member, at least and at most."""


def moving(fault_: Fault) -> Fault:
    """The same on one member of a job after another, as it is with what depends on data or on batches."""

    def act(p: Push, w: World, at: Target, strength: float, age: float) -> None:
        member, since = _turn(w.fleet, at.job, age)
        node = w.fleet.jobs[at.job].nodes[member]
        now = TARGETS[fault_.target](w.fleet, at.job, member, node, at.gpu, max(at.port, 1))
        fault_.act(p, w, now, strength, since)

    return replace(fault_, target="job", act=act)


def _turn(fleet: Fleet, job: int, age: float) -> tuple[int, float]:
    """The member that a moving fault is on, and for how long already."""
    random = np.random.default_rng([fleet.plan.seed, job])
    members = len(fleet.jobs[job].nodes)
    member, since, stays = int(random.integers(members)), age, random.uniform(*DWELL)
    while since >= stays:
        member = (member + int(random.integers(1, max(members, 2)))) % members
        since, stays = since - stays, random.uniform(*DWELL)
    return member, since
