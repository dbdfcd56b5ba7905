"""How much of the packets can be looked at for the processor time that was declared: whole flows, by share.

A share goes down as soon as a second cost too much, and up again only after many cheap ones: every change makes the
reducer of a port forget what it knew, since flows come and go with it.
"""

from dataclasses import dataclass

from skewscope.adapters.agent.bpf import FULL_SHARE

MIN_SHARE = 1
CALM_TICKS = 30
"""Cheap ticks before more is looked at; twice as many after each time that this was too early."""
MAX_CALM_TICKS = 960
TARGET_UTILISATION = 0.8
"""Of the budget: what a share is chosen for."""
LOW_UTILISATION = 0.5
"""Of the budget: a tick below this is a cheap one."""
INITIAL_COST = 2e-6
"""Seconds for a packet, before any was looked at."""
MIN_PACKETS = 2000
"""Packets in a tick from which their cost can be told from everything else."""


@dataclass
class FlowSampling:
    """The share of one port, in 256ths."""

    share: int = FULL_SHARE
    calm_ticks: int = CALM_TICKS
    cheap_ticks: int = 0
    was_raised: bool = False

    def lower(self, factor: float) -> bool:
        """Makes the share smaller by a factor below one; whether that was possible. Below the least, it is nothing."""
        before = self.share
        self.share = min(before - 1, max(int(before * factor), MIN_SHARE)) if before else 0
        if self.was_raised:
            self.calm_ticks = min(2 * self.calm_ticks, MAX_CALM_TICKS)
        self.cheap_ticks, self.was_raised = 0, False
        return self.share != before

    def record_tick(self, used: float) -> bool:
        """Counts a tick that used this share of the budget; whether more is looked at from now on."""
        self.cheap_ticks = self.cheap_ticks + 1 if used < LOW_UTILISATION else 0
        if self.share >= FULL_SHARE or self.cheap_ticks < self.calm_ticks:
            return False
        grown = min(2.0, TARGET_UTILISATION / max(used, 0.01)) * max(self.share, MIN_SHARE)
        self.share = min(max(int(grown), self.share + 1), FULL_SHARE)
        self.cheap_ticks, self.was_raised = 0, True
        return True


@dataclass
class CpuBudget:
    """Processor time that a second of packets may take, and what a packet has cost so far."""

    seconds: float
    """In each second."""
    packet_cost: float = INITIAL_COST

    def packet_limit(self) -> int:
        """How many packets may be looked at in a second."""
        return int(self.seconds / self.packet_cost)

    def update_cost(self, used: float, packets: int) -> None:
        """Counts a tick that took so long for so many packets."""
        if packets >= MIN_PACKETS:
            self.packet_cost += 0.3 * (used / packets - self.packet_cost)
