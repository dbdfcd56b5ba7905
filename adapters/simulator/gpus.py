"""Simulates GPUs for one second: heat, power, clocks. First-order physics with figures of an H100-class board."""

from dataclasses import dataclass

import numpy as np

from skewscope.adapters.simulator.effects import FaultEffects
from skewscope.adapters.simulator.fleet import GPUS_PER_NODE
from skewscope.engine.model.arrays import F64

BOARD_W = 700.0
IDLE_W = 90.0
AMBIENT_C = 32.0
KELVIN_PER_WATT = 0.055
"""Kelvin per watt: a board at full power is some 38 K above the air."""
TIME_CONSTANT_S = 12.0
"""Seconds; the time constant of a board's temperature."""
THROTTLE_C = 87.0
"""Degrees Celsius at which the driver lowers the clock."""
SLOWDOWN_PER_KELVIN = 0.05
CLOCK_MHZ = 1980.0
IDLE_CLOCK = 345.0 / CLOCK_MHZ
POWER_OF_CLOCK = 2.4
"""Exponent: dynamic power is proportional to frequency times voltage squared, and voltage to frequency."""


@dataclass
class GpuState:
    """State of all GPUs, [node, gpu] float64."""

    temperature: F64
    quality: F64
    """Relative power for the same clock, about 1: chips vary by manufacture."""
    clock: F64
    """Share of the full clock."""
    power: F64
    thermal_share: F64
    """Share of the second of thermal throttling."""
    capped_share: F64
    """Share of the second of power capping."""
    busy_share: F64
    """Share of the second of computation."""
    work_done: F64
    """Share of the second that a healthy GPU would need for the same work."""


def initial_state(nodes: int, random: np.random.Generator) -> GpuState:
    """Returns the state of GPUs that have been working for a while."""
    shape = nodes, GPUS_PER_NODE
    quality = np.clip(random.normal(1.0, 0.02, shape), 0.95, 1.05)
    none = (np.zeros(shape) for _ in range(4))
    return GpuState(np.full(shape, 58.0), quality, np.ones(shape), np.full(shape, 450.0), *none)


def full_clock_power(gpus: GpuState) -> F64:
    """Returns [node, gpu] watts of each board at its full clock."""
    found: F64 = IDLE_W + (BOARD_W - IDLE_W) * 0.92 * gpus.work_done * gpus.quality
    return found


def step(gpus: GpuState, push: FaultEffects, busy: F64) -> None:
    """Simulates one second in which each GPU computes for a share `busy` of the time."""
    alive = 1.0 - push.dead
    gpus.busy_share = busy * alive
    gpus.work_done = gpus.busy_share / push.slow
    requested = np.where(push.dead > 0, IDLE_CLOCK, push.clock)
    hot = np.maximum(gpus.temperature - THROTTLE_C, 0.0)
    by_heat = np.clip(1.0 - SLOWDOWN_PER_KELVIN * hot, 0.35, 1.0)
    full = IDLE_W + (full_clock_power(gpus) - IDLE_W) * (1 + push.leak)
    limit = BOARD_W * push.power_limit
    # The power that the limit leaves for computation determines the clock.
    room = np.maximum(limit - IDLE_W, 30.0) / np.maximum(full - IDLE_W, 1.0)
    by_power = np.clip(room ** (1 / POWER_OF_CLOCK), 0.3, 1.0)
    gpus.thermal_share = np.where(by_heat < np.minimum(by_power, requested), 1.0 - by_heat, 0.0)
    gpus.capped_share = np.where(by_power < np.minimum(by_heat, requested) - 1e-9, 1.0, 0.0)
    gpus.clock = np.minimum(np.minimum(by_heat, by_power), requested)
    gpus.power = IDLE_W + (full - IDLE_W) * gpus.clock**POWER_OF_CLOCK
    target = AMBIENT_C + KELVIN_PER_WATT * gpus.power + push.heat
    gpus.temperature += (target - gpus.temperature) * (1 - np.exp(-1 / TIME_CONSTANT_S))
