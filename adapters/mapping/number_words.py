"""What the numbers of unknown programs are, by the words of their names: one table for metrics, exports and columns.

A name means one of a few kinds of numbers, each a signal `other.*` of the catalogue: what is left of something, how
much of it is used, errors, queues, times, rates, states. Words that change the sense (a limit, a part that is healthy
at zero) exclude a name: what is not clear stays unknown.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass

from skewscope.adapters.mapping.column_names import CAMEL, MAX_NAME, UNIT_WORDS, split_name
from skewscope.adapters.mapping.scales import UNITS

TOKEN = re.compile(r"[a-z]+|%")
TOTAL = re.compile(r"_total$")
NAME_OF_STATE = frozenset(("reason", "state", "status", "phase", "condition", "health", "severity", "alertstate"))
"""Labels that say which state a series is of: it is 1 while that one holds."""
BAD_STATES = frozenset(
    (
        *("crashloopbackoff", "imagepullbackoff", "errimagepull", "invalidimagename", "oomkilled", "evicted"),
        *("createcontainererror", "createcontainerconfigerror", "containercannotrun", "runcontainererror"),
        *("failed", "down", "unhealthy", "degraded", "offline", "dead", "fatal", "critical", "broken", "firing"),
        *("unreachable", "unavailable", "disconnected", "health_warn", "health_err", "suspended", "lost", "faulty"),
    )
)
PLACE = re.compile(r"[A-Za-z0-9](?:[\w.:-]{0,200}\w)?")
BRACKETS = re.compile(r"([^()]+?)( ?\([^()]*\))")
"""A name with a unit in brackets behind it."""
HELD = frozenset(("true", "1", "yes"))
"""Values of a label by which a condition holds."""


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


@dataclass(frozen=True, slots=True)
class NumberKind:
    """Names that mean a number of one kind."""

    signal: str
    any_of: frozenset[str]
    """Words of which a name has at least one..."""
    also: frozenset[str] = frozenset()
    """...and one of these, where there are some, and..."""
    without: frozenset[str] = frozenset()
    """...none of these."""
    units: tuple[str, ...] = ("",)
    """Base units that it may have; '' for a name that says none."""
    is_last: bool = False
    """Whether the first word has to end the name."""
    is_total: bool = False
    """Whether the name may end in `_total`."""


LIMITS = _words("max maximum min limit limits capacity size config configured threshold quota desired target requested")
SHARE_WORDS = _words("percent percentage pct ratio fraction %")
THINGS = _words(
    "slot slots connection connections conn conns worker workers thread threads block blocks inode inodes file files "
    "fd fds descriptor descriptors buffer buffers entries entry space capacity ports addresses ips leases disk volume "
    "filesystem storage bytes"
)
"""What runs out."""
NUMBER_KINDS = (
    NumberKind(
        "other.fault",
        _words("offline degraded unhealthy unreachable dead stuck undersized inconsistent failing alarm alarms"),
        without=_words("healthy up seconds bytes time queue letter letters lettered"),
        is_total=True,
    ),
    NumberKind("other.fault", _words("unavailable readonly down"), without=_words("up scale cool"), is_last=True),
    NumberKind("other.fault", _words("slow"), also=_words("ops requests queries"), without=_words("log total")),
    NumberKind("other.fault", _words("open"), also=_words("breaker breakers"), is_last=True),
    NumberKind(
        "other.state",
        _words("up ready healthy alive online connected reachable leader"),
        without=_words("desired total expected start warm scale back shut clean set queue messages requests jobs"),
        is_last=True,
    ),
    NumberKind(
        "other.errors",
        _words(
            "error errors err errs failed failure failures fail fails drop drops dropped discard discards discarded "
            "rejected rejects rejections refused throttle throttled throttles throttling timeout timeouts overflow "
            "overflows overrun overruns retransmits retransmitted retrans retries retry aborted aborts exceeded "
            "exhausted lost corrupt corrupted corruptions crashes unavailable exceptions panics starved"
        ),
        without=_words("success successful limit max last threshold config ratio rate percent percentage per"),
        is_total=True,
    ),
    NumberKind(
        "other.remaining",
        _words("credit credits balance"),
        without=_words("surplus consumed used usage charged load rebalance spent"),
        units=("", "1", "By"),
    ),
    NumberKind(
        "other.remaining",
        _words("free available remaining left"),
        also=THINGS,
        without=_words("memory mem swap hugepages cache cached ram gpu time seconds steps step eta vram host"),
        units=("", "1", "By"),
    ),
    NumberKind(
        "other.usage",
        _words("used usage util utilization utilisation consumed saturation full fill limit percent percentage"),
        also=_words(
            "disk disks volume filesystem fs storage inode inodes connection connections conntrack pool fd fds thread "
            "threads slot slots quota iops io queue buffer buffers backlog entries consumed table"
        ),
        without=_words("cpu gpu memory mem ram cache hit hits free available idle success errors error swap reserved"),
        units=("1",),
    ),
    NumberKind(
        "other.queue",
        _words(
            "queue queued queues queueing pending waiting backlog lag outstanding deferred staging unacked "
            "unacknowledged"
        ),
        without=LIMITS - _words("size")
        | _words(
            "published delivered processed enqueued dequeued acked consumed consumers total errors dropped "
            "rate throughput active running speed oldest age"
        ),
    ),
    NumberKind(
        "other.queue",
        _words("visible undelivered unprocessed unsent ready"),
        also=_words("message messages event events record records item items"),
        without=_words("age oldest size bytes seconds"),
    ),
    NumberKind(
        "other.latency",
        _words("latency duration delay wait maxwait waited time lag rtt await took elapsed"),
        without=LIMITS
        | _words(
            "start started uptime up timestamp last since age created modified boot interval timeout ttl expiry "
            "expires expiration remaining left gc scrape collector cpu user system idle busy process build offset "
            "clock now epoch window retention period until total eta session sleep"
        ),
        units=("s",),
    ),
    NumberKind(
        "other.throughput",
        _words("throughput goodput"),
        without=LIMITS | _words("total utilization utilisation util consumed percent percentage ratio"),
        units=("", "By", "/s"),
    ),
)
"""In the order in which they are tried."""
TIMES = "other.duration"
"""Times of single pieces of work, as histograms have them."""


@dataclass(frozen=True, slots=True)
class NumberMeaning:
    """What a number is."""

    signal: str
    unit: str = ""
    """Of its values, where the name says one."""


def find_number(name: str, *, is_histogram: bool = False) -> NumberMeaning | None:
    """Returns what the numbers of a name are by its words; None where they do not say.

    Args:
        name: a metric, the title of a panel, a column.
        is_histogram: whether it is what a histogram counts.
    """
    if len(name) > MAX_NAME:
        return None
    bare = TOTAL.sub("", name)
    tokens = TOKEN.findall(CAMEL.sub(" ", bare).lower())
    unit = find_unit_of(bare)
    for kind in NUMBER_KINDS:
        if _fits(kind, tokens, unit) and (kind.is_total or bare == name):
            if is_histogram:
                return NumberMeaning(TIMES, unit) if kind.signal == "other.latency" else None
            return NumberMeaning(kind.signal, unit)
    return None


def find_unit_of(name: str) -> str:
    """Returns the unit that a name says, at its end or as a share anywhere; '' where it says none."""
    tokens = TOKEN.findall(CAMEL.sub(" ", name).lower())
    share = next((token for token in tokens if token in SHARE_WORDS), "")
    return split_name(name).unit or UNIT_WORDS.get(share, "")


def _fits(kind: NumberKind, tokens: list[str], unit: str) -> bool:
    words = frozenset(tokens)
    base = UNITS.get(unit, (unit,))[0]
    is_named = tokens[-1:] and tokens[-1] in kind.any_of if kind.is_last else words & kind.any_of
    return bool(is_named and base in kind.units and not words & kind.without and (not kind.also or words & kind.also))


def find_bad_state(labels: Mapping[str, str]) -> tuple[str, str] | None:
    """Returns the label by which a series is 1 while something is in a bad state, and its value; None for none."""
    held = {labels[name].lower() for name in ("status", "value") if name in labels}
    if held & {"false", "unknown", "0", "no"}:
        return None
    return next(
        ((name, value) for name, value in labels.items() if name in NAME_OF_STATE and value.lower() in BAD_STATES), None
    )


def split_place(name: str) -> tuple[str, str]:
    """Returns a name without the place that stands before or behind it, and that place; '' for none.

    So are exports of clouds and panels labelled: `vol-0f3c BurstBalance`, `conntrack used % gw-2`.
    """
    bare, unit = match.groups() if (match := BRACKETS.fullmatch(name)) else (name, "")
    words = bare.split()
    for word, rest in ((words[0], words[1:]), (words[-1], words[:-1])) if len(words) > 1 else ():
        if PLACE.fullmatch(word) and any(c.isdigit() for c in word):
            return " ".join(rest) + unit, word
    return name, ""
