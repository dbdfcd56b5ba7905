"""Routers that know no weights, where a worker is taken out by removing it and put back by adding it again.

A removed worker carries no owner mark. A change is ours while a worker that was registered before is missing. A router
that restarts and adds the worker by itself has undone the change.
"""

from collections.abc import Mapping
from typing import Any

from skewscope.adapters.sources.common.targets import TargetDiscovery, target_url
from skewscope.adapters.targets.common.answers import parse_json
from skewscope.adapters.targets.common.base import TargetError
from skewscope.adapters.targets.common.transports import show
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

REGISTERED = "registered"
"""Name of the detail that says whether the router has the worker: 'yes' or 'no'."""
MAX_WORKERS = 10_000

REMOVAL_SUPPORT: Mapping[str, ChangeSupport] = {
    DRAIN: ChangeSupport(
        note="the router has no weights that it heeds: the worker is removed from it, and requests under way finish"
    )
}


def check_worker_urls(fields: FieldReader, at: FieldPath, members: tuple[tuple[str, str], ...]) -> None:
    """Adds a problem for each member that is no address of a worker."""
    for entity, member in members:
        url = target_url(member, TargetDiscovery((), (), (), "http", "", ()))
        if url != member or any(c in url for c in "?#%\\") or url.endswith("/"):
            expected = "the address of a worker as the router shows it, such as http://10.0.0.7:8000"
            fields.add_problem((*at, "members", entity), f"{member!r:.80}", expected)


def is_registered(member: MemberState) -> bool:
    """Returns whether the router has a worker."""
    return member.detail(REGISTERED) == "yes"


def find_member(name: str, change: Change, state: TargetState) -> MemberState:
    """Returns the state of the member that a drain changes.

    Raises:
        TargetError: it is not in the config, or the change is no drain.
    """
    member = state.member(change.member)
    if member is None:
        raise TargetError(f"{name}: the config names no worker {change.member!r}")
    if change.kind != DRAIN:
        raise TargetError(f"{name}: the router cannot {change.kind}")
    return member


def find_removal(change: Change, before: MemberState, state: TargetState) -> str:
    """Returns where a removal stands; a worker that was missing before was removed by somebody else."""
    member = state.member(change.member)
    if member is None or not is_registered(before):
        return FOREIGN
    return ABSENT if is_registered(member) else OURS


def complete_state(found: Mapping[str, MemberState], members: Mapping[str, str]) -> TargetState:
    """Returns the state of what a router has, and of the members of the config that it lacks."""
    missing = {name: MemberState(name, False, details=((REGISTERED, "no"),)) for name in members.values()}
    return TargetState({**missing, **found})


def parse_workers(body: bytes, call: str) -> list[dict[str, Any]]:
    """Returns the entries of `workers` of an answer, each with a `url`.

    Raises:
        TargetError: the answer is something else.
    """
    content = parse_json(body, call)
    workers = content.get("workers") if isinstance(content, dict) else None
    if not isinstance(workers, list) or len(workers) > MAX_WORKERS:
        raise TargetError(f"{call}: an answer without a list of workers: {show(body)}")
    for worker in workers:
        if not isinstance(worker, dict) or not isinstance(worker.get("url"), str):
            raise TargetError(f"{call}: a worker without a url: {show(body)}")
    return workers
