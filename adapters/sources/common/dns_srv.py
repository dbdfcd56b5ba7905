"""SRV lookups, which the standard library lacks: one question over UDP to the system's name server."""

import asyncio
import secrets
import struct
from pathlib import Path
from typing import cast

RESOLV_CONF = Path("/etc/resolv.conf")
PORT = 53
ATTEMPT_TIMEOUT = 2.0
"""Seconds per attempt, of two."""
SRV, IN = 33, 1
HEADER = struct.Struct(">HHHHHH")
QUESTION, RECORD, SERVICE = struct.Struct(">HH"), struct.Struct(">HHIH"), struct.Struct(">HHH")
MAX_JUMPS = 32
MAX_LABEL, MAX_NAME = 63, 253


async def lookup_services(name: str, server: tuple[str, int] | None = None) -> list[tuple[str, int]]:
    """Returns hosts and ports of a service name, in order of preference.

    Raises:
        OSError: there is no answer, or no such name.
    """
    number = secrets.randbelow(1 << 16)
    question = encode_question(number, name)
    for _ in range(2):
        try:
            async with asyncio.timeout(ATTEMPT_TIMEOUT):
                answer = await _exchange(question, server or _name_server())
        except TimeoutError:
            continue
        return parse_answer(answer, number)
    raise OSError("no answer of the name server")


def _name_server() -> tuple[str, int]:
    words = (line.split() for line in RESOLV_CONF.read_text(encoding="ascii", errors="replace").splitlines())
    found = next((each[1] for each in words if len(each) > 1 and each[0] == "nameserver"), "127.0.0.1")
    return found, PORT


class _DnsExchange(asyncio.DatagramProtocol):
    """Waits for the answer to one question."""

    def __init__(self, question: bytes) -> None:
        self._question = question
        self.answer: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # The event loop passes a datagram transport here, whatever its class.
        cast("asyncio.DatagramTransport", transport).sendto(self._question)

    def datagram_received(self, data: bytes, _addr: object) -> None:
        if not self.answer.done() and data[:2] == self._question[:2]:
            self.answer.set_result(data)

    def error_received(self, exc: Exception) -> None:
        if not self.answer.done():
            self.answer.set_exception(exc)


async def _exchange(question: bytes, server: tuple[str, int]) -> bytes:
    loop = asyncio.get_running_loop()
    transport, exchange = await loop.create_datagram_endpoint(lambda: _DnsExchange(question), remote_addr=server)
    try:
        return await exchange.answer
    finally:
        transport.close()


def encode_question(number: int, name: str) -> bytes:
    """Encodes the SRV question for a name."""
    labels = [label.encode("ascii", "replace") for label in name.rstrip(".").split(".")]
    if len(name) > MAX_NAME or not all(0 < len(label) <= MAX_LABEL for label in labels):
        raise OSError("no name of DNS")
    text = b"".join(bytes([len(label)]) + label for label in labels) + b"\0"
    return HEADER.pack(number, 0x0100, 1, 0, 0, 0) + text + QUESTION.pack(SRV, IN)


def parse_answer(data: bytes, number: int) -> list[tuple[str, int]]:
    """Parses the services of an answer.

    Raises:
        OSError: the answer is invalid, or an error.
    """
    try:
        got, flags, questions, answers, _, _ = HEADER.unpack_from(data)
        if got != number or flags & 15:
            raise OSError(f"the name server says {flags & 15}")
        at = HEADER.size
        for _ in range(questions):
            at = _read_name(data, at)[1] + QUESTION.size
        found = []
        for _ in range(answers):
            at = _read_name(data, at)[1]
            kind, _, _, size = RECORD.unpack_from(data, at)
            at += RECORD.size
            if kind == SRV:
                _, _, port = SERVICE.unpack_from(data, at)
                found.append((_read_name(data, at + SERVICE.size)[0], port))
            at += size
    except (struct.error, IndexError, UnicodeDecodeError):
        raise OSError("an answer that is no DNS") from None
    return sorted(found)


def _read_name(data: bytes, at: int) -> tuple[str, int]:
    """Returns a name and the offset behind it; compression pointers are followed, loops are refused."""
    labels, end = [], -1
    for _ in range(MAX_JUMPS + MAX_NAME):
        size = data[at]
        if size >= 0xC0:
            end = at + 2 if end < 0 else end
            at = (size & 0x3F) << 8 | data[at + 1]
        elif size:
            labels.append(data[at + 1 : at + 1 + size].decode("ascii"))
            at += 1 + size
        else:
            return ".".join(labels), at + 1 if end < 0 else end
    raise IndexError
