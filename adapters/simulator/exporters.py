"""Metrics of real exporters: which signals, how often, on which entities, and with which quirks.

One table per vantage. A row is a signal, a selector, and a function of the simulation that returns its value on all
entities of a scope, in the catalogue's unit; for a counter, its increment in this second.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache

import numpy as np

from skewscope.adapters.simulator import rounds as turns
from skewscope.adapters.simulator.agent_metrics import AGENT_METRICS
from skewscope.adapters.simulator.metric_spec import (
    Distribution,
    MetricFunction,
    MetricSpec,
    add_noise,
    metric_spec,
    node_to_members,
)
from skewscope.adapters.simulator.serving import MIXED_PREFILL, PREFILL_TOKENS
from skewscope.adapters.simulator.simulation import RAIL_PACKET, SPURIOUS_RETRANSMIT_SHARE, FleetSimulation
from skewscope.engine.model.arrays import F64

READ_SIZE = 256e3
"""Bytes per read request of a large transfer."""
PRIORITY = "p3"
"""The lossless traffic class."""


PROFILE_PERIODS: Mapping[str, Mapping[str, float]] = {
    "fine": {"agent": 1, "counters": 1, "dcgm": 1, "host": 1, "engine": 1, "job": 1, "fabric": 1},
    "usual": {"agent": 1, "counters": 1, "dcgm": 30, "host": 15, "engine": 5, "job": 5, "fabric": 10},
}
"""Scrape period of each source by profile: all each second, or as operators configure them."""
MUTE_FIELDS = {
    "agent": "mute_agent",
    "counters": "mute_agent",
    "dcgm": "mute_gpu",
    "host": "mute_host",
    "engine": "mute_engine",
    "job": "mute_host",
    "fabric": "",
}

EXPORTERS: Mapping[str, tuple[str, ...]] = {
    "counters": ("dts_ethtool", "dts_sysfs", "node_exporter", "node_exporter_ib"),
    "dcgm": ("dcgm",),
    "host": ("node_exporter", "ethtool"),
    "engine": ("vllm",),
    "job": ("nccl_inspector",),
    "fabric": ("gie",),
}
"""Exporters of each source in this fleet, as named in the catalogue; the first that has a name counts."""
SIGNALS_WITHOUT_EXPORTER = frozenset({"pool.queue", "pool.requests"})
"""Signals that a router reports in another form than simulated: queues per pod, requests by model."""


@cache
def source_of(signal: str) -> str:
    """Returns the table of a signal, '' for none."""
    if signal in ENGINE_HISTOGRAMS:
        return "engine"
    return next((name for name, table in METRICS_BY_SOURCE.items() if any(one.signal == signal for one in table)), "")


def metric_specs(fabric: str) -> Iterator[MetricSpec]:
    """Yields all rows of a fleet with this fabric."""
    for exporter, table in METRICS_BY_SOURCE.items():
        for one in table:
            if one.only_fabric in {"", fabric}:
                yield replace(one, exporter=exporter)


def _job_rx_bytes(w: FleetSimulation) -> F64:
    """Returns [node, rail] bytes received by the job's own function."""
    return np.maximum(w.net.rx - w.effects.other_in, 0.0)[:, 1:]


def _job_tx_bytes(w: FleetSimulation) -> F64:
    """Returns [node, rail] bytes sent by the job's own function."""
    return np.maximum(w.net.tx - w.net.other_tx + w.effects.read_from, 0.0)[:, 1:]


def _rdma_read_requests(w: FleetSimulation) -> F64:
    """Returns [node, rail] read requests: caches are read from their holders; collectives are written."""
    of_caches = w.job_to_nodes(w.kind_mask("pd"))[:, None] * _job_rx_bytes(w) / RAIL_PACKET * 0.01 * _piece_factor(w)
    return of_caches + w.effects.read_from[:, 1:] / READ_SIZE


def _piece_factor(w: FleetSimulation) -> F64:
    return w.job_to_nodes(w.effects.pieces, 1.0)[:, None] * np.ones(w.fleet.plan.rails)


COUNTER_METRICS = (
    metric_spec("port.tx_bytes", "port", lambda w: w.net.tx * w.effects.misread),
    metric_spec("port.rx_bytes", "port", lambda w: w.net.rx * w.effects.misread),
    metric_spec("port.tx_packets", "port", lambda w: w.net.tx_packets),
    metric_spec("port.rx_packets", "port", lambda w: w.net.rx_packets),
    metric_spec("port.tx_netdev_bytes", "ns", lambda w: w.net.tx[:, :1]),
    metric_spec("port.rx_netdev_bytes", "ns", lambda w: w.net.rx[:, :1]),
    metric_spec("port.tx_netdev_packets", "ns", lambda w: w.net.tx_packets[:, :1]),
    metric_spec("port.rx_netdev_packets", "ns", lambda w: w.net.rx_packets[:, :1]),
    metric_spec("port.rx_discards", "port", lambda w: w.net.dropped_share * w.net.rx_packets),
    metric_spec(
        "port.tx_discards",
        "port",
        lambda w: np.where(w.effects.loss_out > 0, w.net.tx_packets * w.effects.loss_out * 0.3, 0.0),
    ),
    metric_spec(
        "port.rx_out_of_buffer",
        "port",
        lambda w: w.net.rx_packets * np.clip(w.effects.write_stall - 0.2, 0, 1) * 0.01,
    ),
    metric_spec(
        "port.rx_buffer_passed_thres",
        "port",
        lambda w: (
            1e4 * np.clip(w.effects.write_stall - 0.05, 0, 1)
            + 50 * w.effects.pausing
            + w.random.poisson(w.effects.bursts)
        ),
    ),
    metric_spec("port.rx_crc_errors", "port", lambda w: w.net.rx_packets * w.effects.corrupt),
    metric_spec(
        "port.rx_symbol_err", "port", lambda w: w.net.rx_packets * w.effects.corrupt * 3 + w.effects.flaps * 40
    ),
    metric_spec("port.rx_corrected_bits", "port", lambda w: w.net.rx * 8 * (1e-8 + 1e-3 * w.effects.corrupt)),
    metric_spec("port.link_down_events", "port", lambda w: w.effects.flaps),
    metric_spec("port.carrier", "port", lambda w: 1.0 - (w.effects.down > 0.5)),
    metric_spec("port.carrier_down_changes", "port", lambda w: w.effects.flaps),
    metric_spec("port.state", "port", lambda w: np.where(w.effects.down > 0.5, 1.0, 4.0)),
    metric_spec(
        "port.speed",
        "port",
        lambda w: np.where(np.arange(w.fleet.ports) == 0, 200e9, 400e9) * np.ones((w.fleet.plan.nodes, 1)),
    ),
    metric_spec("port.module_temperature", "rail", lambda w: 48 + w.random.normal(0, 0.3, w.effects.down[:, 1:].shape)),
    metric_spec(
        "port.xmit_wait",
        "rail",
        lambda w: (
            1e9 * np.clip(w.effects.credits + w.effects.paused + w.net.paused_share, 0, 1)[:, 1:]
            + 1e4 * w.random.exponential(1.0, w.effects.down[:, 1:].shape)
        ),
        only="infiniband",
    ),
    metric_spec(
        "port.ib_excessive_buffer_overrun_errors", "rail", lambda w: 0 * w.effects.down[:, 1:], only="infiniband"
    ),
    metric_spec(
        "prio.rx_pause", "rail", lambda w: _pause_frames(w.effects.paused + w.net.paused_share), PRIORITY, "roce"
    ),
    metric_spec(
        "prio.rx_pause_time",
        "rail",
        lambda w: 1e6 * np.clip(w.effects.paused + w.net.paused_share, 0, 1)[:, 1:],
        PRIORITY,
        "roce",
    ),
    metric_spec(
        "prio.rx_pause_transition",
        "rail",
        lambda w: _pause_frames(w.effects.paused + w.net.paused_share) * 0.5,
        PRIORITY,
        "roce",
    ),
    metric_spec(
        "prio.tx_pause", "rail", lambda w: _pause_frames(w.effects.pausing + w.net.pausing_share), PRIORITY, "roce"
    ),
    metric_spec(
        "prio.tx_pause_time",
        "rail",
        lambda w: 1e6 * np.clip(w.effects.pausing + w.net.pausing_share, 0, 1)[:, 1:],
        PRIORITY,
        "roce",
    ),
    metric_spec("prio.tx_bytes", "rail", lambda w: w.net.tx[:, 1:], PRIORITY, "roce"),
    metric_spec("prio.rx_bytes", "rail", lambda w: w.net.rx[:, 1:], PRIORITY, "roce"),
    metric_spec("prio.tx_packets", "rail", lambda w: w.net.tx_packets[:, 1:], PRIORITY, "roce"),
    metric_spec("prio.rx_packets", "rail", lambda w: w.net.rx_packets[:, 1:], PRIORITY, "roce"),
    metric_spec(
        "prio.rx_discards",
        "rail",
        lambda w: 0 * w.net.rx_packets[:, 1:],
        PRIORITY,
        "roce",
    ),
    metric_spec(
        "port.tx_pause_storm_warning_events", "rail", lambda w: (w.effects.pausing[:, 1:] > 0.6) * 1.0, only="roce"
    ),
    metric_spec(
        "port.tx_pause_storm_error_events", "rail", lambda w: (w.effects.pausing[:, 1:] > 0.9) * 1.0, only="roce"
    ),
    metric_spec("cc.np_cnp_sent", "rail", lambda w: (w.net.cnps_sent + w.effects.phantom)[:, 1:], only="roce"),
    metric_spec(
        "cc.np_ecn_marked_roce_packets", "rail", lambda w: (w.net.marked_share * w.net.rx_packets)[:, 1:], only="roce"
    ),
    metric_spec("cc.rp_cnp_handled", "rail", lambda w: w.net.cnps_received[:, 1:], only="roce"),
    metric_spec("cc.rp_cnp_ignored", "rail", lambda w: 0 * w.net.cnps_received[:, 1:], only="roce"),
    metric_spec(
        "rdma.packet_seq_err", "rail", lambda w: (w.net.tx_packets * w.net.retransmit_tx)[:, 1:] * 0.5, only="roce"
    ),
    metric_spec(
        "rdma.out_of_sequence",
        "rail",
        lambda w: (w.net.rx_packets * np.clip(w.effects.reorder + w.effects.loss_in, 0, 1))[:, 1:],
        only="roce",
    ),
    metric_spec(
        "rdma.duplicate_request",
        "rail",
        lambda w: (w.net.rx_packets * w.effects.reorder * SPURIOUS_RETRANSMIT_SHARE)[:, 1:],
        only="roce",
    ),
    metric_spec(
        "rdma.local_ack_timeout_err",
        "rail",
        lambda w: w.random.poisson(
            np.minimum(w.net.tx_packets * w.effects.loss_out * 1e-3 + 20 * _broken_connection_share(w), 1e4)
        )[:, 1:],
        only="roce",
    ),
    metric_spec(
        "rdma.roce_slow_restart", "rail", lambda w: (w.net.tx_packets * w.effects.reorder * 0.05)[:, 1:], only="roce"
    ),
    metric_spec(
        "rdma.roce_adp_retrans", "rail", lambda w: (w.net.tx_packets * w.effects.reorder * 0.05)[:, 1:], only="roce"
    ),
    metric_spec(
        "rdma.out_of_buffer",
        "rail",
        lambda w: (w.net.rx_packets * np.clip(w.effects.write_stall - 0.4, 0, 1) * 1e-3)[:, 1:],
    ),
    metric_spec(
        "rdma.rnr_nak_retry_err",
        "rail",
        lambda w: (w.net.rx_packets * np.clip(w.effects.write_stall - 0.4, 0, 1) * 1e-4)[:, 1:],
    ),
    metric_spec("rdma.req_transport_retries_exceeded", "rail", lambda w: 3 * _broken_connection_share(w)[:, 1:]),
    metric_spec("rdma.req_cqe_error", "rail", lambda w: 3 * _broken_connection_share(w)[:, 1:]),
    metric_spec("rdma.req_cqe_flush_error", "rail", lambda w: 30 * (w.effects.down[:, 1:] > 0.5)),
    metric_spec("rdma.req_remote_access_errors", "rail", lambda w: w.random.poisson(w.effects.refused[:, 1:])),
    metric_spec("rdma.resp_remote_access_errors", "rail", lambda w: 0 * w.effects.refused[:, 1:]),
    metric_spec("rdma.req_remote_invalid_request", "rail", lambda w: 0 * w.effects.refused[:, 1:]),
    metric_spec("rdma.rx_write_requests", "rail", lambda w: _job_rx_bytes(w) / RAIL_PACKET * 0.02 * _piece_factor(w)),
    metric_spec("rdma.rx_read_requests", "rail", _rdma_read_requests),
    metric_spec("vport.tx_rdma_bytes", "rail", _job_tx_bytes),
    metric_spec("vport.rx_rdma_bytes", "rail", _job_rx_bytes),
    metric_spec(
        "vport.tx_rdma_packets",
        "rail",
        lambda w: _job_tx_bytes(w) / RAIL_PACKET * _piece_factor(w) ** 0.5,
    ),
    metric_spec(
        "vport.rx_rdma_packets",
        "rail",
        lambda w: _job_rx_bytes(w) / RAIL_PACKET * _piece_factor(w) ** 0.5,
    ),
    metric_spec("vport.rx_eth_bytes", "ns", lambda w: w.net.rx[:, :1]),
    metric_spec("vport.tx_eth_bytes", "ns", lambda w: w.net.tx[:, :1]),
    metric_spec("rep.rx_bytes", "port", lambda w: w.net.tx),
    metric_spec("rep.tx_bytes", "port", lambda w: w.net.rx),
    metric_spec(
        "pcie.stall_write",
        "port",
        lambda w: np.round(100 * np.clip(w.effects.write_stall, 0, 1)),
    ),
    metric_spec(
        "pcie.stall_read",
        "port",
        lambda w: np.round(100 * np.clip(w.effects.read_stall, 0, 1)),
    ),
    metric_spec("pcie.stall_write_events", "port", lambda w: 1.0 * (w.effects.write_stall > 0.02)),
    metric_spec("pcie.stall_read_events", "port", lambda w: 1.0 * (w.effects.read_stall > 0.02)),
    metric_spec(
        "pcie.buffer_overflow",
        "rail",
        lambda w: (w.net.rx_packets * np.clip(w.effects.write_stall - 0.3, 0, 1) * 0.01)[:, 1:],
    ),
    metric_spec("pcie.nic_dma_bytes", "rail", lambda w: w.net.rx[:, 1:] + w.net.tx[:, 1:]),
    metric_spec("pcie.link_width", "port", lambda w: 16.0 * w.effects.link_width),
    metric_spec("pcie.link_speed", "port", lambda w: 32.0 * np.ones_like(w.effects.link_width)),
    metric_spec("pcie.l0_to_recovery", "port", lambda w: w.effects.pcie_replays),
    metric_spec("pcie.crc_error_dllp", "port", lambda w: w.effects.pcie_replays * 0.5),
    metric_spec("flow.tcp_retrans", "node", lambda w: (w.net.tx_packets * w.net.retransmit_tx)[:, 0]),
    metric_spec(
        "flow.new",
        "node",
        lambda w: w.random.poisson(np.maximum(w.job_to_nodes(w.serving.arrived) * w.is_front_end + 0.3, 0)),
    ),
)


def _pause_frames(share: F64) -> F64:
    """Returns pause frames for a share of paused time: a pause is repeated until it ends."""
    return np.clip(share[:, 1:], 0, 1) * 3e4


def _nvlink_bytes(w: FleetSimulation) -> F64:
    """Returns [node, gpu] NVLink bytes per second: a fixed amount per step, however long it takes."""
    return 80e9 * w.gpus.work_done * w.gpus.clock * w.effects.nvlink


def _pcie_rx_bytes(w: FleetSimulation) -> F64:
    """Returns [node, gpu] PCIe bytes received: from the host, and written directly by the adapters."""
    by_rail = (w.net.rx - w.effects.other_in)[:, 1:].sum(axis=1) / w.effects.pcie_in.shape[1]
    found: F64 = 0.4e9 * w.gpus.busy_share + w.effects.pcie_in + np.maximum(by_rail, 0.0)[:, None]
    return found


def _pcie_tx_bytes(w: FleetSimulation) -> F64:
    """Returns [node, gpu] PCIe bytes sent: to the host, and read directly by the adapters."""
    by_rail = (w.net.tx - w.net.other_tx)[:, 1:].sum(axis=1) / w.effects.pcie_out.shape[1]
    found: F64 = 0.3e9 * w.gpus.busy_share + w.effects.pcie_out + np.maximum(by_rail, 0.0)[:, None]
    return found


DCGM_METRICS = (
    metric_spec("gpu.temperature", "gpu", lambda w: np.round(w.gpus.temperature)),
    metric_spec("gpu.mem_temperature", "gpu", lambda w: np.round(w.gpus.temperature * 0.9 + 12)),
    metric_spec("gpu.power", "gpu", lambda w: add_noise(w, w.gpus.power, 0.01)),
    metric_spec("gpu.energy", "gpu", lambda w: w.gpus.power * 1000),
    metric_spec("gpu.sm_clock", "gpu", lambda w: np.round(1980.0 * w.gpus.clock / 15) * 15),
    metric_spec("gpu.mem_clock", "gpu", lambda w: np.where(w.gpus.thermal_share > 0.4, 1593.0, 2619.0)),
    metric_spec(
        "gpu.util", "gpu", lambda w: np.round(100 * np.clip(w.gpus.busy_share * 1.1 + _spinning_share(w), 0, 1))
    ),
    metric_spec("gpu.engine_active", "gpu", lambda w: np.clip(w.gpus.busy_share + _spinning_share(w), 0, 1)),
    metric_spec("gpu.sm_active", "gpu", lambda w: np.clip(w.gpus.busy_share * 0.85 + 0.2 * _spinning_share(w), 0, 1)),
    metric_spec("gpu.sm_occupancy", "gpu", lambda w: np.clip(w.gpus.busy_share * 0.35, 0, 1)),
    metric_spec("gpu.tensor_active", "gpu", lambda w: np.clip(w.gpus.work_done * 0.45, 0, 1)),
    metric_spec("gpu.dram_active", "gpu", lambda w: np.clip(w.gpus.work_done * w.gpus.clock * 0.55, 0, 1)),
    metric_spec(
        "gpu.mem_copy_util",
        "gpu",
        lambda w: np.round(100 * np.clip(w.gpus.busy_share * 0.3 + w.effects.pcie_out / 60e9, 0, 1)),
    ),
    metric_spec("gpu.fb_used", "gpu", lambda w: np.round(81559.0 * np.clip(_memory_share(w), 0, 0.995))),
    metric_spec("gpu.fb_free", "gpu", lambda w: np.round(81559.0 * (1 - np.clip(_memory_share(w), 0, 0.995)))),
    metric_spec("gpu.pcie_rx", "gpu", lambda w: add_noise(w, _pcie_rx_bytes(w), 0.05)),
    metric_spec("gpu.pcie_tx", "gpu", lambda w: add_noise(w, _pcie_tx_bytes(w), 0.05)),
    metric_spec("gpu.pcie_rx_total", "gpu", _pcie_rx_bytes),
    metric_spec("gpu.pcie_tx_total", "gpu", _pcie_tx_bytes),
    metric_spec("gpu.pcie_replay", "gpu", lambda w: 0 * w.gpus.busy_share),
    metric_spec("gpu.nvlink_rx", "gpu", lambda w: add_noise(w, 0.5 * _nvlink_bytes(w), 0.03)),
    metric_spec("gpu.nvlink_tx", "gpu", lambda w: add_noise(w, 0.5 * _nvlink_bytes(w), 0.03)),
    metric_spec("gpu.nvlink_bw_total", "gpu", _nvlink_bytes),
    metric_spec("gpu.nvlink_crc_flit_errors", "gpu", lambda w: w.random.poisson(w.effects.nvlink_errors)),
    metric_spec("gpu.nvlink_replay_errors", "gpu", lambda w: w.random.poisson(w.effects.nvlink_errors * 0.3)),
    metric_spec("gpu.nvlink_recovery_errors", "gpu", lambda w: w.random.poisson(w.effects.nvlink_errors * 0.02)),
    metric_spec("gpu.thermal_violation", "gpu", lambda w: 1e9 * w.gpus.thermal_share),
    metric_spec("gpu.power_violation", "gpu", lambda w: 1e9 * w.gpus.capped_share * 0.9),
    metric_spec("gpu.board_limit_violation", "gpu", lambda w: 0 * w.gpus.capped_share),
    metric_spec("gpu.sync_boost_violation", "gpu", lambda w: 0 * w.gpus.capped_share),
    metric_spec("gpu.low_util_violation", "gpu", lambda w: 1e9 * (w.gpus.busy_share + _spinning_share(w) < 0.1)),
    metric_spec("gpu.reliability_violation", "gpu", lambda w: 0 * w.gpus.capped_share),
    # 0x40: hardware thermal slowdown, 0x4: software power cap, 0x1: idle.
    metric_spec(
        "gpu.throttle_reasons",
        "gpu",
        lambda w: (
            64.0 * (w.gpus.thermal_share > 0) + 4.0 * (w.gpus.capped_share > 0) + 1.0 * (w.gpus.busy_share < 0.01)
        ),
    ),
    metric_spec("gpu.xid", "gpu", lambda w: w.effects.xid),
    metric_spec("gpu.ecc_dbe_vol", "gpu", lambda w: 1.0 * np.isin(w.effects.xid, (48, 94, 95))),
    metric_spec("gpu.remap_pending", "gpu", lambda w: 1.0 * np.isin(w.effects.xid, (63, 64, 94, 95))),
)


def _nan_for_lost_gpus(value: MetricFunction) -> MetricFunction:
    """Makes values NaN for GPUs that are lost or whose controller does not respond; only the driver's log remains."""
    return lambda w: np.where((w.effects.dead > 0) & np.isin(w.effects.xid, (79, 119, 120)), np.nan, value(w))


def _broken_connection_share(w: FleetSimulation) -> F64:
    """Returns [node, port] share of connections with an end that is down."""
    down = np.where(w.effects.down > 0.5, 1.0, 0.0)
    return np.maximum(down, w.peers_mean(down))


def _spinning_share(w: FleetSimulation) -> F64:
    """Returns [node, gpu] share of time spent inside a collective kernel, which runs but computes nothing."""
    return w.spinning_share * (1 - w.effects.dead) * 0.95


def _compute_time(w: FleetSimulation) -> F64:
    """Returns [job, member] kernel time without kernels that wait for a sibling's link."""
    with_links, own = (
        turns.relative_gpu_times(w.effects, w.speed).max(axis=1),
        turns.relative_gpu_times(w.effects, w.gpus.clock),
    )
    return w.rounds.kernel_time * node_to_members(w, own.max(axis=1) / np.maximum(with_links, 1e-9))


def _root_complex_bytes(w: FleetSimulation) -> F64:
    """Returns [node] bytes at the root complex: GPU copies and the front end; rails normally bypass it."""
    rails = (w.net.rx + w.net.tx)[:, 1:].sum(axis=1)
    copies = (w.effects.pcie_in + w.effects.pcie_out).sum(axis=1)
    found: F64 = 2e9 + copies + w.net.rx[:, 0] + w.net.tx[:, 0] + w.effects.detour * rails
    return found


def _memory_share(w: FleetSimulation) -> F64:
    """Returns [node, gpu] share of memory in use: weights, the whole KV cache pool, and fragmentation."""
    used = np.where(w.fleet.job_of_node >= 0, 0.88, 0.01)[:, None]
    return used + w.effects.held


HOST_METRICS = (
    metric_spec("host.cpu_util", "node", lambda w: w.cpu_share),
    metric_spec(
        "host.psi_cpu",
        "node",
        lambda w: np.clip(np.clip(2 * (w.cpu_share - 0.7), 0, 1) + w.effects.wait_cpu, 0, 1) + 0.002,
    ),
    metric_spec("host.psi_io", "node", lambda w: np.clip(w.effects.wait_io, 0, 1) + 0.001),
    metric_spec("host.psi_mem", "node", lambda w: np.clip(w.effects.wait_mem, 0, 1)),
    metric_spec("host.psi_irq", "node", lambda w: np.clip(w.effects.interrupts, 0, 1) + 0.001),
    metric_spec("host.cpu_clock", "node", lambda w: 3000 + w.random.normal(0, 10, w.cpu_share.shape)),
    metric_spec("host.napi_poll", "node", lambda w: w.net.rx_packets[:, 0] / 8),
    metric_spec("host.softnet_processed", "node", lambda w: w.net.rx_packets[:, 0] + 200),
    metric_spec(
        "host.softnet_squeezed",
        "node",
        lambda w: w.random.poisson(0.2 + 400 * np.clip(w.cpu_share - 0.85, 0, 1) + 0.1 * w.effects.drops),
    ),
    metric_spec("host.softnet_dropped", "node", lambda w: w.random.poisson(w.effects.drops)),
    metric_spec("host.ring_full", "node", lambda w: w.random.poisson(w.effects.drops * 0.5)),
    metric_spec("host.tcp_out_segs", "node", lambda w: w.net.tx_packets[:, 0]),
    metric_spec("host.tcp_in_segs", "node", lambda w: w.net.rx_packets[:, 0]),
    metric_spec(
        "host.tcp_timeouts",
        "node",
        lambda w: w.random.poisson(np.minimum(w.net.tx_packets * w.effects.loss_out, 1e4)[:, 0] * 0.2),
    ),
    metric_spec(
        "host.tcp_syn_retrans",
        "node",
        lambda w: w.random.poisson(np.minimum(w.job_to_nodes(w.serving.arrived) * w.effects.loss_in[:, 0], 1e3)),
    ),
    metric_spec("host.tcp_listen_overflow", "node", lambda w: w.random.poisson(20 * np.clip(w.cpu_share - 0.93, 0, 1))),
    metric_spec(
        "host.tcp_established",
        "node",
        lambda w: 20 + w.job_to_nodes(w.serving.running + w.serving.waiting) * w.is_front_end,
    ),
    metric_spec(
        "host.tcp_ofo", "node", lambda w: w.random.poisson(np.minimum(w.net.rx_packets * w.effects.reorder, 1e6)[:, 0])
    ),
    metric_spec("host.oom_kill", "node", lambda w: w.effects.oom),
    metric_spec("host.pcie_bytes", "node", _root_complex_bytes),
)

ENGINE_METRICS = (
    metric_spec("serve.running", "replica", lambda w: np.floor(w.serving.running)),
    metric_spec("serve.waiting", "replica", lambda w: np.floor(w.serving.waiting)),
    metric_spec("serve.kv_usage", "replica", lambda w: w.serving.cache_usage),
    metric_spec("serve.success", "replica", lambda w: w.serving.ended),
    metric_spec("serve.failure", "replica", lambda w: w.serving.failed),
    metric_spec("serve.prompt_tokens", "replica", lambda w: w.serving.prefix_queries + w.effects.giant),
    metric_spec("serve.generation_tokens", "replica", lambda w: w.serving.tokens),
    metric_spec("serve.gen_throughput", "replica", lambda w: w.serving.tokens),
    metric_spec("serve.preemptions", "replica", lambda w: w.serving.preempted),
    metric_spec("serve.prefix_hits", "replica", lambda w: w.serving.prefix_hits),
    metric_spec("serve.prefix_queries", "replica", lambda w: w.serving.prefix_queries + w.effects.giant),
    metric_spec("serve.prefix_hit_rate", "replica", lambda w: w.serving.hit_share),
    metric_spec("serve.disagg_prefill_queue", "pd", lambda w: np.floor(w.serving.waiting)),
    metric_spec(
        "serve.disagg_decode_queue",
        "pd",
        lambda w: np.floor(w.serving.running * np.clip(w.serving.transfer_time, 0, 1)),
    ),
    metric_spec(
        "serve.kv_xfer_speed", "pd", lambda w: 10.0 / np.maximum(w.effects.transfer * np.sqrt(w.effects.pieces), 1e-3)
    ),
)


def _token_gap_distribution(w: FleetSimulation, share: float) -> Distribution:
    """Returns the distribution of times between tokens; steps mixed with a prefill wait for a share of it."""
    count, mixed = w.serving.tokens / w.effects.yields, np.minimum(w.effects.mixing, 1.0)
    beside = Distribution(count * mixed, w.serving.token_gap + share * w.serving.prefill_time, 0.2)
    return Distribution(count * (1 - mixed), w.serving.token_gap, 0.15, beside)


def _giant_prompt_distribution(w: FleetSimulation, times: float) -> Distribution:
    return Distribution(np.where(w.effects.giant > 0, 1.0, 0.0), w.effects.giant * times, 0.05)


ENGINE_HISTOGRAMS: Mapping[str, tuple[str, Callable[[FleetSimulation], Distribution]]] = {
    "serve.ttft": ("replica", lambda w: Distribution(w.serving.started, w.serving.ttft, 0.4)),
    "serve.queue_time": ("replica", lambda w: Distribution(w.serving.started, w.serving.queue_time + 1e-4, 0.5)),
    "serve.prefill_time": (
        "replica",
        lambda w: Distribution(
            w.serving.started, w.serving.prefill_time, 0.5, _giant_prompt_distribution(w, 1 / PREFILL_TOKENS)
        ),
    ),
    "serve.itl": ("replica", lambda w: _token_gap_distribution(w, MIXED_PREFILL)),
    "serve.tpot": ("replica", lambda w: Distribution(w.serving.ended, w.serving.token_gap / w.effects.yields, 0.1)),
    "serve.e2e": (
        "replica",
        lambda w: Distribution(
            w.serving.ended, w.serving.ttft + w.serving.token_gap / w.effects.yields * w.serving.output_len, 0.8
        ),
    ),
    "serve.decode_time": (
        "replica",
        lambda w: Distribution(w.serving.ended, w.serving.token_gap / w.effects.yields * w.serving.output_len, 0.8),
    ),
    "serve.prompt_len": (
        "replica",
        lambda w: Distribution(w.serving.started, w.serving.prompt_len * 0.6, 1.0, _giant_prompt_distribution(w, 1.0)),
    ),
    "serve.output_len": ("replica", lambda w: Distribution(w.serving.ended, w.serving.output_len * 0.7, 0.85)),
    "serve.iteration_tokens": ("replica", lambda w: Distribution(w.rounds.rate, w.serving.running + 1, 0.1)),
    "serve.kv_xfer_time": ("pd", lambda w: Distribution(w.serving.started, w.serving.transfer_time, 0.3)),
    "serve.kv_xfer_bytes": (
        "pd",
        lambda w: Distribution(w.serving.started * w.effects.pieces, 3e8 / w.effects.pieces, 0.8),
    ),
}
"""Histograms of the serving engine."""

JOB_METRICS = (
    metric_spec(
        "step.duration",
        "group",
        lambda w: add_noise(w, w.rounds.period / np.maximum(1 - w.effects.halted, 0.05), 0.003),
    ),
    metric_spec("step.compute_time", "rank", lambda w: add_noise(w, _nan_during_halt(w, _compute_time(w)), 0.003)),
    metric_spec(
        "step.wait_time",
        "rank",
        lambda w: _nan_during_halt(w, np.maximum(w.rounds.wait_time - w.rounds.exchange_time[:, None], 0) + 1e-5),
    ),
    metric_spec(
        "step.comm_time",
        "rank",
        lambda w: add_noise(w, w.rounds.exchange_time[:, None] * np.ones_like(w.rounds.wait_time), 0.03),
    ),
    metric_spec(
        "step.microbatch_cv",
        "rank",
        lambda w: add_noise(w, 0.03 + w.effects.uneven[:, None] + w.effects.ragged_own, 0.1),
    ),
    metric_spec("nccl.coll_time", "rank", lambda w: 1e6 * (w.rounds.wait_time + w.rounds.exchange_time[:, None])),
    metric_spec(
        "nccl.coll_busbw",
        "rank",
        lambda w: 1e-9 * w.rounds.sent_bytes / np.maximum(w.rounds.exchange_time, 1e-6)[:, None],
    ),
    metric_spec("nccl.coll_size", "rank", lambda w: w.rounds.sent_bytes),
    metric_spec("nccl.coll_seq", "rank", lambda w: w.rounds.rate[:, None] * np.ones_like(w.rounds.wait_time)),
    metric_spec("nccl.rank_missing", "rank", lambda w: node_to_members(w, 1.0 * (w.effects.dead.max(axis=1) > 0))),
)


def _nan_during_halt(w: FleetSimulation, x: F64) -> F64:
    """Replaces values of halted jobs by NaN: no step ends that could be timed."""
    return np.where(w.rounds.rate[:, None] > 0, x, np.nan)


FABRIC_METRICS = (
    metric_spec("pool.queue", "pool", lambda w: w.serving.waiting),
    metric_spec("pool.requests", "pool", lambda w: w.serving.arrived),
    metric_spec("pool.ready", "pool", lambda w: 1.0 * (w.effects.out <= 0)),
)
"""Metrics of routers, summed over a pool's replicas."""

METRICS_BY_SOURCE: Mapping[str, Sequence[MetricSpec]] = {
    "agent": AGENT_METRICS,
    "counters": COUNTER_METRICS,
    "dcgm": tuple(
        one if one.signal == "gpu.xid" else replace(one, value=_nan_for_lost_gpus(one.value)) for one in DCGM_METRICS
    ),
    "host": HOST_METRICS,
    "engine": ENGINE_METRICS,
    "job": JOB_METRICS,
    "fabric": FABRIC_METRICS,
}
