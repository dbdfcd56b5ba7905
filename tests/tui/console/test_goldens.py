"""Every screen at three sizes, as it was accepted, and what is shown where things are not as usual."""

import pytest

from skewscope.engine.model.topology import Topology
from skewscope.tui.console.app import ConsoleOptions
from tests.tui.consoles import run, screen_text, shown
from tests.tui.samples import ABNORMAL, SOURCES, empty, film, many

SIZES = [(80, 24), (120, 40), (200, 50)]
WALK = (
    ("diagnoses", ()),
    ("detail", ("enter",)),
    ("fabric", ("escape", "2")),
    ("fabric_groups", ("v",)),
    ("fabric_matrix", ("v",)),
    ("signals", ("3",)),
    ("catalogue", ("4", "j", "j")),
    ("entry", ("1", "K")),
    ("actions", ("5",)),
    ("rules", ("v", "v")),
)
"""One walk through all screens: a console that starts anew for each costs seconds."""


def walked(size, options=None):
    texts = {}

    async def flow(app, pilot):
        for name, keys in WALK:
            await pilot.press(*keys)
            await pilot.pause()
            await pilot.pause()
            texts[name] = screen_text(app)

    run(flow, size=size, options=options)
    return texts


@pytest.mark.parametrize(
    "size", [*SIZES[:2], pytest.param(SIZES[2], marks=pytest.mark.slow)], ids=lambda s: f"{s[0]}x{s[1]}"
)
def test_screens_are_as_they_were_accepted(golden, size):
    for name, text in walked(size).items():
        golden(f"{name}_{size[0]}x{size[1]}", text)


def disconnected():
    feed = film(live=True)
    feed.trouble = "DISCONNECTED for 12 s"
    return feed


def all_unknown():
    silent = tuple(type(s)(s.name, s.kind, 0, s.known, None) for s in SOURCES)
    return empty(sources=silent)


UNPLACED = {
    "prometheus": {
        "no signal of the catalogue has this name": 1234,
        "its node or instance is not in the topology": 96,
        "several engines report for its replica": 18,
    },
    "agents": {"its device belongs to no port of the topology": 2},
}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "size", "feed", "keys"),
    [
        ("healthy_80x24", (80, 24), lambda: film(()), ()),
        ("live_80x24", (80, 24), lambda: film(live=True), ()),
        ("disconnected_80x24", (80, 24), disconnected, ()),
        ("empty_fleet_80x24", (80, 24), lambda: empty(Topology()), ()),
        ("empty_fleet_fabric_80x24", (80, 24), lambda: empty(Topology()), ("2",)),
        ("all_unknown_80x24", (80, 24), all_unknown, ()),
        ("all_unknown_signals_80x24", (80, 24), all_unknown, ("3",)),
        ("thousand_80x24", (80, 24), lambda: film(many()), ()),
        ("bare_40x10", (40, 10), film, ()),
        ("bare_detail_40x10", (40, 10), film, ("enter",)),
        ("bare_signals_40x10", (40, 10), film, ("3",)),
        ("tiny_18x4", (18, 4), film, ()),
        ("help_80x24", (80, 24), film, ("question_mark",)),
        ("sources_80x24", (80, 24), film, ("s",)),
        ("sources_unplaced_80x24", (80, 24), lambda: film(live=True, unplaced=UNPLACED), ("s", "pagedown")),
        ("plan_80x24", (80, 24), film, ("m", "1")),
        ("filtered_80x24", (80, 24), film, ("slash", *"sev>=loud", "enter")),
        ("symptoms_80x24", (80, 24), lambda: film(ABNORMAL), ("j", "j", "j")),
        ("symptom_detail_80x24", (80, 24), lambda: film(ABNORMAL), ("j", "j", "j", "enter")),
        ("wide_80x24", (80, 24), film, ("3", "w", "l", "l")),
    ],
)
def test_unusual_screens_equal_their_goldens(golden, name, size, feed, keys):
    golden(name, shown(size, keys, feed()))


@pytest.mark.slow
def test_ascii_is_as_it_was_accepted_and_is_ascii(golden):
    texts = walked((120, 40), ConsoleOptions(ascii=True))
    assert all(text.isascii() for text in texts.values())
    for name in ("diagnoses", "detail", "signals"):
        golden(f"ascii_{name}_120x40", texts[name])
