"""SGLang's router (model gateway): a worker is removed with `DELETE /workers/{id}` and added with `POST /workers`.

Both are accepted with 202 and carried out later. A worker gets a new id each time that it is added: its URL names it.
The router stores `priority` and `cost` of a worker, but its policies ignore both. Tested with sglang-router 0.3.2.
"""

import json
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from urllib.parse import quote

from skewscope.adapters.config.secret import Secret, read_secret
from skewscope.adapters.sources.common.base import redact_message
from skewscope.adapters.sources.common.http_client import FetchOptions
from skewscope.adapters.targets.common.base import ConflictError, TargetError
from skewscope.adapters.targets.common.calls import Call, HttpCall
from skewscope.adapters.targets.common.registration import REGISTERED, complete_state, find_member, is_registered
from skewscope.adapters.targets.common.transports import request, show
from skewscope.adapters.targets.common.worker_router import WorkerRouter, WorkerRouterSettings, read_router
from skewscope.engine.actions.change import OURS, Change, MemberState, TargetState
from skewscope.kb.field_reader import FieldReader
from skewscope.kb.yamlfile import FieldPath

ACCEPTED, NOT_FOUND = 202, 404
KEPT_FIELDS = {
    "model_id": "model_id",
    "priority": "priority",
    "cost": "cost",
    "worker_type": "worker_type",
    "bootstrap_port": "bootstrap_port",
    "runtime_type": "runtime",
    "disable_health_check": "disable_health_check",
    "metadata": "labels",
}
"""Fields that the router shows of a worker, and their names when it is added. The router asks the worker for others."""


@dataclass(frozen=True, slots=True)
class SglangRouterSettings(WorkerRouterSettings):
    """Settings of one router."""

    worker_key: Secret | None = None
    """Key that the router sends to its workers."""


def read(fields: FieldReader, at: FieldPath, name: str) -> SglangRouterSettings:
    """Parses the settings of one entry; problems are added to `fields`."""
    found = read_router(fields, at, name, ("worker_key",))
    key_given = fields.value_at((*at, "worker_key")) is not None
    key = read_secret(fields, (*at, "worker_key"), Path(fields.document.file).parent, least=1) if key_given else None
    return SglangRouterSettings(found.common, found.url, found.options, found.metrics, found.probe, key)


def build(settings: SglangRouterSettings) -> "SglangRouterTarget":
    """Creates the target."""
    return SglangRouterTarget(settings)


@dataclass
class SglangRouterTarget(WorkerRouter):
    """One router of SGLang and its workers."""

    settings: SglangRouterSettings

    work_metrics = ("smg_worker_cb_outcomes_total",)
    load_metrics = ("smg_worker_requests_active",)

    async def read_state(self) -> TargetState:
        """Returns the workers that the router has or the config names; the version holds their present ids."""
        workers = await self.read_workers()
        state = complete_state({worker["url"]: _to_member(worker) for worker in workers}, self.members)
        return replace(state, version=json.dumps({worker["url"]: str(worker.get("id", "")) for worker in workers}))

    def render_change(self, change: Change, state: TargetState) -> tuple[Call, ...]:
        """Returns the call that removes a worker."""
        member = find_member(self.name, change, state)
        if not is_registered(member):
            return ()
        worker_id = quote(json.loads(state.version)[change.member], safe="", errors="replace")
        if not worker_id:
            raise TargetError(f"{self.name}: the router tells no id of {change.member}")
        return (HttpCall("DELETE", f"{self.settings.url}/workers/{worker_id}", statuses=(200, ACCEPTED)),)

    def render_undo(self, change: Change, before: MemberState, state: TargetState) -> tuple[Call, ...]:
        """Returns the call that adds a worker again, with the fields that it had."""
        if self.find_standing(change, before, state) != OURS:
            return ()
        body = {"url": change.member, **json.loads(before.detail("fields", "{}"))}
        return (HttpCall("POST", f"{self.settings.url}/workers", json.dumps(body), statuses=(200, ACCEPTED)),)

    async def make_call(self, call: Call) -> None:
        """Makes one call; an id that is not there any more means that the state has changed."""
        assert isinstance(call, HttpCall)
        key = self.settings.worker_key
        if call.body and key is not None:
            call = replace(call, body=json.dumps({**json.loads(call.body), "api_key": key.text}))
        answer = await request(call, self.settings.options)
        if answer.status == NOT_FOUND and call.method == "DELETE":
            raise ConflictError(f"{call.method} {redact_message(call.url)}: the router has no such worker any more")
        if answer.status not in call.statuses:
            text = show(answer.body) if key is None else show(answer.body).replace(key.text, "***")
            raise TargetError(f"{call.method} {redact_message(call.url)}: the answer {answer.status}: {text}")

    def probe_options(self) -> FetchOptions:
        """Returns how a worker is asked: with its key."""
        return replace(self.settings.options, bearer=self.settings.worker_key)


def _to_member(worker: dict[str, Any]) -> MemberState:
    kept = {sent: worker[shown] for shown, sent in KEPT_FIELDS.items() if worker.get(shown) not in (None, "unknown")}
    details = (("fields", json.dumps(kept, sort_keys=True)), (REGISTERED, "yes"))
    return MemberState(worker["url"], worker.get("is_healthy") is not False, details=details)
