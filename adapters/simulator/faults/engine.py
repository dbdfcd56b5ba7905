"""Faults of serving engines: batches, caches, transfers, roles."""

from skewscope.adapters.simulator.faults.registry import SERVING, Target, fault
from skewscope.adapters.simulator.push import Push
from skewscope.adapters.simulator.world import World


@fault("kv-transfer-bottleneck", "job", ("pd",))
def slow_transfer(p: Push, w: World, at: Target, strength: float, _age: float) -> None:
    """The cache moves slowly between the roles."""
    p.transfer[at.job] *= 5 + 30 * strength
    p.capacity[list(w.fleet.jobs[at.job].nodes), 1:] *= 0.5 - 0.3 * strength
    p.admitting[at.job] *= 0.4 - 0.3 * strength


@fault("kv-transfer-fragmentation", "job", ("pd",))
def many_pieces(p: Push, _w: World, at: Target, strength: float, _age: float) -> None:
    """The cache moves in many small pieces."""
    p.pieces[at.job] *= 20 + 100 * strength
    p.admitting[at.job] *= 0.7 - 0.3 * strength


@fault("kv-capacity-preemption-thrash", "job", SERVING)
def cache_full(p: Push, w: World, at: Target, strength: float, _age: float) -> None:
    """More runs than the cache can hold."""
    running = max(float(w.serving.running[at.job]), 4.0)
    each = float(w.serving.prompt_len[at.job] + w.serving.output_len[at.job] / 2)
    p.cache[at.job] *= min(1.0, running * each / 400_000.0 * (0.98 - 0.15 * strength))


@fault("pd-ratio-imbalance", "job", ("pd",))
def wrong_ratio(p: Push, _w: World, at: Target, strength: float, _age: float) -> None:
    """Too few instances prefill for the prompts that come."""
    p.prompt[at.job] *= 3 + 3 * strength
    p.output[at.job] *= 0.4
    p.prefill[at.job] *= 0.3


@fault("pd-abort-storm", "job", ("pd",))
def aborted(p: Push, _w: World, at: Target, strength: float, age: float) -> None:
    """Slots of aborted requests stay taken until a time-out."""
    p.failing[at.job] += 0.3 + 0.4 * strength
    p.cache[at.job] *= max(0.05, 1 - 0.08 * age)
    p.admitting[at.job] *= max(0.05, 1 - 0.1 * age)


@fault("prefix-cache-hotspot", "job", ("tp", "pp"))
def hot_prefix(p: Push, w: World, at: Target, strength: float, _age: float) -> None:
    """A popular prefix makes one replica hot."""
    kind = w.fleet.jobs[at.job].kind
    for n, other in enumerate(w.fleet.jobs):
        if other.kind == kind and n != at.job:
            p.arrivals[n] *= 1 - 0.5 * strength
    p.arrivals[at.job] *= 3 + 5 * strength
    p.hits[at.job] += 0.45


@fault("prefill-decode-interference", "job", ("tp", "ep", "pp"))
def mixed(p: Push, _w: World, at: Target, strength: float, _age: float) -> None:
    """Prefills run into decode steps, and all streams stutter."""
    p.mixing[at.job] += 0.1 + 0.3 * strength
    p.prompt[at.job] *= 1.5 + strength


@fault("prefill-hol-long-prompt", "job", ("tp", "pp", "ep"))
def long_prompt(p: Push, _w: World, at: Target, strength: float, age: float) -> None:
    """A prompt of a hundred thousand tokens is computed before all others."""
    if age % 8 < 3 + 3 * strength:
        p.admitting[at.job] *= 0.02
    p.prompt[at.job] *= 2 + 2 * strength


@fault("attention-dp-imbalance", "member", ("ep",))
def long_contexts(p: Push, _w: World, at: Target, strength: float, _age: float) -> None:
    """A rank has longer contexts; it sends as much as the others."""
    p.share[at.job, at.member] *= 1.3 + 0.7 * strength


@fault("moe-inference-expert-imbalance", "node", ("ep",))
def hot_expert(p: Push, _w: World, at: Target, strength: float, _age: float) -> None:
    """A rank holds the experts that most tokens go to."""
    p.share[at.job, at.member] *= 1.15 + 0.5 * strength
    p.sent[at.job, at.member] *= 1.8 + 2 * strength


@fault("decode-early-stop-skew", "job", SERVING)
def thinning(p: Push, _w: World, at: Target, strength: float, _age: float) -> None:
    """Sequences of a batch stop early and are not replaced."""
    p.padding[at.job] += 0.3 + 0.4 * strength


@fault("cross-node-early-stop-skew", "node", ("ep",))
def half_empty(p: Push, _w: World, at: Target, strength: float, _age: float) -> None:
    """One node's requests ended; it still takes part in every exchange."""
    p.share[at.job, at.member] *= 0.7 - 0.3 * strength
    p.sent[at.job, at.member] *= 0.5 - 0.4 * strength


@fault("rebalance-pause", "job", ("ep",))
def moving(p: Push, w: World, at: Target, strength: float, age: float) -> None:
    """All ranks stop to move experts."""
    if age % 12 < 2 + 3 * strength:
        nodes = list(w.fleet.jobs[at.job].nodes)
        p.halted[at.job] = 0.9
        p.other_out[nodes, 1:] += 20e9
        p.other_in[nodes, 1:] += 20e9


@fault("speculative-raggedness", "job", ("tp", "pp"))
def ragged(p: Push, _w: World, at: Target, strength: float, _age: float) -> None:
    """Streams accept different numbers of guessed tokens."""
    p.ragged[at.job] += 0.4 + 0.6 * strength


@fault("lora-adapter-skew", "job", ("tp", "pp"))
def heavy_adapter(p: Push, w: World, at: Target, strength: float, _age: float) -> None:
    """Batches that hold a large adapter are slow for all, and it has to be fetched."""
    p.share[at.job] *= 1.2 + 0.5 * strength
    p.other_in[list(w.fleet.jobs[at.job].nodes), 1:] += (2 + 4 * strength) * 1e9


@fault("lazy-connection-first-transfer", "job", ("pd",))
def first_transfer(p: Push, _w: World, at: Target, strength: float, age: float) -> None:
    """The first transfer of a pair waits for a connection to be made."""
    if age < 6 + 6 * strength:
        p.transfer[at.job] *= 200
        p.admitting[at.job] *= 0.05


@fault("lockstep-skip-deadlock", "job", ("ep",))
def skipped(p: Push, _w: World, at: Target, _strength: float, _age: float) -> None:
    """A rank without tokens skips the exchange; the others wait for ever."""
    p.arrivals[at.job] *= 0.1
    p.halted[at.job] = 1.0
    p.spinning[at.job] = 1.0


@fault("storage-nic-asymmetry", "job", ("pd",))
def storage(p: Push, w: World, at: Target, strength: float, _age: float) -> None:
    """Stored cache is read through the prefill nodes alone."""
    nodes = list(w.fleet.jobs[at.job].nodes)
    half = nodes[: len(nodes) // 2]
    p.other_in[half, 0] += 25e9 * (0.75 + 0.2 * strength)
    p.transfer[at.job] *= 3
    p.prefill[at.job] *= 0.4


@fault("tp-gpu-loss-imbalance", "member", ("tp",))
def odd_shape(p: Push, _w: World, at: Target, strength: float, _age: float) -> None:
    """The group lost a GPU and works on unevenly."""
    p.dead[at.node, 7] = 1.0
    p.work[at.node, 0] *= 1.3 + 0.5 * strength
    p.held[at.node, 0] += 0.07
    p.held[at.node, 7] -= 0.88
