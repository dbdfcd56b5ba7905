"""Effects of faults and events on the fleet in one second. The default of each effect is neutral."""

from dataclasses import dataclass

import numpy as np

from skewscope.adapters.simulator.fleet import GPUS_PER_NODE, SimulatedFleet
from skewscope.engine.model.arrays import F64


@dataclass
class FaultEffects:
    """Arrays of [node, gpu], [node], [node, port], [job] or [job, member] float64, by effect."""

    # --- GPUs
    clock: F64
    """Factor of the clock."""
    work: F64
    """Factor of the work, and so of the kernel time at the same clock."""
    slow: F64
    """Factor of the kernel time for the same work at the same clock."""
    stall: F64
    """Seconds of standstill per round."""
    heat: F64
    """Kelvin in addition to the heat of its power."""
    leak: F64
    """Additional share of dynamic power that the chip needs for its clock."""
    power_limit: F64
    """Factor of the board's power limit."""
    pcie_in: F64
    """Additional bytes per second from the host."""
    pcie_out: F64
    """Additional bytes per second to the host."""
    nvlink: F64
    """Factor of the bandwidth of its NVLinks."""
    nvlink_errors: F64
    """NVLink errors per second."""
    xid: F64
    """Number of an Xid reported now; 0 for none."""
    dead: F64
    """1 where the GPU has fallen off the bus."""
    held: F64
    """Share of its memory that is allocated but unused."""
    # --- nodes
    busy: F64
    """Share of all CPU time that other processes use."""
    launch: F64
    """Mean seconds by which kernels are launched late per round."""
    launch_noise: F64
    """Standard deviation of the same between rounds."""
    wait_cpu: F64
    """Share of time that tasks wait for a core although others are free, due to wrong affinity."""
    wait_io: F64
    """Share of time that tasks wait for storage."""
    wait_mem: F64
    """Share of time that tasks wait for memory."""
    interrupts: F64
    """Share of time spent in interrupts."""
    registering: F64
    """Share of time in which nothing is sent because memory is being registered."""
    detour: F64
    """Share of rail traffic that takes the path through the host's root complex."""
    drops: F64
    """Packets per second dropped by the host's network stack."""
    oom: F64
    """Tasks killed for lack of memory in this second."""
    arm: F64
    """Share of the DPU's CPU time that other processes use."""
    dpu_heat: F64
    """Additional kelvin of the DPU."""
    clock_off: F64
    """Seconds of clock offset of the node."""
    mute_host: F64
    """1 where the host's exporters are silent."""
    mute_gpu: F64
    """1 where the GPU exporter is silent."""
    mute_agent: F64
    """1 where the DPU's agent is silent."""
    mute_engine: F64
    """1 where the serving engine is down: it reports nothing, and its counters restart from zero."""
    mute_page: F64
    """1 where the serving engine's page is not scraped, though it serves."""
    # --- ports
    write_stall: F64
    """Share of time that the adapter cannot write to the host."""
    read_stall: F64
    """Share of time that the adapter waits for reads from the host."""
    link_width: F64
    """Factor of the lanes of the adapter's PCIe link."""
    pcie_replays: F64
    """Replays per second on the adapter's PCIe link."""
    flood: F64
    """Small packets per second sent by other functions of the adapter."""
    refused: F64
    """Refused requests per second of other functions."""
    bursts: F64
    """Bursts per second that overflow the port's buffer."""
    misread: F64
    """Factor of the bytes that the port's counters report."""
    read_from: F64
    """Bytes per second that others read from the memory behind the port, of the traffic of others."""
    phantom: F64
    """Notifications per second that are counted but were never sent."""
    capacity: F64
    """Factor of the speed behind the port."""
    loss_out: F64
    """Share of sent packets that are lost."""
    loss_in: F64
    """Share of packets to the port that are lost."""
    corrupt: F64
    """Share of received packets that are corrupt."""
    reorder: F64
    """Share of received packets that arrive out of order."""
    queue: F64
    """Seconds of queueing on the path."""
    tail: F64
    """Additional seconds of queueing in the tail."""
    mark: F64
    """Share of packets to the port that a switch marks."""
    mark_out: F64
    """Share of packets from the port that a switch marks."""
    paused: F64
    """Share of time in which the network pauses the port."""
    pausing: F64
    """Share of time in which the port pauses the network."""
    other_in: F64
    """Bytes per second of others to the port."""
    other_out: F64
    """Bytes per second of others from the port."""
    down: F64
    """1 while the link is down."""
    flaps: F64
    """Link flaps in this second."""
    hot_flow: F64
    """Share of the bytes that one flow has in addition to its even share."""
    part: F64
    """Factor of the port's even share of its job's bytes."""
    flows: F64
    """Factor of the number of connections."""
    credits: F64
    """Share of time in which the port has data but no credit."""
    # --- jobs
    halted: F64
    """Share of the second in which the job stands still."""
    out: F64
    """1 where the balancer knows that the replica is out of service."""
    spinning: F64
    """1 where its GPUs meanwhile spin inside a collective, which looks like work."""
    padding: F64
    """Share of the places in a batch that are padding."""
    egress: F64
    """Additional share of the time between two tokens due to the server's egress."""
    uneven: F64
    """Additional coefficient of variation of micro-batches."""
    arrivals: F64
    """Factor of arriving requests."""
    prompt: F64
    """Factor of the length of prompts."""
    output: F64
    """Factor of the length of answers."""
    cache: F64
    """Factor of the capacity of the KV cache."""
    transfer: F64
    """Factor of the duration of KV transfers."""
    pieces: F64
    """Factor of the number of pieces of a KV transfer."""
    stranded: F64
    """Share of slots and KV cache held for requests that are gone."""
    giant: F64
    """Tokens of one exceptionally long prompt; 0 for none in this second."""
    yields: F64
    """Factor of the tokens per request and decode step."""
    failing: F64
    """Share of requests that fail."""
    left: F64
    """Share of requests whose clients disconnect before the answer; the engine continues."""
    hits: F64
    """Added to the share of prompt tokens found in the prefix cache."""
    prefill: F64
    """Factor of the speed of prefill."""
    admitting: F64
    """Factor of the rate at which requests are admitted."""
    mixing: F64
    """Share of the decode steps that are mixed with a prefill."""
    ragged: F64
    """Additional coefficient of variation of tokens per decode step."""
    # --- members
    share: F64
    """Factor of the work of a member."""
    sent: F64
    """Factor of the bytes that a member sends and receives."""
    ragged_own: F64
    """Additional coefficient of variation of a member's own micro-batches."""
    wander: F64
    """Seconds by which a different member in each round is late."""
    alone: F64
    """Share of the second in which a member computes by itself while its job stands still."""


_FIELDS_BY_SHAPE = {
    "gpu": "clock work slow stall heat leak power_limit pcie_in pcie_out nvlink nvlink_errors xid dead held",
    "node": "busy launch launch_noise wait_cpu wait_io wait_mem interrupts registering detour drops oom arm "
    "dpu_heat clock_off mute_host mute_gpu mute_agent mute_engine mute_page",
    "port": "capacity loss_out loss_in corrupt reorder queue tail mark mark_out paused pausing other_in other_out down "
    "flaps hot_flow part flows credits write_stall read_stall link_width pcie_replays flood refused bursts misread "
    "read_from phantom",
    "job": "halted out spinning padding egress uneven arrivals prompt output "
    "cache transfer pieces stranded giant yields failing left hits prefill admitting mixing ragged",
    "member": "share sent ragged_own wander alone",
}
_FACTORS = frozenset(
    [
        "clock",
        "work",
        "slow",
        "power_limit",
        "nvlink",
        "link_width",
        "misread",
        "capacity",
        "part",
        "flows",
        "arrivals",
        "prompt",
        "output",
        "cache",
        "transfer",
        "pieces",
        "yields",
        "prefill",
        "admitting",
        "share",
        "sent",
    ]
)
"""Effects that multiply; all others add."""


def no_effects(fleet: SimulatedFleet) -> FaultEffects:
    """Returns the effects of a second without faults."""
    nodes, jobs = fleet.plan.nodes, len(fleet.jobs)
    shapes = {
        "gpu": (nodes, GPUS_PER_NODE),
        "node": (nodes,),
        "port": (nodes, fleet.ports),
        "job": (jobs,),
        "member": fleet.members.shape,
    }
    made = {
        name: np.full(shapes[like], float(name in _FACTORS))
        for like, names in _FIELDS_BY_SHAPE.items()
        for name in names.split()
    }
    return FaultEffects(**made)
