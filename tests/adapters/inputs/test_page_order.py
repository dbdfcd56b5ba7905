"""Pages of one exporter that were read one after another, whatever their files are called."""

import os

import pytest
from click.testing import CliRunner

from skewscope.adapters.inputs.draft_recording import draft_recording
from skewscope.tui.cli.main import cli

PAGE = """# read by hand
edge_requests_total{{status="200",backend="a"}} {0}
edge_requests_total{{status="200",backend="b"}} {1}
edge_requests_total{{status="503",backend="a"}} {2}
edge_requests_total{{status="503",backend="b"}} {3}
edge_rx_bytes_total{{device="eth0"}} {4}
"""
FIRST, LATER = (100, 100, 1, 1, 1000), (900, 200, 2, 790, 5000)


def write(folder, pages, *, apart=0.0):
    for number, (name, values) in enumerate(pages.items()):
        path = folder / name
        path.write_text(PAGE.format(*values))
        os.utime(path, (1795341600 + number * apart,) * 2)
    return [folder / name for name in pages]


def starts(paths):
    """Returns the time of each input in seconds after the first one."""
    inputs = draft_recording(paths).recording.inputs
    times = [float(dict(each.labels)["start"]) for each in inputs if "start" in dict(each.labels)]
    return [time - min(times) for time in times]


@pytest.mark.parametrize(
    ("names", "apart", "expected"),
    [
        (("m-1.txt", "m-2.txt"), 0, [0, 15]),
        (("before.txt", "after.txt"), 0, [0, 15]),
        (("m-14-05.txt", "m-14-08.txt"), 0, [0, 180]),
        (("edge_1000.prom", "edge_1010.prom"), 0, [0, 600]),
        (("m-1.txt", "m-2.txt"), 42, [0, 42]),
    ],
)
def test_a_later_page_has_no_lower_counter_and_the_time_of_its_name_or_its_file(tmp_path, names, apart, expected):
    paths = write(tmp_path, dict(zip(names, (FIRST, LATER), strict=True)), apart=apart)
    assert starts(paths) == expected


@pytest.mark.parametrize("other", [(50, 200, 2, 790, 5000), FIRST])
def test_pages_of_two_targets_stay_two(tmp_path, other):
    assert starts(write(tmp_path, {"m-1.txt": FIRST, "m-2.txt": other})) == []


def test_the_backend_that_fails_between_two_pages_is_named(tmp_path):
    paths = write(tmp_path, {"m-1.txt": FIRST, "m-2.txt": LATER})
    result = CliRunner().invoke(cli, ["diagnose", *map(str, paths)])
    assert "Errors appear on replica b" in result.output
    assert "read as 2 readings of one target" in " ".join(result.output.split())
