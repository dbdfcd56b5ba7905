"""What faults and events do to the machine in one second. Everything is neutral unless somebody touches it."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from skewscope.adapters.simulator.fleet import GPUS_PER_NODE, SimulatedFleet

F64 = NDArray[np.float64]


@dataclass
class FaultEffects:
    """Arrays of [node, gpu], [node], [node, port], [job] and [job, member], and what each does."""

    # --- GPUs
    clock: F64
    """Times the clock."""
    work: F64
    """Times what it has to do, and so the time that its kernels take at the same clock."""
    slow: F64
    """Times the time that its kernels take for the same work at the same clock."""
    stall: F64
    """Seconds that it stands still in a round."""
    heat: F64
    """Kelvin on top of what its power makes."""
    leak: F64
    """Share of dynamic power on top that the chip needs for its clock."""
    power_limit: F64
    """Times the board's limit."""
    pcie_in: F64
    """Bytes per second from the host on top."""
    pcie_out: F64
    """Bytes per second to the host on top."""
    nvlink: F64
    """Times the bandwidth of its NVLinks."""
    nvlink_errors: F64
    """Per second."""
    xid: F64
    """The number of an Xid that is told now; 0 for none."""
    dead: F64
    """1 where it has fallen off."""
    held: F64
    """Share of its memory that is held but useless."""
    # --- nodes
    busy: F64
    """Share of all processors that something else takes."""
    launch: F64
    """Seconds by which kernels are launched late in a round, on average."""
    launch_noise: F64
    """The same, as a deviation from round to round."""
    wait_cpu: F64
    """Share of time that tasks wait for a core although others are free: they are bound to the wrong ones."""
    wait_io: F64
    """Share of time that tasks wait for storage."""
    wait_mem: F64
    """Share of time that tasks wait for memory."""
    interrupts: F64
    """Share of time lost to interrupts."""
    registering: F64
    """Share of time in which nothing is sent because memory is being registered."""
    detour: F64
    """Share of what the rails carry that goes by the host's root."""
    drops: F64
    """Packets per second that the host's stack drops."""
    oom: F64
    """Tasks killed for memory in this second."""
    arm: F64
    """Share of the DPU's own processors that something takes."""
    dpu_heat: F64
    """Kelvin."""
    clock_off: F64
    """Seconds by which the node's clock is off."""
    mute_host: F64
    """1 where the host's exporters are silent."""
    mute_gpu: F64
    """1 where the exporter of GPUs is silent."""
    mute_agent: F64
    """1 where the DPU's agent is silent."""
    mute_engine: F64
    """1 where the serving engine is down: it tells nothing, and counts from nought when it is back."""
    mute_page: F64
    """1 where the serving engine's page is not read, though it serves."""
    # --- ports
    write_stall: F64
    """Share of time that the adapter cannot write to the host."""
    read_stall: F64
    """Share of time that the adapter waits for what it reads from the host."""
    link_width: F64
    """Times the lanes of the adapter's PCIe link."""
    pcie_replays: F64
    """Per second, on the adapter's PCIe link."""
    flood: F64
    """Small packets per second that other functions of the adapter send."""
    refused: F64
    """Requests per second of other functions that are refused."""
    bursts: F64
    """Times per second that so much comes at once that the port drops some of it."""
    misread: F64
    """Times the bytes that the port's counters say it carried."""
    read_from: F64
    """Bytes per second, of those of others, that others read from the memory behind the port."""
    phantom: F64
    """Notifications per second that are counted and were never sent."""
    capacity: F64
    """Times the speed of what lies behind the port."""
    loss_out: F64
    """Share of the packets sent that never arrive."""
    loss_in: F64
    """Share of the packets sent to it that never arrive."""
    corrupt: F64
    """Share of the packets received that are damaged."""
    reorder: F64
    """Share of the packets received that come out of order."""
    queue: F64
    """Seconds that packets stand in queues on the way."""
    tail: F64
    """Seconds that the unlucky ones of them stand there on top."""
    mark: F64
    """Share of the packets sent to it that a switch marks."""
    mark_out: F64
    """Share of the packets sent from it that a switch marks."""
    paused: F64
    """Share of time in which the network stops the port."""
    pausing: F64
    """Share of time in which the port stops the network."""
    other_in: F64
    """Bytes per second of others to it."""
    other_out: F64
    """Bytes per second of others from it."""
    down: F64
    """1 while the link is down."""
    flaps: F64
    """Times that it went down in this second."""
    hot_flow: F64
    """Share of the bytes that one flow has on top of its even share."""
    part: F64
    """Times the even part of its job's bytes that the port carries."""
    flows: F64
    """Times the number of connections."""
    credits: F64
    """Share of time in which the port has data and no credit."""
    # --- jobs
    halted: F64
    """Share of the second in which the job stands still."""
    out: F64
    """1 where the balancer knows that the replica is out of service."""
    spinning: F64
    """1 where its GPUs wait inside a collective meanwhile, which looks like work."""
    padding: F64
    """Share of the places in a batch that yield nothing any more."""
    egress: F64
    """What the way out of the server adds to the time between two tokens, as a share of it."""
    uneven: F64
    """Coefficient of variation of micro-batches, on top."""
    arrivals: F64
    """Times the requests that come."""
    prompt: F64
    """Times the length of prompts."""
    output: F64
    """Times the length of answers."""
    cache: F64
    """Times the room for KV cache."""
    transfer: F64
    """Times the time that a KV transfer takes."""
    pieces: F64
    """Times the number of pieces in which KV moves."""
    stranded: F64
    """Share of the slots and of the KV cache that is held for requests that are gone."""
    giant: F64
    """Tokens of one prompt that is far longer than all others; 0 for none in this second."""
    yields: F64
    """Times the tokens that a decode step brings for each request."""
    failing: F64
    """Share of the requests that fail."""
    left: F64
    """Share of the requests whose clients leave before the answer; the engine goes on."""
    hits: F64
    """Added to the share of prompt tokens found in the prefix cache."""
    prefill: F64
    """Times the speed of prefill."""
    admitting: F64
    """Times the speed at which requests are admitted."""
    mixing: F64
    """Share of the decode steps that a prefill runs into."""
    ragged: F64
    """Coefficient of variation of what a decode step yields, on top."""
    # --- members
    share: F64
    """Times the work of a member."""
    sent: F64
    """Times the bytes that a member sends and receives."""
    ragged_own: F64
    """Coefficient of variation of a member's own micro-batches, on top."""
    wander: F64
    """Seconds by which a member that changes from round to round is late."""
    alone: F64
    """Share of the second in which a member computes by itself while its job stands."""


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
"""What multiplies; everything else is added."""


def no_effects(fleet: SimulatedFleet) -> FaultEffects:
    """A second in which nothing is wrong."""
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
