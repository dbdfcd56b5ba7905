"""Inputs of kind `pcap`: the packets of one port."""

from skewscope.adapters.inputs.capture import build_port_view, reduce_capture
from skewscope.adapters.inputs.recording import Input, Recording
from skewscope.adapters.mapping.names import MetricResolver, SeriesRegistry
from skewscope.engine.ingest.feed import Block

NEEDS = ("node", "port")
"""Labels that identify the port of the packets."""


def read(source: Input, recording: Recording, registry: SeriesRegistry, _: MetricResolver) -> Block:
    """Returns the samples of `wire.*` signals of the packets.

    Raises:
        InputError: the file is not a capture, or damaged.
    """
    labels = dict(source.labels)
    port = recording.topology.port[f"{labels['node']}/{labels['port']}"]
    block, warnings = reduce_capture(
        recording.resolve_path(source.path), build_port_view(recording.topology, port), registry
    )
    registry.warnings += warnings
    return block
