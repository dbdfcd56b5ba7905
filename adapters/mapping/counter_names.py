"""What the counters of unknown network drivers and exporters count, by the words of their names.

The words are those of the kernel's own statistics of a device (`Documentation/networking/statistics.rst`): a direction,
and bytes, packets, errors or drops. Drivers add where and why; names of what is filtered, or counted as another kind of
packet, are left alone.
"""

import itertools
import re
from collections.abc import Sequence
from typing import NamedTuple

from skewscope.adapters.mapping.column_names import CAMEL, MAX_NAME

WORD = re.compile(r"[a-z]+|\d+")
RECEIVED = ("rx", "receive", "received", "recv", "rcv", "in", "input", "ingress")
SENT = ("tx", "transmit", "transmitted", "xmit", "sent", "out", "output", "egress")
DIRECTIONS = {**dict.fromkeys(RECEIVED, "receive"), **dict.fromkeys(SENT, "transmit")}
TRAFFIC = {
    **dict.fromkeys(("bytes", "octets"), "bytes"),
    **dict.fromkeys(("packets", "pkts", "packet"), "packets"),
}
"""Words of all that passed: a name that has more words counts a part of it."""
DROPS = frozenset(
    (
        *("drop", "drops", "dropped", "drp", "discard", "discards", "discarded", "disc"),
        *("missed", "overflow", "overrun", "overruns"),
    )
)
ERRORS = frozenset(("error", "errors", "err", "errs", "crc", "fcs"))
NO_LOSS = frozenset(
    (
        *("filter", "filtered", "vlan", "xdp", "mtu", "length", "address", "mac", "lro", "gro", "tso", "checksum"),
        *("csum", "broadcast", "multicast", "mcast", "bcast", "pause", "storm", "priority", "prio"),
        *("range", "corrected", "correctable", "stopped", "wake", "udp", "tcp", "ip", "ipv", "ptp", "map", "timestamp"),
        *("rate", "max", "last", "threshold"),
    )
)
"""Words of packets that are no loss of the device: filtered, of another layer, or a part that other counters have."""
QUEUE_WORDS = frozenset(("queue", "ring", "rxq", "txq", "q", "channel"))
FILLERS = frozenset(
    (
        "total",
        "num",
        "count",
        "counter",
        "nic",
        "port",
        "phy",
        "network",
        "net",
        "interface",
        "eth",
        "if",
        "unicast",
        "ucast",
    )
)
PAUSES = frozenset(("pause", "xoff", "pxoff", "pfc", "ppp", "pripause"))
"""Words of frames that stop a sender; those that let it go on have the same number."""
PRIORITIES = frozenset(("prio", "priority", "pri", "pb", "ppp", "pfc", "class", "cos", "tc"))
"""Words before the number of the priority, or of the class, that such a frame stops."""
NO_PAUSE = frozenset(
    (
        *("xon", "pxon", "duration", "time", "transition", "transitions", "storm", "watchdog", "wd", "bytes", "octets"),
        *(
            "error",
            "errors",
            "drop",
            "drops",
            "dropped",
            "discard",
            "discards",
            "cfg",
            "enabled",
            "queue",
            "us",
            "usec",
        ),
    )
)
MAX_PRIORITY = 7
OTHERS = {
    r"(?:generat(?:ed|ion)|output|completion)_tokens": "serve.generation_tokens",
    r"(?:prompt|input|prefill)_tokens": "serve.prompt_tokens",
    r"(?:preemptions?|preempted_requests|requests_preempted|retractions?|retracted_requests)": "serve.preemptions",
    r"kv_(?:cache_)?transfers?_(?:failed|failures|errors)": "serve.kv_xfer_failed",
    r"(?:ecc_(?:uncorrectable|double_bit|dbe)|uncorrectable_ecc)(?:_errors?)?": "gpu.ecc_dbe_vol",
    r"pcie_replays?(?:_errors?)?": "gpu.pcie_replay",
    r"oom_kills?": "host.oom_kill",
}
"""Ends of the names of other counters, and the signals that they are."""
KNOWN = DIRECTIONS.keys() | TRAFFIC.keys() | DROPS | ERRORS | NO_LOSS


class CounterMeaning(NamedTuple):
    """What a counter of a network device counts."""

    metric: str
    """The kernel's counter, as node_exporter calls it."""
    part: int
    """0 for all of the device, 1 for some cause or place of it, 2 for one queue."""


def find_counter(name: str) -> CounterMeaning | None:
    """Returns what a counter of an unknown driver or exporter counts by its words, None where they do not say."""
    if len(name) > MAX_NAME:
        return None
    words = [word for word in WORD.findall(CAMEL.sub(" ", name).lower()) if word not in FILLERS]
    is_of_queue = any(word in QUEUE_WORDS or word.isdigit() for word in words)
    words = [word for word in words if word not in QUEUE_WORDS and not word.isdigit()]
    directions = {DIRECTIONS[word] for word in words if word in DIRECTIONS}
    # What stands before all that is known is what the exporter is called.
    named = itertools.dropwhile(lambda word: word not in KNOWN, words)
    rest = [word for word in named if word not in DIRECTIONS]
    kind = _find_kind(rest)
    if len(directions) != 1 or not kind or (kind in TRAFFIC.values() and DIRECTIONS.keys().isdisjoint(words[-2:])):
        return None
    part = 2 if is_of_queue else int(kind not in TRAFFIC.values() and len(rest) > 1)
    return CounterMeaning(f"node_network_{directions.pop()}_{kind}_total", part)


def find_pause(name: str) -> str:
    """Returns the counter of pause frames that the one of any driver is, as mlx5 calls it; '' for others.

    Drivers divide the words (rx, priority, 3, xoff), join them (rx, pfc, frames, pri3) or turn them (pause, prio, 3).
    """
    words = WORD.findall(CAMEL.sub(" ", name).lower()) if len(name) <= MAX_NAME else []
    ways = {DIRECTIONS[word] for word in words if word in DIRECTIONS}
    if len(ways) != 1 or not PAUSES.intersection(words) or NO_PAUSE.intersection(words):
        return ""
    way = "rx" if ways == {"receive"} else "tx"
    numbers = [int(word) for word in words if word.isdecimal()]
    if not numbers:
        # All frames of priorities together have counters of their own.
        return "" if {"pfc", "ppp", "pripause"}.intersection(words) else f"{way}_global_pause"
    is_placed = any(before in PRIORITIES and word.isdecimal() for before, word in itertools.pairwise(words))
    return f"{way}_prio{numbers[0]}_pause" if is_placed and len(numbers) == 1 and numbers[0] <= MAX_PRIORITY else ""


def find_counter_signal(name: str) -> str:
    """Returns the signal of a counter that is none of a network device, by the end of its name; '' for none.

    Args:
        name: in small letters, its words divided by `_`.
    """
    return next((signal for end, signal in OTHERS.items() if re.search(rf"(?:^|_){end}$", name)), "")


def _find_kind(words: Sequence[str]) -> str:
    """Returns what is counted as the kernel calls it, '' for what these words do not say."""
    seen = set(words)
    if not words or seen & NO_LOSS:
        return ""
    if seen & DROPS:
        return "drop"
    if seen & ERRORS:
        return "errs"
    return TRAFFIC.get(words[-1], "")
