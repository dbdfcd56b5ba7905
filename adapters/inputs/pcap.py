"""Inputs of kind `pcap`: the packets of one port."""

from collections.abc import Iterator

from skewscope.adapters.inputs.capture import build_port_view, reduce_stretches
from skewscope.adapters.inputs.reader import InputReader
from skewscope.adapters.inputs.recording import Input, Recording
from skewscope.adapters.mapping.names import MetricResolver, SeriesRegistry
from skewscope.engine.ingest.feed import Block, merge_blocks

MAGIC = (b"\xa1\xb2\xc3\xd4", b"\xd4\xc3\xb2\xa1", b"\xa1\xb2\x3c\x4d", b"\x4d\x3c\xb2\xa1", b"\x0a\x0d\x0d\x0a")


def recognise(head: bytes, _name: str) -> bool:
    """Returns whether a file is a capture, by its first bytes."""
    return head.startswith(MAGIC)


def read(source: Input, recording: Recording, registry: SeriesRegistry, _: MetricResolver) -> Block:
    """Returns the samples of `wire.*` signals of the packets.

    Raises:
        InputError: the file is not a capture, or damaged.
    """
    return merge_blocks(block for _, block in read_parts(source, recording, registry))


def read_parts(source: Input, recording: Recording, registry: SeriesRegistry) -> Iterator[tuple[float, Block]]:
    """Yields (end in seconds since 1970, samples after the end before it) of stretches, in order of time.

    Raises:
        InputError: the file is not a capture, or damaged.
    """
    labels = dict(source.labels)
    port = recording.topology.port[f"{labels['node']}/{labels['port']}"]
    path, view = recording.resolve_path(source.path), build_port_view(recording.topology, port)
    yield from reduce_stretches(path, view, registry, registry.warnings)


READER = InputReader(
    "packet capture (pcap)",
    read,
    recognise,
    read_parts=read_parts,
    needs=("node", "port"),
)
