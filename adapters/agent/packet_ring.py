"""Packets of one network device, from a memory ring that the kernel fills (AF_PACKET, PACKET_RX_RING).

Uses version 2 of the ring: its frames have a fixed size, so that numpy reads a field of all frames at once. Version 3
packs frames densely and would have to be walked packet by packet.
"""

import array
import mmap
import socket
import struct

import numpy as np
from numpy.typing import NDArray

from skewscope.adapters.agent.bpf import FULL_SHARE, INSTRUCTION_SIZE, SNAP_LENGTH, build_program
from skewscope.adapters.formats.pcap import ETHERNET, Frames

SOL_PACKET = 263
PACKET_RX_RING, PACKET_STATISTICS, PACKET_VERSION = 5, 6, 10
TPACKET_V2 = 1
SO_ATTACH_FILTER = 26
ETH_P_ALL = 0x0003
FRAME_SIZE = 256
BLOCK_SIZE = 1 << 17
STATUS_USER = 1
"""Status bit of a full frame; a frame is returned to the kernel by writing 0."""
DRAIN_BATCH = 512
"""Frames examined per step."""

HEADER = np.dtype(
    {
        "names": ["status", "size", "captured", "at", "seconds", "nanoseconds"],
        "formats": ["u4", "u4", "u4", "u2", "u4", "u4"],
        "offsets": [0, 4, 8, 12, 16, 20],
        "itemsize": FRAME_SIZE,
    }
)


class PacketRing:
    """The packets of one device."""

    def __init__(self, device: str, size: int) -> None:
        """Opens the ring.

        Raises:
            OSError: there is no such device, or the process lacks CAP_NET_RAW.
        """
        self._size = max(size // BLOCK_SIZE, 1) * BLOCK_SIZE
        # Protocol 0 receives nothing until the bind: no packet arrives unfiltered.
        self._socket = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0)
        try:
            self._socket.setsockopt(SOL_PACKET, PACKET_VERSION, TPACKET_V2)
            self.set_share(FULL_SHARE)
            request = struct.pack("=IIII", BLOCK_SIZE, self._size // BLOCK_SIZE, FRAME_SIZE, self._size // FRAME_SIZE)
            self._socket.setsockopt(SOL_PACKET, PACKET_RX_RING, request)
            self._memory = mmap.mmap(self._socket.fileno(), self._size)
            self._socket.bind((device, ETH_P_ALL))
        except BaseException:
            self._socket.close()
            raise
        self._frames = np.frombuffer(self._memory, HEADER)
        self._bytes = np.frombuffer(self._memory, np.uint8).reshape(-1, FRAME_SIZE)
        self._next = 0

    def set_share(self, share: int) -> None:
        """Sets the share of all flows to receive, in 256ths."""
        code = array.array("B", build_program(share))
        filter_ = struct.pack("HP", len(code) // INSTRUCTION_SIZE, code.buffer_info()[0])
        self._socket.setsockopt(socket.SOL_SOCKET, SO_ATTACH_FILTER, filter_)

    def drain(self, most: int) -> NDArray[np.uint8]:
        """Returns [packet, byte] uint8, at most `most` new frames, copied; their places are freed."""
        parts: list[NDArray[np.uint8]] = []
        left = most
        while left > 0 and len(part := self._drain_contiguous(min(left, DRAIN_BATCH))):
            parts.append(part)
            left -= len(part)
        return np.concatenate(parts) if parts else np.empty((0, FRAME_SIZE), np.uint8)

    def _drain_contiguous(self, most: int) -> NDArray[np.uint8]:
        """Returns [packet, byte] uint8, the full frames that follow without a gap."""
        here = slice(self._next, min(self._next + most, len(self._frames)))
        full = (self._frames["status"][here] & STATUS_USER) != 0
        count = len(full) if full.all() else int(np.argmin(full))
        here = slice(self._next, self._next + count)
        found = self._bytes[here].copy()
        self._frames["status"][here] = 0
        self._next = (self._next + count) % len(self._frames)
        return found

    def count_drops(self) -> int:
        """Returns the packets dropped by the full ring since the last call."""
        reported = self._socket.getsockopt(SOL_PACKET, PACKET_STATISTICS, 8)
        return int(struct.unpack("=II", reported)[1])

    def close(self) -> None:
        """Frees the memory."""
        del self._frames, self._bytes
        self._memory.close()
        self._socket.close()


def to_frames(copied: NDArray[np.uint8]) -> Frames:
    """Converts copied frames to the form of the capture reader."""
    head = copied.reshape(-1).view(HEADER)
    count = len(head)
    start = np.arange(count, dtype=np.int64) * FRAME_SIZE + head["at"]
    captured = np.minimum(
        head["captured"].astype(np.int64), np.minimum(FRAME_SIZE - head["at"].astype(np.int64), SNAP_LENGTH)
    )
    time = head["seconds"] + head["nanoseconds"] * 1e-9
    return Frames(copied.reshape(-1), start, captured, head["size"].astype(np.int64), time, ETHERNET)
