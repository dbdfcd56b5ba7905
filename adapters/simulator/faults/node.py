"""Faults of GPUs, of PCIe and of hosts."""

from skewscope.adapters.simulator.effects import FaultEffects
from skewscope.adapters.simulator.faults.registry import ALL_JOBS, BARRIER_JOBS, SERVING_JOBS, FaultTarget, fault
from skewscope.adapters.simulator.gpus import BOARD_W, full_clock_power
from skewscope.adapters.simulator.simulation import FleetSimulation


def _add_stall(p: FaultEffects, w: FleetSimulation, at: FaultTarget, share: float) -> None:
    """Adds a standstill of a GPU for a share of each round of its job."""
    p.stall[at.node, at.gpu] += share * w.rounds.kernel_time[at.job, at.member]


@fault("tp-straggler", "node", BARRIER_JOBS)
def straggler(p: FaultEffects, w: FleetSimulation, at: FaultTarget, strength: float, _age: float) -> None:
    """A member is late for every exchange, for no reason visible in any exporter."""
    p.launch[at.node] += w.base_round[at.job] * (0.25 + 0.9 * strength)


@fault("gpu-thermal-throttle", "gpu")
def thermal_throttle(p: FaultEffects, _w: FleetSimulation, at: FaultTarget, strength: float, _age: float) -> None:
    """Cooling is blocked."""
    p.heat[at.node, at.gpu] += 38 + 20 * strength


@fault("power-cap", "node")
def power_cap(p: FaultEffects, w: FleetSimulation, at: FaultTarget, strength: float, _age: float) -> None:
    """The node's power limit is below the demand of its GPUs."""
    p.power_limit[at.node] *= full_clock_power(w.gpus)[at.node].mean() / BOARD_W * (0.9 - 0.35 * strength)


@fault("gpu-fail-slow", "node", BARRIER_JOBS)
def fail_slow(p: FaultEffects, _w: FleetSimulation, at: FaultTarget, strength: float, _age: float) -> None:
    """The chip computes correctly but slowly, at its full clock."""
    p.slow[at.node, at.gpu] *= 1.3 + 0.9 * strength


@fault("gpu-hard-fault", "gpu")
def gpu_hard_fault(p: FaultEffects, _w: FleetSimulation, at: FaultTarget, strength: float, _age: float) -> None:
    """The GPU's memory fails, its controller stops responding, or it falls off the bus; its job hangs."""
    p.xid[at.node, at.gpu] = 95.0 if strength < 0.4 else 119.0 if strength < 0.8 else 79.0
    p.dead[at.node, at.gpu] = 1.0
    p.halted[at.job] = 1.0
    p.spinning[at.job] = 1.0


@fault("nvlink-degradation", "gpu")
def nvlink_degradation(p: FaultEffects, _w: FleetSimulation, at: FaultTarget, strength: float, _age: float) -> None:
    """A link retransmits corrupt data."""
    p.nvlink_errors[at.node, at.gpu] += 20 + 400 * strength
    p.nvlink[at.node, at.gpu] *= 0.75 - 0.5 * strength


@fault("gpu-variability", "gpu")
def slow_silicon(p: FaultEffects, _w: FleetSimulation, at: FaultTarget, strength: float, _age: float) -> None:
    """A chip reaches a lower clock for its power."""
    slower = 0.93 - 0.13 * strength
    p.clock[at.node, at.gpu] *= slower
    p.leak[at.node, at.gpu] += 1 / slower**2.4 - 1


@fault("intra-node-gpu-skew", "gpu")
def uneven_gpus(p: FaultEffects, _w: FleetSimulation, at: FaultTarget, strength: float, _age: float) -> None:
    """One GPU has more work than its siblings, which wait."""
    p.work[at.node, at.gpu] *= 1.2 + 0.6 * strength
    p.clock[at.node, at.gpu] *= 0.9 - 0.2 * strength


@fault("gpu-memory-fragmentation", "gpu", BARRIER_JOBS)
def memory_fragmentation(p: FaultEffects, w: FleetSimulation, at: FaultTarget, strength: float, age: float) -> None:
    """The allocator frees and reallocates memory."""
    p.held[at.node, at.gpu] += 0.08 + 0.03 * (int(age) % 3 == 0)
    if w.random.random() < 0.4 + 0.4 * strength:
        _add_stall(p, w, at, 0.3 + 0.7 * strength)


@fault("h2d-starvation", "gpu")
def host_to_device_starvation(
    p: FaultEffects, w: FleetSimulation, at: FaultTarget, strength: float, _age: float
) -> None:
    """The GPU waits for data over a saturated link."""
    p.pcie_in[at.node, at.gpu] += 22e9 + 30e9 * strength
    _add_stall(p, w, at, 0.5 + 1.2 * strength)


@fault("d2h-bottleneck", "gpu")
def device_to_host_bottleneck(
    p: FaultEffects, w: FleetSimulation, at: FaultTarget, strength: float, _age: float
) -> None:
    """Each step ends with a blocking copy to the host."""
    p.pcie_out[at.node, at.gpu] += 18e9 + 25e9 * strength
    _add_stall(p, w, at, 0.3 + 0.8 * strength)


@fault("kv-offload-pcie-bottleneck", "gpus", SERVING_JOBS)
def kv_offload(p: FaultEffects, w: FleetSimulation, at: FaultTarget, strength: float, _age: float) -> None:
    """Cached prompts are read back over PCIe, which takes longer than computing them."""
    nodes = list(w.fleet.jobs[at.job].nodes)
    p.hits[at.job] += 0.5
    p.stall[nodes] += w.rounds.period[at.job] * (0.4 + 0.6 * strength)
    p.prefill[at.job] *= 0.2 - 0.12 * strength
    p.pcie_in[nodes] += 25e9 + 20e9 * strength


@fault("launch-latency", "node", BARRIER_JOBS)
def launch_latency(p: FaultEffects, w: FleetSimulation, at: FaultTarget, strength: float, _age: float) -> None:
    """Kernels are launched late on one node."""
    base = w.rounds.kernel_time[at.job, at.member]
    p.launch[at.node] += base * (0.2 + 0.6 * strength)
    p.launch_noise[at.node] += base * 0.1
    p.busy[at.node] += 0.05


@fault("host-cpu-bottleneck", "node")
def busy_host(p: FaultEffects, w: FleetSimulation, at: FaultTarget, strength: float, _age: float) -> None:
    """All cores are busy."""
    p.busy[at.node] += 0.85
    p.launch[at.node] += w.rounds.kernel_time[at.job, at.member] * (0.2 + 0.5 * strength)
    p.drops[at.node] += 5 * strength


@fault("pcie-saturation", "node")
def pcie_saturation(p: FaultEffects, _w: FleetSimulation, at: FaultTarget, strength: float, _age: float) -> None:
    """GPUs and adapter share a saturated link."""
    p.pcie_in[at.node] += 25e9 + 20e9 * strength
    p.pcie_out[at.node] += 15e9 + 15e9 * strength
    p.write_stall[at.node, 1:] += 0.2 + 0.4 * strength
    p.read_stall[at.node, 1:] += 0.2 + 0.4 * strength


@fault("p2p-throttling", "node", ("tp", "dp", "ep"))
def peer_to_peer_throttling(
    p: FaultEffects, _w: FleetSimulation, at: FaultTarget, strength: float, _age: float
) -> None:
    """GPUs of a node communicate over the root complex instead of NVLink."""
    p.nvlink[at.node] *= 0.6 - 0.5 * strength
    p.pcie_in[at.node] += 6e9 + 16e9 * strength
    p.pcie_out[at.node] += 6e9 + 16e9 * strength


@fault("pcie-link-downgrade", "port")
def fewer_lanes(p: FaultEffects, _w: FleetSimulation, at: FaultTarget, strength: float, _age: float) -> None:
    """The adapter's link runs on fewer lanes."""
    p.link_width[at.node, at.port] *= 0.5 if strength < 0.7 else 0.25
    p.write_stall[at.node, at.port] += 0.15 + 0.4 * strength
    p.pcie_replays[at.node, at.port] += 2 + 10 * strength


@fault("nic-slow-receiver", "port", ("tp", "ep", "pd", "dp"))
def slow_receiver(p: FaultEffects, _w: FleetSimulation, at: FaultTarget, strength: float, _age: float) -> None:
    """One adapter's address translations miss; it cannot drain its receive side and pauses its senders."""
    p.write_stall[at.node, at.port] += 0.3 + 0.45 * strength


@fault("host-interconnect-congestion", "node")
def memory_bus(p: FaultEffects, _w: FleetSimulation, at: FaultTarget, strength: float, _age: float) -> None:
    """Packets wait and are dropped between all adapters and memory."""
    p.write_stall[at.node] += 0.4 + 0.4 * strength
    p.wait_mem[at.node] += 0.1 + 0.3 * strength


@fault("numa-misaffinity", "node", BARRIER_JOBS)
def numa_misaffinity(p: FaultEffects, w: FleetSimulation, at: FaultTarget, strength: float, _age: float) -> None:
    """Threads share some cores while others are free, far from their GPUs: late, and differently in each round."""
    p.busy[at.node] += 0.1 + 0.15 * strength
    p.wait_cpu[at.node] += 0.12 + 0.35 * strength
    p.launch_noise[at.node] += w.rounds.kernel_time[at.job, at.member] * (0.15 + 0.4 * strength)


@fault("acs-iommu-misconfig", "node", ("dp", "ep", "tp"))
def iommu_redirect(p: FaultEffects, _w: FleetSimulation, at: FaultTarget, strength: float, _age: float) -> None:
    """Everything that the adapter reads from GPUs passes through the root complex."""
    p.detour[at.node] += 1.0
    p.capacity[at.node, 1:] *= 0.35 - 0.2 * strength
    p.read_stall[at.node, 1:] += 0.1 + 0.2 * strength


@fault("pcie-noisy-neighbour", "node", SERVING_JOBS)
def neighbour(p: FaultEffects, w: FleetSimulation, at: FaultTarget, strength: float, _age: float) -> None:
    """Another tenant's traffic runs on the same host."""
    p.other_in[at.node, 0] += (4 + 8 * strength) * 1e9
    p.other_out[at.node, 0] += (4 + 8 * strength) * 1e9
    p.busy[at.node] += 0.62 + 0.1 * strength
    p.launch_noise[at.node] += w.rounds.kernel_time[at.job, at.member] * (0.05 + 0.3 * strength)


@fault("pinned-memory-shortage", "node")
def pinned_memory_shortage(p: FaultEffects, w: FleetSimulation, at: FaultTarget, strength: float, _age: float) -> None:
    """Pinnable memory is scarce, and the driver blocks large allocations."""
    p.mute_gpu[at.node] = 1.0
    p.wait_mem[at.node] += 0.2 + 0.5 * strength
    p.launch[at.node] += w.rounds.kernel_time[at.job, at.member] * (0.1 + 0.4 * strength)
    p.oom[at.node] += float(w.random.random() < 0.05 * strength)


@fault("memory-registration-churn", "node", ("pd",))
def registration_churn(p: FaultEffects, w: FleetSimulation, at: FaultTarget, strength: float, _age: float) -> None:
    """Buffers are registered for each transfer."""
    p.transfer[at.job] *= 3 + 6 * strength
    p.flows[at.node, 1:] *= 1 + strength
    p.wait_mem[at.node] += 0.02 + 0.05 * strength
    p.registering[at.node] += 0.15 + 0.35 * strength
    p.launch[at.node] += w.rounds.kernel_time[at.job, at.member] * 0.1


@fault("rnic-tenant-interference", "port", ("tp", "ep", "pd", "dp"))
def tenant_interference(p: FaultEffects, _w: FleetSimulation, at: FaultTarget, strength: float, _age: float) -> None:
    """Another function of the adapter loads its pipeline with tiny messages or refused requests."""
    p.capacity[at.node, at.port] *= 0.7 - 0.45 * strength
    if at.node % 2:
        p.flood[at.node, at.port] += (4 + 16 * strength) * 1e6
    else:
        p.refused[at.node, at.port] += 50 + 2000 * strength


@fault("counter-untrustworthy", "port", ("tp", "ep", "pd", "dp"), ("roce",))
def counter_error(p: FaultEffects, w: FleetSimulation, at: FaultTarget, strength: float, _age: float) -> None:
    """New firmware counts words of four bytes, or reports notifications that were never sent."""
    way = at.node % 3
    if way < 2:
        p.misread[at.node, at.port] *= 4.0 if way else 0.25
    else:
        p.phantom[at.node, at.port] += (0.001 + 0.02 * strength) * w.net.rx_packets[at.node, at.port]


@fault("microburst-blindness", "front", SERVING_JOBS)
def microbursts(p: FaultEffects, _w: FleetSimulation, at: FaultTarget, strength: float, _age: float) -> None:
    """Many answers of a storage system or of clients arrive within milliseconds, several times a second."""
    times = 2 + 6 * strength
    p.bursts[at.node, 0] += times
    p.other_in[at.node, 0] += times * 0.01 * 25e9


@fault("dpu-self-overload", "node", ALL_JOBS)
def dpu_overload(p: FaultEffects, _w: FleetSimulation, at: FaultTarget, strength: float, _age: float) -> None:
    """The DPU's own CPU is overloaded."""
    p.arm[at.node] += 0.75 + 0.12 * strength
    p.dpu_heat[at.node] += 6 * strength


@fault("clock-skew", "node", BARRIER_JOBS)
def clock_skew(p: FaultEffects, _w: FleetSimulation, at: FaultTarget, strength: float, _age: float) -> None:
    """The node's clock is ahead or behind."""
    p.clock_off[at.node] += (1 if at.node % 2 else -1) * 0.2 * 20**strength


@fault("telemetry-blackout", "node", ALL_JOBS)
def telemetry_blackout(p: FaultEffects, _w: FleetSimulation, at: FaultTarget, _strength: float, _age: float) -> None:
    """The host's exporters and the engine's page are silent, while the host works."""
    p.mute_host[at.node] = 1.0
    p.mute_gpu[at.node] = 1.0
    p.mute_page[at.node] = 1.0
