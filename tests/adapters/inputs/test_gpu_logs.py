import io

import numpy as np
import pytest

from skewscope.adapters.inputs import dcgmi_dmon, nvidia_smi, nvidia_smi_dmon, nvidia_smi_table
from skewscope.adapters.inputs.recognition import find_kind
from skewscope.adapters.inputs.recording import load, open_recording
from skewscope.engine.ingest.feed import SeriesKey
from skewscope.kb.loader import catalogue
from skewscope.kb.problems import InputError
from tests.support.artefacts import ARTEFACTS, DCGMI_DMON, NVIDIA_SMI, NVIDIA_SMI_DMON, NVIDIA_SMI_TABLE, START
from tests.support.telemetry import record

CAPTURE = "fixtures/utkuozdemir-nvidia_gpu_exporter/linux-x86_64__nvidia-h100-80gb-hbm3__590.48.01"


def read(module, text, name="logs/n0.csv", **labels):
    return module.read_series(io.BytesIO(text.encode()), name, labels)


def samples(series):
    """Returns (seconds after the start, value) of each sample by metric and GPU."""
    return {
        (one.metric, dict(one.labels).get("gpu", "")): [
            (t - START, v) for t, v in zip(one.times.tolist(), one.values, strict=True)
        ]
        for one in series
    }


def loaded(folder, kind, text):
    """Returns the samples of a log as those of a recording with the catalogue, by series, and the result."""
    path = record(folder, [{"kind": kind, "path": "gpu.log", "labels": {"node": "n0"}}], {"gpu.log": text})
    found = load(open_recording(path), catalogue())
    block = found.block
    return {
        found.table.keys[n]: [float(v) for v in block.value[block.series == n]]
        for n in sorted(set(block.series.tolist()))
    }, found


def test_numbers_are_in_the_units_of_the_exporter_and_what_is_not_available_is_no_sample():
    found = samples(read(nvidia_smi, NVIDIA_SMI))
    assert found["nvidia_smi_clocks_current_sm_clock_hz", "0"] == [(0.125, 1980e6), (1.125, 1965e6)]
    assert found["nvidia_smi_power_draw_watts", "0"] == [(0.125, 631.95), (1.125, 640)]
    assert ("nvidia_smi_power_draw_watts", "1") not in found
    assert found["nvidia_smi_utilization_gpu_ratio", "0"] == [(0.125, 1.0), (1.125, 0.99)]
    assert found["nvidia_smi_memory_used_bytes", "1"] == [(0.25, 4 * 2.0**20)]
    assert found["nvidia_smi_clocks_event_reasons_active", "0"] == [(0.125, 4), (1.125, 0)]
    assert not any("fan" in metric or "name" in metric for metric, _ in found)


@pytest.mark.parametrize(
    ("message", "times", "said"),
    [
        ("Failed to initialize NVML: Unknown Error", 1, "wrote a line in place of a row"),
        ("Unable to determine the device handle for GPU 0000:3B:00.0: GPU is lost.", 2, "wrote 2 lines in place of"),
        ("NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver.", 400, "wrote 400 lines in"),
    ],
)
def test_what_the_program_says_of_itself_is_no_row_and_is_told(message, times, said):
    header, *rows = NVIDIA_SMI.splitlines(keepends=True)
    text = "".join([header, rows[0], f"{message}\n" * times, *rows[1:]])
    found = read(nvidia_smi, text)
    told = samples(found)
    answers = told.pop((nvidia_smi.ANSWERS, ""))
    assert told == samples(read(nvidia_smi, NVIDIA_SMI))
    # Lines without a time lie evenly between the polls around them.
    failed = [(0.125 + n / (times + 1), 0.0) for n in range(1, times + 1)]
    assert np.allclose(answers, [(0.125, 1.0), *failed, (1.125, 1.0)], rtol=0, atol=1e-5)
    assert said in found[0].note
    assert "(line 3); nothing is known of its GPUs then" in found[0].note
    with pytest.raises(InputError, match="no row"):
        read(nvidia_smi, header + f"{message}\n" * times)


def test_a_failed_poll_is_of_the_host_that_rows_name_and_of_none_where_they_name_several():
    header, failed = "timestamp, hostname, index, power.draw [W]\n", "Failed to initialize NVML: Unknown Error\n"

    def hosts(*names):
        rows = [f"2026/11/22 10:00:0{n}.000, {name}, 0, 70.00 W\n" for n, name in enumerate(names)]
        text = "".join([failed, header, *rows, failed])
        return [dict(one.labels)["node"] for one in read(nvidia_smi, text) if one.metric == nvidia_smi.ANSWERS]

    assert hosts("gpu-7", "gpu-7", "gpu-7") == ["gpu-7"]
    assert hosts("gpu-7", "gpu-8", "gpu-7") == []


def test_samples_are_those_of_the_catalogue(tmp_path):
    found, _ = loaded(tmp_path, "nvidia-smi", NVIDIA_SMI)
    assert found[SeriesKey("gpu.sm_clock", "gpu", "n0/gpu0")] == [1980, 1965]
    assert found[SeriesKey("gpu.util", "gpu", "n0/gpu0")] == [100, 99]
    assert found[SeriesKey("gpu.fb_used", "gpu", "n0/gpu1")] == [4]
    assert found[SeriesKey("gpu.throttle_reasons", "gpu", "n0/gpu1")] == [1]


def test_the_host_is_that_of_the_label_of_a_column_or_of_the_files_name():
    assert {dict(one.labels)["node"] for one in read(nvidia_smi, NVIDIA_SMI, node="x")} == {"x"}
    (named, *_) = read(nvidia_smi, NVIDIA_SMI)
    assert dict(named.labels)["node"] == "n0"
    assert "named after the file: 'n0'" in named.note
    text = "timestamp, hostname, uuid, power.draw [W]\n2026/11/22 10:00:00.000, gpu-7, GPU-1234, 70.00 W\n"
    (one,) = read(nvidia_smi, text)
    assert (dict(one.labels), one.note) == ({"node": "gpu-7", "uuid": "GPU-1234"}, "")


def test_units_may_be_in_the_header_alone_or_nowhere():
    header, row = "timestamp, index, clocks.sm, power.draw [W]", "2026/11/22 10:00:00.000, 0, 1410, 70.25"
    expected = {
        ("nvidia_smi_clocks_current_sm_clock_hz", "0"): [(0, 1410e6)],
        ("nvidia_smi_power_draw_watts", "0"): [(0, 70.25)],
    }
    assert samples(read(nvidia_smi, f"{header}\n{row}\n")) == expected
    assert samples(read(nvidia_smi, f"{row}\n", query="timestamp,index,clocks.sm,power.draw")) == expected


def test_rows_without_a_time_have_that_of_the_file_one_second_between_polls():
    header = "index, temperature.gpu, clocks_throttle_reasons.sw_thermal_slowdown"
    found = read(nvidia_smi, f"{header}\n0, 60, Active\n1, 61, Not Active\n0, 62, Not Active\n")
    values = {(one.metric, dict(one.labels)["gpu"]): one.values.tolist() for one in found}
    assert values == {
        ("nvidia_smi_temperature_gpu", "0"): [60, 62],
        ("nvidia_smi_temperature_gpu", "1"): [61],
        ("nvidia_smi_clocks_event_reasons_active", "0"): [32, 0],
        ("nvidia_smi_clocks_event_reasons_active", "1"): [0],
    }
    assert [one.times[-1] - one.times[0] for one in found if dict(one.labels)["gpu"] == "0"] == [1.0, 1.0]
    assert "no line has a time" in found[0].note


def test_a_column_stands_for_one_that_was_not_asked_for():
    text = "timestamp, index, clocks.gr [MHz], power.draw.instant [W]\n2026/11/22 10:00:00.000, 0, 1410 MHz, 70.00 W\n"
    assert {metric for metric, _ in samples(read(nvidia_smi, text))} == {
        "nvidia_smi_clocks_current_sm_clock_hz",
        "nvidia_smi_power_draw_watts",
    }


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("2026/11/22 10:00:00.000, 0, 1410 MHz\n", r"n0\.csv:1: .*before any header.*without noheader"),
        (
            "timestamp, clocks.sm [MHz]\n2026/11/22 10:00:00.000, 1410 MHz\n2026/11/22 10:00:00.003, 1980 MHz\n",
            r"n0\.csv:3: .*no column index or uuid, and two rows within",
        ),
        ("timestamp, index, clocks.sm\nyesterday, 0, 1410\n", r"n0\.csv:2: .*'yesterday'"),
        (
            "timestamp, index, clocks.sm\n2026/11/22 10:00:00.000, 0\n2026/11/22 10:00:01.000, 0, 5\n",
            r"n0\.csv:2: .*2 cells",
        ),
        ("timestamp, index, index\n2026/11/22 10:00:00.000, 0, 0\n", r"n0\.csv:1: .*two of one name"),
    ],
)
def test_damage_is_told_with_its_line(text, message):
    with pytest.raises(InputError, match=message):
        read(nvidia_smi, text)


def test_a_last_row_that_is_cut_is_left_out_with_a_warning():
    series = read(nvidia_smi, NVIDIA_SMI + "2026/11/22 10:00:02.125, 0, 19", node="n0")
    assert series[0].note == "ends inside a row (line 6), which is left out"


def test_a_log_that_names_no_gpu_is_of_one():
    rows = "".join(f"2026/11/22 10:00:0{n}.000, 1410 MHz\n" for n in range(3))
    (one,) = read(nvidia_smi, f"timestamp, clocks.sm [MHz]\n{rows}")
    assert (dict(one.labels)["gpu"], len(one.times)) == ("0", 3)
    assert "no column index: taken for GPU 0" in one.note


def rows_at(times):
    rows = "".join(f"2026/11/22 10:00:{time:06.3f}, {1410 + n} MHz\n" for n, time in enumerate(times))
    return f"timestamp, clocks.sm [MHz]\n{rows}"


def test_a_log_of_one_gpu_may_have_ten_polls_each_second():
    # As `-lms 100` writes them: each 0.107 s or so, once with a pause.
    times = [0.107 * n + 0.003 * (n % 3) + (0.4 if n > 30 else 0.0) for n in range(60)]
    (one,) = read(nvidia_smi, rows_at(times))
    assert (dict(one.labels)["gpu"], len(one.times)) == ("0", 60)
    assert "no column index: taken for GPU 0" in one.note


@pytest.mark.parametrize("gpus", [2, 8])
def test_rows_of_one_poll_need_the_gpu_although_polls_follow_fast(gpus):
    times = [0.1 * poll + 0.003 * gpu for poll in range(60) for gpu in range(gpus)]
    with pytest.raises(InputError, match=r"n0\.csv:3: .*no column index or uuid, and two rows within"):
        read(nvidia_smi, rows_at(times))


def test_few_damaged_rows_are_left_out_with_a_warning():
    row = "2026/11/22 10:{:02}:{:02}.000, 0, 1410\n"
    rows = [row.format(*divmod(n, 60)) for n in range(400)]
    rows[200:200] = ["... (truncated) ...\n", "2026/11/22 10:0\n"]
    (one,) = read(nvidia_smi, "timestamp, index, clocks.sm\n" + "".join(rows))
    assert len(one.times) == 400
    assert "2 damaged rows are left out, first line 202 with 1 cells" in one.note
    with pytest.raises(InputError, match=r"n0\.csv:52: .*1 cells"):
        read(nvidia_smi, "timestamp, index, clocks.sm\n" + "".join(rows[150:250]))


def test_times_of_iso_8601_and_a_header_without_units_are_those_of_nvidia_smi(tmp_path):
    path = tmp_path / "gpu.csv"
    path.write_text(
        "timestamp,index,memory.used,power.draw,temperature.gpu\n"
        + "".join(f"2025-09-08T17:26:{n}+08:00,0,1024,70.5,40\n" for n in range(50, 59))
    )
    assert find_kind(path) == "nvidia-smi"
    found = read(nvidia_smi, path.read_text())
    assert {one.metric for one in found} >= {"nvidia_smi_memory_used_bytes", "nvidia_smi_power_draw_watts"}
    assert found[0].times[0] == 1757323610.0


def test_a_real_log_has_the_values_that_the_exporter_reads_from_it(shared):
    lines = (shared / f"{CAPTURE}.txt").read_text().splitlines()
    begin = [n for n, line in enumerate(lines) if line.startswith("timestamp, driver_version")][-1]
    found = {one.metric: one.values.tolist() for one in read(nvidia_smi, "\n".join(lines[begin : begin + 2]))}
    page = (shared / f"{CAPTURE}__load.metrics").read_text().splitlines()
    exported = {
        line.partition("{")[0]: float(line.rsplit(" ", 1)[1]) for line in page if line.startswith("nvidia_smi_")
    }
    both = found.keys() & exported.keys()
    assert len(both) > 90
    assert {name: found[name] for name in both} == {name: [pytest.approx(exported[name])] for name in both}


def test_a_real_table_of_dmon_is_read_one_second_apart(shared):
    lines = (shared / f"{CAPTURE}.txt").read_text().splitlines()
    begin = [n for n, line in enumerate(lines) if line.startswith("# gpu ") and "pclk" in line][-1]
    found = {one.metric: one for one in read(nvidia_smi_dmon, "\n".join(lines[begin : begin + 7]))}
    assert found["nvidia_smi_power_draw_watts"].values.tolist() == [631, 634, 633, 634, 636]
    assert found["nvidia_smi_power_draw_watts"].times.tolist() == [0, 1, 2, 3, 4]
    assert "rounds are 1 s apart from 0 s on" in found["nvidia_smi_power_draw_watts"].note


def test_dmon_has_dates_times_and_no_sample_for_a_dash():
    found = samples(read(nvidia_smi_dmon, NVIDIA_SMI_DMON))
    assert found["nvidia_smi_clocks_current_sm_clock_hz", "0"] == [(0, 1980e6), (1, 1965e6)]
    assert found["nvidia_smi_utilization_gpu_ratio", "0"] == [(0, 1.0), (1, 0.99)]
    assert ("nvidia_smi_temperature_memory", "1") not in found


def test_dcgmi_has_rounds_a_period_apart_and_names_by_its_fields(tmp_path):
    found = samples(read(dcgmi_dmon, DCGMI_DMON, start=str(START), period="10"))
    assert found["DCGM_FI_DEV_SM_CLOCK", "1"] == [(0, 1410), (10, 1395)]
    assert found["DCGM_FI_DEV_SM_CLOCK", "0"] == [(0, 1410)]
    assert found["DCGM_FI_PROF_SM_ACTIVE", "0"] == [(10, 0.915)]
    assert found["dcgmi_newfd", "0"] == [(0, 7), (10, 7)]
    series, result = loaded(tmp_path, "dcgmi-dmon", DCGMI_DMON)
    assert series[SeriesKey("gpu.sm_active", "gpu", "n0/gpu1")] == [0.932, 0.925]
    assert [(each.metric, each.count) for each in result.unmapped] == [("dcgmi_newfd", 2)]
    assert "rounds are 1 s apart" in result.warnings[0]


def test_the_table_of_dcgmi_before_version_3_is_read():
    text = """\
    # Entity  GRACT  TENSO  DRAMA
          Id
        GPU 0  0.000  0.000  0.000
        GPU-I 0  0.970  0.930  0.100
        GPU 1  0.552  0.527  0.250
    # Entity  GRACT  TENSO  DRAMA
          Id
        GPU 0  0.969  0.928  0.000
        GPU 1  0.973  0.931  0.500
"""
    found = {(one.metric, dict(one.labels)["gpu"]): one.values.tolist() for one in read(dcgmi_dmon, text)}
    assert found["DCGM_FI_PROF_PIPE_TENSOR_ACTIVE", "0"] == [0.0, 0.928]
    assert found["DCGM_FI_PROF_DRAM_ACTIVE", "1"] == [0.25, 0.5]
    assert len(found) == 6


def test_numbers_of_fields_and_times_before_the_lines_are_read():
    text = "2026-11-22T10:00:00Z #Entity   100\n2026-11-22T10:00:00Z ID\n2026-11-22T10:00:05Z GPU 3     1200\n"
    (one,) = read(dcgmi_dmon, text, node="n0")
    assert (one.metric, dict(one.labels), one.times.tolist(), one.note) == (
        "DCGM_FI_DEV_SM_CLOCK",
        {"node": "n0", "gpu": "3"},
        [START + 5],
        "",
    )


@pytest.mark.parametrize(
    ("kind", "text", "message"),
    [
        ("dcgmi-dmon", "GPU 0   5\n", ":1: .*before any header"),
        ("dcgmi-dmon", "#Entity   SMCLK\nGPU 0   5  6\nGPU 0   5\n", ":2: .*2 values, expected 1"),
        ("nvidia-smi-dmon", "# gpu   pwr\n    0     5     6\n    0     5\n", ":2: .*3 values, expected 2"),
        ("nvidia-smi-dmon", "# gpu   pwr\n    x     5\n", ":2: gpu: .*'x'"),
    ],
)
def test_damage_in_a_table_is_told_with_its_line(kind, text, message):
    module = {"dcgmi-dmon": dcgmi_dmon, "nvidia-smi-dmon": nvidia_smi_dmon}[kind]
    with pytest.raises(InputError, match=message):
        read(module, text)


@pytest.mark.parametrize(("name", "value"), [("period", "0"), ("period", "ten"), ("start", "-1"), ("start", "nan")])
def test_a_label_that_is_no_number_of_seconds_is_an_error(name, value):
    with pytest.raises(InputError, match=name):
        read(dcgmi_dmon, ARTEFACTS["dcgmi-dmon"], **{name: value})


def test_printed_tables_have_the_numbers_of_each_gpu_by_their_units(tmp_path):
    found = samples(read(nvidia_smi_table, NVIDIA_SMI_TABLE))
    assert found["nvidia_smi_temperature_gpu", "0"] == [(0, 65), (5, 66)]
    assert found["nvidia_smi_power_draw_watts", "0"] == [(0, 250), (5, 245)]
    assert found["nvidia_smi_power_limit_watts", "1"] == [(0, 300)]
    assert found["nvidia_smi_memory_used_bytes", "0"] == [(0, 30000 * 2.0**20), (5, 30010 * 2.0**20)]
    assert found["nvidia_smi_memory_total_bytes", "1"] == [(0, 32768 * 2.0**20)]
    assert found["nvidia_smi_utilization_gpu_ratio", "0"] == [(0, 0.98), (5, 0.97)]
    assert found["nvidia_smi_fan_speed_ratio", "0"] == [(5, pytest.approx(0.41))]
    assert not {("nvidia_smi_power_draw_watts", "1"), ("nvidia_smi_temperature_gpu", "1")} & found.keys()
    keys = loaded(tmp_path, "nvidia-smi-table", NVIDIA_SMI_TABLE)[0]
    assert keys[SeriesKey("gpu.power", "gpu", "n0/gpu0")] == [250, 245]
    assert keys[SeriesKey("gpu.fb_used", "gpu", "n0/gpu0")] == [30000, 30010]


ROW = """\
|   {gpu}  Tesla V100-SXM2...  On   | 0000:1A:00.0     Off |                    0 |
| N/A   65C    P0   250W / 300W |  30000MiB / 32768MiB |     98%      Default |
"""


@pytest.mark.parametrize(
    ("before", "time"),
    [
        ("Sun Nov 22 10:00:10 2026", 10),
        ("==== Sun Nov 22 10:00:10 AM UTC 2026 ====", 10),
        ("2026-11-22T10:00:10+00:00", 10),
        ("Every 2.0s: nvidia-smi          h1: Sun Nov 22 10:00:10 2026", 10),
        ("Every 2.0s: nvidia-smi", -START),
        ("Sun Nov 31 10:00:10 2026", -START),
    ],
)
def test_a_printed_table_has_the_time_before_it(before, time):
    series = read(nvidia_smi_table, f"{before}\n{ROW.format(gpu=0)}")
    assert samples(series)["nvidia_smi_power_draw_watts", "0"] == [(time, 250)]
    assert ("its rows have no times" in series[0].note) == (time == -START)


def test_the_clock_of_a_host_may_be_ahead_and_tables_without_times_are_a_period_apart():
    series = read(nvidia_smi_table, NVIDIA_SMI_TABLE, utc_offset="+01:00")
    assert samples(series)["nvidia_smi_power_draw_watts", "0"] == [(-3600, 250), (-3595, 245)]
    text = (ROW.format(gpu=0) + ROW.format(gpu=1)) * 2
    series = read(nvidia_smi_table, text, start=str(START), period="5")
    assert samples(series)["nvidia_smi_power_draw_watts", "1"] == [(0, 250), (5, 250)]


def test_damage_in_printed_tables_is_told():
    first, second, _ = ROW.format(gpu=0).split("\n")
    many = (first + "\n" + second + "\n") * 150
    series = read(nvidia_smi_table, f"{many}{first}\n| N/A  65\n{many}{first}")
    assert "ends inside a table; damaged rows that are left out: 1, first line 302" in series[0].note
    with pytest.raises(InputError, match=r"n0\.csv:302: found a GPU without its second row, and 4 more"):
        read(nvidia_smi_table, f"{many}{f'{first}{chr(10)}|{chr(10)}' * 5}{many}")
    with pytest.raises(InputError, match=r"n0\.csv:1: found no row of a GPU, expected tables with rows such as"):
        read(nvidia_smi_table, first)
    lost = "Unable to determine the device handle for GPU 0000:1A:00.0: Unknown Error\n"
    assert (
        f"messages in place of tables: 1, first {lost[:-1]!r} (line 301)" in read(nvidia_smi_table, many + lost)[0].note
    )


def test_the_log_of_a_job_that_prints_one_table_is_no_log_of_them(tmp_path):
    job = f"{ROW.format(gpu=0)}loading a shard of the checkpoint\n"
    assert nvidia_smi_table.recognise(ROW.format(gpu=0).encode(), "f")
    assert not nvidia_smi_table.recognise(job.encode(), "f")
    step = " iteration 10/ 100 | elapsed time per iteration (ms): 123.4 |\n"
    (tmp_path / "job.out").write_text(NVIDIA_SMI_TABLE + "a line of a start\n" * 5000 + step)
    assert find_kind(tmp_path / "job.out") == "megatron-log"


def test_a_table_without_times_in_what_a_job_prints_is_no_log_of_nvidia_smi(tmp_path):
    table = "index, name, memory.total [MiB], driver_version\n0, NVIDIA H100, 65247 MiB, 535.86.10\n"
    line = "INFO 02-27 07:17:37 [loggers.py:257] Engine 000: Avg prompt throughput: 50.8 tokens/s, Running: 1 reqs\n"
    (tmp_path / "job.out").write_text("SETUP COMPLETE\n\n" + table + "a line of a start\n" * 5000 + line)
    assert find_kind(tmp_path / "job.out") == "vllm-log"
    # Alone, it is one whose error says what it lacks.
    assert nvidia_smi.recognise(table.encode(), "gpu.csv")


def test_columns_of_one_reason_each_become_the_mask_of_reasons():
    text = (
        "timestamp, index, clocks_throttle_reasons.sw_thermal_slowdown, clocks_event_reasons.hw_thermal_slowdown\n"
        "2026/11/22 10:00:00.000, 0, Active, Not Active\n"
        "2026/11/22 10:00:01.000, 0, Active, Active\n"
        "2026/11/22 10:00:02.000, 0, Not Active, [N/A]\n"
    )
    found = nvidia_smi.read_series(io.BytesIO(text.encode()), "n0.csv", {})
    (mask,) = (one for one in found if one.metric == nvidia_smi.REASONS)
    assert mask.values.tolist() == [32.0, 96.0, 0.0]


LIMITS = """\
timestamp, index, power.draw [W], enforced.power.limit [W], power.default_limit [W], \
clocks_event_reasons_counters.sw_thermal_slowdown [us]
2026/11/22 10:00:00.000, 0, 349.50 W, 350.00 W, 700.00 W, 1000 us
"""


def test_limits_of_power_and_times_of_reasons_are_signals_of_the_gpu(tmp_path):
    path = record(tmp_path, [{"kind": "nvidia-smi", "path": "n0.csv", "labels": {"node": "n0"}}], {"n0.csv": LIMITS})
    found = load(open_recording(path), catalogue())
    values = {found.table.keys[n].signal: v for n, v in zip(found.block.series, found.block.value, strict=True)}
    assert values["gpu.power_limit"] == 350
    assert values["gpu.power_default_limit"] == 700
    assert values["gpu.sw_thermal_time"] == 1_000_000


def test_times_of_day_without_a_date_go_on_after_midnight():
    header, row = "#Time        gpu    pwr  pviol  tviol\n", " {}      0    398     50      1\n"
    text = header + "".join(row.format(clock) for clock in ("23:59:58", "23:59:59", "00:00:00"))
    found = {one.metric: one for one in read(nvidia_smi_dmon, text)}
    held = found["DCGM_FI_DEV_POWER_VIOLATION"]
    assert (held.times - held.times[0]).tolist() == [0, 1, 2]
    assert held.values.tolist() == [0, 0.5e9, 1e9]
    assert found["DCGM_FI_DEV_THERMAL_VIOLATION"].values.tolist() == [0, 1e9, 2e9]


@pytest.mark.parametrize("header", ["#Entity   SMCLK  TMPTR\n", ""])
def test_a_paste_that_begins_below_its_header_has_the_columns_of_the_next_one_or_of_its_units(header):
    text = f"ID        MHz    C\nGPU 0     1980   63\n{header}GPU 0     990    90\n"
    assert dcgmi_dmon.recognise(text.encode(), "dmon.log")
    found = {one.metric: one.values.tolist() for one in read(dcgmi_dmon, text)}
    assert found == {"DCGM_FI_DEV_SM_CLOCK": [1980, 990], "DCGM_FI_DEV_GPU_TEMP": [63, 90]}
