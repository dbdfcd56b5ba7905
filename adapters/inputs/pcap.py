"""Inputs of kind `pcap`: the packets of one port."""

from skewscope.adapters.inputs.capture import build_port_view, reduce_capture
from skewscope.adapters.inputs.recording import Input, Recording
from skewscope.adapters.mapping.names import MetricResolver, SeriesRegistry
from skewscope.engine.ingest.feed import Block

NEEDS = ("node", "port")
"""Labels without which nobody knows whose packets these are."""


def read(source: Input, recording: Recording, intake: SeriesRegistry, _: MetricResolver) -> Block:
    """What the packets say, as `wire.*` samples.

    Raises:
        InputError: the file is no capture, or damaged.
    """
    labels = dict(source.labels)
    port = recording.topology.port[f"{labels['node']}/{labels['port']}"]
    block, warnings = reduce_capture(
        recording.resolve_path(source.path), build_port_view(recording.topology, port), intake
    )
    intake.warnings += warnings
    return block
