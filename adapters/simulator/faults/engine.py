"""Faults of serving engines: batches, caches, transfers, roles."""

import numpy as np

from skewscope.adapters.simulator.effects import FaultEffects
from skewscope.adapters.simulator.faults.registry import (
    SERVING_JOBS,
    FaultTarget,
    fault,
    pool_replicas,
    prefer_replica,
    prefill_nodes,
)
from skewscope.adapters.simulator.serving import CACHE_TOKENS, HIT_SHARE, PREFILL_TOKENS
from skewscope.adapters.simulator.simulation import FleetSimulation


@fault("kv-transfer-bottleneck", "job", ("pd",))
def slow_transfer(p: FaultEffects, w: FleetSimulation, at: FaultTarget, strength: float, _age: float) -> None:
    """KV transfers between the roles are slow."""
    p.transfer[at.job] *= 5 + 30 * strength
    p.capacity[list(w.fleet.jobs[at.job].nodes), 1:] *= 0.5 - 0.3 * strength
    p.admitting[at.job] *= 0.4 - 0.3 * strength


@fault("kv-transfer-fragmentation", "job", ("pd",))
def transfer_fragmentation(p: FaultEffects, _w: FleetSimulation, at: FaultTarget, strength: float, _age: float) -> None:
    """KV transfers consist of many small pieces."""
    p.pieces[at.job] *= 20 + 100 * strength
    p.admitting[at.job] *= 0.7 - 0.3 * strength


@fault("kv-capacity-preemption-thrash", "job", SERVING_JOBS)
def cache_full(p: FaultEffects, w: FleetSimulation, at: FaultTarget, strength: float, _age: float) -> None:
    """Answers get longer and need more KV cache than there is."""
    demand, longer = w.load.demand_at(w.t), 2 + 2 * strength
    p.output[at.job] *= longer
    rate, prompt, output = (
        float(demand.rate[at.job]),
        float(demand.prompt[at.job]),
        float(demand.output[at.job]) * longer,
    )
    requested = rate * output * float(w.base_round[at.job]) * (prompt + output / 2)
    p.cache[at.job] *= requested / CACHE_TOKENS / (1.1 + 0.9 * strength)


@fault("pd-ratio-imbalance", "job", ("pd",))
def wrong_ratio(p: FaultEffects, w: FleetSimulation, at: FaultTarget, strength: float, _age: float) -> None:
    """There are too few prefill instances for the arriving prompts."""
    demand = w.load.demand_at(w.t)
    longer = 1.5 + strength
    p.prompt[at.job] *= longer
    able = PREFILL_TOKENS / (float(demand.prompt[at.job]) * longer * (1 - HIT_SHARE))
    p.admitting[at.job] *= float(demand.rate[at.job]) / able / (1.1 + 0.5 * strength)


@fault("pd-abort-storm", "job", ("pd",))
def abort_storm(p: FaultEffects, _w: FleetSimulation, at: FaultTarget, strength: float, age: float) -> None:
    """Slots of aborted requests stay occupied until a timeout."""
    p.failing[at.job] += 0.3 + 0.4 * strength
    p.stranded[at.job] = min(0.12 * (age + 1), 0.87 + 0.12 * strength)


@fault("prefix-cache-hotspot", "job", ("tp", "pp"))
def hot_prefix(p: FaultEffects, w: FleetSimulation, at: FaultTarget, strength: float, _age: float) -> None:
    """A popular prefix overloads one replica."""
    prefer_replica(p, w, at, 3 + 9 * strength)
    p.hits[at.job] += 0.45


@fault("prefill-decode-interference", "job", ("tp", "ep", "pp"))
def prefill_interference(p: FaultEffects, _w: FleetSimulation, at: FaultTarget, strength: float, _age: float) -> None:
    """Prefills interrupt decode steps, and all streams stutter."""
    p.mixing[at.job] += 0.1 + 0.3 * strength
    p.prompt[at.job] *= 1.5 + strength


@fault("prefill-hol-long-prompt", "job", ("tp", "pp", "ep"))
def long_prompt(p: FaultEffects, _w: FleetSimulation, at: FaultTarget, strength: float, age: float) -> None:
    """A prompt of 100,000 tokens is computed before all others, repeatedly."""
    takes = 3 + 3 * strength
    if age % 8 < 1:
        p.giant[at.job] = takes * PREFILL_TOKENS
    if age % 8 < takes:
        p.admitting[at.job] *= 0.02


@fault("attention-dp-imbalance", "member", ("ep",))
def long_contexts(p: FaultEffects, w: FleetSimulation, at: FaultTarget, strength: float, _age: float) -> None:
    """Context lengths differ between ranks, most at one of them; all send the same amount."""
    ranks, most = len(w.fleet.jobs[at.job].nodes), 0.3 + 0.7 * strength
    more = 0.6 * most * np.random.default_rng(at.node).random(ranks)
    more[at.member] = most
    p.share[at.job, :ranks] *= 1 + more
    # An engine reports its fullest cache.
    p.cache[at.job] /= 1 + most


@fault("moe-inference-expert-imbalance", "node", ("ep",))
def hot_expert(p: FaultEffects, _w: FleetSimulation, at: FaultTarget, strength: float, _age: float) -> None:
    """One rank holds the experts that most tokens are routed to."""
    p.share[at.job, at.member] *= 1.15 + 0.5 * strength
    p.sent[at.job, at.member] *= 1.8 + 2 * strength


@fault("decode-early-stop-skew", "job", SERVING_JOBS)
def early_stop_skew(p: FaultEffects, _w: FleetSimulation, at: FaultTarget, strength: float, _age: float) -> None:
    """Sequences of a batch stop early and are not replaced."""
    p.padding[at.job] += 0.3 + 0.4 * strength


@fault("cross-node-early-stop-skew", "node", ("ep",))
def node_early_stop_skew(p: FaultEffects, _w: FleetSimulation, at: FaultTarget, strength: float, _age: float) -> None:
    """One node's requests ended; it still takes part in every exchange."""
    p.share[at.job, at.member] *= 0.7 - 0.3 * strength
    p.sent[at.job, at.member] *= 0.5 - 0.4 * strength


@fault("rebalance-pause", "job", ("ep",))
def expert_rebalance(p: FaultEffects, w: FleetSimulation, at: FaultTarget, strength: float, age: float) -> None:
    """All ranks stop to move experts."""
    if age % 12 < 2 + 3 * strength:
        nodes = list(w.fleet.jobs[at.job].nodes)
        p.halted[at.job] = 0.9
        p.other_out[nodes, 1:] += 20e9
        p.other_in[nodes, 1:] += 20e9


@fault("speculative-raggedness", "job", ("tp", "pp"))
def speculative_raggedness(p: FaultEffects, _w: FleetSimulation, at: FaultTarget, strength: float, _age: float) -> None:
    """Speculation costs more than the accepted tokens save, and streams accept different numbers."""
    p.share[at.job] *= 1.7 + 0.8 * strength
    p.yields[at.job] *= 1.6
    p.ragged[at.job] += 0.4 + 0.6 * strength


@fault("lora-adapter-skew", "job", ("tp", "pp"))
def heavy_adapter(p: FaultEffects, w: FleetSimulation, at: FaultTarget, strength: float, _age: float) -> None:
    """Batches with a large adapter are slow for all; other replicas read it from its holder."""
    p.share[at.job] *= 1.2 + 0.5 * strength
    read, nodes = (2 + 4 * strength) * 1e9, list(w.fleet.jobs[at.job].nodes)
    p.other_out[nodes, 1:] += read
    p.read_from[nodes, 1:] += read
    others = [n for job in pool_replicas(w.fleet, at.job) if job != at.job for n in w.fleet.jobs[job].nodes]
    p.other_in[others, 1:] += read * len(nodes) / max(len(others), 1)


@fault("lazy-connection-first-transfer", "job", ("pd",))
def first_transfer(p: FaultEffects, _w: FleetSimulation, at: FaultTarget, strength: float, age: float) -> None:
    """The first transfer of a pair waits for its connection setup."""
    if age < 6 + 6 * strength:
        p.transfer[at.job] *= 200
        p.admitting[at.job] *= 0.05


@fault("lockstep-skip-deadlock", "job", ("ep",))
def lockstep_skip(p: FaultEffects, _w: FleetSimulation, at: FaultTarget, _strength: float, _age: float) -> None:
    """A rank without tokens skips the exchange; the others wait for ever."""
    p.arrivals[at.job] *= 0.1
    p.halted[at.job] = 1.0
    p.spinning[at.job] = 1.0


@fault("storage-nic-asymmetry", "prefill", ("pd",))
def storage_asymmetry(p: FaultEffects, w: FleetSimulation, at: FaultTarget, strength: float, _age: float) -> None:
    """Stored KV cache is read through the prefill nodes alone."""
    p.other_in[list(prefill_nodes(w.fleet.jobs[at.job].nodes)), 0] += 25e9 * (0.75 + 0.2 * strength)
    p.transfer[at.job] *= 3
    p.prefill[at.job] *= 0.4


@fault("tp-gpu-loss-imbalance", "member", ("tp",))
def uneven_tensor_parallelism(
    p: FaultEffects, _w: FleetSimulation, at: FaultTarget, strength: float, _age: float
) -> None:
    """The group lost a GPU and continues unevenly."""
    p.dead[at.node, 7] = 1.0
    p.work[at.node, 0] *= 1.3 + 0.5 * strength
    p.held[at.node, 0] += 0.07
    p.held[at.node, 7] -= 0.88
