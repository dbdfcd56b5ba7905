"""Ray Serve: a node is drained with the program `ray`, so that its replicas start again on other nodes.

A drain cannot be undone: once its replicas have moved, at its deadline at the latest, the node ends, and somebody
starts another. Ray reports no drain while it goes on, so its state is known by the replicas on the node: one that waits
to be moved still gets requests, until there is room elsewhere. Once the node has ended, its state holds our mark.
Requests are balanced by Ray alone: there are no weights, and the number of replicas is per deployment, not per node.
Tested with Ray 2.60.
"""

import asyncio
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from skewscope.adapters.config.fields import read_number
from skewscope.adapters.sources.common.http_client import FetchOptions
from skewscope.adapters.targets.common.answers import parse_count, parse_json
from skewscope.adapters.targets.common.base import TargetError
from skewscope.adapters.targets.common.calls import Call, CommandCall, HttpCall
from skewscope.adapters.targets.common.counters import sum_by_label
from skewscope.adapters.targets.common.marks import OWNER, check_action
from skewscope.adapters.targets.common.settings import (
    COMMON_FIELDS,
    HTTP_FIELDS,
    NamedTarget,
    TargetSettings,
    read_base_url,
    read_common,
    read_http_options,
)
from skewscope.adapters.targets.common.transports import pick_environment, request_ok, run_command, show
from skewscope.engine.actions.change import (
    ABSENT,
    DRAIN,
    FOREIGN,
    OURS,
    Change,
    ChangeSupport,
    MemberState,
    TargetState,
)
from skewscope.kb.field_reader import FieldReader
from skewscope.kb.yamlfile import FieldPath

NODES, APPLICATIONS = "/api/v0/nodes?detail=1&limit=10000", "/api/serve/applications/"
RUNNING, MIGRATING = "RUNNING", "PENDING_MIGRATION"
"""States of replicas that get requests; the second is on a node that is drained."""
NODE_ID = re.compile(r"[0-9a-f]{1,100}")
"""It becomes an argument of a command."""
REASON = "DRAIN_NODE_REASON_PREEMPTION"
"""The reason that Ray does not refuse; the other, idleness, it may."""
DEFAULT_DEADLINE = 600.0
COMMAND_SECONDS = 30.0
"""The program loads Ray first, which takes five seconds."""
RAY_VARIABLES = (
    *("RAY_AUTH_MODE", "RAY_AUTH_TOKEN", "RAY_AUTH_TOKEN_PATH", "RAY_USE_TLS"),
    *("RAY_TLS_SERVER_CERT", "RAY_TLS_SERVER_KEY", "RAY_TLS_CA_CERT"),
)
"""Variables by which the program proves who it is to its own cluster."""
WORK_METRICS = ("ray_serve_deployment_request_counter_total",)
MAX_PAGES = 1000
NOTE = "a drain cannot be undone: at its deadline the node ends, and another has to be started"


@dataclass(frozen=True, slots=True)
class RayServeSettings:
    """Settings of the nodes of one cluster."""

    common: TargetSettings
    dashboard: str
    address: str
    """HOST:PORT of the global control service."""
    command: str = "ray"
    deadline: float = DEFAULT_DEADLINE
    """Seconds after which a drained node ends."""
    options: FetchOptions = field(default_factory=FetchOptions)
    metrics: tuple[str, ...] = ()
    """Metrics pages of the nodes."""


def read(fields: FieldReader, at: FieldPath, name: str) -> RayServeSettings:
    """Parses the settings of one entry; problems are added to `fields`."""
    optional = ("command", "deadline", "metrics", *COMMON_FIELDS, *HTTP_FIELDS)
    fields.check_keys(at, ("kind", "dashboard", "address", "members"), optional)
    common = read_common(fields, at, name)
    for key in ("address", "command"):
        text = fields.text((*at, key))
        if text.startswith("-") or not text.isprintable() or " " in text:
            fields.add_problem((*at, key), f"{text!r:.80}", "an address" if key == "address" else "a program")
    return RayServeSettings(
        common,
        read_base_url(fields, (*at, "dashboard")),
        fields.required_text((*at, "address")),
        fields.text((*at, "command")) or "ray",
        read_number(fields, (*at, "deadline"), DEFAULT_DEADLINE, (1.0, 86400.0)),
        read_http_options(fields, at, common.timeout),
        tuple(read_base_url(fields, item) for item in fields.item_paths((*at, "metrics"), MAX_PAGES)),
    )


def build(settings: RayServeSettings) -> "RayServeTarget":
    """Creates the target."""
    return RayServeTarget(settings)


@dataclass
class RayServeTarget(NamedTarget):
    """The nodes of one cluster."""

    settings: RayServeSettings
    support: Mapping[str, ChangeSupport] = field(default_factory=lambda: {DRAIN: ChangeSupport(False, NOTE)})

    async def read_state(self) -> TargetState:
        """Returns the state of the nodes that the config names."""
        nodes, replicas = await asyncio.gather(self._fetch(NODES), self._fetch(APPLICATIONS))
        states: dict[str, set[str]] = {}
        for node, state, _ in list_replicas(replicas):
            states.setdefault(node, set()).add(state)
        found = list_nodes(nodes)
        return TargetState({member: to_member(member, found, states) for member in self.members.values()})

    def render_change(self, change: Change, state: TargetState) -> tuple[Call, ...]:
        """Returns the command that drains a node."""
        member = state.member(change.member)
        if member is None or not member.detail("node"):
            raise TargetError(f"{self.name}: Ray has no node {change.member!r} that is alive")
        if change.kind != DRAIN:
            raise TargetError(f"{self.name}: Ray cannot {change.kind}")
        if not member.serving or member.detail("moves") == "yes":
            return ()
        reason = ("--reason", REASON, "--reason-message", f"{OWNER}:{check_action(change)} {change.reason}".strip())
        where = ("--address", self.settings.address, "--node-id", member.detail("node"))
        deadline = ("--deadline-remaining-seconds", f"{self.settings.deadline:.0f}")
        return (CommandCall((self.settings.command, "drain-node", *where, *reason, *deadline)),)

    def render_undo(self, change: Change, before: MemberState, state: TargetState) -> tuple[Call, ...]:  # noqa: ARG002
        """Returns nothing: a drain cannot be undone."""
        return ()

    def predict(self, change: Change, state: TargetState) -> TargetState:
        """Returns the state with a node that gets no requests."""
        return state.with_member(change.member, serving=False, owner=change.action)

    def find_standing(self, change: Change, before: MemberState, state: TargetState) -> str:
        """Returns where a change stands: by the replicas on the node, and by our mark once the node has ended."""
        member = state.member(change.member)
        if member is None or not before.serving:
            return FOREIGN
        if member.serving:
            return ABSENT
        if member.detail("node"):
            return OURS if member.detail("node") == before.detail("node") else FOREIGN
        return OURS if member.owner == change.action else FOREIGN

    async def make_call(self, call: Call) -> None:
        """Runs the command; it returns before any replica has moved."""
        assert isinstance(call, CommandCall)
        seconds = max(self.settings.common.timeout, COMMAND_SECONDS)
        await run_command(call, seconds, pick_environment(*RAY_VARIABLES))

    async def read_work(self) -> Mapping[str, float]:
        """Returns the requests of the replicas that run on each node, by the metrics pages of the nodes that answer."""
        if not self.settings.metrics:
            return {}
        state, replicas = await asyncio.gather(self.read_state(), self._fetch(APPLICATIONS))
        node_of = {replica: node for node, _, replica in list_replicas(replicas)}
        member_of = {m.detail("node"): m.member for m in state.members.values() if m.detail("node")}
        found = dict.fromkeys(member_of.values(), 0.0)
        answered = await asyncio.gather(*map(self._read_page, self.settings.metrics))
        pages = [page for page in answered if page is not None]
        if not pages:
            raise TargetError(f"{self.name}: none of the {len(self.settings.metrics)} metrics pages answers")
        for page in pages:
            for replica, count in sum_by_label(page, WORK_METRICS, "replica").items():
                member = member_of.get(node_of.get(replica.rpartition("#")[2], ""))
                if member is not None:
                    found[member] += count
        return found

    async def _read_page(self, url: str) -> bytes | None:
        """Returns a metrics page; None where it is silent, as that of a node that has ended is."""
        try:
            return (await request_ok(HttpCall("GET", url), self.settings.options)).body
        except TargetError:
            return None

    async def probe(self, member: str) -> float | None:  # noqa: ARG002
        """Returns None: a drained node runs no replica."""
        return None

    async def _fetch(self, path: str) -> Any:
        call = HttpCall("GET", f"{self.settings.dashboard}{path}")
        answer = await request_ok(call, self.settings.options)
        return parse_json(answer.body, call.describe())


def to_member(member: str, nodes: list[dict[str, str]], states: Mapping[str, set[str]]) -> MemberState:
    """Returns the state of a node, named by its name, its address or its id; the newest of several that have ended.

    Args:
        member: the name.
        nodes: all nodes.
        states: states of the replicas on each node, by the id of the node.

    Raises:
        TargetError: the name stands for several nodes that are alive.
    """
    mine = [node for node in nodes if member in (node["name"], node["ip"], node["id"])]
    alive = [node for node in mine if node["state"] == "ALIVE"]
    if len(alive) > 1:
        raise TargetError(f"{member}: {len(alive)} nodes; write the name of a node (ray start --node-name)")
    if alive:
        found = states.get(alive[0]["id"], set())
        moves = "yes" if MIGRATING in found and RUNNING not in found else "no"
        details = (("moves", moves), ("node", alive[0]["id"]))
        return MemberState(member, bool(found & {RUNNING, MIGRATING}), details=details)
    ended = max(mine, key=lambda node: float(node["ended"]), default=None)
    mark = f"{OWNER}:"
    owner = ended["message"].partition(mark)[2].partition(" ")[0] if ended and mark in ended["message"] else ""
    return MemberState(member, serving=False, owner=owner)


def list_nodes(answer: Any) -> list[dict[str, str]]:
    """Returns id, name, ip, state, message and ended (ms) of each node of an answer of the state API.

    Raises:
        TargetError: the answer is something else.
    """
    try:
        rows = answer["data"]["result"]["result"]
        return [_read_node(row) for row in rows]
    except (KeyError, TypeError, AttributeError):
        raise TargetError(f"{NODES}: an answer without nodes") from None


def _read_node(row: Mapping[str, Any]) -> dict[str, str]:
    names = {"id": "node_id", "name": "node_name", "ip": "node_ip", "state": "state", "message": "state_message"}
    found = {key: str(row.get(name) or "") for key, name in names.items()}
    if not NODE_ID.fullmatch(found["id"]):
        raise TargetError(f"{NODES}: a node with the id {show(found['id'])!r:.80}")
    return {**found, "ended": str(parse_count(row.get("end_time_ms") or 0, "end_time_ms"))}


def list_replicas(answer: Any) -> Iterable[tuple[str, str, str]]:
    """Returns node, state and id of each replica of an answer of Serve.

    Raises:
        TargetError: the answer is something else.
    """
    try:
        return [
            (str(replica.get("node_id")), str(replica.get("state")), str(replica.get("replica_id")))
            for application in answer["applications"].values()
            for deployment in application["deployments"].values()
            for replica in deployment["replicas"]
        ]
    except (KeyError, TypeError, AttributeError):
        raise TargetError(f"{APPLICATIONS}: an answer without applications") from None
