"""GPUs for one second: heat, power, clocks. First-order physics with the figures of an H100-class board."""

from dataclasses import dataclass

import numpy as np

from skewscope.adapters.simulator.effects import F64, FaultEffects
from skewscope.adapters.simulator.fleet import GPUS_PER_NODE

BOARD_W = 700.0
IDLE_W = 90.0
AMBIENT_C = 32.0
KELVIN_PER_WATT = 0.055
"""A board at full power stands some 38 K above the air."""
TIME_CONSTANT_S = 12.0
"""Time in which a board comes most of the way to its new temperature."""
THROTTLE_C = 87.0
"""Where the driver begins to slow the clock down."""
SLOWDOWN_PER_KELVIN = 0.05
CLOCK_MHZ = 1980.0
IDLE_CLOCK = 345.0 / CLOCK_MHZ
POWER_OF_CLOCK = 2.4
"""Dynamic power grows with frequency times the square of voltage, and that with frequency."""


@dataclass
class GpuState:
    """State of all GPUs, [node, gpu]."""

    temperature: F64
    quality: F64
    """How much power a chip needs for its clock, about 1: chips differ by manufacture."""
    clock: F64
    """Share of the full clock."""
    power: F64
    thermal_share: F64
    """Share of the second in which heat slowed it."""
    capped_share: F64
    """Share of the second in which the power limit slowed it."""
    busy_share: F64
    """Share of the second in which it computed."""
    work_done: F64
    """Share of the second for which a sound one would have computed to do the same."""


def initial_state(nodes: int, random: np.random.Generator) -> GpuState:
    """GPUs that have been at work for a while."""
    shape = nodes, GPUS_PER_NODE
    quality = np.clip(random.normal(1.0, 0.02, shape), 0.95, 1.05)
    none = (np.zeros(shape) for _ in range(4))
    return GpuState(np.full(shape, 58.0), quality, np.ones(shape), np.full(shape, 450.0), *none)


def full_clock_power(gpus: GpuState) -> F64:
    """What each board would draw at its full clock, in watts."""
    found: F64 = IDLE_W + (BOARD_W - IDLE_W) * 0.92 * gpus.work_done * gpus.quality
    return found


def step(gpus: GpuState, push: FaultEffects, busy: F64) -> None:
    """One second, in which each GPU computes for a share `busy` of the time."""
    alive = 1.0 - push.dead
    gpus.busy_share = busy * alive
    gpus.work_done = gpus.busy_share / push.slow
    wanted = np.where(push.dead > 0, IDLE_CLOCK, push.clock)
    hot = np.maximum(gpus.temperature - THROTTLE_C, 0.0)
    by_heat = np.clip(1.0 - SLOWDOWN_PER_KELVIN * hot, 0.35, 1.0)
    full = IDLE_W + (full_clock_power(gpus) - IDLE_W) * (1 + push.leak)
    limit = BOARD_W * push.power_limit
    # What the limit leaves for dynamic power sets the clock.
    room = np.maximum(limit - IDLE_W, 30.0) / np.maximum(full - IDLE_W, 1.0)
    by_power = np.clip(room ** (1 / POWER_OF_CLOCK), 0.3, 1.0)
    gpus.thermal_share = np.where(by_heat < np.minimum(by_power, wanted), 1.0 - by_heat, 0.0)
    gpus.capped_share = np.where(by_power < np.minimum(by_heat, wanted) - 1e-9, 1.0, 0.0)
    gpus.clock = np.minimum(np.minimum(by_heat, by_power), wanted)
    gpus.power = IDLE_W + (full - IDLE_W) * gpus.clock**POWER_OF_CLOCK
    target = AMBIENT_C + KELVIN_PER_WATT * gpus.power + push.heat
    gpus.temperature += (target - gpus.temperature) * (1 - np.exp(-1 / TIME_CONSTANT_S))
