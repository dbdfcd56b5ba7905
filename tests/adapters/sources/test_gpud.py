"""Verdicts of gpud, asked for live: each unhealthy state is an event at its node as long as it is given."""

import asyncio
import json
from dataclasses import dataclass, field

from skewscope.adapters.mapping.names import MetricResolver
from skewscope.adapters.sources import SourceContext, source_kinds
from skewscope.adapters.sources.common.base import BatchSink
from skewscope.adapters.sources.gpud import PERIOD, build, read
from skewscope.engine.model.topology import Node, Topology
from skewscope.kb.field_reader import FieldReader
from skewscope.kb.loader import catalogue
from skewscope.kb.yamlfile import parse
from tests.adapters.controller.clocks import FakeClock
from tests.support.loopback import Says, Server

FLEET = Topology((Node("gpu-01"), Node("gpu-02")))
REASON = "XID 79 (GPU has fallen off the bus) detected on GPU PCI:0000:9b:00"


def state(component, health, reason="ok"):
    return {
        "component": component,
        "states": [{"time": "2026-11-23T09:10:31Z", "component": component, "health": health, "reason": reason}],
    }


@dataclass
class Gpud:
    """What one gpud answers."""

    states: list = field(default_factory=lambda: [state("cpu", "Healthy")])
    status: int = 200
    asked: list = field(default_factory=list)

    def answer(self, asked):
        self.asked.append(asked.path)
        return Says(self.status, json.dumps(self.states).encode())


def read_settings(text):
    fields = FieldReader(parse(text))
    return read(fields, (), "gpud"), fields.problems


def play(first, second, *acts):
    """Returns after each act the counts of events by node, and the trouble of the source."""
    found = []

    async def follow():
        with Server(first.answer) as one, Server(second.answer) as other:
            settings, problems = read_settings(
                "kind: gpud\nscheme: http\ntargets:\n"
                f"- {{targets: ['{one.place}'], labels: {{node: gpu-01}}}}\n"
                f"- {{targets: ['{other.place}'], labels: {{node: gpu-02}}}}\n"
            )
            assert not problems
            clock = FakeClock()
            source, sink = (
                build(settings, SourceContext(FLEET, MetricResolver(catalogue(), FLEET), clock)),
                BatchSink(clock),
            )
            for act in acts:
                act()
                await source.ask_all(sink)
                counts = {}
                for batch in sink.take():
                    for number, value in zip(batch.numbers, batch.value, strict=True):
                        key = batch.columns.keys[number]
                        counts[key.signal, key.entity] = float(value)
                found.append((counts, sink.trouble))
                await clock.pass_(PERIOD)

    asyncio.run(follow())
    return found


def test_a_verdict_is_an_event_at_its_node_in_each_answer_that_gives_it():
    first, second = Gpud(), Gpud()
    bad = state("accelerator-nvidia-error-xid", "Unhealthy", REASON)

    def fail():
        first.states.append(bad)

    found = play(first, second, lambda: None, fail, lambda: None, lambda: first.states.remove(bad))
    event = "event.gpud_check_failed_accelerator_nvidia_error_xid", "gpu-01"
    assert [counts for counts, _ in found] == [{}, {event: 1.0}, {event: 2.0}, {}]
    assert {*first.asked, *second.asked} == {"/v1/states"}


def test_a_gpud_that_does_not_answer_is_named_and_the_others_are_read():
    first, second = Gpud(status=500), Gpud([state("disk", "Unhealthy", "no space left")])
    ((counts, trouble),) = play(first, second, lambda: None)
    assert counts == {("event.gpud_check_failed_disk", "gpu-02"): 1.0}
    assert trouble.startswith("1 of 2 do not answer: http://127.0.0.1:")
    assert trouble.endswith("the answer 500")


def test_an_answer_that_is_no_json_says_nothing():
    first, second = Gpud(states="{"), Gpud(states=[{"component": ["x"], "states": 3}])
    assert play(first, second, lambda: None) == [({}, "")]


def test_addresses_are_those_of_its_api():
    settings, problems = read_settings("kind: gpud\ntargets: ['gpu-01:15132']\n")
    assert not problems
    assert [one.url for one in settings.discovery.targets] == ["https://gpu-01:15132/v1/states"]
    assert settings.period == PERIOD
    assert "gpud" in source_kinds()
