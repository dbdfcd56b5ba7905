"""Outputs are judged by limits that hold whatever the past, the peers and the traffic are."""

import pytest
from click.testing import CliRunner

from skewscope.tui.cli.main import cli

ERRORS = """leaf2#show clock
Sun Nov 22 10:{0:02}:00 2026
Timezone: UTC
leaf2#show interfaces counters errors
Port            FCS    Align   Symbol       Rx    Runts   Giants       Tx
Et1               0        0        0        0        0        0        0
Et5          {1:>6}        0        0        0        0        0        0
"""
PAUSES = """admin@leaf1:~$ date -Is; show pfc counters
2026-11-22T10:{0:02}:00+00:00
  Port Rx    PFC0    PFC1    PFC2       PFC3    PFC4    PFC5    PFC6    PFC7
---------  ------  ------  ------  ---------  ------  ------  ------  ------
Ethernet0       0       0       0      1,204       0       0       0       0
Ethernet4       0       0       0  {1:>9,}       0       0       0       0
"""
CLOCK = """GPU  Temp (DieEdge)  AvgPwr  SCLK     MCLK     Fan  Perf  PwrCap  VRAM%  GPU%
0    50.0c           157.0W  {0}Mhz  900Mhz  0%   auto  750.0W   86%   {1}%
1    48.0c           154.0W  {0}Mhz  900Mhz  0%   auto  750.0W   87%   {1}%
"""
FOUND = {
    "frames with a wrong checksum": (ERRORS.format(0, 120) + ERRORS.format(1, 48120), "above its limit of 1 packet/s"),
    "pause frames": (PAUSES.format(0, 120331) + PAUSES.format(1, 9820331), "leaf1/Ethernet4"),
    "a busy GPU with next to no clock": (CLOCK.format(59, 100), "clock"),
}
SILENT = {
    "one reading": ERRORS.format(0, 120),
    "few errors": ERRORS.format(0, 120) + ERRORS.format(1, 131),
    "few pauses": PAUSES.format(0, 120331) + PAUSES.format(1, 121331),
    "an idle GPU": CLOCK.format(59, 0),
    "a busy GPU at a usual clock": CLOCK.format(2100, 100),
}


def diagnose(tmp_path, text):
    (tmp_path / "output.txt").write_text(text)
    return CliRunner().invoke(cli, ["diagnose", str(tmp_path / "output.txt"), "--no-progress"])


@pytest.mark.parametrize("name", FOUND)
def test_what_is_beyond_a_limit_is_found(tmp_path, name):
    text, wanted = FOUND[name]
    done = diagnose(tmp_path, text)
    assert done.exit_code == 1
    assert wanted in " ".join(done.output.split())


@pytest.mark.parametrize("name", SILENT)
def test_what_is_usual_is_not(tmp_path, name):
    assert diagnose(tmp_path, SILENT[name]).exit_code in (0, 3)
