"""A lease whose content is an annotation of a Lease object of Kubernetes.

A write names the version that was read, so that the server refuses it with 409 where somebody else was quicker. What a
follower has to say is in an object of its own, so that it never delays the leader.
"""

import json
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from http.client import HTTPException
from typing import Any
from urllib.parse import quote

from skewscope.adapters.config.fields import read_number
from skewscope.adapters.controller.lease import DEFAULT_LEASE, Lease, LeaseConfig, LeaseContent, LeaseObject
from skewscope.adapters.runtime.channel import Channel, ControllerEndpoint
from skewscope.kb.field_reader import FieldReader
from skewscope.kb.yamlfile import FieldPath

API = "/apis/coordination.k8s.io/v1"
CONTENT, MESSAGE = "skewscope.io/content", "skewscope.io/missed"
"""Annotations with the content of the lease, and with the message of a follower."""
MESSAGE_SUFFIX = "-missed"
"""How the name of the object with the message ends."""
MAX_ANNOTATION = 200_000
"""Bytes; all annotations of an object together may have 256 KiB."""
TIMEOUT_SHARE = 0.2
"""Share of a lease that one call may take."""
NOT_FOUND, CONFLICT = 404, 409
LEASE_NAME = re.compile(r"[a-z0-9](?:[-a-z0-9]{0,55}[a-z0-9])?")
"""Names of leases and namespaces (RFC 1123 labels); a suffix is added to those of leases."""


@dataclass
class KubernetesLease(Lease):
    """One controller's lease at an API server."""

    @property
    def _at(self) -> LeaseObject:
        assert self.lock.object is not None
        return self.lock.object

    @cached_property
    def _channel(self) -> Channel:
        endpoint = ControllerEndpoint(self._at.url, self._at.token_file, ca_file=self._at.trust)
        return Channel(endpoint, max(TIMEOUT_SHARE * self.lock.lease, 1.0))

    @contextmanager
    def _open(self) -> Iterator[LeaseContent]:
        yield self._read_object(self._at.name, CONTENT)

    def _leave_message(self, text: str) -> None:
        content = self._read_object(self._at.name + MESSAGE_SUFFIX, MESSAGE)
        if content.read() != text.encode():
            content.write(text.encode())

    def _take_message(self) -> str:
        content = self._read_object(self._at.name + MESSAGE_SUFFIX, MESSAGE)
        if found := content.read():
            content.write(b"")
        return found.decode("utf-8", "replace")

    def _read_object(self, name: str, annotation: str) -> "ObjectContent":
        return ObjectContent(self, name, annotation, self.call("GET", name))

    def call(self, method: str, name: str, data: Mapping[str, Any] | None = None) -> dict[str, Any]:
        """Returns the object in the answer to a call; empty where there is none.

        Raises:
            BlockingIOError: somebody else has changed it meanwhile.
            OSError: the server does not answer, or refuses.
        """
        folder = f"{API}/namespaces/{quote(self._at.namespace, safe='')}/leases"
        path = folder if method == "POST" else f"{folder}/{quote(name, safe='')}"
        try:
            answer = self._channel.send(method, path, data)
            found = json.loads(answer.body)
        except (HTTPException, ValueError, RecursionError) as error:
            raise OSError(f"{method} {self._at.url}{path}: {type(error).__name__}: {error}") from None
        if answer.status == NOT_FOUND and method == "GET":
            return {}
        if answer.status == CONFLICT:
            raise BlockingIOError(f"{name} has changed meanwhile")
        if answer.status >= 300 or not isinstance(found, dict):
            said = found.get("message", "") if isinstance(found, dict) else ""
            raise OSError(f"{method} {self._at.url}{path}: the answer {answer.status}: {said!s:.200}")
        return found

    def describe(self, holder: str) -> dict[str, Any]:
        """Returns what people see of the lease."""
        return {"holderIdentity": holder, "leaseDurationSeconds": round(self.lock.lease)}


@dataclass(frozen=True)
class ObjectContent:
    """An annotation of an object as it was read."""

    lease: KubernetesLease
    name: str
    annotation: str
    found: Mapping[str, Any]
    """The object; empty where there is none."""

    def read(self) -> bytes:
        """Returns the content; empty where there is none."""
        metadata = self.found.get("metadata")
        annotations = metadata.get("annotations") if isinstance(metadata, dict) else None
        return str(annotations.get(self.annotation, "")).encode() if isinstance(annotations, dict) else b""

    def write(self, data: bytes) -> None:
        """Replaces the content; of one that is too long only its first two lines, which decide who leads."""
        if len(data) > MAX_ANNOTATION:
            data = b"\n".join(data.split(b"\n")[:2])[:MAX_ANNOTATION] + b"\n\n"
        version = self.found.get("metadata", {}).get("resourceVersion", "")
        metadata = {"name": self.name, "annotations": {self.annotation: data.decode("utf-8", "replace")}}
        body = {
            "apiVersion": "coordination.k8s.io/v1",
            "kind": "Lease",
            "metadata": {**metadata, **({"resourceVersion": version} if version else {})},
            "spec": self.lease.describe(
                data.split(b"\n")[0].decode("utf-8", "replace") if self.annotation == CONTENT else ""
            ),
        }
        self.lease.call("PUT" if self.found else "POST", self.name, body)


def read_lease_object(fields: FieldReader) -> LeaseConfig | None:
    """Returns the settings of a Lease of Kubernetes. Its API server is asked at the run only."""
    fields.check_keys(("leader",), ("kubernetes",), ("lease",))
    at: FieldPath = ("leader", "kubernetes")
    if not fields.check_keys(at, ("name", "namespace"), ("url", "token_file", "trust")):
        return None
    if fields.value_at(("targets",)):
        hint = "What one controller has changed has to be known to the next one: share a file, or run one controller."
        fields.add_problem(at, "a lease of Kubernetes beside targets", "leader.lock beside targets", hint)
    texts = {name: text for name in LeaseObject.__slots__ if (text := fields.text((*at, name)))}
    for name in ("name", "namespace"):
        if not LEASE_NAME.fullmatch(texts.get(name, "x")):
            fields.add_problem((*at, name), f"{texts[name]!r:.80}", "a name of Kubernetes: lower case, digits, hyphens")
    lease = read_number(fields, ("leader", "lease"), DEFAULT_LEASE, (1.0, 600.0))
    return LeaseConfig(None, lease, LeaseObject(**{"name": "", "namespace": "", **texts}))
