"""Alertmanager: a real one, and what its contract asks for."""

import asyncio
import time
from dataclasses import replace
from datetime import datetime

import pytest

from skewscope.adapters.notify.alertmanager import (
    ALERTS_PATH,
    END_AHEAD_PERIODS,
    END_REPEATS,
    AlertmanagerSettings,
    build,
)
from skewscope.adapters.notify.base import (
    RESOLVED,
    WITHDRAWN,
    DeliveryError,
    IncidentUpdate,
    NotificationScope,
)
from skewscope.adapters.sources.common.http_client import FetchOptions
from tests.adapters.notify.incidents import fleet, incident, symptom
from tests.adapters.notify.servers import alertmanager, free_port, listening

PERIOD = 30.0


def teller(*ports, **more):
    urls = tuple(f"http://127.0.0.1:{port}{ALERTS_PATH}" for port in ports)
    more = {"severity_label": False} | more
    settings = AlertmanagerSettings("ops", urls, FetchOptions(2.0), NotificationScope(), PERIOD, **more)
    found = build(settings, fleet())
    return found[0] if len(found) == 1 else found


def show(board, incidents, now, ended=()):
    asyncio.run(board.show(incidents, ended, now))


def seconds(text):
    return datetime.fromisoformat(text).timestamp()


def passed_on(posts):
    """Of whom an Alertmanager passed on that something fires, and that it is over."""
    alerts = [alert for post in posts for alert in post.json["alerts"]]
    return {
        status: {alert["labels"]["entity"] for alert in alerts if alert["status"] == status}
        for status in ("firing", "resolved")
    }


def test_an_alert_fires_is_grouped_and_resolves(tmp_path):
    with alertmanager(tmp_path) as manager:
        board, now = teller(manager.port, link="http://ops:8470"), time.time()
        both = [incident(n, opened_at=now - 60.0 + n) for n in (3, 4)]
        show(board, both, now)
        alerts = {alert["labels"]["entity"]: alert for alert in manager.alerts()}
        assert set(alerts) == {"n3", "n4"}
        assert alerts["n3"]["status"]["state"] == "active"
        assert seconds(alerts["n3"]["startsAt"]) == pytest.approx(both[0].opened_at, abs=0.002)
        assert alerts["n3"]["generatorURL"] == "http://ops:8470/incidents/i-3"
        # Alertmanager answers the post before its dispatcher has sorted what came into groups.
        manager.until(lambda: sum(len(group["alerts"]) for group in manager.groups()) == 2)
        (group,) = manager.groups()
        assert group["labels"] == {"alertname": "tp-straggler", "fleet": "fleet"}
        # Alerts that began long ago are passed on at once: the first of the group may go alone.
        manager.until(lambda: passed_on(manager.ear.posts)["firing"] == {"n3", "n4"})

        # What changes is no other alert, and began when it began.
        worse = replace(both[0], severity="critical", confidence=0.99)
        show(board, [worse, both[1]], time.time())
        again = {alert["labels"]["entity"]: alert for alert in manager.alerts()}
        assert again["n3"]["fingerprint"] == alerts["n3"]["fingerprint"]
        assert again["n3"]["startsAt"] == alerts["n3"]["startsAt"]
        assert again["n3"]["annotations"]["severity"] == "critical"

        show(board, [], time.time())
        manager.until(lambda: not manager.alerts())
        manager.until(lambda: passed_on(manager.ear.posts)["resolved"] == {"n3", "n4"})


def test_what_nobody_sends_any_more_ends_by_itself(tmp_path):
    with listening() as ear:
        show(teller(ear.port), [incident(3)], 5000.0)
    (alert,) = ear.posts[0].json
    assert seconds(alert["endsAt"]) == 5000.0 + END_AHEAD_PERIODS * PERIOD
    assert ear.posts[0].headers["content-type"] == "application/json"


def test_an_end_is_sent_several_times_and_then_forgotten():
    with listening() as ear:
        board = teller(ear.port)
        show(board, [incident(3)], 5000.0)
        for n in range(END_REPEATS + 2):
            show(board, [], 5010.0 + n)
    sent = [post.json for post in ear.posts]
    assert len(sent) == 1 + END_REPEATS
    assert {seconds(alert["endsAt"]) for alerts in sent[1:] for alert in alerts} == {5010.0}


def test_an_end_that_did_not_arrive_is_not_counted():
    with listening() as ear:
        board = teller(ear.port)
        show(board, [incident(3)], 5000.0)
        ear.answers = [(500, {})] * 10
        for n in range(10):
            with pytest.raises(DeliveryError, match="the answer 500"):
                show(board, [], 5010.0 + n)
        show(board, [], 5020.0)
    assert ear.posts[-1].json[0]["labels"]["entity"] == "n3"


@pytest.mark.parametrize(
    ("what", "why", "more", "ended"),
    [
        (RESOLVED, "", {"state": "resolved", "resolved_at": 5009.0}, "healed"),
        (RESOLVED, "", {"state": "resolved", "resolved_at": 5009.0, "is_gone": True}, "gone"),
        (WITHDRAWN, "caused by i-7", {}, "withdrawn: caused by i-7"),
    ],
)
def test_an_alert_that_ends_says_how(what, why, more, ended):
    with listening() as ear:
        board = teller(ear.port)
        show(board, [incident(3)], 5000.0)
        show(board, [], 5010.0, [IncidentUpdate(what, why, incident(3, **more))])
        show(board, [], 5040.0)
    first, *ends = (post.json[0]["annotations"] for post in ear.posts)
    assert "ended" not in first
    assert [one["ended"] for one in ends] == [ended, ended]


def test_what_comes_back_is_not_ended():
    with listening() as ear:
        board = teller(ear.port)
        for incidents in ([incident(3)], [], [incident(3)]):
            show(board, incidents, 5000.0)
    assert len(ear.posts[-1].json) == 1
    assert seconds(ear.posts[-1].json[0]["endsAt"]) > 5000.0


def test_labels_are_identity_only():
    one = incident(3, also=("n4",))
    with listening() as ear:
        board = teller(ear.port, labels=(("cluster", "a"),))
        for changed in (one, replace(one, severity="critical", confidence=0.5, also=(), coverage=0.1, id="other")):
            show(board, [changed], 5000.0)
    labels = [post.json[0]["labels"] for post in ear.posts]
    assert labels[0] == labels[1]
    assert labels[0] == {
        "alertname": "tp-straggler",
        "category": "diagnosis",
        "kind": "rank",
        "entity": "n3",
        "node": "n3",
        "place": "n3",
        "fleet": "fleet",
        "cluster": "a",
        **({"rack": fleet().node["n3"].rack} if fleet().node["n3"].rack else {}),
    }


def test_a_symptom_says_that_it_is_one():
    with listening() as ear:
        show(teller(ear.port), [symptom(3)], 5000.0)
    (alert,) = ear.posts[-1].json
    assert alert["labels"]["category"] == "symptom"
    told = alert["annotations"]
    assert told["summary"] == "~ Work takes longer on n3 (cause unknown)"
    assert told["description"] == "Steps take 1.9 times as long."
    assert told["may_be_caused_by"] == "tp-straggler 46 %, fabric-congestion 21 %"
    assert told["decides"] == "gpu.sm_clock"
    assert "may_be_instead" not in told


def test_where_severity_is_a_label_its_change_ends_the_other_alert():
    with listening() as ear:
        board = teller(ear.port, severity_label=True)
        show(board, [incident(3)], 5000.0)
        show(board, [incident(3, severity="critical")], 5001.0)
    ends = {alert["labels"]["severity"]: seconds(alert["endsAt"]) for alert in ear.posts[-1].json}
    assert ends == {"critical": 5001.0 + END_AHEAD_PERIODS * PERIOD, "warning": 5001.0}


def test_each_of_several_is_told_on_its_own():
    dead = free_port()
    with listening() as ear:
        good, bad = sorted(
            teller(ear.port, dead), key=lambda one: one.url != f"http://127.0.0.1:{ear.port}{ALERTS_PATH}"
        )
        assert good.name != bad.name
        with pytest.raises(DeliveryError):
            show(bad, [incident(3)], 5000.0)
        show(good, [incident(3)], 5000.0)
        assert len(ear.posts) == 1
