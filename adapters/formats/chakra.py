"""Parser of Chakra execution traces (MLCommons): the operations of one rank with their durations.

Two forms are read: the protobuf stream that Chakra's converter writes (files named *.et), and JSON with the member
workload_graph. PyTorch's own execution traces (JSON with the member nodes) have no durations and are refused.
"""

from collections.abc import Iterator
from io import BufferedReader
from pathlib import PurePath
from typing import Any, NamedTuple

from skewscope.adapters.formats.bounds import EVENTS
from skewscope.adapters.formats.json_stream import iter_members
from skewscope.adapters.formats.protobuf import ProtobufError, iter_fields, read_varint, to_bytes, to_text, to_varint
from skewscope.kb.problems import InputError, Problem

MAX_BYTES = 2 << 30
COMPUTE, SEND, RECEIVE, COLLECTIVE = 4, 5, 6, 7
"""Kinds of nodes that are used, as Chakra's definition of nodes numbers them."""
MAX_KIND = 10
METADATA_FIELDS, NODE_FIELDS = frozenset({1, 2}), range(1, 32)
NO_DURATIONS = "Link it with the profiler's trace (chakra_trace_link, chakra_converter), or give that trace."


class ChakraNode(NamedTuple):
    """One operation."""

    kind: int
    duration: float
    """Microseconds."""
    on_cpu: bool


def is_chakra_trace(head: bytes, name: str) -> bool:
    """Returns whether the first bytes of a file, and its name, are those of a Chakra trace."""
    start = head[:4096].lstrip()
    if start[:1] == b"{":
        return b'"workload_graph"' in start[:256] or (b'"schema"' in start and b"-chakra." in start[:256])
    return ".et" in PurePath(name).suffixes and _starts_with_metadata(memoryview(head))


def _starts_with_metadata(head: memoryview) -> bool:
    try:
        size, at = read_varint(head, 0)
        if size > len(head) - at:
            return False
        return all(number in METADATA_FIELDS and to_bytes(value) for number, value in iter_fields(head[at : at + size]))
    except ProtobufError:
        return False


def read_nodes(stream: BufferedReader, file: str) -> Iterator[ChakraNode]:
    """Yields the operations of a trace in the order of the file.

    Args:
        stream: the trace, unpacked.
        file: name for messages.

    Raises:
        InputError: the trace is damaged, cut off, or has no durations.
    """
    if stream.peek(1)[:1].lstrip()[:1] == b"{":
        yield from _read_json(stream, file)
        return
    data = stream.read(MAX_BYTES + 1)
    if len(data) > MAX_BYTES:
        raise InputError([Problem(file, 0, "", f"more than {MAX_BYTES} bytes", "a smaller trace")])
    yield from _read_messages(memoryview(data), file)


def _read_json(stream: BufferedReader, file: str) -> Iterator[ChakraNode]:
    count, most = 0, EVENTS.limit()
    for name, value in iter_members(stream, file, ("workload_graph", "nodes")):
        if name == "nodes":
            raise InputError(
                [Problem(file, 0, "nodes", "an execution trace without durations", "one with them", NO_DURATIONS)]
            )
        if name != "workload_graph":
            continue
        count += 1
        if count > most:
            raise InputError([EVENTS.problem(file)])
        node = value if isinstance(value, dict) else {}
        kind, runtime = node.get("NodeType"), node.get("runtime", 0)
        if type(kind) is not int or not _is_duration(runtime):
            found = f"a node of kind {kind!r:.20} that ran for {runtime!r:.20}"
            raise InputError([Problem(file, 0, f"workload_graph[{count - 1}]", found, "NodeType and runtime: numbers")])
        yield ChakraNode(kind, float(runtime), node.get("is_cpu_op") is True)
    if not count:
        raise InputError([Problem(file, 0, "workload_graph", "no node", "the operations of a rank")])


def _is_duration(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value < 1e15


def _read_messages(data: memoryview, file: str) -> Iterator[ChakraNode]:
    """Yields the nodes of length-prefixed messages; the first message describes the trace."""
    at = count = 0
    most = EVENTS.limit()
    while at < len(data):
        start = at
        try:
            size, at = read_varint(data, at)
            if size > len(data) - at:
                raise ProtobufError(f"the end of the file after {len(data)} bytes")
            if count:
                yield _parse_node(data[at : at + size])
        except ProtobufError as error:
            hint = "Copy the file again; was the process ended while it wrote?"
            raise InputError([Problem(file, 0, f"byte {start}", str(error), "a node of a trace", hint)]) from None
        at += size
        count += 1
        if count > most:
            raise InputError([EVENTS.problem(file)])
    if count < 2:
        raise InputError([Problem(file, 0, "", "no node", "the operations of a rank")])


def _parse_node(message: memoryview) -> ChakraNode:
    kind = duration = 0
    on_cpu = False
    for number, value in iter_fields(message):
        if number == 3:
            kind = to_varint(value)
        elif number == 7:
            duration = to_varint(value)
        elif number == 10:
            name, truth = _parse_attribute(to_bytes(value))
            on_cpu = truth if name == "is_cpu_op" else on_cpu
        elif number not in NODE_FIELDS:
            raise ProtobufError(f"a field of number {number}")
    if kind > MAX_KIND:
        raise ProtobufError(f"a node of kind {kind}")
    return ChakraNode(kind, float(duration), on_cpu)


def _parse_attribute(message: memoryview) -> tuple[str, bool]:
    """Returns name and truth value of an attribute; False for values of other types."""
    fields: dict[int, Any] = dict(iter_fields(message))
    return to_text(fields.get(1, memoryview(b""))), bool(fields.get(27, 0))
