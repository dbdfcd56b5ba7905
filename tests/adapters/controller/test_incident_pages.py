"""Pages of incidents for browsers: what they show, to whom, and sessions that only read."""

import asyncio
import json
import shutil
from contextlib import nullcontext
from dataclasses import replace
from types import SimpleNamespace
from urllib.parse import urlencode

import pytest

from skewscope.adapters.controller import incident_pages
from skewscope.adapters.controller.browser_sessions import LIFETIME_S, MAX_SESSIONS, BrowserSessions, format_cookie
from skewscope.adapters.controller.controller import Controller
from skewscope.adapters.controller.incident_pages import IncidentPageData
from skewscope.adapters.controller.protocol import CONNECTION_KEY
from skewscope.adapters.controller.server import ControllerApp
from skewscope.adapters.notify.alert_text import AlertContext, alert_body
from skewscope.kb.loader import catalogue
from skewscope.tui.render.detail import DisplayNames
from skewscope.tui.render.html_report import HtmlReportData, render_html
from skewscope.tui.render.incident_pages import HtmlPages
from tests.adapters.controller.clocks import FakeClock
from tests.adapters.controller.processes import TOKENS
from tests.adapters.controller.test_access import revoke, settings  # noqa: F401 - a fixture
from tests.adapters.notify.incidents import fleet, incident, over, symptom
from tests.tui import samples
from tests.tui.samples import INCIDENTS, film

BROWSER = "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"
ONE, OTHER = incident(1, name="n1"), symptom(2, name="n2")


class Browser:
    """Asks an application in this process; keeps its cookie."""

    def __init__(self, app, cookie=""):
        self.app, self.cookie = app, cookie

    async def ask(self, path, form=None, accept=BROWSER, **headers):
        """Status, head and text of an answer."""
        body = urlencode(form).encode() if form is not None else b""
        head = {"host": "localhost", "accept": accept, "cookie": self.cookie} | headers
        if form is not None:
            head["content-type"] = "application/x-www-form-urlencoded"
        scope = {"type": "http", "method": "GET" if form is None else "POST", "path": path, "query_string": b""}
        scope["headers"] = [(name.replace("_", "-").encode(), value.encode()) for name, value in head.items() if value]
        scope["scheme"] = "http"
        scope[CONNECTION_KEY] = SimpleNamespace(wait_dispensably=nullcontext)
        found = SimpleNamespace(status=0, headers={}, text="")
        is_read = asyncio.Event()

        async def receive():
            if is_read.is_set():
                await asyncio.Event().wait()
            is_read.set()
            return {"type": "http.request", "body": body, "more_body": False}

        async def send(message):
            if message["type"] == "http.response.start":
                found.status = message["status"]
                found.headers = {name.decode(): value.decode() for name, value in message["headers"]}
            found.text += message.get("body", b"").decode()

        await self.app(scope, receive, send)
        if "set-cookie" in found.headers:
            self.cookie = found.headers["set-cookie"].partition(";")[0]
        return found


def play(settings, test, pages=HtmlPages()):  # noqa: B008, F811
    """Runs a test with an application whose newest tick has two incidents."""

    async def run():
        controller = Controller(settings, FakeClock(1_700_000_000.0))
        await controller.start()
        app = ControllerApp(controller, pages)
        shot = SimpleNamespace(
            time=1_700_000_000.0, incidents=(ONE, OTHER), missing=("No packets.",), silenced={}, acknowledged={}
        )
        controller.last_result = SimpleNamespace(snapshot=shot, store_ok=False)
        try:
            async with asyncio.timeout(20):
                await test(controller, app)
        finally:
            app.close()
            await controller._close()

    asyncio.run(run())


@pytest.fixture(autouse=True)
def _at_once(monkeypatch):
    monkeypatch.setattr(incident_pages, "REFUSAL_DELAY_S", 0.0)


def test_a_link_asks_for_a_token_and_leads_to_the_page(settings):  # noqa: F811
    async def test(_controller, app):
        browser = Browser(app)
        asked = await browser.ask("/incidents/i-1")
        assert asked.status == 401
        assert 'value="/incidents/i-1"' in asked.text
        wrong = await browser.ask("/login", {"to": "/incidents/i-1", "token": "wrong"})
        assert (wrong.status, browser.cookie) == (403, "")
        assert 'value="/incidents/i-1"' in wrong.text
        done = await browser.ask("/login", {"to": "/incidents/i-1", "token": f" {TOKENS['READ']} "})
        assert (done.status, done.headers["location"]) == (303, "/incidents/i-1")
        assert all(part in done.headers["set-cookie"] for part in ("HttpOnly", "SameSite=Lax", "Path=/"))
        assert TOKENS["READ"] not in str(done.headers)
        page = await browser.ask("/incidents/i-1")
        assert page.status == 200
        assert "holds up its group: every rank waits for it" in page.text
        assert "default-src 'none'" in page.headers["content-security-policy"]
        assert page.headers["cache-control"] == "no-store"
        overview = await browser.ask("/")
        assert "href='/incidents/i-1'" in overview.text
        assert "No packets." in overview.text
        assert (await browser.ask("/incidents/i-99")).status == 404

    play(settings, test)


def test_programs_get_json_as_before(settings):  # noqa: F811
    async def test(_controller, app):
        program = Browser(app)
        assert (await program.ask("/incidents/i-1", accept="*/*")).status == 401
        for accept in ("*/*", "application/json", "application/json, text/html", ""):
            token = {"authorization": f"Bearer {TOKENS['READ']}"}
            found = await program.ask("/incidents/i-1", accept=accept, **token)
            assert json.loads(found.text)["id"] == "i-1"
        assert json.loads((await program.ask("/", accept="*/*", **token)).text)["incidents"]
        assert "<h1>" in (await program.ask("/incidents/i-1", **token)).text

    play(settings, test)


def test_a_session_reads_pages_and_nothing_else(settings):  # noqa: F811
    async def test(controller, app):
        browser = Browser(app)
        await browser.ask("/login", {"token": TOKENS["ADMIN"]})
        assert (await browser.ask("/")).status == 200
        for path in ("/api/v1/incidents", "/api/v1/incidents/i-1", "/metrics", "/api/v1/silences"):
            assert (await browser.ask(path)).status == 401
        assert (await browser.ask("/api/v1/silences", {})).status == 401
        revoke(controller, app, TOKENS["ADMIN"])
        assert (await browser.ask("/")).status == 401

    play(settings, test)


@pytest.mark.parametrize(
    "to", ["https://evil.example/", "//evil.example", "/api/v1/incidents", "/incidents/a\r\nX: y", "javascript:x", ""]
)
def test_a_login_leads_to_pages_only(settings, to):  # noqa: F811
    async def test(_controller, app):
        done = await Browser(app).ask("/login", {"to": to, "token": TOKENS["READ"]})
        assert (done.status, done.headers["location"]) == (303, "/")

    play(settings, test)


def test_forms_of_other_sites_and_tokens_of_agents_are_refused(settings):  # noqa: F811
    async def test(_controller, app):
        browser = Browser(app)
        form = {"token": TOKENS["READ"]}
        assert (await browser.ask("/login", form, sec_fetch_site="cross-site")).status == 403
        assert (await browser.ask("/login", {"token": TOKENS["N0"]})).status == 403
        assert (await browser.ask("/login", {"token": ""})).status == 403
        assert (await browser.ask("/login", form, host="evil.example")).status == 403
        assert not browser.cookie
        assert (await browser.ask("/login", form, sec_fetch_site="same-origin")).status == 303

    play(settings, test)


def test_without_a_renderer_there_are_no_pages(settings):  # noqa: F811
    async def test(_controller, app):
        found = await Browser(app).ask("/incidents/i-1", authorization=f"Bearer {TOKENS['READ']}")
        assert json.loads(found.text)["id"] == "i-1"

    play(settings, test, None)


def test_sessions_end_and_are_bounded():
    sessions = BrowserSessions()
    first = sessions.open("a", 0.0)
    cookie = f"other=1; {format_cookie(first, secure=False)}"
    assert sessions.authorization(cookie, 1.0) == "Bearer a"
    assert sessions.authorization(cookie, LIFETIME_S + 1) == ""
    assert sessions.authorization("skewscope_session=guess", 1.0) == ""
    for n in range(MAX_SESSIONS):
        sessions.open(str(n), 2.0)
    assert sessions.authorization(cookie, 3.0) == ""
    assert "Secure" in format_cookie("x", secure=True)


def test_a_stored_incident_has_a_page_with_its_history(settings, monkeypatch):  # noqa: F811
    async def test(_controller, app):
        stored = over(incident(7), 900.0).as_json() | {"history": [{"t": 1007.0, "what": "opened"}]}
        monkeypatch.setattr(app._context, "reader", SimpleNamespace(incident={"i-7": stored}.get))
        page = await Browser(app).ask("/incidents/i-7", authorization=f"Bearer {TOKENS['READ']}")
        assert "00:16:47  opened" in page.text

    play(settings, test)


# --- the pages themselves

HOSTILE = incident(3, id="i-'><script>", name="<script>alert(1)</script>\x1b[2J")


def test_hostile_names_stay_text():
    data = IncidentPageData(1000.0, fleet(), (HOSTILE,), ("<script>",))
    for page in (HtmlPages().render_incident(HOSTILE.id, data), HtmlPages().render_overview(data)):
        assert "<script" not in page
        assert "\x1b" not in page


def test_a_page_names_related_incidents_and_its_silence():
    data = IncidentPageData(1000.0, fleet(), (ONE, OTHER), silenced={"i-1": "s-9"})
    assert "silenced by s-9" in HtmlPages().render_incident("i-1", data)


@pytest.mark.slow
@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("size", [(1280, 900), (390, 844)])
def test_axe_finds_no_problem_and_nothing_scrolls_sideways(scheme, size, tmp_path):
    api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed (skewscope[test])")
    axe = pytest.importorskip("axe_playwright_python.sync_playwright", reason="axe is not installed (skewscope[test])")
    chromium = shutil.which("chromium") or shutil.which("chromium-browser")
    if chromium is None:
        pytest.skip("no chromium here")
    data = IncidentPageData(1000.0, fleet(), (ONE, OTHER), ("No packets.",))
    texts = {
        "incident": HtmlPages().render_incident("i-1", data),
        "symptom": HtmlPages().render_incident("i-2", data),
        "overview": HtmlPages().render_overview(data),
        "report": render_html(
            HtmlReportData("tp", film().snapshot(99), DisplayNames(samples.catalogue(), INCIDENTS), (), "Watched", ())
        ),
        "login": incident_pages.login_page(401, "/", "Refused.").body.decode(),
    }
    with api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox", "--disable-gpu"])
        page = browser.new_page(color_scheme=scheme, viewport={"width": size[0], "height": size[1]})
        for name, text in texts.items():
            path = tmp_path / f"{name}.html"
            path.write_text(text)
            page.goto(path.as_uri())
            found = axe.Axe().run(page, options={"preload": False}).response["violations"]
            assert not [(one["id"], one["nodes"][0]["html"]) for one in found], name
            assert page.evaluate("document.documentElement.scrollWidth <= window.innerWidth"), name
        browser.close()


def members():
    history = film()
    return history.snapshot(len(history.times()) - 1)


def test_a_page_draws_the_members_beside_an_incident():
    view = members()
    data = IncidentPageData(view.time, view.topology, INCIDENTS)
    assert "<svg" not in HtmlPages().render_incident(samples.ROOT.id, data)
    page = HtmlPages().render_incident(samples.ROOT.id, replace(data, members=view))
    assert "(wire.onset_lag) at" in page
    assert "<svg" in page


def test_a_chat_has_the_same_picture_as_a_small_text():
    text = HtmlPages().picture_text(samples.ROOT, members())
    assert any(line.startswith("▶ A n2") and "█" in line for line in text.splitlines())
    assert len(text.splitlines()) <= 8
    assert max(map(len, text.splitlines())) <= 60
    context = AlertContext(catalogue(), samples.TOPOLOGY, draw=lambda _: text)
    assert text.splitlines()[1] in alert_body(samples.ROOT, context)
