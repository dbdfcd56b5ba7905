"""The kernel's packet filter (BPF): TCP and RoCEv2 only, cut to their headers, with sampling of whole flows.

Packets of flows outside the sample never leave the kernel, which is the cheapest way to drop them. Both directions of a
connection have the same hash, so that acknowledgements stay with their data. A RoCEv2 flow is a pair of hosts: its
ports differ by direction.
"""

import struct
from collections.abc import Iterator
from typing import NamedTuple

SNAP_LENGTH = 128
"""Bytes kept per packet: Ethernet, VLAN tag, IPv6, and the longest transport header that is read."""
FULL_SHARE = 256
"""The share of all flows; shares are counted in 256ths."""

INSTRUCTION_SIZE = 8
"""Bytes of one instruction."""
ETHERTYPE = 12
VLAN, IPV4, IPV6 = 0x8100, 0x0800, 0x86DD
TCP, UDP, ROCE_PORT = 6, 17, 4791
FRAGMENT_MASK = 0x1FFF
HASH_MULTIPLIER = 0x9E3779B1
"""2^32 divided by the golden ratio: spreads similar values."""

LD_W, LD_H, LD_B = 0x20, 0x28, 0x30
LDX_IP_LENGTH, LDX_MEMORY = 0xB1, 0x61
STORE, ADD_X, MULTIPLY, SHIFT_RIGHT = 0x02, 0x0C, 0x24, 0x74
LDH_X = 0x48
JUMP_EQUAL, JUMP_AT_LEAST, JUMP_SET, RETURN = 0x15, 0x35, 0x45, 0x06


class BpfInstruction(NamedTuple):
    """One instruction; `yes` and `no` are the labels of jump targets, '' is the next instruction."""

    code: int
    k: int = 0
    jump_true: str = ""
    jump_false: str = ""
    label: str = ""


def build_program(share: int) -> bytes:
    """Returns the encoded program for a share of all flows, in 256ths."""
    return assemble([*_instructions(share)])


def _instructions(share: int) -> Iterator[BpfInstruction]:
    if not share:
        yield BpfInstruction(RETURN, 0)
        return
    yield BpfInstruction(LD_H, ETHERTYPE)
    yield BpfInstruction(JUMP_EQUAL, VLAN, "tagged", "plain")
    for name, at in (("plain", 14), ("tagged", 18)):
        yield BpfInstruction(LD_H, at - 2, label=name)
        yield BpfInstruction(JUMP_EQUAL, IPV4, f"{name} 4")
        yield BpfInstruction(JUMP_EQUAL, IPV6, f"{name} 6", "drop")
        yield from _ipv4_instructions(f"{name} 4", at)
        yield from _ipv6_instructions(f"{name} 6", at)
    if share < FULL_SHARE:
        yield BpfInstruction(MULTIPLY, HASH_MULTIPLIER, label="sample")
        yield BpfInstruction(SHIFT_RIGHT, 24)
        yield BpfInstruction(JUMP_AT_LEAST, share, "drop", "accept")
    else:
        yield BpfInstruction(RETURN, SNAP_LENGTH, label="sample")
    yield BpfInstruction(RETURN, SNAP_LENGTH, label="accept")
    yield BpfInstruction(RETURN, 0, label="drop")


def _ipv4_instructions(name: str, at: int) -> Iterator[BpfInstruction]:
    yield BpfInstruction(LD_H, at + 6, label=name)
    yield BpfInstruction(JUMP_SET, FRAGMENT_MASK, "drop")
    yield BpfInstruction(LDX_IP_LENGTH, at)
    yield BpfInstruction(LD_B, at + 9)
    yield BpfInstruction(JUMP_EQUAL, TCP, f"{name} tcp")
    yield BpfInstruction(JUMP_EQUAL, UDP, "", "drop")
    yield BpfInstruction(LDH_X, at + 2)
    yield BpfInstruction(JUMP_EQUAL, ROCE_PORT, f"{name} pair", "drop")
    yield BpfInstruction(LDH_X, at, label=f"{name} tcp")
    yield BpfInstruction(STORE, 0)
    yield BpfInstruction(LDH_X, at + 2)
    yield BpfInstruction(LDX_MEMORY, 0)
    yield BpfInstruction(ADD_X)
    yield from _address_hash_instructions(f"{name} pair", at + 12, at + 16)


def _ipv6_instructions(name: str, at: int) -> Iterator[BpfInstruction]:
    """Yields the IPv6 part. Extension headers are not followed: no data of a job comes behind one."""
    yield BpfInstruction(LD_B, at + 6, label=name)
    yield BpfInstruction(JUMP_EQUAL, TCP, f"{name} tcp")
    yield BpfInstruction(JUMP_EQUAL, UDP, "", "drop")
    yield BpfInstruction(LD_H, at + 42)
    yield BpfInstruction(JUMP_EQUAL, ROCE_PORT, f"{name} pair", "drop")
    yield BpfInstruction(LD_H, at + 40, label=f"{name} tcp")
    yield BpfInstruction(STORE, 0)
    yield BpfInstruction(LD_H, at + 42)
    yield BpfInstruction(LDX_MEMORY, 0)
    yield BpfInstruction(ADD_X)
    yield from _address_hash_instructions(f"{name} pair", at + 20, at + 36)


def _address_hash_instructions(name: str, *words: int) -> Iterator[BpfInstruction]:
    """Yields the sum of the words of both addresses, which is the same in both directions."""
    yield BpfInstruction(STORE, 1, label=name)
    for word in words:
        yield BpfInstruction(LD_W, word)
        yield BpfInstruction(LDX_MEMORY, 1)
        yield BpfInstruction(ADD_X)
        yield BpfInstruction(STORE, 1)
    yield BpfInstruction(JUMP_AT_LEAST, 0, "sample", "sample")


def assemble(steps: list[BpfInstruction]) -> bytes:
    """Returns the encoded program with resolved jumps."""
    place = {step.label: number for number, step in enumerate(steps) if step.label}

    def distance(label: str, number: int) -> int:
        return place[label] - number - 1 if label else 0

    return b"".join(
        struct.pack("=HBBI", step.code, distance(step.jump_true, n), distance(step.jump_false, n), step.k)
        for n, step in enumerate(steps)
    )
