"""Rows on their way: in tables, kept while nobody takes them, sent in order, announced again where it is asked for."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from skewscope.adapters.agent.push import MAX_BACKOFF, MIN_BACKOFF, QUICK_RETRIES, PushSender
from skewscope.adapters.agent.tables import RowTables
from skewscope.adapters.formats.row_protocol import (
    MAX_COLUMNS,
    MAX_TABLES,
    HelloFrame,
    RowFrame,
    SeriesFrame,
    WireFrame,
    decode,
    encode,
)
from skewscope.adapters.runtime.channel import Channel, ControllerEndpoint, ControllerResponse
from tests.support.agent_trees import on_port
from tests.support.push_receiver import Receiver, Taken

HELLO = HelloFrame("n0", "boot", "1")
KEYS = [on_port(f"s{n}") for n in range(9)]


def row(sequence: int, table: int = 0, columns: int = 3) -> RowFrame:
    return RowFrame(sequence, float(sequence), table, np.full(columns, float(sequence)))


class Controllers:
    """Takes bodies as a controller does, with the mishaps that a test wants: one a body."""

    def __init__(self, *mishaps: str) -> None:
        self.taken = Taken()
        self.mishaps = list(mishaps)

    def __call__(self, body: bytes) -> ControllerResponse:
        mishap = self.mishaps.pop(0) if self.mishaps else ""
        if mishap == "away":
            raise ConnectionRefusedError(111, "refused")
        if mishap == "forgotten":
            self.taken.tables.clear()
        if mishap.isdecimal():
            return ControllerResponse(int(mishap), b"{}", "1")
        status, text = self.taken.take(body)
        if mishap == "answer lost":
            raise TimeoutError
        return ControllerResponse(status, text)


def sender(post: Controllers, most_bytes: int = 1 << 20) -> PushSender:
    return PushSender(ControllerEndpoint("http://127.0.0.1:1"), HELLO, most_bytes, post)


MISHAPS = st.lists(st.sampled_from(["", "away", "forgotten", "answer lost", "503", "413", "409", "400"]), max_size=12)


@given(MISHAPS, st.lists(st.tuples(st.integers(0, 2), st.integers(1, 9)), min_size=1, max_size=20))
def test_every_row_arrives_once_whatever_happens_on_the_way(mishaps, rows):
    post = Controllers(*mishaps)
    sending = sender(post)
    widths = {}
    for number, (table, columns) in enumerate(rows, 1):
        widths[table] = max(columns, widths.get(table, 0))
        sending.add(row(number, table, widths[table]), KEYS[: widths[table]])
        sending.send_batch()
    for _ in range(3 * (len(mishaps) + len(rows))):
        sending.send_batch()
    refused = sending.backlog.refused
    assert len(post.taken.rows) + refused >= len(rows)
    # Each body that is too large or wrong takes one row with it, or what came meanwhile where nothing else is taken.
    assert refused <= mishaps.count("413") + len(rows) * (mishaps.count("400") > 1)
    assert not sending.backlog.rows
    assert sending.backlog.size == 0
    for sequence, (time, values) in post.taken.rows.items():
        assert time == sequence
        assert values == dict.fromkeys(KEYS[: len(values)], float(sequence))


def test_the_oldest_rows_make_room_and_are_counted():
    post = Controllers(*["away"] * 10)
    sending = sender(post, most_bytes=5 * 224)
    for number in range(1, 10):
        sending.add(row(number), KEYS[:3])
        sending.send_batch()
    assert [one.sequence for one in sending.backlog.rows] == [5, 6, 7, 8, 9]
    assert sending.backlog.dropped == 4
    post.mishaps.clear()
    sending.send_batch()
    assert sorted(post.taken.rows) == [5, 6, 7, 8, 9]


def test_series_are_announced_once_and_later_ones_when_they_come():
    bodies = []
    post = Controllers()

    def noted(body: bytes) -> ControllerResponse:
        bodies.append(len(body))
        return post(body)

    sending = sender(noted)
    for number, columns in ((1, 2), (2, 2), (3, 5)):
        sending.add(row(number, 0, columns), KEYS[:columns])
        assert sending.send_batch() == 0.0
    assert sending.backlog.announced_counts == {0: 5}
    assert bodies[1] < bodies[0]
    assert len(post.taken.rows[3][1]) == 5


def test_one_who_may_not_is_not_asked_again_soon_and_the_rows_wait():
    sending = sender(Controllers("401"))
    sending.add(row(1), KEYS[:3])
    assert sending.send_batch() == MAX_BACKOFF
    assert len(sending.backlog.rows) == 1


def wrong(*tables):
    """Takes bodies as a controller does that calls those wrong which hold rows of some tables."""
    post = Controllers()

    def answer(body: bytes) -> ControllerResponse:
        bodies.append([frame for frame in decode(body) if not isinstance(frame, HelloFrame)])
        if any(isinstance(frame, RowFrame) and frame.table in tables for frame in bodies[-1]):
            return ControllerResponse(400, b'{"error": "strange"}')
        return post(body)

    bodies: list[list[WireFrame]] = []
    return answer, bodies, post


def test_a_row_that_is_called_wrong_is_announced_anew_once_and_given_up_and_all_others_arrive(caplog):
    answer, bodies, post = wrong(1)
    sending = sender(answer)
    for number in range(1, 31):
        sending.add(row(number, table=int(number % 10 == 5)), KEYS[:3])
        if number % 7 == 0:
            sending.send_batch()
    for _ in range(60):
        sending.send_batch()
    assert sorted(post.taken.rows) == [n for n in range(1, 31) if n % 10 != 5]
    assert sending.backlog.refused == 3
    assert not sending.backlog.rows
    assert sending.is_reachable
    told = [one.getMessage() for one in caplog.records if one.levelname == "WARNING"]
    assert told == [
        "http://127.0.0.1:1 refuses rows as invalid, which are dropped: strange; further ones are only counted"
    ]
    alone = [body for body in bodies if [f.sequence for f in body if isinstance(f, RowFrame)] == [5]]
    assert all(isinstance(body[0], SeriesFrame) for body in alone)
    assert len(alone) <= 2


def test_series_that_a_controller_has_in_another_way_are_announced_anew_before_anything_is_lost():
    post = Controllers("", "400")
    sending = sender(post)
    for number in (1, 2):
        sending.add(row(number), KEYS[:3])
        sending.send_batch()
    post.taken.tables.clear()
    assert sending.send_batch() == 0.0
    assert sorted(post.taken.rows) == [1, 2]
    assert sending.backlog.refused == 0


def test_one_who_calls_everything_wrong_is_asked_ever_less_often_and_gets_no_body_for_ever():
    answer, bodies, _ = wrong(0)
    sending = sender(answer)
    for number in range(1, 101):
        sending.add(row(number), KEYS[:3])
    waits = [sending.send_batch() for _ in range(40)]
    assert not sending.backlog.rows
    assert sending.backlog.refused == 100
    assert not sending.is_reachable
    some = [wait for wait in waits if wait]
    assert some == sorted(some)
    assert some[-1] > 8 * some[0]
    firsts = [next(f.sequence for f in body if isinstance(f, RowFrame)) for body in bodies]
    assert max(map(firsts.count, set(firsts))) <= 9, "a hundred rows are halved seven times"


@pytest.mark.parametrize("text", [b"", b"[]", b'{"taken": "all"}', b'{"taken": true}', b"[" * 9999])
def test_an_answer_that_says_nothing_takes_nothing(text):
    sending = sender(lambda _: ControllerResponse(200, text))
    sending.add(row(1), KEYS[:3])
    assert sending.send_batch() > 0
    assert len(sending.backlog.rows) == 1


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (b'{"error": "\'n9\' is no node of the topology"}', "it answers 403: 'n9' is no node of the topology"),
        (b'{"error": "\\u001b[31m"}', "it answers 403"),
        (b'{"error": 7}', "it answers 403"),
        (b"<html>", "it answers 403"),
    ],
)
def test_why_a_controller_refuses_is_told_on(text, said, caplog):
    one = sender(lambda _body: ControllerResponse(403, text))
    one.add(row(1), list(KEYS))
    one.send_batch()
    assert caplog.records[-1].getMessage().endswith(said)


def test_a_controller_cannot_take_more_than_was_sent():
    sending = sender(lambda _: ControllerResponse(200, b'{"taken": 99}'))
    sending.add(row(1), KEYS[:3])
    sending.send_batch()
    assert not sending.backlog.rows
    sending.add(row(100), KEYS[:3])
    assert len(sending.backlog.rows) == 1


def test_a_token_is_read_anew_each_time_and_an_answer_is_bounded(tmp_path):
    receiver = Receiver(topology="x" * 100)
    try:
        token = tmp_path / "token"
        channel = Channel(ControllerEndpoint(receiver.url, token_file=str(token)))
        token.write_text("one\n")
        body = encode([HELLO])
        for text in ("one", "two"):
            token.write_text(f"{text}\n")
            channel.post(body)
        assert receiver.tokens == {"Bearer one", "Bearer two"}
        assert len(channel.get("/", "", 100).body) == 100
        with pytest.raises(Exception, match="more than 99 bytes"):
            channel.get("/", "", 99)
        token.unlink()
        with pytest.raises(OSError, match="No such file"):
            channel.post(body)
    finally:
        receiver.close()


def test_what_two_sources_deliver_is_taken_from_the_first_for_good():
    tables = RowTables()
    key = on_port("port.rx_bytes")
    assert list(tables.fill("fast", 1, [("a", [(key, 1.0)]), ("b", [(key, 2.0)])]).values) == [1.0]
    assert np.isnan(tables.fill("fast", 2, [("b", [(key, 2.0)])]).values[0])
    assert tables.fill("slow", 2, [("c", [(key, 3.0)])]).keys == []
    assert list(tables.fill("fast", 3, [("b", [(key, 9.0)]), ("a", [(key, 4.0)])]).values) == [4.0]


@given(st.lists(st.dictionaries(st.sampled_from(KEYS), st.floats(allow_nan=False)), max_size=9))
def test_a_row_says_what_its_source_said_and_a_table_only_grows(told):
    tables = RowTables()
    before = []
    for time, samples in enumerate(told):
        table = tables.fill("one", time, [("a", samples.items())])
        if table is None:
            assert not samples
            continue
        assert table.keys[: len(before)] == before
        before = list(table.keys)
        assert {k: v for k, v in zip(table.keys, table.values.tolist(), strict=True) if v == v} == samples


def test_there_is_an_end_to_tables_columns_and_names():
    tables = RowTables()
    assert (
        len(tables.fill("one", 0, [("a", ((on_port("s", str(n)), 1.0) for n in range(MAX_COLUMNS + 5)))]).keys)
        == MAX_COLUMNS
    )
    assert not tables.fill("two", 0, [("a", [(on_port("s", "x" * 600), 1.0), (on_port("s", "\x1b"), 1.0)])]).keys
    assert tables.series_left_out == 7
    for n in range(MAX_TABLES + 5):
        found = tables.fill(f"t{n}", 0, [("a", [(on_port("u", str(n)), 1.0)])])
        assert (found is None) == (n >= MAX_TABLES - 2)


def test_what_is_not_renewed_is_no_longer_told():
    tables = RowTables()
    for time in (1, 2):
        tables.fill("one", time, [("a", [(KEYS[0], 1.0)])])
    (table,) = tables.snapshot()
    assert [table.is_stale(now) for now in (3, 5, 5.5)] == [False, False, True]


class Redirector:
    """A controller that sends agents elsewhere."""

    def __init__(self, *locations: str) -> None:
        self.locations = list(locations)
        self.asked = 0

    def __call__(self, body: bytes) -> ControllerResponse:
        self.asked += 1
        location = self.locations.pop(0) if len(self.locations) > 1 else self.locations[0]
        return ControllerResponse(307, b"", location=location)


def test_rows_go_where_the_controller_redirects_and_back_to_it_when_that_fails():
    shards = {"http://s1:1": Controllers("", "away"), "http://s2:2": Controllers()}
    home = Redirector("http://s1:1/api/v1/rows", "http://s2:2/api/v1/rows")
    sending = PushSender(ControllerEndpoint("http://c:1"), HELLO, 1 << 20, home, lambda at: shards[at.url])
    for number in range(1, 4):
        sending.add(row(number), KEYS[:3])
        for _ in range(4):
            sending.send_batch()
    assert home.asked == 2
    assert sorted(shards["http://s1:1"].taken.rows) == [1]
    assert sorted(shards["http://s2:2"].taken.rows) == [2, 3]
    assert sending.is_reachable


def waits_for_a_shard(shard: Controllers, home, attempts: int) -> list[float]:
    """The seconds that an agent waits after each attempt that was not redirected."""
    sending = PushSender(ControllerEndpoint("http://c:1"), HELLO, 1 << 20, home, lambda _: shard)
    sending.add(row(1), KEYS[:3])
    return [wait for _ in range(attempts) if (wait := sending.send_batch())]


def test_a_shard_that_is_away_is_tried_again_soon_and_after_a_while_less_often():
    home = Redirector("http://s1:1/api/v1/rows")
    waits = waits_for_a_shard(Controllers(*["away"] * 99), home, 2 * (QUICK_RETRIES + 6))
    assert waits[: QUICK_RETRIES + 1] == [MIN_BACKOFF] * (QUICK_RETRIES + 1)
    assert waits[QUICK_RETRIES + 1 : QUICK_RETRIES + 5] == [1.0, 2.0, 4.0, 8.0]


def test_while_a_shard_is_away_the_controller_says_when_to_ask_again():
    answers = ["moved", *["away"] * 5, "moved"]

    def home(_body: bytes) -> ControllerResponse:
        if answers.pop(0) == "away":
            return ControllerResponse(503, b"{}", "1")
        return ControllerResponse(307, b"", location="http://s1:1/api/v1/rows")

    assert waits_for_a_shard(Controllers("away"), home, 9) == [MIN_BACKOFF, *[1.0] * 5]
    assert not answers


@pytest.mark.parametrize(
    ("home", "location"),
    [("https://c", "http://s1"), ("http://c", "ftp://s1"), ("https://c", "https://user@s1"), ("http://c", "")],
)
def test_a_redirection_that_would_expose_the_token_is_not_followed(home, location):
    def connect(at: ControllerEndpoint) -> Controllers:
        raise AssertionError(at.url)

    post = Redirector(f"{location}/api/v1/rows")
    sending = PushSender(ControllerEndpoint(home), HELLO, 1 << 20, post, connect)
    sending.add(row(1), KEYS[:3])
    assert sending.send_batch() > 0
    assert len(sending.backlog.rows) == 1


def test_redirections_in_a_circle_end():
    post = Redirector("http://c:1/api/v1/rows")
    sending = PushSender(ControllerEndpoint("http://c:1"), HELLO, 1 << 20, post, lambda _: post)
    sending.add(row(1), KEYS[:3])
    assert [sending.send_batch() for _ in range(4)][:3] == [0.0, 0.0, 0.0]
    assert post.asked == 4
    assert not sending.is_reachable
