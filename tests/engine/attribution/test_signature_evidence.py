"""Log-odds of causes: seen and abnormal speaks for, seen and normal against, unseen counts neither way."""

import pytest

from skewscope.engine.attribution.posterior import find_posterior
from skewscope.engine.attribution.signature_evidence import SignatureModel
from skewscope.engine.incidents.confidence import Calibration
from skewscope.engine.model.finding import PAST, PEERS, Finding
from skewscope.engine.model.locality import Entity
from skewscope.kb.loader import catalogue

KNOWN = catalogue()
MODEL = SignatureModel(KNOWN)
PLACE = Entity("rank", "A:n2")


def late(signal="step.compute_time", direction="up"):
    return Finding(KNOWN.signals[signal], PLACE, PEERS, direction, 0.0, 2.0, 1.0)


def probabilities(findings, delivered=(), kinds=("tensor-parallel",), machines=1):
    found = MODEL.weigh(findings, delivered, kinds, machines)
    return dict(find_posterior({one.condition: one.log_odds for one in found}, Calibration()).probabilities)


def test_a_slow_rank_may_have_a_slow_gpu():
    assert "gpu-fail-slow" in list(probabilities([late()]))[:3]


def test_a_low_clock_speaks_for_what_lowers_clocks():
    alone, both = probabilities([late()]), probabilities([late(), late("gpu.sm_clock", "down")])
    lowering = {"gpu-thermal-throttle", "power-cap", "gpu-fail-slow", "gpu-variability"}
    assert sum(both.get(name, 0) for name in lowering) > sum(alone.get(name, 0) for name in lowering)


def test_what_is_normal_speaks_against():
    unseen = MODEL.weigh([late()], (), ())
    top = unseen[0]
    normal = dict.fromkeys(top.unseen)
    again = {one.condition: one.log_odds for one in MODEL.weigh([late()], tuple(normal), ())}
    assert again[top.condition] < top.log_odds


@pytest.mark.parametrize("signal", ["port.link_down_events", "gpu.temperature"])
def test_a_signal_that_is_not_delivered_counts_neither_way(signal):
    assert probabilities([late()]) == probabilities([late()], ())
    assert signal not in {name for one in MODEL.weigh([late()], (), ()) for name in one.normal}


def from_its_past(signal, direction, value):
    return Finding(KNOWN.signals[signal], Entity("group", "A"), PAST, direction, 0.0, value, 1.0)


def test_fewer_samples_a_second_have_the_causes_of_longer_steps():
    longer, fewer = from_its_past("step.duration", "up", 2.0), from_its_past("step.sample_rate", "down", 0.5)
    assert probabilities([fewer]) == probabilities([longer])
    assert probabilities([fewer]) != probabilities([from_its_past("step.sample_rate", "up", 2.0)])
    both, one = (MODEL.weigh(some, (), ("tensor-parallel",)) for some in ([longer, fewer], [longer]))
    assert both[0].condition == one[0].condition


def test_the_deciding_signal_is_one_that_is_not_seen():
    ranked = MODEL.weigh([late()], (), ())
    decides = MODEL.decisive_signal(ranked)
    assert decides in {*ranked[0].unseen, *ranked[1].unseen}


def test_nothing_to_decide_between_one_candidate():
    assert MODEL.decisive_signal(MODEL.weigh([late()], (), ())[:1]) == ""


def test_of_several_late_machines_each_would_need_a_fault_of_its_own():
    one, two = (probabilities([late()], (), ("pipeline-parallel",), machines) for machines in (1, 2))
    assert one["gpu-fail-slow"] > two.get("gpu-fail-slow", 0.0)
    assert next(iter(two)) == "pp-bubble"


def lower_clock(value):
    gpu = Entity("gpu", "n0/gpu0")
    return Finding(KNOWN.signals["gpu.sm_clock"], gpu, PEERS, "down", 0.0, value, 1980.0)


def test_a_lower_clock_is_no_silence():
    slow, gone = ({one.condition for one in MODEL.weigh([lower_clock(value)], (), ())} for value in (1200.0, 0.0))
    assert "telemetry-blackout" not in slow
    assert "telemetry-blackout" in gone


def test_a_gpu_without_a_group_has_hardly_the_faults_of_one():
    alone, grouped = (probabilities([lower_clock(1200.0)], (), kinds) for kinds in ((), ("tensor-parallel",)))
    assert alone.get("tp-straggler", 0.0) < 0.5 * grouped["tp-straggler"]
    assert alone["gpu-fail-slow"] >= grouped["gpu-fail-slow"]


def test_findings_of_one_source_are_no_independent_witnesses():
    def gain(*signals):
        known = {one.condition: one.log_odds for one in MODEL.weigh([late(), *map(lower, signals)], (), ())}
        return known["gpu-thermal-throttle"]

    def lower(signal):
        return Finding(KNOWN.signals[signal], PLACE, PAST, "down", 0.0, 1.0, 2.0)

    before, first, second = gain(), gain("gpu.sm_clock"), gain("gpu.sm_clock", "gpu.power")
    assert second - first < first - before
