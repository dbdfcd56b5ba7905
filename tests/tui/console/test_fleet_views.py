"""Views of a whole fleet in the console: incidents as lengths, a storm by cause, the map of all nodes."""

from skewscope.adapters.view.builder import ViewHistory
from tests.tui.consoles import shown
from tests.tui.render.test_fleet_pictures import fleet, storm
from tests.tui.samples import film


def test_incidents_are_lengths_on_the_bar_with_names_on_a_tall_screen():
    assert "┃━━━" in shown((80, 24))
    tall = shown((120, 40)).splitlines()
    bar = next(n for n, line in enumerate(tall) if line.startswith(" ▮"))
    assert "Tensor-parallel straggler n2" in tall[bar + 1]


def test_a_storm_is_shown_by_cause_until_somebody_unfolds_it():
    text = shown((100, 30), (), film(storm()))
    assert "912 open · 2 causes · 900 of them began between" in text
    assert "nic-failure-hang  911 more" in text
    assert "911 more" not in shown((100, 30), ("f",), film(storm()))


def test_the_map_has_all_nodes_and_the_worst_members_over_time():
    text = shown((120, 40), ("2", "v", "v", "v"))
    assert "8 nodes, 1 with an incident" in text
    assert "▶ n0" in text
    assert "(wire.onset_lag) at" in text


def test_the_map_of_five_thousand_nodes_fits_the_screen():
    snapshot = fleet(5000)
    history = ViewHistory(snapshot.topology)
    history.add(snapshot, snapshot.signals.latest)
    text = shown((160, 50), ("2", "v", "v", "v"), history)
    assert "5,000 nodes" in text
    assert "h4862" in text
