"""By which labels alerts are routed, and which of them are one page."""

import asyncio
from dataclasses import replace

import pytest

from skewscope.adapters.notify import alertmanager, cloudevents
from skewscope.adapters.notify.alert_labels import place_labels
from skewscope.adapters.notify.alert_text import AlertContext
from skewscope.adapters.notify.base import OPENED, IncidentUpdate, Notification, NotificationScope
from skewscope.adapters.notify.chat import build_message
from skewscope.adapters.notify.incident_text import evidence_text
from skewscope.adapters.sources.common.http_client import FetchOptions
from skewscope.engine.model.incident import IncidentEvidence
from skewscope.engine.model.topology import Group, Node, Pool, Topology
from skewscope.kb.loader import catalogue
from tests.adapters.notify.incidents import incident
from tests.adapters.notify.servers import listening

ENGINES = Topology(
    (Node("n0", gpus=4), Node("n1", gpus=1)),
    tuple(
        Group(
            f"llm-{n}",
            "tensor-parallel",
            (f"n0/gpu{2 * n}", f"n0/gpu{2 * n + 1}"),
            front_end="n0",
            engine=(("namespace", "serving"), ("pod", f"llm-{n}")),
        )
        for n in range(2)
    ),
    (Pool("m/x", ("llm-0", "llm-1"), team="chat"),),
)


def test_an_alert_of_a_replica_says_what_runs_there_and_whose_it_is():
    found = place_labels(incident(3, kind="replica", name="llm-1"), ENGINES)
    assert found == {
        "pod": "llm-1",
        "namespace": "serving",
        "model": "",
        "pool": "m/x",
        "team": "chat",
        "place": "llm-1",
    }


@pytest.mark.parametrize(
    ("kind", "name", "place"),
    [
        ("replica", "llm-0", "llm-0"),
        ("gpu", "n0/gpu1", "llm-0"),
        ("gpu", "n1/gpu0", "n1"),
        ("node", "n0", "n0"),
        ("pool", "m/x", "m/x"),
    ],
)
def test_what_one_fault_shows_has_one_place(kind, name, place):
    assert place_labels(incident(3, kind=kind, name=name), ENGINES)["place"] == place


def test_all_notifiers_say_the_same_place():
    one, known = incident(3, kind="gpu", name="n0/gpu1"), catalogue()
    with listening() as ear:
        address = f"http://127.0.0.1:{ear.port}/in"
        fetch, scope = FetchOptions(2.0), NotificationScope()
        (board,) = alertmanager.build(alertmanager.AlertmanagerSettings("a", (address,), fetch, scope), ENGINES)
        asyncio.run(board.show([one], (), 5000.0))
        (bus,) = cloudevents.build(cloudevents.CloudEventsSettings("c", (address,), fetch, scope), ENGINES)
        asyncio.run(bus.send(Notification(7, 1000.0, IncidentUpdate(OPENED, "", one))))
    alerts, event = (post.json for post in ear.posts)
    _, body = build_message(Notification(7, 1000.0, IncidentUpdate(OPENED, "", one)), AlertContext(known, ENGINES))
    assert alerts[0]["labels"]["place"] == event["data"]["place"] == "llm-0"
    assert "place llm-0" in body


def test_evidence_has_values_and_no_expressions():
    evidence = IncidentEvidence("cache_is_full", "yes", 3.0, 147.0, "{request}", "serve.waiting > 1*requests")
    text = evidence_text(replace(incident(3), evidence=(evidence,)))
    assert text == "cache is full (147 requests)"
