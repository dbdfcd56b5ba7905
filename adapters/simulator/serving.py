"""Simulates replicas for one second: requests arrive, wait, are prefilled, decoded and completed; a fluid model."""

from dataclasses import dataclass, fields

import numpy as np

from skewscope.adapters.simulator.effects import FaultEffects
from skewscope.adapters.simulator.fleet import SimulatedFleet
from skewscope.adapters.simulator.load import RequestDemand, RequestLoad
from skewscope.adapters.simulator.rounds import RoundState
from skewscope.engine.model.arrays import F64, Mask

MIXED_PREFILL = 0.5
"""Share of a prefill that a mixed decode step waits for."""
PREFILL_TOKENS = 24_000.0
"""Prompt tokens per second that a replica can prefill beside decoding."""
MAX_RUNNING = 96.0
CACHE_TOKENS = 400_000.0
"""KV cache capacity of a replica in tokens."""
STEP_PER_RUNNING = 0.006
"""Share by which each running request lengthens a decode step."""
HIT_SHARE = 0.35
"""Share of prompt tokens found in the prefix cache."""
TRANSFER_S = 0.012
"""Seconds of the KV transfer of a usual prompt."""


@dataclass
class ServingState:
    """State and last second of each job, [job] float64; jobs that do not serve are zero."""

    running: F64
    waiting: F64
    arrived: F64
    started: F64
    """Requests whose first token arrived in this second."""
    ended: F64
    failed: F64
    computed_prompt_tokens: F64
    """Prompt tokens computed."""
    prefix_queries: F64
    """Prompt tokens looked up in the prefix cache."""
    prefix_hits: F64
    """Prompt tokens found there."""
    hit_share: F64
    """Share found at the last look-up."""
    tokens: F64
    """Tokens generated."""
    cache_usage: F64
    """Share of the KV cache in use."""
    preempted: F64
    ttft: F64
    queue_time: F64
    """Seconds that a request waits before prefill."""
    prefill_time: F64
    """Seconds of a prefill."""
    token_gap: F64
    """Median seconds between two tokens of a stream."""
    token_gap_p95: F64
    token_gap_cv: F64
    transfer_time: F64
    """Seconds of a KV transfer."""
    prompt_len: F64
    output_len: F64
    batch_load: F64
    """Factor of the time of an empty decode step."""


def initial_state(fleet: SimulatedFleet, load: RequestLoad) -> ServingState:
    """Returns the state of replicas under normal load."""
    none = np.zeros(len(fleet.jobs))
    made = ServingState(*(none.copy() for _ in fields(ServingState)))
    made.hit_share = none + HIT_SHARE
    made.running = np.where(fleet.is_serving, load.rate * load.output * 0.03, 0.0)
    made.batch_load = 1 + STEP_PER_RUNNING * made.running
    return made


def step(
    now: ServingState,
    fleet: SimulatedFleet,
    push: FaultEffects,
    demand: RequestDemand,
    turns: RoundState,
    random: np.random.Generator,
) -> None:
    """Simulates one second with this demand and these decode steps."""
    serves, pace, rounds = fleet.is_serving, turns.period, turns.rate
    now.prompt_len, now.output_len = demand.prompt * push.prompt, demand.output * push.output
    now.arrived = np.where(serves, random.poisson(np.maximum(demand.rate * push.arrivals, 0.0)), 0.0)
    refused = np.minimum(random.poisson(now.arrived * push.failing), now.arrived)
    now.failed = np.minimum(refused + random.poisson(now.arrived * push.left), now.arrived)
    now.waiting = now.waiting + now.arrived - refused
    going = np.clip(rounds * pace, 0.0, 1.0)
    _admit(now, push, going, random)
    each = rounds * push.yields * (1 - np.clip(push.padding, 0, 1))
    # Arrivals and completions are, on average, in the middle of the second.
    lasting = np.maximum(now.running - now.started / 2, 0.0) / (1 + each / now.output_len / 2)
    now.tokens = np.where(serves, lasting * each, 0.0)
    ended = random.poisson(np.maximum(now.tokens / now.output_len, 0.0))
    now.ended = np.minimum(ended, now.running)
    now.running = np.maximum(now.running - now.ended, 0.0)
    _update_cache(now, push, random)
    now.batch_load = 1 + STEP_PER_RUNNING * now.running
    apart = np.array([job.kind == "pd" for job in fleet.jobs])
    _update_delays(now, push, pace, going, apart)


def _admit(now: ServingState, push: FaultEffects, going: F64, random: np.random.Generator) -> None:
    hits = np.clip(HIT_SHARE + push.hits, 0.0, 0.98)
    computed = np.maximum(now.prompt_len * (1 - hits), 16.0)
    able = PREFILL_TOKENS * push.prefill * push.admitting * going / computed
    room = np.minimum(MAX_RUNNING * (1 - push.stranded) - now.running, _admissible_requests(now, push))
    # Prompt lengths vary.
    able *= np.exp(random.normal(0.0, 0.1, able.shape))
    now.started = np.floor(np.clip(np.minimum(now.waiting, np.minimum(able, room)), 0.0, None) + 0.5)
    now.started = np.minimum(now.started, now.waiting)
    now.waiting = now.waiting - now.started
    now.running = now.running + now.started
    now.prefix_queries = now.started * now.prompt_len
    now.prefix_hits = now.prefix_queries * hits
    now.hit_share = np.where(now.prefix_queries > 0, hits, now.hit_share)
    now.computed_prompt_tokens = now.prefix_queries - now.prefix_hits
    now.prefill_time = computed / (PREFILL_TOKENS * push.prefill) * 2.0
    now.queue_time = now.waiting / np.maximum(np.minimum(able, np.maximum(room, 0.2)), 0.05)


def _admissible_requests(now: ServingState, push: FaultEffects) -> F64:
    """Returns [job] requests whose prompts fit into the cache; the length of their answers is unknown yet."""
    taken = now.running * (now.prompt_len + now.output_len / 2)
    return np.maximum((0.98 * CACHE_TOKENS * push.cache * (1 - push.stranded) - taken) / now.prompt_len, 0.0)


def _update_cache(now: ServingState, push: FaultEffects, random: np.random.Generator) -> None:
    each = now.prompt_len + now.output_len / 2
    requested = now.running * each / (CACHE_TOKENS * push.cache * np.maximum(1 - push.stranded, 1e-3))
    over = np.maximum(requested - 1.0, 0.0)
    # Requests that outgrow the cache are preempted: they wait again.
    # An admitted request has cache for its prompt, not yet for its answer.
    grows = now.started * now.output_len / 2 / each + 0.01 * now.running
    full = np.clip((requested - 0.9) / 0.07, 0.0, 1.0)
    now.preempted = np.minimum(np.floor(over * now.running) + random.poisson(full * grows), now.running)
    now.running = now.running - now.preempted
    now.waiting = now.waiting + now.preempted
    now.cache_usage = np.clip(push.stranded + (1 - push.stranded) * requested, 0.0, 1.0)


def _update_delays(now: ServingState, push: FaultEffects, pace: F64, going: F64, apart: Mask) -> None:
    going = np.maximum(going, 0.02)
    now.transfer_time = TRANSFER_S * push.transfer * np.sqrt(push.pieces)
    # The cache is transferred before the first token only with separate roles.
    now.ttft = now.queue_time + now.prefill_time + np.where(apart, now.transfer_time, 0.0) + pace / going
    now.token_gap = pace / going
    mixed = 0.03 + push.mixing
    long = now.prefill_time * MIXED_PREFILL
    # The slowest 5 % of steps define the 95th percentile: mixed steps if there are more of them.
    now.token_gap_p95 = now.token_gap * 1.15 + np.where(mixed > 0.05, long * np.minimum(mixed * 4, 1.5), 0.0)
    now.token_gap_cv = np.sqrt(
        0.08**2 + mixed * (long / np.maximum(now.token_gap, 1e-6)) ** 2 * push.mixing + push.ragged**2
    )
