"""Value, normal value and factor of a piece of evidence are of one series at one moment, its peak."""

from dataclasses import replace

import numpy as np
import pytest

from skewscope.adapters.view.snapshot import SeriesIndex, SeriesInfo, SignalView, ViewFrame, ViewSnapshot
from skewscope.engine.model.incident import IncidentEvidence
from skewscope.tui.render.detail import DisplayNames, evidence_value
from skewscope.tui.render.evidence_reading import compare_at_peak, compare_now
from skewscope.tui.render.evidence_series import EvidenceSeries
from skewscope.tui.render.evidence_value import SeriesReading, format_evidence
from tests.tui.samples import ROOT, TOPOLOGY, catalogue

OPENED = 100.0


def snapshot(signal, unit, values, baseline, peers):
    """A series with two peers, whose baseline follows it after the fault as baselines do."""
    infos = tuple(SeriesInfo(signal, "rank", f"A:n{n}", "", unit, 0) for n in range(3))
    frames = []
    for n, value in enumerate(values):
        column = np.array([value, peers, peers], np.float32)
        usual = np.array([baseline[n], peers, peers], np.float32)
        median, zero = np.full(3, peers, np.float32), np.zeros(3, np.float32)
        frames.append(ViewFrame(OPENED - 5 + n, column, usual, zero, median, zero, zero, zero > 0))
    end = frames[-1].time
    return ViewSnapshot(end, frames[0].time, end, TOPOLOGY, signals=SignalView(SeriesIndex(infos), frames))


def item(expr, value, unit="s", name="late"):
    return IncidentEvidence(name, "yes", 3.0, value, unit, expr)


def read(evidence, view, resolved_at=None):
    one = replace(ROOT, opened_at=OPENED, resolved_at=resolved_at)
    return compare_at_peak(evidence, one, EvidenceSeries(0, "x", "A:n0", _unit(view), (1, 2)), view)


def _unit(view):
    return view.signals.series_index.series[0].unit


LATE = snapshot("wire.onset_lag", "s", [0.0002] * 5 + [0.0129] * 5 + [0.0001] * 5, [0.0002] * 15, 0.0002)


def test_a_fault_that_is_over_is_shown_at_its_peak_and_not_now():
    evidence = item("mean(wire.onset_lag, 2*s) > 2*ms and peer_excess(wire.onset_lag) > 1*ms", 0.0129)
    assert read(evidence, LATE) == "12.9 ms, peers 200 µs (65×)"


def test_a_relative_change_is_shown_by_the_values_that_make_it():
    view = snapshot("wire.round_period", "s", [0.01] * 5 + [0.03] * 5, [0.01] * 8 + [0.02] * 2, 0.01)
    evidence = item("drift(wire.round_period) > 10*percent", 2.0, "1")
    assert read(evidence, view) == "30 ms, normally 10 ms (3×)"
    assert format_evidence(evidence) == "3× normal"


def test_what_stands_still_is_beside_what_it_did_before():
    view = snapshot("nccl.coll_seq", "1/s", [288.0] * 5 + [0.0] * 5, [288.0] * 10, 0.0)
    assert read(item("rate(nccl.coll_seq, 60*s) <= 0", 0.0, "1/s"), view) == "0/s, normally 288/s"


def test_a_series_that_never_shows_the_value_is_not_beside_it():
    assert read(item("mean(wire.onset_lag, 2*s) > 2*ms", 5.0), LATE) == ""


@pytest.mark.parametrize(
    ("reference", "compared", "text"),
    [
        (0.0002, "peers", "12.9 ms, peers 200 µs (64×)"),
        (0.3, "normally", "12.9 ms, normally 300 ms"),
        (0.01, "limit", "12.9 ms, limit 10 ms (1.3×)"),
    ],
)
def test_a_finding_is_beside_what_it_was_judged_by(reference, compared, text):
    evidence = replace(item("wire.onset_lag", 0.0129), reference=reference, compared=compared)
    assert format_evidence(evidence) == text
    # A series is not asked, as it may show another moment.
    assert (
        evidence_value(evidence, ROOT, DisplayNames(catalogue(), read_series=lambda *_: SeriesReading("5 s"))) == text
    )


def test_a_ratio_to_peers_is_a_factor():
    assert format_evidence(item("peer_ratio(a.b) > 3", 75.2, "1")) == "75× its peers"


def test_now_is_beside_the_farther_of_peers_and_past():
    view = snapshot("wire.rtt", "s", [0.01] * 3, [0.01] * 3, 0.001)
    assert compare_now(view, 0) == "10 ms, peers 1 ms (10×)"
