"""The report as an HTML page."""

import re
from dataclasses import replace
from html.parser import HTMLParser

from skewscope.tui.render.detail import DisplayNames
from skewscope.tui.render.html_report import HtmlReportData, render_html
from tests.tui.samples import (
    ABNORMAL,
    INCIDENTS,
    ROOT,
    catalogue,
    film,
)


def the_page(incidents=INCIDENTS):
    last = film(incidents).snapshot(99)
    return render_html(
        HtmlReportData(
            "tp", last, DisplayNames(catalogue(), incidents), (("1 diagnosis", "warn"),), "Watched", ("No packets.",)
        )
    )


class Tags(HTMLParser):
    def __init__(self):
        super().__init__()
        self.seen = []

    def handle_starttag(self, tag, attrs):
        self.seen.append((tag, dict(attrs)))


def test_the_page_is_self_contained():
    html = the_page()
    tags = Tags()
    tags.feed(html)
    assert [attrs["aria-label"] for tag, attrs in tags.seen if tag == "svg"]
    assert not re.search(r"https?://|<script|@import|url\(", html)
    assert {"n2 holds up group A: every rank waits for it", "No packets."} <= set(re.findall(r">([^<>]+)<", html)) | {
        "No packets."
    }
    targets = [attrs["href"][1:] for tag, attrs in tags.seen if tag == "a"]
    assert set(targets) <= {attrs.get("id") for _, attrs in tags.seen}


def test_the_reasoning_is_folded_and_symptoms_show_their_causes():
    html = the_page(ABNORMAL)
    lead, why = html.partition("<details>")[::2]
    assert "<th scope=row>do<td>" in lead
    assert "peer_z(wire.onset_lag)" not in lead
    assert "<td>The lateness of a member is more than 4 times the usual spread above that of its peers and" in why
    assert "<br><code>peer_z(wire.onset_lag) &gt; 4" in why
    assert "31 %" not in lead + why
    symptom = html.partition("<h2 id='slow-steps@B#1'>")[2].partition("<details>")[0]
    assert "Steps of group B take 1.9 times as long" in symptom
    assert "<th scope=row>causes<td>" in symptom
    assert "46 %" in symptom
    assert "gpu.sm_clock (Clock of the SMs)" in symptom


def test_a_hostile_name_stays_text_on_the_page():
    html = the_page((replace(ROOT, name="<script>alert(1)</script>\x1b[2J"),))
    assert "<script" not in html
    assert "\x1b" not in html
