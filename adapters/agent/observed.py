"""One port's packets: from its ring to `wire.*` samples, tick by tick.

What this port did not see, it does not tell. After the ring was too small, or the sample changed, everything that is
known of flows is forgotten and begins anew with the next whole tick; of a sample of the flows only those signals are
told that hold for each flow by itself.
"""

import logging
import math

import numpy as np

from skewscope.adapters.agent.bpf import WHOLE
from skewscope.adapters.agent.budget import Sampling
from skewscope.adapters.agent.kernel import Sample
from skewscope.adapters.agent.ring import FRAME, Ring, frames
from skewscope.adapters.packets import decode
from skewscope.engine.wire.packets import Packets
from skewscope.engine.wire.reducer import STEP, PortReducer
from skewscope.engine.wire.view import PortView

log = logging.getLogger("skewscope.agent")

BY_FLOW = frozenset(
    (
        *("wire.retransmit_ratio", "wire.own_retransmit_ratio", "wire.peer_retransmit_ratio"),
        *("wire.out_of_order_ratio", "wire.dup_ack_ratio", "wire.ecn_ce_ratio", "wire.request_loss_ratio"),
        *("wire.rtt", "wire.rtt_p95", "wire.rtt_before_loss", "wire.first_byte_delay", "wire.first_byte_delay_p95"),
        *("wire.stream_gap", "wire.stream_gap_p95", "wire.stream_gap_cv", "wire.stream_chunks", "wire.stream_duration"),
    )
)
"""Signals that a sample of whole flows tells as well as all of them: shares and times. Sums, and what compares members
with one another, would be wrong."""
DECODE = 4096
"""Packets that are worth a decoding of their own."""
MOST_HELD = 40_000
"""Packets of one tick that are kept, whatever they cost: memory is bounded too."""


class ObservedPort:
    """One port while it is observed."""

    def __init__(self, ring: Ring, view: PortView, first: float) -> None:
        self.ring = ring
        self.view = view
        self.sampling = Sampling()
        self.seen = 0
        """Packets looked at in this tick."""
        self.every = 0
        """Packets looked at since the start."""
        self.lost = 0
        """Packets that nobody looked at although they were in the sample, since the start."""
        self.withheld = 0
        """Ticks of which nothing is told, since the start."""
        self._whole = True
        self._raw: list[np.ndarray[tuple[int, int], np.dtype[np.uint8]]] = []
        self._packets: list[Packets] = []
        self._from = first
        self._reducer = PortReducer(view)

    def take(self, most: int) -> int:
        """Fetches what has come; gives how many packets."""
        found = self.ring.drain(most)
        if len(found):
            self._raw.append(found)
            self.seen += len(found)
            self.every += len(found)
            if sum(map(len, self._raw)) >= DECODE:
                self._decode()
        return len(found)

    def _decode(self) -> None:
        if self._raw:
            raw = np.concatenate(self._raw) if len(self._raw) > 1 else self._raw[0]
            self._raw = []
            self._packets.append(decode(frames(raw.reshape(-1, FRAME))))

    def resample(self, now: float) -> None:
        """Begins anew with another share of the flows."""
        share = self.sampling.share
        self.ring.sample(share)
        if self._whole and share < WHOLE:
            log.warning("%s: more packets than the budget allows; a sample of its flows is looked at", self.view.port)
        elif share == WHOLE:
            log.info("%s: all of its flows are looked at again", self.view.port)
        self._whole = share == WHOLE
        self.afresh(now)

    def afresh(self, now: float) -> None:
        """Forgets everything; what comes before the next whole tick does not count."""
        self._raw, self._packets = [], []
        self._from = (math.floor(now / STEP) + 1) * STEP
        self._reducer = PortReducer(self.view)

    def tick(self, first: float, now: float) -> list[Sample] | None:
        """The samples of the tick that began at `first`, when it is over; None where packets of it are missing."""
        self.seen = 0
        if dropped := self.ring.dropped():
            self.lost += dropped
            log.warning("%s: the ring was full, %d packets were not seen", self.view.port, dropped)
            self.afresh(now)
        if first < self._from:
            self.withheld += 1
            return None
        packets, self._packets = self._upto(first + STEP)
        told = self._reducer.reduce(packets, first, 1)
        whole = self.sampling.share >= WHOLE
        return [
            (key, float(value[-1]))
            for key, value in zip(told.keys, told.values, strict=True)
            if whole or key.signal in BY_FLOW
        ]

    def _upto(self, end: float) -> tuple[Packets, list[Packets]]:
        """Packets before a time and those after it; what is older than the time that counts is left out."""
        self._decode()
        if not self._packets:
            return NOTHING, []
        every = Packets.joined(self._packets)
        late = every.time >= end
        rest = every.take(late)
        return every.take(~late & (every.time >= self._from)), [rest] if len(rest) else []


NOTHING = decode(frames(np.empty((0, FRAME), np.uint8)))
