"""Slurm: drains of nodes, requeues of their jobs, and weights of nodes, by `scontrol` or over slurmrestd.

The owner mark is the beginning of a node's reason, `skewscope:ACTION`, and for a weight its value. Only a node that
carries the mark of an action is resumed by it. slurmrestd is used where its OpenAPI description has a POST for nodes
(since data parser v0.0.40); it cannot requeue, which always takes `scontrol`. Tested with Slurm 22.05.
"""

import asyncio
import json
import re
import time
import zlib
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from skewscope.adapters.config.fields import read_number, read_path
from skewscope.adapters.sources.common.http_client import FetchOptions
from skewscope.adapters.targets.common import slurm_state
from skewscope.adapters.targets.common.base import BusyError, ConflictError, TargetError
from skewscope.adapters.targets.common.calls import Call, CommandCall, HttpCall
from skewscope.adapters.targets.common.owner_mark import write_mark
from skewscope.adapters.targets.common.probe import ProbeSettings
from skewscope.adapters.targets.common.settings import (
    COMMON_FIELDS,
    HTTP_FIELDS,
    NamedTarget,
    TargetSettings,
    read_base_url,
    read_common,
    read_http_options,
)
from skewscope.adapters.targets.common.slurm_state import DOWN, GIVEN_UP, SILENT, SlurmJob, flags_of
from skewscope.adapters.targets.common.transports import pick_environment, request_ok, run_command
from skewscope.engine.actions.change import (
    ABSENT,
    DEWEIGHT,
    DRAIN,
    FOREIGN,
    OURS,
    REQUEUE,
    Change,
    ChangeSupport,
    MemberState,
    TargetState,
)
from skewscope.kb.field_reader import FieldReader
from skewscope.kb.yamlfile import FieldPath

NODE = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,63}")
"""A single node: no list, no range, no option."""
RESERVED = frozenset({"all", "allnodes", "default"})
"""Names that stand for more than one node."""
WRITABLE = re.compile(r"/slurm/(?P<version>v\d{1,3}\.\d{1,3}\.\d{1,3})/node/\{node_name\}")
MAX_DESCRIPTION = 32 << 20
"""Bytes of an OpenAPI description: it repeats every type for each version of the API."""
SLURM_VARIABLES = ("SLURM_CONF", "SLURM_CLUSTERS")
"""Variables that the programs of Slurm, and that of a probe, get besides; those of Slurm also get SLURM_JWT."""
MAX_JOBS = 100
"""Jobs that one action requeues."""
MARKED_WEIGHTS, MARKS = 4_000_000_000, 200_000_000
"""A weight of ours is one of MARKS values from here: above all in use, below the maximum of 2^32 - 2."""
USUAL_KILL_WAIT = 30
"""KillWait of Slurm, s: processes that ignore SIGTERM are killed after it."""
SRUN_PATIENCE = 8
"""Seconds beyond KillWait until the srun of an ended step has given up. When tasks on a dead node do not answer, it
cancels the step by its number after KillWait and 2 s, and with it a step of the same number of a job that has started
again by then (seen with Slurm 22.05)."""
KILL_WAIT = re.compile(r"^KillWait\s*=\s*(\d{1,5}) sec", re.MULTILINE)
START_DELAY = 10
"""Seconds until a requeued job may start again. A node that has ended a job refuses its credential if that is not from
a later second, by clocks that may differ, and Slurm then ends the job for good (seen with Slurm 22.05); Slurm's own
delay of two minutes has the same purpose."""
REQUEUE_WAIT, REQUEUE_STEP = 30.0, 0.4
"""Seconds to wait until a requeued job has left its nodes, and between two looks. A node that holds it longer is set
down, which ends what is left there: Slurm would wait for SlurmdTimeout (300 s) where a node does not answer."""
START_UPDATES = 4
"""Times that a start is set while a job is pending: Slurm sets its own, in two minutes, after the job is listed so."""
SUPPORT = {
    DEWEIGHT: ChangeSupport(note="Slurm knows no shares: jobs are placed on the node only when no other one is free"),
    DRAIN: ChangeSupport(),
    REQUEUE: ChangeSupport(
        note="drains the node and starts its batch jobs again elsewhere, from their last checkpoint; jobs whose users "
        "forbid it go on; the undo resumes the node, it moves no job back"
    ),
}


@dataclass(frozen=True, slots=True)
class SlurmSettings:
    """Settings of one cluster."""

    common: TargetSettings
    conf: str = ""
    """A slurm.conf; '' for the one of the system."""
    rest: str = ""
    """Address of slurmrestd; '' to use the commands alone."""
    options: FetchOptions = field(default_factory=FetchOptions)
    probe: tuple[str, ...] = ()
    """Program and arguments that check a node, whose name is added: it does work of a fixed size there, and ends with
    another code than 0 where the node is not well."""
    probe_timeout: float = ProbeSettings.timeout


def read(fields: FieldReader, at: FieldPath, name: str) -> SlurmSettings:
    """Parses the settings of one entry; problems are added to `fields`."""
    fields.check_keys(at, ("kind", "members"), (*COMMON_FIELDS, *HTTP_FIELDS, "conf", "rest", "probe"))
    common = read_common(fields, at, name)
    for entity, member in common.members:
        if not NODE.fullmatch(member) or member.lower() in RESERVED:
            fields.add_problem((*at, "members", entity), f"{member!r:.80}", "the NodeName of one node")
    rest = read_base_url(fields, (*at, "rest")) if fields.value_at((*at, "rest")) is not None else ""
    probe = (*at, "probe")
    if fields.value_at(probe) is not None:
        fields.check_keys(probe, ("command",), ("timeout",))
    return SlurmSettings(
        common,
        read_path(fields, (*at, "conf")),
        rest,
        read_http_options(fields, at, common.timeout),
        fields.texts((*probe, "command")),
        read_number(fields, (*probe, "timeout"), ProbeSettings.timeout, (0.1, 120.0)),
    )


def build(settings: SlurmSettings) -> "SlurmTarget":
    """Creates the target."""
    return SlurmTarget(settings)


@dataclass
class SlurmTarget(NamedTarget):
    """The nodes of one cluster."""

    settings: SlurmSettings
    support: Mapping[str, ChangeSupport] = field(default_factory=lambda: SUPPORT)
    _api: str | None = None
    """Base of the URLs that slurmrestd writes nodes by; '' where it cannot; None before it was asked."""
    _reads_with_scontrol: bool | None = None
    """Whether `scontrol show nodes --json` exists (since 23.02); None before it was tried."""
    _kill_wait: int | None = None
    """KillWait of the cluster, s; None before it was needed."""
    _given: dict[str, float] = field(default_factory=dict)
    _seen: set[tuple[int, int, str]] = field(default_factory=set)

    async def read_state(self) -> TargetState:
        """Returns the state of all nodes, with the jobs that run on them."""
        api = await self._find_api()
        nodes = await self._read(f"{api}/nodes/") if api else await self._read_nodes()
        state = slurm_state.parse_nodes(slurm_state.read_items(nodes, "nodes"), await self._read_jobs())
        if self._kill_wait is None and any(SILENT in flags_of(m) and m.detail("jobs") for m in state.members.values()):
            match = KILL_WAIT.search(await self._run("scontrol", "show", "config"))
            self._kill_wait = int(match[1]) if match else USUAL_KILL_WAIT
        return state

    def render_change(self, change: Change, state: TargetState) -> tuple[Call, ...]:
        """Returns the calls that weigh a node down, drain it, or drain it and requeue its jobs."""
        member = self._member(change, state)
        if change.kind == DEWEIGHT:
            weight = mark_weight(change.action)
            return () if member.weight == weight else (self._update(change.member, weight=weight),)
        if change.kind not in (DRAIN, REQUEUE):
            raise TargetError(f"{self.name}: Slurm cannot {change.kind}")
        reason = write_mark(change.action, change.reason)
        drained = slurm_state.DRAIN in flags_of(member)
        calls = [] if drained else [self._update(change.member, "DRAIN", reason)]
        if change.kind == REQUEUE:
            calls += self._requeue(change.member, member, change.action, reason)
        return tuple(calls)

    def _requeue(self, node: str, member: MemberState, action: str, reason: str) -> list[Call]:
        """Returns the calls that start the jobs of a drained node again.

        Jobs that were requeued in an earlier try and still hold the node are on a node that does not answer.
        """
        jobs = [job for job in member.detail("jobs").split(",") if job]
        if len(jobs) > MAX_JOBS:
            raise TargetError(f"{self.name}: {node} runs {len(jobs)} jobs; at most {MAX_JOBS} are requeued")
        calls: list[Call] = [CommandCall(("scontrol", "requeue", job)) for job in jobs]
        leaving = [job for job in member.detail("leaving").split(",") if job] if member.owner == action else []
        jobs += leaving
        delay = START_DELAY
        if leaving or (jobs and SILENT in flags_of(member)):
            # A job leaves a node that does not answer only when the node is down: by itself after SlurmdTimeout.
            calls += [] if DOWN in flags_of(member) else [self._update(node, "DOWN", reason)]
            delay = (self._kill_wait or USUAL_KILL_WAIT) + SRUN_PATIENCE
        start = f"starttime=now+{delay}"
        return [*calls, *(CommandCall(("scontrol", "update", f"jobid={job}", start)) for job in jobs)]

    def render_undo(self, change: Change, before: MemberState, state: TargetState) -> tuple[Call, ...]:
        """Returns the call that resumes a node that carries our mark, or gives it its former weight."""
        member = state.member(change.member)
        if member is None:
            return ()
        if change.kind == DEWEIGHT:
            ours = member.weight == mark_weight(change.action)
            return (self._update(change.member, weight=int(before.weight or 1)),) if ours else ()
        if member.owner != change.action:
            return ()
        if {SILENT, DOWN} <= flags_of(member):
            # Its daemon is dead: resumed, it would be given jobs. Slurm takes it back when it answers.
            return (self._update(change.member, "UNDRAIN", GIVEN_UP),)
        return (self._update(change.member, "RESUME"),)

    def predict(self, change: Change, state: TargetState) -> TargetState:
        """Returns the state with our weight, or with our mark on a drained node."""
        if change.kind == DEWEIGHT:
            return state.with_member(change.member, weight=mark_weight(change.action))
        return state.with_member(change.member, {"jobs": "", "leaving": ""}, serving=False, owner=change.action)

    def find_standing(self, change: Change, before: MemberState, state: TargetState) -> str:
        """Returns where a change stands: by the mark in the reason, or the marked weight."""
        member = state.member(change.member)
        if member is None:
            return FOREIGN
        if change.kind == DEWEIGHT:
            if member.weight == mark_weight(change.action):
                return OURS
            return ABSENT if member.weight == before.weight else FOREIGN
        if member.owner != change.action:
            # A node that a person has set down is theirs too.
            theirs = DOWN in flags_of(member) and not member.detail("reason").startswith(GIVEN_UP)
            return FOREIGN if theirs or {slurm_state.DRAIN, "FAIL"} & flags_of(member) else ABSENT
        waits = change.kind == REQUEUE and (member.detail("jobs") or member.detail("leaving"))
        return ABSENT if waits else OURS

    async def make_call(self, call: Call) -> None:
        """Makes one call."""
        if isinstance(call, HttpCall):
            answer = await request_ok(call, self._options())
            slurm_state.check_errors(_parse_json(answer.body))
            return
        assert isinstance(call, CommandCall)
        if call.arguments[1] == "requeue":
            await self._make_requeue(call)
        elif call.arguments[-1].startswith("starttime="):
            await self._start_again(call)
        else:
            await self._make_update(call)

    async def _make_update(self, call: CommandCall) -> None:
        try:
            await self._run(*call.arguments)
        except TargetError as error:
            # A node is not resumed before it has registered with a slurmctld that has just started.
            if "Invalid node state" in str(error):
                raise BusyError(str(error)) from None
            raise

    async def _make_requeue(self, call: CommandCall) -> None:
        try:
            await self._run(*call.arguments)
        except TargetError as error:
            # It may have ended meanwhile: the next reading tells.
            raise ConflictError(str(error)) from None

    async def _start_again(self, call: CommandCall) -> None:
        """Lets a requeued job start at once, when it has left its nodes; otherwise Slurm waits for two minutes."""
        job = call.arguments[2].removeprefix("jobid=")
        deadline, updates = time.monotonic() + REQUEUE_WAIT, 0
        while time.monotonic() < deadline and updates < START_UPDATES:
            states = (await self._run("squeue", "--noheader", "--jobs", job, "--format=%T")).split()
            if states == ["PENDING"]:
                await self._run(*call.arguments)
                updates += 1
            elif states != ["COMPLETING"]:
                return
            await asyncio.sleep(REQUEUE_STEP)
        if not updates:
            raise BusyError(f"{self.name}: the job {job} has not left its nodes within {REQUEUE_WAIT:g} s")

    async def read_work(self) -> Mapping[str, float]:
        """Returns the jobs that started on each node while this target was read.

        Slurm itself counts none. A job stays listed for MinJobAge (300 s by default), so none is missed between two
        readings that are closer than that.
        """
        jobs = await self._read_jobs()
        started = {(job.job, job.start, node) for job in jobs if job.start for node in job.nodes if job.is_active}
        for _job, _start, node in started - self._seen:
            self._given[node] = self._given.get(node, 0.0) + 1
        listed = {(job.job, job.start) for job in jobs}
        self._seen = {one for one in self._seen if one[:2] in listed} | started
        return {member: self._given.get(member, 0.0) for member in self.members.values()}

    async def probe(self, member: str) -> float | None:
        """Returns the seconds that the program of `probe` takes for a node; None where none is configured.

        Slurm itself gives no job to a drained node.
        """
        if not self.settings.probe:
            return None
        begun = time.monotonic()
        call = CommandCall((*self.settings.probe, member))
        await run_command(call, self.settings.probe_timeout, self._environment())
        return time.monotonic() - begun

    def _member(self, change: Change, state: TargetState) -> MemberState:
        member = state.member(change.member)
        if member is None or not NODE.fullmatch(change.member):
            raise TargetError(f"{self.name}: the cluster has no node {change.member!r:.80}")
        return member

    def _update(self, node: str, state: str = "", reason: str = "", weight: int = 0) -> Call:
        """Returns the call that changes a node."""
        if self._api:
            body: dict[str, object] = {"state": [state]} if state else {}
            body |= {"reason": reason} if reason else {}
            body |= {"weight": {"set": True, "infinite": False, "number": weight}} if weight else {}
            return HttpCall("POST", f"{self._api}/node/{node}", json.dumps(body))
        words = [f"state={state.lower()}"] if state else []
        words += [f"reason={reason}"] if reason else []
        words += [f"weight={weight}"] if weight else []
        return CommandCall(("scontrol", "update", f"nodename={node}", *words))

    # --- readings

    async def _find_api(self) -> str:
        """Returns the base of the URLs of slurmrestd; '' where it is not configured or cannot change nodes."""
        if self._api is None and self.settings.rest:
            url = f"{self.settings.rest}/openapi/v3"
            answer = await request_ok(HttpCall("GET", url), replace(self._options(), max_bytes=MAX_DESCRIPTION))
            version = find_writable_version(_parse_json(answer.body))
            self._api = f"{self.settings.rest}/slurm/{version}" if version else ""
        return self._api or ""

    async def _read(self, url: str) -> str:
        answer = await request_ok(HttpCall("GET", url), self._options())
        return answer.body.decode(errors="replace")

    async def _read_nodes(self) -> str:
        if self._reads_with_scontrol is not False:
            try:
                text = await self._run("scontrol", "show", "nodes", "--json")
            except TargetError as error:
                if self._reads_with_scontrol or "unrecognized option" not in str(error):
                    raise
            else:
                self._reads_with_scontrol = True
                return text
            self._reads_with_scontrol = False
        return await self._run("sinfo", "--json")

    async def _read_jobs(self) -> list[SlurmJob]:
        api = await self._find_api()
        text = await self._read(f"{api}/jobs/") if api else await self._run("squeue", "--json")
        return slurm_state.parse_jobs(slurm_state.read_items(text, "jobs"))

    def _options(self) -> FetchOptions:
        return self.settings.options

    async def _run(self, *arguments: str) -> str:
        environment = self._environment("SLURM_JWT") | {"LC_ALL": "C"}
        return await run_command(CommandCall(arguments), self.settings.common.timeout, environment)

    def _environment(self, *names: str) -> dict[str, str]:
        conf = {"SLURM_CONF": self.settings.conf} if self.settings.conf else {}
        return pick_environment(*SLURM_VARIABLES, *names) | conf


def mark_weight(action: str) -> int:
    """Returns the weight that marks a node as weighed down by an action."""
    return MARKED_WEIGHTS + zlib.crc32(action.encode()) % MARKS


def find_writable_version(description: object) -> str:
    """Returns the newest version of the API that can change nodes; '' for none.

    Raises:
        TargetError: this is no OpenAPI description.
    """
    paths = description.get("paths") if isinstance(description, dict) else None
    if not isinstance(paths, dict):
        raise TargetError("slurmrestd: an OpenAPI description without paths")
    found = [
        match["version"]
        for path, methods in paths.items()
        if (match := WRITABLE.fullmatch(str(path).rstrip("/"))) and isinstance(methods, dict) and "post" in methods
    ]
    return max(found, key=lambda version: [int(part) for part in version[1:].split(".")], default="")


def _parse_json(body: bytes) -> object:
    try:
        return json.loads(body)
    except (ValueError, RecursionError):
        raise TargetError("slurmrestd: an answer that is no JSON") from None
