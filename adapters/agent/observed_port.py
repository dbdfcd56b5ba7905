"""Packets of one port: from its ring to `wire.*` samples, tick by tick.

Only observed traffic is reported. After the ring overflowed or the share changed, all flow state is dropped and
collected anew from the next whole tick. With a sample of the flows only those signals are reported that hold per flow.
"""

import logging
import math

import numpy as np

from skewscope.adapters.agent.bpf import FULL_SHARE
from skewscope.adapters.agent.budget import FlowSampling
from skewscope.adapters.agent.collectors.counter_names import Sample
from skewscope.adapters.agent.packet_ring import FRAME_SIZE, PacketRing, to_frames
from skewscope.adapters.formats.packet_headers import decode
from skewscope.engine.wire.packets import Packets
from skewscope.engine.wire.reducer import TICK_LENGTH, PortReducer
from skewscope.engine.wire.view import PortView

log = logging.getLogger("skewscope.agent")

PER_FLOW_SIGNALS = frozenset(
    (
        *("wire.retransmit_ratio", "wire.own_retransmit_ratio", "wire.peer_retransmit_ratio"),
        *("wire.out_of_order_ratio", "wire.dup_ack_ratio", "wire.ecn_ce_ratio", "wire.request_loss_ratio"),
        *("wire.rtt", "wire.rtt_p95", "wire.rtt_before_loss", "wire.first_byte_delay", "wire.first_byte_delay_p95"),
        *("wire.stream_gap", "wire.stream_gap_p95", "wire.stream_gap_cv", "wire.stream_chunks", "wire.stream_duration"),
    )
)
"""Signals that a sample of whole flows estimates without bias: shares and times. Sums and comparisons between members
would be wrong.
"""
DECODE_BATCH = 4096
"""Packets that are worth one decoding step."""
MAX_HELD = 40_000
"""Maximum packets kept per tick: memory is bounded too."""


class ObservedPort:
    """One observed port."""

    def __init__(self, ring: PacketRing, view: PortView, first: float) -> None:
        self.ring = ring
        self.view = view
        self.sampling = FlowSampling()
        self.tick_packets = 0
        """Packets processed in this tick."""
        self.packets_seen = 0
        """Packets processed since the start."""
        self.packets_lost = 0
        """Packets of the sample that were lost, since the start."""
        self.ticks_withheld = 0
        """Ticks without a result, since the start."""
        self._is_full_share = True
        self._raw: list[np.ndarray[tuple[int, int], np.dtype[np.uint8]]] = []
        self._packets: list[Packets] = []
        self._valid_from = first
        self._reducer = PortReducer(view)

    def fetch_packets(self, most: int) -> int:
        """Fetches new packets; returns their number."""
        found = self.ring.drain(most)
        if len(found):
            self._raw.append(found)
            self.tick_packets += len(found)
            self.packets_seen += len(found)
            if sum(map(len, self._raw)) >= DECODE_BATCH:
                self._decode()
        return len(found)

    def _decode(self) -> None:
        if self._raw:
            raw = np.concatenate(self._raw) if len(self._raw) > 1 else self._raw[0]
            self._raw = []
            self._packets.append(decode(to_frames(raw.reshape(-1, FRAME_SIZE))))

    def resample(self, now: float) -> None:
        """Restarts with another share of the flows."""
        share = self.sampling.share
        self.ring.set_share(share)
        if self._is_full_share and share < FULL_SHARE:
            log.warning("%s: more packets than the budget allows; a share of its flows is observed", self.view.port)
        elif share == FULL_SHARE:
            log.info("%s: all of its flows are observed again", self.view.port)
        self._is_full_share = share == FULL_SHARE
        self.reset(now)

    def reset(self, now: float) -> None:
        """Drops all state; packets before the next whole tick do not count."""
        self._raw, self._packets = [], []
        self._valid_from = (math.floor(now / TICK_LENGTH) + 1) * TICK_LENGTH
        self._reducer = PortReducer(self.view)

    def tick(self, first: float, now: float) -> list[Sample] | None:
        """Returns the samples of the tick that began at `first`, once it is over; None if packets of it are missing."""
        self.tick_packets = 0
        if dropped := self.ring.count_drops():
            self.packets_lost += dropped
            log.warning("%s: the ring was full, %d packets were lost", self.view.port, dropped)
            self.reset(now)
        if first < self._valid_from:
            self.ticks_withheld += 1
            return None
        packets, self._packets = self._packets_before(first + TICK_LENGTH)
        reported = self._reducer.reduce(packets, first, 1)
        whole = self.sampling.share >= FULL_SHARE
        return [
            (key, float(value[-1]))
            for key, value in zip(reported.keys, reported.values, strict=True)
            if whole or key.signal in PER_FLOW_SIGNALS
        ]

    def _packets_before(self, end: float) -> tuple[Packets, list[Packets]]:
        """Splits packets at a time; packets from before the restart are omitted."""
        self._decode()
        if not self._packets:
            return NO_PACKETS, []
        every = Packets.concat(self._packets)
        late = every.time >= end
        rest = every.take(late)
        return every.take(~late & (every.time >= self._valid_from)), [rest] if len(rest) else []


NO_PACKETS = decode(to_frames(np.empty((0, FRAME_SIZE), np.uint8)))
