import pytest

from skewscope.adapters.mapping.counter_names import find_counter, find_counter_signal

RECEIVED, SENT = "node_network_receive", "node_network_transmit"


@pytest.mark.parametrize(
    ("name", "metric", "part"),
    [
        ("rx_packets", f"{RECEIVED}_packets_total", 0),
        ("acme_nic_rx_packets", f"{RECEIVED}_packets_total", 0),
        ("packets_received", f"{RECEIVED}_packets_total", 0),
        ("bytes_sent", f"{SENT}_bytes_total", 0),
        ("ifInDiscards", f"{RECEIVED}_drop_total", 0),
        ("ifOutErrors", f"{SENT}_errs_total", 0),
        ("rx_missed_errors", f"{RECEIVED}_drop_total", 1),
        ("rx_crc_errors", f"{RECEIVED}_errs_total", 1),
        ("rx_drops_no_pbuf", f"{RECEIVED}_drop_total", 1),
        ("rxq0: rx_pkts", f"{RECEIVED}_packets_total", 2),
        ("tx_queue_3_dropped", f"{SENT}_drop_total", 2),
    ],
)
def test_words_say_what_a_counter_of_an_unknown_driver_counts(name, metric, part):
    meaning = find_counter(name)
    assert meaning is not None
    assert (meaning.metric, meaning.part) == (metric, part)


@pytest.mark.parametrize(
    "name",
    [
        *("rx_64b_packets", "rx_vlan_filtered_drops", "rx_dropped_mtu", "rx_udp_checksum_errors"),
        *("rx_errors_corrected", "tx_timeout_count", "link_down_events", "rx_tx_errors", "dropped"),
        *("rx_pause_frames", "x" * 200, ""),
    ],
)
def test_what_is_no_loss_or_has_no_direction_is_left_alone(name):
    assert find_counter(name) is None


@pytest.mark.parametrize(
    ("name", "signal"),
    [
        ("acme_engine_preempted_requests", "serve.preemptions"),
        ("generated_tokens", "serve.generation_tokens"),
        ("card_ecc_uncorrectable_errors", "gpu.ecc_dbe_vol"),
        ("tokens", ""),
    ],
)
def test_the_end_of_a_name_says_which_other_counter_it_is(name, signal):
    assert find_counter_signal(name) == signal
