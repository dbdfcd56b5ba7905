"""The text of an answer: the finding first, what is missing in a line, hints that work on what they are for."""

import re

import pytest
from click.testing import CliRunner

from skewscope.adapters.discovery.nearest_metric import NearestMetric
from skewscope.kb.loader import catalogue
from skewscope.tui.cli.main import cli

BEGIN = 1795341600


def run(*words):
    return CliRunner().invoke(cli, ["diagnose", *map(str, words), "--no-progress"])


def train_log(path):
    """A log of an unknown trainer whose steps take twice as long from the hundredth on."""
    lines = (f"step {n} loss 2.0 step_time {0.5 if n < 100 else 1.0:.2f}s" for n in range(200))
    path.write_text("\n".join(lines) + "\n")
    return path


def test_the_finding_comes_first_and_what_is_missing_is_a_line(tmp_path):
    found = run(train_log(tmp_path / "train.log"))
    assert found.exit_code == 1
    assert found.stdout.startswith("train.log: 1 symptom")
    missing = found.stdout.partition("Missing data\n")[2].partition("\n\n")[0]
    assert missing.count("  · ") == 2  # one for the telemetry, one for what was guessed
    assert "--why lists them" in missing
    assert found.stdout.index("The topology is inferred") > found.stdout.index("Missing data")


def test_the_command_of_that_line_lists_what_is_missing(tmp_path):
    found = run(train_log(tmp_path / "train.log"), "--why")
    assert "conditions cannot be judged" in " ".join(found.stdout.split())
    assert "No packets" in found.stdout


def test_a_log_of_one_job_is_not_answered_with_agents_on_dpus(tmp_path):
    found = run(train_log(tmp_path / "train.log"))
    assert "skewscope agent" not in found.stdout


HINTED = {
    "a name like one that is known": (
        "metrics.om",
        "\n".join(f'vllm:num_requests_waitng{{instance="chat-0:8000"}} 3 {BEGIN + n}' for n in range(3))
        + f'\nvllm:num_requests_running{{instance="chat-0:8000"}} 3 {BEGIN}\n# EOF\n',
        "serve.waiting",
    ),
    "a column without a unit": (
        "gpus.csv",
        "time,host,gpu,mem_used,sm_clock_mhz\n" + "".join(f"{BEGIN + n},h,0,30000,1410\n" for n in range(3)),
        "gpu.fb_used",
    ),
}


@pytest.mark.parametrize("name", HINTED)
def test_a_mapping_that_a_message_suggests_maps_what_it_is_for(tmp_path, name):
    file, content, signal = HINTED[name]
    (tmp_path / file).write_text(content)
    told = run(tmp_path / file)
    lines = re.findall(r"`(- \{metric: [^`]*\})`", " ".join((told.stdout + told.stderr).split()))
    assert lines
    assert all(signal in line for line in lines)
    mapping = tmp_path / "mapping.yaml"
    mapping.write_text("version: 1\nmetrics:\n" + "".join(f"  {line}\n" for line in lines))
    again = run(tmp_path / file, "--mapping", mapping)
    assert not re.findall(r"`- \{metric: ", again.stdout + again.stderr)
    assert again.exit_code in (0, 1, 3)


@pytest.mark.parametrize(
    ("name", "near"),
    [
        ("vllm:num_request_waiting", "vllm:num_requests_waiting"),
        ("vllm:gpu_cache_usage_bytes", ""),  # of another unit
        ("vllm:num_requests_waiting_seconds", ""),
        ("node_netstat_Tcp_RetransSeg", "node_netstat_Tcp_RetransSegs"),
    ],
)
def test_likeness_of_names_is_no_ground_where_units_differ(name, near):
    assert NearestMetric(catalogue()).find(name) == near
