"""Open vSwitch on a DPU: rate limits, ECN marks, mirrors and blocks of flows that enter at a port.

The switch is on the node: its agent carries out signed orders (`adapters/agent/orders.py`). The owner mark is the
cookie, a number derived from the id of the action; meters and mirrors are numbered and named after it. Each flow ends
by itself when its action expires. Tested with Open vSwitch 3.1 and its user-space switch.
"""

import asyncio
import hashlib
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from skewscope.adapters.actions.orders import OrderBook
from skewscope.adapters.agent.switch_commands import (
    FIRST_METER,
    METERS,
    MOST_RATE,
    NAME,
    OWNER,
    PROTOCOLS,
    build_match_problem,
    mirror_name,
)
from skewscope.adapters.config.fields import read_bool, read_number
from skewscope.adapters.config.secret import Secret, read_secret
from skewscope.adapters.formats.order_protocol import LEAST_KEY
from skewscope.adapters.targets.common.base import TargetError
from skewscope.adapters.targets.common.calls import Call, OrderCall
from skewscope.adapters.targets.common.settings import COMMON_FIELDS, NamedTarget, TargetSettings, read_common
from skewscope.adapters.targets.common.switch_state import parse_flows, parse_meters, parse_mirrors, parse_ports
from skewscope.engine.actions.change import (
    ABSENT,
    BLOCK,
    FOREIGN,
    LIMIT,
    MARK,
    MIRROR,
    OURS,
    Change,
    ChangeSupport,
    MemberState,
    TargetState,
)
from skewscope.engine.model.topology_file import NODE_WITHOUT
from skewscope.kb.field_reader import FieldReader
from skewscope.kb.yamlfile import FieldPath

MAX_FLOWS = 16
DEFAULT_RATE, DEFAULT_BURST = 100_000, 10_000
"""kbit/s, and kbit."""
FLOW_FIELDS = ("protocol", "in_port", "source", "destination", "source_port", "destination_port")

Flow = tuple[tuple[str, str], ...]
"""Fields of the packets of a flow and their values, sorted by name."""


@dataclass(frozen=True, slots=True)
class SwitchSettings:
    """Settings of one bridge of one node."""

    common: TargetSettings
    node: str
    """Whose agent carries out the orders."""
    bridge: str
    key: Secret
    flows: tuple[Flow, ...]
    """What a change is about. The packets enter at the port of the change unless `in_port` names another one, such as
    that of a guest whose traffic leaves by it."""
    rate: int = DEFAULT_RATE
    burst: int = DEFAULT_BURST
    mark: bool = False
    """Whether a limit marks the packets too that it lets pass."""
    mirror_to: str = ""
    """Port that gets the copies; '' where nothing can be mirrored."""


def read(fields: FieldReader, at: FieldPath, name: str) -> SwitchSettings:
    """Parses the settings of one entry; problems are added to `fields`."""
    own = ("rate", "burst", "mark", "mirror_to")
    fields.check_keys(at, ("kind", "node", "bridge", "key", "flows", "members"), (*COMMON_FIELDS, *own))
    common = read_common(fields, at, name)
    for entity, member in common.members:
        _check_name(fields, (*at, "members", entity), member)
    mirror_to = fields.text((*at, "mirror_to"))
    if mirror_to:
        _check_name(fields, (*at, "mirror_to"), mirror_to)
    key = None
    if fields.value_at((*at, "key")) is not None:
        fields.check_keys((*at, "key"), (), ("token", "file"))
        key = read_secret(fields, (*at, "key"), Path(fields.document.file).parent, LEAST_KEY)
    bridge = fields.required_text((*at, "bridge"))
    _check_name(fields, (*at, "bridge"), bridge)
    return SwitchSettings(
        common,
        fields.required_text((*at, "node"), without=NODE_WITHOUT),
        bridge,
        key or Secret(""),
        tuple(_read_flow(fields, item) for item in fields.item_paths((*at, "flows"), MAX_FLOWS)),
        int(read_number(fields, (*at, "rate"), DEFAULT_RATE, (1, MOST_RATE))),
        int(read_number(fields, (*at, "burst"), DEFAULT_BURST, (1, MOST_RATE))),
        read_bool(fields, (*at, "mark")),
        mirror_to,
    )


def _check_name(fields: FieldReader, at: FieldPath, name: str) -> None:
    if name and not NAME.fullmatch(name):
        fields.add_problem(at, f"{name!r:.80}", "the name of a port or bridge of the switch")


def _read_flow(fields: FieldReader, at: FieldPath) -> Flow:
    if not fields.check_keys(at, ("protocol",), FLOW_FIELDS[1:]):
        return ()
    fields.text((*at, "protocol"), choice=PROTOCOLS)
    given = fields.value_at(at)
    flow = {key: str(given[key]) for key in sorted(given)}
    if problem := build_match_problem(flow):
        fields.add_problem(at, problem, "the packets of a flow, such as {protocol: udp, destination_port: 4791}")
    return tuple(flow.items())


def build(settings: SwitchSettings) -> "SwitchTarget":
    """Creates the target."""
    return SwitchTarget(settings)


@dataclass
class SwitchTarget(NamedTarget):
    """The ports of one bridge."""

    settings: SwitchSettings
    book: OrderBook = field(init=False)
    """Orders to the agent of the node."""

    def __post_init__(self) -> None:
        self.book = OrderBook(self.settings.node, self.settings.key, time.time)

    @property
    def support(self) -> Mapping[str, ChangeSupport]:
        """What the switch can do with flows."""
        rate = f"{self.settings.rate} kbit/s" + (", and marked" if self.settings.mark else "")
        found = {
            LIMIT: ChangeSupport(note=f"the flows of the config are limited to {rate}; what is above is dropped"),
            MARK: ChangeSupport(note="every packet is marked; senders that ignore ECN do not slow down"),
            BLOCK: ChangeSupport(note="the flows of the config are dropped"),
        }
        return found | (
            {MIRROR: ChangeSupport(note="a mirror does not end by itself")} if self.settings.mirror_to else {}
        )

    async def read_state(self) -> TargetState:
        """Returns the state of all ports: our flows, meters and mirrors."""
        texts = await asyncio.gather(
            *(self._give(each) for each in ("dump-ports", "dump-flows", "dump-meters", "dump-mirrors"))
        )
        ports, flows, meters, mirrors = (
            parse_ports(texts[0]),
            parse_flows(texts[1]),
            parse_meters(texts[2]),
            parse_mirrors(texts[3]),
        )
        shared = {
            "meters": " ".join(
                f"{number}={rate}/{burst}" for number, (rate, burst) in sorted(meters.items()) if number >= FIRST_METER
            ),
            "mirrors": " ".join(sorted(mirrors)),
            "uses": " ".join(sorted({f"{flow.meter}={flow.cookie:#018x}" for flow in flows if flow.meter})),
            "flows": " ".join(sorted(f"{flow.cookie:#018x}" for flow in flows)),
        }
        details = tuple(sorted(shared.items()))
        return TargetState({port: MemberState(port, True, details=details) for port in ports})

    def render_change(self, change: Change, state: TargetState) -> tuple[Call, ...]:
        """Returns the orders that add a meter, flows or a mirror, as far as they are missing."""
        if change.kind not in self.support:
            raise TargetError(f"{self.name}: this switch cannot {change.kind}")
        member = state.member(change.member)
        if member is None:
            raise TargetError(f"{self.name}: the bridge {self.settings.bridge} has no port {change.member!r}")
        cookie = make_cookie(change.action)
        if change.kind == MIRROR:
            there = mirror_name(cookie) in member.detail("mirrors").split()
            given = {"cookie": f"{cookie:#018x}", "port": change.member, "output": self.settings.mirror_to}
            return () if there else (self._order("mirror-add", given),)
        calls: list[Call] = []
        action = {MARK: {"mark": "1"}, BLOCK: {"drop": "1"}, LIMIT: {"meter": str(make_meter(cookie))}}[change.kind]
        if change.kind == LIMIT:
            calls += self._render_meter(change, cookie, member)
            action |= {"mark": "1"} if self.settings.mark else {}
        if _count_flows(member, cookie) < len(self.settings.flows):
            until = {"until": str(int(change.expires))} if change.expires else {}
            base = {"cookie": f"{cookie:#018x}", "in_port": change.member, **action, **until}
            calls += [self._order("flow-add", base | dict(flow)) for flow in self.settings.flows]
        return tuple(calls)

    def _render_meter(self, change: Change, cookie: int, member: MemberState) -> list[Call]:
        """Returns the order for the meter of an action; none where it is there."""
        meter, wanted = make_meter(cookie), f"{self._rate(change)}/{self.settings.burst}"
        present = dict(item.split("=", 1) for item in member.detail("meters").split()).get(str(meter))
        others = [use for use in member.detail("uses").split() if use.startswith(f"{meter}=")]
        if present not in (None, wanted) or set(others) - {f"{meter}={cookie:#018x}"}:
            raise TargetError(f"{self.name}: the meter {meter} is in use by another action")
        given = {"meter": str(meter), "rate": str(self._rate(change)), "burst": str(self.settings.burst)}
        return [] if present else [self._order("meter-add", given)]

    def _rate(self, change: Change) -> int:
        text = change.parameter("rate", str(self.settings.rate))
        if not text.isdecimal() or not 1 <= int(text[:11]) <= MOST_RATE:
            raise TargetError(f"{self.name}: {text!r:.40} is no rate in kbit/s")
        return int(text)

    def render_undo(self, change: Change, before: MemberState, state: TargetState) -> tuple[Call, ...]:  # noqa: ARG002
        """Returns the orders that delete what is left of an action: by its cookie, number and name."""
        member = state.member(change.member)
        if member is None:
            return ()
        cookie = make_cookie(change.action)
        mark = f"{cookie:#018x}"
        if change.kind == MIRROR:
            there = mirror_name(cookie) in member.detail("mirrors").split()
            return (self._order("mirror-del", {"cookie": mark}),) if there else ()
        calls = [self._order("flow-del", {"cookie": mark})] if _count_flows(member, cookie) else []
        if change.kind == LIMIT and self._owns_meter(change, cookie, member):
            calls.append(self._order("meter-del", {"meter": str(make_meter(cookie))}))
        return tuple(calls)

    def _owns_meter(self, change: Change, cookie: int, member: MemberState) -> bool:
        """Returns whether the meter of an action is there, as the action made it, and no other action uses it."""
        meter = make_meter(cookie)
        there = f"{meter}={self._rate(change)}/{self.settings.burst}" in member.detail("meters").split()
        users = {use for use in member.detail("uses").split() if use.startswith(f"{meter}=")}
        return there and users <= {f"{meter}={cookie:#018x}"}

    def predict(self, change: Change, state: TargetState) -> TargetState:
        """Returns the state with our flows and meter, or our mirror."""
        member = state.member(change.member)
        if member is None:
            return state
        cookie = make_cookie(change.action)
        if change.kind == MIRROR:
            return state.with_member(change.member, {"mirrors": f"{member.detail('mirrors')} {mirror_name(cookie)}"})
        ours = " ".join([f"{cookie:#018x}"] * len(self.settings.flows))
        meter = f" {make_meter(cookie)}={self._rate(change)}/{self.settings.burst}" if change.kind == LIMIT else ""
        after = {"flows": f"{member.detail('flows')} {ours}", "meters": member.detail("meters") + meter}
        return state.with_member(change.member, after)

    def find_standing(self, change: Change, before: MemberState, state: TargetState) -> str:  # noqa: ARG002
        """Returns where a change stands: OURS when all of it is there, ABSENT when none or some of it is."""
        member = state.member(change.member)
        if member is None:
            return FOREIGN
        cookie = make_cookie(change.action)
        if change.kind == MIRROR:
            return OURS if mirror_name(cookie) in member.detail("mirrors").split() else ABSENT
        there = _count_flows(member, cookie) >= len(self.settings.flows)
        metered = change.kind != LIMIT or self._owns_meter(change, cookie, member)
        return OURS if there and metered else ABSENT

    async def make_call(self, call: Call) -> None:
        """Gives one order and waits for its result."""
        assert isinstance(call, OrderCall)
        await self.book.give(call.operation, dict(call.parameters), self.settings.common.timeout)

    async def read_work(self) -> Mapping[str, float]:
        """Returns the bytes that entered the switch at each port."""
        ports = parse_ports(await self._give("dump-ports"))
        return {port: ports[port] for port in self.members.values() if port in ports}

    async def probe(self, member: str) -> float | None:  # noqa: ARG002 - the protocol's
        """Returns None: a port does no work of its own."""
        return None

    async def _give(self, operation: str) -> str:
        return await self.book.give(operation, {"bridge": self.settings.bridge}, self.settings.common.timeout)

    def _order(self, operation: str, given: Mapping[str, str]) -> OrderCall:
        parameters = {"bridge": self.settings.bridge, **given}
        return OrderCall(self.settings.node, operation, tuple(sorted(parameters.items())))


def make_cookie(action: str) -> int:
    """Returns the cookie of an action: our 16 bits, then 48 of the SHA-256 of its id."""
    return OWNER | int.from_bytes(hashlib.sha256(action.encode()).digest()[:6], "big")


def make_meter(cookie: int) -> int:
    """Returns the number of the meter of a cookie."""
    return FIRST_METER + cookie % METERS


def _count_flows(member: MemberState, cookie: int) -> int:
    return member.detail("flows").split().count(f"{cookie:#018x}")
