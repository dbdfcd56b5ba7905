"""Outputs of the tools of a host and of a fabric: each with what is wrong, and without it."""

import pytest

from skewscope.adapters.inputs.draft_recording import draft_recording
from skewscope.adapters.runtime.replay import replay
from tests.adapters.inputs.test_outputs import TOO_LITTLE, answer

VMSTAT = (
    "$ vmstat {}5\nprocs -----------memory---------- ---swap-- -----io---- -system-- ------cpu-----\n"
    " r  b   swpd   free   buff  cache   si   so    bi    bo   in   cs us sy id wa st\n"
)


def vmstat(swapped_in, options=""):
    rows = (
        f" 2  0      0 900000   1204 820003 {swapped_in if n > 10 else 0} 0 10 20 900 9100 12  2 86  0  0\n"
        for n in range(30)
    )
    return VMSTAT.format(options) + "".join(rows)


def settings(speed):
    modes = ("1000baseKX", "100000baseCR4", "25000baseCR", "10000baseSR")
    supported = "\n\t                        ".join(f"{mode}/Full" for mode in modes)
    return f"Settings for eth0:\n\tSupported link modes:   {supported}\n\tSpeed: {speed}Mb/s\n\tLink detected: yes\n"


def device(kind, state):
    return (
        f"3b:00.0 {kind}: Some Maker Some Device\n\tLnkCap:\tPort #0, Speed 16GT/s, Width x16\n"
        f"\t\tLnkSta:\tSpeed {state}\n\t\t\tTrErr- Train- SlotClk+\n"
    )


def bond(state):
    link = "Slave Interface: ens1f{}\nMII Status: {}\nSpeed: 100000 Mbps\nLink Failure Count: 1\n\n"
    return f"Ethernet Channel Bonding Driver: v6.8.0\n\nMII Status: up\n\n{link.format(0, 'up')}{link.format(1, state)}"


def fabric(lanes, comment=" "):
    link = 'CA: n7 mlx5_{}:\n  0x1     20    1[  ] ==( {}X    106.25 Gbps Active/  LinkUp)==>  3   11[  ] "sw" ({})\n'
    return link.format(0, 4, " ") + link.format(1, lanes, comment)


def pods(*queues):
    name = 'inference_pool_per_pod_queue_size{{model_server_pod="chat-{}",name="llama"}} {}\n'
    return "".join(name.format(n, queue) for n, queue in enumerate(queues))


SENSORS = "FAN1             | 9000 RPM          | ok\nFAN2             | {}             | {}\n"
EVENTS = "   2 | 11/20/2026 | 10:02:44 UTC | Power Supply PSU3 | {} | {}\n"
MEMORY = (
    "    total    used    free  shared  buff/cache   available\nMem:  100Gi  {}Gi  2Gi   1Gi   1Gi  1Gi\n"
    "Swap:    0B   0B   0B\n"
)
NFS = "Client rpc stats:\ncalls      retrans    authrefrsh\n81220031   {}   81220102\n"
SAR = (
    "Linux 6.8.0 (n1)  2026-11-22  _x86_64_  (8 CPU)\n\n10:00:0{0}     active/s passive/s    iseg/s    oseg/s\n"
    "10:00:1{0}         1.00      2.00  90000.00  80000.00\n\n"
    "10:00:0{0}     atmptf/s  estres/s retrans/s isegerr/s   orsts/s\n"
    "10:00:1{0}         0.00      0.00   {1}      0.00      3.00\n"
)


DISK = "Smart Log for NVME device:nvme2 namespace-id:ffffffff\ncritical_warning\t\t: {}\n"
HEAT = "coretemp-isa-0000\nAdapter: ISA adapter\nPackage id 0:  +101.0°C  (high = +84.0°C, crit = +100.0°C){}\n"
QUEUE = (
    "Fri Nov 20 10:00:{0}0 UTC 2026\nqdisc mq 0: dev eth0 root\n"
    " Sent {0}000000 bytes {0}000 pkt (dropped {1}, overlimits 0 requeues 12)\n"
)
LINKS = "|  NvLink Link Status  |\nGPUs:\n    gpuId 0:\n        U U U U\n    gpuId 1:\n        U {} U U\n"
ALARM = "# ethtool -m eth7\n\tLaser rx power low alarm    (Channel 2)   : {}\n"
CARDS = (
    "device,Temperature (Sensor junction) (C),sclk clock speed:,GPU use (%)\n"
    "card0,{},(1700Mhz),100\ncard1,66.0,(1700Mhz),100\ncard2,67.0,(1700Mhz),100\ncard3,66.0,(1700Mhz),100\n"
)


def adapters_of_efa(again):
    line = "link rdmap{}s27/1 tx_pkts {} rx_pkts {} rx_drops 0 retrans_pkts {} retrans_timeout_events 0\n"
    readings = []
    for k in (1, 2):
        rows = (line.format(16 + n, k * 9000000, k * 9000000, k * again * (n == 3) + k) for n in range(8))
        readings.append(f"Fri Nov 20 10:00:{10 * k} UTC 2026\n" + "".join(rows))
    return "".join(readings)


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        pytest.param(vmstat(5000), {"resource-pressure a"}, id="vmstat of a host that swaps"),
        pytest.param(vmstat(5000, "-w "), {"resource-pressure a"}, id="with an option"),
        pytest.param(vmstat(0), TOO_LITTLE, id="of one that does not"),
        pytest.param(settings(25000), {"lost-capacity a/eth0"}, id="a link at a quarter of its speed"),
        pytest.param(settings(100000), TOO_LITTLE, id="at its speed"),
        pytest.param(
            device("3D controller", "16GT/s, Width x8 (downgraded)"), {"reported-event a"}, id="half of the lanes"
        ),
        pytest.param(device("3D controller", "2.5GT/s (downgraded), Width x16"), TOO_LITTLE, id="an idle GPU"),
        pytest.param(
            device("Infiniband controller", "8GT/s (downgraded), Width x16 (ok)"),
            {"reported-event a"},
            id="a slow slot",
        ),
        pytest.param(bond("down"), {"reported-event a/ens1f1"}, id="a bond that lacks a link"),
        pytest.param(bond("up"), TOO_LITTLE, id="a whole bond"),
        pytest.param(fabric(1, " Could be 4X"), {"lost-capacity n7/mlx5_1"}, id="one of four lanes"),
        pytest.param(fabric(4), TOO_LITTLE, id="all lanes"),
        pytest.param(pods(0, 132, 0, 1), {"growing-queue chat-1"}, id="a queue at one pod"),
        pytest.param(pods(1, 2, 0, 1), TOO_LITTLE, id="queues at none"),
        pytest.param(SENSORS.format("0 RPM", "cr"), {"reported-event a"}, id="a fan that stands"),
        pytest.param(SENSORS.format("no reading", "ns"), TOO_LITTLE, id="an empty place for a fan"),
        pytest.param(EVENTS.format("Power Supply AC lost", "Asserted"), {"reported-event a"}, id="a lost power supply"),
        pytest.param(MEMORY.format(97), {"resource-pressure a"}, id="memory that is full"),
        pytest.param(MEMORY.format(50), TOO_LITTLE, id="and half full"),
        pytest.param(NFS.format(4120331), {"packet-loss a"}, id="calls to file servers that are sent again"),
        pytest.param(LINKS.format("D"), {"reported-event a/gpu1"}, id="an NVLink that is down"),
        pytest.param(LINKS.format("U"), TOO_LITTLE, id="no such link"),
        pytest.param(ALARM.format("On"), {"reported-event a/eth7"}, id="too little light"),
        pytest.param(ALARM.format("Off"), TOO_LITTLE, id="enough light"),
        pytest.param(CARDS.format("109.0"), {"out-of-range a/gpu0"}, id="a hot card"),
        pytest.param(CARDS.format("66.0"), TOO_LITTLE, id="a cool one"),
        pytest.param(adapters_of_efa(200000), {"packet-loss a/rdmap19s27"}, id="packets that an adapter sends again"),
        pytest.param(adapters_of_efa(2), TOO_LITTLE, id="a few of them"),
        pytest.param(DISK.format("0x4"), {"reported-event a"}, id="a disk that fails"),
        pytest.param(DISK.format("0"), TOO_LITTLE, id="a sound one"),
        pytest.param(HEAT.format("  ALARM (CRIT)"), {"reported-event a"}, id="a processor that is too hot"),
        pytest.param(HEAT.format(""), TOO_LITTLE, id="one that is not"),
        pytest.param("".join(QUEUE.format(n, 41 * n) for n in (1, 2)), {"packet-loss a/eth0"}, id="a queue that drops"),
        pytest.param("".join(QUEUE.format(n, 41) for n in (1, 2)), TOO_LITTLE, id="one that does not"),
        pytest.param(NFS.format(31), TOO_LITTLE, id="a few of them"),
        pytest.param("".join(SAR.format(n, "4000.00") for n in range(9)), {"packet-loss n1"}, id="sar of a lossy host"),
        pytest.param("".join(SAR.format(n, "4.00") for n in range(9)), TOO_LITTLE, id="of a sound one"),
    ],
)
def test_tools_of_a_host(tmp_path, text, wanted):
    assert answer(tmp_path, text) == wanted


def test_readings_without_times_are_apart_as_the_command_says(tmp_path):
    file = tmp_path / "a.txt"
    file.write_text(vmstat(5000))
    outcome = replay(draft_recording([file]).recording)
    (incident,) = outcome.incidents
    assert incident.name == "a"
    assert any("its readings are taken to be 5 s apart" in warning for warning in outcome.warnings)
