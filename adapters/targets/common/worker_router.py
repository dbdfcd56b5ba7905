"""What routers share that are asked for their workers, and from which a worker is taken out by removing it."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

from skewscope.adapters.sources.common.http_client import FetchOptions
from skewscope.adapters.targets.common.calls import HttpCall
from skewscope.adapters.targets.common.counters import sum_by_label
from skewscope.adapters.targets.common.probe import ProbeSettings, measure_probe
from skewscope.adapters.targets.common.registration import (
    REGISTERED,
    REMOVAL_SUPPORT,
    check_worker_urls,
    find_removal,
    parse_workers,
)
from skewscope.adapters.targets.common.settings import (
    COMMON_FIELDS,
    HTTP_FIELDS,
    PROBE_FIELDS,
    NamedTarget,
    TargetSettings,
    read_base_url,
    read_common,
    read_http_options,
    read_probe,
)
from skewscope.adapters.targets.common.transports import request_ok
from skewscope.engine.actions.change import Change, ChangeSupport, MemberState, TargetState
from skewscope.engine.actions.comparison import MemberLoad
from skewscope.kb.field_reader import FieldReader
from skewscope.kb.yamlfile import FieldPath

HEALTH_PATH = "/health"
"""Path of a worker that is probed unless the config names another."""


@dataclass(frozen=True, slots=True)
class WorkerRouterSettings:
    """Settings of one router."""

    common: TargetSettings
    url: str
    options: FetchOptions = field(default_factory=FetchOptions)
    metrics: str = ""
    """Address of the router's metrics page; '' for none."""
    probe: ProbeSettings | None = None


def read_router(fields: FieldReader, at: FieldPath, name: str, more: tuple[str, ...] = ()) -> WorkerRouterSettings:
    """Parses the settings of one entry, which may have the fields `more` as well; problems are added to `fields`."""
    fields.check_keys(at, ("kind", "url", "members"), ("metrics", *more, *COMMON_FIELDS, *HTTP_FIELDS, *PROBE_FIELDS))
    common = read_common(fields, at, name)
    check_worker_urls(fields, at, common.members)
    return WorkerRouterSettings(
        common,
        read_base_url(fields, (*at, "url")),
        read_http_options(fields, at, common.timeout),
        read_base_url(fields, (*at, "metrics")) if fields.value_at((*at, "metrics")) is not None else "",
        read_probe(fields, at, HEALTH_PATH),
    )


@dataclass
class WorkerRouter(NamedTarget):
    """One router and its workers, which their URLs name."""

    settings: WorkerRouterSettings
    support: Mapping[str, ChangeSupport] = field(default_factory=lambda: dict(REMOVAL_SUPPORT))
    work_metrics: ClassVar[tuple[str, ...]] = ()
    """Metrics with the label `worker` that count requests."""
    load_metrics: ClassVar[tuple[str, ...]] = ()
    """Metrics with the label `worker` of the requests under way."""

    async def read_workers(self) -> list[dict[str, Any]]:
        """Returns the workers that the router has, as it shows them.

        Raises:
            TargetError: there is no usable answer.
        """
        call = HttpCall("GET", f"{self.settings.url}/workers")
        answer = await request_ok(call, self.settings.options)
        return parse_workers(answer.body, call.describe())

    def predict(self, change: Change, state: TargetState) -> TargetState:
        """Returns the state without the worker."""
        return state.with_member(change.member, {REGISTERED: "no"}, serving=False)

    def find_standing(self, change: Change, before: MemberState, state: TargetState) -> str:
        """Returns where a change stands: by whether the router has the worker."""
        return find_removal(change, before, state)

    async def read_work(self) -> Mapping[str, float]:
        """Returns the requests that each worker was given or has answered, by the router's metrics page."""
        page = await self._read_page()
        return sum_by_label(page, self.work_metrics, "worker")

    async def read_load(self) -> Mapping[str, MemberLoad]:
        """Returns the requests of each worker that have ended and those under way, by the router's metrics page."""
        page = await self._read_page()
        done = sum_by_label(page, self.work_metrics, "worker")
        under_way = sum_by_label(page, self.load_metrics, "worker") if self.load_metrics else {}
        return {name: MemberLoad(done[name], under_way[name]) for name in done.keys() & under_way.keys()}

    async def _read_page(self) -> bytes:
        """Returns the router's metrics page; an empty one where the config names none."""
        if not self.settings.metrics:
            return b""
        return (await request_ok(HttpCall("GET", self.settings.metrics), self.settings.options)).body

    async def probe(self, member: str) -> float | None:
        """Returns the seconds of a probe of a worker."""
        if self.settings.probe is None:
            return None
        return await measure_probe(self.settings.probe, member, self.probe_options())

    def probe_options(self) -> FetchOptions:
        """Returns how a worker is asked: without the router's key."""
        return FetchOptions()
