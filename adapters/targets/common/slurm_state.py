"""Nodes and jobs as Slurm writes them in JSON.

That is `sinfo --json` and `squeue --json` of version 22.05, and the answers of slurmrestd and of the commands since
version 23.02, which wrap numbers and list states.
"""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from skewscope.adapters.discovery.slurm import expand_hosts
from skewscope.adapters.targets.common.base import TargetError
from skewscope.adapters.targets.common.owner_mark import read_mark
from skewscope.engine.actions.change import MemberState, TargetState

MOST_NUMBER = 2**63 - 1
MAX_ITEMS = 200_000
"""Nodes or jobs of one answer."""
DRAIN, DOWN, SILENT = "DRAIN", "DOWN", "NOT_RESPONDING"
NOT_SERVING = frozenset(
    {DRAIN, DOWN, SILENT, "ERROR", "FAIL", "FUTURE", "UNKNOWN", "MAINT", "MAINTENANCE", "INVAL", "INVALID_REG"}
    | {"POWERED_DOWN", "POWERING_DOWN", "POWER_DOWN", "POWER_DRAIN"}
)
"""States and flags of a node that is given no work."""
ACTIVE = frozenset({"RUNNING", "SUSPENDED"})
GIVEN_UP = "Not responding"
"""Reason that Slurm itself gives a node that is down since it does not answer."""


@dataclass(frozen=True, slots=True)
class SlurmJob:
    """A job, as far as a target needs it."""

    job: int
    """The id to requeue it by: that of the leader for a part of a heterogeneous job."""
    states: frozenset[str]
    nodes: tuple[str, ...]
    start: int
    """Seconds since 1970 at which it started, 0 before."""
    may_requeue: bool
    """Whether it is a batch job whose user allows that it starts again."""

    @property
    def is_active(self) -> bool:
        """Returns whether it holds its nodes and has not begun to end."""
        return bool(self.states & ACTIVE) and "COMPLETING" not in self.states

    @property
    def is_leaving(self) -> bool:
        """Returns whether it has ended, and still holds nodes that have not said so."""
        return "COMPLETING" in self.states


def flags_of(member: MemberState) -> frozenset[str]:
    """Returns the flags of a node for which it is given no work."""
    return frozenset(member.detail("flags").split(",")) - {""}


def read_items(text: str, name: str) -> list[Mapping[str, Any]]:
    """Returns the objects under a name of an answer.

    Raises:
        TargetError: it reports an error, or has another form.
    """
    try:
        answer = json.loads(text)
        check_errors(answer)
        items = answer[name]
        if not isinstance(items, list) or len(items) > MAX_ITEMS or not all(isinstance(one, dict) for one in items):
            raise TypeError(name)
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise TargetError(f"Slurm: an answer without {name}: {type(error).__name__} {error!s:.80}") from None
    return items


def check_errors(answer: Any) -> None:
    """Checks that an answer reports no error.

    Raises:
        TargetError: it does; Slurm reports errors with any status.
    """
    errors = answer.get("errors") if isinstance(answer, dict) else None
    if isinstance(errors, list) and errors:
        raise TargetError(f"Slurm: {json.dumps(errors[0])[:300]}")


def parse_nodes(items: Iterable[Mapping[str, Any]], jobs: Iterable[SlurmJob]) -> TargetState:
    """Returns the state of all nodes; the details of each name its flags, its reason and its jobs.

    Raises:
        TargetError: a node has another form.
    """
    jobs_of: dict[str, set[int]] = {}
    leaving: dict[str, set[int]] = {}
    for job in jobs:
        if job.may_requeue and (job.is_active or job.is_leaving):
            for node in job.nodes:
                (jobs_of if job.is_active else leaving).setdefault(node, set()).add(job.job)
    found = {}
    try:
        for item in items:
            name, reason = _text(item, "name"), _text(item, "reason")
            flags = _states(item.get("state"), item.get("state_flags"))
            details = {
                "flags": ",".join(sorted(flags & NOT_SERVING)),
                "jobs": ",".join(map(str, sorted(jobs_of.get(name, ())))),
                "leaving": ",".join(map(str, sorted(leaving.get(name, ())))),
                "reason": reason,
            }
            found[name] = MemberState(
                name,
                _is_serving(flags),
                float(_number(item.get("weight"))),
                read_mark(reason) if flags & {DRAIN, DOWN} else "",
                tuple(sorted(details.items())),
            )
    except (KeyError, TypeError, ValueError, OverflowError) as error:
        raise TargetError(f"Slurm: a node that cannot be read: {type(error).__name__} {error!s:.80}") from None
    return TargetState(found)


def parse_jobs(items: Iterable[Mapping[str, Any]]) -> list[SlurmJob]:
    """Returns all jobs.

    Raises:
        TargetError: a job has another form.
    """
    try:
        return [_parse_job(item) for item in items]
    except (KeyError, TypeError, ValueError, OverflowError) as error:
        raise TargetError(f"Slurm: a job that cannot be read: {type(error).__name__} {error!s:.80}") from None


def _parse_job(item: Mapping[str, Any]) -> SlurmJob:
    job = _number(item.get("het_job_id")) or _number(item["job_id"])
    if not job:
        raise ValueError("a job without an id")
    return SlurmJob(
        job,
        _states(item["job_state"], None),
        tuple(expand_hosts(_text(item, "nodes"))),
        _number(item.get("start_time")),
        bool(item.get("batch_flag")) and bool(item.get("requeue")),
    )


def _is_serving(flags: frozenset[str]) -> bool | None:
    """Returns whether a node is given work; None for one that is silent but not given up: its jobs are still there."""
    found = flags & NOT_SERVING
    return None if found == {SILENT} else not found


def _states(state: Any, flags: Any) -> frozenset[str]:
    listed = [state] if isinstance(state, str) else state
    if not isinstance(listed, list) or not isinstance(flags, list | None):
        raise TypeError("state")
    return frozenset(str(one).upper() for one in [*listed, *(flags or ())])


def _text(item: Mapping[str, Any], name: str) -> str:
    value = item.get(name)
    if not isinstance(value, str | None):
        raise TypeError(name)
    return value or ""


def _number(value: Any) -> int:
    """Returns a number, which newer versions wrap: {"set": true, "infinite": false, "number": 1}; 0 for none.

    Raises:
        TypeError, ValueError, OverflowError: it is none, or one that Slurm has not.
    """
    if isinstance(value, dict):
        value = value.get("number") if value.get("set") else 0
    number = int(value or 0)
    if not 0 <= number <= MOST_NUMBER:
        raise ValueError(f"the number {str(number)[:20]}")
    return number
