"""HAProxy: weights and drains of servers, through its stats socket (`stats socket PATH level admin`).

HAProxy keeps no owner marks and forgets changes of the socket when it restarts. A change is ours while the server is in
the very state that the action gave it. Tested with HAProxy 2.6.
"""

import csv
import io
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from skewscope.adapters.sources.common.http_client import FetchOptions
from skewscope.adapters.targets.common.answers import parse_count
from skewscope.adapters.targets.common.base import TargetError
from skewscope.adapters.targets.common.calls import Call, SocketCall
from skewscope.adapters.targets.common.probe import ProbeSettings, measure_probe
from skewscope.adapters.targets.common.settings import (
    COMMON_FIELDS,
    PROBE_FIELDS,
    NamedTarget,
    TargetSettings,
    read_common,
    read_probe,
)
from skewscope.adapters.targets.common.transports import send_line, show
from skewscope.engine.actions.change import (
    ABSENT,
    DEWEIGHT,
    DRAIN,
    FOREIGN,
    OURS,
    Change,
    ChangeSupport,
    MemberState,
    TargetState,
)
from skewscope.engine.actions.comparison import MemberLoad
from skewscope.kb.field_reader import FieldReader
from skewscope.kb.yamlfile import FieldPath

RUN_FIELDS = ("Pid", "Start_time_sec")
"""Fields of `show info` that are others after a restart or a reload, which forget what the socket changed. Versions
before 2.8 have the first one only."""
RUNNING = "2"
"""`srv_op_state` of a server that is up."""
FORCED_MAINT, FORCED_DRAIN = 0x01, 0x08
"""Bits of `srv_admin_state` (management guide, section "show servers state")."""
NOT_SERVING = 0x3F
"""All bits of `srv_admin_state` of maintenance and drain."""


@dataclass(frozen=True, slots=True)
class HaproxySettings:
    """Settings of one backend of one HAProxy."""

    common: TargetSettings
    socket: str
    backend: str
    probe: ProbeSettings | None = None


def read(fields: FieldReader, at: FieldPath, name: str) -> HaproxySettings:
    """Parses the settings of one entry; problems are added to `fields`."""
    fields.check_keys(at, ("kind", "socket", "backend", "members"), (*COMMON_FIELDS, *PROBE_FIELDS))
    common = read_common(fields, at, name)
    for entity, member in common.members:
        if not all(c.isalnum() or c in "-_.:" for c in member):
            fields.add_problem((*at, "members", entity), f"{member!r:.80}", "the name of a server of the backend")
    return HaproxySettings(
        common,
        str(Path(fields.document.file).parent / fields.required_text((*at, "socket"))),
        fields.required_text((*at, "backend"), without=" ;/\\"),
        read_probe(fields, at),
    )


def build(settings: HaproxySettings) -> "HaproxyTarget":
    """Creates the target."""
    return HaproxyTarget(settings)


@dataclass
class HaproxyTarget(NamedTarget):
    """One backend of one HAProxy."""

    settings: HaproxySettings
    support: Mapping[str, ChangeSupport] = field(
        default_factory=lambda: {DEWEIGHT: ChangeSupport(), DRAIN: ChangeSupport()}
    )

    async def read_state(self) -> TargetState:
        """Returns the state of all servers of the backend."""
        answer = await self._send(f"show servers state {self.settings.backend}")
        return replace(parse_servers(answer), run=await self._read_run())

    async def _read_run(self) -> str:
        """Returns which process of HAProxy answers, and when it began; '' where it does not say."""
        try:
            answer = await send_line(SocketCall(self.settings.socket, "show info"), self.settings.common.timeout)
        except TargetError:
            return ""
        lines = [line.partition(":") for line in answer.splitlines()]
        return " ".join(value.strip() for name, _, value in lines if name in RUN_FIELDS)

    def render_change(self, change: Change, state: TargetState) -> tuple[Call, ...]:
        """Returns the lines that lower a weight or drain a server."""
        member = self._member(change, state)
        if change.kind == DEWEIGHT:
            weight = lower_weight(member, change.share)
            if weight >= (member.weight or 0.0):
                found = f"{change.member} has the weight {member.weight:.0f}, which cannot be lowered"
                raise TargetError(f"{self.name}: {found}: give each server a weight of 100")
            return (self._set(change.member, f"weight {weight:.0f}"),)
        if change.kind == DRAIN:
            drained = int(member.detail("admin")) & FORCED_DRAIN
            return () if drained else (self._set(change.member, "state drain"),)
        raise TargetError(f"{self.name}: HAProxy cannot {change.kind}")

    def render_undo(self, change: Change, before: MemberState, state: TargetState) -> tuple[Call, ...]:
        """Returns the line that gives a server its former weight, or new connections again."""
        if self.find_standing(change, before, state) != OURS:
            return ()
        if change.kind == DEWEIGHT:
            return (self._set(change.member, f"weight {before.weight:.0f}"),)
        return (self._set(change.member, "state ready"),)

    def predict(self, change: Change, state: TargetState) -> TargetState:
        """Returns the state with the lower weight, or with the bit of a drain."""
        member = self._member(change, state)
        if change.kind == DEWEIGHT:
            return state.with_member(change.member, weight=lower_weight(member, change.share))
        admin = str(int(member.detail("admin")) | FORCED_DRAIN)
        return state.with_member(change.member, {"admin": admin}, serving=False)

    def find_standing(self, change: Change, before: MemberState, state: TargetState) -> str:
        """Returns where a change stands: by weight, or by the bits of a forced state."""
        member = state.member(change.member)
        if member is None:
            return FOREIGN
        if change.kind == DEWEIGHT:
            now, was, wanted = member.weight, before.weight, lower_weight(before, change.share)
        else:
            now, was = (int(m.detail("admin")) & (FORCED_DRAIN | FORCED_MAINT) for m in (member, before))
            wanted = FORCED_DRAIN
        # What was so before is not ours.
        return ABSENT if now == was else OURS if now == wanted else FOREIGN

    async def make_call(self, call: Call) -> None:
        """Sends one line; HAProxy answers with an empty line, or with what is wrong."""
        assert isinstance(call, SocketCall)
        answer = (await send_line(call, self.settings.common.timeout)).strip()
        if answer:
            raise TargetError(f"{call.line}: {show(answer)}")

    async def read_work(self) -> Mapping[str, float]:
        """Returns the sessions given to each server so far (`stot`)."""
        return {name: done + under_way for name, (done, under_way) in (await self._read_sessions()).items()}

    async def read_load(self) -> Mapping[str, MemberLoad]:
        """Returns the sessions that each server has ended, and those that it has (`stot`, `scur`)."""
        return {name: MemberLoad(*counts) for name, counts in (await self._read_sessions()).items()}

    async def _read_sessions(self) -> dict[str, tuple[float, float]]:
        return parse_sessions(await self._send("show stat"), self.settings.backend)

    async def probe(self, member: str) -> float | None:
        """Returns the seconds of a probe of a server; None without `probe` in the config."""
        if self.settings.probe is None:
            return None
        found = (await self.read_state()).member(member)
        if found is None:
            raise TargetError(f"{self.name}: no server {member!r}")
        return await measure_probe(self.settings.probe, f"http://{found.detail('address')}", FetchOptions())

    def _member(self, change: Change, state: TargetState) -> MemberState:
        member = state.member(change.member)
        if member is None:
            raise TargetError(f"{self.name}: the backend {self.settings.backend} has no server {change.member!r}")
        return member

    def _set(self, server: str, what: str) -> SocketCall:
        return SocketCall(self.settings.socket, f"set server {self.settings.backend}/{server} {what}")

    async def _send(self, line: str) -> str:
        answer = await send_line(SocketCall(self.settings.socket, line), self.settings.common.timeout)
        if not answer.startswith(("1\n", "# ")):
            raise TargetError(f"{line}: {show(answer)}")
        return answer


def parse_sessions(text: str, backend: str) -> dict[str, tuple[float, float]]:
    """Returns the sessions of each server of a backend from `show stat`: those that ended, and those under way.

    Raises:
        TargetError: a column or a value is missing, or is no number.
    """
    found: dict[str, tuple[float, float]] = {}
    try:
        for row in csv.DictReader(io.StringIO(text.removeprefix("# ").strip())):
            if row["pxname"] == backend and row["svname"] not in ("FRONTEND", "BACKEND"):
                total, now = (parse_count(row[key], f"show stat: {key} of {row['svname']}") for key in ("stot", "scur"))
                found[row["svname"]] = max(total - now, 0.0), now
    except (KeyError, csv.Error) as error:
        raise TargetError(f"show stat: an answer that cannot be read: {error}") from None
    return found


def lower_weight(member: MemberState, share: float) -> float:
    """Returns the whole weight, at least 1, that is nearest to a share of a member's weight."""
    return float(max(round((member.weight or 0.0) * share), 1))


def parse_servers(text: str) -> TargetState:
    """Returns the servers of `show servers state`, version 1.

    Raises:
        TargetError: a column is missing, or a value is no number.
    """
    lines = text.splitlines()
    names = lines[1].removeprefix("# ").split() if len(lines) > 1 else []
    found: dict[str, MemberState] = {}
    try:
        for line in lines[2:]:
            if not line.strip():
                continue
            row = dict(zip(names, line.split(), strict=True))
            admin = int(row["srv_admin_state"])
            host = f"[{row['srv_addr']}]" if ":" in row["srv_addr"] else row["srv_addr"]
            found[row["srv_name"]] = MemberState(
                row["srv_name"],
                row["srv_op_state"] == RUNNING and not admin & NOT_SERVING,
                parse_count(row["srv_uweight"], "srv_uweight"),
                details=(("address", f"{host}:{row['srv_port']}"), ("admin", str(admin))),
            )
    except (KeyError, ValueError) as error:
        raise TargetError(f"show servers state: an answer that cannot be read: {error}") from None
    return TargetState(found)
