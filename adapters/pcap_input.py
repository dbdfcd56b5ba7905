"""Inputs of kind `pcap`: the packets of one port."""

from skewscope.adapters.names import Intake, Names
from skewscope.adapters.recording import Input, Recording
from skewscope.adapters.wire_input import port_view, reduce_capture
from skewscope.engine.feed import Block

NEEDS = ("node", "port")
"""Labels without which nobody knows whose packets these are."""


def read(source: Input, recording: Recording, intake: Intake, _: Names) -> Block:
    """What the packets say, as `wire.*` samples.

    Raises:
        InputError: the file is no capture, or damaged.
    """
    labels = dict(source.labels)
    port = recording.topology.port[f"{labels['node']}/{labels['port']}"]
    block, warnings = reduce_capture(recording.file(source.path), port_view(recording.topology, port), intake)
    intake.warnings += warnings
    return block
