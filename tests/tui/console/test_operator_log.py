"""The operator log."""

from skewscope.tui.console import operator_log
from tests.tui.samples import (
    CHILD,
    ROOT,
    T0,
)


def test_a_log_is_read_back_and_invalid_lines_are_skipped(tmp_path):
    file = tmp_path / "ledger.jsonl"
    kept = operator_log.OperatorLog(file)
    kept.add(operator_log.OperatorLogEntry(T0 + 30, "eva", "acknowledged", ROOT.id))
    with file.open("a") as more:
        more.write('nonsense\n{"time": 1}\n[]\n')
    found = operator_log.read_log(file)
    assert found.entries == kept.entries
    assert "3 invalid lines" in found.fault
    assert operator_log.read_log(tmp_path / "none.jsonl").entries == ()


def test_a_snooze_ends_by_itself():
    kept = operator_log.OperatorLog()
    kept.add(operator_log.OperatorLogEntry(T0, "eva", "snoozed", ROOT.id, T0 + 60))
    assert kept.triage_state(ROOT, T0 + 30).state == "snoozed"
    assert not kept.triage_state(ROOT, T0 + 60).state
    assert not kept.triage_state(CHILD, T0 + 30).state
    assert not kept.triage_state(ROOT, T0 - 1).state


def test_actions_of_earlier_versions_are_read(tmp_path):
    file = tmp_path / "ledger.jsonl"
    file.write_text("".join(f'{{"time": 1, "who": "eva", "did": "{did}"}}\n' for did in ("taken back", "woken")))
    assert [entry.did for entry in operator_log.read_log(file).entries] == ["unacknowledged", "unsnoozed"]
