"""Simulates a fleet second by second, given the effects of faults as `FaultEffects`."""

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from skewscope.adapters.simulator import gpus as boards
from skewscope.adapters.simulator import rounds as turns
from skewscope.adapters.simulator import serving as replicas
from skewscope.adapters.simulator.effects import FaultEffects, no_effects
from skewscope.adapters.simulator.fleet import JOB_KINDS, SimulatedFleet
from skewscope.adapters.simulator.load import RequestLoad
from skewscope.engine.model.arrays import F64

RAIL_PACKET, FRONT_PACKET = 4160.0, 900.0
"""Bytes of a usual packet, headers included."""
TOKEN_BYTES = 180.0
"""Bytes per streamed token, including protocol overhead."""
PROMPT_BYTES = 4.5
"""Bytes per prompt token."""
BATCH_BYTES = 40e6
"""Bytes of training data that a node reads per second."""
RAIL_RTT, FRONT_RTT = 14e-6, 350e-6
SPURIOUS_RETRANSMIT_SHARE = 0.3
"""Share of out-of-order packets that are retransmitted needlessly."""
SMALL_PACKET = 90.0
BURST_DROPS = 150.0
"""Packets dropped per burst that overflows the buffer."""
MAX_CNPS = 200_000.0
"""Maximum congestion notifications per second of an adapter."""
BASE_MARK_SHARE = 5e-7
"""Share of packets marked without a fault."""


@dataclass
class NetworkState:
    """Last second of the ports, [node, port] float64."""

    tx: F64
    """Bytes."""
    rx: F64
    tx_packets: F64
    rx_packets: F64
    marked_share: F64
    """Share of received packets that are marked."""
    cnps_sent: F64
    """Congestion notifications sent."""
    cnps_received: F64
    """Congestion notifications received."""
    retransmit_tx: F64
    """Share of sent packets that are retransmissions."""
    retransmit_rx: F64
    rtt: F64
    other_tx: F64
    """Bytes sent by others than the job."""
    dropped_share: F64
    """Share of received packets that the adapter drops."""
    pausing_share: F64
    """Share of time in which the port pauses its senders because it cannot drain; rails drop nothing."""
    paused_share: F64
    """Share of time in which it is paused because of such a port."""


@dataclass
class FleetSimulation:
    """State of a fleet, and its last second."""

    fleet: SimulatedFleet
    load: RequestLoad
    random: np.random.Generator
    t: float = -1.0
    effects: FaultEffects = field(init=False)
    gpus: boards.GpuState = field(init=False)
    serving: replicas.ServingState = field(init=False)
    rounds: turns.RoundState = field(init=False)
    net: NetworkState = field(init=False)
    intra_node_wait: F64 = field(init=False)
    """[node, gpu] float64 share of the second in which each GPU waits for others of its node."""
    cpu_share: F64 = field(init=False)
    """[node] float64 share of CPU time in use."""

    def __post_init__(self) -> None:
        self.effects = no_effects(self.fleet)
        self.gpus = boards.initial_state(self.fleet.plan.nodes, self.random)
        self.serving = replicas.initial_state(self.fleet, self.load)
        self._advance()

    def step(self, touch: Callable[[FaultEffects, "FleetSimulation"], None] = lambda _push, _world: None) -> None:
        """Simulates one second; `touch` sets the effects of faults."""
        self.t += 1.0
        self.effects = no_effects(self.fleet)
        touch(self.effects, self)
        self._advance()

    def _advance(self) -> None:
        boards.step(self.gpus, self.effects, self._busy_share())
        # A throttled or failed chip is slower; launcher and loader keep a healthy one waiting.
        self.rounds = turns.step(self.fleet, self.effects, self.speed, self.serving.batch_load, self.random)
        demand = self.load.demand_at(max(self.t, 0.0))
        replicas.step(self.serving, self.fleet, self.effects, demand, self.rounds, self.random)
        self.cpu_share = np.clip(
            0.14 + self.random.normal(0, 0.01, self.effects.busy.shape) + self.effects.busy, 0.02, 1.0
        )
        self.net = self._compute_network()

    @property
    def speed(self) -> F64:
        """Returns [node, gpu] float64 speed relative to a healthy GPU at full clock, including waits for its links."""
        found: F64 = self.gpus.clock * np.clip(self.effects.nvlink, 0.05, 1.0) ** 0.3
        return found

    @property
    def _running_share(self) -> F64:
        """Returns [job] share of the second spent in rounds."""
        level = np.where(self.fleet.is_serving, np.clip(0.35 + self.serving.running / 60.0, 0.0, 1.0), 1.0)
        found: F64 = level * (1 - np.clip(self.effects.halted, 0, 1))
        return found

    def _busy_share(self) -> F64:
        """Returns [node, gpu] share of computing time; a GPU waits for slower and stalled siblings of its node."""
        shape = self.effects.clock.shape
        if not hasattr(self, "rounds"):
            self.intra_node_wait = np.zeros(shape)
            return np.full(shape, 0.8)
        now, going = self.rounds, self._running_share
        share = self.members_to_nodes(np.nan_to_num(now.kernel_time / now.period[:, None]) * going[:, None])[:, None]
        slowest = turns.relative_gpu_times(self.effects, self.speed).max(axis=1, keepdims=True)
        own = share * turns.relative_gpu_times(self.effects, self.gpus.clock) / np.maximum(slowest, 1e-9)
        stall = self.effects.stall / np.maximum(self._node_round_period(), 1e-6)[:, None]
        others = (stall.max(axis=1, keepdims=True) - stall) * self.job_to_nodes(going)[:, None]
        alone = self.members_to_nodes(self.effects.alone * np.clip(self.effects.halted, 0, 1)[:, None])[:, None]
        busy: F64 = np.clip((own + alone) * self.random.normal(1.0, 0.015, shape), 0.0, 1.0)
        self.intra_node_wait = np.clip(share - own + others, 0.0, 1.0 - busy)
        return busy

    @property
    def spinning_share(self) -> F64:
        """[node, gpu] float64 share of the second in which each GPU waits inside a collective."""
        now = self.rounds
        waits = np.where(self.fleet.is_member, np.clip(now.wait_time / now.period[:, None], 0, 1), 0.0)
        halted = self.job_to_nodes(self.effects.spinning * np.clip(self.effects.halted, 0, 1))
        outside = self.members_to_nodes(waits * self._running_share[:, None]) + halted
        return np.clip(outside[:, None] + self.intra_node_wait, 0.0, 1.0)

    def _node_round_period(self) -> F64:
        return self.job_to_nodes(self.rounds.period, 1.0)

    def job_to_nodes(self, of_jobs: F64, otherwise: float = 0.0) -> F64:
        """Returns [node] a job's value on each of its nodes."""
        return np.append(of_jobs, otherwise)[self.fleet.job_of_node]

    def members_to_nodes(self, of_members: F64) -> F64:
        """Returns [node] a member's value on its node."""
        out = np.zeros(self.fleet.plan.nodes)
        there = self.fleet.is_member
        out[self.fleet.members[there]] = of_members[there]
        return out

    @property
    def is_front_end(self) -> F64:
        """[node] 1 for front-end nodes."""
        out = np.zeros(self.fleet.plan.nodes)
        out[[job.nodes[0] for n, job in enumerate(self.fleet.jobs) if self.fleet.is_serving[n]]] = 1.0
        return out

    def _compute_network(self) -> NetworkState:
        push, now, fleet = self.effects, self.serving, self.fleet
        rails = fleet.plan.rails
        tx, rx = np.zeros_like(push.capacity), np.zeros_like(push.capacity)
        sent = self.members_to_nodes(np.nan_to_num(self.rounds.sent_bytes) * self.rounds.rate[:, None])
        even = sent / rails
        noise = self.random.normal(1.0, 0.01, (2, fleet.plan.nodes, rails))
        got = self._received_bytes(sent) / rails
        tx[:, 1:] = even[:, None] * push.part[:, 1:] * noise[0]
        rx[:, 1:] = got[:, None] * push.part[:, 1:] * noise[1]
        fronts = self.is_front_end
        rx[:, 0] = self.job_to_nodes((now.arrived * now.prompt_len + push.giant) * PROMPT_BYTES) * fronts + 20e3
        batches = BATCH_BYTES * ~fleet.is_serving * (1 - np.clip(push.halted, 0, 1))
        rx[:, 0] += self.job_to_nodes(batches) * self.random.uniform(0.9, 1.1, len(fronts))
        tx[:, 0] = self.job_to_nodes(now.tokens * (1 - np.clip(push.left, 0, 1)) * TOKEN_BYTES) * fronts + 30e3
        alive = 1.0 - push.down
        speed = np.full(tx.shape, fleet.rail_speed)
        speed[:, 0] = fleet.front_speed
        others = push.other_out + push.flood * SMALL_PACKET
        tx = np.minimum((tx + others) * alive, speed * push.capacity)
        rx = np.minimum((rx + push.other_in) * alive, speed * push.capacity * (1 - np.clip(push.pausing, 0, 1)))
        packet = np.full(tx.shape, RAIL_PACKET)
        packet[:, 0] = FRONT_PACKET
        common = np.clip(BASE_MARK_SHARE * self.random.exponential(1.0, tx.shape) + push.mark, 0.0, 1.0)
        common[:, 0] = push.mark[:, 0]
        marked = np.clip(common + self.peers_mean(push.mark_out), 0.0, 1.0)
        rx_packets = rx / packet
        notified = np.minimum(rx_packets * marked, MAX_CNPS)
        reported = self.peers_mean(np.minimum(rx_packets * common, MAX_CNPS)) + tx / packet * push.mark_out
        # Packets out of order are taken for lost, and many are received twice.
        twice = SPURIOUS_RETRANSMIT_SHARE * push.reorder
        rtt = np.full(tx.shape, RAIL_RTT)
        rtt[:, 0] = FRONT_RTT
        rtt = rtt * np.exp(self.random.normal(0, 0.05, tx.shape)) + push.queue
        base = self.random.exponential(2e-6, (2, *tx.shape))
        holding = self._pausing_share()
        dropped = np.zeros_like(tx)
        dropped[:, 0] = 0.02 * np.clip(push.write_stall[:, 0] - 0.3, 0, 1)
        dropped = dropped + push.bursts * BURST_DROPS / np.maximum(rx_packets, 1.0)
        lost_in = push.loss_in + dropped
        return NetworkState(
            tx=tx,
            rx=rx,
            tx_packets=tx / packet + push.flood,
            rx_packets=rx_packets,
            marked_share=marked,
            cnps_sent=notified,
            cnps_received=np.minimum(reported, MAX_CNPS),
            retransmit_tx=np.clip(push.loss_out + self.peers_mean(lost_in + twice) + base[0], 0, 1),
            retransmit_rx=np.clip(lost_in + twice + self.peers_mean(push.loss_out) + base[1], 0, 1),
            rtt=rtt,
            other_tx=others,
            dropped_share=np.clip(dropped, 0, 1),
            pausing_share=holding,
            paused_share=0.3 * self.peers_mean(holding),
        )

    def _pausing_share(self) -> F64:
        """Returns [node, port] share of time in which rails pause their senders: exchanges that cannot be written."""
        now = self.rounds
        exchanging = self.job_to_nodes(np.clip(now.rate * now.exchange_time, 0.0, 1.0))
        found: F64 = exchanging[:, None] * np.clip(self.effects.write_stall, 0.0, 0.98)
        found[:, 0] = 0.0
        return found

    def _received_bytes(self, sent: F64) -> F64:
        """Returns [node] bytes per second received from the other nodes of the job."""
        push = np.where(self.fleet.is_member, self.effects.sent, 0.0)
        total = self.job_to_nodes(np.where(self.fleet.is_member, self._nodes_to_members(sent), 0.0).sum(axis=1))
        weight = push / np.maximum(push.sum(axis=1, keepdims=True), 1e-9)
        return total * self.members_to_nodes(weight)

    def _nodes_to_members(self, of_nodes: F64) -> F64:
        return np.append(of_nodes, 0.0)[self.fleet.members]

    def peers_mean(self, of_ports: F64) -> F64:
        """Returns [node, port] mean over the other nodes of the job for rails; the front end has no peers."""
        out = np.zeros_like(of_ports)
        members, there = self.fleet.members, self.fleet.is_member
        count = np.maximum(there.sum(axis=1) - 1, 1)
        for rail in range(1, of_ports.shape[1]):
            each = np.where(there, np.append(of_ports[:, rail], 0.0)[members], 0.0)
            others = (each.sum(axis=1, keepdims=True) - each) / count[:, None]
            out[:, rail] = self.members_to_nodes(others)
        return out

    def kind_mask(self, *kinds: str) -> F64:
        """Returns [job] 1 for jobs of these kinds."""
        return np.array([float(job.kind in kinds) for job in self.fleet.jobs])

    @property
    def base_round(self) -> F64:
        """[job] seconds of computation per empty round."""
        return np.array([JOB_KINDS[job.kind].round_s for job in self.fleet.jobs])
