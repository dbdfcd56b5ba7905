"""How much of the packets can be looked at for the processor time that was declared: whole flows, by share.

A share goes down as soon as a second cost too much, and up again only after many cheap ones: every change makes the
reducer of a port forget what it knew, since flows come and go with it.
"""

from dataclasses import dataclass

from skewscope.adapters.agent.bpf import WHOLE

LEAST_SHARE = 1
CALM = 30
"""Cheap ticks before more is looked at; twice as many after each time that this was too early."""
MOST_CALM = 960
ROOM = 0.8
"""Of the budget: what a share is chosen for."""
CHEAP = 0.5
"""Of the budget: a tick below this is a cheap one."""
FIRST_COST = 2e-6
"""Seconds for a packet, before any was looked at."""
ENOUGH = 2000
"""Packets in a tick from which their cost can be told from everything else."""


@dataclass
class Sampling:
    """The share of one port, in 256ths."""

    share: int = WHOLE
    calm: int = CALM
    cheap: int = 0
    raised: bool = False

    def lower(self, factor: float) -> bool:
        """Makes the share smaller by a factor below one; whether that was possible. Below the least, it is nothing."""
        before = self.share
        self.share = min(before - 1, max(int(before * factor), LEAST_SHARE)) if before else 0
        if self.raised:
            self.calm = min(2 * self.calm, MOST_CALM)
        self.cheap, self.raised = 0, False
        return self.share != before

    def rest(self, used: float) -> bool:
        """Counts a tick that used this share of the budget; whether more is looked at from now on."""
        self.cheap = self.cheap + 1 if used < CHEAP else 0
        if self.share >= WHOLE or self.cheap < self.calm:
            return False
        grown = min(2.0, ROOM / max(used, 0.01)) * max(self.share, LEAST_SHARE)
        self.share = min(max(int(grown), self.share + 1), WHOLE)
        self.cheap, self.raised = 0, True
        return True


@dataclass
class Budget:
    """Processor time that a second of packets may take, and what a packet has cost so far."""

    seconds: float
    """In each second."""
    cost: float = FIRST_COST

    def room(self) -> int:
        """How many packets may be looked at in a second."""
        return int(self.seconds / self.cost)

    def learn(self, used: float, packets: int) -> None:
        """Counts a tick that took so long for so many packets."""
        if packets >= ENOUGH:
            self.cost += 0.3 * (used / packets - self.cost)
