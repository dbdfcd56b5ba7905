"""The simulated fleet: nodes, ports, jobs and topology. Sizes and speeds only; dynamics are elsewhere."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from skewscope.engine.model.arrays import Index, Mask
from skewscope.engine.model.topology import FLEET, Group, Node, Pool, Port, Topology

GPUS_PER_NODE = 8
NODES_PER_RACK = 8
NODES_PER_LEAF = 32
FABRICS = ("roce", "infiniband")


@dataclass(frozen=True, slots=True)
class JobKind:
    """What all jobs of one kind have in common."""

    group: str
    nodes: int
    is_serving: bool
    round_s: float
    """Seconds of computation per round: a decode step, a pipeline turn, a training step."""
    round_bytes: float
    """Bytes that a member sends per round."""
    peers: int
    """Number of peers that each member communicates with; 0 for all."""


JOB_KINDS = {
    # Decode steps of a 70B model take 20 to 40 ms; activations, twice per layer, are some hundred MB per step.
    "tp": JobKind("tensor-parallel", 4, is_serving=True, round_s=0.026, round_bytes=300e6, peers=0),
    "pp": JobKind("pipeline-parallel", 4, is_serving=True, round_s=0.012, round_bytes=4e6, peers=1),
    "ep": JobKind("expert-parallel", 8, is_serving=True, round_s=0.030, round_bytes=400e6, peers=0),
    "pd": JobKind("prefill-decode", 4, is_serving=True, round_s=0.028, round_bytes=120e6, peers=2),
    # A training step of two seconds moves the gradients of a slice of the model; a stage its activations.
    "dp": JobKind("data-parallel", 8, is_serving=False, round_s=0.9, round_bytes=16e9, peers=2),
    "pt": JobKind("pipeline-parallel", 4, is_serving=False, round_s=0.25, round_bytes=200e6, peers=1),
}
JOB_MIX = ("tp", "tp", "tp", "tp", "pp", "pp", "ep", "ep", "pd", "pd", "dp", "pt", "pt")
"""Jobs per 64 nodes."""
POOL_SIZE = 4
"""Maximum replicas per load balancer."""


@dataclass(frozen=True, slots=True)
class FleetPlan:
    """Parameters of a fleet."""

    nodes: int = 64
    rails: int = 2
    fabric: str = "roce"
    seed: int = 1
    prefix: str = ""
    """Prefix of every name, so that several fleets can be simulated side by side."""


@dataclass(frozen=True, slots=True)
class SimulatedJob:
    """A replica or a training job."""

    name: str
    kind: str
    nodes: tuple[int, ...]


@dataclass(frozen=True)
class SimulatedFleet:
    """A fleet as arrays: ports are [node, port] with the front end first, members [job, place] with -1 for none."""

    plan: FleetPlan
    jobs: tuple[SimulatedJob, ...]
    topology: Topology

    @cached_property
    def members(self) -> Index:
        """[job, place] node of each member; -1 for none."""
        found = np.full((len(self.jobs), max(len(job.nodes) for job in self.jobs)), -1, np.intp)
        for n, job in enumerate(self.jobs):
            found[n, : len(job.nodes)] = job.nodes
        return found

    @cached_property
    def is_member(self) -> Mask:
        """[job, place] whether a place of `members` is taken."""
        return self.members >= 0

    @cached_property
    def job_of_node(self) -> Index:
        """[node] job of each node; -1 for an idle one."""
        found = np.full(self.plan.nodes, -1, np.intp)
        for n, job in enumerate(self.jobs):
            found[list(job.nodes)] = n
        return found

    @cached_property
    def is_serving(self) -> Mask:
        """[job] whether it serves requests."""
        return np.array([JOB_KINDS[job.kind].is_serving for job in self.jobs])

    @cached_property
    def is_pipeline(self) -> Mask:
        """[job] whether it is a pipeline."""
        return np.array([JOB_KINDS[job.kind].group == "pipeline-parallel" for job in self.jobs])

    def jobs_of_kind(self, *kinds: str) -> list[int]:
        """Returns the numbers of the jobs of some kinds."""
        return [n for n, job in enumerate(self.jobs) if job.kind in kinds]

    @property
    def ports(self) -> int:
        """Ports per node."""
        return 1 + self.plan.rails

    @property
    def front_speed(self) -> float:
        """Bytes per second of a north-south port."""
        return 25e9

    @property
    def rail_speed(self) -> float:
        """Bytes per second of an east-west port."""
        return 50e9

    def port_name(self, node: int, port: int) -> str:
        """Returns the name of a port."""
        return f"{self.topology.nodes[node].name}/{'ns' if port == 0 else f'r{port - 1}'}"

    def leaf_of(self, node: int) -> int:
        """Returns the number of a node's leaf, which is the same on all rails."""
        return node // NODES_PER_LEAF


def build_fleet(plan: FleetPlan) -> SimulatedFleet:
    """Creates a fleet."""
    jobs = tuple(_build_jobs(plan))
    nodes = tuple(_build_node(n, plan) for n in range(plan.nodes))
    groups = tuple(_build_group(job, nodes) for job in jobs)
    return SimulatedFleet(plan, jobs, Topology(nodes, groups, tuple(_build_pools(jobs, plan.prefix))))


def _build_jobs(plan: FleetPlan) -> Iterator[SimulatedJob]:
    """Yields jobs until no further one fits."""
    nodes = plan.nodes
    counts: dict[str, int] = {}
    first, turn = 0, 0
    while first + min(JOB_KINDS[kind].nodes for kind in JOB_MIX) <= nodes and turn < nodes * len(JOB_MIX):
        kind = JOB_MIX[turn % len(JOB_MIX)]
        turn += 1
        size = JOB_KINDS[kind].nodes
        if first + size <= nodes:
            yield SimulatedJob(f"{plan.prefix}{kind}{counts.get(kind, 0)}", kind, tuple(range(first, first + size)))
            counts[kind] = counts.get(kind, 0) + 1
            first += size


def _build_group(job: SimulatedJob, nodes: Sequence[Node]) -> Group:
    names = tuple(nodes[n].name for n in job.nodes)
    return Group(job.name, JOB_KINDS[job.kind].group, names, names[0] if JOB_KINDS[job.kind].is_serving else "")


def _build_pools(jobs: Sequence[SimulatedJob], prefix: str) -> Iterator[Pool]:
    for kind in dict.fromkeys(job.kind for job in jobs if JOB_KINDS[job.kind].is_serving):
        names = [job.name for job in jobs if job.kind == kind]
        for n in range(0, len(names), POOL_SIZE):
            yield Pool(f"{prefix}{kind}-pool{n // POOL_SIZE}", tuple(names[n : n + POOL_SIZE]))


def _build_node(n: int, plan: FleetPlan) -> Node:
    name, leaf = f"{plan.prefix}node{n:04d}", n // NODES_PER_LEAF
    octets = f"{n // 250}.{n % 250 + 1}"
    front = Port(
        name, "ns", "north-south", 25e9, (f"10.0.{octets}",), ("mlx5_0", "eth0"), switch=f"{plan.prefix}edge{leaf}"
    )
    rails = (
        Port(
            name,
            f"r{r}",
            "east-west",
            50e9,
            (f"10.{r + 1}.{octets}",),
            (f"mlx5_{r + 1}", f"rail{r}"),
            switch=f"{plan.prefix}leaf{leaf}-r{r}",
        )
        for r in range(plan.rails)
    )
    rack = f"{plan.prefix}rack{n // NODES_PER_RACK}"
    return Node(name, rack, GPUS_PER_NODE, ("north-south", "east-west"), (front, *rails), f"{plan.prefix}{FLEET}")
