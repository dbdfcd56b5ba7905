"""Rows of agents: taken once, only of who may tell them, only of what was announced."""

import asyncio
import threading
from contextlib import suppress
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from skewscope.adapters.controller.agent_receiver import (
    CHECKED_SERIES,
    DISCARDED_SERIES,
    FOREIGN_NAMED_FOR,
    SECOND_COST,
    AgentReceiver,
    AgentSource,
    ForeignNodeError,
    ReceiverBusyError,
    UnknownTablesError,
)
from skewscope.adapters.controller.agent_registry import AgentRecord
from skewscope.adapters.controller.batcher import Batcher
from skewscope.adapters.formats.row_protocol import (
    MAX_COLUMNS,
    SERIES_A_FRAME,
    BadRowsError,
    HelloFrame,
    RowFrame,
    SeriesFrame,
    encode,
)
from skewscope.adapters.sources.common.base import BATCH_COST, BatchSink
from skewscope.engine.ingest.feed import SeriesKey
from skewscope.engine.model.topology import Group, Node, Port, Topology
from tests.adapters.controller.clocks import FakeClock, settled
from tests.adapters.controller.fleets import working

TOPOLOGY = Topology(
    tuple(Node(name, ports=(Port(name, "ew", "east-west", 1e9),), gpus=1) for name in ("n0", "n1")),
    (Group("g", "tensor-parallel", ("n0",)),),
)
KEYS = (SeriesKey("host.load", "node", "n0"), SeriesKey("port.tx_bytes", "port", "n0/ew"))
TOLD = SeriesFrame(0, 0, KEYS)


def receiver(**more) -> AgentReceiver:
    return AgentReceiver(TOPOLOGY, FakeClock(), **{"cpu_time": lambda: 0.0, **more})


def body(*frames, node="n0", boot="b"):
    return encode([HelloFrame(node, boot, "1"), *frames])


def row(sequence, *values, time=999.5, table=0):
    return RowFrame(sequence, time, table, np.array(values, float))


def values(found: AgentReceiver) -> list[list[float]]:
    return [batch.value.tolist() for batch in found.sink.take()]


def test_rows_are_taken_once_and_answered_with_the_newest():
    found = receiver()
    assert found.receive(body(TOLD)) == -1
    assert found.receive(body(row(1, 1, 2), row(2, 3, 4))) == 2
    assert found.receive(body(row(2, 3, 4), row(3, 5))) == 3
    assert values(found) == [[1, 2], [3, 4], [5]]
    assert found.agents["n0"].repeated_rows == 1


def test_rows_of_another_start_begin_anew():
    found = receiver()
    found.receive(body(TOLD, row(7, 1, 2)))
    with pytest.raises(UnknownTablesError):
        found.receive(body(row(1, 1, 2), boot="c"))
    assert found.receive(body(TOLD, row(1, 1, 2), boot="c")) == 1
    assert found.receive(body(row(8, 1, 2))) == 8, "what the start before sent may still come"


def test_nothing_is_taken_of_a_body_with_an_unknown_table_or_column():
    found = receiver()
    found.receive(body(TOLD))
    with pytest.raises(UnknownTablesError) as error:
        found.receive(body(row(1, 1, 2), row(2, 1, table=5), row(3, 1, 2, 3)))
    assert error.value.tables == [0, 5]
    assert values(found) == []
    assert found.receive(body(row(1, 1, 2))) == 1


def test_a_table_grows_and_never_changes():
    found = receiver()
    found.receive(body(TOLD))
    more = SeriesKey("host.load2", "node", "n0")
    found.receive(body(SeriesFrame(0, 1, (KEYS[1], more))))
    assert found.agents["n0"].boots["b"].tables[0].keys == [*KEYS, more]
    with pytest.raises(BadRowsError, match="other series"):
        found.receive(body(SeriesFrame(0, 0, (more,))))
    with pytest.raises(UnknownTablesError):
        found.receive(body(SeriesFrame(0, 9, (more,))))


def test_an_agent_speaks_for_its_own_node_only():
    found = receiver()
    with pytest.raises(ForeignNodeError, match="may report for 'n1'"):
        found.receive(body(TOLD), allowed="n1")
    with pytest.raises(ForeignNodeError, match="not a node"):
        found.receive(body(node="n9"))
    theirs = (
        *(SeriesKey("a", "node", "n1"), SeriesKey("a", "port", "n1/ew"), SeriesKey("a", "peer", "n1/ew>n0/ew")),
        *(SeriesKey("a", "group", "h"), SeriesKey("a", "pool", "g"), SeriesKey("a", "fleet", "all")),
    )
    own = (*KEYS, SeriesKey("a", "peer", "n0/ew>n1/ew"), SeriesKey("a", "rank", "g:n0"))
    found.receive(body(SeriesFrame(0, 0, (*own, *theirs, SeriesKey("a", "group", "g")))), allowed="n0")
    assert found.agents["n0"].boots["b"].tables[0].keys == [*own, *[DISCARDED_SERIES] * (len(theirs) + 1)]
    assert found.agents["n0"].foreign_series == len(theirs) + 1


def test_of_a_group_and_its_other_members_only_its_front_end_or_an_appointed_node_speaks():
    """The first member is no more than a member: what it says of others could indict them."""
    groups = (
        Group("job", "data-parallel", ("n0", "n1")),
        Group("replica", "tensor-parallel", ("n0", "n1"), front_end="n1"),
    )
    told = tuple(
        SeriesKey("a", kind, name)
        for kind, name in (
            *(("group", "job"), ("rank", "job:n0"), ("rank", "job:n1"), ("replica", "replica")),
            *(("rank", "replica:n0"), ("rank", "replica:n1"), ("group", "none"), ("rank", "none:n0")),
        )
    )
    for node, speakers, kept in (
        ("n0", {}, {"job:n0", "replica:n0"}),
        ("n1", {}, {"job:n1", "replica", "replica:n1"}),
        ("n0", {"job": frozenset({"n0"})}, {"job", "job:n0", "job:n1", "replica:n0"}),
    ):
        found = receiver(speakers=speakers)
        found.topology = Topology(TOPOLOGY.nodes, groups)
        found.receive(body(SeriesFrame(0, 0, told), node=node), allowed=node)
        keys = found.agents[node].boots["b"].tables[0].keys
        assert {key.entity for key in keys if key is not DISCARDED_SERIES} == kept


def test_what_an_agent_reports_of_others_names_it_as_the_sender():
    other, own = SeriesKey("a", "rank", "job:n1"), SeriesKey("a", "rank", "job:n0")
    for speakers, allowed in (({"job": frozenset({"n0"})}, "n0"), ({}, None)):
        found = receiver(speakers=speakers)
        found.topology = Topology(TOPOLOGY.nodes, (Group("job", "data-parallel", ("n0", "n1")),))
        found.receive(body(SeriesFrame(0, 0, (own, other)), node="n0"), allowed=allowed)
        assert found.agents["n0"].boots["b"].tables[0].senders == {other: "n0"}


LATE = {"wire.onset_lag": 0.02, "wire.onset_lag_p95": 0.025, "wire.last_sender_share": 0.95}
"""What a member shows for which the others wait."""


@pytest.mark.parametrize(("allowed", "told"), [("n0", []), (None, [("tp-straggler", "n3")])])
def test_one_node_indicts_no_other(tmp_path, allowed, told):
    """Who may report for every node would be believed."""
    nodes = tuple(Node(f"n{n}", ports=(Port(f"n{n}", "ew", "east-west", 25e9),)) for n in range(8))
    topology = Topology(nodes, (Group("tp0", "tensor-parallel", tuple(one.name for one in nodes)),))
    said = {SeriesKey("wire.round_period", "group", "tp0"): 0.04, SeriesKey("wire.round_rate", "group", "tp0"): 25.0}
    for node in nodes:
        rank = {name: value if node.name == "n3" else 0.0005 for name, value in LATE.items()}
        said |= {SeriesKey(name, "rank", f"tp0:{node.name}"): value for name, value in rank.items()}
    found = receiver()
    found.topology = topology
    with working(tmp_path, SimpleNamespace(topology=topology, path=tmp_path)) as work:
        for second in range(40):
            found.clock.t += 1.0
            sent = RowFrame(second, found.clock.t, 0, np.array(list(said.values())))
            found.receive(body(SeriesFrame(0, 0, tuple(said)), sent), allowed)
            known = work.step(found.clock.t, {"agents": found.sink.take()})
    assert [(one.condition, one.name) for one in known.snapshot.incidents] == told
    assert all(one.confidence > 0.8 for one in known.snapshot.incidents)
    assert found.agents["n0"].foreign_series == (23 if allowed else 0)


def test_who_sent_series_of_others_is_named_with_their_number_for_a_while():
    found = receiver()
    found.receive(body(SeriesFrame(0, 0, (SeriesKey("a", "node", "n1"), SeriesKey("b", "node", "n1")))), allowed="n0")
    assert found.count_foreign() == {"n0": 2}
    assert found.trouble() == "n0 sent series of others, which were refused"
    found.clock.t += FOREIGN_NAMED_FOR + 1.0
    assert found.count_foreign() == {}
    assert "of others" not in found.trouble()
    assert found.agents["n0"].foreign_series == 2, "the counter never falls"


def test_the_state_of_sources_counts_series_of_others_by_sender():
    async def play() -> dict[str, int]:
        found = receiver()
        found.receive(body(SeriesFrame(0, 0, (SeriesKey("a", "node", "n1"),))), allowed="n0")
        sink = BatchSink(found.clock)
        running = asyncio.create_task(AgentSource(found, found.clock).run(sink))
        await settled()
        running.cancel()
        return sink.count_by_reason()

    assert asyncio.run(play()) == {"n0 sent them of others, which is refused": 1}


def test_names_are_kept_for_as_long_as_the_start_that_sent_them():
    found = receiver()
    for boot in range(20):
        found.clock.t += 600.0
        names = tuple(SeriesKey("host.load1", "node", "n0", f"{boot}-{n}") for n in range(100))
        found.receive(body(SeriesFrame(0, 0, names), boot=f"b{boot}"))
    assert sum(len(boot.tables[0].keys) for boot in found.agents["n0"].boots.values()) <= 200


def test_the_processor_that_a_body_takes_counts_whatever_it_holds():
    seconds = iter(range(100))
    found = receiver(cpu_time=lambda: 0.5 * next(seconds))
    found.receive(body(TOLD), allowed="n0")

    def flood() -> None:
        for _ in range(3):
            found.receive(body(row(1, 1)), allowed="n0")

    with pytest.raises(ReceiverBusyError) as error:
        flood()
    assert error.value.wait > 1.0


def test_when_too_much_waits_agents_keep_their_rows():
    found = receiver()
    found.sink.max_values = 6 + 2 * BATCH_COST
    found.receive(body(TOLD, row(1, 1, 2), row(2, 1, 2)))
    with pytest.raises(ReceiverBusyError):
        found.receive(body(row(3, 5, 6)))
    found.sink.take()
    assert found.receive(body(row(3, 5, 6))) == 3


def test_what_nobody_reads_is_not_kept_until_it_is_recorded():
    found = receiver()
    found.wanted_signals = frozenset({KEYS[0].signal})
    for _ in range(2):
        found.receive(body(TOLD))
    assert found.agents["n0"].boots["b"].tables[0].keys == [KEYS[0], DISCARDED_SERIES]
    found.wanted_signals = None
    found.request_announcements()
    with pytest.raises(UnknownTablesError):
        found.receive(body(row(1, 1, 2)))
    found.receive(body(TOLD, row(1, 1, 2)))
    assert found.agents["n0"].boots["b"].tables[0].keys == list(KEYS)


def test_a_clock_that_is_off_is_told_and_rows_kept_back_are_no_clock():
    found = receiver()
    found.receive(body(TOLD, row(1, 1, time=900.0), row(2, 1, time=999.9)))
    assert found.trouble() == ""
    found.receive(body(TOLD, row(1, 1, time=960.0), node="n1"))
    assert found.trouble() == "the clocks of 1 are off by more than 2 s"
    found.clock.t += 60.0
    assert found.trouble() == "2 of 2 agents are silent"


def test_agents_of_before_are_missed_but_not_at_once():
    found = receiver()
    found.receive(body(node="n1"))
    assert found.agent_records() == [AgentRecord("n1", "1", found.clock.now())]
    found.expect_agents([AgentRecord("n0", "1", 5.0), AgentRecord("n1", "1", 5.0), AgentRecord("nobody", "1", 5.0)])
    assert sorted(found.agents) == ["n0", "n1"]
    assert found.trouble() == ""
    found.clock.t += 11.0
    found.receive(body(node="n1"))
    assert found.trouble() == "1 of 2 agents are silent"
    assert [one.node for one in found.agent_records()] == ["n1"], "who was not heard is not kept for longer"


@given(st.lists(st.tuples(st.integers(0, 1), st.integers(0, 3), st.integers(1, 3)), max_size=12))
def test_what_agents_send_arrives_under_its_series_whatever_the_order(sent):
    """Each agent announces before its first row; every value comes out under its own key, once."""
    found, gathering = receiver(), Batcher({k.signal for k in KEYS})
    wanted = []
    for sequence, (node, late, count) in enumerate(sent):
        keys = tuple(SeriesKey(k.signal, k.kind, k.entity.replace("n0", f"n{node}")) for k in KEYS)
        numbers = [float(100 * sequence + n) for n in range(min(count, 2))]
        found.receive(body(SeriesFrame(0, 0, keys), row(sequence, *numbers, time=999.0 - late), node=f"n{node}"))
        wanted += [(key, value) for key, value in zip(keys, numbers, strict=False)]
    block = gathering.build_block(found.sink.take(), 1000.0)
    got = [
        (gathering.table.keys[n], value) for n, value in zip(block.series.tolist(), block.value.tolist(), strict=True)
    ]
    assert sorted(got) == sorted(wanted)


def test_an_agent_does_not_speak_for_other_members_of_its_group():
    found = receiver()
    theirs = SeriesKey("a", "rank", "g:n1")
    found.receive(body(SeriesFrame(0, 0, (*KEYS, theirs))), allowed="n0")
    assert found.agents["n0"].boots["b"].tables[0].keys == [*KEYS, DISCARDED_SERIES]
    assert "n0 sent series of others" in found.trouble()
    group = SeriesKey("a", "group", "g")
    found.receive(body(SeriesFrame(0, 0, (group,)), node="n1"), allowed="n1")
    assert found.agents["n1"].boots["b"].tables[0].keys == [DISCARDED_SERIES], "n0 is the first rank"


def test_a_body_of_very_many_empty_rows_is_refused():
    found = receiver()
    with pytest.raises(BadRowsError, match="more than 8192 frames"):
        found.receive(body(TOLD, *(row(n) for n in range(9_000))))


def test_a_sender_over_its_share_is_refused_before_its_body_is_read_and_others_are_not():
    found = receiver()
    rows = [row(n, 1, 2) for n in range(8_000)]

    def flood() -> None:
        for _ in range(20):
            found.receive(body(TOLD, *rows), allowed="n0")

    with pytest.raises(ReceiverBusyError, match="values a second from 'n0'"):
        flood()
    found.sink.take()
    with pytest.raises(ReceiverBusyError):
        found.receive(b"not even read", allowed="n0")
    assert found.agents["n0"].refused_bodies == 2
    assert found.receive(body(TOLD, row(1, 1, 2), node="n1"), allowed="n1") == 1
    assert "n0 sent more than its share" in found.trouble()


@pytest.mark.slow
def test_series_are_bounded_by_node_whatever_boots_it_claims(monkeypatch):
    monkeypatch.setattr("skewscope.adapters.controller.agent_receiver.MAX_COLUMNS", 6_000)
    found = receiver()

    def announce_under_new_boots() -> None:
        for boot in range(10):
            many = tuple(SeriesKey("host.load1", "node", "n0", f"{boot}-{n}") for n in range(3_000))
            found.receive(body(SeriesFrame(0, 0, many), boot=f"b{boot}"))

    with pytest.raises(ReceiverBusyError, match="new series of 'n0' in an hour"):
        announce_under_new_boots()
    assert sum(table.columns for table in found.agents["n0"].boots.values()) <= 4 * 3_000


@pytest.mark.parametrize(
    "frames",
    [
        [TOLD] * 8_000,  # one announcement again and again
        [SeriesFrame(0, 0, tuple(SeriesKey("a", "node", "n0", str(n)) for n in range(60_000)))],
        [TOLD, *(row(n) for n in range(9_000))],  # more frames than a body may have
    ],
)
@pytest.mark.slow
def test_all_work_counts_also_that_of_bodies_that_hold_no_value_or_are_invalid(frames, monkeypatch):
    monkeypatch.setattr("skewscope.adapters.controller.agent_receiver.WORK_BURST", 2.0 * MAX_COLUMNS)
    found, sent = receiver(), body(*frames)

    def flood() -> None:
        for _ in range(30):
            with suppress(BadRowsError):
                found.receive(sent, allowed="n0")

    with pytest.raises(ReceiverBusyError) as error:
        flood()
    assert error.value.wait > 0.0


def test_who_may_report_for_all_nodes_is_bounded_for_each_node_it_reports_for():
    found = receiver()
    rows = [row(n, 1, 2) for n in range(8_000)]

    def flood() -> None:
        for _ in range(20):
            found.receive(body(TOLD, *rows))
            found.sink.take()

    with pytest.raises(ReceiverBusyError, match="values a second from 'n0'"):
        flood()
    assert found.receive(body(node="n1")) == -1


def test_a_sender_that_goes_back_to_its_share_is_no_longer_named():
    found = receiver()
    sent = body(TOLD, *(row(n, 1) for n in range(8_000)))

    def flood() -> None:
        for _ in range(20):
            found.receive(sent, allowed="n0")

    with pytest.raises(ReceiverBusyError):
        flood()
    assert "n0 sent more than its share" in found.trouble()
    found.clock.t += 61.0
    found.receive(body(TOLD, row(1, 1)), allowed="n0")
    assert "more than its share" not in found.trouble()


def test_a_start_that_is_long_gone_is_forgotten():
    found = receiver()
    found.receive(body(TOLD, row(1, 1, 2), boot="b"))
    found.receive(body(TOLD, row(1, 1, 2), boot="c"))
    assert list(found.agents["n0"].boots) == ["b", "c"]
    found.clock.t += 601.0
    found.receive(body(row(2, 1, 2), boot="c"))
    assert list(found.agents["n0"].boots) == ["c"]


@pytest.mark.slow
def test_an_agent_that_starts_again_and_again_may_announce_what_it_did_before():
    found = receiver()
    same = SeriesFrame(0, 0, tuple(SeriesKey("host.load1", "node", "n0", str(n)) for n in range(2_000)))
    for boot in range(60):
        found.clock.t += 30.0
        found.receive(body(same, boot=f"b{boot}"), allowed="n0")
    assert found.agents["n0"].announcements.used < 2_001


MANY = tuple(SeriesKey("host.softnet_squeezed", "node", "n0", f"cpu{n}") for n in range(3 * SERIES_A_FRAME))
CHECKS = 4 + 3 * SERIES_A_FRAME // CHECKED_SERIES + 1
"""How often a body of them and a row may give way: with each frame, while series are announced, and with the row."""


class Others:
    """Bodies that a long one gives way to, at each occasion or at none."""

    def __init__(self, give_way, is_due=True):
        self.give_way, self.is_way_due = give_way, lambda: is_due


def test_a_long_body_gives_way_to_bodies_of_others_and_to_none_of_its_own_node():
    found, answers = receiver(), []
    found.receive(body(SeriesFrame(0, 0, (SeriesKey("host.load", "node", "n1"),)), node="n1"), "n1")

    def give_way():
        answers.append(found.receive(body(row(len(answers), 7.0), node="n1"), "n1"))
        with pytest.raises(ReceiverBusyError):
            found.receive(body(row(0, 1.0), boot="another"))

    found.others = Others(give_way)
    assert found.receive(body(SeriesFrame(0, 0, MANY), row(5, *range(len(MANY)))), "n0") == 5
    assert answers == list(range(CHECKS))
    assert found.agents["n0"].boots["b"].tables[0].keys == list(MANY)
    assert sorted(map(len, values(found))) == [*[1] * CHECKS, len(MANY)]


def test_to_ask_for_announcements_does_not_wait_for_a_long_body_and_counts_for_the_next():
    """The event loop asks, for which the long body rests."""
    found, asked = receiver(), []

    def give_way():
        if not asked:
            asking = threading.Thread(target=found.request_announcements, daemon=True)
            asking.start()
            asking.join(10.0)
            asked.append(asking.is_alive())

    found.others = Others(give_way)
    # Once the table of its series is there.
    found.others.is_way_due = lambda: bool(found.agents.get("n0") and found.agents["n0"].boots["b"].tables)
    assert found.receive(body(SeriesFrame(0, 0, MANY), row(5, *range(len(MANY)))), "n0") == 5
    assert asked == [False]
    with pytest.raises(UnknownTablesError):
        found.receive(body(row(6, 1.0)), "n0")
    assert found.receive(body(TOLD, row(6, 1.0)), "n0") == 6


def test_a_body_gives_no_way_before_it_is_due():
    found = receiver(others=Others(pytest.fail, is_due=False))
    assert found.receive(body(TOLD, *(row(n, 1, 2) for n in range(30))), "n0") == 29


@pytest.mark.parametrize("given", [0.0, 1.0])
def test_what_others_take_meanwhile_is_not_counted_for_a_long_body(given):
    found, used = receiver(), [0.0]
    found.cpu_time = lambda: used[0]

    def give_way():
        used[0] += given

    found.others = Others(give_way)
    found.receive(body(SeriesFrame(0, 0, MANY), row(5, 1.0)), "n0")
    assert used[0] == CHECKS * given
    assert found._shares["n0"].used < SECOND_COST / 50
