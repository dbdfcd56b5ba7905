"""Open vSwitch, driven for real: a user-space switch between network namespaces, through orders to its agent."""

import asyncio
import contextlib
import re
import time
from collections.abc import Iterator
from dataclasses import replace

import pytest

from skewscope.adapters.actions.carry_out import make_change, undo_change
from skewscope.adapters.config.secret import Secret
from skewscope.adapters.targets import target_kinds
from skewscope.adapters.targets.common.base import TargetError
from skewscope.adapters.targets.common.calls import describe_calls
from skewscope.adapters.targets.common.settings import TargetSettings
from skewscope.adapters.targets.common.switch_state import parse_flows, parse_meters, parse_mirrors, parse_ports
from skewscope.adapters.targets.open_vswitch import SwitchSettings, SwitchTarget, make_cookie, make_meter
from skewscope.engine.actions.change import ABSENT, BLOCK, DRAIN, LIMIT, MARK, MIRROR, OURS, Change
from skewscope.kb import yamlfile
from skewscope.kb.field_reader import FieldReader
from tests.support.switch_lab import BRIDGE, KEY, SwitchLab, missing, node_agent, send_packets, switch_lab
from tests.support.target_contract import run_cycle, wait_for_standing

needs_switch = pytest.mark.skipif(bool(missing()), reason=missing() or "the switch is here")
FLOWS = ((("destination_port", "4791"), ("protocol", "udp")),)


@pytest.fixture(scope="module")
def lab(tmp_path_factory) -> Iterator[SwitchLab]:
    with switch_lab(tmp_path_factory.mktemp("switch")) as made:
        yield made


def target_of(lab: SwitchLab, **settings) -> SwitchTarget:
    members = (("n0/rail0", lab.port("a")), ("n1/rail0", lab.port("b")))
    given = {"rate": 1600, "burst": 160, "mark": True, "mirror_to": lab.port("m"), **settings}
    return SwitchTarget(SwitchSettings(TargetSettings("switch", members), "n0", BRIDGE, Secret(KEY), FLOWS, **given))


def run_with_agent(lab: SwitchLab, work, **settings):
    async def run():
        target = target_of(lab, **settings)
        async with node_agent(target.book, lab.rights()):
            return await work(target)

    return asyncio.run(run())


@needs_switch
@pytest.mark.alone
def test_a_limited_flow_is_metered_and_marked_until_it_is_undone(lab):
    async def work(target: SwitchTarget) -> tuple[str, ...]:
        async def check() -> None:
            # 8 Mbit/s are sent, 1.6 are let through.
            found, _ = await asyncio.to_thread(send_packets, lab, 2000, 1000.0)
            assert 300 <= found.packets <= 700
            assert found.marked == found.packets
            other, _ = await asyncio.to_thread(send_packets, lab, 300, 1000.0, 4792)
            assert (other.packets, other.marked) == (300, 0)

        return await run_cycle(target, Change(LIMIT, "switch", lab.port("a"), "a-1"), check)

    meter, flow = run_with_agent(lab, work)
    assert meter.startswith("meter-add ")
    assert "rate=1600" in meter
    assert f"cookie={make_cookie('a-1'):#x}" in flow
    assert KEY not in flow
    assert lab.flows() == []
    assert "meter=" not in lab.ofctl("dump-meters")
    found, _ = send_packets(lab, 500, 1000.0)
    assert (found.packets, found.marked) == (500, 0)


@needs_switch
@pytest.mark.alone
@pytest.mark.parametrize(
    ("kind", "arrived", "marked", "copies"), [(MARK, 300, 300, 0), (BLOCK, 0, 0, 0), (MIRROR, 300, 0, 300)]
)
def test_a_flow_is_marked_blocked_or_mirrored(lab, kind, arrived, marked, copies):
    async def work(target: SwitchTarget) -> None:
        async def check() -> None:
            # The switch may use what it has cached for half a second.
            for _ in range(3):
                found, copied = await asyncio.to_thread(send_packets, lab, 300, 1000.0)
                if (found.packets, found.marked, copied.packets) == (arrived, marked, copies):
                    return
            raise AssertionError((found, copied))

        await run_cycle(target, Change(kind, "switch", lab.port("a"), "a-1"), check)

    run_with_agent(lab, work)
    found, copied = send_packets(lab, 100, 1000.0)
    assert (found.packets, found.marked, copied.packets) == (100, 0, 0)
    assert lab.vsctl("list", "mirror") == ""


@needs_switch
@pytest.mark.slow
def test_flows_of_others_stay_as_they_are(lab):
    lab.ofctl("add-meter", "meter=7 kbps burst bands=type=drop rate=99 burst_size=9")
    lab.ofctl("add-flow", f"cookie=0x77,priority=50000,udp,in_port={lab.port('c')},actions=meter:7,NORMAL")
    try:

        async def work(target: SwitchTarget) -> None:
            for kind in (LIMIT, BLOCK, MIRROR):
                await run_cycle(target, Change(kind, "switch", lab.port("a"), "a-1"))
            change = Change(LIMIT, "switch", lab.port("a"), "a-1")
            state = await target.read_state()
            other = replace(change, action="a-2")
            before = state.members[lab.port("a")]
            await make_change(target, change, before)
            await make_change(target, other, before)
            await undo_change(target, change, before)
            assert target.find_standing(other, before, await target.read_state()) == OURS
            await undo_change(target, other, before)

        run_with_agent(lab, work)
        (flow,) = lab.flows()
        assert "cookie=0x77" in flow
        assert "meter=7 " in lab.ofctl("dump-meters")
    finally:
        lab.ofctl("del-flows", "cookie=0x77/-1")
        lab.ofctl("del-meter", "meter=7")


@needs_switch
def test_a_meter_that_is_in_use_is_an_error_and_is_not_deleted(lab):
    meter = make_meter(make_cookie("a-1"))
    lab.ofctl("add-meter", f"meter={meter} kbps burst bands=type=drop rate=99 burst_size=9")
    try:

        async def work(target: SwitchTarget) -> None:
            change = Change(LIMIT, "switch", lab.port("a"), "a-1")
            before = (await target.read_state()).members[lab.port("a")]
            with pytest.raises(TargetError, match="in use"):
                await make_change(target, change, before)
            assert await undo_change(target, change, before) == ()

        run_with_agent(lab, work)
        assert f"meter={meter} " in lab.ofctl("dump-meters")
    finally:
        lab.ofctl("del-meter", f"meter={meter}")


@needs_switch
def test_what_is_left_of_a_change_is_completed_or_removed(lab):
    async def work(target: SwitchTarget) -> None:
        change = Change(LIMIT, "switch", lab.port("a"), "a-1")
        before = (await target.read_state()).members[lab.port("a")]
        _meter, flow = await make_change(target, change, before)
        lab.ofctl("del-flows", f"cookie={make_cookie('a-1'):#x}/-1")
        assert target.find_standing(change, before, await target.read_state()) == ABSENT
        assert await make_change(target, change, before) == (flow,)
        lab.ofctl("del-flows", f"cookie={make_cookie('a-1'):#x}/-1")
        (undo,) = describe_calls(await undo_change(target, change, before))
        assert undo.startswith("meter-del")
        assert "meter=" not in lab.ofctl("dump-meters")

    run_with_agent(lab, work)


@needs_switch
@pytest.mark.alone
def test_a_flow_ends_by_itself_when_its_action_expires(lab):
    async def work(target: SwitchTarget) -> None:
        change = Change(BLOCK, "switch", lab.port("a"), "a-1", expires=time.time() + 2.5)
        before = (await target.read_state()).members[lab.port("a")]
        await make_change(target, change, before)
        await wait_for_standing(target, change, before, OURS)
        await asyncio.sleep(2)
        await wait_for_standing(target, change, before, ABSENT)
        assert lab.flows() == []

    run_with_agent(lab, work)


@needs_switch
@pytest.mark.alone
def test_a_switch_that_restarts_has_forgotten_the_change(lab):
    async def work(target: SwitchTarget) -> None:
        change = Change(LIMIT, "switch", lab.port("a"), "a-1")
        before = (await target.read_state()).members[lab.port("a")]
        await make_change(target, change, before)
        lab.stop_switch()
        with pytest.raises(TargetError, match="exit code 1"):
            await target.read_state()
        lab.start_switch()
        assert target.find_standing(change, before, await target.read_state()) == ABSENT
        await make_change(target, change, before)
        await wait_for_standing(target, change, before, OURS)
        await undo_change(target, change, before)

    run_with_agent(lab, work)


@needs_switch
def test_bytes_are_counted_at_each_port(lab):
    async def work(target: SwitchTarget) -> None:
        before = await target.read_work()
        await asyncio.to_thread(send_packets, lab, 100, 1000.0)
        for _ in range(50):
            after = await target.read_work()
            if after[lab.port("a")] - before[lab.port("a")] >= 100_000:
                break
            await asyncio.sleep(0.1)
        assert after[lab.port("a")] - before[lab.port("a")] >= 100_000
        assert after[lab.port("b")] - before[lab.port("b")] < 10_000

    run_with_agent(lab, work)


@needs_switch
@pytest.mark.parametrize(
    ("change", "message"),
    [
        (Change(DRAIN, "switch", "A", "a-1"), "cannot drain"),
        (Change(LIMIT, "switch", "A", "a-1", parameters=(("rate", "1; x"),)), "no rate"),
        (Change(LIMIT, "switch", "A", "a-1", parameters=(("rate", "999"),)), "the least that is allowed is 1000"),
    ],
)
def test_an_impossible_change_is_an_error(lab, change, message):
    async def work(target: SwitchTarget) -> None:
        wanted = replace(change, member=lab.port("a")) if change.member == "A" else change
        before = (await target.read_state()).members[lab.port("a")]
        with pytest.raises(TargetError, match=re.escape(message)):
            await make_change(target, wanted, before)

    run_with_agent(lab, work)
    assert lab.flows() == []


@needs_switch
def test_a_port_that_the_bridge_lacks_is_an_error(lab):
    async def work(target: SwitchTarget) -> None:
        with pytest.raises(TargetError, match="no port 'none'"):
            target.render_change(Change(LIMIT, "switch", "none", "a-1"), await target.read_state())

    run_with_agent(lab, work)


def test_without_an_agent_there_is_a_clear_error_in_time():
    target = SwitchTarget(SwitchSettings(TargetSettings("switch", (), 0.2), "n0", BRIDGE, Secret(KEY), FLOWS))
    with pytest.raises(TargetError, match=r"the agent of n0 has not fetched the order within 0\.2 s"):
        asyncio.run(target.read_state())


@pytest.mark.parametrize("parse", [parse_flows, parse_meters, parse_ports, parse_mirrors])
@pytest.mark.parametrize("text", ["", "x", "OFPST_FLOW reply\n cookie=zz", "[" * 100_000, '{"data": 3}', "null"])
def test_a_strange_answer_is_an_error(parse, text):
    if parse is parse_flows and not text:
        pytest.skip("no flow is a usual answer")
    with pytest.raises(TargetError, match="cannot be read"):
        parse(text)


@pytest.mark.parametrize(
    ("parse", "text"),
    [
        (parse_flows, "\n" * 200_000),
        (parse_flows, " cookie=0x1," + "in_port=a" * 4000),
        (parse_flows, (" cookie=0x1," + "in_port=a" * 400 + "\n") * 10),
        (parse_ports, "OFPST_PORT" + "\n" * 200_000),
        (parse_meters, "OFPST_METER_CONFIG" + "\n" * 200_000),
        (parse_meters, "OFPST_METER_CONFIG\n" + "meter=1 bands=\n" * 20_000),
    ],
)
def test_a_long_answer_is_read_in_a_short_time(parse, text):
    begun = time.monotonic()
    with contextlib.suppress(TargetError):
        parse(text)
    assert time.monotonic() - begun < 5.0


SETTINGS = """
targets:
- {kind: open-vswitch, node: n0, bridge: br0, key: {file: key}, members: {n0/p0: p0}, flows: [
    {protocol: udp, destination_port: 4791}]}
- {kind: open-vswitch, node: n0, bridge: "br0 x", key: {file: short}, members: {n0/p0: "p0,actions=drop"}, flows: [
    {protocol: udp, source: 10.0.0.300}]}
- {kind: open-vswitch, node: n0, bridge: br0, key: {file: none}, members: {n0/p0: p0}, rate: 0, flows: [
    {protocol: ip, source_port: 1}, {protocol: sctp}]}
"""


@pytest.mark.slow
def test_settings_are_checked(tmp_path):
    (tmp_path / "key").write_text(f"{KEY}\n")
    (tmp_path / "short").write_text("k" * 31)
    fields = FieldReader(yamlfile.parse(SETTINGS, str(tmp_path / "skewscope.yaml")))
    kind = target_kinds()["open-vswitch"]
    good, *_ = [kind.read(fields, ("targets", n), f"t{n}") for n in range(3)]
    assert kind.build(good).members == {"n0/p0": "p0"}
    assert good.flows == FLOWS
    assert kind.read(fields, ("targets", 0), "t0") == good
    assert KEY not in repr(good)
    found = sorted((problem.line, problem.found) for problem in fields.problems)
    assert {line for line, _ in found} == {5, 6, 7, 8}
    said = " ".join(what for _, what in found)
    for part in ("br0 x", "10.0.0.300", "p0,actions=drop", "31 characters", "source_port without", "sctp", "none"):
        assert part in said
