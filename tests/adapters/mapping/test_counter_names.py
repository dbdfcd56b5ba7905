import pytest

from skewscope.adapters.mapping.counter_names import find_counter, find_counter_signal, find_pause

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


@pytest.mark.parametrize(
    ("name", "wanted"),
    [
        ("rx_prio3_pause", "rx_prio3_pause"),
        ("rx_priority_3_xoff.nic", "rx_prio3_pause"),
        ("port.tx_priority_0_xoff", "tx_prio0_pause"),
        ("rx_pb_3_pxoff", "rx_prio3_pause"),
        ("tx_pfc_ena_frames_pri4", "tx_prio4_pause"),
        ("rx_ppp_5", "rx_prio5_pause"),
        ("rx_pause_prio_3", "rx_prio3_pause"),
        ("mac_tx_pri2_pfc_num", "tx_prio2_pause"),
        ("mac.rx_pause_frames_class3", "rx_prio3_pause"),
        ("node_ethtool_received_priority_3_xoff_nic", "rx_prio3_pause"),
        ("link_xoff_rx.nic", "rx_global_pause"),
        ("tx_flow_control_xoff", "tx_global_pause"),
        ("rx_pause_frames", "rx_global_pause"),
        *((name, "") for name in ("rx_priority_3_xon.nic", "rx_priority_3_xon_2_xoff", "rx_pause_duration_prio_3")),
        *((name, "") for name in ("rx_pause_transition_prio_3", "pfc_pri3_rx_transitions", "rx_pfc_frames", "pause")),
        *(
            (name, "")
            for name in ("rx_prio3_buf_discard", "tx_pause_storm_error_events", "rx_pause_prio_9", "rx_pause_9")
        ),
    ],
)
def test_pause_frames_of_any_driver_are_those_of_their_priority(name, wanted):
    assert find_pause(name) == wanted
