"""What is rendered for a person: commands and their undo, from outputs in the format of each tool; nothing is run."""

import asyncio
from pathlib import Path

import pytest

from skewscope.adapters.actions.carry_out import make_change, undo_change
from skewscope.adapters.targets import target_kinds
from skewscope.adapters.targets.common.base import TargetError
from skewscope.adapters.targets.common.calls import CommandCall, FileCall, describe_calls
from skewscope.adapters.targets.common.settings import TargetSettings
from skewscope.adapters.targets.rendered import RenderedSettings, RenderedTarget
from skewscope.engine.actions.change import ABSENT, DRAIN, FOREIGN, LIMIT, MARK, OURS, Change
from skewscope.kb import yamlfile
from skewscope.kb.field_reader import FieldReader

PORT = "pci/0000:03:00.0/1"
DEVICE = "/dev/mst/mt41692_pciconf0"
DEVLINK = f"{PORT}: type leaf tx_share 10Mbit tx_max 25Gbit\npci/0000:03:00.0/2: type leaf\n"
DEVLINK_JSON = f'{{"rate":{{"{PORT}":{{"type":"leaf","tx_max":3125000000}}}}}}'
QOS = """DCBX mode: OS controlled
Priority trust state: dscp
PFC configuration:
\tpriority    0   1   2   3   4   5   6   7
\tenabled     0   0   0   1   0   0   0   0
tc: 0 ratelimit: unlimited, tsa: vendor
\t priority:  1
""" + "".join(
    f"tc: {n} ratelimit: {'40 Gbps' if n == 5 else 'unlimited'}, tsa: ets, bw: 10%\n\t priority:  {n}\n"
    for n in range(1, 8)
)
MLXCONFIG = """
Device #1:
----------

Device type:        BlueField3
Device:             /dev/mst/mt41692_pciconf0

Configurations:                                          Next Boot
        MEMIC_BAR_SIZE                              0
*       ROCE_CC_PRIO_MASK_P1                        255        0      255
        INTERNAL_CPU_OFFLOAD_ENGINE                 ENABLED(0)
"""
ENVIRONMENT = "# job a\nNCCL_DEBUG=INFO\nexport NCCL_IB_HCA=mlx5_0,mlx5_3:1\nX=1\n"


def make_target(folder: Path, tool: str, member: str, text: str) -> RenderedTarget:
    file = folder / "output"
    file.write_text(text)
    return RenderedTarget(RenderedSettings(TargetSettings("nic", (("n0", member),)), tool, ((member, str(file)),)))


def limit(member: str, **parameters: str) -> Change:
    return Change(LIMIT, "nic", member, "a-1", parameters=tuple(sorted(parameters.items())))


CASES = {
    "devlink": (
        ("devlink", PORT, DEVLINK, limit(PORT, rate="10Gbit")),
        f"devlink port function rate set {PORT} tx_max 10000000000bit",
        f"devlink port function rate set {PORT} tx_max 25000000000bit",
        DEVLINK.replace("25Gbit", "10Gbit"),
    ),
    "devlink-json": (
        ("devlink", PORT, DEVLINK_JSON, limit(PORT, rate="1.5Gbit")),
        f"devlink port function rate set {PORT} tx_max 1500000000bit",
        f"devlink port function rate set {PORT} tx_max 25000000000bit",
        DEVLINK_JSON.replace("3125000000", "187500000"),
    ),
    "devlink-unlimited": (
        ("devlink", PORT[:-1] + "2", DEVLINK, limit(PORT[:-1] + "2", rate="500Mbit")),
        "devlink port function rate set pci/0000:03:00.0/2 tx_max 500000000bit",
        "devlink port function rate set pci/0000:03:00.0/2 tx_max 0bit",
        DEVLINK.replace("/2: type leaf", "/2: type leaf tx_max 500Mbit"),
    ),
    "mlnx_qos": (
        ("mlnx_qos", "eth2", QOS, limit("eth2", rate="10Gbit", **{"class": "3"})),
        "mlnx_qos -i eth2 -r 0,0,0,10,0,40,0,0",
        "mlnx_qos -i eth2 -r 0,0,0,0,0,40,0,0",
        QOS.replace("tc: 3 ratelimit: unlimited", "tc: 3 ratelimit: 10 Gbps"),
    ),
    "mlxconfig": (
        (
            *("mlxconfig", DEVICE, MLXCONFIG),
            Change(MARK, "nic", DEVICE, "a-1", parameters=(("setting", "ROCE_CC_PRIO_MASK_P1"), ("value", "8"))),
        ),
        f"mlxconfig -y -d {DEVICE} set ROCE_CC_PRIO_MASK_P1=8",
        f"mlxconfig -y -d {DEVICE} set ROCE_CC_PRIO_MASK_P1=255",
        MLXCONFIG.replace("0      255", "0      8"),
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_a_command_and_its_undo_are_rendered(tmp_path, case):
    (tool, member, text, change), made, undone, later = CASES[case]
    target = make_target(tmp_path, tool, member, text)
    state = asyncio.run(target.read_state())
    before = state.members[member]
    assert target.find_standing(change, before, state) == ABSENT
    assert target.render_undo(change, before, state) == ()
    assert describe_calls(target.render_change(change, state)) == (made,)
    # A person has run it, and recorded the output again.
    (tmp_path / "output").write_text(later)
    state = asyncio.run(target.read_state())
    assert target.find_standing(change, before, state) == OURS
    assert target.render_change(change, state) == ()
    assert describe_calls(target.render_undo(change, before, state)) == (undone,)


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        (ENVIRONMENT, ENVIRONMENT.replace("mlx5_0,mlx5_3:1", "mlx5_0")),
        ("NCCL_IB_HCA=^mlx5_1\n", "NCCL_IB_HCA=^mlx5_1,mlx5_3\n"),
        ("A=1\n", "A=1\nNCCL_IB_HCA=^mlx5_3\n"),
        ("", "NCCL_IB_HCA=^mlx5_3\n"),
    ],
)
def test_a_device_is_left_out_of_a_job_and_taken_back(tmp_path, text, wanted):
    target = make_target(tmp_path, "nccl", "job-a", text)
    change = Change(DRAIN, "nic", "job-a", "a-1", parameters=(("device", "mlx5_3"),))
    before = asyncio.run(target.read_state()).members["job-a"]
    (call,) = target.render_change(change, asyncio.run(target.read_state()))
    assert isinstance(call, FileCall)
    assert call.after == wanted
    (tmp_path / "output").write_text(call.after)
    state = asyncio.run(target.read_state())
    assert target.find_standing(change, before, state) == OURS
    (undo,) = target.render_undo(change, before, state)
    assert isinstance(undo, FileCall)
    assert undo.after == text


@pytest.mark.parametrize("case", CASES)
def test_it_is_never_run_and_its_undo_is_known_before_the_output_is_recorded_again(tmp_path, case):
    (tool, member, text, change), _made, undone, _later = CASES[case]
    target = make_target(tmp_path, tool, member, text)
    state = asyncio.run(target.read_state())
    assert not target.support[change.kind].runs
    undo = target.render_undo(change, state.members[member], target.predict(change, state))
    assert describe_calls(undo) == (undone,)


def test_what_somebody_else_set_is_not_undone(tmp_path):
    (tool, member, text, change), *_ = CASES["devlink"]
    target = make_target(tmp_path, tool, member, text)
    before = asyncio.run(target.read_state()).members[member]
    (tmp_path / "output").write_text(text.replace("25Gbit", "7Gbit"))
    state = asyncio.run(target.read_state())
    assert target.find_standing(change, before, state) == FOREIGN
    assert target.render_undo(change, before, state) == ()


@pytest.mark.parametrize("case", CASES)
def test_nothing_is_ever_run(tmp_path, case):
    (tool, member, text, change), *_ = CASES[case]
    target = make_target(tmp_path, tool, member, text)
    before = asyncio.run(target.read_state()).members[member]
    mark = tmp_path / "mark"
    with pytest.raises(TargetError, match="for a person and never run"):
        asyncio.run(make_change(target, change, before))
    with pytest.raises(TargetError, match="never run"):
        asyncio.run(target.make_call(CommandCall(("touch", str(mark)))))
    with pytest.raises(TargetError, match="never run"):
        asyncio.run(target.make_call(FileCall(str(tmp_path / "output"), text, "")))
    assert not mark.exists()
    assert (tmp_path / "output").read_text() == text
    assert asyncio.run(undo_change(target, change, before)) == ()


@pytest.mark.parametrize(
    ("tool", "member", "text", "change", "message"),
    [
        ("devlink", PORT, DEVLINK, limit(PORT, rate="10Gbit; reboot"), "expected one such as 10Gbit"),
        ("devlink", PORT, DEVLINK, limit(PORT), "expected one such as 10Gbit"),
        ("devlink", PORT, DEVLINK, Change(DRAIN, "nic", PORT, "a-1"), "devlink cannot drain"),
        ("devlink", PORT, DEVLINK, limit("pci/9", rate="1Gbit"), "no member 'pci/9'"),
        ("mlnx_qos", "eth2", QOS, limit("eth2", rate="1500Mbit", **{"class": "3"}), "whole Gbit"),
        ("mlnx_qos", "eth2", QOS, limit("eth2", rate="1Gbit", **{"class": "8"}), "class from 0 to 7"),
        (
            *("mlxconfig", DEVICE, MLXCONFIG),
            *(Change(MARK, "nic", DEVICE, "a-1", parameters=(("setting", "NONE_SUCH"), ("value", "1"))), "NONE_SUCH"),
        ),
        (
            *("nccl", "j", "NCCL_IB_HCA=mlx5_3\n"),
            *(Change(DRAIN, "nic", "j", "a-1", parameters=(("device", "mlx5_3"),)), "no device is left"),
        ),
        (
            *("nccl", "j", "NCCL_IB_HCA==mlx5_3\n"),
            *(Change(DRAIN, "nic", "j", "a-1", parameters=(("device", "mlx5_3"),)), "changed by hand"),
        ),
    ],
)
def test_an_impossible_change_is_an_error(tmp_path, tool, member, text, change, message):
    target = make_target(tmp_path, tool, member, text)
    with pytest.raises(TargetError, match=message):
        target.render_change(change, asyncio.run(target.read_state()))


@pytest.mark.parametrize(
    ("tool", "member", "text"),
    [
        ("devlink", PORT, ""),
        ("devlink", PORT, f"{PORT}: tx_max fast"),
        ("devlink", PORT, '{"rate": 3}'),
        ("devlink", PORT, "{" * 60_000),
        ("mlnx_qos", "eth2", "tc: 0 ratelimit: unlimited"),
        ("mlxconfig", DEVICE, "-E- Failed to open the device"),
        ("nccl", "j", "x" * 70_000),
    ],
)
def test_a_strange_output_is_an_error(tmp_path, tool, member, text):
    with pytest.raises(TargetError):
        asyncio.run(make_target(tmp_path, tool, member, text).read_state())


SETTINGS = f"""
targets:
- {{kind: rendered, tool: devlink, members: {{n0: "{PORT}"}}, outputs: {{"{PORT}": out}}, parameters: {{rate: 10Gbit}}}}
- {{kind: rendered, tool: mlnx_qos, members: {{n0: "eth2; reboot", n1: eth3}}, outputs: {{eth3: none}}, parameters: {{
    class: 9, rate: 1Gbit}}}}
- {{kind: rendered, tool: ethtool, members: {{n0: eth2}}, outputs: [], parameters: {{}}}}
- {{kind: rendered, tool: nccl, members: {{n0: job-a}}, outputs: {{job-a: out}}, parameters: {{rate: 1Gbit}}}}
- {{kind: rendered, tool: mlxconfig, members: {{n0: "03:00.0"}}, outputs: {{"03:00.0": out}}, parameters: {{
    setting: "a; reboot", value: 8}}}}
"""


def test_settings_are_checked(tmp_path):
    (tmp_path / "out").write_text(DEVLINK)
    fields = FieldReader(yamlfile.parse(SETTINGS, str(tmp_path / "skewscope.yaml")))
    kind = target_kinds()["rendered"]
    good, *_ = [kind.read(fields, ("targets", n), f"t{n}") for n in range(5)]
    assert kind.build(good).members == {"n0": PORT}
    assert sorted({problem.field for problem in fields.problems}) == [
        "targets[1].members.n0",
        "targets[1].outputs",
        "targets[1].outputs.eth3",
        "targets[1].parameters",
        "targets[2].outputs",
        "targets[2].tool",
        "targets[3].parameters.device",
        "targets[3].parameters.rate",
        "targets[4].parameters",
    ]
    # What a plan sets, which names no parameters, is what the config says.
    target = kind.build(good)
    (call,) = target.render_change(Change(LIMIT, "t0", PORT, "a-1"), asyncio.run(target.read_state()))
    assert call.describe().endswith("tx_max 10000000000bit")
