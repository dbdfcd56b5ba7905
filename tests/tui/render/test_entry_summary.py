"""What to know of a condition first, and the picture of its causes and effects."""

from dataclasses import replace

import pytest

from skewscope.kb.loader import catalogue
from skewscope.kb.model import Claim
from skewscope.kb.rank import RANK_ORDERS, rank_conditions, strongest_claim
from skewscope.tui.render.catalogue_front import front_lines, rank_lines
from skewscope.tui.render.detail import DisplayNames
from skewscope.tui.render.entry_summary import condition_lead, neighbourhood_lines
from skewscope.tui.render.text import line_width, to_plain_text

NAMES = DisplayNames(catalogue())
CONDITIONS = catalogue().conditions


def picture(id_, columns=100, firing=(), **how):
    return to_plain_text(neighbourhood_lines(CONDITIONS[id_], NAMES, columns, firing), **how)


def test_causes_and_effects_are_drawn_around_a_condition(golden):
    drawn = [picture(id_) for id_ in ("tp-straggler", "egress-jitter", "gpu-thermal-throttle", "launch-latency")]
    golden("neighbourhood", "\n".join(drawn))


def test_what_fires_here_comes_first_with_a_sign():
    assert "✖ Pipeline bubble" in picture("egress-jitter", firing=("pp-bubble",))
    assert "✖ " not in picture("egress-jitter")


@pytest.mark.parametrize("columns", [40, 80, 220])
def test_no_picture_is_wider_than_its_place(columns):
    for entry in CONDITIONS.values():
        assert all(line_width(each) <= columns for each in neighbourhood_lines(entry, NAMES, columns)), entry.id


def test_the_picture_has_signs_in_ascii():
    assert "?" not in picture("tp-straggler", ascii_=True)


def test_a_condition_alone_has_no_picture():
    alone = replace(CONDITIONS["tp-straggler"], id="alone", causes=(), effects=())
    assert neighbourhood_lines(alone, NAMES, 80) == []


def test_the_strongest_claim_has_a_number_and_was_seen_best():
    claims = (
        Claim("It is slow.", "a", "full text"),
        Claim("It is 2 times slower.", "b", "abstract"),
        Claim("It is 3 times slower.", "c", "full text"),
        Claim("It is 4 times slower.", "d", "full text"),
    )
    entry = replace(CONDITIONS["tp-straggler"], impacts=claims)
    assert strongest_claim(entry).source == "c"
    assert strongest_claim(replace(entry, impacts=claims[:1])) is None
    assert strongest_claim(replace(entry, impacts=())) is None
    assert "no number is known" in to_plain_text(condition_lead(replace(entry, impacts=()), NAMES))


@pytest.mark.parametrize("by", RANK_ORDERS)
def test_every_order_has_every_condition_once(by):
    rows = rank_conditions(catalogue(), by)
    assert sorted(row.condition.id for row in rows) == sorted(CONDITIONS)


@pytest.mark.parametrize("columns", [70, 100, 160])
def test_the_table_keeps_to_its_width_and_cuts_nothing(columns):
    rows = rank_conditions(catalogue())
    lines = rank_lines(rows, catalogue(), columns)
    assert all(line_width(each) <= columns for each in lines)
    assert "…" not in to_plain_text(lines)
    assert len(front_lines(rows, catalogue(), columns, 3)) < 80
