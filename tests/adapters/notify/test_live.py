"""A controller that tells: a fault is an alert at a real Alertmanager and an event, and its end ends both."""

import signal

import numpy as np
import pytest

from tests.adapters.controller.processes import Sender, running
from tests.adapters.notify.servers import alertmanager, free_port, listening

TELL = """
tell:
  - {{kind: alertmanager, name: ops, urls: ["127.0.0.1:{manager}"], period: 1}}
  - {{kind: alertmanager, name: dead, urls: ["127.0.0.1:{dead}"]}}
  - {{kind: cloudevents, name: events, urls: ["http://127.0.0.1:{ear}/"]}}
  - {{kind: cloudevents, name: hangs, urls: ["http://127.0.0.1:{hangs}/"], timeout: 0.5}}
"""
NARROW = {"match": {"node": ["n0"]}, "hours": 1, "comment": "a new cable"}


def blackout(found, sender):
    """Waits until a node's host counters, which end while its wire goes on, are an incident."""
    sender.send(8, 10.0)
    sender.send(14, np.nan)
    found.until(lambda: (sender.send(1, np.nan), found.json("/api/v1/incidents")["incidents"])[1], 40)
    return found.json("/api/v1/incidents")["incidents"][0]


def whats(posts):
    return [post.json["type"].rpartition(".")[2] for post in posts]


@pytest.mark.slow
def test_a_fault_is_told_and_so_is_its_end(tmp_path):
    with alertmanager(tmp_path) as manager, listening() as ear, listening() as hangs:
        hangs.hangs = True
        tell = TELL.format(manager=manager.port, dead=free_port(), ear=ear.port, hangs=hangs.port)
        with running(tmp_path, tell) as found:
            sender = Sender(found)
            one = blackout(found, sender)
            (alert,) = manager.until(manager.alerts)
            assert alert["labels"]["alertname"] == one["condition"] == "telemetry-blackout"
            assert (alert["labels"]["entity"], alert["annotations"]["incident"]) == ("n0", one["id"])
            (event,) = ear.heard()
            assert (event.json["type"], event.json["data"]["id"]) == ("io.skewscope.incident.opened", one["id"])
            found.until(lambda: len(hangs.posts) > 1)
            states = {each["name"]: each["up"] for each in found.json("/api/v1/tellers")["tellers"]}
            assert states == {"ops": True, "dead": False, "events": True, "hangs": False}
            page = found.ask("/metrics")[2].decode()
            assert 'skewscope_teller_up{teller="dead"} 0.0' in page
            assert 'skewscope_teller_dropped_total{teller="hangs"} 0.0' in page
            found.until(lambda: (sender.send(1, 10.0, pause=0.2), not manager.alerts())[1], 60)
            assert whats(ear.heard(2)) == ["opened", "resolved"]
            manager.until(lambda: [post.json["status"] for post in manager.ear.posts] == ["firing", "resolved"])
            # Another config: those that are told no more are gone, the others go on as they were.
            config = tmp_path / "skewscope.yaml"
            config.write_text("".join(line for line in config.open() if "dead" not in line and "hangs" not in line))
            found.process.send_signal(signal.SIGHUP)
            found.until(lambda: len(found.json("/api/v1/tellers")["tellers"]) == 2)
            told = {each["name"]: each["told"] for each in found.json("/api/v1/tellers")["tellers"]}
            assert told["events"] == 2


@pytest.mark.slow
def test_a_kill_loses_no_letter_and_no_silence(tmp_path):
    with listening() as ear, listening() as hangs, alertmanager(tmp_path) as manager:
        hangs.hangs = True
        tell = TELL.format(manager=manager.port, dead=free_port(), ear=ear.port, hangs=hangs.port)
        with running(tmp_path, tell + "auth: {anonymous: approve}\n") as found:
            one = blackout(found, Sender(found))
            manager.until(manager.alerts)
            status, silence = found.send("/api/v1/silences", NARROW)
            assert status == 201
            manager.until(lambda: not manager.alerts())
            assert whats(ear.heard(2)) == ["opened", "withdrawn"]
            assert found.json("/api/v1/incidents")["incidents"][0]["silenced_by"] == silence["id"]
            found.until(lambda: hangs.posts)
            found.process.send_signal(signal.SIGKILL)
            found.process.wait()
        hangs.hangs = False
        told = len(hangs.posts)
        with running(tmp_path, tell + "auth: {anonymous: approve}\n") as again:
            # What nobody took before comes now, as it was; what was taken may come again under its name.
            late = hangs.heard(told + 2)[told:]
            assert (whats(late), late[0].body) == (["opened", "withdrawn"], hangs.posts[0].body)
            assert again.json("/api/v1/incidents")["incidents"][0]["silenced_by"] == silence["id"]
            assert manager.alerts() == []
            again.send(f"/api/v1/silences/{silence['id']}", {}, method="DELETE")
            (alert,) = manager.until(manager.alerts)
            assert alert["annotations"]["incident"] == one["id"]
            again.until(lambda: whats(ear.posts)[-1] == "opened")
            assert len({post.json["id"] for post in ear.posts}) == 3
