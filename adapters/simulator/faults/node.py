"""Faults of GPUs, of PCIe and of hosts."""

from skewscope.adapters.simulator.faults.registry import ALL, BARRIERS, SERVING, Target, fault
from skewscope.adapters.simulator.push import Push
from skewscope.adapters.simulator.world import World


def _stalls(p: Push, w: World, at: Target, share: float) -> None:
    """A GPU stands still for a share of each of its job's rounds."""
    p.stall[at.node, at.gpu] += share * w.rounds.compute[at.job, at.member]


@fault("tp-straggler", "node", BARRIERS)
def straggler(p: Push, w: World, at: Target, strength: float, _age: float) -> None:
    """A member that is late for every exchange, for no reason that any exporter tells."""
    p.launch[at.node] += w.base_round[at.job] * (0.25 + 0.9 * strength)


@fault("gpu-thermal-throttle", "gpu")
def hot(p: Push, _w: World, at: Target, strength: float, _age: float) -> None:
    """The air does not come through."""
    p.heat[at.node, at.gpu] += 38 + 20 * strength


@fault("power-cap", "node")
def capped(p: Push, _w: World, at: Target, strength: float, _age: float) -> None:
    """The node may draw less than its GPUs want."""
    p.power_limit[at.node] *= 0.62 - 0.25 * strength


@fault("gpu-fail-slow", "node", BARRIERS)
def fail_slow(p: Push, _w: World, at: Target, strength: float, _age: float) -> None:
    """The chip computes rightly, and slowly, at its full clock."""
    p.work[at.node, at.gpu] *= 1.3 + 0.9 * strength
    p.clock[at.node, at.gpu] *= 0.93


@fault("gpu-hard-fault", "gpu")
def broken(p: Push, _w: World, at: Target, _strength: float, _age: float) -> None:
    """The GPU falls off the bus; its job hangs."""
    p.xid[at.node, at.gpu] = 79.0
    p.dead[at.node, at.gpu] = 1.0
    p.halted[at.job] = 1.0
    p.spinning[at.job] = 1.0


@fault("nvlink-degradation", "gpu")
def nvlink(p: Push, _w: World, at: Target, strength: float, _age: float) -> None:
    """A link repeats what it garbles."""
    p.nvlink_errors[at.node, at.gpu] += 20 + 400 * strength
    p.nvlink[at.node, at.gpu] *= 0.75 - 0.5 * strength


@fault("gpu-variability", "gpu")
def slow_silicon(p: Push, _w: World, at: Target, strength: float, _age: float) -> None:
    """A chip that reaches less clock for its power."""
    slower = 0.93 - 0.13 * strength
    p.clock[at.node, at.gpu] *= slower
    p.leak[at.node, at.gpu] += 1 / slower**2.4 - 1


@fault("intra-node-gpu-skew", "gpu")
def uneven_gpus(p: Push, _w: World, at: Target, strength: float, _age: float) -> None:
    """One GPU has more to do than its siblings, which wait."""
    p.work[at.node, at.gpu] *= 1.2 + 0.6 * strength
    p.clock[at.node, at.gpu] *= 0.9 - 0.2 * strength


@fault("gpu-memory-fragmentation", "gpu", BARRIERS)
def fragmented(p: Push, w: World, at: Target, strength: float, age: float) -> None:
    """The allocator gives back and asks again."""
    p.held[at.node, at.gpu] += 0.08 + 0.03 * (int(age) % 3 == 0)
    if w.random.random() < 0.4 + 0.4 * strength:
        _stalls(p, w, at, 0.3 + 0.7 * strength)


@fault("h2d-starvation", "gpu")
def starved(p: Push, w: World, at: Target, strength: float, _age: float) -> None:
    """The GPU waits for data that come over a full link."""
    p.pcie_in[at.node, at.gpu] += 22e9 + 30e9 * strength
    _stalls(p, w, at, 0.5 + 1.2 * strength)


@fault("d2h-bottleneck", "gpu")
def copies_out(p: Push, w: World, at: Target, strength: float, _age: float) -> None:
    """Each step ends with a copy to the host that is waited for."""
    p.pcie_out[at.node, at.gpu] += 18e9 + 25e9 * strength
    _stalls(p, w, at, 0.3 + 0.8 * strength)


@fault("kv-offload-pcie-bottleneck", "job", SERVING)
def offloaded(p: Push, w: World, at: Target, strength: float, _age: float) -> None:
    """Cached prompts are read back over PCIe, which takes longer than to compute them."""
    nodes = list(w.fleet.jobs[at.job].nodes)
    p.hits[at.job] += 0.5
    p.stall[nodes] += w.rounds.period[at.job] * (0.4 + 0.6 * strength)
    p.prefill[at.job] *= 0.2 - 0.12 * strength
    p.pcie_in[nodes] += 25e9 + 20e9 * strength


@fault("launch-latency", "node", BARRIERS)
def launches(p: Push, w: World, at: Target, strength: float, _age: float) -> None:
    """Kernels are launched late on one node."""
    base = w.rounds.compute[at.job, at.member]
    p.launch[at.node] += base * (0.2 + 0.6 * strength)
    p.launch_noise[at.node] += base * 0.1
    p.busy[at.node] += 0.05


@fault("host-cpu-bottleneck", "node")
def busy_host(p: Push, w: World, at: Target, strength: float, _age: float) -> None:
    """All cores are taken."""
    p.busy[at.node] += 0.85
    p.launch[at.node] += w.rounds.compute[at.job, at.member] * (0.2 + 0.5 * strength)
    p.drops[at.node] += 5 * strength


@fault("pcie-saturation", "node")
def pcie_full(p: Push, _w: World, at: Target, strength: float, _age: float) -> None:
    """GPUs and adapter share a link that is full."""
    p.pcie_in[at.node] += 25e9 + 20e9 * strength
    p.pcie_out[at.node] += 15e9 + 15e9 * strength
    p.write_stall[at.node] += 0.2 + 0.4 * strength
    p.read_stall[at.node] += 0.2 + 0.4 * strength


@fault("p2p-throttling", "node", ("tp", "dp", "ep"))
def detour(p: Push, _w: World, at: Target, strength: float, _age: float) -> None:
    """GPUs of a node talk over the host's root instead of NVLink."""
    p.nvlink[at.node] *= 0.1
    p.pcie_in[at.node] += 12e9 + 10e9 * strength
    p.pcie_out[at.node] += 12e9 + 10e9 * strength
    p.work[at.node] *= 1.1 + 0.4 * strength


@fault("pcie-link-downgrade", "node")
def fewer_lanes(p: Push, _w: World, at: Target, strength: float, _age: float) -> None:
    """The adapter's link runs on fewer lanes."""
    p.link_width[at.node] *= 0.5 if strength < 0.7 else 0.25
    p.write_stall[at.node] += 0.15 + 0.4 * strength
    p.pcie_replays[at.node] += 2 + 10 * strength


@fault("nic-slow-receiver", "node")
def slow_receiver(p: Push, w: World, at: Target, strength: float, _age: float) -> None:
    """The adapter cannot put away what comes, and stops its senders."""
    p.write_stall[at.node] += 0.25 + 0.5 * strength
    p.pausing[at.node, 1:] += 0.1 + 0.4 * strength
    for n in w.fleet.jobs[at.job].nodes:
        if n != at.node:
            p.paused[n, 1:] += 0.03 + 0.12 * strength


@fault("host-interconnect-congestion", "node")
def memory_bus(p: Push, _w: World, at: Target, strength: float, _age: float) -> None:
    """Packets wait and drop between adapter and memory."""
    p.write_stall[at.node] += 0.4 + 0.4 * strength
    p.wait_mem[at.node] += 0.1 + 0.3 * strength


@fault("numa-misaffinity", "node", BARRIERS)
def crossed(p: Push, w: World, at: Target, strength: float, _age: float) -> None:
    """Threads wander between sockets and wait for cores: a rank is late, not in each round."""
    p.busy[at.node] += 0.62
    p.launch_noise[at.node] += w.rounds.compute[at.job, at.member] * (0.15 + 0.4 * strength)


@fault("acs-iommu-misconfig", "node", ("dp", "ep", "tp"))
def redirected(p: Push, _w: World, at: Target, strength: float, _age: float) -> None:
    """All that the adapter reads from GPUs goes up to the root and down again."""
    p.detour[at.node] += 1.0
    p.capacity[at.node, 1:] *= 0.35 - 0.2 * strength
    p.read_stall[at.node] += 0.1 + 0.2 * strength


@fault("pcie-noisy-neighbour", "node", SERVING)
def neighbour(p: Push, w: World, at: Target, strength: float, _age: float) -> None:
    """Another tenant's traffic on the same host."""
    p.other_in[at.node, 0] += (4 + 8 * strength) * 1e9
    p.other_out[at.node, 0] += (4 + 8 * strength) * 1e9
    p.busy[at.node] += 0.62 + 0.1 * strength
    p.launch_noise[at.node] += w.rounds.compute[at.job, at.member] * (0.05 + 0.3 * strength)


@fault("pinned-memory-shortage", "node")
def pinned(p: Push, w: World, at: Target, strength: float, _age: float) -> None:
    """Memory that devices may use is scarce, and the driver blocks for who asks for much of it."""
    p.mute_gpu[at.node] = 1.0
    p.wait_mem[at.node] += 0.2 + 0.5 * strength
    p.launch[at.node] += w.rounds.compute[at.job, at.member] * (0.1 + 0.4 * strength)
    p.oom[at.node] += float(w.random.random() < 0.05 * strength)


@fault("memory-registration-churn", "node", ("pd",))
def registering(p: Push, w: World, at: Target, strength: float, _age: float) -> None:
    """Buffers are registered for each transfer."""
    p.transfer[at.job] *= 3 + 6 * strength
    p.flows[at.node, 1:] *= 1 + strength
    p.wait_mem[at.node] += 0.02 + 0.05 * strength
    p.launch[at.node] += w.rounds.compute[at.job, at.member] * 0.1


@fault("dpu-self-overload", "node", ALL)
def arm_full(p: Push, _w: World, at: Target, strength: float, _age: float) -> None:
    """The DPU's own processors cannot keep up."""
    p.arm[at.node] += 0.75 + 0.12 * strength
    p.dpu_heat[at.node] += 6 * strength


@fault("clock-skew", "node", BARRIERS)
def clock(p: Push, _w: World, at: Target, strength: float, _age: float) -> None:
    """The node's clock is off."""
    p.clock_off[at.node] += 2.2 + 3 * strength


@fault("telemetry-blackout", "node", ALL)
def silent(p: Push, _w: World, at: Target, _strength: float, _age: float) -> None:
    """The host's exporters say nothing; the host works."""
    p.mute_host[at.node] = 1.0
    p.mute_gpu[at.node] = 1.0
