"""The traffic among the nodes of a replica: one connection between each two."""

import os
import socket
import struct
import threading
import time
from collections.abc import Sequence

from tests.lab.cluster import EAST_WEST, MESH, address

NUMBER = struct.Struct("!I")
PLAN = struct.Struct("!II")
BUFFER = 4 << 20
MUCH = 1 << 20
"""Bytes that are sent in threads, lest two nodes wait for each other to read."""
AGAIN = 0.1
"""Seconds before another attempt to connect."""


class Mesh:
    """The other nodes of a replica, by rank."""

    def __init__(self, node: str, nodes: Sequence[str]) -> None:
        self.rank, self.size = nodes.index(node), len(nodes)
        self._here = address(node, EAST_WEST)
        self._peers: dict[int, socket.socket] = {}
        self._zeros = memoryview(bytes(2 * BUFFER))
        self._waste = memoryview(bytearray(MUCH))
        waiting = threading.Thread(target=self._accept, daemon=True)
        waiting.start()
        for rank in range(self.rank):
            self._peers[rank] = self._connected(address(nodes[rank], EAST_WEST))
        waiting.join()

    def _accept(self) -> None:
        """Waits for the connections of all higher ranks."""
        with socket.create_server((self._here, MESH)) as door:
            for _ in range(self.size - 1 - self.rank):
                peer, _ = door.accept()
                _set_up(peer)
                (rank,) = NUMBER.unpack(_exactly(peer, NUMBER.size))
                self._peers[rank] = peer

    def _connected(self, there: str) -> socket.socket:
        while True:
            try:
                peer = socket.create_connection((there, MESH), source_address=(self._here, 0))
            except OSError:
                time.sleep(AGAIN)
                continue
            _set_up(peer)
            peer.sendall(NUMBER.pack(self.rank))
            return peer

    def send(self, rank: int, size: int) -> None:
        """Sends a number of bytes to a rank."""
        self._peers[rank].sendall(NUMBER.pack(size))
        self._peers[rank].sendall(self._zeros[:size])

    def receive(self, rank: int) -> None:
        """Waits for the bytes of a rank."""
        peer = self._peers[rank]
        (left,) = NUMBER.unpack(_exactly(peer, NUMBER.size))
        while left:
            got = peer.recv_into(self._waste[: min(left, MUCH)])
            left -= got or _gone()

    def exchange(self, size: int) -> None:
        """Sends a number of bytes to each other rank, and waits for as many from each."""
        threads = []
        if size > MUCH:
            threads = [threading.Thread(target=self.send, args=(rank, size)) for rank in self._peers]
            for thread in threads:
                thread.start()
        else:
            for rank in sorted(self._peers):
                self.send(rank, size)
        for rank in sorted(self._peers):
            self.receive(rank)
        for thread in threads:
            thread.join()

    def tell(self, batch: int, prefill: int) -> None:
        """Announces a step to all other ranks."""
        for rank in sorted(self._peers):
            self._peers[rank].sendall(PLAN.pack(batch, prefill))

    def told(self) -> tuple[int, int]:
        """Waits for rank 0 to announce a step; returns the number of sequences and of tokens of new prompts."""
        batch, prefill = PLAN.unpack(_exactly(self._peers[0], PLAN.size))
        return batch, prefill


def _set_up(peer: socket.socket) -> None:
    peer.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    peer.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, BUFFER)
    peer.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, BUFFER)


def _exactly(peer: socket.socket, size: int) -> bytes:
    found = b""
    while len(found) < size:
        part = peer.recv(size - len(found))
        if not part:
            _gone()
        found += part
    return found


def _gone() -> int:
    """Ends this node after a peer ended."""
    os._exit(0)
