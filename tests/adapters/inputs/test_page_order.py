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


def test_ports_of_a_switch_by_snmp_are_named(tmp_path):
    port = 'ifHCInOctets{{ifName="Eth1/{0}"}} {1}\nifInErrors{{ifName="Eth1/{0}"}} {2}\n'
    for number, name in enumerate(("leaf-1000.prom", "leaf-1001.prom")):
        rows = [port.format(n, 10**9 + number * 10**8, number * 50_000 if n == 7 else 0) for n in range(1, 9)]
        (tmp_path / name).write_text("".join(("# TYPE ifHCInOctets counter\n# TYPE ifInErrors counter\n", *rows)))
    result = CliRunner().invoke(cli, ["diagnose", str(tmp_path / "leaf-1000.prom"), str(tmp_path / "leaf-1001.prom")])
    assert "Errors appear on leaf/Eth1/7" in result.output
