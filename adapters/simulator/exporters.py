"""What real exporters make of a second: which signals, how often, on whom, and with which quirks.

One table a vantage. A row is a signal, a selector, and a function of the world that gives its value on all entities of
a place, in the unit that the catalogue gives; of a counter, what it grows by in this second.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from skewscope.adapters.simulator.fleet import KINDS
from skewscope.adapters.simulator.push import F64
from skewscope.adapters.simulator.world import FRONT_PACKET, RAIL_PACKET, World

PRIORITY = "p3"
"""The traffic class that is lossless."""
QUIET = 1e-3
"""A silence longer than this counts as one."""


@dataclass(frozen=True, slots=True)
class Exporter:
    """A source of telemetry."""

    name: str
    period: float
    """Seconds between two samples."""
    mute: str
    """The field of `Push` that silences it on a node."""


PERIODS: Mapping[str, Mapping[str, float]] = {
    "fine": {"agent": 1, "counters": 1, "dcgm": 1, "host": 1, "engine": 1, "job": 1, "fabric": 1},
    "usual": {"agent": 1, "counters": 1, "dcgm": 30, "host": 15, "engine": 5, "job": 5, "fabric": 10},
}
"""How often each source is read: all of them each second, or as operators have them set up."""
MUTES = {
    "agent": "mute_agent",
    "counters": "mute_agent",
    "dcgm": "mute_gpu",
    "host": "mute_host",
    "engine": "mute_engine",
    "job": "mute_host",
    "fabric": "",
}

Value = Callable[[World], NDArray[Any]]


@dataclass(frozen=True, slots=True)
class Row:
    """One signal of one exporter."""

    exporter: str
    signal: str
    place: str
    """gpu, node, front, port, rail, ns, rank, group, stage, replica, pool."""
    value: Value
    selector: str = ""
    only: str = ""
    """A fabric on which alone there is such a thing."""


@dataclass(frozen=True, slots=True)
class Spread:
    """What a histogram takes in: how many observations, their median, and how they scatter."""

    count: F64
    median: F64
    sigma: float
    """Of their logarithm."""


def rows(fabric: str) -> Iterator[Row]:
    """All rows of a fleet with this fabric."""
    for exporter, table in TABLES.items():
        for row in table:
            if row.only in {"", fabric}:
                yield Row(exporter, row.signal, row.place, row.value, row.selector, row.only)


def _row(signal: str, place: str, value: Value, selector: str = "", only: str = "") -> Row:
    return Row("", signal, place, value, selector, only)


def _noisy(w: World, x: F64, spread: float = 0.02) -> F64:
    """A measured value: no two are alike."""
    found: F64 = x * np.exp(w.random.normal(0.0, spread, np.shape(x)))
    return found


def _rails(w: World, x: F64) -> F64:
    """A member's value on all rails of its node."""
    return np.repeat(w.by_member(np.nan_to_num(x))[:, None], w.fleet.plan.rails, axis=1)


def _whole(w: World, x: F64) -> F64:
    """A job's value on all rails of its nodes."""
    return np.repeat(w.by_node(x, np.nan)[:, None], w.fleet.plan.rails, axis=1)


def _lag_on_wire(w: World) -> F64:
    lag = w.rounds.lag
    behind: F64 = lag - np.nanmin(lag, axis=1, keepdims=True)
    return behind


def _flow_share(w: World) -> F64:
    even = 1 / np.maximum(_flows(w), 1.0)
    return np.clip(even * np.exp(w.random.normal(0, 0.03, even.shape)) + w.push.hot_flow, 0.0, 1.0)


def _flows(w: World) -> F64:
    peers = np.array([KINDS[job.kind].peers or len(job.nodes) - 1 for job in w.fleet.jobs], float)
    found = np.zeros_like(w.push.flows)
    found[:, 1:] = np.round(w.by_node(peers * 2)[:, None] * w.push.flows[:, 1:])
    streams = w.by_node(w.serving.running + w.serving.waiting) * w.fronts
    found[:, 0] = np.round((streams + 6) * w.push.flows[:, 0])
    return found


def _gini(w: World) -> F64:
    return np.clip(0.05 + w.random.normal(0, 0.01, w.push.hot_flow.shape) + 0.9 * w.push.hot_flow, 0.0, 1.0)


def _idle(w: World) -> F64:
    """Share of time in which the port sends nothing for longer than a moment."""
    going = np.append(w.rounds.rate * w.rounds.exchange, 0.0)[w.fleet.job_of]
    rails = 1.0 - np.clip(going, 0.0, 1.0)
    found = np.repeat(rails[:, None], w.fleet.ports, axis=1)
    found[:, 0] = np.clip(1.0 - w.net.tx[:, 0] / FRONT_PACKET / 2000.0, 0.05, 1.0)
    return np.clip(np.where(w.push.down > 0.5, 1.0, found * w.random.uniform(0.97, 1.0, found.shape)), 0.0, 1.0)


def _silent(w: World) -> F64:
    """The same, where the port hears nothing either: all of a halt, little of a round."""
    halted = np.append(np.clip(w.push.halted, 0, 1), 1.0)[w.fleet.job_of]
    found = np.repeat(halted[:, None], w.fleet.ports, axis=1) + 0.6 * _idle(w) * (1 - halted[:, None])
    return np.clip(np.where(w.push.down > 0.5, 1.0, found), 0.0, 1.0)


AGENT = (
    _row("wire.active_flows", "port", _flows),
    _row("wire.flow_share_max", "port", _flow_share),
    _row("wire.flow_share_gini", "port", _gini),
    _row("wire.rtt", "port", lambda w: w.net.rtt),
    _row("wire.rtt_p95", "port", lambda w: _noisy(w, w.net.rtt * 1.5 + 0.6 * w.push.queue + w.push.tail, 0.08)),
    _row("wire.retransmit_ratio", "port", lambda w: w.net.again_tx, "tx"),
    _row("wire.retransmit_ratio", "port", lambda w: w.net.again_rx, "rx"),
    _row("wire.dup_ack_ratio", "port", lambda w: 0.6 * w.net.again_tx + 0.1 * w.push.reorder, "rx"),
    _row("wire.dup_ack_ratio", "port", lambda w: 0.6 * w.net.again_rx + 0.4 * w.push.reorder, "tx"),
    _row("wire.own_retransmit_ratio", "port", lambda w: w.push.loss_out),
    _row("wire.out_of_order_ratio", "port", lambda w: np.clip(w.push.reorder + 0.05 * w.push.loss_in, 0, 1)),
    _row("wire.ecn_ce_ratio", "rail", lambda w: w.net.marked[:, 1:], only="roce"),
    _row("wire.cnp_rate", "rail", lambda w: _noisy(w, w.net.told[:, 1:], 0.1), only="roce"),
    _row(
        "wire.nak_rate",
        "rail",
        lambda w: w.net.rx_packets[:, 1:] * np.clip(w.push.loss_in + w.push.corrupt, 0, 1)[:, 1:],
    ),
    _row("wire.tx_idle_ratio", "port", _idle),
    _row("wire.silent_ratio", "port", _silent),
    _row(
        "wire.zero_window_ratio",
        "port",
        lambda w: np.clip(w.push.write_stall * 0.05, 0, 1)[:, None] * np.ones(w.fleet.ports),
    ),
    _row("wire.bursts", "rail", lambda w: _whole(w, w.rounds.rate)),
    _row(
        "wire.port_round_period",
        "rail",
        lambda w: _noisy(w, _whole(w, w.rounds.period / np.maximum(1 - w.push.halted, 0.05)), 0.003),
    ),
    _row(
        "wire.port_round_period_cv",
        "rail",
        lambda w: _noisy(w, _whole(w, w.rounds.variation + 2 * w.push.halted * (1 - w.push.halted)), 0.1),
    ),
    _row("wire.port_round_rate", "rail", lambda w: _whole(w, w.rounds.rate)),
    _row("wire.port_exchange_time", "rail", lambda w: _noisy(w, _whole(w, w.rounds.exchange), 0.05)),
    _row("wire.own_onset_lag", "rail", lambda w: _rails(w, w.rounds.lag)),
    _row("wire.own_onset_lag_p95", "rail", lambda w: _rails(w, w.rounds.lag_p95)),
    _row("wire.own_last_share", "rail", lambda w: _rails(w, w.rounds.last)),
    _row("wire.own_burst_bytes", "rail", lambda w: _noisy(w, _rails(w, w.rounds.sent) / w.fleet.plan.rails, 0.005)),
    _row("wire.stage_time", "stage", lambda w: _rails(w, w.rounds.stage)),
    _row("wire.stage_wait", "stage", lambda w: _rails(w, np.where(np.isnan(w.rounds.stage), np.nan, w.rounds.wait))),
    _row("wire.onset_lag", "rank", _lag_on_wire),
    _row("wire.onset_lag_p95", "rank", lambda w: w.rounds.lag_p95),
    _row("wire.last_sender_share", "rank", lambda w: w.rounds.last),
    _row("wire.burst_bytes", "rank", lambda w: _noisy(w, w.rounds.sent, 0.005)),
    _row(
        "wire.member_retransmit_ratio",
        "rank",
        lambda w: _of_members(w, np.maximum(w.net.again_tx, w.push.loss_in)[:, 1:].max(axis=1)),
    ),
    _row(
        "wire.round_period", "group", lambda w: _noisy(w, w.rounds.period / np.maximum(1 - w.push.halted, 0.05), 0.003)
    ),
    _row(
        "wire.round_period_cv",
        "group",
        lambda w: _noisy(w, w.rounds.variation + 2 * w.push.halted * (1 - w.push.halted), 0.1),
    ),
    _row("wire.round_rate", "group", lambda w: w.rounds.rate),
    _row("wire.exchange_time", "group", lambda w: _noisy(w, w.rounds.exchange, 0.05)),
    _row("wire.requests", "front", lambda w: w.by_node(w.serving.arrived)),
    _row("wire.request_bytes", "front", lambda w: w.by_node(w.serving.arrived * w.serving.prompt_len * 4.5)),
    _row("wire.responses", "front", lambda w: w.by_node(w.serving.started)),
    _row("wire.open_streams", "front", lambda w: w.by_node(np.floor(w.serving.running + w.serving.waiting))),
    _row(
        "wire.first_byte_delay",
        "front",
        lambda w: _noisy(w, w.by_node(_asked(w, w.serving.ttft), np.nan) + _clients(w), 0.05),
    ),
    _row(
        "wire.first_byte_delay_p95",
        "front",
        lambda w: _noisy(w, w.by_node(_asked(w, w.serving.ttft * 1.6), np.nan) + 2 * _clients(w), 0.1),
    ),
    _row(
        "wire.stream_gap",
        "front",
        lambda w: _noisy(w, w.by_node(_asked(w, w.serving.gap * (1 + w.push.egress)), np.nan), 0.02),
    ),
    _row(
        "wire.stream_gap_p95",
        "front",
        lambda w: _noisy(w, w.by_node(_asked(w, w.serving.gap_p95), np.nan) + 3 * _clients(w), 0.05),
    ),
    _row(
        "wire.stream_gap_cv",
        "front",
        lambda w: _noisy(w, w.by_node(_asked(w, w.serving.gap_cv), np.nan) + 8 * _clients(w), 0.08),
    ),
    _row("wire.stream_chunks", "front", lambda w: _noisy(w, w.by_node(_asked(w, w.serving.output_len), np.nan), 0.08)),
    _row(
        "wire.stream_duration",
        "front",
        lambda w: _noisy(w, w.by_node(_asked(w, w.serving.output_len * w.serving.gap), np.nan), 0.08),
    ),
    _row(
        "wire.egress_unacked",
        "front",
        lambda w: _noisy(w, w.net.tx[:, 0] * (w.net.rtt[:, 0] + 30 * _clients(w)) + 2000.0, 0.1),
    ),
    _row("wire.request_loss_ratio", "front", lambda w: np.clip(w.push.loss_in[:, 0], 0, 1)),
    _row(
        "agent.sample_age",
        "node",
        lambda w: (
            w.random.uniform(0.02, 0.08, w.cpu.shape) + np.maximum(w.push.arm - 0.7, 0) * 30 + np.abs(w.push.clock_off)
        ),
    ),
    _row("dpu.arm_cpu", "node", lambda w: np.clip(0.12 + w.random.normal(0, 0.01, w.cpu.shape) + w.push.arm, 0, 1)),
    _row("dpu.temperature", "node", lambda w: 62 + w.random.normal(0, 0.5, w.cpu.shape) + w.push.dpu_heat),
    _row("host.up", "node", lambda w: 1.0 - w.push.mute_host),
)


def _asked(w: World, x: F64) -> F64:
    """Unknown where nobody asks: there is no stream to time."""
    return np.where(w.serving.running + w.serving.waiting > 0, x, np.nan)


def _clients(w: World) -> F64:
    """Delay that the way to the clients adds."""
    return w.push.queue[:, 0] + 0.2 * w.push.loss_out[:, 0] + 0.05 * w.push.loss_in[:, 0]


def _of_members(w: World, of_nodes: F64) -> F64:
    return np.where(w.fleet.there, np.append(of_nodes, np.nan)[w.fleet.members], np.nan)


COUNTERS = (
    _row("port.tx_bytes", "port", lambda w: w.net.tx),
    _row("port.rx_bytes", "port", lambda w: w.net.rx),
    _row("port.tx_packets", "port", lambda w: w.net.tx_packets),
    _row("port.rx_packets", "port", lambda w: w.net.rx_packets),
    _row("port.tx_netdev_bytes", "ns", lambda w: w.net.tx[:, :1]),
    _row("port.rx_netdev_bytes", "ns", lambda w: w.net.rx[:, :1]),
    _row("port.tx_netdev_packets", "ns", lambda w: w.net.tx_packets[:, :1]),
    _row("port.rx_netdev_packets", "ns", lambda w: w.net.rx_packets[:, :1]),
    _row(
        "port.rx_discards", "port", lambda w: w.net.rx_packets * np.clip(w.push.write_stall[:, None] - 0.3, 0, 1) * 0.02
    ),
    _row(
        "port.tx_discards",
        "port",
        lambda w: np.where(w.push.loss_out > 0, w.net.tx_packets * w.push.loss_out * 0.3, 0.0),
    ),
    _row(
        "port.rx_out_of_buffer",
        "port",
        lambda w: w.net.rx_packets * np.clip(w.push.write_stall[:, None] - 0.2, 0, 1) * 0.01,
    ),
    _row(
        "port.rx_buffer_passed_thres",
        "rail",
        lambda w: 1e4 * np.clip(w.push.write_stall[:, None] - 0.05, 0, 1) + 50 * w.push.pausing[:, 1:],
    ),
    _row("port.rx_crc_errors", "port", lambda w: w.net.rx_packets * w.push.corrupt),
    _row("port.rx_symbol_err", "port", lambda w: w.net.rx_packets * w.push.corrupt * 3 + w.push.flaps * 40),
    _row("port.rx_corrected_bits", "port", lambda w: w.net.rx * 8 * (1e-8 + 1e-3 * w.push.corrupt)),
    _row("port.link_down_events", "port", lambda w: w.push.flaps),
    _row("port.carrier", "port", lambda w: 1.0 - (w.push.down > 0.5)),
    _row("port.carrier_down_changes", "port", lambda w: w.push.flaps),
    _row("port.state", "port", lambda w: np.where(w.push.down > 0.5, 1.0, 4.0)),
    _row(
        "port.speed",
        "port",
        lambda w: np.where(np.arange(w.fleet.ports) == 0, 200e9, 400e9) * np.ones((w.fleet.plan.nodes, 1)),
    ),
    _row("port.module_temperature", "rail", lambda w: 48 + w.random.normal(0, 0.3, w.push.down[:, 1:].shape)),
    _row(
        "port.xmit_wait",
        "rail",
        lambda w: (
            1e9 * np.clip(w.push.credits[:, 1:] + w.push.paused[:, 1:], 0, 1)
            + 1e4 * w.random.exponential(1.0, w.push.down[:, 1:].shape)
        ),
        only="infiniband",
    ),
    _row("port.ib_excessive_buffer_overrun_errors", "rail", lambda w: 0 * w.push.down[:, 1:], only="infiniband"),
    _row("prio.rx_pause", "rail", lambda w: _pauses(w.push.paused), PRIORITY, "roce"),
    _row("prio.rx_pause_time", "rail", lambda w: 1e6 * np.clip(w.push.paused[:, 1:], 0, 1), PRIORITY, "roce"),
    _row("prio.rx_pause_transition", "rail", lambda w: _pauses(w.push.paused) * 0.5, PRIORITY, "roce"),
    _row("prio.tx_pause", "rail", lambda w: _pauses(w.push.pausing), PRIORITY, "roce"),
    _row("prio.tx_pause_time", "rail", lambda w: 1e6 * np.clip(w.push.pausing[:, 1:], 0, 1), PRIORITY, "roce"),
    _row("prio.tx_bytes", "rail", lambda w: w.net.tx[:, 1:], PRIORITY, "roce"),
    _row("prio.rx_bytes", "rail", lambda w: w.net.rx[:, 1:], PRIORITY, "roce"),
    _row("prio.tx_packets", "rail", lambda w: w.net.tx_packets[:, 1:], PRIORITY, "roce"),
    _row("prio.rx_packets", "rail", lambda w: w.net.rx_packets[:, 1:], PRIORITY, "roce"),
    _row(
        "prio.rx_discards",
        "rail",
        lambda w: w.net.rx_packets[:, 1:] * np.clip(w.push.write_stall[:, None] - 0.3, 0, 1) * 0.02,
        PRIORITY,
        "roce",
    ),
    _row("port.tx_pause_storm_warning_events", "rail", lambda w: (w.push.pausing[:, 1:] > 0.6) * 1.0, only="roce"),
    _row("port.tx_pause_storm_error_events", "rail", lambda w: (w.push.pausing[:, 1:] > 0.9) * 1.0, only="roce"),
    _row("cc.np_cnp_sent", "rail", lambda w: w.net.notified[:, 1:], only="roce"),
    _row("cc.np_ecn_marked_roce_packets", "rail", lambda w: (w.net.marked * w.net.rx_packets)[:, 1:], only="roce"),
    _row("cc.rp_cnp_handled", "rail", lambda w: w.net.told[:, 1:], only="roce"),
    _row("cc.rp_cnp_ignored", "rail", lambda w: 0 * w.net.told[:, 1:], only="roce"),
    _row("rdma.packet_seq_err", "rail", lambda w: (w.net.tx_packets * w.net.again_tx)[:, 1:] * 0.5, only="roce"),
    _row(
        "rdma.out_of_sequence",
        "rail",
        lambda w: (w.net.rx_packets * np.clip(w.push.reorder + w.push.loss_in, 0, 1))[:, 1:],
        only="roce",
    ),
    _row("rdma.duplicate_request", "rail", lambda w: (w.net.rx_packets * w.push.reorder * 0.3)[:, 1:], only="roce"),
    _row(
        "rdma.local_ack_timeout_err",
        "rail",
        lambda w: w.random.poisson(np.minimum(w.net.tx_packets * w.push.loss_out * 1e-3 + 20 * w.push.down, 1e4))[
            :, 1:
        ],
        only="roce",
    ),
    _row("rdma.roce_slow_restart", "rail", lambda w: (w.net.tx_packets * w.push.reorder * 0.05)[:, 1:], only="roce"),
    _row("rdma.roce_adp_retrans", "rail", lambda w: (w.net.tx_packets * w.push.reorder * 0.05)[:, 1:], only="roce"),
    _row(
        "rdma.out_of_buffer",
        "rail",
        lambda w: (w.net.rx_packets * np.clip(w.push.write_stall[:, None] - 0.4, 0, 1) * 1e-3)[:, 1:],
    ),
    _row(
        "rdma.rnr_nak_retry_err",
        "rail",
        lambda w: (w.net.rx_packets * np.clip(w.push.write_stall[:, None] - 0.4, 0, 1) * 1e-4)[:, 1:],
    ),
    _row("rdma.req_transport_retries_exceeded", "rail", lambda w: 3 * (w.push.down[:, 1:] > 0.5)),
    _row("rdma.req_cqe_error", "rail", lambda w: 3 * (w.push.down[:, 1:] > 0.5)),
    _row("rdma.req_cqe_flush_error", "rail", lambda w: 30 * (w.push.down[:, 1:] > 0.5)),
    _row("rdma.rx_write_requests", "rail", lambda w: w.net.rx_packets[:, 1:] * 0.02 * _pieces(w)),
    _row("rdma.rx_read_requests", "rail", lambda w: w.net.rx_packets[:, 1:] * 0.01 * _pieces(w)),
    _row("vport.tx_rdma_bytes", "rail", lambda w: w.net.tx[:, 1:] - w.push.other_out[:, 1:]),
    _row("vport.rx_rdma_bytes", "rail", lambda w: w.net.rx[:, 1:] - w.push.other_in[:, 1:]),
    _row(
        "vport.tx_rdma_packets",
        "rail",
        lambda w: (w.net.tx[:, 1:] - w.push.other_out[:, 1:]) / RAIL_PACKET * _pieces(w) ** 0.5,
    ),
    _row(
        "vport.rx_rdma_packets",
        "rail",
        lambda w: (w.net.rx[:, 1:] - w.push.other_in[:, 1:]) / RAIL_PACKET * _pieces(w) ** 0.5,
    ),
    _row("vport.rx_eth_bytes", "ns", lambda w: w.net.rx[:, :1]),
    _row("vport.tx_eth_bytes", "ns", lambda w: w.net.tx[:, :1]),
    _row("rep.rx_bytes", "port", lambda w: w.net.tx),
    _row("rep.tx_bytes", "port", lambda w: w.net.rx),
    _row(
        "pcie.stall_write",
        "rail",
        lambda w: np.round(100 * np.clip(w.push.write_stall, 0, 1))[:, None] * np.ones(w.fleet.plan.rails),
    ),
    _row(
        "pcie.stall_read",
        "rail",
        lambda w: np.round(100 * np.clip(w.push.read_stall, 0, 1))[:, None] * np.ones(w.fleet.plan.rails),
    ),
    _row(
        "pcie.stall_write_events", "rail", lambda w: (w.push.write_stall > 0.02)[:, None] * np.ones(w.fleet.plan.rails)
    ),
    _row("pcie.stall_read_events", "rail", lambda w: (w.push.read_stall > 0.02)[:, None] * np.ones(w.fleet.plan.rails)),
    _row(
        "pcie.buffer_overflow",
        "rail",
        lambda w: w.net.rx_packets[:, 1:] * np.clip(w.push.write_stall[:, None] - 0.3, 0, 1) * 0.01,
    ),
    _row("pcie.nic_dma_bytes", "rail", lambda w: w.net.rx[:, 1:] + w.net.tx[:, 1:]),
    _row(
        "pcie.link_width", "rail", lambda w: 16.0 * w.push.link_width.min(axis=1)[:, None] * np.ones(w.fleet.plan.rails)
    ),
    _row("pcie.link_speed", "rail", lambda w: 32.0 * np.ones((w.fleet.plan.nodes, w.fleet.plan.rails))),
    _row("pcie.l0_to_recovery", "rail", lambda w: w.push.pcie_replays[:, None] * np.ones(w.fleet.plan.rails)),
    _row("pcie.crc_error_dllp", "rail", lambda w: w.push.pcie_replays[:, None] * np.ones(w.fleet.plan.rails) * 0.5),
    _row("flow.tcp_retrans", "node", lambda w: (w.net.tx_packets * w.net.again_tx)[:, 0]),
    _row("flow.new", "node", lambda w: w.random.poisson(np.maximum(w.by_node(w.serving.arrived) * w.fronts + 0.3, 0))),
)


def _pieces(w: World) -> F64:
    return w.by_node(w.push.pieces, 1.0)[:, None] * np.ones(w.fleet.plan.rails)


def _pauses(share: F64) -> F64:
    """Pause frames: a port that is stopped is told so again and again."""
    return np.clip(share[:, 1:], 0, 1) * 3e4


DCGM = (
    _row("gpu.temperature", "gpu", lambda w: np.round(w.gpus.temperature)),
    _row("gpu.mem_temperature", "gpu", lambda w: np.round(w.gpus.temperature * 0.9 + 12)),
    _row("gpu.power", "gpu", lambda w: _noisy(w, w.gpus.power, 0.01)),
    _row("gpu.energy", "gpu", lambda w: w.gpus.power * 1000),
    _row("gpu.sm_clock", "gpu", lambda w: np.round(1980.0 * w.gpus.clock / 15) * 15),
    _row("gpu.mem_clock", "gpu", lambda w: np.where(w.gpus.thermal > 0.4, 1593.0, 2619.0)),
    _row("gpu.util", "gpu", lambda w: np.round(100 * np.clip(w.gpus.busy * 1.1 + _spins(w), 0, 1))),
    _row("gpu.engine_active", "gpu", lambda w: np.clip(w.gpus.busy + _spins(w), 0, 1)),
    _row("gpu.sm_active", "gpu", lambda w: np.clip(w.gpus.busy * 0.85 + 0.2 * _spins(w), 0, 1)),
    _row("gpu.sm_occupancy", "gpu", lambda w: np.clip(w.gpus.busy * 0.35, 0, 1)),
    _row("gpu.tensor_active", "gpu", lambda w: np.clip(w.gpus.busy * 0.45, 0, 1)),
    _row("gpu.dram_active", "gpu", lambda w: np.clip(w.gpus.busy * 0.55, 0, 1)),
    _row(
        "gpu.mem_copy_util", "gpu", lambda w: np.round(100 * np.clip(w.gpus.busy * 0.3 + w.push.pcie_out / 60e9, 0, 1))
    ),
    _row("gpu.fb_used", "gpu", lambda w: np.round(81559.0 * np.clip(_memory(w), 0, 0.995))),
    _row("gpu.fb_free", "gpu", lambda w: np.round(81559.0 * (1 - np.clip(_memory(w), 0, 0.995)))),
    _row("gpu.pcie_rx", "gpu", lambda w: _noisy(w, 0.4e9 * w.gpus.busy + w.push.pcie_in, 0.05)),
    _row("gpu.pcie_tx", "gpu", lambda w: _noisy(w, 0.3e9 * w.gpus.busy + w.push.pcie_out, 0.05)),
    _row("gpu.pcie_rx_total", "gpu", lambda w: 0.4e9 * w.gpus.busy + w.push.pcie_in),
    _row("gpu.pcie_tx_total", "gpu", lambda w: 0.3e9 * w.gpus.busy + w.push.pcie_out),
    _row("gpu.pcie_replay", "gpu", lambda w: w.push.pcie_replays[:, None] * (w.push.link_width < 1)),
    _row("gpu.nvlink_rx", "gpu", lambda w: _noisy(w, 40e9 * w.gpus.busy * w.push.nvlink, 0.03)),
    _row("gpu.nvlink_tx", "gpu", lambda w: _noisy(w, 40e9 * w.gpus.busy * w.push.nvlink, 0.03)),
    _row("gpu.nvlink_bw_total", "gpu", lambda w: 80e9 * w.gpus.busy * w.push.nvlink),
    _row("gpu.nvlink_crc_flit_errors", "gpu", lambda w: w.random.poisson(w.push.nvlink_errors)),
    _row("gpu.nvlink_replay_errors", "gpu", lambda w: w.random.poisson(w.push.nvlink_errors * 0.3)),
    _row("gpu.nvlink_recovery_errors", "gpu", lambda w: w.random.poisson(w.push.nvlink_errors * 0.02)),
    _row("gpu.thermal_violation", "gpu", lambda w: 1e9 * w.gpus.thermal),
    _row("gpu.power_violation", "gpu", lambda w: 1e9 * w.gpus.capped * 0.9),
    _row("gpu.board_limit_violation", "gpu", lambda w: 0 * w.gpus.capped),
    _row("gpu.sync_boost_violation", "gpu", lambda w: 0 * w.gpus.capped),
    _row("gpu.low_util_violation", "gpu", lambda w: 1e9 * (w.gpus.busy + _spins(w) < 0.1)),
    _row("gpu.reliability_violation", "gpu", lambda w: 0 * w.gpus.capped),
    # 0x40 is slowed by the hardware for heat, 0x4 by the power cap, 0x1 idle.
    _row(
        "gpu.throttle_reasons",
        "gpu",
        lambda w: 64.0 * (w.gpus.thermal > 0) + 4.0 * (w.gpus.capped > 0) + 1.0 * (w.gpus.busy < 0.01),
    ),
    _row("gpu.xid", "gpu", lambda w: w.push.xid),
    _row("gpu.ecc_dbe_vol", "gpu", lambda w: 1.0 * np.isin(w.push.xid, (48, 94, 95))),
    _row("gpu.remap_pending", "gpu", lambda w: 1.0 * np.isin(w.push.xid, (63, 64, 94, 95))),
)


def _spins(w: World) -> F64:
    """Share of time in which a GPU waits inside a collective: its one kernel runs, and computes nothing."""
    return (w.spinning[:, None] * (1 - w.push.dead)) * 0.95


def _at_the_root(w: World) -> F64:
    """Bytes at the host's root: copies of GPUs and the front end; rails reach GPUs without it, if all is well."""
    rails = (w.net.rx + w.net.tx)[:, 1:].sum(axis=1)
    copies = (w.push.pcie_in + w.push.pcie_out).sum(axis=1)
    found: F64 = 2e9 + copies + w.net.rx[:, 0] + w.net.tx[:, 0] + w.push.detour * rails
    return found


def _memory(w: World) -> F64:
    """Share of a GPU's memory in use: weights, the pool for KV cache, taken whole, and what is held for nothing."""
    used = np.where(w.fleet.job_of >= 0, 0.88, 0.01)[:, None]
    return used + w.push.held


HOST = (
    _row("host.cpu_util", "node", lambda w: w.cpu),
    _row("host.psi_cpu", "node", lambda w: np.clip((w.cpu - 0.7) * 2, 0, 1) + 0.002),
    _row("host.psi_io", "node", lambda w: np.clip(w.push.wait_io, 0, 1) + 0.001),
    _row("host.psi_mem", "node", lambda w: np.clip(w.push.wait_mem, 0, 1)),
    _row("host.psi_irq", "node", lambda w: np.clip(w.push.interrupts, 0, 1) + 0.001),
    _row("host.cpu_clock", "node", lambda w: 3000 + w.random.normal(0, 10, w.cpu.shape)),
    _row("host.napi_poll", "node", lambda w: w.net.rx_packets[:, 0] / 8),
    _row("host.softnet_processed", "node", lambda w: w.net.rx_packets[:, 0] + 200),
    _row(
        "host.softnet_squeezed",
        "node",
        lambda w: w.random.poisson(0.2 + 400 * np.clip(w.cpu - 0.85, 0, 1) + 0.1 * w.push.drops),
    ),
    _row("host.softnet_dropped", "node", lambda w: w.random.poisson(w.push.drops)),
    _row("host.ring_full", "node", lambda w: w.random.poisson(w.push.drops * 0.5)),
    _row("host.tcp_out_segs", "node", lambda w: w.net.tx_packets[:, 0]),
    _row("host.tcp_in_segs", "node", lambda w: w.net.rx_packets[:, 0]),
    _row(
        "host.tcp_timeouts",
        "node",
        lambda w: w.random.poisson(np.minimum(w.net.tx_packets * w.push.loss_out, 1e4)[:, 0] * 0.2),
    ),
    _row(
        "host.tcp_syn_retrans",
        "node",
        lambda w: w.random.poisson(np.minimum(w.by_node(w.serving.arrived) * w.push.loss_in[:, 0], 1e3)),
    ),
    _row("host.tcp_listen_overflow", "node", lambda w: w.random.poisson(20 * np.clip(w.cpu - 0.93, 0, 1))),
    _row("host.tcp_established", "node", lambda w: 20 + w.by_node(w.serving.running + w.serving.waiting) * w.fronts),
    _row("host.tcp_ofo", "node", lambda w: w.random.poisson(np.minimum(w.net.rx_packets * w.push.reorder, 1e6)[:, 0])),
    _row("host.oom_kill", "node", lambda w: w.push.oom),
    _row("host.pcie_bytes", "node", _at_the_root),
)

ENGINE = (
    _row("serve.running", "replica", lambda w: np.floor(w.serving.running)),
    _row("serve.waiting", "replica", lambda w: np.floor(w.serving.waiting)),
    _row("serve.kv_usage", "replica", lambda w: w.serving.cache),
    _row("serve.success", "replica", lambda w: w.serving.ended),
    _row("serve.failure", "replica", lambda w: w.serving.failed),
    _row("serve.prompt_tokens", "replica", lambda w: w.serving.queried),
    _row("serve.generation_tokens", "replica", lambda w: w.serving.tokens),
    _row("serve.gen_throughput", "replica", lambda w: w.serving.tokens),
    _row("serve.preemptions", "replica", lambda w: w.serving.preempted),
    _row("serve.prefix_hits", "replica", lambda w: w.serving.found),
    _row("serve.prefix_queries", "replica", lambda w: w.serving.queried),
    _row(
        "serve.prefix_hit_rate",
        "replica",
        lambda w: np.clip(w.serving.found / np.maximum(w.serving.queried, 1e-9), 0, 1),
    ),
    _row("serve.disagg_prefill_queue", "pd", lambda w: np.floor(w.serving.waiting)),
    _row("serve.disagg_decode_queue", "pd", lambda w: np.floor(w.serving.running * np.clip(w.serving.transfer, 0, 1))),
    _row("serve.kv_xfer_speed", "pd", lambda w: 10.0 / np.maximum(w.push.transfer * np.sqrt(w.push.pieces), 1e-3)),
)

TIMES: Mapping[str, tuple[str, Callable[[World], Spread]]] = {
    "serve.ttft": ("replica", lambda w: Spread(w.serving.started, w.serving.ttft, 0.4)),
    "serve.queue_time": ("replica", lambda w: Spread(w.serving.started, w.serving.queued + 1e-4, 0.5)),
    "serve.prefill_time": ("replica", lambda w: Spread(w.serving.started, w.serving.prefill, 0.5)),
    "serve.itl": ("replica", lambda w: Spread(w.serving.tokens, w.serving.gap, 0.15)),
    "serve.tpot": ("replica", lambda w: Spread(w.serving.ended, w.serving.gap, 0.1)),
    "serve.e2e": (
        "replica",
        lambda w: Spread(w.serving.ended, w.serving.ttft + w.serving.gap * w.serving.output_len, 0.8),
    ),
    "serve.decode_time": ("replica", lambda w: Spread(w.serving.ended, w.serving.gap * w.serving.output_len, 0.8)),
    "serve.prompt_len": ("replica", lambda w: Spread(w.serving.started, w.serving.prompt_len * 0.6, 1.0)),
    "serve.output_len": ("replica", lambda w: Spread(w.serving.ended, w.serving.output_len * 0.7, 0.85)),
    "serve.iteration_tokens": ("replica", lambda w: Spread(w.rounds.rate, w.serving.running + 1, 0.1)),
    "serve.kv_xfer_time": ("pd", lambda w: Spread(w.serving.started, w.serving.transfer, 0.3)),
    "serve.kv_xfer_bytes": ("pd", lambda w: Spread(w.serving.started * w.push.pieces, 3e8 / w.push.pieces, 0.8)),
}
"""Histograms of the serving engine."""

JOB = (
    _row("step.duration", "group", lambda w: _noisy(w, w.rounds.period / np.maximum(1 - w.push.halted, 0.05), 0.003)),
    _row("step.compute_time", "rank", lambda w: _noisy(w, w.rounds.kernels, 0.003)),
    _row("step.wait_time", "rank", lambda w: np.maximum(w.rounds.wait - w.rounds.exchange[:, None], 0) + 1e-5),
    _row("step.comm_time", "rank", lambda w: _noisy(w, w.rounds.exchange[:, None] * np.ones_like(w.rounds.wait), 0.03)),
    _row("step.microbatch_cv", "rank", lambda w: _noisy(w, 0.03 + w.push.uneven[:, None] + 0 * w.rounds.wait, 0.1)),
    _row("nccl.coll_time", "rank", lambda w: 1e6 * (w.rounds.wait + w.rounds.exchange[:, None])),
    _row("nccl.coll_busbw", "rank", lambda w: 1e-9 * w.rounds.sent / np.maximum(w.rounds.exchange, 1e-6)[:, None]),
    _row("nccl.coll_size", "rank", lambda w: w.rounds.sent),
    _row("nccl.coll_seq", "rank", lambda w: w.rounds.rate[:, None] * np.ones_like(w.rounds.wait)),
    _row("nccl.rank_missing", "rank", lambda w: _of_members(w, 1.0 * (w.push.dead.max(axis=1) > 0))),
)

FABRIC = (
    _row("pool.queue", "pool", lambda w: w.serving.waiting),
    _row("pool.requests", "pool", lambda w: w.serving.arrived),
    _row("pool.ready", "pool", lambda w: 1.0 * (w.push.out <= 0)),
)
"""What routers tell; summed over a pool's replicas."""

TABLES: Mapping[str, Sequence[Row]] = {
    "agent": AGENT,
    "counters": COUNTERS,
    "dcgm": DCGM,
    "host": HOST,
    "engine": ENGINE,
    "job": JOB,
    "fabric": FABRIC,
}
