"""Simulates the rounds of all jobs in one second: computation, waiting, and the network's share."""

from dataclasses import dataclass

import numpy as np

from skewscope.adapters.simulator.effects import FaultEffects
from skewscope.adapters.simulator.fleet import JOB_KINDS, SimulatedFleet
from skewscope.engine.model.arrays import F64, Mask

ROUNDS_SAMPLED = 24
"""Rounds sampled per second; the statistics of more would differ little."""
COMPUTE_NOISE = 0.012
"""Relative deviation of a member's compute time between rounds (measured per-rank collective times)."""
WIRE_S = 12e-6
"""Seconds on the wire and in empty switches."""
MEDIAN_NOISE = 0.67
"""Median of the absolute value of a standard normal deviate."""
RETRANSMIT_COST = 30.0
"""Cost of a lost packet with a go-back-N transport, in packet times."""


@dataclass
class RoundState:
    """A second of rounds, [job] or [job, member] float64; NaN where there is no member or no round."""

    period: F64
    """Median seconds per round."""
    variation: F64
    """Coefficient of variation of the period."""
    rate: F64
    """Rounds per second."""
    compute_time: F64
    """Median seconds until each member is ready to send."""
    kernel_time: F64
    """Seconds of kernels within that: without waits for launches or data."""
    lag: F64
    """Median seconds by which each member starts to send after the first."""
    lag_p95: F64
    last_share: F64
    """Share of rounds in which each member sends last."""
    exchange_time: F64
    """Seconds that the network adds per round."""
    wait_time: F64
    """Seconds per round that each member waits for others."""
    sent_bytes: F64
    """Bytes that each member sends per round."""
    stage_time: F64
    """Seconds that a pipeline stage works."""


def step(fleet: SimulatedFleet, push: FaultEffects, speed: F64, load: F64, random: np.random.Generator) -> RoundState:
    """Simulates one second of rounds.

    Args:
        fleet: the jobs and their members.
        push: the effects of faults.
        speed: [node, gpu] relative to a healthy GPU at full clock.
        load: [job] factor of the round time due to the batch.
        random: for the noise.
    """
    at, there = np.maximum(fleet.members, 0), fleet.is_member
    base = np.array([JOB_KINDS[job.kind].round_s for job in fleet.jobs]) * load
    # The GPUs of a node synchronise over NVLink before the node sends.
    slowest = relative_gpu_times(push, speed).max(axis=1)
    slowest = np.where(slowest > 0, slowest, 1.0)
    stall = push.stall.max(axis=1) + push.launch
    mean = base[:, None] * push.share * slowest[at] + stall[at]
    noise = random.normal(0.0, COMPUTE_NOISE, (*mean.shape, ROUNDS_SAMPLED))
    late = np.abs(random.normal(0.0, 1.0, (*mean.shape, ROUNDS_SAMPLED))) * push.launch_noise[at][..., None]
    compute = np.where(
        there[..., None], mean[..., None] * (1 + noise) + late + _wander_delay(push, there, random), np.nan
    )
    sent, exchange = _exchange(fleet, push)
    pipe = fleet.is_pipeline
    # A pipeline turns at the pace of its slowest stage; the others are barriers of all members.
    turn = np.nanmax(compute, axis=1) + exchange[:, None] * np.where(pipe, 0.3, 1.0)[:, None]
    with np.errstate(invalid="ignore"):
        first = np.nanmin(compute, axis=1, keepdims=True)
        lag = np.where(there[..., None], compute - first, np.nan)
        last = (compute >= np.nanmax(compute, axis=1, keepdims=True)).mean(axis=2)
    period = np.median(turn, axis=1)
    middle = np.median(compute, axis=2)
    going = 1.0 - np.clip(push.halted, 0.0, 1.0)
    return RoundState(
        period=period,
        variation=turn.std(axis=1) / turn.mean(axis=1),
        rate=going / period,
        compute_time=middle,
        kernel_time=np.where(
            there, np.maximum(middle - stall[at] - MEDIAN_NOISE * push.launch_noise[at], 0.05 * middle), np.nan
        ),
        lag=np.median(lag, axis=2),
        lag_p95=np.quantile(lag, 0.95, axis=2),
        last_share=np.where(there, last, np.nan),
        exchange_time=exchange,
        wait_time=np.where(there, period[:, None] - middle, np.nan),
        sent_bytes=np.where(there, sent, np.nan),
        stage_time=np.where(there & pipe[:, None], middle, np.nan),
    )


def relative_gpu_times(push: FaultEffects, speed: F64) -> F64:
    """Returns [node, gpu] compute time relative to a healthy GPU; a lost one is omitted."""
    found: F64 = np.where(push.dead > 0, 0.0, push.work * push.slow / np.maximum(speed, 1e-3))
    return found


def _wander_delay(push: FaultEffects, there: Mask, random: np.random.Generator) -> F64:
    """Returns [job, member, round] seconds of delay of one member, a different one in each round."""
    jobs, places = there.shape
    chosen = (random.random((jobs, ROUNDS_SAMPLED)) * there.sum(axis=1)[:, None]).astype(int)
    hit = chosen[:, None, :] == np.arange(places)[None, :, None]
    late: F64 = hit * push.wander[..., None] * random.uniform(0.6, 1.4, (jobs, 1, ROUNDS_SAMPLED))
    return late


def _exchange(fleet: SimulatedFleet, push: FaultEffects) -> tuple[F64, F64]:
    """Returns [job, member] bytes sent, and [job] seconds of the slowest exchange."""
    at, there = np.maximum(fleet.members, 0), fleet.is_member
    bytes_ = np.array([JOB_KINDS[job.kind].round_bytes for job in fleet.jobs])[:, None] * push.sent
    rails = slice(1, None)
    free = push.capacity[:, rails] * (1 - np.clip(push.paused + push.credits, 0, 0.98))[:, rails]
    taken = np.maximum(push.other_in, push.other_out)[:, rails] / fleet.rail_speed
    # The capacity left on the port, or of its receive side, whichever is less.
    drained = 1 - np.clip(np.maximum(push.write_stall, push.pausing), 0, 1)[:, rails]
    left = np.maximum(np.minimum(free - np.minimum(taken, 0.95 * free), drained), 0.01) * fleet.rail_speed
    loss = (push.loss_in + push.loss_out + 0.5 * push.reorder + push.corrupt)[:, rails]
    crowd = 1 + 3 * push.hot_flow[:, rails]
    slow = push.part[:, rails] * (1 + RETRANSMIT_COST * loss) * crowd / left
    each = bytes_ / fleet.plan.rails * slow.max(axis=1)[at] + (2 * push.queue[:, rails].max(axis=1))[at]
    down = push.down[:, rails].mean(axis=1)[at]
    each = np.where(there, each * (1 + 2 * down) + WIRE_S, -np.inf)
    return bytes_, each.max(axis=1)
