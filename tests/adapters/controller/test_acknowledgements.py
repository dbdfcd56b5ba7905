"""Acknowledgements of a controller: in the API, in views, and after a restart."""

import pytest

from skewscope.adapters.controller.acknowledgements import (
    ACKNOWLEDGED,
    MAX_READ,
    SUBJECT,
    WITHDRAWN,
    read_acknowledgements,
)
from skewscope.adapters.controller.store import Store
from tests.adapters.controller.processes import AUTH, TOKENS, running
from tests.adapters.controller.writer import incident as one_of_many

PATH = "/api/v1/incidents/i-3/acknowledge"


def test_the_audit_log_holds_them(tmp_path):
    store = Store(tmp_path / "s.db")
    store.add_audit_entry(1.0, "eva", ACKNOWLEDGED, {"incident": "i-1"})
    store.add_audit_entry(2.0, "ben", ACKNOWLEDGED, {"incident": "i-2"})
    store.add_audit_entry(3.0, "ben", "config was reloaded", {"incident": "acknowledge"})
    store.add_audit_entry(4.0, "eva", WITHDRAWN, {"incident": "i-1"})
    assert read_acknowledgements(store.audit_lines(SUBJECT, MAX_READ)) == {"i-2": "ben"}
    store.close()


@pytest.mark.slow
def test_a_controller_shows_who_looks_after_an_incident_also_after_a_restart(tmp_path):
    store = Store(tmp_path / "skewscope.db")
    store.write_tick(1.0, [one_of_many(3)], [])
    store.close()

    def who(controller):
        return controller.json("/api/v1/incidents/i-3", TOKENS["READ"])["acknowledged_by"]

    with running(tmp_path, AUTH) as controller:
        assert controller.send(PATH, {"acknowledged": True}, TOKENS["READ"])[0] == 403
        assert controller.send(PATH, {"acknowledged": "much"}, TOKENS["APPROVE"])[0] == 400
        none = controller.send(PATH.replace("i-3", "none"), {"acknowledged": True}, TOKENS["APPROVE"])
        assert none[0] == 404
        assert controller.send(PATH, {"acknowledged": True}, TOKENS["APPROVE"])[0] == 200
        controller.until(lambda: who(controller) == "a")
    with running(tmp_path, AUTH) as controller:
        controller.until(lambda: who(controller) == "a")
        assert controller.send(PATH, {"acknowledged": False}, TOKENS["APPROVE"])[1]["acknowledged_by"] is None
        controller.until(lambda: who(controller) is None)
