"""vLLM's router: a worker is removed with `POST /remove_worker?url=` and added with `POST /add_worker?url=`.

A removal is answered at once; an addition is answered when the worker is healthy, and waits for that. The router has a
`priority` of each worker, but its policies ignore it. Tested with vllm-router 0.1.17.
"""

from urllib.parse import quote

from skewscope.adapters.sources.common.base import redact_message
from skewscope.adapters.targets.common.base import ConflictError, TargetError
from skewscope.adapters.targets.common.calls import Call, HttpCall
from skewscope.adapters.targets.common.registration import REGISTERED, complete_state, find_member, is_registered
from skewscope.adapters.targets.common.transports import request, show
from skewscope.adapters.targets.common.worker_router import WorkerRouter, WorkerRouterSettings, read_router
from skewscope.engine.actions.change import OURS, Change, MemberState, TargetState
from skewscope.kb.field_reader import FieldReader
from skewscope.kb.yamlfile import FieldPath

EXISTS = b"already exists"
"""Part of the answer 400 where the router has a worker already."""


def read(fields: FieldReader, at: FieldPath, name: str) -> WorkerRouterSettings:
    """Parses the settings of one entry; problems are added to `fields`."""
    return read_router(fields, at, name)


def build(settings: WorkerRouterSettings) -> "VllmRouterTarget":
    """Creates the target."""
    return VllmRouterTarget(settings)


class VllmRouterTarget(WorkerRouter):
    """One router of vLLM and its workers."""

    work_metrics = ("vllm_router_processed_requests_total",)
    load_metrics = ("vllm_router_running_requests",)

    async def read_state(self) -> TargetState:
        """Returns the state of all workers that the router has or the config names."""
        found = {
            worker["url"]: MemberState(
                worker["url"], worker.get("is_healthy") is not False, details=((REGISTERED, "yes"),)
            )
            for worker in await self.read_workers()
        }
        return complete_state(found, self.members)

    def render_change(self, change: Change, state: TargetState) -> tuple[Call, ...]:
        """Returns the call that removes a worker."""
        member = find_member(self.name, change, state)
        return (self._call("remove_worker", change.member),) if is_registered(member) else ()

    def render_undo(self, change: Change, before: MemberState, state: TargetState) -> tuple[Call, ...]:
        """Returns the call that adds a worker again."""
        if self.find_standing(change, before, state) != OURS:
            return ()
        return (self._call("add_worker", change.member),)

    async def make_call(self, call: Call) -> None:
        """Makes one call; a worker that is there already means that the state has changed."""
        assert isinstance(call, HttpCall)
        answer = await request(call, self.settings.options)
        if answer.status == 400 and EXISTS in answer.body:
            raise ConflictError(f"{call.method} {redact_message(call.url)}: {show(answer.body)}")
        if answer.status not in call.statuses:
            raise TargetError(
                f"{call.method} {redact_message(call.url)}: the answer {answer.status}: {show(answer.body)}"
            )

    def _call(self, what: str, worker: str) -> HttpCall:
        return HttpCall("POST", f"{self.settings.url}/{what}?url={quote(worker, safe='')}")
