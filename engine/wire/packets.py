"""Packets as columns, independent of the capture."""

from dataclasses import dataclass, fields
from typing import Self

import numpy as np
from numpy.typing import NDArray

OTHER, ROCE, ROCE_V1, TCP = 0, 1, 2, 6
"""Values of `Packets.proto`: none of the others, RoCEv2, RoCEv1 (recognised, not decoded), TCP."""

FIN, SYN, RST, PSH, ACK = 1, 2, 4, 8, 16
ROCE_ACK, ROCE_CNP = 0x11, 0x81
"""BTH opcodes: RC acknowledge; congestion notification."""


@dataclass(frozen=True, slots=True)
class Packets:
    """Columns of equal length, in capture order."""

    time: NDArray[np.float64]
    """Seconds since 1970, on the clock of the port that captured it."""
    src: NDArray[np.uint64]
    dst: NDArray[np.uint64]
    """Address keys: a 64-bit hash of the address, IPv4 taken as IPv4-mapped IPv6."""
    sport: NDArray[np.uint16]
    dport: NDArray[np.uint16]
    proto: NDArray[np.uint8]
    length: NDArray[np.int32]
    """Bytes of payload, from the headers and not from what was captured."""
    size: NDArray[np.int32]
    """Bytes on the wire."""
    seq: NDArray[np.uint32]
    ack: NDArray[np.uint32]
    flags: NDArray[np.uint8]
    window: NDArray[np.uint16]
    opcode: NDArray[np.uint8]
    qp: NDArray[np.uint32]
    psn: NDArray[np.uint32]
    syndrome: NDArray[np.uint8]
    ecn: NDArray[np.uint8]

    def __len__(self) -> int:
        return len(self.time)

    def take(self, index: NDArray[np.int64] | NDArray[np.bool_] | slice) -> Self:
        """Returns the packets at an index, a mask or a slice."""
        return type(self)(*(getattr(self, f.name)[index] for f in fields(self)))

    @classmethod
    def concat(cls, parts: list[Self]) -> Self:
        """Returns several blocks as one, in the given order."""
        return cls(*(np.concatenate([getattr(p, f.name) for p in parts]) for f in fields(cls)))
