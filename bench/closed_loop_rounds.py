"""Traffic for the closed loop over a switch: rounds of a group over UDP 4791, and an elephant beside them.

`python -m bench.closed_loop_rounds ROLE ADDRESS FILE`, each in its namespace: `send` and `receive` are the two members
of the group, `elephant` and `sink` the bulk transfer.
"""

import contextlib
import socket
import struct
import sys
import time
from pathlib import Path

ROCE, BULK = 4791, 9000
PACKETS, PAYLOAD = 32, 1000
"""Packets of a round, and bytes of each after its header."""
COMPUTE = 0.02
"""Seconds of work of a member between two rounds."""
RESEND = 0.1
"""Seconds without an answer after which a round is sent again, as an adapter does after its time-out."""
BULK_RATE, BULK_SIZE = 7_500_000, 1400
"""Bytes per second, and of a packet."""
HEADER = struct.Struct("!BBHII")
"""Opcode, flags, partition key, round (in place of the queue pair) and packet sequence number, as in a BTH."""
ECT0, CE = 2, 3


def udp_socket(address: str = "", port: int = 0) -> socket.socket:
    """Returns a socket whose packets may be marked, bound where an address is given."""
    made = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    made.setsockopt(socket.IPPROTO_IP, socket.IP_TOS, ECT0)
    made.setsockopt(socket.IPPROTO_IP, socket.IP_RECVTOS, 1)
    if address:
        made.bind((address, port))
    return made


def send_rounds(address: str, file: Path) -> None:
    """Sends rounds for ever; notes the end and the duration of each."""
    link, number = udp_socket(), 0
    link.settimeout(RESEND)
    with file.open("a", buffering=1) as told:
        while True:
            begun, number = time.time(), number + 1
            answered = False
            while not answered:
                for packet in range(PACKETS):
                    link.sendto(HEADER.pack(4, 0, 0xFFFF, number, packet) + bytes(PAYLOAD), (address, ROCE))
                with contextlib.suppress(TimeoutError):
                    while not answered:
                        answered = HEADER.unpack(link.recv(100)[: HEADER.size])[3] == number
            time.sleep(COMPUTE)
            told.write(f"{time.time():.3f} {time.time() - begun:.4f}\n")


def receive_rounds(address: str, _file: Path) -> None:
    """Answers each round when all of its packets are there."""
    link, present, seen = udp_socket(address, ROCE), 0, set[int]()
    while True:
        packet, sender = link.recvfrom(2000)
        _, _, _, number, sequence = HEADER.unpack(packet[: HEADER.size])
        if number > present:
            present, seen = number, set()
        seen.add(sequence)
        if number < present or len(seen) == PACKETS:
            link.sendto(HEADER.pack(17, 0, 0xFFFF, number, 0), sender)


def send_bulk(address: str, _file: Path) -> None:
    """Sends at a fixed rate for ever; it slows down for nobody."""
    link, begun, sent = udp_socket(), time.monotonic(), 0
    while True:
        due = (time.monotonic() - begun) * BULK_RATE
        while sent < due:
            with contextlib.suppress(OSError):
                link.sendto(bytes(BULK_SIZE), (address, BULK))
            sent += BULK_SIZE
        time.sleep(0.002)


def receive_bulk(address: str, file: Path) -> None:
    """Notes each second how many packets arrived, and how many of them were marked."""
    link, packets, marked, since = udp_socket(address, BULK), 0, 0, time.time()
    link.settimeout(0.2)
    with file.open("a", buffering=1) as told:
        while True:
            with contextlib.suppress(TimeoutError):
                _, ancillary, *_ = link.recvmsg(2000, 100)
                packets += 1
                marked += any(data[0] & 3 == CE for _, _, data in ancillary)
            if time.time() - since >= 1.0:
                told.write(f"{time.time():.3f} {packets} {marked}\n")
                packets, marked, since = 0, 0, time.time()


ROLES = {"send": send_rounds, "receive": receive_rounds, "elephant": send_bulk, "sink": receive_bulk}

if __name__ == "__main__":
    ROLES[sys.argv[1]](sys.argv[2], Path(sys.argv[3]))
