"""NVIDIA Dynamo with discovery in a folder (`DYN_DISCOVERY_BACKEND=file`, `DYN_FILE_KV`): keys of workers.

A front end gives no new requests to a worker whose key under `v1/instances` is removed, and requests under way finish.
The worker goes on, and gets requests again when its key is created with the same content. The front end notices that a
file is created or removed, but no rename. The key is kept under `skewscope/ACTION`: this is the owner mark. Weights and
`/busy_threshold` are per model, never per worker. Tested with ai-dynamo 1.6.1.

A worker without its key is probed through a second front end with a folder of its own, which serves probes alone: the
keys of one worker at a time are put there, where they expire after ten seconds.
"""

import asyncio
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

from skewscope.adapters.config.fields import read_number
from skewscope.adapters.runtime.blocking_calls import FILES
from skewscope.adapters.sources.common.http_client import FetchOptions
from skewscope.adapters.targets.common.base import TargetError
from skewscope.adapters.targets.common.calls import Call, FileCall, HttpCall
from skewscope.adapters.targets.common.counters import sum_by_label
from skewscope.adapters.targets.common.dynamo_keys import (
    CARDS,
    INSTANCES,
    KEPT,
    clear_keys,
    offer_worker,
    read_folder,
)
from skewscope.adapters.targets.common.key_files import change_key, list_keys
from skewscope.adapters.targets.common.marks import check_action
from skewscope.adapters.targets.common.probe import ProbeSettings, measure_probe
from skewscope.adapters.targets.common.settings import (
    COMMON_FIELDS,
    HTTP_FIELDS,
    PROBE_FIELDS,
    NamedTarget,
    TargetSettings,
    read_base_url,
    read_common,
    read_http_options,
)
from skewscope.adapters.targets.common.transports import request_ok
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

DEFAULT_ENDPOINT = "dynamo/backend/generate"
WORK_METRICS = ("dynamo_component_requests_total",)
MAX_PAGES = 1000
SWITCH_SECONDS = 5.0
"""Seconds until the front end for probes has noticed other keys; it takes about a tenth of a second."""
NOTE = "the worker's key is removed from the discovery folder; Dynamo has no weights of workers"

Value = TypeVar("Value")


@dataclass(frozen=True, slots=True)
class CanarySettings:
    """The front end for probes."""

    url: str
    folder: str
    """Its own `DYN_FILE_KV`."""
    probe: ProbeSettings


@dataclass(frozen=True, slots=True)
class DynamoSettings:
    """Settings of the workers of one endpoint."""

    common: TargetSettings
    folder: str
    endpoint: str = DEFAULT_ENDPOINT
    """Namespace, component and endpoint of the workers, separated by slashes."""
    options: FetchOptions = field(default_factory=FetchOptions)
    metrics: tuple[str, ...] = ()
    """Metrics pages of the workers, at their system ports."""
    canary: CanarySettings | None = None


def read(fields: FieldReader, at: FieldPath, name: str) -> DynamoSettings:
    """Parses the settings of one entry; problems are added to `fields`."""
    optional = ("endpoint", "metrics", *COMMON_FIELDS, *HTTP_FIELDS, *PROBE_FIELDS)
    fields.check_keys(at, ("kind", "folder", "members"), optional)
    common = read_common(fields, at, name)
    endpoint = fields.text((*at, "endpoint")) or DEFAULT_ENDPOINT
    if len(endpoint.split("/")) != 3 or not all(endpoint.split("/")):
        fields.add_problem((*at, "endpoint"), f"{endpoint!r:.80}", "NAMESPACE/COMPONENT/ENDPOINT")
    return DynamoSettings(
        common,
        _read_folder(fields, (*at, "folder")),
        endpoint,
        read_http_options(fields, at, common.timeout),
        tuple(read_base_url(fields, item) for item in fields.item_paths((*at, "metrics"), MAX_PAGES)),
        _read_canary(fields, (*at, "probe")),
    )


def _read_folder(fields: FieldReader, at: FieldPath) -> str:
    text = fields.required_text(at)
    path = Path(fields.document.file).parent / text
    if text and not path.is_dir():
        fields.add_problem(at, f"no folder {text!r:.80}", "the folder of DYN_FILE_KV")
    return str(path.resolve())


def _read_canary(fields: FieldReader, at: FieldPath) -> CanarySettings | None:
    if fields.value_at(at) is None:
        return None
    if not fields.check_keys(at, ("url", "folder", "model"), ("path", "tokens", "timeout")):
        return None
    probe = ProbeSettings(
        fields.text((*at, "path")) or "/v1/completions",
        fields.required_text((*at, "model")),
        int(read_number(fields, (*at, "tokens"), ProbeSettings.tokens, (1, 1024))),
        read_number(fields, (*at, "timeout"), ProbeSettings.timeout, (0.1, 120.0)),
    )
    return CanarySettings(read_base_url(fields, (*at, "url"), ""), _read_folder(fields, (*at, "folder")), probe)


def build(settings: DynamoSettings) -> "DynamoTarget":
    """Creates the target."""
    return DynamoTarget(settings)


@dataclass
class DynamoTarget(NamedTarget):
    """The workers of one endpoint."""

    settings: DynamoSettings
    support: Mapping[str, ChangeSupport] = field(default_factory=lambda: {DRAIN: ChangeSupport(note=NOTE)})
    _probing: asyncio.Lock = field(default_factory=asyncio.Lock, repr=False)

    @property
    def _root(self) -> Path:
        return Path(self.settings.folder)

    async def read_state(self) -> TargetState:
        """Returns the state of the workers that the config names."""
        return await self._run(lambda: read_folder(self._root, self.settings.endpoint, tuple(self.members.values())))

    def render_change(self, change: Change, state: TargetState) -> tuple[Call, ...]:
        """Returns the calls that keep a copy of a worker's key, and remove the key."""
        member = state.member(change.member)
        if member is None:
            raise TargetError(f"{self.name}: the config names no worker {change.member!r}")
        if change.kind != DRAIN:
            raise TargetError(f"{self.name}: Dynamo cannot {change.kind}")
        if not member.serving:
            if member.owner == change.action:
                return ()
            raise TargetError(f"{self.name}: {change.member} has no key in {self._root / INSTANCES}")
        content = member.detail("content")
        keep = () if member.owner else (FileCall(self._kept_path(change, member), "", content),)
        return (*keep, FileCall(str(self._root / INSTANCES / member.detail("key")), content, ""))

    def render_undo(self, change: Change, before: MemberState, state: TargetState) -> tuple[Call, ...]:
        """Returns the calls that create the key again, and remove our copy."""
        member = state.member(change.member)
        if member is None or member.owner != change.action:
            return ()
        content = member.detail("content")
        forget = FileCall(self._kept_path(change, member), content, "")
        if self.find_standing(change, before, state) != OURS:
            return (forget,)
        return (FileCall(str(self._root / INSTANCES / member.detail("key")), "", content), forget)

    def predict(self, change: Change, state: TargetState) -> TargetState:
        """Returns the state with our copy of the key in its place."""
        return state.with_member(change.member, {"alive": "yes"}, serving=False, owner=change.action)

    def find_standing(self, change: Change, before: MemberState, state: TargetState) -> str:
        """Returns where a change stands: by the key and our copy of it; a worker that ended is no longer ours."""
        member = state.member(change.member)
        if member is None or before.serving is not True:
            return FOREIGN
        if member.serving:
            return ABSENT
        return OURS if member.owner == change.action and member.detail("alive") == "yes" else FOREIGN

    async def make_call(self, call: Call) -> None:
        """Creates or removes one file."""
        assert isinstance(call, FileCall)
        await self._run(lambda: change_key(call, self._root))

    async def read_work(self) -> Mapping[str, float]:
        """Returns the requests that each worker was given, by their own pages; a silent one is left out."""
        if not self.settings.metrics:
            return {}
        state = await self.read_state()
        by_id = {m.detail("id"): m.member for m in state.members.values() if m.detail("id")}
        pages = await asyncio.gather(*map(self._read_page, self.settings.metrics))
        if all(page is None for page in pages):
            raise TargetError(f"{self.name}: none of the {len(pages)} metrics pages answers")
        counted = [sum_by_label(page, WORK_METRICS, "worker_id") for page in pages if page is not None]
        return {by_id[id_]: count for page in counted for id_, count in page.items() if id_ in by_id}

    async def _read_page(self, url: str) -> bytes | None:
        try:
            return (await request_ok(HttpCall("GET", url), self.settings.options)).body
        except TargetError:
            return None

    async def probe(self, member: str) -> float | None:
        """Returns the seconds of a probe of a worker, through the front end for probes; None where there is none."""
        canary = self.settings.canary
        if canary is None:
            return None
        found = (await self.read_state()).member(member)
        if found is None or not found.detail("key"):
            raise TargetError(f"{self.name}: no worker at {member!r}")
        key = found.detail("key")
        async with self._probing:
            card = await self._run(lambda: list_keys(self._root / CARDS).get(key, ""))
            await self._run(lambda: clear_keys(Path(canary.folder)))
            await self._wait_for_model(canary, served=False)
            await self._run(lambda: offer_worker(Path(canary.folder), key, found.detail("content"), card))
            await self._wait_for_model(canary, served=True)
            return await measure_probe(canary.probe, canary.url, FetchOptions())

    async def _wait_for_model(self, canary: CanarySettings, *, served: bool) -> None:
        call = HttpCall("GET", f"{canary.url}/v1/models")
        for _ in range(int(SWITCH_SECONDS / 0.1)):
            answer = await request_ok(call, FetchOptions(self.settings.common.timeout))
            if (json.dumps(canary.probe.model).encode() in answer.body) == served:
                return
            await asyncio.sleep(0.1)
        raise TargetError(f"{canary.url}: the model {'does not appear' if served else 'stays'} after a change of keys")

    async def _run(self, work: Callable[[], Value]) -> Value:
        """Runs work on files in a thread, within the time of a call."""
        try:
            async with asyncio.timeout(self.settings.common.timeout):
                return await FILES.run(work)
        except TimeoutError:
            raise TargetError(f"{self._root}: no end within {self.settings.common.timeout:g} s") from None

    def _kept_path(self, change: Change, member: MemberState) -> str:
        return str(self._root / KEPT / check_action(change) / member.detail("key"))
