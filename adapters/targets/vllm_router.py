"""vLLM's router: a worker is removed with `POST /remove_worker?url=` and added with `POST /add_worker?url=`.

A removal is answered at once; an addition is answered when the worker is healthy, and waits for that. The router has a
`priority` of each worker, but its policies ignore it. Tested with vllm-router 0.1.17.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from urllib.parse import quote

from skewscope.adapters.sources.common.base import redact_message
from skewscope.adapters.sources.common.http_client import FetchOptions
from skewscope.adapters.targets.common.base import ConflictError, TargetError
from skewscope.adapters.targets.common.calls import Call, HttpCall
from skewscope.adapters.targets.common.counters import sum_by_label
from skewscope.adapters.targets.common.probe import ProbeSettings, measure_probe
from skewscope.adapters.targets.common.registration import (
    REGISTERED,
    REMOVAL_SUPPORT,
    check_worker_urls,
    complete_state,
    find_member,
    find_removal,
    is_registered,
    parse_workers,
)
from skewscope.adapters.targets.common.settings import (
    COMMON_FIELDS,
    HTTP_FIELDS,
    PROBE_FIELDS,
    TargetSettings,
    read_base_url,
    read_common,
    read_http_options,
    read_probe,
)
from skewscope.adapters.targets.common.transports import request, request_ok, show
from skewscope.engine.actions.change import OURS, Change, ChangeSupport, MemberState, TargetState
from skewscope.kb.field_reader import FieldReader
from skewscope.kb.yamlfile import FieldPath

EXISTS = b"already exists"
"""Part of the answer 400 where the router has a worker already."""
WORK_METRICS = ("vllm_router_processed_requests_total",)


@dataclass(frozen=True, slots=True)
class VllmRouterSettings:
    """Settings of one router."""

    common: TargetSettings
    url: str
    options: FetchOptions = field(default_factory=FetchOptions)
    metrics: str = ""
    """Address of the router's metrics page; '' for none."""
    probe: ProbeSettings | None = None


def read(fields: FieldReader, at: FieldPath, name: str) -> VllmRouterSettings:
    """Parses the settings of one entry; problems are added to `fields`."""
    fields.check_keys(at, ("kind", "url", "members"), ("metrics", *COMMON_FIELDS, *HTTP_FIELDS, *PROBE_FIELDS))
    common = read_common(fields, at, name)
    check_worker_urls(fields, at, common.members)
    return VllmRouterSettings(
        common,
        read_base_url(fields, (*at, "url")),
        read_http_options(fields, at, common.timeout),
        read_base_url(fields, (*at, "metrics")) if fields.value_at((*at, "metrics")) is not None else "",
        read_probe(fields, at, "/health"),
    )


def build(settings: VllmRouterSettings) -> "VllmRouterTarget":
    """Creates the target."""
    return VllmRouterTarget(settings)


@dataclass
class VllmRouterTarget:
    """One router of vLLM and its workers."""

    settings: VllmRouterSettings
    support: Mapping[str, ChangeSupport] = field(default_factory=lambda: dict(REMOVAL_SUPPORT))

    @property
    def name(self) -> str:
        """Name in the config."""
        return self.settings.common.name

    @property
    def members(self) -> Mapping[str, str]:
        """URLs of workers by the name of their entity."""
        return dict(self.settings.common.members)

    async def read_state(self) -> TargetState:
        """Returns the state of all workers that the router has or the config names."""
        call = HttpCall("GET", f"{self.settings.url}/workers")
        answer = await request_ok(call, self.settings.options)
        found = {
            worker["url"]: MemberState(
                worker["url"], worker.get("is_healthy") is not False, details=((REGISTERED, "yes"),)
            )
            for worker in parse_workers(answer.body, call.describe())
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

    def find_standing(self, change: Change, before: MemberState, state: TargetState) -> str:
        """Returns where a change stands: by whether the router has the worker."""
        return find_removal(change, before, state)

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

    async def read_work(self) -> Mapping[str, float]:
        """Returns the requests that each worker was given, by the router's metrics page."""
        if not self.settings.metrics:
            return {}
        answer = await request_ok(HttpCall("GET", self.settings.metrics), self.settings.options)
        return sum_by_label(answer.body, WORK_METRICS, "worker")

    async def probe(self, member: str) -> float | None:
        """Returns the seconds of a probe of a worker."""
        if self.settings.probe is None:
            return None
        return await measure_probe(self.settings.probe, member, FetchOptions())

    def _call(self, what: str, worker: str) -> HttpCall:
        return HttpCall("POST", f"{self.settings.url}/{what}?url={quote(worker, safe='')}")
