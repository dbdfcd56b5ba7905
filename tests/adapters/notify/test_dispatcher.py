"""Tellers that hang, raise or refuse: each is on its own."""

import asyncio
import itertools
import json
import sqlite3
from collections import deque
from dataclasses import dataclass, field, replace

import pytest

from skewscope.adapters.notify.base import (
    CHANGED,
    OPENED,
    RESOLVED,
    WITHDRAWN,
    DeliveryError,
    IncidentUpdate,
    Notification,
    NotificationScope,
)
from skewscope.adapters.notify.dispatcher import MAX_WAIT, MISSED_AFTER, ORPHAN_WAIT, Dispatcher
from skewscope.adapters.notify.handover import notification_mark
from skewscope.adapters.notify.open_reports import OpenReport
from skewscope.engine.model.incident import Explanation
from skewscope.kb.problems import InputError, Problem
from tests.adapters.controller.clocks import FakeClock, settled
from tests.adapters.notify.incidents import incident, over

ONE = incident(3, opened_at=900.0)


@dataclass
class Shows:
    name: str = "board"
    scope: NotificationScope = field(default_factory=NotificationScope)
    timeout: float = 0.05
    period: float = 30.0
    troubles: deque = field(default_factory=deque)
    shown: list = field(default_factory=list)
    ended: list = field(default_factory=list)
    hangs: bool = False

    async def show(self, incidents, ended, now):
        if self.hangs:
            await asyncio.sleep(3600)
        self.shown.append((now, [one.id for one in incidents]))
        self.ended += [(one.incident.id, one.ending) for one in ended]
        if self.troubles:
            raise self.troubles.popleft()


@dataclass
class Sends:
    name: str = "messenger"
    scope: NotificationScope = field(default_factory=NotificationScope)
    timeout: float = 0.05
    troubles: deque = field(default_factory=deque)
    sent: list = field(default_factory=list)

    async def send(self, letter):
        self.sent.append(letter.number)
        if self.troubles:
            raise self.troubles.popleft()


@dataclass
class Mail:
    """Letters in a place of their own."""

    letters: list = field(default_factory=list)
    done: list = field(default_factory=list)

    def __call__(self, _teller, after, most):
        return [letter for letter in self.letters if letter.number > after][:most]

    def put(self, count):
        first = len(self.letters) + 1
        self.letters += [Notification(n, 900.0, IncidentUpdate(OPENED, "", ONE)) for n in range(first, first + count)]


def going(test):
    """Runs a test with an office and a clock of its own."""

    async def run():
        clock, mail = FakeClock(), Mail()
        office = Dispatcher(clock, mail, lambda name, number: mail.done.append((name, number)))
        try:
            await test(office, clock, mail)
        finally:
            await office.close()

    asyncio.run(run())


def told(office, *incidents):
    office.dispatch(office.clock.now(), incidents, {}, {"messenger"})


async def until(done):
    """Waits for threads, for real."""
    for _ in range(500):
        await asyncio.sleep(0.01)
        if done():
            return
    raise AssertionError


def test_a_board_is_told_at_once_and_again_each_period():
    async def test(office, clock, _mail):
        board = Shows()
        office.start(board)
        await clock.pass_(2.0)
        told(office, ONE)
        await clock.pass_(1.0)
        assert board.shown[-1] == (1002.0, ["i-3"])
        count = len(board.shown)
        await clock.pass_(61.0)
        assert len(board.shown) == count + 2
        told(office)
        await clock.pass_(0.1)
        assert board.shown[-1][1] == []
        assert board.ended == [(ONE.id, "healed")]

    going(test)


@pytest.mark.parametrize("answer", [DeliveryError("interrupted"), OSError("closed"), None])
def test_a_teller_that_answers_its_cancellation_with_something_else_ends(answer):
    class Stubborn(Shows):
        async def show(self, incidents, ended, now):
            self.shown.append(now)
            try:
                await asyncio.sleep(3600)
            except asyncio.CancelledError:
                if answer:
                    raise answer from None

    async def test(office, clock, _mail):
        board = Stubborn(timeout=3600.0)
        office.start(board)
        told(office, ONE)
        await clock.pass_(2.0)
        (task,) = (one for one in asyncio.all_tasks() if one.get_name() == "notifier board")
        await office.stop("board")
        await settled()
        assert task.cancelled()
        assert len(board.shown) == 1

    going(test)


def test_what_fails_is_tried_again_later_and_later():
    async def test(office, clock, _mail):
        board = Shows(troubles=deque(DeliveryError(f"no {n}: token=abc") for n in range(9)))
        told(office, ONE)
        office.start(board)
        await clock.pass_(400.0)
        times = [at for at, _ in board.shown]
        gaps = [round(b - a) for a, b in itertools.pairwise(times)]
        assert gaps[:9] == [1, 2, 4, 8, 16, 32, 60, 60, 60]
        (standing,) = office.statuses()
        assert (standing.up, standing.failed, standing.trouble) == (True, 9, "")

    going(test)


def test_trouble_is_told_without_secrets():
    async def test(office, clock, _mail):
        office.start(Shows(troubles=deque([DeliveryError("https://u:pw@host said password=hunter2")] * 99)))
        told(office, ONE)
        await clock.pass_(2.0)
        (standing,) = office.statuses()
        assert not standing.up
        assert "hunter2" not in standing.trouble
        assert "u:pw" not in standing.trouble

    going(test)


def test_one_that_hangs_holds_up_nobody():
    async def test(office, clock, mail):
        board, other, messenger = Shows("hangs", hangs=True), Shows("other"), Sends()
        mail.put(1)
        for teller in (board, other, messenger):
            office.start(teller)
        told(office, ONE)
        await until(lambda: any(not each.up for each in office.statuses()))
        await clock.pass_(1.0)
        await until(lambda: messenger.sent)
        assert other.shown
        states = {each.name: (each.up, each.trouble) for each in office.statuses()}
        assert states["hangs"] == (False, "no end within 0.05 s")
        assert states["messenger"][0]

    going(test)


def test_letters_come_in_order_and_each_until_it_has_arrived():
    async def test(office, clock, mail):
        mail.put(120)
        messenger = Sends(troubles=deque([DeliveryError("no"), DeliveryError("busy", after=5.0)]))
        office.start(messenger)
        await until(lambda: len(messenger.sent) == 1)
        await clock.pass_(1.0)
        await clock.pass_(4.9)
        assert messenger.sent == [1, 1]
        await clock.pass_(0.2)
        await until(lambda: len(mail.done) == 120)
        assert messenger.sent == [1, 1, *range(1, 121)]
        assert mail.done[-1] == ("messenger", 120)
        mail.put(1)
        told(office)
        await until(lambda: messenger.sent[-1] == 121)

    going(test)


def test_what_is_refused_for_ever_is_thrown_away():
    async def test(office, _clock, mail):
        mail.put(2)
        messenger = Sends(troubles=deque([DeliveryError("the answer 400", refused=True)]))
        office.start(messenger)
        await until(lambda: len(mail.done) == 2)
        assert messenger.sent == [1, 2]
        assert office.statuses()[0].refused == 1

    going(test)


def test_who_does_not_tell_keeps_its_letters_and_takes_over_with_those_that_nobody_told():
    async def test(office, clock, mail):
        office.is_active = lambda: False
        board, messenger = Shows(), Sends()
        # The first was told long ago; of the two about then one was told; the last came later.
        mail.letters = [letter(1, 900.0, n=3), letter(2, 990.0, n=4), letter(3, 990.0, n=5), letter(4, 1001.0, n=3)]
        for teller in (board, messenger):
            office.start(teller)
        told(office, ONE)
        office.handover.receive_progress(1000.0, said(1.0, mail.letters[1]))
        await clock.pass_(MAX_WAIT)
        await until(lambda: mail.done)
        assert (board.shown, messenger.sent) == ([], [])
        assert mail.done == [("messenger", 1)]
        office.is_active = lambda: True
        await clock.pass_(2.0)
        await until(lambda: len(mail.done) == 4)
        assert messenger.sent == [3, 4]
        assert board.shown[-1][1] == ["i-3"]

    going(test)


def test_who_lost_the_turn_while_a_letter_would_not_arrive_keeps_it():
    async def test(office, clock, mail):
        mail.put(1)
        messenger = Sends(troubles=deque([DeliveryError("no")] * 3))
        office.start(messenger)
        await until(lambda: messenger.sent == [1])
        office.is_active = lambda: False
        await clock.pass_(60.0)
        assert (messenger.sent, mail.done) == ([1], [])
        office.is_active = lambda: True
        await clock.pass_(60.0)
        await until(lambda: mail.done == [("messenger", 1)])

    going(test)


def test_what_one_says_of_its_progress_is_what_it_told():
    async def test(office, clock, mail):
        mail.letters = [letter(1, 990.0), letter(2, 999.0)]
        messenger = Sends()
        office.start(messenger)
        await until(lambda: len(mail.done) == 2)
        told(office)
        await until(lambda: json.loads(office.progress(1000.0))["messenger"][0] == 0.0)
        age, marks, reports, _ = json.loads(office.progress(1003.5))["messenger"]
        assert (age, marks) == (3.5, [notification_mark(one) for one in mail.letters])
        assert [report[0] for report in reports] == [ONE.id]
        messenger.troubles.extend([DeliveryError("no")] * 99)
        mail.letters.append(letter(3, 1000.5))
        await clock.pass_(30.0)
        told(office)
        await until(lambda: len(messenger.sent) > 2)
        assert json.loads(office.progress(1030.0))["messenger"][0] == 30.0
        # Letters that could not be written are not told, whatever became of the others.
        office.dispatch(1031.0, (), {}, None)
        assert json.loads(office.progress(1031.0))["messenger"][0] == 31.0

    going(test)


def letter(number, t, n=3):
    return Notification(number, t, IncidentUpdate(OPENED, "", incident(n)))


def said(lag, *letters):
    return json.dumps({"messenger": [lag, [notification_mark(one) for one in letters]]})


def test_tellers_can_be_stopped():
    async def test(office, clock, _mail):
        office.start(Shows())
        await settled()
        await office.stop("board")
        assert office.names == ()
        told(office, ONE)
        await clock.pass_(1.0)

    going(test)


THEIRS = replace(ONE, id="theirs", opened_at=890.0)
SAID = json.dumps({"messenger": [0.0, [], [OpenReport.of(THEIRS, is_confirmed=True).as_json()]]})


@dataclass
class Posts(Sends):
    async def send(self, letter):
        self.sent.append((letter.update.what, letter.update.incident.id))


def going_with_another(test):
    """The same, beside another controller that has reported an incident."""

    async def run(office, clock, mail):
        office.handover.is_shared = True
        office.handover.receive_progress(clock.now(), SAID)
        posts = Posts()
        office.start(posts)
        await test(office, clock, mail, posts)

    going(run)


def test_what_another_reported_ends_under_its_id():
    async def test(office, clock, mail, posts):
        mail.letters = [Notification(1, 1001.0, IncidentUpdate(what, "", ONE)) for what in (OPENED,)]
        mail.letters.append(Notification(2, 1002.0, IncidentUpdate(RESOLVED, "", ONE)))
        told(office, ONE)
        await until(lambda: len(mail.done) == 2)
        assert posts.sent == [("resolved", "theirs")]

    going_with_another(test)


@pytest.mark.parametrize("end", [RESOLVED, WITHDRAWN])
def test_the_end_of_one_of_two_incidents_at_a_place_is_not_the_end_of_what_was_reported_of_both(end):
    async def test(office, clock, mail, posts):
        beside = replace(ONE, id="beside")
        mail.letters = [Notification(1, 1001.0, IncidentUpdate(end, "", ONE))]
        told(office, over(ONE, 1001.0), beside)
        await until(lambda: len(mail.done) == 1)
        assert posts.sent == []
        assert [one.id for one in office._open_reports()] == ["theirs"]
        mail.letters.append(Notification(2, 1002.0, IncidentUpdate(RESOLVED, "", beside)))
        told(office, over(ONE, 1001.0), over(beside, 1002.0))
        await until(lambda: len(mail.done) == 2)
        assert posts.sent == [("resolved", "theirs")]

    going_with_another(test)


@pytest.mark.parametrize(
    ("incidents", "unjudged", "ends"),
    [
        ((), frozenset(), [("resolved", "theirs")]),
        ((ONE,), frozenset(), []),
        ((), frozenset({(ONE.condition, ONE.kind, ONE.name)}), []),
        ((over(replace(ONE, id="theirs"), 1.0),), frozenset(), [("resolved", "theirs")]),
    ],
    ids=["not here", "fires here too", "cannot be judged", "is over here, under the same id"],
)
def test_the_end_of_what_another_reported_is_reported_once(incidents, unjudged, ends):
    async def test(office, clock, mail, posts):
        for t in range(1000, 1300, 5):
            office.end_orphans(float(t), incidents, unjudged)
            await clock.pass_(5.0)
            if t - 1000 < ORPHAN_WAIT:
                assert posts.sent == []
        for _ in range(10):
            await asyncio.sleep(0.01)  # queues are read in threads
        assert posts.sent == ends
        assert [one.id for one in office._open_reports()] == ([] if ends else ["theirs"])

    going_with_another(test)


def test_what_receivers_believe_is_certain_once_all_is_delivered_to_them():
    async def test(office, clock, mail, posts):
        await settled()
        (believed,) = office.beliefs().values()
        assert believed.has(ONE)
        mail.letters = [Notification(1, 1001.0, IncidentUpdate(RESOLVED, "", ONE))]
        told(office, ONE)
        assert office.beliefs() == {}
        await until(lambda: posts.sent)
        await settled()
        (believed,) = office.beliefs().values()
        assert not believed.has(ONE)
        office.is_active = lambda: False
        assert office.beliefs() == {}

    going_with_another(test)


@pytest.mark.parametrize(
    ("now", "hidden", "sent"),
    [
        (incident(3), {}, [("opened", "i-3")]),
        (over(incident(3), 1.0), {}, []),
        (replace(incident(3), explained_by=Explanation("i-9", "caused")), {}, []),
        (incident(3), {"i-3": "s-1"}, []),
    ],
    ids=["fires", "over", "explained", "silenced"],
)
def test_what_fires_here_and_the_leader_never_knew_of_is_reported_after_all(now, hidden, sent):
    """The leader says that it delivered everything until long after the opening."""

    async def test(office, clock, mail, posts):
        office.handover.receive_progress(clock.now(), json.dumps({posts.name: [0.0, [], []]}))
        mail.letters = [Notification(1, clock.now() - 60.0, IncidentUpdate(OPENED, "", incident(3)))]
        office.dispatch(clock.now(), [now], hidden, {posts.name})
        await until(lambda: mail.done)
        assert posts.sent == sent

    going_with_another(test)


def test_an_incident_that_moves_from_where_another_was_reported_is_reported_where_it_is():
    async def test(office, clock, mail, posts):
        begun = clock.now()
        first = replace(incident(3), opened_at=begun)
        reports = [OpenReport.of(first, is_confirmed=True).as_json()]
        line = json.dumps({posts.name: [0.0, [], reports, [begun - 200.0, []]]})
        office.handover.receive_progress(clock.now(), line)
        first = replace(first, id="i-4")
        mail.letters = [Notification(1, begun, IncidentUpdate(OPENED, "", first))]
        told(office, first)
        await until(lambda: len(mail.done) == 1)
        assert posts.sent == []
        moved = replace(first, name="elsewhere")
        mail.letters.append(Notification(2, begun, IncidentUpdate(CHANGED, "", moved)))
        mail.letters.append(Notification(3, begun, IncidentUpdate(CHANGED, "", moved)))
        told(office, moved)
        await until(lambda: len(mail.done) == 3)
        assert posts.sent == [("opened", "i-4"), ("changed", "i-4")]

    going_with_another(test)


def test_what_was_over_before_this_one_led_and_no_leader_reported_is_reported_after_all():
    async def test(office, clock, mail, posts):
        turns, begun = [False], clock.now() - 50.0
        one = replace(over(incident(3), begun + 2), opened_at=begun + 1)
        office.is_active = lambda: turns[0]
        leads_since = clock.now() - 200.0
        office.handover.receive_progress(clock.now(), json.dumps({posts.name: [0.0, [], [], [leads_since, []]]}))
        mail.letters = [
            Notification(n, begun + n, IncidentUpdate(what, "", one)) for n, what in ((1, OPENED), (2, RESOLVED))
        ]
        told(office, one)
        await clock.pass_(10.0)
        assert not mail.done
        turns[0] = True
        await clock.pass_(10.0)
        await until(lambda: len(mail.done) == 2)
        assert posts.sent == [("opened", "i-3"), ("resolved", "i-3")]

    going_with_another(test)


def test_what_only_a_follower_saw_is_reported_by_the_leader():
    """The follower may not notify, and the leader leads until the incident is of no use any more."""
    said = {}

    async def follower(office, clock, mail, posts):
        office.is_active = lambda: False
        begun = clock.now()
        one = replace(incident(3), opened_at=begun)
        line = json.dumps({posts.name: [0.0, [], [], [begun - 200.0, []]]})
        office.handover.receive_progress(clock.now(), line)
        mail.letters = [Notification(1, begun, IncidentUpdate(OPENED, "", one))]
        told(office, one)
        await settled()
        assert office.list_omissions() == ""
        await clock.pass_(MISSED_AFTER)
        told(office, one)
        said["text"], said["line"] = office.list_omissions(), line
        reported = json.dumps({posts.name: [0.0, [], [OpenReport.of(one, is_confirmed=True).as_json()], [begun, []]]})
        office.handover.receive_progress(clock.now(), reported)
        assert office.list_omissions() == ""
        assert posts.sent == []

    async def leader(office, clock, mail, posts):
        office.handover.receive_progress(clock.now(), said["line"])
        told(office)
        for text in (said["text"], said["text"], "[", '{"messenger": [1, "", {}]}', '{"other": []}'):
            office.receive_omissions(text)
        await until(lambda: posts.sent)
        office.receive_omissions(said["text"])
        await settled()
        assert posts.sent == [("opened", "i-3")]

    going_with_another(follower)
    going_with_another(leader)


def test_what_is_sent_again_after_another_one_led_is_no_duplicate():
    async def test(office, clock, mail, posts):
        before = office.handover.session
        office.handover.receive_progress(clock.now(), SAID)
        assert office.handover.session != before

    going_with_another(test)


def test_a_jump_of_the_clock_is_no_time_in_which_nothing_fired():
    async def test(office, clock, mail, posts):
        for t in (1000.0, 1001.0, 1001.0 + 3650 * 86400.0, 1002.0):
            office.end_orphans(t, (), frozenset())
        assert [one.id for one in office.inherited_reports()] == ["theirs"]
        await settled()
        assert posts.sent == []

    going_with_another(test)


def test_an_opening_is_published_before_it_is_delivered():
    published = []

    async def test(office, clock, mail, posts):
        async def publish():
            reports = json.loads(office.progress(1000.0))["messenger"][2]
            published.append((len(posts.sent), [report[0] for report in reports]))

        office.publish = publish
        other = replace(ONE, id="other", name="n9")
        mail.letters = [Notification(1, 1001.0, IncidentUpdate(OPENED, "", other))]
        told(office, other)
        await until(lambda: len(mail.done) == 1)

    going_with_another(test)
    assert published == [(0, ["theirs", "other"]), (1, ["theirs", "other"])]


@pytest.mark.parametrize("error", [InputError([Problem("s.db", 0, "", "no such file", "a store")]), sqlite3.Error("x")])
def test_notifications_that_cannot_be_read_are_a_line_in_the_log_and_wait(caplog, error):
    def load(*_):
        raise error

    async def play():
        clock = FakeClock(1000.0)
        office = Dispatcher(clock, load, lambda *_: None)
        office.start(Sends())
        for _ in range(3):
            await settled()
            await clock.pass_(MAX_WAIT)
        await office.close()

    asyncio.run(play())
    (line,) = caplog.records
    assert line.exc_info is None
    assert "the notifications of messenger wait" in line.getMessage()


def test_a_notifier_that_fails_unexpectedly_is_shown_as_down_and_started_again(monkeypatch, caplog):
    settle, calls = Dispatcher._is_settled, []

    def fail_once(self, *arguments):
        calls.append(1)
        if len(calls) == 1:
            raise RuntimeError("a bug")
        return settle(self, *arguments)

    monkeypatch.setattr(Dispatcher, "_is_settled", fail_once)

    async def test(office, clock, mail):
        messenger = Sends()
        mail.put(2)
        office.start(messenger)
        await until(lambda: calls)
        await settled()
        (status,) = office.statuses()
        assert (status.up, status.trouble) == (False, "unexpected RuntimeError: a bug")
        await clock.pass_(2.0)
        await until(lambda: len(messenger.sent) == 2)
        (status,) = office.statuses()
        assert (status.up, status.trouble) == (True, "")

    going(test)
    assert "notifier messenger: failed" in caplog.text
