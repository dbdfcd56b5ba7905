"""Metrics of the agent on a DPU: rounds, streams and flows on the wire, and the agent's own state."""

import numpy as np

from skewscope.adapters.simulator.fleet import JOB_KINDS
from skewscope.adapters.simulator.metric_spec import add_noise, metric_spec, node_to_members
from skewscope.adapters.simulator.simulation import (
    FRONT_PACKET,
    PROMPT_BYTES,
    SPURIOUS_RETRANSMIT_SHARE,
    FleetSimulation,
)
from skewscope.engine.model.arrays import F64


def _member_to_rails(w: FleetSimulation, x: F64) -> F64:
    """Returns [node, rail] a member's value on all rails of its node."""
    return np.repeat(w.members_to_nodes(np.nan_to_num(x))[:, None], w.fleet.plan.rails, axis=1)


def _job_to_rails(w: FleetSimulation, x: F64) -> F64:
    """Returns [node, rail] a job's value on all rails of its nodes."""
    return np.repeat(w.job_to_nodes(x, np.nan)[:, None], w.fleet.plan.rails, axis=1)


def _onset_lag(w: FleetSimulation) -> F64:
    """Returns [job, member] seconds behind the first member, NaN where unknown."""
    lag = w.rounds.lag
    behind: F64 = lag - np.nanmin(lag, axis=1, keepdims=True)
    return behind


def _flow_share(w: FleetSimulation) -> F64:
    """Returns [node, port] share of the bytes in the largest flow."""
    even = 1 / np.maximum(_flow_count(w), 1.0)
    return np.clip(even * np.exp(w.random.normal(0, 0.03, even.shape)) + w.effects.hot_flow, 0.0, 1.0)


def _flow_count(w: FleetSimulation) -> F64:
    """Returns [node, port] number of flows."""
    peers = np.array([JOB_KINDS[job.kind].peers or len(job.nodes) - 1 for job in w.fleet.jobs], float)
    found = np.zeros_like(w.effects.flows)
    found[:, 1:] = np.round(w.job_to_nodes(peers * 2)[:, None] * w.effects.flows[:, 1:])
    streams = w.job_to_nodes(w.serving.running + w.serving.waiting) * w.is_front_end
    found[:, 0] = np.round((streams + 6) * w.effects.flows[:, 0])
    return found


def _gini(w: FleetSimulation) -> F64:
    """Returns [node, port] Gini of flow sizes: low on rails; 0.3 for clients, 0.5 in 5 % of seconds, measured."""
    even = 0.05 + w.random.normal(0, 0.01, w.effects.hot_flow.shape)
    even[:, 0] = np.clip(w.random.normal(0.3, 0.1, len(even)), 0.05, 0.9)
    return np.clip(even + (1 - even) * w.effects.hot_flow, 0.0, 1.0)


def _idle_share(w: FleetSimulation) -> F64:
    """Returns [node, port] share of time in which the port sends nothing for longer than a moment."""
    going = np.append(w.rounds.rate * w.rounds.exchange_time, 0.0)[w.fleet.job_of_node]
    rails = 1.0 - np.clip(going, 0.0, 1.0)
    found = np.repeat(rails[:, None], w.fleet.ports, axis=1)
    found[:, 0] = np.clip(1.0 - w.net.tx[:, 0] / FRONT_PACKET / 2000.0, 0.05, 1.0)
    return np.clip(np.where(w.effects.down > 0.5, 1.0, found * w.random.uniform(0.97, 1.0, found.shape)), 0.0, 1.0)


def _silent_share(w: FleetSimulation) -> F64:
    """Returns [node, port] the same with nothing received either: all of a halt, little of a round."""
    halted = np.append(np.clip(w.effects.halted, 0, 1), 1.0)[w.fleet.job_of_node]
    found = np.repeat(halted[:, None], w.fleet.ports, axis=1) + 0.6 * _idle_share(w) * (1 - halted[:, None])
    found[:, 1:] += (1 - found[:, 1:]) * w.effects.registering[:, None]
    return np.clip(np.where(w.effects.down > 0.5, 1.0, found), 0.0, 1.0)


AGENT_METRICS = (
    metric_spec("wire.active_flows", "port", _flow_count),
    metric_spec("wire.flow_share_max", "port", _flow_share),
    metric_spec("wire.flow_share_gini", "port", _gini),
    metric_spec("wire.rtt", "port", lambda w: w.net.rtt),
    metric_spec(
        "wire.rtt_p95", "port", lambda w: add_noise(w, w.net.rtt * 1.5 + 0.6 * w.effects.queue + w.effects.tail, 0.08)
    ),
    metric_spec("wire.retransmit_ratio", "port", lambda w: w.net.retransmit_tx, "tx"),
    metric_spec("wire.retransmit_ratio", "port", lambda w: w.net.retransmit_rx, "rx"),
    metric_spec("wire.dup_ack_ratio", "port", lambda w: 0.6 * w.net.retransmit_tx + 0.1 * w.effects.reorder, "rx"),
    metric_spec("wire.dup_ack_ratio", "port", lambda w: 0.6 * w.net.retransmit_rx + 0.4 * w.effects.reorder, "tx"),
    metric_spec(
        "wire.own_retransmit_ratio",
        "port",
        lambda w: np.clip(w.effects.loss_out + SPURIOUS_RETRANSMIT_SHARE * w.peers_mean(w.effects.reorder), 0, 1),
    ),
    metric_spec(
        "wire.out_of_order_ratio", "port", lambda w: np.clip(w.effects.reorder + 0.05 * w.effects.loss_in, 0, 1)
    ),
    metric_spec("wire.ecn_ce_ratio", "rail", lambda w: w.net.marked_share[:, 1:], only="roce"),
    metric_spec("wire.cnp_rate", "rail", lambda w: add_noise(w, w.net.cnps_received[:, 1:], 0.1), only="roce"),
    metric_spec(
        "wire.nak_rate",
        "rail",
        lambda w: w.net.rx_packets[:, 1:] * np.clip(w.effects.loss_in + w.effects.corrupt, 0, 1)[:, 1:],
    ),
    metric_spec("wire.tx_idle_ratio", "port", _idle_share),
    metric_spec("wire.silent_ratio", "port", _silent_share),
    metric_spec(
        "wire.zero_window_ratio",
        "port",
        lambda w: np.clip(w.effects.write_stall * 0.05, 0, 1),
    ),
    metric_spec("wire.bursts", "rail", lambda w: _job_to_rails(w, w.rounds.rate)),
    metric_spec(
        "wire.port_round_period",
        "rail",
        lambda w: add_noise(w, _job_to_rails(w, w.rounds.period / np.maximum(1 - w.effects.halted, 0.05)), 0.003),
    ),
    metric_spec(
        "wire.port_round_period_cv",
        "rail",
        lambda w: add_noise(
            w, _job_to_rails(w, w.rounds.variation + 2 * w.effects.halted * (1 - w.effects.halted)), 0.1
        ),
    ),
    metric_spec("wire.port_round_rate", "rail", lambda w: _job_to_rails(w, w.rounds.rate)),
    metric_spec(
        "wire.port_exchange_time", "rail", lambda w: add_noise(w, _job_to_rails(w, w.rounds.exchange_time), 0.05)
    ),
    metric_spec("wire.own_onset_lag", "rail", lambda w: _member_to_rails(w, w.rounds.lag)),
    metric_spec("wire.own_onset_lag_p95", "rail", lambda w: _member_to_rails(w, w.rounds.lag_p95)),
    metric_spec("wire.own_last_share", "rail", lambda w: _member_to_rails(w, w.rounds.last_share)),
    metric_spec(
        "wire.own_burst_bytes",
        "rail",
        lambda w: add_noise(w, _member_to_rails(w, w.rounds.sent_bytes) / w.fleet.plan.rails, 0.005),
    ),
    metric_spec("wire.stage_time", "stage", lambda w: _member_to_rails(w, w.rounds.stage_time)),
    metric_spec(
        "wire.stage_wait",
        "stage",
        lambda w: _member_to_rails(w, np.where(np.isnan(w.rounds.stage_time), np.nan, w.rounds.wait_time)),
    ),
    metric_spec("wire.onset_lag", "rank", _onset_lag),
    metric_spec("wire.onset_lag_p95", "rank", lambda w: w.rounds.lag_p95),
    metric_spec("wire.last_sender_share", "rank", lambda w: w.rounds.last_share),
    metric_spec("wire.burst_bytes", "rank", lambda w: add_noise(w, w.rounds.sent_bytes, 0.005)),
    metric_spec(
        "wire.member_retransmit_ratio",
        "rank",
        lambda w: node_to_members(w, np.maximum(w.net.retransmit_tx, w.effects.loss_in)[:, 1:].max(axis=1)),
    ),
    metric_spec(
        "wire.round_period",
        "group",
        lambda w: add_noise(w, w.rounds.period / np.maximum(1 - w.effects.halted, 0.05), 0.003),
    ),
    metric_spec(
        "wire.round_period_cv",
        "group",
        lambda w: add_noise(w, w.rounds.variation + 2 * w.effects.halted * (1 - w.effects.halted), 0.1),
    ),
    metric_spec("wire.round_rate", "group", lambda w: w.rounds.rate),
    metric_spec("wire.exchange_time", "group", lambda w: add_noise(w, w.rounds.exchange_time, 0.05)),
    metric_spec("wire.requests", "front", lambda w: w.job_to_nodes(w.serving.arrived)),
    metric_spec(
        "wire.request_bytes",
        "front",
        lambda w: w.job_to_nodes(w.serving.arrived * w.serving.prompt_len + w.effects.giant) * PROMPT_BYTES,
    ),
    metric_spec("wire.responses", "front", lambda w: w.job_to_nodes(w.serving.ended) * _remaining_client_share(w)),
    metric_spec(
        "wire.open_streams",
        "front",
        lambda w: np.floor(w.job_to_nodes(w.serving.running + w.serving.waiting) * _remaining_client_share(w)),
    ),
    metric_spec(
        "wire.first_byte_delay",
        "front",
        lambda w: add_noise(
            w, w.job_to_nodes(_nan_without_requests(w, w.serving.ttft), np.nan) + _client_path_delay(w), 0.05
        ),
    ),
    metric_spec(
        "wire.first_byte_delay_p95",
        "front",
        lambda w: add_noise(
            w, w.job_to_nodes(_nan_without_requests(w, w.serving.ttft * 1.6), np.nan) + 2 * _client_path_delay(w), 0.1
        ),
    ),
    metric_spec(
        "wire.stream_gap",
        "front",
        lambda w: add_noise(
            w, w.job_to_nodes(_nan_without_requests(w, w.serving.token_gap * (1 + w.effects.egress)), np.nan), 0.02
        ),
    ),
    metric_spec(
        "wire.stream_gap_p95",
        "front",
        lambda w: add_noise(
            w,
            w.job_to_nodes(_nan_without_requests(w, w.serving.token_gap_p95), np.nan) + 3 * _client_path_delay(w),
            0.05,
        ),
    ),
    metric_spec(
        "wire.stream_gap_cv",
        "front",
        lambda w: add_noise(
            w,
            w.job_to_nodes(_nan_without_requests(w, w.serving.token_gap_cv), np.nan) + 8 * _client_path_delay(w),
            0.08,
        ),
    ),
    metric_spec(
        "wire.stream_chunks",
        "front",
        lambda w: add_noise(
            w, w.job_to_nodes(_nan_without_requests(w, w.serving.output_len / w.effects.yields), np.nan), 0.08
        ),
    ),
    metric_spec(
        "wire.stream_duration",
        "front",
        lambda w: add_noise(
            w,
            w.job_to_nodes(
                _nan_without_requests(w, w.serving.output_len * w.serving.token_gap / w.effects.yields), np.nan
            ),
            0.08,
        ),
    ),
    metric_spec(
        "wire.egress_unacked",
        "front",
        lambda w: add_noise(w, w.net.tx[:, 0] * (w.net.rtt[:, 0] + 30 * _client_path_delay(w)) + 2000.0, 0.1),
    ),
    metric_spec("wire.request_loss_ratio", "front", lambda w: np.clip(w.effects.loss_in[:, 0], 0, 1)),
    metric_spec(
        "agent.sample_age",
        "node",
        lambda w: (
            w.random.uniform(0.02, 0.08, w.cpu_share.shape)
            + np.maximum(w.effects.arm - 0.7, 0) * 30
            + w.effects.clock_off
        ),
    ),
    metric_spec(
        "dpu.arm_cpu",
        "node",
        lambda w: np.clip(0.12 + w.random.normal(0, 0.01, w.cpu_share.shape) + w.effects.arm, 0, 1),
    ),
    metric_spec(
        "dpu.temperature", "node", lambda w: 62 + w.random.normal(0, 0.5, w.cpu_share.shape) + w.effects.dpu_heat
    ),
    metric_spec("host.up", "node", lambda w: 1.0 - w.effects.mute_host),
)


def _nan_without_requests(w: FleetSimulation, x: F64) -> F64:
    """Replaces values of ports without requests by NaN: there is no stream to measure."""
    return np.where(w.serving.running + w.serving.waiting > 0, x, np.nan)


def _remaining_client_share(w: FleetSimulation) -> F64:
    """Returns [node] share of the clients that wait for their answers."""
    return 1.0 - w.job_to_nodes(np.clip(w.effects.left, 0.0, 1.0))


def _client_path_delay(w: FleetSimulation) -> F64:
    """Returns [node] seconds of delay that the path to the clients adds."""
    return w.effects.queue[:, 0] + 0.2 * w.effects.loss_out[:, 0] + 0.05 * w.effects.loss_in[:, 0]
