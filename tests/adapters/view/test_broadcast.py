"""Scenes on their way to a console far away: what arrives is what was seen, and a broken way is told."""

import threading
from dataclasses import replace
from urllib.parse import parse_qs, urlsplit

import numpy as np
import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from skewscope.adapters.inputs.recording import demo_path
from skewscope.adapters.runtime.channel import Channel, ControllerEndpoint
from skewscope.adapters.view import remote as attached_module
from skewscope.adapters.view.broadcast import (
    _FLOAT_COLUMNS,
    InvalidViewMessageError,
    ViewReceiver,
    ViewUpdate,
    encode_view,
)
from skewscope.adapters.view.builder import ViewHistory
from skewscope.adapters.view.remote import RemoteView
from skewscope.kb.problems import SkewscopeError
from tests.support.loopback import Says, Server


def shots(history, roster="r1", step=30):
    for at in range(0, len(history.times()), step):
        scene = history.snapshot(at)
        yield ViewUpdate(roster, scene, scene.signals.latest)


def test_what_arrives_is_what_was_seen(demo):
    history, _ = demo
    there = ViewReceiver(history.topology)
    sizes = []
    for shot in shots(history):
        message = encode_view(shot, there.series_index_id, len(there.series))
        sizes.append(len(message))
        scene, frame = there.apply(message)
        assert [i.as_json() for i in scene.incidents] == [i.as_json() for i in shot.snapshot.incidents]
        assert [i.history for i in scene.incidents] == [i.history for i in shot.snapshot.incidents]
        for name in (
            "time",
            "start",
            "end",
            "topology",
            "sources",
            "missing",
            "rules",
            "delivered_signals",
            "evidence_names",
        ):
            assert getattr(scene, name) == getattr(shot.snapshot, name), name
        assert scene.signals.series_index.series == shot.snapshot.signals.series_index.series[: len(frame.value)]
        for name in (*_FLOAT_COLUMNS, "stale"):
            assert np.array_equal(getattr(frame, name), getattr(shot.frame, name), equal_nan=name != "stale")
        assert repr(frame.evidence) == repr(shot.frame.evidence)
    # Series and names of evidence go once.
    assert len(encode_view(shot)) > 1.3 * sizes[-1]


def test_what_is_silenced_arrives_as_well(demo):
    history, _ = demo
    shot = next(shots(history, step=100))
    shot = replace(shot, snapshot=replace(shot.snapshot, silenced={"i-1": "s-1"}))
    assert ViewReceiver(history.topology).apply(encode_view(shot))[0].silenced == {"i-1": "s-1"}


def test_counts_of_series_that_are_not_used_arrive_as_well(demo):
    history, _ = demo
    shot = next(shots(history, step=100))
    unplaced = {"p": {"no signal of the catalogue has this name": 7, "other": 1}}
    shot = replace(shot, snapshot=replace(shot.snapshot, unplaced=unplaced))
    assert ViewReceiver(history.topology).apply(encode_view(shot))[0].unplaced == unplaced


def test_whoever_asks_from_another_list_gets_it_all(demo):
    history, _ = demo
    shot = next(shots(history, step=100))
    assert encode_view(shot, "another", 5) == encode_view(shot)
    with pytest.raises(InvalidViewMessageError, match="do not continue"):
        ViewReceiver().apply(encode_view(shot, "r1", 5))


@given(st.data())
def test_a_damaged_message_is_refused(demo, data):
    history, _ = demo
    message = zstandard.decompress(encode_view(next(shots(history, step=100))), 1 << 24)
    at = data.draw(st.integers(0, len(message)))
    cut = zstandard.compress(message[:at])
    for damaged in (message[:at], cut, data.draw(st.binary(max_size=50)), zstandard.compress(data.draw(st.binary()))):
        if damaged != zstandard.compress(message):
            with pytest.raises(InvalidViewMessageError):
                ViewReceiver().apply(damaged)


class Playing:
    """A controller that shows a history: each question sees the next scene."""

    def __init__(self, history):
        self.left = list(shots(history, step=40))
        self.status = 200

    def answer(self, path, query):
        if self.status != 200:
            return self.status, b""
        if path == "/api/v1/topology":
            return 200, (demo_path() / "topology.yaml").read_bytes()
        if not self.left:
            return 204, b""
        return 200, encode_view(
            self.left.pop(0), query["roster"][0] if "roster" in query else "", int(query["rows"][0])
        )


def served(playing):
    def answer(asked):
        parts = urlsplit(asked.path)
        return Says(*playing.answer(parts.path, parse_qs(parts.query)))

    return Server(answer)


def onlooker(url):
    return RemoteView(url, Channel(ControllerEndpoint(url)), ViewHistory())


def test_a_console_follows_a_controller(demo):
    history, _ = demo
    playing = Playing(history)
    wanted = [shot.snapshot.time for shot in playing.left]
    with served(playing) as server:
        found = onlooker(server.url)
        while playing.left:
            assert found.poll()
        assert found.poll(), "nothing new is no trouble"
    assert found.history.times() == wanted
    assert found.history.topology == history.topology
    last = found.history.snapshot(len(wanted) - 1)
    assert len(last.signals.frames) == len(wanted)


def test_a_controller_that_was_started_anew_is_shown_from_there(demo):
    history, _ = demo
    playing = Playing(history)
    again = list(shots(history, "r2", step=60))
    with served(playing) as server:
        found = onlooker(server.url)
        for _ in range(3):
            found.poll()
        playing.left = again[-2:]
        found.poll()
        found.poll()
    assert found.history.times() == [shot.snapshot.time for shot in again[-2:]]


@pytest.mark.parametrize(
    ("status", "told"),
    [(401, "SKEWSCOPE_TOKEN"), (403, "role read"), (500, "answers 500"), (503, "answers 503")],
)
def test_who_is_not_let_in_is_told_why(demo, status, told):
    playing = Playing(demo[0])
    playing.status = status
    with served(playing) as server, pytest.raises(SkewscopeError, match=told):
        onlooker(server.url).open(lambda _what, _share: None)


def test_where_nobody_answers_that_is_told_at_once():
    with pytest.raises(SkewscopeError, match="no answer"):
        onlooker("http://127.0.0.1:9").open(lambda _what, _share: None)


def test_what_is_lost_is_told_and_found_again(demo, monkeypatch):
    monkeypatch.setattr(attached_module, "PERIOD", 0.01)
    monkeypatch.setattr(attached_module, "MAX_PERIOD", 0.02)
    playing = Playing(demo[0])
    troubles = []
    with served(playing) as server:
        found = onlooker(server.url)
        found.open(lambda _what, _share: None)
        for status in (500, 200):
            playing.status = status
            end = threading.Event()
            for _ in range(500):
                if bool(found.history.trouble) == (status == 500):
                    break
                end.wait(0.02)
            troubles.append(found.history.trouble)
        found.stop_event.set()
    assert troubles == ["it answers 500", ""]


def test_an_unexpected_error_of_a_view_is_shown_before_its_thread_is_started_again(monkeypatch):
    def fail(_self):
        raise RuntimeError("a bug")

    view = RemoteView("http://127.0.0.1:1", Channel(ControllerEndpoint("http://127.0.0.1:1")), ViewHistory())
    monkeypatch.setattr(attached_module, "PERIOD", 0.0)
    monkeypatch.setattr(RemoteView, "poll", fail)
    with pytest.raises(RuntimeError):
        view._poll_loop()
    assert view.history.trouble == "unexpected RuntimeError: a bug"
