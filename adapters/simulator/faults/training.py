"""Faults of training jobs."""

from skewscope.adapters.simulator.faults.registry import TRAINING, Target, fault
from skewscope.adapters.simulator.push import Push
from skewscope.adapters.simulator.world import World


def _nodes(w: World, at: Target) -> list[int]:
    return list(w.fleet.jobs[at.job].nodes)


@fault("dataloader-stall", "job", TRAINING)
def no_batch(p: Push, w: World, at: Target, strength: float, age: float) -> None:
    """Steps begin before their batch is there."""
    if age % 6 < 2 + 3 * strength:
        p.halted[at.job] = 0.6 + 0.4 * strength
    p.wait_io[_nodes(w, at)] += 0.2 + 0.4 * strength


@fault("dataloader-rank-imbalance", "job", ("dp",))
def uneven_batches(p: Push, w: World, at: Target, strength: float, _age: float) -> None:
    """Some rank waits longer for its batch, another one each time; what they read differs."""
    nodes = _nodes(w, at)
    p.other_in[nodes, 0] += 60e6 * (0.5 + strength) * w.random.exponential(1.0, len(nodes))
    p.busy[nodes] += 0.58
    p.uneven[at.job] += 0.15
    p.wander[at.job] += w.rounds.period[at.job] * (0.15 + 0.4 * strength)


@fault("python-gc-pause", "job", ("dp",))
def collecting(p: Push, w: World, at: Target, strength: float, _age: float) -> None:
    """Some worker stops to collect garbage."""
    p.wander[at.job] += w.rounds.period[at.job] * (0.1 + 0.2 * strength)


@fault("seq-length-imbalance", "job", ("dp", "pt"))
def lengths(p: Push, w: World, at: Target, strength: float, _age: float) -> None:
    """Another rank has the long sequence in each step."""
    p.uneven[at.job] += 0.3 + 0.3 * strength
    p.wander[at.job] += w.rounds.period[at.job] * (0.2 + 0.5 * strength)


@fault("checkpoint-stall", "job", TRAINING)
def saving(p: Push, w: World, at: Target, strength: float, age: float) -> None:
    """Training stands while its state is written."""
    if age % 25 < 8 + 10 * strength:
        p.halted[at.job] = 1.0
        p.other_out[_nodes(w, at), 0] += 25e9 * (0.3 + 0.5 * strength)
        p.pcie_out[_nodes(w, at)] += 15e9
        p.wait_io[_nodes(w, at)] += 0.3


@fault("failover-reload-cost", "job", TRAINING)
def reloading(p: Push, w: World, at: Target, strength: float, age: float) -> None:
    """The job starts again and reads its last checkpoint."""
    p.halted[at.job] = 1.0
    if age > 3:
        p.other_in[_nodes(w, at), 0] += 25e9 * (0.4 + 0.4 * strength)
        p.pcie_in[_nodes(w, at)] += 3e9


@fault("implicit-mfu-decline", "job", TRAINING)
def declining(p: Push, _w: World, at: Target, strength: float, age: float) -> None:
    """All members become slower together."""
    p.share[at.job] *= 1 + (0.2 + 0.4 * strength) * min(age / 10, 1.0)


@fault("moe-training-expert-imbalance", "member", ("dp",))
def hot_experts(p: Push, _w: World, at: Target, strength: float, _age: float) -> None:
    """A rank receives more tokens."""
    p.sent[at.job, at.member] *= 1.6 + 1.5 * strength
    p.share[at.job, at.member] *= 1.1 + 0.4 * strength


@fault("rl-rollout-long-tail", "job", ("dp",))
def long_tail(p: Push, _w: World, at: Target, strength: float, age: float) -> None:
    """The update waits for a few long answers."""
    p.halted[at.job] = (0.5 + 0.4 * strength) if age % 20 < 12 else 0.0


@fault("multimodal-encoder-imbalance", "node", ("pt",))
def encoder(p: Push, w: World, at: Target, strength: float, _age: float) -> None:
    """The encoder's stage takes another time for each micro-batch."""
    p.share[at.job, at.member] *= w.random.uniform(1.0, 1.6 + 1.2 * strength)
    p.launch_noise[at.node] += w.rounds.compute[at.job, at.member] * 0.1
    p.uneven[at.job] += 0.3
