"""What real exporters make of a second: which signals, how often, on whom, and with which quirks.

One table a vantage. A row is a signal, a selector, and a function of the world that gives its value on all entities of
a place, in the unit that the catalogue gives; of a counter, what it grows by in this second.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache

import numpy as np

from skewscope.adapters.simulator import rounds as turns
from skewscope.adapters.simulator.agent import AGENT
from skewscope.adapters.simulator.push import F64
from skewscope.adapters.simulator.rows import Row, Spread, Value, noisy, of_members, row
from skewscope.adapters.simulator.serving import MIXED_PREFILL, PREFILL_TOKENS
from skewscope.adapters.simulator.world import RAIL_PACKET, SENT_TWICE, World

READ = 256e3
"""Bytes that one request reads of something large."""
PRIORITY = "p3"
"""The traffic class that is lossless."""


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

SPEAKERS: Mapping[str, tuple[str, ...]] = {
    "counters": ("dts_ethtool", "dts_sysfs", "node_exporter", "node_exporter_ib"),
    "dcgm": ("dcgm",),
    "host": ("node_exporter", "ethtool"),
    "engine": ("vllm",),
    "job": ("nccl_inspector",),
    "fabric": ("gie",),
}
"""Which exporters deliver each source where this fleet runs, as the catalogue calls them; the first that has a name."""
OTHERWISE = frozenset({"pool.queue", "pool.requests"})
"""What a router tells in another way than is simulated: queues of each pod, requests by model."""


@cache
def source_of(signal: str) -> str:
    """The table that a signal stands in, '' for none."""
    if signal in TIMES:
        return "engine"
    return next((name for name, table in TABLES.items() if any(one.signal == signal for one in table)), "")


def rows(fabric: str) -> Iterator[Row]:
    """All rows of a fleet with this fabric."""
    for exporter, table in TABLES.items():
        for one in table:
            if one.only in {"", fabric}:
                yield replace(one, exporter=exporter)


def _own_in(w: World) -> F64:
    """Bytes that come to the function of the job itself."""
    return np.maximum(w.net.rx - w.push.other_in, 0.0)[:, 1:]


def _own_out(w: World) -> F64:
    return np.maximum(w.net.tx - w.net.others + w.push.read_from, 0.0)[:, 1:]


def _reads(w: World) -> F64:
    """Caches are read from who has them; collectives are written."""
    of_caches = w.by_node(w.kind_mask("pd"))[:, None] * _own_in(w) / RAIL_PACKET * 0.01 * _pieces(w)
    return of_caches + w.push.read_from[:, 1:] / READ


def _pieces(w: World) -> F64:
    return w.by_node(w.push.pieces, 1.0)[:, None] * np.ones(w.fleet.plan.rails)


COUNTERS = (
    row("port.tx_bytes", "port", lambda w: w.net.tx * w.push.misread),
    row("port.rx_bytes", "port", lambda w: w.net.rx * w.push.misread),
    row("port.tx_packets", "port", lambda w: w.net.tx_packets),
    row("port.rx_packets", "port", lambda w: w.net.rx_packets),
    row("port.tx_netdev_bytes", "ns", lambda w: w.net.tx[:, :1]),
    row("port.rx_netdev_bytes", "ns", lambda w: w.net.rx[:, :1]),
    row("port.tx_netdev_packets", "ns", lambda w: w.net.tx_packets[:, :1]),
    row("port.rx_netdev_packets", "ns", lambda w: w.net.rx_packets[:, :1]),
    row("port.rx_discards", "port", lambda w: w.net.dropped * w.net.rx_packets),
    row(
        "port.tx_discards",
        "port",
        lambda w: np.where(w.push.loss_out > 0, w.net.tx_packets * w.push.loss_out * 0.3, 0.0),
    ),
    row(
        "port.rx_out_of_buffer",
        "port",
        lambda w: w.net.rx_packets * np.clip(w.push.write_stall - 0.2, 0, 1) * 0.01,
    ),
    row(
        "port.rx_buffer_passed_thres",
        "port",
        lambda w: (
            1e4 * np.clip(w.push.write_stall - 0.05, 0, 1) + 50 * w.push.pausing + w.random.poisson(w.push.bursts)
        ),
    ),
    row("port.rx_crc_errors", "port", lambda w: w.net.rx_packets * w.push.corrupt),
    row("port.rx_symbol_err", "port", lambda w: w.net.rx_packets * w.push.corrupt * 3 + w.push.flaps * 40),
    row("port.rx_corrected_bits", "port", lambda w: w.net.rx * 8 * (1e-8 + 1e-3 * w.push.corrupt)),
    row("port.link_down_events", "port", lambda w: w.push.flaps),
    row("port.carrier", "port", lambda w: 1.0 - (w.push.down > 0.5)),
    row("port.carrier_down_changes", "port", lambda w: w.push.flaps),
    row("port.state", "port", lambda w: np.where(w.push.down > 0.5, 1.0, 4.0)),
    row(
        "port.speed",
        "port",
        lambda w: np.where(np.arange(w.fleet.ports) == 0, 200e9, 400e9) * np.ones((w.fleet.plan.nodes, 1)),
    ),
    row("port.module_temperature", "rail", lambda w: 48 + w.random.normal(0, 0.3, w.push.down[:, 1:].shape)),
    row(
        "port.xmit_wait",
        "rail",
        lambda w: (
            1e9 * np.clip(w.push.credits + w.push.paused + w.net.held, 0, 1)[:, 1:]
            + 1e4 * w.random.exponential(1.0, w.push.down[:, 1:].shape)
        ),
        only="infiniband",
    ),
    row("port.ib_excessive_buffer_overrun_errors", "rail", lambda w: 0 * w.push.down[:, 1:], only="infiniband"),
    row("prio.rx_pause", "rail", lambda w: _pauses(w.push.paused + w.net.held), PRIORITY, "roce"),
    row(
        "prio.rx_pause_time", "rail", lambda w: 1e6 * np.clip(w.push.paused + w.net.held, 0, 1)[:, 1:], PRIORITY, "roce"
    ),
    row("prio.rx_pause_transition", "rail", lambda w: _pauses(w.push.paused + w.net.held) * 0.5, PRIORITY, "roce"),
    row("prio.tx_pause", "rail", lambda w: _pauses(w.push.pausing + w.net.holding), PRIORITY, "roce"),
    row(
        "prio.tx_pause_time",
        "rail",
        lambda w: 1e6 * np.clip(w.push.pausing + w.net.holding, 0, 1)[:, 1:],
        PRIORITY,
        "roce",
    ),
    row("prio.tx_bytes", "rail", lambda w: w.net.tx[:, 1:], PRIORITY, "roce"),
    row("prio.rx_bytes", "rail", lambda w: w.net.rx[:, 1:], PRIORITY, "roce"),
    row("prio.tx_packets", "rail", lambda w: w.net.tx_packets[:, 1:], PRIORITY, "roce"),
    row("prio.rx_packets", "rail", lambda w: w.net.rx_packets[:, 1:], PRIORITY, "roce"),
    row(
        "prio.rx_discards",
        "rail",
        lambda w: 0 * w.net.rx_packets[:, 1:],
        PRIORITY,
        "roce",
    ),
    row("port.tx_pause_storm_warning_events", "rail", lambda w: (w.push.pausing[:, 1:] > 0.6) * 1.0, only="roce"),
    row("port.tx_pause_storm_error_events", "rail", lambda w: (w.push.pausing[:, 1:] > 0.9) * 1.0, only="roce"),
    row("cc.np_cnp_sent", "rail", lambda w: (w.net.notified + w.push.phantom)[:, 1:], only="roce"),
    row("cc.np_ecn_marked_roce_packets", "rail", lambda w: (w.net.marked * w.net.rx_packets)[:, 1:], only="roce"),
    row("cc.rp_cnp_handled", "rail", lambda w: w.net.told[:, 1:], only="roce"),
    row("cc.rp_cnp_ignored", "rail", lambda w: 0 * w.net.told[:, 1:], only="roce"),
    row("rdma.packet_seq_err", "rail", lambda w: (w.net.tx_packets * w.net.again_tx)[:, 1:] * 0.5, only="roce"),
    row(
        "rdma.out_of_sequence",
        "rail",
        lambda w: (w.net.rx_packets * np.clip(w.push.reorder + w.push.loss_in, 0, 1))[:, 1:],
        only="roce",
    ),
    row(
        "rdma.duplicate_request", "rail", lambda w: (w.net.rx_packets * w.push.reorder * SENT_TWICE)[:, 1:], only="roce"
    ),
    row(
        "rdma.local_ack_timeout_err",
        "rail",
        lambda w: w.random.poisson(np.minimum(w.net.tx_packets * w.push.loss_out * 1e-3 + 20 * _cut_off(w), 1e4))[
            :, 1:
        ],
        only="roce",
    ),
    row("rdma.roce_slow_restart", "rail", lambda w: (w.net.tx_packets * w.push.reorder * 0.05)[:, 1:], only="roce"),
    row("rdma.roce_adp_retrans", "rail", lambda w: (w.net.tx_packets * w.push.reorder * 0.05)[:, 1:], only="roce"),
    row(
        "rdma.out_of_buffer",
        "rail",
        lambda w: (w.net.rx_packets * np.clip(w.push.write_stall - 0.4, 0, 1) * 1e-3)[:, 1:],
    ),
    row(
        "rdma.rnr_nak_retry_err",
        "rail",
        lambda w: (w.net.rx_packets * np.clip(w.push.write_stall - 0.4, 0, 1) * 1e-4)[:, 1:],
    ),
    row("rdma.req_transport_retries_exceeded", "rail", lambda w: 3 * _cut_off(w)[:, 1:]),
    row("rdma.req_cqe_error", "rail", lambda w: 3 * _cut_off(w)[:, 1:]),
    row("rdma.req_cqe_flush_error", "rail", lambda w: 30 * (w.push.down[:, 1:] > 0.5)),
    row("rdma.req_remote_access_errors", "rail", lambda w: w.random.poisson(w.push.refused[:, 1:])),
    row("rdma.resp_remote_access_errors", "rail", lambda w: 0 * w.push.refused[:, 1:]),
    row("rdma.req_remote_invalid_request", "rail", lambda w: 0 * w.push.refused[:, 1:]),
    row("rdma.rx_write_requests", "rail", lambda w: _own_in(w) / RAIL_PACKET * 0.02 * _pieces(w)),
    row("rdma.rx_read_requests", "rail", _reads),
    row("vport.tx_rdma_bytes", "rail", _own_out),
    row("vport.rx_rdma_bytes", "rail", _own_in),
    row(
        "vport.tx_rdma_packets",
        "rail",
        lambda w: _own_out(w) / RAIL_PACKET * _pieces(w) ** 0.5,
    ),
    row(
        "vport.rx_rdma_packets",
        "rail",
        lambda w: _own_in(w) / RAIL_PACKET * _pieces(w) ** 0.5,
    ),
    row("vport.rx_eth_bytes", "ns", lambda w: w.net.rx[:, :1]),
    row("vport.tx_eth_bytes", "ns", lambda w: w.net.tx[:, :1]),
    row("rep.rx_bytes", "port", lambda w: w.net.tx),
    row("rep.tx_bytes", "port", lambda w: w.net.rx),
    row(
        "pcie.stall_write",
        "port",
        lambda w: np.round(100 * np.clip(w.push.write_stall, 0, 1)),
    ),
    row(
        "pcie.stall_read",
        "port",
        lambda w: np.round(100 * np.clip(w.push.read_stall, 0, 1)),
    ),
    row("pcie.stall_write_events", "port", lambda w: 1.0 * (w.push.write_stall > 0.02)),
    row("pcie.stall_read_events", "port", lambda w: 1.0 * (w.push.read_stall > 0.02)),
    row(
        "pcie.buffer_overflow",
        "rail",
        lambda w: (w.net.rx_packets * np.clip(w.push.write_stall - 0.3, 0, 1) * 0.01)[:, 1:],
    ),
    row("pcie.nic_dma_bytes", "rail", lambda w: w.net.rx[:, 1:] + w.net.tx[:, 1:]),
    row("pcie.link_width", "port", lambda w: 16.0 * w.push.link_width),
    row("pcie.link_speed", "port", lambda w: 32.0 * np.ones_like(w.push.link_width)),
    row("pcie.l0_to_recovery", "port", lambda w: w.push.pcie_replays),
    row("pcie.crc_error_dllp", "port", lambda w: w.push.pcie_replays * 0.5),
    row("flow.tcp_retrans", "node", lambda w: (w.net.tx_packets * w.net.again_tx)[:, 0]),
    row("flow.new", "node", lambda w: w.random.poisson(np.maximum(w.by_node(w.serving.arrived) * w.fronts + 0.3, 0))),
)


def _pauses(share: F64) -> F64:
    """Pause frames: a port that is stopped is told so again and again."""
    return np.clip(share[:, 1:], 0, 1) * 3e4


def _exchanged(w: World) -> F64:
    """Bytes per second over NVLink: as many for each step as there is to do, however long it takes."""
    return 80e9 * w.gpus.done * w.gpus.clock * w.push.nvlink


def _taken_in(w: World) -> F64:
    """Bytes that come to each GPU over PCIe: from the host, and from the adapters, which write to it directly."""
    by_rail = (w.net.rx - w.push.other_in)[:, 1:].sum(axis=1) / w.push.pcie_in.shape[1]
    found: F64 = 0.4e9 * w.gpus.busy + w.push.pcie_in + np.maximum(by_rail, 0.0)[:, None]
    return found


def _given_out(w: World) -> F64:
    """Bytes that each GPU gives over PCIe: to the host, and to the adapters, which read it directly."""
    by_rail = (w.net.tx - w.net.others)[:, 1:].sum(axis=1) / w.push.pcie_out.shape[1]
    found: F64 = 0.3e9 * w.gpus.busy + w.push.pcie_out + np.maximum(by_rail, 0.0)[:, None]
    return found


DCGM = (
    row("gpu.temperature", "gpu", lambda w: np.round(w.gpus.temperature)),
    row("gpu.mem_temperature", "gpu", lambda w: np.round(w.gpus.temperature * 0.9 + 12)),
    row("gpu.power", "gpu", lambda w: noisy(w, w.gpus.power, 0.01)),
    row("gpu.energy", "gpu", lambda w: w.gpus.power * 1000),
    row("gpu.sm_clock", "gpu", lambda w: np.round(1980.0 * w.gpus.clock / 15) * 15),
    row("gpu.mem_clock", "gpu", lambda w: np.where(w.gpus.thermal > 0.4, 1593.0, 2619.0)),
    row("gpu.util", "gpu", lambda w: np.round(100 * np.clip(w.gpus.busy * 1.1 + _spins(w), 0, 1))),
    row("gpu.engine_active", "gpu", lambda w: np.clip(w.gpus.busy + _spins(w), 0, 1)),
    row("gpu.sm_active", "gpu", lambda w: np.clip(w.gpus.busy * 0.85 + 0.2 * _spins(w), 0, 1)),
    row("gpu.sm_occupancy", "gpu", lambda w: np.clip(w.gpus.busy * 0.35, 0, 1)),
    row("gpu.tensor_active", "gpu", lambda w: np.clip(w.gpus.done * 0.45, 0, 1)),
    row("gpu.dram_active", "gpu", lambda w: np.clip(w.gpus.done * w.gpus.clock * 0.55, 0, 1)),
    row(
        "gpu.mem_copy_util", "gpu", lambda w: np.round(100 * np.clip(w.gpus.busy * 0.3 + w.push.pcie_out / 60e9, 0, 1))
    ),
    row("gpu.fb_used", "gpu", lambda w: np.round(81559.0 * np.clip(_memory(w), 0, 0.995))),
    row("gpu.fb_free", "gpu", lambda w: np.round(81559.0 * (1 - np.clip(_memory(w), 0, 0.995)))),
    row("gpu.pcie_rx", "gpu", lambda w: noisy(w, _taken_in(w), 0.05)),
    row("gpu.pcie_tx", "gpu", lambda w: noisy(w, _given_out(w), 0.05)),
    row("gpu.pcie_rx_total", "gpu", _taken_in),
    row("gpu.pcie_tx_total", "gpu", _given_out),
    row("gpu.pcie_replay", "gpu", lambda w: 0 * w.gpus.busy),
    row("gpu.nvlink_rx", "gpu", lambda w: noisy(w, 0.5 * _exchanged(w), 0.03)),
    row("gpu.nvlink_tx", "gpu", lambda w: noisy(w, 0.5 * _exchanged(w), 0.03)),
    row("gpu.nvlink_bw_total", "gpu", _exchanged),
    row("gpu.nvlink_crc_flit_errors", "gpu", lambda w: w.random.poisson(w.push.nvlink_errors)),
    row("gpu.nvlink_replay_errors", "gpu", lambda w: w.random.poisson(w.push.nvlink_errors * 0.3)),
    row("gpu.nvlink_recovery_errors", "gpu", lambda w: w.random.poisson(w.push.nvlink_errors * 0.02)),
    row("gpu.thermal_violation", "gpu", lambda w: 1e9 * w.gpus.thermal),
    row("gpu.power_violation", "gpu", lambda w: 1e9 * w.gpus.capped * 0.9),
    row("gpu.board_limit_violation", "gpu", lambda w: 0 * w.gpus.capped),
    row("gpu.sync_boost_violation", "gpu", lambda w: 0 * w.gpus.capped),
    row("gpu.low_util_violation", "gpu", lambda w: 1e9 * (w.gpus.busy + _spins(w) < 0.1)),
    row("gpu.reliability_violation", "gpu", lambda w: 0 * w.gpus.capped),
    # 0x40 is slowed by the hardware for heat, 0x4 by the power cap, 0x1 idle.
    row(
        "gpu.throttle_reasons",
        "gpu",
        lambda w: 64.0 * (w.gpus.thermal > 0) + 4.0 * (w.gpus.capped > 0) + 1.0 * (w.gpus.busy < 0.01),
    ),
    row("gpu.xid", "gpu", lambda w: w.push.xid),
    row("gpu.ecc_dbe_vol", "gpu", lambda w: 1.0 * np.isin(w.push.xid, (48, 94, 95))),
    row("gpu.remap_pending", "gpu", lambda w: 1.0 * np.isin(w.push.xid, (63, 64, 94, 95))),
)


def _those_there(value: Value) -> Value:
    """Of a GPU that is lost, or whose controller does not answer, nothing can be read but what the driver logged."""
    return lambda w: np.where((w.push.dead > 0) & np.isin(w.push.xid, (79, 119, 120)), np.nan, value(w))


def _cut_off(w: World) -> F64:
    """Share of a port's connections of which one end is down."""
    down = np.where(w.push.down > 0.5, 1.0, 0.0)
    return np.maximum(down, w.peers_mean(down))


def _spins(w: World) -> F64:
    """Share of time in which a GPU waits inside a collective: its one kernel runs, and computes nothing."""
    return w.spinning * (1 - w.push.dead) * 0.95


def _computed(w: World) -> F64:
    """Of each member, its kernels without those that wait for a sibling's link."""
    with_links, own = turns.times_inside(w.push, w.speed).max(axis=1), turns.times_inside(w.push, w.gpus.clock)
    return w.rounds.kernels * of_members(w, own.max(axis=1) / np.maximum(with_links, 1e-9))


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
    row("host.cpu_util", "node", lambda w: w.cpu),
    row("host.psi_cpu", "node", lambda w: np.clip(np.clip(2 * (w.cpu - 0.7), 0, 1) + w.push.wait_cpu, 0, 1) + 0.002),
    row("host.psi_io", "node", lambda w: np.clip(w.push.wait_io, 0, 1) + 0.001),
    row("host.psi_mem", "node", lambda w: np.clip(w.push.wait_mem, 0, 1)),
    row("host.psi_irq", "node", lambda w: np.clip(w.push.interrupts, 0, 1) + 0.001),
    row("host.cpu_clock", "node", lambda w: 3000 + w.random.normal(0, 10, w.cpu.shape)),
    row("host.napi_poll", "node", lambda w: w.net.rx_packets[:, 0] / 8),
    row("host.softnet_processed", "node", lambda w: w.net.rx_packets[:, 0] + 200),
    row(
        "host.softnet_squeezed",
        "node",
        lambda w: w.random.poisson(0.2 + 400 * np.clip(w.cpu - 0.85, 0, 1) + 0.1 * w.push.drops),
    ),
    row("host.softnet_dropped", "node", lambda w: w.random.poisson(w.push.drops)),
    row("host.ring_full", "node", lambda w: w.random.poisson(w.push.drops * 0.5)),
    row("host.tcp_out_segs", "node", lambda w: w.net.tx_packets[:, 0]),
    row("host.tcp_in_segs", "node", lambda w: w.net.rx_packets[:, 0]),
    row(
        "host.tcp_timeouts",
        "node",
        lambda w: w.random.poisson(np.minimum(w.net.tx_packets * w.push.loss_out, 1e4)[:, 0] * 0.2),
    ),
    row(
        "host.tcp_syn_retrans",
        "node",
        lambda w: w.random.poisson(np.minimum(w.by_node(w.serving.arrived) * w.push.loss_in[:, 0], 1e3)),
    ),
    row("host.tcp_listen_overflow", "node", lambda w: w.random.poisson(20 * np.clip(w.cpu - 0.93, 0, 1))),
    row("host.tcp_established", "node", lambda w: 20 + w.by_node(w.serving.running + w.serving.waiting) * w.fronts),
    row("host.tcp_ofo", "node", lambda w: w.random.poisson(np.minimum(w.net.rx_packets * w.push.reorder, 1e6)[:, 0])),
    row("host.oom_kill", "node", lambda w: w.push.oom),
    row("host.pcie_bytes", "node", _at_the_root),
)

ENGINE = (
    row("serve.running", "replica", lambda w: np.floor(w.serving.running)),
    row("serve.waiting", "replica", lambda w: np.floor(w.serving.waiting)),
    row("serve.kv_usage", "replica", lambda w: w.serving.cache),
    row("serve.success", "replica", lambda w: w.serving.ended),
    row("serve.failure", "replica", lambda w: w.serving.failed),
    row("serve.prompt_tokens", "replica", lambda w: w.serving.queried + w.push.giant),
    row("serve.generation_tokens", "replica", lambda w: w.serving.tokens),
    row("serve.gen_throughput", "replica", lambda w: w.serving.tokens),
    row("serve.preemptions", "replica", lambda w: w.serving.preempted),
    row("serve.prefix_hits", "replica", lambda w: w.serving.found),
    row("serve.prefix_queries", "replica", lambda w: w.serving.queried + w.push.giant),
    row("serve.prefix_hit_rate", "replica", lambda w: w.serving.hits),
    row("serve.disagg_prefill_queue", "pd", lambda w: np.floor(w.serving.waiting)),
    row("serve.disagg_decode_queue", "pd", lambda w: np.floor(w.serving.running * np.clip(w.serving.transfer, 0, 1))),
    row("serve.kv_xfer_speed", "pd", lambda w: 10.0 / np.maximum(w.push.transfer * np.sqrt(w.push.pieces), 1e-3)),
)


def _steps(w: World, share: float) -> Spread:
    """Times between tokens; steps that are mixed with a prefill wait for a share of it."""
    count, mixed = w.serving.tokens / w.push.yields, np.minimum(w.push.mixing, 1.0)
    beside = Spread(count * mixed, w.serving.gap + share * w.serving.prefill, 0.2)
    return Spread(count * (1 - mixed), w.serving.gap, 0.15, beside)


def _giant(w: World, times: float) -> Spread:
    return Spread(np.where(w.push.giant > 0, 1.0, 0.0), w.push.giant * times, 0.05)


TIMES: Mapping[str, tuple[str, Callable[[World], Spread]]] = {
    "serve.ttft": ("replica", lambda w: Spread(w.serving.started, w.serving.ttft, 0.4)),
    "serve.queue_time": ("replica", lambda w: Spread(w.serving.started, w.serving.queued + 1e-4, 0.5)),
    "serve.prefill_time": (
        "replica",
        lambda w: Spread(w.serving.started, w.serving.prefill, 0.5, _giant(w, 1 / PREFILL_TOKENS)),
    ),
    "serve.itl": ("replica", lambda w: _steps(w, MIXED_PREFILL)),
    "serve.tpot": ("replica", lambda w: Spread(w.serving.ended, w.serving.gap / w.push.yields, 0.1)),
    "serve.e2e": (
        "replica",
        lambda w: Spread(w.serving.ended, w.serving.ttft + w.serving.gap / w.push.yields * w.serving.output_len, 0.8),
    ),
    "serve.decode_time": (
        "replica",
        lambda w: Spread(w.serving.ended, w.serving.gap / w.push.yields * w.serving.output_len, 0.8),
    ),
    "serve.prompt_len": (
        "replica",
        lambda w: Spread(w.serving.started, w.serving.prompt_len * 0.6, 1.0, _giant(w, 1.0)),
    ),
    "serve.output_len": ("replica", lambda w: Spread(w.serving.ended, w.serving.output_len * 0.7, 0.85)),
    "serve.iteration_tokens": ("replica", lambda w: Spread(w.rounds.rate, w.serving.running + 1, 0.1)),
    "serve.kv_xfer_time": ("pd", lambda w: Spread(w.serving.started, w.serving.transfer, 0.3)),
    "serve.kv_xfer_bytes": ("pd", lambda w: Spread(w.serving.started * w.push.pieces, 3e8 / w.push.pieces, 0.8)),
}
"""Histograms of the serving engine."""

JOB = (
    row("step.duration", "group", lambda w: noisy(w, w.rounds.period / np.maximum(1 - w.push.halted, 0.05), 0.003)),
    row("step.compute_time", "rank", lambda w: noisy(w, _of_steps(w, _computed(w)), 0.003)),
    row(
        "step.wait_time",
        "rank",
        lambda w: _of_steps(w, np.maximum(w.rounds.wait - w.rounds.exchange[:, None], 0) + 1e-5),
    ),
    row("step.comm_time", "rank", lambda w: noisy(w, w.rounds.exchange[:, None] * np.ones_like(w.rounds.wait), 0.03)),
    row("step.microbatch_cv", "rank", lambda w: noisy(w, 0.03 + w.push.uneven[:, None] + w.push.ragged_own, 0.1)),
    row("nccl.coll_time", "rank", lambda w: 1e6 * (w.rounds.wait + w.rounds.exchange[:, None])),
    row("nccl.coll_busbw", "rank", lambda w: 1e-9 * w.rounds.sent / np.maximum(w.rounds.exchange, 1e-6)[:, None]),
    row("nccl.coll_size", "rank", lambda w: w.rounds.sent),
    row("nccl.coll_seq", "rank", lambda w: w.rounds.rate[:, None] * np.ones_like(w.rounds.wait)),
    row("nccl.rank_missing", "rank", lambda w: of_members(w, 1.0 * (w.push.dead.max(axis=1) > 0))),
)


def _of_steps(w: World, x: F64) -> F64:
    """Unknown while the job stands: no step ends that could be timed."""
    return np.where(w.rounds.rate[:, None] > 0, x, np.nan)


FABRIC = (
    row("pool.queue", "pool", lambda w: w.serving.waiting),
    row("pool.requests", "pool", lambda w: w.serving.arrived),
    row("pool.ready", "pool", lambda w: 1.0 * (w.push.out <= 0)),
)
"""What routers tell; summed over a pool's replicas."""

TABLES: Mapping[str, Sequence[Row]] = {
    "agent": AGENT,
    "counters": COUNTERS,
    "dcgm": tuple(one if one.signal == "gpu.xid" else replace(one, value=_those_there(one.value)) for one in DCGM),
    "host": HOST,
    "engine": ENGINE,
    "job": JOB,
    "fabric": FABRIC,
}
