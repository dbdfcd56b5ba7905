"""Cutting a recording by time changes nothing: incidents are equal byte by byte to those of an uncut replay."""

from functools import cache
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from skewscope.adapters.backtest.rule_set import load_rule_set
from skewscope.adapters.backtest.track import Segment, build_setup, cut_recording, judge_track
from skewscope.adapters.inputs.recording import clip_recording, demo_path, load, open_recording
from skewscope.adapters.runtime.replay import replay
from skewscope.engine.ingest.feed import Block
from skewscope.kb.loader import catalogue
from skewscope.rules.loader import RULES_FOLDER

pytestmark = pytest.mark.slow

SECONDS = 35
RULE = "tp-straggler-on-the-wire"


@cache
def world():
    """The first seconds of the demo, in which a rank becomes slow."""
    whole = open_recording(demo_path())
    begin = load(whole, catalogue(), workers=1).start
    recording = clip_recording(whole, None, begin + SECONDS)
    return load(recording, catalogue(), workers=1), recording


@cache
def uncut():
    loaded, recording = world()
    return lines(judge_track(build_setup(loaded, recording, load_rule_set(RULE, catalogue())), whole_segment()))


def lines(incidents) -> list[str]:
    return [one.as_line() for one in incidents]


def whole_segment():
    return cut_recording(*world(), 0)


def split(segment: Segment, places: list[int]) -> list[Segment]:
    """Returns a segment cut before some of its ticks."""
    edges = np.concatenate(([0], np.cumsum(segment.sizes)))
    found = []
    for begin, end in pairwise([0, *sorted(set(places)), len(segment.ends)]):
        some = slice(edges[begin], edges[end])
        block = Block(segment.block.time[some], segment.block.series[some], segment.block.value[some])
        found.append(Segment(segment.ends[begin:end], segment.sizes[begin:end], block))
    return found


@cache
def replayed():
    return lines(replay(world()[1]).incidents)


def test_cuts_change_no_byte_of_what_a_replay_tells():
    loaded, recording = world()
    setup = build_setup(loaded, recording, load_rule_set(str(RULES_FOLDER), catalogue()))
    segments = list(cut_recording(loaded, recording, 5))
    assert len(segments) == 6
    assert lines(judge_track(setup, iter(segments))) == replayed()
    assert len(replayed()) > 1


@settings(max_examples=4)
@given(st.lists(st.integers(1, SECONDS - 1), max_size=8))
def test_cuts_anywhere_change_no_byte(places):
    (whole,) = whole_segment()
    loaded, recording = world()
    setup = build_setup(loaded, recording, load_rule_set(RULE, catalogue()))
    assert lines(judge_track(setup, iter(split(whole, places)))) == uncut()
    assert len(uncut()) == 1


def test_segments_hold_every_sample_once_in_its_tick():
    loaded, recording = world()
    segments = list(cut_recording(loaded, recording, 3))
    wanted = loaded.block.time <= segments[-1].ends[-1]
    assert np.array_equal(np.concatenate([one.block.value for one in segments]), loaded.block.value[wanted])
    for one in segments:
        ends = np.repeat(one.ends, one.sizes)
        assert ((one.block.time <= ends) & (one.block.time > ends - 1)).all()
