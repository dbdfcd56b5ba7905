"""Adapts the share of observed flows to a CPU budget.

A share is lowered as soon as one second is too expensive, and raised only after many cheap ones: every change makes the
reducer of a port lose its state, since the set of flows changes.
"""

from dataclasses import dataclass

from skewscope.adapters.agent.bpf import FULL_SHARE

MIN_SHARE = 1
CALM_TICKS = 30
"""Cheap ticks before the share is raised; doubled each time that this was too early."""
MAX_CALM_TICKS = 960
TARGET_UTILISATION = 0.8
"""Share of the budget that is aimed at."""
LOW_UTILISATION = 0.5
"""Share of the budget below which a tick counts as cheap."""
INITIAL_COST = 2e-6
"""Seconds per packet, before any measurement."""
MIN_PACKETS = 2000
"""Packets in a tick from which their cost can be measured."""


@dataclass
class FlowSampling:
    """The sampled share of one port, in 256ths."""

    share: int = FULL_SHARE
    calm_ticks: int = CALM_TICKS
    cheap_ticks: int = 0
    was_raised: bool = False

    def lower(self, factor: float) -> bool:
        """Lowers the share by a factor below one; returns whether it changed. Below the minimum it becomes zero."""
        before = self.share
        self.share = min(before - 1, max(int(before * factor), MIN_SHARE)) if before else 0
        if self.was_raised:
            self.calm_ticks = min(2 * self.calm_ticks, MAX_CALM_TICKS)
        self.cheap_ticks, self.was_raised = 0, False
        return self.share != before

    def record_tick(self, used: float) -> bool:
        """Counts a tick that used this share of the budget; returns whether the share was raised."""
        self.cheap_ticks = self.cheap_ticks + 1 if used < LOW_UTILISATION else 0
        if self.share >= FULL_SHARE or self.cheap_ticks < self.calm_ticks:
            return False
        grown = min(2.0, TARGET_UTILISATION / max(used, 0.01)) * max(self.share, MIN_SHARE)
        self.share = min(max(int(grown), self.share + 1), FULL_SHARE)
        self.cheap_ticks, self.was_raised = 0, True
        return True


@dataclass
class CpuBudget:
    """CPU time per second for packets, and the measured cost per packet."""

    seconds: float
    """CPU seconds per second."""
    packet_cost: float = INITIAL_COST

    def packet_limit(self) -> int:
        """Returns how many packets may be processed in a second."""
        return int(self.seconds / self.packet_cost)

    def update_cost(self, used: float, packets: int) -> None:
        """Updates the cost per packet from one tick."""
        if packets >= MIN_PACKETS:
            self.packet_cost += 0.3 * (used / packets - self.packet_cost)
