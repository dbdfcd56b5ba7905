"""Incidents to tell of."""

from dataclasses import replace

from skewscope.adapters.inputs.recording import demo_path
from skewscope.engine.model.incident import SYMPTOM, Incident
from skewscope.engine.model.topology import Topology
from skewscope.engine.model.topology_file import parse_topology
from skewscope.kb import yamlfile
from tests.adapters.controller.writer import incident as one_of_many


def fleet() -> Topology:
    """The demo's."""
    found, problems = parse_topology(yamlfile.read(demo_path() / "topology.yaml"))
    assert not problems
    return found


def incident(number: int, **other) -> Incident:
    """One of many, changed."""
    return replace(one_of_many(number), **({"opened_at": 0.5} | other))


def symptom(number: int, **other) -> Incident:
    """A symptom with two causes."""
    return incident(
        number,
        category=SYMPTOM,
        condition="slow-steps",
        candidates=("tp-straggler", "fabric-congestion"),
        probabilities=(0.46, 0.21),
        decides="gpu.sm_clock",
        summary="Steps take 1.9 times as long.",
        **other,
    )


def over(one: Incident, at: float) -> Incident:
    """The same, resolved."""
    return replace(one, state="resolved", resolved_at=at)
