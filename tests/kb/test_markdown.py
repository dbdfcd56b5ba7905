"""The catalogue as pages in Markdown: everything is told, every link leads somewhere, no text can break a page."""

import re
from dataclasses import replace
from functools import cache
from html.parser import HTMLParser
from itertools import pairwise
from posixpath import dirname, join, normpath

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from skewscope.kb.entry_kinds import KINDS
from skewscope.kb.loader import catalogue
from skewscope.kb.markdown import build_pages
from skewscope.kb.markdown.text import bullets, code, escape_text, heading, link, table

CATALOGUE = catalogue()
TEXT = st.text(st.characters(codec="utf-8", exclude_categories=["Cs", "Cc"]), min_size=1, max_size=40)
MARKS = st.text(st.sampled_from("\\`*_[]()<>|~$&#+-=:%{}@! \t1.)a"), min_size=1, max_size=12)


@cache
def book() -> dict[str, str]:
    return build_pages(CATALOGUE, {"tp-straggler": ("late-rank",)})


def written() -> list[str]:
    return sorted(name for name in book() if name.endswith(".md"))


@cache
def rendered(markdown: str) -> str:
    return str(MarkdownIt("commonmark").enable(["table", "strikethrough"]).render(markdown))


class Seen(HTMLParser):
    """The tags and the text of a page."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.links: list[str] = []
        self.text = ""
        self.feed(html)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.links += [value or "" for name, value in attrs if name in ("href", "src")]

    def handle_data(self, data: str) -> None:
        self.text += data


def words(text: str) -> str:
    return " ".join(text.split())


@pytest.mark.parametrize("kind", KINDS)
def test_every_entry_has_a_page_and_stands_in_the_index_of_its_kind(kind: str) -> None:
    index = book()[f"{kind}.md"]
    for id_ in getattr(CATALOGUE, kind):
        assert f"`{id_}`" in book()[f"{kind}/{id_}.md"]
        assert f"({kind}/{id_}.md)" in index, id_


@pytest.mark.slow
def test_every_link_leads_to_a_page_or_out() -> None:
    for name in written():
        for target in Seen(rendered(book()[name])).links:
            if not target.startswith("https://") and not target.startswith("http://"):
                assert normpath(join(dirname(name), target)) in book(), f"{name}: {target}"


@pytest.mark.parametrize("every", [10, pytest.param(1, marks=pytest.mark.slow)])
def test_pages_have_one_title_and_skip_no_level_of_headings(every: int) -> None:
    for name in written()[::every]:
        levels = [int(tag[1]) for tag in Seen(rendered(book()[name])).tags if re.fullmatch(r"h\d", tag)]
        assert levels[0] == 1, name
        assert levels.count(1) == 1, name
        assert all(after <= before + 1 for before, after in pairwise(levels)), name


def test_the_page_of_a_condition_tells_all_that_is_known_of_it() -> None:
    for c in CATALOGUE.conditions.values():
        shown = words(Seen(rendered(book()[f"conditions/{c.id}.md"])).text)
        texts = [c.name, c.what, *c.aliases, *c.why, *c.notes]
        texts += [t for claim in c.impacts for t in (claim.text, claim.scale, claim.seen)]
        texts += [t for o in c.observability for t in (o.reason, *o.needs)]
        texts += [t for a in (*c.lookalikes, *c.lookalikes_outside) for t in (a.separate_by,)]
        texts += [t for e in (*c.causes, *c.effects) for t in (e.why,)]
        texts += [CATALOGUE.mitigations[id_].name for id_ in c.mitigations]
        texts += [c.without_rule.reason] if c.without_rule else []
        missing = [text for text in texts if words(text) not in shown]
        assert not missing, (c.id, missing)


def test_what_is_not_confirmed_says_so_wherever_it_stands() -> None:
    for c in CATALOGUE.conditions.values():
        page = book()[f"conditions/{c.id}.md"]
        for claim in c.impacts:
            if claim.seen == "secondary notes only":
                line = next(
                    line for line in page.splitlines() if line.startswith("- ") and escape_text(claim.text) in line
                )
                assert "**secondary notes only, to be confirmed**" in line
        if c.paper_row == "unverified":
            assert "to be checked against the PDF" in page


def test_a_rule_is_named_where_there_is_one_and_else_the_reason_why_not() -> None:
    assert "Recognised by `late-rank`." in book()["conditions/tp-straggler.md"]
    without = next(c for c in CATALOGUE.conditions.values() if c.without_rule)
    assert "No rule recognises it" in book()[f"conditions/{without.id}.md"]


def test_pages_are_the_same_each_time() -> None:
    assert build_pages(CATALOGUE, {"tp-straggler": ("late-rank",)}) == book()


@settings(deadline=None)
@given(TEXT | MARKS)
def test_a_text_reads_the_same_in_a_paragraph(text: str) -> None:
    seen = Seen(rendered(escape_text(text)))
    assert words(seen.text) == words(text)
    assert set(seen.tags) <= {"p"}


@settings(deadline=None)
@given(TEXT | MARKS)
def test_a_text_reads_the_same_in_a_list_a_heading_and_a_cell(text: str) -> None:
    for made, tags in (
        (bullets([escape_text(text)]), {"ul", "li"}),
        (heading(2, text), {"h2"}),
        (table([""], [[escape_text(text)]]), {"table", "thead", "tbody", "tr", "th", "td"}),
    ):
        seen = Seen(rendered(made))
        assert set(seen.tags) <= tags, made
        assert words(seen.text) == words(text)


@settings(deadline=None)
@given(TEXT | MARKS)
def test_code_reads_the_same_in_a_cell(text: str) -> None:
    seen = Seen(rendered(table([""], [[code(text)]])))
    assert set(seen.tags) <= {"table", "thead", "tbody", "tr", "th", "td", "code"}
    assert words(seen.text) == words(text)


@settings(deadline=None)
@given(TEXT | MARKS, TEXT | MARKS)
def test_a_link_is_one_link_with_its_text(text: str, path: str) -> None:
    seen = Seen(rendered(link(text, f"https://example.org/{path}")))
    assert words(seen.text) == words(text)
    assert len(seen.links) == 1
    assert seen.links[0].startswith("https://example.org/")


@pytest.mark.parametrize("target", ["javascript:alert(1)", "JaVaScRiPt:x", "data:text/html,x", "file:///etc/passwd"])
def test_a_link_leads_only_where_a_reader_may_go(target: str) -> None:
    assert Seen(rendered(link("a", target))).links == []


def test_hostile_entries_make_no_tags_and_no_cells() -> None:
    bad = "a | b <script>alert(1)</script> ](https://x) `c` {ref}`d`"
    c = CATALOGUE.conditions["tp-straggler"]
    hostile = replace(c, name=bad, what=bad, aliases=(bad,), notes=(bad,), impacts=(replace(c.impacts[0], text=bad),))
    found = build_pages(replace(CATALOGUE, conditions={**CATALOGUE.conditions, c.id: hostile}))
    for name in ("conditions/tp-straggler.md", "conditions.md", "matrix.md", "claims.md", "graph.md", "lookalikes.md"):
        html = rendered(found[name])
        assert "<script" not in html, name
        assert "https://x" not in Seen(html).links, name
