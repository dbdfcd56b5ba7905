"""The web site in a real browser: complete, offline, usable by keyboard and on a phone."""

import os
import re
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager
from html.parser import HTMLParser
from itertools import pairwise
from pathlib import Path
from urllib.parse import unquote

import pytest
from click.testing import CliRunner

from skewscope.kb.entry_kinds import KINDS
from skewscope.kb.loader import catalogue
from skewscope.kb.search import search
from skewscope.tui.cli.main import cli

pytestmark = pytest.mark.slow  # the site of the whole catalogue takes half a minute

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
EACH = ["index", "matrix", "graph", "conditions/tp-straggler", "signals/wire.onset_lag", "mitigations/spread-flows"]
EACH += ["sources/lin2025whatif", "findings/slow-network-or-slow-gpu", "conditions", "claims"]
VOID = {"area", "base", "br", "col", "embed", "hr", "img", "input", "link", "meta", "source", "track", "wbr"}


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site, built once for all test processes."""
    pytest.importorskip("sphinx", reason="what makes the site is not installed (skewscope[site])")
    pytest.importorskip("furo", reason="what makes the site is not installed (skewscope[site])")
    base = tmp_path_factory.getbasetemp()
    shared = base.parent if os.environ.get("PYTEST_XDIST_WORKER") else base
    out, done = shared / "site", shared / "site.done"
    try:
        (shared / "site.lock").mkdir()
    except FileExistsError:
        until = time.monotonic() + 300
        while not done.exists() and time.monotonic() < until:
            time.sleep(0.2)
    else:
        result = CliRunner().invoke(cli, ["kb", "site", str(out)])
        done.write_text(result.output)
    assert (out / "index.html").exists(), done.read_text()
    return out


class Page(HTMLParser):
    """The parts of a page that these tests check."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str]]] = []
        self.ids: set[str] = set()
        self.title = ""
        self._in_title = False
        self.feed(path.read_text(encoding="utf-8"))
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        found = {name: value or "" for name, value in attrs}
        self.tags.append((tag, found))
        self.ids |= {found["id"]} if "id" in found else set()
        self._in_title = tag == "title" and not self.title

    def handle_data(self, data: str) -> None:
        self.title += data if self._in_title else ""

    def handle_endtag(self, tag: str) -> None:
        self._in_title = False

    def all(self, *names: str) -> Iterator[tuple[str, dict[str, str]]]:
        return ((tag, attrs) for tag, attrs in self.tags if tag in names)


@pytest.fixture(scope="module")
def read(built: Path) -> dict[Path, Page]:
    return {path: Page(path) for path in sorted(built.rglob("*.html"))}


def test_every_entry_has_its_page(built):
    for kind in KINDS:
        for id_ in getattr(catalogue(), kind):
            assert (built / kind / f"{id_}.html").is_file(), id_


def test_no_link_is_broken(built, read):
    for path, page in read.items():
        for _, attrs in page.all("a", "link", "script", "img"):
            target = attrs.get("href", attrs.get("src", ""))
            if not target or re.match(r"[a-z]+:", target):
                continue
            name, _, anchor = target.partition("#")
            other = (path.parent / unquote(name.partition("?")[0])).resolve() if name.partition("?")[0] else path
            assert other.is_file(), f"{path.relative_to(built)}: {target}"
            if anchor and other in read:
                assert unquote(anchor) in read[other].ids, f"{path.relative_to(built)}: {target}"


def test_pages_load_no_external_resources(built, read):
    for path, page in read.items():
        for tag, attrs in page.all("script", "link", "img", "iframe", "source"):
            target = attrs.get("src", attrs.get("href", ""))
            assert not re.match(r"(https?:)?//", target), f"{path}: <{tag}> {target}"
    for style in built.rglob("*.css"):
        assert not re.search(r"url\([\"']?(https?:)?//|@import", style.read_text(encoding="utf-8")), style


def test_every_page_has_a_language_a_title_one_first_heading_and_no_level_skipped(read):
    for path, page in read.items():
        assert dict(page.all("html"))["html"].get("lang") == "en", path
        assert len(page.title) > 3, path
        levels = [int(tag[1]) for tag, _ in page.all("h1", "h2", "h3", "h4", "h5", "h6")]
        assert levels.count(1) == 1 or path.name == "search.html", path
        assert all(after <= before + 1 for before, after in pairwise(levels)), path


def test_tables_have_heads_that_say_so_and_pictures_a_text(read):
    for path, page in read.items():
        assert all("scope" in attrs for _, attrs in page.all("th")), path
        assert all(attrs.get("alt") is not None for _, attrs in page.all("img")), path


def test_downloads_equal_the_exports(built):
    for name, form in {"catalogue.json": "json", "sources.bib": "bibtex", "rules.yaml": "prometheus"}.items():
        exported = CliRunner().invoke(cli, ["kb", "export", "--format", form]).output
        assert (built / name).read_text(encoding="utf-8") == exported, name


# In a browser


@pytest.fixture(scope="module")
def browser() -> Iterator[object]:
    api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed (skewscope[test])")
    if CHROMIUM is None:
        pytest.skip("no chromium on this machine")
    with api.sync_playwright() as playwright:
        found = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox", "--disable-gpu"])
        yield found
        found.close()


@contextmanager
def opened(browser, built, name, width=1280, height=900, scheme="light"):
    """A page that may load only files and log no error."""
    asked: list[str] = []
    said: list[str] = []
    page = browser.new_page(viewport={"width": width, "height": height}, color_scheme=scheme)
    page.on("request", lambda request: asked.append(request.url))
    page.on("console", lambda message: said.append(message.text) if message.type == "error" else None)
    page.on("pageerror", lambda error: said.append(str(error)))
    page.goto(f"file://{built}/{name}")
    yield page
    page.close()
    assert not [url for url in asked if not url.startswith(("file://", "data:"))]
    assert not said


QUESTIONS = ["kv transfer", "pfc", "tp-straggler", "why are my tokens jittery", "GPU fell off the bus", "stragler"]


@pytest.mark.parametrize("words", [*QUESTIONS, "egress jittr"])
def test_the_search_finds_what_the_command_finds(browser, built, words):
    with opened(browser, built, "index.html") as page:
        page.fill("input[name=q]", words)
        page.press("input[name=q]", "Enter")
        page.wait_for_selector(".skew-hits li a", timeout=20_000)
        first = [link.get_attribute("href") for link in page.query_selector_all(".skew-hits li > a")[:5]]
    hits = search(catalogue(), words)[:5]
    assert [href.removeprefix("./").removesuffix(".html") for href in first if href] == [
        f"{hit.kind}/{hit.id}" for hit in hits
    ]


def test_a_search_without_a_match_says_so(browser, built):
    with opened(browser, built, "search.html?q=zzzzqqqq") as page:
        page.get_by_text("No entry matches.").wait_for(timeout=20_000)


def test_the_home_page_answers_the_three_questions(browser, built):
    with opened(browser, built, "index.html") as page:
        table = page.locator("table", has_text="Costs (strongest measurement)")
        assert table.locator("tbody tr").count() == len(catalogue().conditions)
        page.get_by_label("Only rows with").fill("pfc storm")
        assert table.locator("tbody tr:visible").count() < 10


def test_the_matrix_is_filtered_by_words_and_by_visibility(browser, built):
    with opened(browser, built, "matrix.html") as page:
        count = page.locator(".skew-filter output")
        total = len(catalogue().conditions)
        assert count.inner_text() == f"{total} of {total} rows"
        page.get_by_label("Seen by a DPU").select_option("1")
        sees = sum(c.visibility("dpu-front-end") != "not_visible" for c in catalogue().conditions.values())
        assert count.inner_text() == f"{sees} of {total} rows"
        page.get_by_label("Only rows with").fill("backlog")
        shown = page.locator("table tbody tr:visible", has_text="Backlog")
        assert shown.count() >= 2
        assert page.get_by_text("Retry storm").is_hidden()


def test_the_graph_shows_causes_and_effects_of_a_node(browser, built):
    with opened(browser, built, "graph.html") as page:
        page.locator(".skew-graph .node[data-id=tp-straggler]").focus()
        lit = page.locator(".skew-graph .edge.lit").evaluate_all("all => all.map(e => [e.dataset.from, e.dataset.to])")
        assert lit
        assert all("tp-straggler" in edge for edge in lit)
        page.keyboard.press("Enter")
        page.wait_for_url("**/conditions/tp-straggler.html")


@pytest.mark.parametrize("name", EACH)
def test_no_page_is_wider_than_a_phone(browser, built, name):
    with opened(browser, built, f"{name}.html", 390, 844) as page:
        assert page.evaluate("document.documentElement.scrollWidth") <= 390


def test_the_keyboard_reaches_search_links_and_boxes_and_one_sees_where_one_is(browser, built):
    with opened(browser, built, "graph.html") as page:
        reached = []
        for _ in range(40):
            page.keyboard.press("Tab")
            reached.append(
                page.evaluate(
                    """() => { const e = document.activeElement, s = getComputedStyle(e);
                    const r = e.matches(".node") ? getComputedStyle(e.querySelector("rect")) : null;
                    return [e.tagName, e.className.baseVal ?? e.className, e.name ?? "",
                    s.outlineStyle !== "none" || s.boxShadow !== "none" || (r && parseFloat(r.strokeWidth) > 2)]; }"""
                )
            )
        assert any(tag == "INPUT" and name == "q" for tag, _, name, _ in reached)
        assert any("skew-scroll" in str(classes) for _, classes, _, _ in reached)
        assert any("node" in str(classes) for _, classes, _, _ in reached)
        assert all(seen for tag, _, name, seen in reached if tag in ("A", "DIV", "a")), reached


@pytest.mark.parametrize(
    ("name", "scheme"),
    [
        *((name, "light") for name in EACH[:8] if name != "graph"),
        ("graph", "dark"),
        ("index", "dark"),
        (EACH[3], "dark"),
    ],
)
def test_axe_finds_no_serious_problem(browser, built, name, scheme):
    axe = pytest.importorskip("axe_playwright_python.sync_playwright", reason="axe is not installed (skewscope[test])")
    with opened(browser, built, f"{name}.html", scheme=scheme) as page:
        found = axe.Axe().run(page, options={"preload": False}).response["violations"]
        serious = [v for v in found if v["impact"] in ("serious", "critical")]
        assert not serious, [(v["id"], v["nodes"][0]["html"][:200], v["nodes"][0]["failureSummary"]) for v in serious]
