"""Who is missing in a collective, from lines and stacks of several tools and versions."""

import pytest

from skewscope.adapters.collectives.rank_state import RankState, judge_states
from skewscope.adapters.collectives.stack_dumps import StackDumps
from skewscope.adapters.collectives.state_lines import StateLines

CPP = "E ProcessGroupNCCL.cpp"
CAUGHT = "Watchdog caught collective operation timeout: WorkNCCL(SeqNum={number}, OpType={operation}, NumelIn=1, NumelOut=1, Timeout(ms)=600000) ran for 600041 milliseconds before timing out."  # noqa: E501


def caught(rank, number=57, operation="ALLREDUCE", group=""):
    inner = f"[{group} Rank {rank}]" if group else f"[Rank {rank}]"
    return f"[rank{rank}]:[{CPP}:563] {inner} {CAUGHT.format(number=number, operation=operation)}\n"


def findings(text):
    """Returns event, ranks and text of each finding in lines of a log."""
    lines = StateLines()
    for line in text.splitlines():
        lines.read_line(line, 1.0)
    return [(one.event, one.ranks, one.text) for one in judge_states(lines.states, lines.size)]


DUMP = "[PG ID 0 PG GUID 0(default_pg) Rank 1] Received a dump signal due to a collective timeout from rank 0 and we will try our best to dump the debug info. Last enqueued NCCL work: 10, last completed NCCL work: 10."  # noqa: E501
DESYNC = """
\t - To our best knowledge, the lagging/dead/mismatched ranks that caused the desync are:
\t   - [0,1,3] joined but didn't finish collective #39 (count from 1)
\t     [2] finished collective #38, but didn't join collective #39 (count from 1)
\t - Snapshot of ranks' latest states:
\t   #39 started ranks:
\t     [0,1,3] started ALLREDUCE
"""
LAGGING = """ranks [2] are the lagging ranks that caused this timeout. They never joined any collectives
[0,1] joined but didn't finish collective #1 (count from 1)"""
MISSING = {
    "the first of a block says nothing": (caught(1) + caught(2) + caught(3), (0,), "nothing here is of rank 0"),
    "one in the middle says nothing": (caught(0) + caught(1) + caught(3), (2,), "ALLREDUCE 57"),
    "one of a node whose ranks begin at 8": ("".join(caught(n) for n in range(9, 16)), (8,), "ranks 9 to 15 wait"),
    "the last one of a known size": ("world_size=4\n" + caught(0) + caught(1) + caught(2), (3,), "rank 3"),
    "one is behind by its last lines": (
        caught(0, 11, group="PG ID 0 PG GUID 0(default_pg)") + f"[rank1]:[{CPP}:1834] {DUMP}\n",
        (1,),
        "rank 1 began last collective 10",
    ),
    "one waits in an earlier collective": (
        caught(0) + caught(1) + caught(2, 56, "BROADCAST"),
        (2,),
        "rank 2 waits in BROADCAST 56",
    ),
    "a report of ranks out of step": (DESYNC, (2,), "Rank 2 has not joined ALLREDUCE 39"),
    "ranks that never joined": (
        LAGGING,
        (2,),
        "collective 1",
    ),
    "a barrier with a monitor": (
        "RuntimeError: [Rank 0]: Ranks 2 failed to pass monitoredBarrier in 1800000 ms",
        (2,),
        "Rank 2 has not joined barrier: rank 0 waits for it, for 1800 s",
    ),
}


@pytest.mark.parametrize("case", MISSING.values(), ids=MISSING)
def test_the_rank_that_has_not_come_is_named(case):
    text, ranks, words = case
    ((event, found, said),) = findings(text)
    assert (event, found) == ("collective-not-joined", ranks)
    assert words in said


NOTHING = {
    "a log of one rank": caught(3),
    "all ranks of one node, of whose job the size is not known": "".join(caught(n) for n in range(8, 16)),
    "one of two nodes": "world_size=16\n" + "".join(caught(n) for n in range(8, 16)),
    "ranks of a group of unknown size": caught(0, group="PG ID 2 PG GUID 7") + caught(1, group="PG ID 2 PG GUID 7"),
    "numbers without a time-out": "[rank0]:[I] [PG 0 Rank 0] last enqueued NCCL work: 57, last completed NCCL work: 57",
    "a number that was never set": (
        f"[rank2]:[{CPP}:1537] [PG 0 Rank 2] Timeout at NCCL work: 1, last enqueued NCCL work: 1, last completed NCCL "
        "work: 76280750235782912."
    ),
}


@pytest.mark.parametrize("text", NOTHING.values(), ids=NOTHING)
def test_nothing_is_said_of_ranks_of_which_nothing_can_be_known(text):
    assert findings(text) == []


def test_ranks_that_have_all_come_are_no_cause():
    text = "world_size=4\n[0,1,2,3] joined but didn't finish collective #39 (count from 1)"
    ((event, ranks, said),) = findings(text)
    assert (event, ranks) == ("collective-not-finished", ())
    assert said.startswith("No rank is missing: ranks 0 to 3 joined collective 39")


def test_programs_that_differ_are_told_from_ranks_that_are_late():
    text = (
        "Detected mismatch between collectives on ranks. Rank 0 is running collective: CollectiveFingerPrint("
        "SequenceNumber=41, OpType=ALLREDUCE, TensorShape=[4]), but Rank 2 is running collective: "
        "CollectiveFingerPrint(SequenceNumber=41, OpType=BARRIER)."
    )
    ((event, _, said),) = findings(text)
    assert event == "collectives-differ"
    assert "rank 0 runs ALLREDUCE as collective 41, rank 2 BARRIER" in said


def test_groups_are_judged_apart():
    tensor, data = "PG ID 1 PG GUID 1(tp)", "PG ID 2 PG GUID 2(dp)"
    text = "".join(caught(n, 7, group=tensor) for n in (0, 1)) + "".join(caught(n, 90, group=data) for n in (1, 2, 3))
    ((_, ranks, said),) = findings(text)
    assert ranks == (0,)
    assert "of process group 2(dp)" in said


def test_a_later_state_completes_an_earlier_one():
    states = [RankState(0, number=5, is_waiting=True), RankState(1, number=4), RankState(1, number=5, is_waiting=True)]
    assert judge_states(states) == []


SPY = """Process {pid}: /usr/bin/python3 -u train.py --lr 1e-4
Python v3.10.12 (/usr/bin/python3.10)

Thread {pid} (active): "MainThread"
{frames}
Thread 4300 (idle): "Thread-1"
    wait (threading.py:324)
    run (tqdm/_monitor.py:60)
"""
SPY_WAITS = (
    "    all_reduce (torch/distributed/distributed_c10d.py:2501)\n    reduce_loss (train.py:55)\n    main (train.py:77)"
)
SPY_LOADS = "    select (selectors.py:416)\n    __next__ (torch/utils/data/dataloader.py:633)\n    load (data.py:12)"
HANDLER = """Thread 0x00007f2a (most recent call first):
  File "/usr/lib/python3.10/threading.py", line 324 in wait

Current thread 0x00007f2b5a1c2740 (most recent call first):
{frames}
"""
HANDLER_WAITS = '  File "/opt/lib/python3.10/site-packages/torch/distributed/distributed_c10d.py", line 3698 in barrier'
HANDLER_SAVES = '  File "/w/ckpt.py", line 31 in save\n  File "/w/train.py", line 73 in main'
GDB = """Thread 2 (Thread 0x7f2a (LWP 4300) "python3"):
#0  0x00007f2b in poll () from /lib/x86_64-linux-gnu/libc.so.6
Thread 1 (Thread 0x7f2b (LWP {pid}) "python3"):
{frames}
"""
GDB_WAITS = (
    "#0  0x00007f2b in sched_yield () from /lib/libc.so.6\n#1  0x00007f2c in ncclAllReduce () from /opt/libnccl.so.2"
)
GDB_READS = "#0  0x00007f2b in __read () from /lib/libc.so.6\n#1  0x00005566 in read_batch (n=4) at loader.cc:88"


def stacks(form, frames, heads):
    """Returns the states in one text with stacks of several ranks."""
    dumps = StackDumps("stacks.txt", 0.0)
    for rank, (head, own) in enumerate(zip(heads, frames, strict=True)):
        for line in (head + form.format(pid=4242 + rank, frames=own)).splitlines():
            dumps.read_line(line)
    return judge_states(dumps.finish())


HEADS = (
    "=== rank {} ===\n",
    "$ RANK={} py-spy dump\n",
    "VLLM::Worker_TP{}\n",
    "# rank={}\n",
    "host-a global_rank: {}\n",
)
FORMS = {
    "py-spy": (SPY, SPY_WAITS, SPY_LOADS, "ALLREDUCE", "load (data.py:12), in select"),
    "faulthandler": (HANDLER, HANDLER_WAITS, HANDLER_SAVES, "BARRIER", "save (ckpt.py:31)"),
    "gdb": (GDB, GDB_WAITS, GDB_READS, "ALLREDUCE", "read_batch (loader.cc:88), in __read"),
}


@pytest.mark.parametrize("head", HEADS)
@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)
def test_stacks_show_who_is_elsewhere_while_others_wait(form, head):
    text, waits, elsewhere, operation, place = form
    heads = [head.format(rank) for rank in range(4)]
    (found,) = stacks(text, (waits, elsewhere, waits, waits), heads)
    assert found.ranks == (1,)
    assert found.text == f"Rank 1 has not joined {operation}: ranks 0, 2 and 3 wait for it; rank 1 is in {place}"


@pytest.mark.parametrize(
    ("looks", "missing"),
    [
        pytest.param(["WLWW"], (1,), id="nearly all wait"),
        pytest.param(["WLLW"], (), id="half of them wait: a step at work looks so"),
        pytest.param(["WLW"], (), id="two of three wait"),
        pytest.param(["WL", "WL"], (1,), id="two looks show the same"),
        pytest.param(["WL", "LW"], (), id="they go on between two looks"),
        pytest.param(["WLWW", "WWWW"], (), id="it has come since"),
        pytest.param(["WLWW", "LWLL"], (), id="the others wait no more"),
        pytest.param(["WLLW", "WLLW", "WLLW"], (1, 2), id="three looks at half of them"),
    ],
)
def test_stacks_of_one_moment_name_a_rank_only_where_nearly_all_others_wait(looks, missing):
    frames = {"W": SPY_WAITS, "L": SPY_LOADS}
    heads = [f"=== rank {rank} ===\n" for look in looks for rank in range(len(look))]
    found = stacks(SPY, [frames[one] for look in looks for one in look], heads)
    assert tuple(rank for one in found for rank in one.ranks) == missing


def test_a_rank_that_loads_at_another_line_has_not_gone_on():
    states = [RankState(0, operation="BARRIER", is_waiting=True, looks=1), RankState(1, place="f (a.py:1)", looks=1)]
    again = [states[0], RankState(1, place="f (a.py:9)", looks=1)]
    assert [one.ranks for one in judge_states([*states, *again])] == [(1,)]


@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)
def test_stacks_of_ranks_that_all_wait_or_all_work_say_nothing(form):
    text, waits, elsewhere, *_ = form
    heads = [f"=== rank {rank} ===\n" for rank in range(3)]
    assert stacks(text, (waits, waits, waits), heads) == []
    assert stacks(text, (elsewhere, elsewhere, elsewhere), heads) == []
