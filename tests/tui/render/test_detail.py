"""One incident in brief and in full."""

import re
from dataclasses import replace

import pytest

from skewscope.engine.model.incident import SYMPTOM as CATEGORY
from skewscope.engine.model.incident import Advice, Impact
from skewscope.kb import loader
from skewscope.tui.render import detail, incident_layout
from skewscope.tui.render.detail import DisplayNames
from skewscope.tui.render.evidence_value import format_evidence
from skewscope.tui.render.incident_lead import alternative_line, lead_sections
from skewscope.tui.render.text import line, line_width, to_plain_text
from tests.tui.samples import CHILD, ENDED, INCIDENTS, ROOT, SYMPTOM, T0, catalogue

WORDS = DisplayNames(catalogue(), INCIDENTS)
NOW = T0 + 100


@pytest.mark.parametrize("rows", range(3, 40))
def test_the_essence_fits_whatever_the_rows(rows):
    shown = incident_layout.squeezed_lines(ROOT, WORDS, NOW, 78, rows)
    assert len(shown) <= max(rows, 3)
    assert all(line_width(row) <= 78 for row in shown)
    assert "why" in to_plain_text(shown)


def test_omitted_items_are_counted():
    assert "more" in to_plain_text(incident_layout.squeezed_lines(ROOT, WORDS, NOW, 78, 9))
    assert "more" not in to_plain_text(incident_layout.squeezed_lines(ROOT, WORDS, NOW, 78, 30))


def test_the_short_form_has_no_expressions_and_no_long_lists():
    many = replace(ROOT, candidates=tuple(f"c{n}" for n in range(18)), mitigations=ROOT.mitigations * 3)
    shown = to_plain_text(incident_layout.short_lines(many, WORDS, NOW, 100))
    assert ">" not in shown
    assert "why       late (12.4 ms), same rank (97 %)" in shown
    assert "if wrong  Fabric congestion: CNP, ECN and round-trip time rise together" in shown
    assert "18 others cannot be checked here (no data)" in shown
    assert "and 4 more" in shown
    assert "also      ! Pipeline bubble on group B, caused by it" in shown
    assert len(shown.splitlines()) < 18


def test_the_full_detail_has_evidence_and_advice():
    shown = to_plain_text(incident_layout.full_lines(ROOT, WORDS, NOW, 100))
    for words in (
        "n2 holds up its group: every rank waits for it",
        "94 % sure · Tensor-parallel straggler",
        "since 12:19:11 UTC, for 77 s",
        "12.4 ms",
        "Fabric congestion: CNP",
        "gpu.clock_ratio; 92 % of the evidence could be looked at",
        "undo: put it back",
        "verify: wire.onset_lag falls",
        "Pipeline bubble on group B",
        "12:19:11  pending",
        "tp-straggler-on-the-wire",
        ROOT.id,
    ):
        assert words in shown
    assert "caused by Tensor-parallel straggler on rank n2" in to_plain_text(
        incident_layout.full_lines(CHILD, WORDS, NOW, 100)
    )
    assert "reopened 2 times" in to_plain_text(incident_layout.full_lines(ENDED, WORDS, NOW, 100))


def test_candidates_without_telemetry_are_counted_and_located():
    several = to_plain_text(
        incident_layout.full_lines(replace(ROOT, candidates=("fabric-congestion", "unheard-of")), WORDS, NOW, 100)
    )
    assert "2 conditions cannot be checked here (no data): Fabric congestion, unheard-of" in several
    apart = replace(ROOT, candidates=("unheard-of",), elsewhere=(("unheard-of", ("A", "B", "C", "D", "E")),))
    assert "here (no data): unheard-of (at A, B, C or elsewhere)" in to_plain_text(
        incident_layout.full_lines(apart, WORDS, NOW, 100)
    )
    assert "not known" not in to_plain_text(incident_layout.full_lines(ROOT, WORDS, NOW, 100))


def test_another_incident_is_named_in_the_history():
    told = replace(ENDED, history=((NOW, f"explained by {ROOT.id}"), (NOW, "a root again")))
    shown = to_plain_text(incident_layout.full_lines(told, WORDS, NOW, 100))
    assert "explained by Tensor-parallel straggler on rank n2" in shown
    assert "a root again" in shown


def test_the_state_is_shown_where_the_name_leaves_no_room_for_it():
    assert "critical · firing · 94 % sure" in to_plain_text(
        incident_layout.squeezed_lines(ROOT, WORDS, NOW, 100, 10)[:1]
    )
    narrow = incident_layout.squeezed_lines(ROOT, WORDS, NOW, 60, 10)
    assert "critical" not in to_plain_text(narrow[:1])
    assert to_plain_text(narrow[1:2]).startswith("  critical · firing · 94 % sure · since")


def test_evidence_stands_where_its_verdict_puts_it():
    parts = {part.label: to_plain_text(part.items) for part in detail.reasoning_sections(ROOT, WORDS)}
    assert "late" in parts["why"]
    assert "same rank" in parts["why"]
    assert "slower" in parts["against"]
    assert "lossy" in parts["against"]
    assert "congested" in parts["ruled out"]
    assert "throttled" in parts["unknown"]


@pytest.mark.parametrize(("value", "shown"), [(0.357, "35.7 %"), (3.9, "3.9×"), (64.0, "64")])
def test_bits_among_shares_are_no_percentage(value, shown):
    item = replace(ROOT.evidence[0], value=value, unit="1", expr="rate(a.b) > 5*percent or 32 <= a.reasons < 128")
    assert format_evidence(item) == shown


LONG = (
    "memory of the late member is nearly full and its allocator is called in bursts, which a slow member does not show"
)


def test_what_it_is_if_wrong_is_whole_before_other_things_are_shown():
    rival = replace(ROOT.competing[0], separate_by=LONG)
    one = replace(ROOT, competing=(rival, *ROOT.competing[1:]))
    parts = lead_sections(one, WORDS)
    rows = incident_layout.least_rows(parts, 80)
    for room in range(rows, rows + 12):
        shown = incident_layout.squeeze_rows(parts, 80, room)
        assert len(shown) <= room
        assert LONG in " ".join(re.sub(r"(?m)^\+\d+ more", "", to_plain_text(shown)).split())


def test_every_advice_says_what_to_do_if_it_is_wrong():
    alone = replace(ROOT, competing=(), against=(), candidates=())
    parts = {part.label: part for part in lead_sections(alone, WORDS)}
    assert to_plain_text(parts["if wrong"].items) == "It shows none of that: 2 Drain rank n2.\n"
    drained = replace(alone, mitigations=(Advice("quarantine-node", "", ""),))
    parts = {part.label: part for part in lead_sections(drained, replace(WORDS, catalogue=loader.catalogue()))}
    assert to_plain_text(parts["if wrong"].items).startswith("It does not help: take it back, then 2 ")


def test_further_members_are_named_in_the_location_or_beside_it():
    short, long = (replace(ROOT, also=names) for names in (("n1", "n3"), ("node-of-rack-1", "node-of-rack-3")))
    assert "n2 +n1 n3" in to_plain_text([detail.headline(short, WORDS, NOW).what])
    assert "also hit node-of-rack-1, node-of-rack-3" in to_plain_text([detail.headline(long, WORDS, NOW).since])


def test_where_the_cause_is_unknown_a_command_shows_the_next_evidence_and_what_to_look_for():
    one = replace(SYMPTOM, decides="nccl.coll_seq", mitigations=(), explained_by=None)
    parts = {part.label: part for part in lead_sections(one, WORDS)}
    shown = to_plain_text(parts["do"].items)
    assert "only reads · on node B" in shown
    assert "ncclras -v\n  (needs NCCL 2.24" in shown
    assert "is the one that the others wait for" in to_plain_text(parts["look for"].items)
    assert not {"undo", "works if"} & set(parts)


def test_where_no_test_fits_the_rivals_are_named_and_the_rest_counted():
    rivals = [replace(ROOT.competing[0], condition=name, separate_by=LONG) for name in ("a", "b", "c")]
    part = detail.Section("if wrong", tuple(alternative_line(one, ROOT, WORDS) for one in rivals))
    do = detail.Section("do", (line("1 Drain n2"), line("scontrol")))
    shown = to_plain_text(incident_layout.squeeze_rows((do, part), 80, 3))
    assert shown.splitlines()[-1] == "if wrong  a, b, c"
    narrow = to_plain_text(incident_layout.squeeze_rows((do, part), 24, 3))
    assert narrow.splitlines()[-1] == "if wrong  a, b +1 more"


def test_what_users_wait_comes_first_and_only_of_a_cause():
    slow = replace(
        CHILD, condition="slow-responses", category=CATEGORY, impact=Impact("wire.first_byte_delay", 120.0, "1")
    )
    names = replace(WORDS, incidents=(ROOT, slow), catalogue=loader.catalogue())
    shown = to_plain_text([detail.headline(ROOT, names, T0 + 100).since])
    assert "· users wait: time to first byte 121× as long · time of a round" in shown
    assert "users" not in to_plain_text([detail.headline(slow, names, T0 + 100).since])


def test_shares_of_causes_add_up_to_the_whole():
    causes = ("power-cap", "gpu-variability", "pp-bubble", "egress-jitter")
    symptom = replace(
        SYMPTOM, candidates=causes, probabilities=(0.104, 0.084, 0.076, 0.2), none=0.036, explained_by=None
    )
    shown = to_plain_text(detail.probable_causes(symptom, WORDS, 3))
    assert sum(map(int, re.findall(r"(\d+) %", shown))) == 100


@pytest.mark.parametrize("columns", range(20, 60))
def test_hidden_items_are_counted_whatever_the_width(columns):
    items = tuple((("late  ", "key"), (f"12.9 ms, peers 0.2 ms ({n}×)  ", ""), ("", "info")) for n in range(4))
    rows = incident_layout.fill_rows((detail.Section("why", items),), columns, 3)
    assert len(rows) <= 3
    assert all(rows)
    assert "more" in to_plain_text(rows)
