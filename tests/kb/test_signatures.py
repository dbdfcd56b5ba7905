"""What a signature says of a signal, and whether the detector could find it."""

import pytest

from skewscope.kb.loader import catalogue
from skewscope.kb.model import SignatureItem
from skewscope.kb.signatures import is_detectable


@pytest.mark.parametrize(
    ("signal", "direction", "against", "detectable"),
    [
        ("step.compute_time", "up", "peers", True),
        ("step.compute_time", "uneven", "peers", True),
        ("step.compute_time", "down", "past", False),
        ("nccl.coll_seq", "stops", "past", True),
        ("nccl.coll_seq", "up", "past", False),
        ("port.tx_bytes", "down", "siblings", True),
        ("port.tx_bytes", "down", "past", False),
        ("rdma.req_cqe_error", "begins", "past", True),
        ("rdma.req_cqe_flush_error", "begins", "past", False),
        ("rdma.req_cqe_flush_error", "silent", "past", True),
    ],
)
def test_an_item_is_detectable_if_its_signal_is_judged_that_way(signal, direction, against, detectable):
    item = SignatureItem(signal, direction, against, "usually")
    assert is_detectable(item, catalogue().signals[signal]) is detectable


def test_a_signature_names_each_signal_once_in_the_order_of_its_items():
    condition = catalogue().conditions["gpu-fail-slow"]
    assert condition.signature_signals[:2] == ("step.compute_time", "step.duration")
    assert len(set(condition.signature_signals)) == len(condition.signature_signals)


@pytest.mark.parametrize(
    ("condition", "signal", "direction", "against"),
    [
        ("gpu-fail-slow", "step.duration", "up", "past"),
        ("gpu-fail-slow", "gpu.sm_clock", "down", "peers"),
        ("pp-bubble", "step.compute_time", "up", "peers"),
        ("link-flap", "port.rx_bytes", "down", "siblings"),
        ("nic-failure-hang", "port.tx_bytes", "down", "siblings"),
        ("collective-hang", "nccl.coll_seq", "stops", "peers"),
        ("dataloader-stall", "step.duration", "up", "past"),
        ("cross-node-load-skew", "serve.running", "up", "peers"),
        ("ingress-starvation", "wire.requests", "down", "peers"),
        ("python-gc-pause", "step.compute_time", "uneven", "peers"),
        ("ecmp-hash-collision", "port.tx_bytes", "uneven", "siblings"),
    ],
)
def test_the_decisive_signal_of_a_condition_is_in_its_signature(condition, signal, direction, against):
    items = catalogue().conditions[condition].signature
    (item,) = [i for i in items if (i.signal, i.direction, i.against) == (signal, direction, against)]
    assert item.shows in ("always", "usually")


def test_no_signature_waits_for_counters_that_do_not_move():
    named = {item.signal for c in catalogue().conditions.values() for item in c.signature}
    assert not named & {"rdma.req_cqe_flush_error", "rdma.resp_cqe_flush_error", "rdma.resp_cqe_error"}


def test_every_condition_has_a_prevalence_that_rests_on_something():
    for condition in catalogue().conditions.values():
        assert condition.prevalence in ("common", "occasional", "rare")
        assert condition.prevalence_basis
