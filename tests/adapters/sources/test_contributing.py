"""The example of a source in CONTRIBUTING.md works as a module."""

import importlib.util
import re
from pathlib import Path

import pytest

from skewscope.adapters.mapping.names import MetricResolver
from skewscope.adapters.runtime.clock import SystemClock
from skewscope.adapters.sources import SourceContext
from skewscope.kb.field_reader import FieldReader
from skewscope.kb.yamlfile import parse
from tests.support.telemetry import catalogue, cluster

PAGE = Path(__file__).resolve().parents[3] / "CONTRIBUTING.md"
CONTEXT = SourceContext(cluster(), MetricResolver(catalogue(), cluster()), SystemClock())


@pytest.fixture(scope="module")
def csv_file(tmp_path_factory):
    """The example as a module."""
    section = PAGE.read_text().partition("### Add a source")[2]
    path = tmp_path_factory.mktemp("example") / "csv_file.py"
    path.write_text(re.search(r"```python\n(.*?)```", section, re.DOTALL)[1])
    spec = importlib.util.spec_from_file_location("csv_file", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def read(csv_file, text):
    """Returns the settings in a text, and the problems."""
    fields = FieldReader(parse(text, "skewscope.yaml"))
    return csv_file.read(fields, (), "table"), fields.problems


def test_a_valid_file_gives_values(csv_file, tmp_path):
    path = tmp_path / "values.csv"
    path.write_text("skewscope_host_retrans,n0,17\nunknown_metric,n0,1\n")
    settings, problems = read(csv_file, f"{{kind: csv-file, path: {path}, period: 5}}")
    assert not problems
    source = csv_file.build(settings, CONTEXT)
    batch = source.read(1000.0)
    assert batch.value.tolist() == [17.0]
    assert batch.columns.keys[0].entity == "n0"
    assert source.mapper.trouble == ""


def test_a_file_without_known_metrics_says_why_it_gives_nothing(csv_file, tmp_path):
    path = tmp_path / "values.csv"
    path.write_text("unknown_metric,n0,1\n")
    source = csv_file.build(read(csv_file, f"{{kind: csv-file, path: {path}}}")[0], CONTEXT)
    assert source.read(1000.0) is None
    assert source.mapper.trouble == (
        "none of its 1 series is used; unknown_metric: no signal of the catalogue has this name"
    )


def test_an_invalid_entry_is_a_problem(csv_file):
    _, problems = read(csv_file, "{kind: csv-file, period: 1}")
    assert "path" in str(problems[0])
