"""Tables that scripts write: which columns are taken by their names, as what, and what is said of it."""

import datetime as dt
import math
from contextlib import suppress

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from skewscope.adapters.inputs.draft_recording import describe_recording, draft_recording, save_recording
from skewscope.adapters.inputs.recording import load
from skewscope.adapters.mapping.name_mapping import parse_mapping
from skewscope.adapters.runtime.replay import replay
from skewscope.kb.loader import catalogue
from skewscope.kb.problems import InputError

T = 1790848800
GPUS = "time,gpu,power_w,util_pct,temp_c,sm_clock_mhz,mem_used_mb"
SMALL = settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


def table(folder, header, *rows, name="run.csv"):
    folder.mkdir(exist_ok=True)
    path = folder / name
    path.write_text("\n".join([header, *rows]) + "\n", encoding="utf-8")
    return path


def read(path, mapping=None):
    """Returns the samples of a table, and its warnings."""
    mapping = mapping and parse_mapping(f"version: 1\nmetrics: [{mapping}]\n", "m", catalogue())
    draft = draft_recording([path], None, mapping)
    found = load(draft.recording, catalogue(), workers=1)
    keys = [found.table.keys[n] for n in found.block.series.tolist()]
    rows = zip(keys, found.block.time.tolist(), found.block.value.tolist(), strict=True)
    return sorted((key.signal, key.entity, key.selector, time - T, value) for key, time, value in rows), found.warnings


def values(path, mapping=None):
    return {(signal, entity): value for signal, entity, selector, _, value in read(path, mapping)[0] if not selector}


def test_a_table_of_gpus(tmp_path):
    path = table(tmp_path, GPUS, f"{T},0,300,95,60,1410,40000", f"{T},1,310,94,61,1400,40000")
    samples, warnings = read(path)
    assert samples == [
        ("gpu.fb_used", "run/gpu0", "", 0, pytest.approx(40e9 / 2**20)),
        ("gpu.fb_used", "run/gpu1", "", 0, pytest.approx(40e9 / 2**20)),
        ("gpu.power", "run/gpu0", "", 0, 300),
        ("gpu.power", "run/gpu1", "", 0, 310),
        ("gpu.sm_clock", "run/gpu0", "", 0, 1410),
        ("gpu.sm_clock", "run/gpu1", "", 0, 1400),
        ("gpu.temperature", "run/gpu0", "", 0, 60),
        ("gpu.temperature", "run/gpu1", "", 0, 61),
        ("gpu.util", "run/gpu0", "", 0, 95),
        ("gpu.util", "run/gpu1", "", 0, 94),
    ]
    taken = (
        "mem_used_mb = gpu.fb_used (MBy), power_w = gpu.power (W), sm_clock_mhz = gpu.sm_clock (MHz), "
        "temp_c = gpu.temperature (Cel), util_pct = gpu.util (%)"
    )
    assert warnings == (f"run.csv: columns taken by their names: {taken}; --mapping FILE says otherwise",)


def test_names_with_units_in_brackets_and_columns_of_no_use(tmp_path):
    head = "Timestamp,GPU,Machine,Power (W),GPU Utilization (%),SM Clock (GHz),Fan Speed (%),Note,pstate"
    row = "2026-10-01 10:00:00,GPU 3,h1,300,95,1.41,40,{},P0"
    first = values(table(tmp_path, head, row.format("warm-up")))
    assert first == {("gpu.power", "h1/gpu3"): 300, ("gpu.util", "h1/gpu3"): 95, ("gpu.sm_clock", "h1/gpu3"): 1410}
    draft = draft_recording([table(tmp_path, head, row.format(""), row.format("run").replace("00:00", "00:01"))])
    assert not draft.unknown
    save_recording(draft, tmp_path / "saved")
    assert replay(describe_recording(tmp_path / "saved").recording).incidents == ()


def test_step_times_are_of_a_job_that_is_named_after_the_file(tmp_path):
    head, rows = "step,timestamp,step_time_ms,loss", [f"{n},{T + n},500,2.1" for n in range(3)]
    samples, warnings = read(table(tmp_path, head, *rows))
    assert samples == [("step.duration", "run", "", n, 0.5) for n in range(3)]
    assert "nothing in it names its job: 'run', by the file's name, is taken" in warnings[0]


def test_parts_of_a_step_are_those_of_the_rank_in_its_row(tmp_path):
    head = "ts_ms;step;rank;host;data_ms;fwd_bwd_ms;allreduce_wait_ms"
    rows = [f"{1000 * (T + n)};{n};{rank};h{rank};3;400;60" for n in range(3) for rank in range(2)]
    samples, _ = read(table(tmp_path, head, *rows))
    assert {(signal, value) for signal, *_, value in samples} == {
        ("step.data_time", 0.003),
        ("step.compute_time", 0.4),
        ("step.wait_time", 0.06),
    }


@pytest.mark.parametrize(
    ("name", "time"),
    [
        *((name, T) for name in ("time_s", "Time (s)", "unix_time", "epoch", "wall_time", "_timestamp", "Time")),
        *(("timestamp_ms", T * 1000), ("Time [us]", T * 10**6), ("Date/Time", "2026-10-01T10:00:00Z")),
    ],
)
def test_columns_of_times(tmp_path, name, time):
    found, _ = read(table(tmp_path, f"{name},gpu,power_w", f"{time},0,300"))
    assert found == [("gpu.power", "run/gpu0", "", 0, 300)]


def test_an_epoch_of_a_training_is_no_time(tmp_path):
    with pytest.raises(InputError, match="found the columns epoch, step_time_s"):
        read(table(tmp_path, "epoch,step_time_s", "3,0.5"))
    found, _ = read(table(tmp_path, "epoch,step_time_s,wall_time", f"3,0.5,{T}"))
    assert found == [("step.duration", "run", "", 0, 0.5)]


def test_one_gpu_without_a_column_of_it(tmp_path):
    head = "timestamp,gpu_utilization,gpu_power,gpu_temp,gpu_mem_used"
    rows = [f"{T + n},95,300,60,40000" for n in range(3)]
    samples, warnings = read(table(tmp_path, head, *rows))
    assert {row[:2] for row in samples} == {(f"gpu.{name}", "run/gpu0") for name in ("util", "power", "temperature")}
    assert "gpu_power = gpu.power (W by its size)" in warnings[0]
    assert "no column of the GPU: taken for GPU 0" in warnings[0]
    line = "{metric: gpu_mem_used, signal: gpu.fb_used, unit: MiBy, entity: {gpu: '0'}}"
    assert f"gpu_mem_used has no unit: in a mapping file, a line such as `- {line}` takes it" in warnings[0]
    found = values(table(tmp_path, head, *rows), line)
    assert found["gpu.fb_used", "run/gpu0"] == 40000
    assert len(found) == 4
    path = table(tmp_path, "time,step_time", f"{T},0.5")
    assert values(path, "{metric: step_time, signal: step.duration, unit: s, entity: {group: run}}") == {
        ("step.duration", "run"): 0.5
    }


def test_rows_of_one_time_need_a_column_of_the_gpu(tmp_path):
    rows = [f"{T},h1,300", f"{T},h2,300"]
    assert len(read(table(tmp_path, "time,machine,gpu_power_w", *rows))[0]) == 2
    with pytest.raises(InputError, match="two rows of one time, and no column that says which GPU a row is of"):
        read(table(tmp_path, "time,machine,gpu_power_w", *rows, rows[1]))


@pytest.mark.parametrize(
    ("name", "cell", "signal", "value"),
    [
        *(("sm_clock", 1410, "gpu.sm_clock", 1410), ("sm_clock", 1.41, "gpu.sm_clock", 1410)),
        *(("sm_clock", 1.41e9, "gpu.sm_clock", 1410), ("mem_used", 2**32, "gpu.fb_used", 4096)),
        *(("util", 95, "gpu.util", 95), ("power", 300_000, "gpu.power", 300)),
    ],
)
def test_a_unit_is_found_by_the_size_of_the_values(tmp_path, name, cell, signal, value):
    assert values(table(tmp_path, f"time,gpu,{name}", f"{T},0,{cell}")) == {(signal, "run/gpu0"): pytest.approx(value)}


@pytest.mark.parametrize(
    ("name", "cell", "reason"),
    [
        *(
            ("util", 0.95, "util has no unit"),
            ("mem_used", 40000, "unit: MiBy"),
            ("sm_clock", 0, "sm_clock has no unit"),
        ),
        *(
            ("power_pct", 80, "power_pct is not taken for gpu.power, which is in W"),
            ("step_time", 0.5, "unit: s, entity: {group: run}}"),
        ),
    ],
)
def test_a_column_of_no_certain_unit_is_an_error_with_the_line_of_a_mapping_file(tmp_path, name, cell, reason):
    with pytest.raises(InputError, match="no metric that is known") as caught:
        read(table(tmp_path, f"time,gpu,{name}", f"{T},0,{cell}"))
    assert reason in str(caught.value)


def test_names_that_are_known_and_a_mapping_file_come_first(tmp_path):
    path = table(tmp_path, "time,gpu,DCGM_FI_DEV_POWER_USAGE,power_w,temp_c", f"{T},0,300,200,60")
    assert values(path) == {("gpu.power", "run/gpu0"): 300, ("gpu.temperature", "run/gpu0"): 60}
    path = table(tmp_path, "time,card,power_w", f"{T},h/1,300")
    rule = '{metric: power_w, signal: gpu.temperature, labels: {card: "{node}/{gpu}"}}'
    assert values(path, rule) == {("gpu.temperature", "h/gpu1"): 300}
    # The labels that a mapping file reads say which GPU a row is of.
    path = table(tmp_path, "time,card,power_w,gpu_util_pct", f"{T},h/0,300,9", f"{T},h/1,310,9")
    assert values(path, rule) == {("gpu.temperature", "h/gpu0"): 300, ("gpu.temperature", "h/gpu1"): 310}


def test_beside_columns_of_the_catalogue_the_gpu_must_be_named(tmp_path):
    rows = [f"{T},h,0.5,{temp}" for temp in (60, 61)]
    samples, warnings = read(table(tmp_path, "time,host,host.cpu_util,gpu_temp_c", *rows))
    assert {row[:2] for row in samples} == {("host.cpu_util", "h")}
    assert "gpu_temp_c is not taken for gpu.temperature: no column names the GPU" in warnings[0]


def test_a_column_for_each_gpu(tmp_path):
    path = table(tmp_path, "time,host,gpu0_power_w,GPU 1 Power (W),gpu0_temp_c,gpu0", f"{T},h,300,310,60,5")
    assert values(path) == {
        ("gpu.power", "h/gpu0"): 300,
        ("gpu.power", "h/gpu1"): 310,
        ("gpu.temperature", "h/gpu0"): 60,
    }
    with pytest.raises(InputError, match="two rows of one time"):
        read(table(tmp_path, "time,gpu0_power_w", f"{T},300", f"{T},310"))
    path = table(tmp_path, "time,gpu,gpu1_power_w,power_w", f"{T},0,300,310")
    assert values(path) == {("gpu.power", "run/gpu0"): 310}


def test_two_columns_of_one_meaning_are_not_taken(tmp_path):
    path = table(tmp_path, "time,gpu,power_w,Power (kW),temp_c,card,GPU Index", f"{T},0,300,0.2,60,5,5")
    samples, warnings = read(path)
    assert [row[:2] for row in samples] == [("gpu.temperature", "run/gpu0")]
    assert "Power (kW), power_w may all be gpu.power: none is taken, a mapping file decides" in warnings[0]


def test_without_a_column_of_gpus_a_temperature_may_be_of_anything(tmp_path):
    with pytest.raises(InputError, match="no metric that is known, but 2 others"):
        read(table(tmp_path, "time,temp_c,power_w", f"{T},60,300"))


@pytest.mark.parametrize(("name", "cell"), [("power_draw_W", 5.2), ("Power Draw (W)", 5.2), ("temp_c", 60)])
def test_a_column_that_may_be_of_a_gpu_is_an_error_with_the_name_that_takes_it(tmp_path, name, cell):
    with pytest.raises(InputError, match="no metric that is known") as caught:
        read(table(tmp_path, f"timestamp,{name}", f"{T},{cell}"))
    assert f"call the column gpu0_{name}, or take it with `- {{metric: " in str(caught.value)
    found, _ = read(table(tmp_path, f"timestamp,gpu0_{name}", f"{T},{cell}"))
    assert [row[1:] for row in found] == [("run/gpu0", "", 0, cell)]


def test_servers(tmp_path):
    samples, _ = read(table(tmp_path, "time,requests_waiting,num_requests_running", f"{T},3,4"))
    assert [(row[0], row[4]) for row in samples] == [("serve.running", 4), ("serve.waiting", 3)]


HOME = "time,gpu,Temperature (C),sm_clock_mhz,power_w,util_pct"
PROPER = "time,gpu,gpu.temperature,gpu.sm_clock,gpu.power,gpu.util"


@pytest.mark.slow
def test_verdicts_are_those_of_the_same_table_with_proper_names(tmp_path):
    rows = [f"{T + t},{g},60,{700 if g == 1 and t > 200 else 1410},300,95" for t in range(500) for g in range(4)]
    told = []
    for number, head in enumerate((HOME, PROPER)):
        outcome = replay(draft_recording([table(tmp_path / str(number), head, *rows)]).recording)
        told.append([(one.condition, one.kind, one.opened_at, one.confidence, one.impact) for one in outcome.incidents])
    assert told[0]
    assert told[0] == told[1]


CELLS = {
    "time": str(T),
    "gpu": "0",
    "host": "h",
    "power_w": "300",
    "temp_c": "60",
    "Util (%)": "95",
    "x": "1",
    "y": "a",
}


@SMALL
@given(st.permutations(list(CELLS)))
def test_the_order_of_columns_does_not_matter(tmp_path, names):
    found = values(table(tmp_path, ",".join(names), ",".join(CELLS[name] for name in names)))
    assert found == {("gpu.power", "h/gpu0"): 300, ("gpu.temperature", "h/gpu0"): 60, ("gpu.util", "h/gpu0"): 95}


@SMALL
@given(st.lists(st.from_regex(r"zz[a-z _.%()]{0,20}[a-z]", fullmatch=True), max_size=5, unique=True), st.booleans())
def test_unknown_columns_change_nothing(tmp_path, names, is_text):
    cells = [("text" if is_text else "1.5")] * len(names)
    path = table(tmp_path, ",".join(["time,gpu,power_w", *names]), ",".join([f"{T},0,300", *cells]))
    assert read(path)[0] == [("gpu.power", "run/gpu0", "", 0, 300)]


@SMALL
@given(st.sampled_from([("W", 1.0), ("mW", 1e3), ("kW", 1e-3)]), st.floats(1, 2000))
def test_units_convert(tmp_path, unit, watts):
    found = values(table(tmp_path, f"time,gpu,power ({unit[0]})", f"{T},0,{watts * unit[1]!r}"))
    assert math.isclose(found["gpu.power", "run/gpu0"], watts)


@SMALL
@given(
    st.lists(st.text(st.characters(exclude_characters="\r\n,;\t", exclude_categories=["Cs"]), max_size=300), max_size=6)
)
def test_any_header_is_read_or_an_input_error(tmp_path, names):
    path = table(
        tmp_path, ",".join(["time", "gpu", *names, "power_w"]), ",".join([str(T), "0", *["1"] * len(names), "300"])
    )
    with suppress(InputError):
        read(path)


@pytest.mark.slow
def test_very_wide_tables(tmp_path):
    names = [f"power_{n}_w" for n in range(4093)]
    path = table(tmp_path, ",".join(["time", "gpu", "power_w", *names]), ",".join([str(T), "0", "300", *["1"] * 4093]))
    assert values(path) == {("gpu.power", "run/gpu0"): 300}


def test_parquet(tmp_path):
    moments = [T * 1000, T * 1000 + 1000]
    columns = {"timestamp_ms": moments, "GPU": [0.0, 0.0], "Power (mW)": [300_000, None], "kind": ["a", "b"]}
    pq.write_table(pa.table(columns), tmp_path / "run.parquet")
    samples, warnings = read(tmp_path / "run.parquet")
    assert samples == [("gpu.power", "run/gpu0", "", 0, 300)]
    assert "Power (mW) = gpu.power (mW), GPU = gpu, timestamp_ms = time (ms)" in warnings[0]
    moments = pa.array([dt.datetime.fromtimestamp(T, dt.UTC)] * 2, pa.timestamp("us", tz="UTC"))
    pq.write_table(pa.table({"Date/Time": moments, "gpu_power_w": [1.0, 2.0]}), tmp_path / "run.parquet")
    with pytest.raises(InputError, match="two rows of one time"):
        read(tmp_path / "run.parquet")
    pq.write_table(pa.table({"epoch": [1, 2], "step_time_s": [1.0, 2.0]}), tmp_path / "run.parquet")
    with pytest.raises(InputError, match="found epochs of a training, expected a column of times"):
        read(tmp_path / "run.parquet")
    pq.write_table(pa.table({"time": [float(T)], "gpu_util": [0.5]}), tmp_path / "run.parquet")
    with pytest.raises(InputError, match="gpu_util has no unit"):
        read(tmp_path / "run.parquet")
