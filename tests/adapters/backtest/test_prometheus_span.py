"""A backtest over a span of a real Prometheus server tells what one over the same samples in a file tells."""

import time

import numpy as np
import pytest

from bench.prometheus_server import Prometheus, labels
from skewscope.adapters.backtest.backtest import BacktestOptions, run_backtest
from skewscope.adapters.backtest.rule_set import load_rule_set
from skewscope.adapters.backtest.telemetry import TelemetrySpan, open_telemetry
from skewscope.kb.loader import catalogue
from skewscope.kb.problems import InputError
from tests.adapters.controller.prometheus import prometheus

RULE = "gpu-thermal-throttle-of-a-gpu"
GPUS, SECONDS, ONSET_S, HOT = 4, 240, 120, 2
HEAT = 64
"""The bit of the throttle reasons that says that hardware slows down for heat."""


def metrics():
    """Returns values [gpu, second] by name: one of four GPUs is throttled by heat after a while."""
    ages = np.arange(SECONDS)
    hot = (np.arange(GPUS)[:, None] == HOT) & (ages >= ONSET_S)
    return {
        "DCGM_FI_DEV_SM_CLOCK": np.where(hot, 1200.0, 1980.0),
        "DCGM_FI_DEV_GPU_TEMP": np.where(hot, 91.0, 62.0),
        "DCGM_FI_DEV_CLOCK_THROTTLE_REASONS": np.where(hot, float(HEAT), 0.0),
    }


@pytest.fixture(scope="module")
def begin():
    """Returns the time of the first sample, a whole second: the server takes what is recent."""
    return float(int(time.time()) - 3 * SECONDS)


@pytest.fixture(scope="module")
def server(tmp_path_factory, begin):
    with Prometheus(tmp_path_factory.mktemp("prometheus")) as running:
        times = ((begin + np.arange(SECONDS)) * 1000).astype(np.int64)
        for name, values in metrics().items():
            series = [labels({"__name__": name, "Hostname": "host", "gpu": str(gpu)}) for gpu in range(GPUS)]
            running.write(series, times, values)
        yield f"http://{running.address}"


@pytest.fixture
def file(tmp_path, begin):
    """Returns the same samples as text, each with its time."""
    lines = []
    for name, values in metrics().items():
        lines.append(f"# TYPE {name} gauge")
        for gpu, row in enumerate(values):
            head = f'{name}{{Hostname="host",gpu="{gpu}"}}'
            lines += [f"{head} {value} {begin + age}" for age, value in enumerate(row.tolist())]
    path = tmp_path / "samples.om"
    path.write_text("\n".join([*lines, "# EOF", ""]))
    return path


def backtest(where, span, scratch):
    """Returns (entity, condition, seconds) of each incident of the rule."""
    scratch.mkdir(exist_ok=True)
    opened = open_telemetry(str(where), span, scratch, lambda _stage, _share: None)
    found = run_backtest([opened], [load_rule_set(RULE, catalogue())], BacktestOptions(workers=1))
    ((incidents,),) = [each.incidents for each in found.recordings]
    return [(one.name, one.condition, one.opened_at) for one in incidents]


@prometheus
def test_a_span_of_a_server_is_judged_as_the_same_samples_in_a_file(server, file, begin, tmp_path):
    whole = TelemetrySpan(begin, begin + SECONDS)
    asked = backtest(server, whole, tmp_path / "asked")
    assert asked == backtest(file, whole, tmp_path / "read")
    ((entity, condition, opened),) = asked
    assert (entity, condition) == (f"host/gpu{HOT}", "gpu-thermal-throttle")
    assert begin + ONSET_S < opened < begin + ONSET_S + 10


@prometheus
def test_a_span_that_ends_before_the_fault_tells_nothing(server, begin, tmp_path):
    assert backtest(server, TelemetrySpan(begin, begin + ONSET_S - 1), tmp_path) == []


def test_a_server_without_a_span_is_refused(tmp_path):
    with pytest.raises(InputError, match="a server without a span"):
        open_telemetry("http://127.0.0.1:9", TelemetrySpan(), tmp_path, lambda _stage, _share: None)
