"""GPUs for one second: heat, power, clocks. First-order physics with the figures of an H100-class board."""

from dataclasses import dataclass

import numpy as np

from skewscope.adapters.simulator.fleet import GPUS
from skewscope.adapters.simulator.push import F64, Push

BOARD_W = 700.0
IDLE_W = 90.0
AMBIENT_C = 32.0
KELVIN_PER_WATT = 0.055
"""A board at full power stands some 38 K above the air."""
SETTLING_S = 12.0
"""Time in which a board comes most of the way to its new temperature."""
HOT_C = 87.0
"""Where the driver begins to slow the clock down."""
SLOWER_PER_KELVIN = 0.05
CLOCK_MHZ = 1980.0
IDLE_CLOCK = 345.0 / CLOCK_MHZ
POWER_OF_CLOCK = 2.4
"""Dynamic power grows with frequency times the square of voltage, and that with frequency."""


@dataclass
class Gpus:
    """State of all GPUs, [node, gpu]."""

    temperature: F64
    quality: F64
    """How much power a chip needs for its clock, about 1: chips differ by manufacture."""
    clock: F64
    """Share of the full clock."""
    power: F64
    thermal: F64
    """Share of the second in which heat slowed it."""
    capped: F64
    """Share of the second in which the power limit slowed it."""
    busy: F64
    """Share of the second in which it computed."""
    done: F64
    """Share of the second for which a sound one would have computed to do the same."""


def fresh(nodes: int, random: np.random.Generator) -> Gpus:
    """GPUs that have been at work for a while."""
    shape = nodes, GPUS
    quality = np.clip(random.normal(1.0, 0.02, shape), 0.95, 1.05)
    none = (np.zeros(shape) for _ in range(4))
    return Gpus(np.full(shape, 58.0), quality, np.ones(shape), np.full(shape, 450.0), *none)


def wanted_power(gpus: Gpus) -> F64:
    """What each board would draw at its full clock, in watts."""
    found: F64 = IDLE_W + (BOARD_W - IDLE_W) * 0.92 * gpus.done * gpus.quality
    return found


def step(gpus: Gpus, push: Push, busy: F64) -> None:
    """One second, in which each GPU computes for a share `busy` of the time."""
    alive = 1.0 - push.dead
    gpus.busy = busy * alive
    gpus.done = gpus.busy / push.slow
    wanted = np.where(push.dead > 0, IDLE_CLOCK, push.clock)
    hot = np.maximum(gpus.temperature - HOT_C, 0.0)
    by_heat = np.clip(1.0 - SLOWER_PER_KELVIN * hot, 0.35, 1.0)
    full = IDLE_W + (wanted_power(gpus) - IDLE_W) * (1 + push.leak)
    limit = BOARD_W * push.power_limit
    # What the limit leaves for dynamic power sets the clock.
    room = np.maximum(limit - IDLE_W, 30.0) / np.maximum(full - IDLE_W, 1.0)
    by_power = np.clip(room ** (1 / POWER_OF_CLOCK), 0.3, 1.0)
    gpus.thermal = np.where(by_heat < np.minimum(by_power, wanted), 1.0 - by_heat, 0.0)
    gpus.capped = np.where(by_power < np.minimum(by_heat, wanted) - 1e-9, 1.0, 0.0)
    gpus.clock = np.minimum(np.minimum(by_heat, by_power), wanted)
    gpus.power = IDLE_W + (full - IDLE_W) * gpus.clock**POWER_OF_CLOCK
    target = AMBIENT_C + KELVIN_PER_WATT * gpus.power + push.heat
    gpus.temperature += (target - gpus.temperature) * (1 - np.exp(-1 / SETTLING_S))
