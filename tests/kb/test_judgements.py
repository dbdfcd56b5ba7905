"""How each signal is judged by itself, the prose that explains it, and the symptoms."""

import re
from pathlib import Path

import pytest

from skewscope.kb.entry_kinds import builtin_folder
from skewscope.kb.judgement import describe_least
from skewscope.kb.loader import catalogue
from skewscope.kb.model import Judgement
from skewscope.kb.query import referencing_entries
from skewscope.kb.schema_validation import schema

SIGNALS = catalogue().signals
SYMPTOMS = catalogue().symptoms
PAGE = (builtin_folder().parent / "docs/catalogue.md") if (builtin_folder().parent / "docs").is_dir() else None


def judged(id_: str) -> Judgement:
    found = SIGNALS[id_].judged
    assert found
    return found


def made(least: float, floor: float) -> Judgement:
    return Judgement("wait", "up", "judgement: for this test", ("past",), least, floor, symptom="long-waits")


def test_every_signal_has_a_judgement_with_a_reason():
    for signal in SIGNALS.values():
        assert signal.judged, signal.id
        assert len(signal.judged.basis) > 20, signal.id


@pytest.mark.parametrize("name", ["role", "bad", "against"])
def test_the_prose_tells_of_every_word_of_a_choice(name):
    text = (builtin_folder() / "schema/signal.md").read_text()
    shape = schema("signal")["$defs"]["judgement"]["properties"][name]
    words = schema("signal")["$defs"]["role"]["enum"] if name == "role" else (shape.get("items") or shape)["enum"]
    missing = {word for word in words if f"`{word}`" not in text} - {"up", "down", "both"}
    assert not missing


def test_the_prose_tells_of_every_field():
    text = (builtin_folder() / "schema/signal.md").read_text()
    assert not {name for name in schema("signal")["$defs"]["judgement"]["properties"] if f"`{name}`" not in text}


def test_every_role_and_every_direction_is_in_use():
    found = [signal.judged for signal in SIGNALS.values() if signal.judged]
    roles = schema("signal")["$defs"]["role"]["enum"]
    assert {one.role for one in found} == set(roles)
    assert {one.bad for one in found} == {"up", "down", "both", "stops", "begins", "none"}


def test_what_follows_the_load_is_not_compared_with_its_past():
    for signal in SIGNALS.values():
        if signal.judged and signal.judged.role in ("share", "workload"):
            assert "past" not in signal.judged.against, signal.id


def test_time_per_work_accuses_and_waiting_does_not():
    assert judged("step.compute_time").symptom == "slow-steps"
    forms = {"peers": "late-member", "moving": "uneven-members", "start": "slow-start"}
    assert SYMPTOMS["slow-steps"].instead == forms
    for signal in SIGNALS.values():
        if signal.judged and signal.judged.role == "wait" and signal.judged.symptom:
            assert SYMPTOMS[signal.judged.symptom].severity == "info", signal.id


def test_a_clock_counts_under_load_only():
    for id_ in ("gpu.sm_clock", "gpu.mem_clock", "host.cpu_clock"):
        assert judged(id_).given


def test_an_absolute_limit_lies_within_the_range_of_the_signal():
    for signal in SIGNALS.values():
        if signal.judged and signal.range and signal.judged.nominal is not None:
            assert signal.range[0] <= signal.judged.nominal <= signal.range[1], signal.id


def test_the_bits_that_are_set_in_health_are_bits_of_the_mask():
    for signal in SIGNALS.values():
        if signal.type == "bitmask" and signal.judged and signal.judged.nominal is not None:
            assert int(signal.judged.nominal) & ~sum(signal.bits.values()) == 0, signal.id


@pytest.mark.parametrize(
    ("least", "floor", "text"),
    [
        (0.1, 0.0, "10 %"),
        (0.0, 0.002, "0.002 s"),
        (0.5, 0.002, "50 % and 0.002 s"),
        (9.0, 1000.0, "900 % and 1000 s"),
        (0.0, 0.0, ""),
    ],
)
def test_the_least_change_is_told_with_its_unit(least, floor, text):
    assert describe_least(made(least, floor), "s", "gauge") == text


def test_the_least_change_of_a_counter_is_a_rate():
    assert describe_least(made(0.0, 1.0), "{packet}", "counter") == "1 {packet}/s"
    assert describe_least(made(0.0, 0.05), "s", "counter") == "0.05 s/s"


def test_a_symptom_knows_the_signals_that_show_it():
    used = referencing_entries(catalogue(), "symptoms", "lost-clock")
    assert {"gpu.sm_clock", "gpu.throttle_reasons"} <= set(used["signals"])
    assert referencing_entries(catalogue(), "symptoms", "flapping") == {"symptoms": ["link-down"]}


@pytest.mark.skipif(PAGE is None, reason="an installed package has no documentation")
def test_the_page_of_the_catalogue_lists_every_symptom():
    rows = re.findall(r"^\| `([a-z-]+)` \| (.*) \| (.*) \|$", Path(str(PAGE)).read_text(), re.MULTILINE)
    assert rows == [(one.id, one.name, one.severity) for one in SYMPTOMS.values()]
