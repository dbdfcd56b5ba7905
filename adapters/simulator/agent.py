"""What the agent on a DPU sees on the wire: rounds, streams, flows, and how it fares itself."""

import numpy as np

from skewscope.adapters.simulator.fleet import KINDS
from skewscope.adapters.simulator.push import F64
from skewscope.adapters.simulator.rows import noisy, of_members, row
from skewscope.adapters.simulator.world import FRONT_PACKET, PROMPT_BYTES, SENT_TWICE, World


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
    """Rails share evenly; clients do not (0.3, and 0.5 in one second of twenty, as measured)."""
    even = 0.05 + w.random.normal(0, 0.01, w.push.hot_flow.shape)
    even[:, 0] = np.clip(w.random.normal(0.3, 0.1, len(even)), 0.05, 0.9)
    return np.clip(even + (1 - even) * w.push.hot_flow, 0.0, 1.0)


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
    found[:, 1:] += (1 - found[:, 1:]) * w.push.registering[:, None]
    return np.clip(np.where(w.push.down > 0.5, 1.0, found), 0.0, 1.0)


AGENT = (
    row("wire.active_flows", "port", _flows),
    row("wire.flow_share_max", "port", _flow_share),
    row("wire.flow_share_gini", "port", _gini),
    row("wire.rtt", "port", lambda w: w.net.rtt),
    row("wire.rtt_p95", "port", lambda w: noisy(w, w.net.rtt * 1.5 + 0.6 * w.push.queue + w.push.tail, 0.08)),
    row("wire.retransmit_ratio", "port", lambda w: w.net.again_tx, "tx"),
    row("wire.retransmit_ratio", "port", lambda w: w.net.again_rx, "rx"),
    row("wire.dup_ack_ratio", "port", lambda w: 0.6 * w.net.again_tx + 0.1 * w.push.reorder, "rx"),
    row("wire.dup_ack_ratio", "port", lambda w: 0.6 * w.net.again_rx + 0.4 * w.push.reorder, "tx"),
    row(
        "wire.own_retransmit_ratio",
        "port",
        lambda w: np.clip(w.push.loss_out + SENT_TWICE * w.peers_mean(w.push.reorder), 0, 1),
    ),
    row("wire.out_of_order_ratio", "port", lambda w: np.clip(w.push.reorder + 0.05 * w.push.loss_in, 0, 1)),
    row("wire.ecn_ce_ratio", "rail", lambda w: w.net.marked[:, 1:], only="roce"),
    row("wire.cnp_rate", "rail", lambda w: noisy(w, w.net.told[:, 1:], 0.1), only="roce"),
    row(
        "wire.nak_rate",
        "rail",
        lambda w: w.net.rx_packets[:, 1:] * np.clip(w.push.loss_in + w.push.corrupt, 0, 1)[:, 1:],
    ),
    row("wire.tx_idle_ratio", "port", _idle),
    row("wire.silent_ratio", "port", _silent),
    row(
        "wire.zero_window_ratio",
        "port",
        lambda w: np.clip(w.push.write_stall * 0.05, 0, 1),
    ),
    row("wire.bursts", "rail", lambda w: _whole(w, w.rounds.rate)),
    row(
        "wire.port_round_period",
        "rail",
        lambda w: noisy(w, _whole(w, w.rounds.period / np.maximum(1 - w.push.halted, 0.05)), 0.003),
    ),
    row(
        "wire.port_round_period_cv",
        "rail",
        lambda w: noisy(w, _whole(w, w.rounds.variation + 2 * w.push.halted * (1 - w.push.halted)), 0.1),
    ),
    row("wire.port_round_rate", "rail", lambda w: _whole(w, w.rounds.rate)),
    row("wire.port_exchange_time", "rail", lambda w: noisy(w, _whole(w, w.rounds.exchange), 0.05)),
    row("wire.own_onset_lag", "rail", lambda w: _rails(w, w.rounds.lag)),
    row("wire.own_onset_lag_p95", "rail", lambda w: _rails(w, w.rounds.lag_p95)),
    row("wire.own_last_share", "rail", lambda w: _rails(w, w.rounds.last)),
    row("wire.own_burst_bytes", "rail", lambda w: noisy(w, _rails(w, w.rounds.sent) / w.fleet.plan.rails, 0.005)),
    row("wire.stage_time", "stage", lambda w: _rails(w, w.rounds.stage)),
    row("wire.stage_wait", "stage", lambda w: _rails(w, np.where(np.isnan(w.rounds.stage), np.nan, w.rounds.wait))),
    row("wire.onset_lag", "rank", _lag_on_wire),
    row("wire.onset_lag_p95", "rank", lambda w: w.rounds.lag_p95),
    row("wire.last_sender_share", "rank", lambda w: w.rounds.last),
    row("wire.burst_bytes", "rank", lambda w: noisy(w, w.rounds.sent, 0.005)),
    row(
        "wire.member_retransmit_ratio",
        "rank",
        lambda w: of_members(w, np.maximum(w.net.again_tx, w.push.loss_in)[:, 1:].max(axis=1)),
    ),
    row("wire.round_period", "group", lambda w: noisy(w, w.rounds.period / np.maximum(1 - w.push.halted, 0.05), 0.003)),
    row(
        "wire.round_period_cv",
        "group",
        lambda w: noisy(w, w.rounds.variation + 2 * w.push.halted * (1 - w.push.halted), 0.1),
    ),
    row("wire.round_rate", "group", lambda w: w.rounds.rate),
    row("wire.exchange_time", "group", lambda w: noisy(w, w.rounds.exchange, 0.05)),
    row("wire.requests", "front", lambda w: w.by_node(w.serving.arrived)),
    row(
        "wire.request_bytes",
        "front",
        lambda w: w.by_node(w.serving.arrived * w.serving.prompt_len + w.push.giant) * PROMPT_BYTES,
    ),
    row("wire.responses", "front", lambda w: w.by_node(w.serving.ended) * _stayed(w)),
    row(
        "wire.open_streams",
        "front",
        lambda w: np.floor(w.by_node(w.serving.running + w.serving.waiting) * _stayed(w)),
    ),
    row(
        "wire.first_byte_delay",
        "front",
        lambda w: noisy(w, w.by_node(_asked(w, w.serving.ttft), np.nan) + _clients(w), 0.05),
    ),
    row(
        "wire.first_byte_delay_p95",
        "front",
        lambda w: noisy(w, w.by_node(_asked(w, w.serving.ttft * 1.6), np.nan) + 2 * _clients(w), 0.1),
    ),
    row(
        "wire.stream_gap",
        "front",
        lambda w: noisy(w, w.by_node(_asked(w, w.serving.gap * (1 + w.push.egress)), np.nan), 0.02),
    ),
    row(
        "wire.stream_gap_p95",
        "front",
        lambda w: noisy(w, w.by_node(_asked(w, w.serving.gap_p95), np.nan) + 3 * _clients(w), 0.05),
    ),
    row(
        "wire.stream_gap_cv",
        "front",
        lambda w: noisy(w, w.by_node(_asked(w, w.serving.gap_cv), np.nan) + 8 * _clients(w), 0.08),
    ),
    row(
        "wire.stream_chunks",
        "front",
        lambda w: noisy(w, w.by_node(_asked(w, w.serving.output_len / w.push.yields), np.nan), 0.08),
    ),
    row(
        "wire.stream_duration",
        "front",
        lambda w: noisy(w, w.by_node(_asked(w, w.serving.output_len * w.serving.gap / w.push.yields), np.nan), 0.08),
    ),
    row(
        "wire.egress_unacked",
        "front",
        lambda w: noisy(w, w.net.tx[:, 0] * (w.net.rtt[:, 0] + 30 * _clients(w)) + 2000.0, 0.1),
    ),
    row("wire.request_loss_ratio", "front", lambda w: np.clip(w.push.loss_in[:, 0], 0, 1)),
    row(
        "agent.sample_age",
        "node",
        lambda w: w.random.uniform(0.02, 0.08, w.cpu.shape) + np.maximum(w.push.arm - 0.7, 0) * 30 + w.push.clock_off,
    ),
    row("dpu.arm_cpu", "node", lambda w: np.clip(0.12 + w.random.normal(0, 0.01, w.cpu.shape) + w.push.arm, 0, 1)),
    row("dpu.temperature", "node", lambda w: 62 + w.random.normal(0, 0.5, w.cpu.shape) + w.push.dpu_heat),
    row("host.up", "node", lambda w: 1.0 - w.push.mute_host),
)


def _asked(w: World, x: F64) -> F64:
    """Unknown where nobody asks: there is no stream to time."""
    return np.where(w.serving.running + w.serving.waiting > 0, x, np.nan)


def _stayed(w: World) -> F64:
    """Share of the clients of each node that wait for their answers."""
    return 1.0 - w.by_node(np.clip(w.push.left, 0.0, 1.0))


def _clients(w: World) -> F64:
    """Delay that the way to the clients adds."""
    return w.push.queue[:, 0] + 0.2 * w.push.loss_out[:, 0] + 0.05 * w.push.loss_in[:, 0]
