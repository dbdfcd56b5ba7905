"""Calls to a Kubernetes API server: objects by name or in pages, merge patches, evictions, dry runs.

A patch carries the `resourceVersion` that was read, so that the server refuses it with 409 where somebody else has
changed the object meanwhile (Kubernetes API concepts, "Resource versions"). Refusals for now, such as an eviction that
a disruption budget forbids, are answered with 429 (the page "API-initiated eviction").
"""

import asyncio
import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any
from urllib.parse import quote, urlencode

from skewscope.adapters.config.fields import read_path
from skewscope.adapters.config.secret import Secret, redact_secrets
from skewscope.adapters.runtime.blocking_calls import FILES
from skewscope.adapters.sources.common.http_client import FetchOptions, HttpResponse
from skewscope.adapters.targets.common.base import BusyError, ConflictError, ForbiddenError, TargetError
from skewscope.adapters.targets.common.calls import Call, HttpCall
from skewscope.adapters.targets.common.settings import HTTP_FIELDS, read_base_url, read_http_options
from skewscope.adapters.targets.common.transports import read_file, request, show
from skewscope.kb.field_reader import FieldReader
from skewscope.kb.yamlfile import FieldPath

API_FIELDS = (*HTTP_FIELDS, "token_file")
"""Fields of targets that are changed through a Kubernetes API server."""
NAME_PATTERN = re.compile(r"[a-z0-9](?:[-a-z0-9.]{0,251}[a-z0-9])?")
"""Names of nodes, pods and namespaces (RFC 1123 subdomains)."""
LABEL_PATTERN = re.compile(
    r"(?:[a-z0-9](?:[-a-z0-9.]{0,251}[a-z0-9])?/)?[A-Za-z0-9](?:[A-Za-z0-9._-]{0,61}[A-Za-z0-9])?"
)
PREFIX = "skewscope.io/"
"""Prefix of our labels, annotations and taints; the kind of the change follows."""
MERGE_PATCH = "application/merge-patch+json"
MAX_SINGLE = 64
"""Objects up to this number are read one by one, more as pages of a list, where that is allowed."""
FORBIDDEN = 403
MAX_PARALLEL = 16
MAX_PAGES = 4000
ACCEPTED = (200, 201, 202)


@dataclass(frozen=True, slots=True)
class KubernetesApi:
    """An API server, and who calls it."""

    url: str
    options: FetchOptions = field(default_factory=FetchOptions)
    token_file: str = ""
    """File of the token, read at each call: tokens of service accounts are replaced while a program runs."""

    async def read_object(self, path: str) -> dict[str, Any] | None:
        """Returns an object; None where there is none.

        Raises:
            TargetError: there is no usable answer.
        """
        call = HttpCall("GET", self.url + path)
        answer = await self._request(call)
        if answer.status == 404:
            return None
        self._check(call, answer)
        return _parse_object(call, answer)

    async def read_objects(self, path: str, names: Iterable[str]) -> dict[str, dict[str, Any]]:
        """Returns the objects of a collection that have these names; missing ones are left out."""
        wanted = sorted(set(names))
        if len(wanted) > MAX_SINGLE:
            try:
                listed = await self.list_objects(path, {}, 50)
            except ForbiddenError:
                pass  # A role with the verb `get` alone: one by one.
            else:
                return {name: each for each in listed if (name := object_name(each)) in wanted}
        gate = asyncio.Semaphore(MAX_PARALLEL)

        async def read_one(name: str) -> dict[str, Any] | None:
            async with gate:
                return await self.read_object(f"{path}/{quote(name, safe='')}")

        found = await asyncio.gather(*(read_one(name) for name in wanted))
        objects = {name: each for name, each in zip(wanted, found, strict=True) if each is not None}
        for name, each in objects.items():
            if object_name(each) != name:
                raise TargetError(f"GET {self.url}{path}/{name}: an answer about {show(object_name(each))!r:.80}")
        return objects

    async def list_objects(self, path: str, query: Mapping[str, str], limit: int) -> list[dict[str, Any]]:
        """Returns all objects of a collection, read in pages of `limit` objects."""
        found: list[dict[str, Any]] = []
        more = ""
        for _ in range(MAX_PAGES):
            asked = {**query, "limit": str(limit), **({"continue": more} if more else {})}
            page = await self.read_object(f"{path}?{urlencode(asked, errors='replace')}")
            items = (page or {}).get("items")
            if not isinstance(items, list) or not all(isinstance(each, dict) for each in items):
                raise TargetError(f"GET {self.url}{path}: an answer that is no list of objects")
            found += items
            meta = page.get("metadata") if page else None
            last, more = more, str(meta.get("continue") or "") if isinstance(meta, dict) else ""
            if not more:
                return found
            if more == last:
                raise TargetError(f"GET {self.url}{path}: the same page for the second time")
        raise TargetError(f"GET {self.url}{path}: more than {MAX_PAGES} pages")

    async def make_call(self, call: Call) -> None:
        """Makes a change.

        Raises:
            BusyError: it is refused for now (429).
            ConflictError: the object has changed since it was read (409).
            TargetError: it failed.
        """
        if not isinstance(call, HttpCall) or not call.url.startswith(f"{self.url}/api/"):
            raise TargetError(f"{self.url}: a call that is no change at this API server")
        self._check(call, await self._request(call))

    async def _request(self, call: HttpCall) -> HttpResponse:
        options = self.options
        if self.token_file:
            token = await FILES.run(read_file, self.token_file)
            options = replace(options, bearer=Secret(token.strip()))
        return await request(call, options)

    def _check(self, call: HttpCall, answer: HttpResponse) -> None:
        if answer.status in (*ACCEPTED, *call.statuses):
            return
        kind = {FORBIDDEN: ForbiddenError, 409: ConflictError, 429: BusyError}.get(answer.status, TargetError)
        message = redact_secrets(_status_message(answer.body), self.options.bearer)
        raise kind(f"{call.method} {call.url}: the answer {answer.status}: {message}")


def read_api(fields: FieldReader, at: FieldPath, timeout: float) -> KubernetesApi:
    """Parses address and credentials of an API server."""
    return KubernetesApi(
        read_base_url(fields, (*at, "url")),
        read_http_options(fields, at, timeout),
        read_path(fields, (*at, "token_file")),
    )


def check_names(fields: FieldReader, at: FieldPath, members: Iterable[tuple[str, str]], what: str) -> None:
    """Adds a problem for each member that is no name of an object."""
    for entity, member in members:
        if not NAME_PATTERN.fullmatch(member):
            fields.add_problem((*at, entity), f"{member!r:.80}", what)


VERSION_THEN = "(the version that the change gives it)"
"""Stands in a preview of an undo for the version of an object, which only the server can tell."""


def render_patch(url: str, version: str, values: Mapping[str, Any]) -> HttpCall:
    """Returns a merge patch that rests on one version of an object; lists in it replace those of the object."""
    metadata = {**values.get("metadata", {}), "resourceVersion": version}
    body = json.dumps({**values, "metadata": metadata}, sort_keys=True)
    return HttpCall("PATCH", f"{url}?fieldManager=skewscope", body, MERGE_PATCH)


def render_dry_run(call: Call) -> Call | None:
    """Returns the same call as one that the server checks and answers, but does not carry out."""
    if not isinstance(call, HttpCall):
        return None
    return replace(call, url=f"{call.url}{'&' if '?' in call.url else '?'}dryRun=All")


def object_name(found: Mapping[str, Any]) -> str:
    """Returns the name of an object; '' where it has none."""
    return str(metadata_of(found).get("name", ""))


def check_object_name(found: Mapping[str, Any]) -> str:
    """Returns the name of an object, which becomes a part of an address.

    Raises:
        TargetError: it is none.
    """
    name = object_name(found)
    if not NAME_PATTERN.fullmatch(name):
        raise TargetError(f"an object with the name {show(name)!r:.80}")
    return name


def metadata_of(found: Mapping[str, Any]) -> Mapping[str, Any]:
    """Returns the metadata of an object."""
    return mapping_of(found, "metadata")


def mapping_of(values: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    """Returns a mapping inside an object; empty where it has none."""
    found = values.get(name)
    return found if isinstance(found, dict) else {}


def items_of(values: Mapping[str, Any], name: str) -> list[dict[str, Any]]:
    """Returns a list of mappings inside an object; empty where it has none."""
    found = values.get(name)
    return [each for each in found if isinstance(each, dict)] if isinstance(found, list) else []


def is_ready(found: Mapping[str, Any]) -> bool:
    """Returns whether the condition Ready of a node or pod is not false; a missing one counts as true."""
    conditions = items_of(mapping_of(found, "status"), "conditions")
    return all(each.get("status") == "True" for each in conditions if each.get("type") == "Ready")


def _parse_object(call: HttpCall, answer: HttpResponse) -> dict[str, Any]:
    try:
        found = json.loads(answer.body)
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict):
        raise TargetError(f"GET {call.url}: an answer that is no object: {show(answer.body)}")
    return found


def _status_message(body: bytes) -> str:
    """Returns the message of a Status object, or the beginning of any other answer."""
    try:
        found = json.loads(body)
        return show(str(found["message"]))
    except (ValueError, KeyError, TypeError, RecursionError):
        return show(body)
