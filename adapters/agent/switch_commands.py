"""Command lines for Open vSwitch, built by the agent from the checked parameters of an order.

Only flows whose cookie begins with OWNER, meters from FIRST_METER, and mirrors whose name begins with MIRROR_PREFIX are
changed. No text of an order enters a command line unchecked, and no shell is involved.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from ipaddress import ip_network

from skewscope.adapters.formats.order_protocol import OrderError

LIMIT, MARK, MIRROR, BLOCK = KINDS = ("limit", "mark", "mirror", "block")
"""Kinds of changes that a configuration may allow."""
OWNER, OWNER_MASK = 0x5C09 << 48, 0xFFFF << 48
"""First 16 bits of the cookies of our flows."""
FIRST_METER, METERS = 0x8000, 0x8000
"""Meters of ours; the user-space switch has 2^18, hardware often 2^16."""
MIRROR_PREFIX = "skewscope-"
PRIORITY = 40_000
"""Of our flows: above usual ones, below 65535 of the most specific."""
UNUSED_TABLE = 253
"""A table that no packet gets to."""
CONGESTION_EXPERIENCED = 3
"""ECN codepoint CE of RFC 3168, section 5."""
MOST_SECONDS = 3600
"""Seconds after which the switch itself removes a flow at the latest."""
MOST_RATE = 1_000_000_000
"""kbit/s."""
NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,31}")
COOKIE = re.compile(r"0x[0-9a-f]{16}")
NUMBER = re.compile(r"[0-9]{1,10}")
PROTOCOLS = ("ip", "tcp", "udp")
VERSION = ("-O", "OpenFlow15")


@dataclass(frozen=True)
class SwitchRights:
    """What orders may change."""

    kinds: tuple[str, ...]
    """Of KINDS."""
    bridges: tuple[str, ...]
    lowest_rate: int
    """kbit/s: no meter may allow less."""
    folder: str = "/var/run/openvswitch"
    """Of the sockets of the switch."""


@dataclass(frozen=True)
class OrderParameters:
    """The parameters of an order, which are checked as they are read."""

    values: Mapping[str, str]
    rights: SwitchRights
    now: float

    def name(self, key: str) -> str:
        """Returns the name of a port or bridge."""
        return self._match(key, NAME)

    def bridge(self) -> str:
        """Returns the bridge, which has to be allowed."""
        name = self.name("bridge")
        if name not in self.rights.bridges:
            raise OrderError(f"the bridge {name} is not allowed")
        return name

    def cookie(self) -> int:
        """Returns a cookie of ours."""
        cookie = int(self._match("cookie", COOKIE), 16)
        if cookie & OWNER_MASK != OWNER:
            raise OrderError("a cookie of somebody else")
        return cookie

    def number(self, key: str, least: int, most: int) -> int:
        """Returns a number within bounds."""
        number = int(self._match(key, NUMBER))
        if not least <= number <= most:
            raise OrderError(f"{key} is {number}: {least} to {most} is allowed")
        return number

    def meter(self) -> int:
        """Returns the number of a meter of ours."""
        return self.number("meter", FIRST_METER, FIRST_METER + METERS - 1)

    def has(self, key: str) -> bool:
        """Returns whether a parameter is given."""
        return bool(self.values.get(key))

    def need(self, kind: str) -> None:
        """Checks that a kind of change is allowed."""
        if kind not in self.rights.kinds:
            raise OrderError(f"{kind} is not allowed")

    def _match(self, key: str, form: re.Pattern[str]) -> str:
        text = self.values.get(key, "")
        if not form.fullmatch(text):
            raise OrderError(f"{key} is {text!r:.40}")
        return text


Command = list[str]
Builder = Callable[[OrderParameters], tuple[Command, ...]]


def build_commands(
    operation: str, parameters: Mapping[str, str], rights: SwitchRights, now: float
) -> tuple[Command, ...]:
    """Returns the command lines of an order, to be run one after the other.

    Raises:
        OrderError: the operation is unknown or not allowed, or a parameter is missing, unknown or out of bounds.
    """
    builder = BUILDERS.get(operation)
    if builder is None:
        raise OrderError(f"unknown operation {operation!r:.40}")
    if unknown := parameters.keys() - KNOWN[operation]:
        raise OrderError(f"unknown parameter {min(unknown)!r:.40}")
    return builder(OrderParameters(parameters, rights, now))


def _ofctl(given: OrderParameters, command: str, *rest: str) -> tuple[Command, ...]:
    socket = f"unix:{given.rights.folder}/{given.bridge()}.mgmt"
    return (["ovs-ofctl", *VERSION, "--names", command, socket, *rest],)


def _vsctl(given: OrderParameters, *rest: str) -> tuple[Command, ...]:
    return (["ovs-vsctl", f"--db=unix:{given.rights.folder}/db.sock", "--timeout=5", *rest],)


def _add_meter(given: OrderParameters) -> tuple[Command, ...]:
    given.need(LIMIT)
    rate = given.number("rate", 1, MOST_RATE)
    if rate < given.rights.lowest_rate:
        raise OrderError(f"a rate of {rate} kbit/s; the least that is allowed is {given.rights.lowest_rate}")
    burst = given.number("burst", 1, MOST_RATE)
    return _ofctl(
        given, "add-meter", f"meter={given.meter()} kbps burst bands=type=drop rate={rate} burst_size={burst}"
    )


def _delete_meter(given: OrderParameters) -> tuple[Command, ...]:
    return _ofctl(given, "del-meter", f"meter={given.meter()}")


def _add_flow(given: OrderParameters) -> tuple[Command, ...]:
    seconds = MOST_SECONDS
    if given.has("until"):
        seconds = min(max(given.number("until", 1, 1 << 33) - int(given.now), 1), MOST_SECONDS)
    fields = [f"cookie={given.cookie():#x}", f"hard_timeout={seconds}", f"priority={PRIORITY}"]
    return _ofctl(given, "add-flow", ",".join([*fields, *_match_fields(given), f"actions={_actions(given)}"]))


def _match_fields(given: OrderParameters) -> list[str]:
    """Returns the packets that a flow is about: those that enter at a port, of some protocol, addresses and ports."""
    protocol = given.values.get("protocol", "ip")
    if protocol not in PROTOCOLS:
        raise OrderError(f"protocol is {protocol!r:.40}")
    fields = [protocol, f"in_port={given.name('in_port')}"]
    for key, name in (("source", "nw_src"), ("destination", "nw_dst")):
        if given.has(key):
            try:
                network = ip_network(given.values[key])
            except ValueError:
                raise OrderError(f"{key} is {given.values[key]!r:.40}") from None
            if network.version != 4:
                raise OrderError(f"{key} is not an IPv4 network")
            fields.append(f"{name}={network}")
    for key, name in (("source_port", "tp_src"), ("destination_port", "tp_dst")):
        if given.has(key):
            if protocol == "ip":
                raise OrderError(f"{key} without tcp or udp")
            fields.append(f"{name}={given.number(key, 0, 65535)}")
    return fields


def build_match_problem(flow: Mapping[str, str]) -> str:
    """Returns why the fields of a flow cannot be matched; '' where they can."""
    try:
        _match_fields(OrderParameters({"in_port": "p", **flow}, SwitchRights((), (), 1), 0.0))
    except OrderError as error:
        return str(error)
    return ""


def _actions(given: OrderParameters) -> str:
    if given.has("drop"):
        given.need(BLOCK)
        return "drop"
    actions = []
    if given.has("meter"):
        given.need(LIMIT)
        actions.append(f"meter:{given.meter()}")
    if given.has("mark"):
        given.need(MARK)
        actions.append(f"mod_nw_ecn:{CONGESTION_EXPERIENCED}")
    if not actions:
        raise OrderError("a flow without a meter, a mark or a drop")
    return ",".join([*actions, "NORMAL"])


def _delete_flow(given: OrderParameters) -> tuple[Command, ...]:
    return _ofctl(given, "del-flows", f"cookie={given.cookie():#x}/-1")


def _add_mirror(given: OrderParameters) -> tuple[Command, ...]:
    given.need(MIRROR)
    port, output = given.name("port"), given.name("output")
    if port == output:
        raise OrderError("a port that is mirrored to itself")
    made = ["create", "mirror", f"name={mirror_name(given.cookie())}", "select-src-port=@p", "select-dst-port=@p"]
    ports = ["--id=@p", "get", "port", port, "--", "--id=@o", "get", "port", output, "--", "--id=@m"]
    mirror = _vsctl(given, *ports, *made, "output-port=@o", "--", "add", "bridge", given.bridge(), "mirrors", "@m")
    # Open vSwitch 3.1 does not look again at what it has cached when a mirror is made, but does for any new flow.
    unused = f"table={UNUSED_TABLE},cookie={given.cookie():#x},hard_timeout={MOST_SECONDS},in_port={port},actions=drop"
    return (*mirror, *_ofctl(given, "add-flow", unused))


def _delete_mirror(given: OrderParameters) -> tuple[Command, ...]:
    name = mirror_name(given.cookie())
    removed = _vsctl(given, "--id=@m", "get", "mirror", name, "--", "remove", "bridge", given.bridge(), "mirrors", "@m")
    return (*removed, *_delete_flow(given))


def mirror_name(cookie: int) -> str:
    """Returns the name of the mirror of an action."""
    return f"{MIRROR_PREFIX}{cookie:016x}"


def _dump_flows(given: OrderParameters) -> tuple[Command, ...]:
    return _ofctl(given, "dump-flows", f"cookie={OWNER:#x}/{OWNER_MASK:#x}")


def _dump_mirrors(given: OrderParameters) -> tuple[Command, ...]:
    given.bridge()
    return _vsctl(given, "--format=json", "--columns=name", "list", "mirror")


BUILDERS: Mapping[str, Builder] = {
    "meter-add": _add_meter,
    "meter-del": _delete_meter,
    "flow-add": _add_flow,
    "flow-del": _delete_flow,
    "mirror-add": _add_mirror,
    "mirror-del": _delete_mirror,
    "dump-flows": _dump_flows,
    "dump-meters": lambda given: _ofctl(given, "dump-meters"),
    "meter-stats": lambda given: _ofctl(given, "meter-stats"),
    "dump-ports": lambda given: _ofctl(given, "dump-ports"),
    "dump-mirrors": _dump_mirrors,
}
MATCH = frozenset({"in_port", "protocol", "source", "destination", "source_port", "destination_port"})
KNOWN: Mapping[str, frozenset[str]] = {
    **dict.fromkeys(BUILDERS, frozenset({"bridge"})),
    "meter-add": frozenset({"bridge", "meter", "rate", "burst"}),
    "meter-del": frozenset({"bridge", "meter"}),
    "flow-add": MATCH | {"bridge", "cookie", "until", "meter", "mark", "drop"},
    "flow-del": frozenset({"bridge", "cookie"}),
    "mirror-add": frozenset({"bridge", "cookie", "port", "output"}),
    "mirror-del": frozenset({"bridge", "cookie"}),
}
"""Parameters of each operation."""
