"""Signed links: a page that changes nothing, a form that decides once, and nothing for anybody else."""

import asyncio
from dataclasses import replace
from types import SimpleNamespace
from urllib.parse import parse_qs, urlencode, urlsplit

from starlette.requests import Request

from skewscope.adapters.actions.approval_links import (
    ACKNOWLEDGE_LIFETIME,
    LinkSettings,
    make_acknowledge_link,
    make_link,
)
from skewscope.adapters.actions.settings import ActionSettings, ApprovalRule
from skewscope.adapters.config.secret import Secret
from skewscope.adapters.controller import link_api
from skewscope.adapters.controller.action_service import make_proposal_link
from skewscope.adapters.controller.config import ApiToken, ControllerConfig
from skewscope.adapters.controller.persistence import StoreWriter
from skewscope.adapters.controller.store import Store, StoreReader
from skewscope.adapters.notify.base import NotificationScope
from skewscope.adapters.notify.outbox import Outbox
from skewscope.engine.actions.action import APPROVED, PROPOSED, REFUSED
from skewscope.engine.actions.freeze import Freeze
from tests.support.acting_world import ActingWorld, SimulatedFault, build_incident

T0 = ActingWorld.t
ILL = SimulatedFault("r2", T0 + 60, T0 + 600, 0.2)
LINKS = LinkSettings("https://ops.example", Secret("k" * 32), {"chat": "ann", "pager": "bob"})
TOKEN = "t-0123456789abcdef"


class Site:
    """A controller with one proposal, and a browser."""

    def __init__(self, links=LINKS, **settings):
        self.links = links
        self.world = ActingWorld(faults=(ILL,), settings=ActionSettings(mode="propose", links=links, **settings))
        self.world.run(80)
        tokens = (ApiToken("carol", "approve", Secret(TOKEN)), ApiToken("eve", "read", Secret("e" * 16)))
        config = ControllerConfig(None, None, self.world.topology, tokens=tokens)
        self.controller = SimpleNamespace(
            actions=SimpleNamespace(coordinator=self.world.coordinator),
            clock=SimpleNamespace(now=lambda: self.world.t),
            config=config,
        )

    @property
    def action(self):
        return next(iter(self.world.coordinator.actions.values()))

    def link(self, notifier="chat"):
        return make_link(self.links, self.action, notifier, self.world.t)

    def handler(self, form):
        return link_api.decide_proposal if form else link_api.show_proposal

    def open(self, link, **form):
        """Status, text and head of a page; with a form it is sent."""
        parts = urlsplit(link)
        body = urlencode({"t": parse_qs(parts.query).get("t", [""])[0]} | form).encode() if form else b""

        async def receive():
            return {"type": "http.request", "body": body, "more_body": False}

        head = [(b"content-type", b"application/x-www-form-urlencoded")]
        path = {"id": parts.path.rpartition("/")[2]}
        scope = {"type": "http", "query_string": parts.query.encode(), "path_params": path, "headers": head}
        scope["method"] = "POST" if form else "GET"
        answer = asyncio.run(self.handler(form)(Request(scope, receive), SimpleNamespace(controller=self.controller)))
        return answer.status_code, answer.body.decode(), answer.headers


def test_a_page_shows_plan_undo_and_evidence_and_changes_nothing_however_often_it_is_opened():
    site = Site()
    before = site.action
    for _ in range(3):
        status, page, head = site.open(site.link())
    assert status == 200
    for text in ("drain r2    (to router)", "ready r2    (to router)", "You decide as <b>ann</b>", 'method="post"'):
        assert text in page
    assert "script" not in page
    assert (head["cache-control"], head["x-frame-options"], head["referrer-policy"]) == (
        "no-store",
        "DENY",
        "no-referrer",
    )
    assert site.action is before


def test_the_form_decides_once_in_the_name_of_its_reader():
    site = Site()
    link = site.link()
    assert site.open(link, verb="approve", why="  ")[0] == 400
    assert site.open(link, verb="undo", why="x")[0] == 400
    assert site.action.state == PROPOSED
    status, page, _ = site.open(link, verb="approve", why="looked at it")
    assert (status, site.action.state, site.action.approved_by) == (200, APPROVED, "ann")
    assert "approved" in page
    assert site.world.store.lines[-1] == "ann: action approved: looked at it (by a link to ann)"
    for form in ({}, {"verb": "refuse", "why": "no"}):
        assert site.open(link, **form)[0] == 409
    site = Site()
    assert site.open(site.link(), verb="refuse", why="not now")[0] == 200
    assert (site.action.state, site.action.ended_by) == (REFUSED, "ann")


def test_a_link_counts_for_its_own_action_time_and_key_only():
    site = Site()
    link = site.link()
    other = replace(LINKS, key=Secret("x" * 32))
    assert site.open(make_link(other, site.action, "chat", T0), verb="approve", why="x")[0] == 403
    assert site.open(link[:-1] + ("A" if link[-1] != "A" else "B"))[0] == 403
    for odd in (
        "https://x/act/a-1?t=",
        "https://x/act/a-1?t=é.é",
        "https://x/act/a-1?t=" + "A" * 5000,
        "https://x/act/a-1",
    ):
        assert site.open(odd)[0] == 403, odd
    assert site.open(f"{link}.")[0] == 200
    assert site.open(link.replace(site.action.id, "a-other"))[0] == 404
    site.world.t += LINKS.lifetime + 1
    assert site.open(link, verb="approve", why="x")[0] == 410
    assert site.action.state == PROPOSED


def test_with_login_a_token_of_the_role_approve_decides():
    site = Site(replace(LINKS, login=True))
    link = site.link()
    assert 'type="password"' in site.open(link)[1]
    for token in ("", "e" * 16, "wrong"):
        assert site.open(link, verb="approve", why="x", token=token)[0] == 403
    assert site.open(link, verb="approve", why="x", token=TOKEN)[0] == 200
    assert site.action.approved_by == "carol"


def test_two_readers_are_two_persons_and_the_first_link_is_used_up():
    site = Site(approvals=(ApprovalRule(2),))
    first, early = site.link("chat"), site.link("pager")
    assert "1 of 2 approvals, by ann" in site.open(first, verb="approve", why="x")[1]
    assert site.open(early, verb="approve", why="x")[0] == 409
    assert site.open(site.link("chat"), verb="approve", why="again")[0] == 409
    assert site.open(site.link("pager"), verb="approve", why="x")[0] == 200
    assert site.action.approved_by == "ann, bob"


def test_a_freeze_stops_a_link_too_and_hostile_texts_are_escaped():
    site = Site()
    site.world.coordinator.book.freeze = Freeze(T0, "ann", "<script>alert(1)</script>")
    status, page, _ = site.open(site.link(), verb="approve", why="x")
    assert (status, site.action.state) == (409, PROPOSED)
    assert "<script>" not in page


def test_links_are_off_by_default():
    site = Site()
    link = site.link()
    site.world.coordinator.settings = ActionSettings(mode="propose")
    assert site.open(link)[0] == 404


def test_only_recipients_get_a_link_and_only_for_proposals(tmp_path):
    site = Site()
    assert make_proposal_link(LINKS, T0, site.action, "other") == ""
    assert make_proposal_link(LINKS, T0, replace(site.action, state=APPROVED), "chat") == ""
    store = Store(tmp_path / "store.db")
    writer = StoreWriter(store, Outbox({"chat": NotificationScope(), "other": NotificationScope()}))
    with store.transaction() as connection:
        writer.outbox.restore(connection)
    incident = build_incident(ILL, T0 + 80)
    for t in range(80, 200):
        writer.queue_notifications(T0 + t, [incident], {})
        writer.write_tick(T0 + t, [incident], ())
    writer.write_action(T0 + 200, "planner", "x", site.action, lambda action, name: make_link(LINKS, action, name, T0))
    with store.transaction() as connection:
        found = dict(connection.execute("SELECT teller, why FROM letters WHERE what = 'acted'"))
    assert f"; decide at https://ops.example/act/{site.action.id}?t=" in found["chat"]
    assert "https://" not in found["other"]
    # A message about the incident itself, which may come later than the proposal, has the link too.
    reader = StoreReader(tmp_path / "store.db", link=lambda action, name: make_link(LINKS, action, name, T0))
    (opened, *_), (plain, *_) = (reader.notifications(name, 0, 9) for name in ("chat", "other"))
    assert f"drain r2 at router: proposed; decide at https://ops.example/act/{site.action.id}?t=" in opened.actions[0]
    assert plain.actions == ("drain r2 at router: proposed",)


class Pager(Site):
    """A controller with one open incident, and a browser."""

    def __init__(self, links=LINKS):
        super().__init__(links)
        self.incident = build_incident(ILL, T0 + 70)
        self.taken = {}
        snapshot = SimpleNamespace(incidents=(self.incident,), acknowledged=self.taken)
        self.controller.last_result = SimpleNamespace(snapshot=snapshot)
        self.controller.acknowledge = self._acknowledge
        self.controller.config = replace(self.controller.config, actions=ActionSettings(links=links))

    async def _acknowledge(self, who, incident, is_acknowledged):
        assert is_acknowledged
        self.taken[incident] = who

    def handler(self, form):
        return link_api.acknowledge_by_link if form else link_api.show_acknowledgement

    def own_link(self, notifier="chat"):
        return make_acknowledge_link(LINKS, self.incident.id, notifier, self.world.t)


def test_a_reader_acknowledges_by_a_link_and_previews_change_nothing():
    site = Pager()
    for _ in range(2):
        status, page, _ = site.open(site.own_link())
        assert (status, site.taken) == (200, {})
        assert "You decide as <b>ann</b>" in page
    assert site.open(site.own_link(), verb="acknowledge")[0] == 200
    assert site.taken == {site.incident.id: "ann"}
    assert "ann looks after it already" in site.open(site.own_link("pager"))[1]


def test_a_link_to_acknowledge_opens_nothing_else_and_ends():
    site = Pager()
    own, other = site.own_link(), site.link()
    assert Site.handler(site, form=False) is link_api.show_proposal
    swapped = f"https://ops.example/ack/{site.incident.id}?{urlsplit(other).query}"
    assert site.open(swapped, verb="acknowledge")[0] == 403
    assert site.open(own.replace(f"/ack/{site.incident.id}", "/ack/another"), verb="acknowledge")[0] == 404
    site.world.t += ACKNOWLEDGE_LIFETIME + 1
    assert site.open(own, verb="acknowledge")[0] == 410
    assert site.taken == {}
    assert make_acknowledge_link(LINKS, "i", "nobody", 0.0) == ""


def test_with_login_the_name_of_the_token_acknowledges():
    site = Pager(replace(LINKS, login=True))
    assert site.open(site.own_link(), verb="acknowledge", token="e" * 16)[0] == 403
    assert site.open(site.own_link(), verb="acknowledge", token=TOKEN)[0] == 200
    assert site.taken == {site.incident.id: "carol"}
