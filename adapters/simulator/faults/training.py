"""Faults of training jobs."""

import numpy as np

from skewscope.adapters.simulator.effects import FaultEffects
from skewscope.adapters.simulator.faults.registry import TRAINING_JOBS, FaultTarget, fault
from skewscope.adapters.simulator.fleet import GPUS_PER_NODE
from skewscope.adapters.simulator.simulation import FleetSimulation
from skewscope.engine.model.arrays import F64

STATE_BYTES = 574e9
"""Bytes of state per node: most of its GPU memory."""


def _job_nodes(w: FleetSimulation, at: FaultTarget) -> list[int]:
    return list(w.fleet.jobs[at.job].nodes)


def _random_order(w: FleetSimulation, at: FaultTarget, turn: int) -> F64:
    """Returns [member] float64, a random order of a job's members, new in each turn."""
    return (
        np.random.default_rng([w.fleet.plan.seed, at.job, turn]).permutation(len(_job_nodes(w, at))).astype(np.float64)
    )


@fault("dataloader-stall", "job", TRAINING_JOBS)
def dataloader_stall(p: FaultEffects, w: FleetSimulation, at: FaultTarget, strength: float, age: float) -> None:
    """Steps begin before their batch is loaded."""
    if age % 6 < 2 + 3 * strength:
        p.halted[at.job] = 0.6 + 0.4 * strength
    p.wait_io[_job_nodes(w, at)] += 0.2 + 0.4 * strength


@fault("dataloader-rank-imbalance", "job", ("dp",))
def uneven_batches(p: FaultEffects, w: FleetSimulation, at: FaultTarget, strength: float, _age: float) -> None:
    """A different rank each time waits longer for its batch; the amounts read differ."""
    nodes = _job_nodes(w, at)
    p.other_in[nodes, 0] += 60e6 * (0.5 + strength) * w.random.exponential(1.0, len(nodes))
    p.busy[nodes] += 0.58
    p.uneven[at.job] += 0.15 + 0.45 * strength
    p.wander[at.job] += w.rounds.period[at.job] * (0.15 + 0.4 * strength)


@fault("python-gc-pause", "job", ("dp",))
def gc_pause(p: FaultEffects, w: FleetSimulation, at: FaultTarget, strength: float, _age: float) -> None:
    """A worker pauses for garbage collection."""
    p.wander[at.job] += w.rounds.period[at.job] * (0.1 + 0.2 * strength)


@fault("seq-length-imbalance", "job", ("dp", "pt"))
def sequence_length_imbalance(
    p: FaultEffects, w: FleetSimulation, at: FaultTarget, strength: float, _age: float
) -> None:
    """A different rank has the long sequence in each step."""
    p.uneven[at.job] += 0.3 + 0.3 * strength
    p.wander[at.job] += w.rounds.period[at.job] * (0.2 + 0.5 * strength)


@fault("checkpoint-stall", "job", TRAINING_JOBS)
def checkpoint_stall(p: FaultEffects, w: FleetSimulation, at: FaultTarget, strength: float, age: float) -> None:
    """Training halts while its state is copied off the GPUs, and then while it is written."""
    since = age % 25
    if since < 8 + 10 * strength:
        p.halted[at.job] = 1.0
        p.wait_io[_job_nodes(w, at)] += 0.3
        p.pcie_out[_job_nodes(w, at)] += 15e9 if since < 2 else 0.0
        p.other_out[_job_nodes(w, at), 0] += 25e9 * (0.3 + 0.5 * strength) if since >= 1 else 0.0


@fault("failover-reload-cost", "job", TRAINING_JOBS)
def checkpoint_reload(p: FaultEffects, w: FleetSimulation, at: FaultTarget, strength: float, age: float) -> None:
    """The processes of the job ended; it restarts and reads its last checkpoint."""
    p.halted[at.job] = 1.0
    read = 25e9 * (0.4 + 0.4 * strength)
    loaded = min(max(age - 3, 0.0) * read / STATE_BYTES, 1.0)
    p.held[_job_nodes(w, at)] -= 0.87 * (1 - loaded)
    if age > 3:
        p.other_in[_job_nodes(w, at), 0] += read
        p.pcie_in[_job_nodes(w, at)] += read / GPUS_PER_NODE


@fault("implicit-mfu-decline", "job", TRAINING_JOBS)
def mfu_decline(p: FaultEffects, _w: FleetSimulation, at: FaultTarget, strength: float, age: float) -> None:
    """All members become slower together."""
    p.share[at.job] *= 1 + (0.2 + 0.4 * strength) * min(age / 10, 1.0)


@fault("moe-training-expert-imbalance", "job", ("dp",))
def hot_experts(p: FaultEffects, w: FleetSimulation, at: FaultTarget, strength: float, age: float) -> None:
    """The router favours a few experts, changing every few steps: their ranks receive and compute more."""
    order = _random_order(w, at, int(age // 3))
    more = (0.6 + 1.5 * strength) * 0.4**order
    p.sent[at.job, : len(order)] *= 1 + more
    p.share[at.job, : len(order)] *= 1 + 0.25 * more


@fault("rl-rollout-long-tail", "job", ("dp",))
def long_tail(p: FaultEffects, w: FleetSimulation, at: FaultTarget, strength: float, age: float) -> None:
    """Each update waits for a few long answers, and the members run out of work one after another."""
    step, tail = 20.0, 6 + 8 * strength
    left = tail - age % step
    if left > 0:
        order = _random_order(w, at, int(age // step))
        ends = tail * ((order + 1) / len(order)) ** 3
        p.halted[at.job] = 1.0
        p.alone[at.job, : len(order)] = np.clip(ends - (tail - left), 0.0, 1.0)


@fault("multimodal-encoder-imbalance", "node", ("pt",))
def encoder_imbalance(p: FaultEffects, w: FleetSimulation, at: FaultTarget, strength: float, _age: float) -> None:
    """The encoder's stage takes a different time for each micro-batch."""
    p.share[at.job, at.member] *= w.random.uniform(1.0, 1.6 + 1.2 * strength)
    p.launch_noise[at.node] += w.rounds.kernel_time[at.job, at.member] * 0.1
    p.ragged_own[at.job, at.member] += 0.3
