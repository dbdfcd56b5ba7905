"""The table of words of columns, and how names are divided into words and a unit."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skewscope.adapters.mapping.column_names import (
    FILLERS,
    LABEL_WORDS,
    NEEDLESS,
    SIGNAL_WORDS,
    SIGNALS,
    SYNONYMS,
    TIMES,
    UNIT_WORDS,
    clean_label,
    convert_unit,
    find_label,
    find_signal,
    is_needless,
    is_time,
    mapping_line,
    split_name,
)
from skewscope.adapters.mapping.name_mapping import parse_mapping
from skewscope.adapters.mapping.scales import UNITS
from skewscope.kb.loader import catalogue

WORDS = [text for texts in SIGNAL_WORDS.values() for text in texts]


@pytest.mark.parametrize("signal", SIGNAL_WORDS)
def test_signals_have_a_value_at_a_time_and_their_words_are_whole(signal):
    known = catalogue().signals[signal]
    # A column of a latency is its mean, and one of a counter its total.
    assert known.type in ("gauge", "histogram", "counter")
    assert known.unit.startswith("{") or known.unit in UNITS
    for text in SIGNAL_WORDS[signal]:
        words = set(text.split())
        assert not words & (FILLERS | SYNONYMS.keys() | {"gpu"})
        assert words - {"per"} - UNIT_WORDS.keys() == words - {"per"}


def test_no_words_mean_two_things():
    assert len(SIGNALS) == sum(len({frozenset(text.split()) for text in texts}) for texts in SIGNAL_WORDS.values())
    labels = [frozenset(text.split()) for texts in LABEL_WORDS.values() for text in texts]
    assert len(labels) == len(set(labels))
    assert not SIGNALS.keys() & (TIMES | NEEDLESS | set(labels))
    assert set(UNIT_WORDS.values()) <= UNITS.keys()


@pytest.mark.parametrize(
    ("name", "signal", "unit"),
    [
        ("power_w", "gpu.power", "W"),
        ("Power (W)", "gpu.power", "W"),
        ("GPU Power [mW]", "gpu.power", "mW"),
        ("gpuPowerDrawWatts", "gpu.power", "W"),
        ("GPU Utilization (%)", "gpu.util", "%"),
        ("gpu_util%", "gpu.util", "%"),
        ("gpu_temp_c", "gpu.temperature", "Cel"),
        ("GPUTemp (°C)", "gpu.temperature", "Cel"),
        ("temperature", "gpu.temperature", ""),
        ("SM Clock (MHz)", "gpu.sm_clock", "MHz"),
        ("smClockMHz", "gpu.sm_clock", "MHz"),
        ("sm_clock_ghz", "gpu.sm_clock", "GHz"),
        ("VRAM used (GiB)", "gpu.fb_used", "GiBy"),
        ("memory.used [MiB]", "gpu.fb_used", "MiBy"),
        ("step_time_s", "step.duration", "s"),
        ("iterationTimeMs", "step.duration", "ms"),
        ("ms/step", "step.duration", "ms"),
        ("elapsed time per iteration (ms)", "step.duration", "ms"),
        ("samples_per_sec", "step.sample_rate", "/s"),
        ("Throughput (samples/s)", "step.sample_rate", "/s"),
        ("num_requests_waiting", "serve.waiting", ""),
        ("cpu_util_pct", "host.cpu_util", "%"),
    ],
)
def test_names_that_are_known(name, signal, unit):
    found = split_name(name)
    assert (find_signal(found), found.unit) == (signal, unit)


@pytest.mark.parametrize(
    "name",
    [
        *("max_gpu_temp", "gpu_memory_utilization", "power.limit", "memory.total", "loss", "step", "gpu", "powerful"),
        *("gpu step time", "cpu_temp", "", "%", "…", "power_w_w", "x" * 10_000, "power_w" * 5000, "power_0_w"),
    ],
)
def test_names_that_mean_nothing_certain(name):
    assert find_signal(split_name(name)) == ""


@pytest.mark.parametrize(
    ("name", "gpu"),
    [
        *(
            ("gpu0_power_w", "0"),
            ("GPU 12 Power (W)", "12"),
            ("power_gpu3", "3"),
            ("GPU1Power", "1"),
            ("gpu_07_power", "7"),
        ),
        *(("gpu_power", ""), ("gpu0_gpu1_power", ""), ("gpu2025_power", "")),
    ],
)
def test_the_gpu_in_a_name(name, gpu):
    assert split_name(name).gpu == gpu
    assert find_signal(split_name(name)) == ("gpu.power" if gpu or name == "gpu_power" else "")


@pytest.mark.parametrize(
    ("name", "label"),
    [
        *(("GPU", "gpu"), ("gpu_index", "gpu"), ("GPU Index", "gpu"), ("gpuId", "gpu"), ("device", "gpu")),
        *(("card", "gpu"), ("Host", "node"), ("machine", "node"), ("node_name", "node"), ("Rank", "rank")),
        *(("gpu0", ""), ("gpu_name", ""), ("gpu_pct", ""), ("index", "")),
    ],
)
def test_labels(name, label):
    assert find_label(split_name(name)) == label


@pytest.mark.parametrize(
    "name",
    [
        *("timestamp_ms", "time_s", "Time (s)", "unix_time", "epoch", "wall_time", "Date/Time", "_timestamp", "TIME"),
        *("unixTimeNs", "Timestamp [ms]", "time_us"),
    ],
)
def test_times(name):
    assert is_time(split_name(name))


@pytest.mark.parametrize("name", ["step_time", "step_time_s", "time_pct", "elapsed_time", "runtime", "uptime", "mtime"])
def test_other_times(name):
    assert not is_time(split_name(name))


@pytest.mark.parametrize(
    "name",
    [
        *("memory.total [MiB]", "nvidia_smi_memory_total_bytes", "power.limit [W]", "clocks.max.sm [MHz]", "index"),
        *("name", "driver_version", "pstate", "fan.speed [%]", "loss", "grad_norm", "lr", "step", "epoch", "iteration"),
        *("", "gpu_name", "Unnamed: 0"),
    ],
)
def test_needless_names_have_no_signal(name):
    assert is_needless(name)
    assert not find_signal(split_name(name))


def test_names_that_are_needed():
    assert not any(map(is_needless, ["power_w", "DCGM_FI_DEV_SM_CLOCK", "x", "step_ms", "…", "fan_torque"]))


@pytest.mark.parametrize(
    ("label", "text", "value"),
    [
        *(("gpu", "GPU 3", "3"), ("gpu", "cuda:1", "1"), ("gpu", "2.0", "2"), ("gpu", "card0", "0")),
        *(("node", " h1 ", "h1"), ("rank", "7.0", "7"), ("node", "gpu-7.rack", "gpu-7.rack")),
    ],
)
def test_values_of_labels(label, text, value):
    assert clean_label(label, text) == value


@given(st.text(max_size=200))
def test_any_text_has_words_and_a_unit_that_is_known(text):
    found = split_name(text)
    assert found.unit in {"", "/s", *UNITS}
    assert find_signal(found) in {"", *SIGNAL_WORDS}
    assert find_label(found) in {"", *LABEL_WORDS}


@given(
    st.sampled_from(WORDS), st.sampled_from(["_", " ", "-", "."]), st.sampled_from([str.lower, str.upper, str.title])
)
def test_case_and_punctuation_do_not_matter(words, between, case):
    wanted = SIGNALS[frozenset(words.split())]
    assert find_signal(split_name(case(words.replace(" ", between)))) == wanted


@given(st.sampled_from(sorted(UNITS)), st.sampled_from(sorted(UNITS)), st.floats(1e-3, 1e6))
def test_units_convert_there_and_back(unit, other, value):
    there, back = convert_unit(unit, other), convert_unit(other, unit)
    assert (there is None) == (back is None) == (UNITS[unit][0] != UNITS[other][0])
    if there is not None and back is not None:
        assert value * there * back == pytest.approx(value)


@given(
    st.text(min_size=1, max_size=60).filter(
        lambda text: text.isprintable() and text.strip() == text and not set(text) & set("{}")
    )
)
def test_the_line_that_is_suggested_is_one_of_a_mapping_file(name):
    line = mapping_line(name, "gpu.util", "%").strip("`")
    mapping = parse_mapping(f"version: 1\nmetrics:\n  {line}\n", "m", catalogue())
    assert mapping.may_map(name)
