"""The actions of a controller in the console: shown with their evidence, decided with two keys."""

from dataclasses import replace

import pytest

from skewscope.adapters.actions.action_json import MitigationOutcomes
from skewscope.adapters.runtime.channel import ControllerEndpoint
from skewscope.adapters.view.action_feed import ActionFeed, ActionList
from skewscope.engine.actions.action import action_to_json
from skewscope.tui.console.app import ConsoleOptions
from tests.support.action_samples import build_proposal, build_refused, build_verified
from tests.support.api_server import serve_api
from tests.tui.consoles import run, screen_text
from tests.tui.samples import ROOT, film

PROPOSAL, VERIFIED, REFUSED = build_proposal(), build_verified(), build_refused()
OUTCOMES = {"drain-rank": MitigationOutcomes("drain-rank", 4, 3, 1, 0, 0.8)}
LIST = ActionList("propose", actions=(REFUSED, PROPOSAL, VERIFIED), outcomes=OUTCOMES)


class FakeFeed(ActionFeed):
    """A feed that keeps what was sent."""

    def __init__(self, latest=LIST, token_file="token"):
        super().__init__(ControllerEndpoint("http://127.0.0.1:1", token_file), latest)
        self.sent = []

    def send(self, id_, verb, why):
        self.sent.append((id_, verb, why))
        states = {"approve": "approved", "refuse": "refused", "undo": "undoing", "done": "applied"}
        return PROPOSAL.move(0.0, states[verb], why)

    def acknowledge(self, incident, is_acknowledged):
        self.sent.append((incident, "acknowledge", is_acknowledged))


def test_with_a_controller_the_acknowledgement_is_the_controllers():
    feed, entries = FakeFeed(), []

    async def flow(app, pilot):
        await pilot.press("a")
        await app.workers.wait_for_complete()
        await pilot.pause()
        entries.extend(app.state.operator_log.entries)
        assert "at the controller" in screen_text(app)

    run(flow, film(live=True), options=ConsoleOptions(action_feed=feed))
    assert feed.sent == [(ROOT.id, "acknowledge", True)]
    assert not entries


def test_what_others_acknowledged_at_the_controller_is_marked_and_taken_back_by_the_same_key():
    feed = FakeFeed()

    async def flow(app, pilot):
        assert "acknowledged by eva" in screen_text(app)
        assert screen_text(app).splitlines()[2][0] == "a"
        await pilot.press("a")
        await app.workers.wait_for_complete()

    shown = film(live=True, acknowledged={ROOT.id: "eva"})
    run(flow, shown, size=(100, 30), options=ConsoleOptions(action_feed=feed))
    assert feed.sent == [(ROOT.id, "acknowledge", False)]


def show(keys=("5",), size=(80, 24), feed=None, **options):
    """The screen after some keys, and the feed."""
    feed = feed or FakeFeed()
    texts = []

    async def flow(app, pilot):
        await pilot.press(*keys)
        await pilot.pause(0.1)
        await app.workers.wait_for_complete()
        await pilot.pause(0.1)
        texts.append(screen_text(app))

    run(flow, film(live=True), size=size, options=ConsoleOptions(action_feed=feed, **options))
    return texts[0], feed


@pytest.mark.parametrize("size", [(80, 24), (120, 40)], ids=lambda s: f"{s[0]}x{s[1]}")
@pytest.mark.slow
def test_changes_are_shown_with_their_evidence(golden, size):
    golden(f"changes_{size[0]}x{size[1]}", show(size=size)[0])
    golden(f"change_{size[0]}x{size[1]}", show(("5", "enter"), size=size)[0])


def test_states_differ_without_colour():
    text, _ = show(colour=False, size=(120, 40))
    rows = [row for row in text.splitlines() if " at front" in row][:3]
    assert [row.split()[:2] for row in rows] == [["?", "proposed"], ["✓", "verified"], ["-", "refused"]]


@pytest.mark.parametrize(
    ("keys", "sent"),
    [
        (("5", "x", "enter"), [(PROPOSAL.id, "approve", "looks right")]),
        (("5", "x", *"seen", "enter"), [(PROPOSAL.id, "approve", "seen")]),
        (("5", "d", "enter"), [(PROPOSAL.id, "refuse", "not wanted")]),
        (("5", "j", "U", "enter"), [(VERIFIED.id, "undo", "no longer wanted")]),
        (("5", "x", "escape", "U", "enter"), []),
        (("5", "j", "x", "enter"), []),
    ],
)
def test_a_decision_takes_a_key_and_a_confirmation(keys, sent):
    assert show(keys, write=True)[1].sent == sent


@pytest.mark.slow
def test_a_person_says_with_the_key_of_the_approval_that_calls_were_run():
    plan = replace(PROPOSAL.plan, by_hand=True)
    waiting = build_proposal(state="applying", plan=plan, waiting="a person runs its calls")
    latest = ActionList("propose", actions=(waiting,))
    text, feed = show(("5", "x", "enter"), feed=FakeFeed(latest), size=(120, 40), write=True)
    assert feed.sent == [(waiting.id, "done", "was run")]
    assert "run what it says; then x says so, u takes it back" in text
    assert show(("5", "U", "enter"), feed=FakeFeed(latest), write=True)[1].sent == [
        (waiting.id, "undo", "no longer wanted")
    ]
    undoing = replace(waiting, state="undoing")
    assert show(("5", "x", "enter"), feed=FakeFeed(ActionList("act", actions=(undoing,))), write=True)[1].sent == [
        (waiting.id, "done", "was run")
    ]


@pytest.mark.slow
def test_what_has_no_undo_needs_a_typed_reason():
    latest = ActionList("propose", actions=(build_proposal(reversible=False),))
    text, feed = show(("5", "x", "enter"), feed=FakeFeed(latest), write=True)
    assert feed.sent == []
    assert "a reason is needed" in text
    assert show(("5", "x", *"yes", "enter"), feed=FakeFeed(latest), write=True)[1].sent[0][2] == "yes"


@pytest.mark.parametrize(
    ("options", "feed", "why"),
    [
        ({}, FakeFeed(), "read-only; start with --write"),
        ({"write": True}, FakeFeed(token_file=""), "there is no token"),
    ],
)
@pytest.mark.slow
def test_nothing_is_sent_without_leave(options, feed, why):
    assert show(("5", "x", "enter"), feed=feed, **options)[1].sent == []
    assert why in show(("5", "x"), feed=feed, **options)[0]


@pytest.mark.parametrize(
    ("latest", "told"),
    [
        (ActionList(), "No answer of the controller about its actions yet."),
        (ActionList("observe"), "This controller observes: it proposes nothing."),
        (ActionList("act"), "Nothing was proposed yet"),
        (ActionList("act", is_leader=False, trouble="it answers 503"), "no new answer: it answers 503"),
    ],
)
def test_an_empty_list_says_why(latest, told):
    assert told in show(feed=FakeFeed(latest), size=(120, 40))[0]


def test_a_recording_has_no_changes():
    async def flow(app, pilot):
        await pilot.press("5")
        assert app.current_screen.model.views == ("advice", "log", "rules")
        await pilot.press("x")
        assert "only a controller" in app.message[0]

    run(flow, options=ConsoleOptions(write=True))


def test_a_new_proposal_is_announced_on_any_screen():
    async def flow(app, pilot):
        feed.latest = LIST
        app.pull()
        await pilot.pause()
        assert app.message == ("proposed: drain w2 at front; 5 shows it", False)

    feed = FakeFeed(ActionList("propose", actions=(VERIFIED,)))
    run(flow, film(live=True), options=ConsoleOptions(action_feed=feed))


@pytest.mark.slow
def test_the_page_of_a_mitigation_tells_how_often_it_helped_here():
    text, _ = show(("5", "K"), size=(200, 50))
    assert "Carried out here 4 times: it helped 3, did not help 1, was not proven 0." in text


def test_a_feed_polls_and_sends_and_keeps_the_last_answer():
    listed = {"mode": "propose", "leader": True, "actions": [action_to_json(PROPOSAL)]}
    outcomes = {"outcomes": [{"mitigation": "m", "carried_out": 1, "helped": 1, "not_helped": 0, "unproven": 0}]}
    outcomes["outcomes"][0]["recovery"] = 0.5
    replies = {"/api/v1/actions?limit=200": (200, listed), "/api/v1/actions/outcomes": (200, outcomes)}
    moved = PROPOSAL.move(0.0, "approved", "approved by a")
    replies[f"/api/v1/actions/{PROPOSAL.id}/approve"] = (200, action_to_json(moved))
    with serve_api(lambda asked: replies.get(asked.path, (404, {"error": "no"}))) as (url, asked):
        feed = ActionFeed(ControllerEndpoint(url))
        feed.poll()
        assert (feed.latest.mode, feed.latest.actions, feed.latest.outcomes["m"].helped) == ("propose", (PROPOSAL,), 1)
        before = feed.latest
        feed.poll()
        assert feed.latest is before
        assert feed.send(PROPOSAL.id, "approve", "why not").state == "approved"
        assert feed.latest.actions == (moved,)
        assert asked[-1].body == {"why": "why not"}
        for wrong in ((503, {}), (200, []), (200, {"mode": "act", "actions": [3]}), (200, {"actions": 3})):
            replies["/api/v1/actions?limit=200"] = wrong
            feed.poll()
            assert feed.latest.actions == (moved,)
            assert feed.latest.trouble
    feed.poll()
    assert feed.latest.actions == (moved,)
