"""Rounds of all jobs in one second: who computes how long, who waits for whom, what the network adds."""

from dataclasses import dataclass

import numpy as np

from skewscope.adapters.simulator.effects import F64, FaultEffects
from skewscope.adapters.simulator.fleet import JOB_KINDS, Mask, SimulatedFleet

ROUNDS_SAMPLED = 24
"""Rounds that are looked at in each second; statistics of more of them would differ little."""
COMPUTE_NOISE = 0.012
"""Deviation of a member's compute time from round to round, as a share (measured per-rank collective times)."""
WIRE_S = 12e-6
"""Time on the wire and in switches that are empty."""
MEDIAN_NOISE = 0.67
"""Median of the size of a normal deviation."""
RETRANSMIT_COST = 30.0
"""A lost packet costs a go-back-N transport about so many times its own time."""


@dataclass
class RoundState:
    """What a second of rounds was like, [job] or [job, member]; NaN where there is no member or no round."""

    period: F64
    """Median time from round to round."""
    variation: F64
    """Of the period, as a coefficient."""
    rate: F64
    """Rounds per second."""
    compute_time: F64
    """Median time until each member has something to send."""
    kernel_time: F64
    """Of that, the time in which kernels run: without waiting for launches or data."""
    lag: F64
    """Median time by which each member begins to send after the first."""
    lag_p95: F64
    last_share: F64
    """Share of rounds in which each member sends last."""
    exchange_time: F64
    """What the network adds to a round."""
    wait_time: F64
    """Time in each round that each member waits for others."""
    sent_bytes: F64
    """Bytes that each member sends in a round."""
    stage_time: F64
    """Time that a stage of a pipeline works."""


def step(fleet: SimulatedFleet, push: FaultEffects, speed: F64, load: F64, random: np.random.Generator) -> RoundState:
    """One second of rounds.

    Args:
        fleet: who is in which job.
        push: what is wrong.
        speed: of each GPU, as a share of a sound one at full clock, [node, gpu].
        load: times the time of an empty round that its batch makes it take, [job].
        random: for the noise.
    """
    at, there = np.maximum(fleet.members, 0), fleet.is_member
    base = np.array([JOB_KINDS[job.kind].round_s for job in fleet.jobs]) * load
    # A node's GPUs wait for each other over NVLink before the node has anything to send.
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
    """Times the time of a sound GPU that each GPU computes; a lost one takes no part."""
    found: F64 = np.where(push.dead > 0, 0.0, push.work * push.slow / np.maximum(speed, 1e-3))
    return found


def _wander_delay(push: FaultEffects, there: Mask, random: np.random.Generator) -> F64:
    """Seconds by which one member, a different one in each round, is late."""
    jobs, places = there.shape
    chosen = (random.random((jobs, ROUNDS_SAMPLED)) * there.sum(axis=1)[:, None]).astype(int)
    hit = chosen[:, None, :] == np.arange(places)[None, :, None]
    late: F64 = hit * push.wander[..., None] * random.uniform(0.6, 1.4, (jobs, 1, ROUNDS_SAMPLED))
    return late


def _exchange(fleet: SimulatedFleet, push: FaultEffects) -> tuple[F64, F64]:
    """Bytes that each member sends, and the time that the slowest exchange of each job takes."""
    at, there = np.maximum(fleet.members, 0), fleet.is_member
    bytes_ = np.array([JOB_KINDS[job.kind].round_bytes for job in fleet.jobs])[:, None] * push.sent
    rails = slice(1, None)
    free = push.capacity[:, rails] * (1 - np.clip(push.paused + push.credits, 0, 0.98))[:, rails]
    taken = np.maximum(push.other_in, push.other_out)[:, rails] / fleet.rail_speed
    # What is left on the port, or what its own receive side can drain, whichever is less.
    drained = 1 - np.clip(np.maximum(push.write_stall, push.pausing), 0, 1)[:, rails]
    left = np.maximum(np.minimum(free - np.minimum(taken, 0.95 * free), drained), 0.01) * fleet.rail_speed
    loss = (push.loss_in + push.loss_out + 0.5 * push.reorder + push.corrupt)[:, rails]
    crowd = 1 + 3 * push.hot_flow[:, rails]
    slow = push.part[:, rails] * (1 + RETRANSMIT_COST * loss) * crowd / left
    each = bytes_ / fleet.plan.rails * slow.max(axis=1)[at] + (2 * push.queue[:, rails].max(axis=1))[at]
    down = push.down[:, rails].mean(axis=1)[at]
    each = np.where(there, each * (1 + 2 * down) + WIRE_S, -np.inf)
    return bytes_, each.max(axis=1)
