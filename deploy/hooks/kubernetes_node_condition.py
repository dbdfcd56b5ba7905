#!/usr/bin/env python3
"""Writes the health of nodes into Kubernetes as the node condition SkewscopeDegraded: True, False or Unknown.

Run it once a minute, as a CronJob with a service account that may get nodes and patch nodes/status; both are in
deploy/kubernetes/node-condition. Environment: SKEWSCOPE_URL, SKEWSCOPE_TOKEN_FILE, SKEWSCOPE_DEGRADED_BELOW (0.7),
SKEWSCOPE_VALID_S (300); KUBERNETES_URL, KUBERNETES_TOKEN_FILE, KUBERNETES_CA_FILE (default: those of a pod). Nodes have
the same names here and there. A node that Kubernetes does not know is passed over.

Nothing takes a condition back when this program ends. So each one says until when it is valid: `valid until TIME` in
its message, which is its lastHeartbeatTime plus SKEWSCOPE_VALID_S. Whoever acts on it must take an older one for
Unknown.
"""

import json
import os
import ssl
import sys
import urllib.error
import urllib.request
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from urllib.parse import quote

from skewscope.adapters import Health, HealthAnswer

TYPE = "SkewscopeDegraded"
SECRETS = "/var/run/secrets/kubernetes.io/serviceaccount"
MAX_MESSAGE = 500
TIME = "%Y-%m-%dT%H:%M:%SZ"


class Cluster:
    """The API server of a cluster."""

    def __init__(self) -> None:
        self.url = os.environ.get("KUBERNETES_URL", "https://kubernetes.default.svc").rstrip("/")
        if not self.url.startswith(("https://", "http://")):
            raise ValueError("KUBERNETES_URL is no address")
        self.token = Path(os.environ.get("KUBERNETES_TOKEN_FILE", f"{SECRETS}/token")).read_text("ascii").strip()
        self.context = None
        if self.url.startswith("https:"):
            self.context = ssl.create_default_context(cafile=os.environ.get("KUBERNETES_CA_FILE", f"{SECRETS}/ca.crt"))

    def ask(self, method: str, path: str, body: object = None) -> dict[str, Any]:
        """Returns the answer to a request."""
        headers = {"Authorization": f"Bearer {self.token}", "Content-Type": "application/strategic-merge-patch+json"}
        text = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self.url + path, text, headers, method=method)  # noqa: S310 - checked above
        with urllib.request.urlopen(request, timeout=10, context=self.context) as answer:  # noqa: S310
            found: dict[str, Any] = json.load(answer)
            return found


def build_condition(
    found: HealthAnswer, below: float, before: dict[str, str], times: tuple[str, str]
) -> dict[str, str]:
    """Returns the condition at a time, valid until another; the time of its transition stays as long as its status."""
    now, until = times
    status = "Unknown" if found.score is None else "True" if found.score < below else "False"
    names = [str(reason.get("condition")) for reason in found.reasons]
    words = {"True": "SkewscopeDiagnosis", "False": "NoDiagnosis", "Unknown": "NoTelemetry"}
    message = f"health {found.score:g}: {', '.join(names) or 'nothing'}" if found.score is not None else found.trouble
    since = before.get("lastTransitionTime", now) if before.get("status") == status else now
    return {
        "type": TYPE,
        "status": status,
        "reason": words[status],
        "message": f"valid until {until}; {message}"[:MAX_MESSAGE],
        "lastHeartbeatTime": now,
        "lastTransitionTime": since,
    }


def main() -> int:
    """Returns the exit status: 1 where a node could not be written, or nothing is known."""
    overview = Health.from_environment(timeout=10.0).query_all(kind="node")
    if overview.trouble:
        sys.stderr.write(f"skewscope: {overview.trouble}\n")
        return 1
    below, cluster, failed = float(os.environ.get("SKEWSCOPE_DEGRADED_BELOW", "0.7")), Cluster(), False
    begin = datetime.now(UTC)
    valid = timedelta(seconds=float(os.environ.get("SKEWSCOPE_VALID_S", "300")))
    times = (begin.strftime(TIME), (begin + valid).strftime(TIME))
    for found in overview.answers:
        path = f"/api/v1/nodes/{quote(found.name, safe='')}"
        try:
            status = cluster.ask("GET", path).get("status", {})
            before = next((one for one in status.get("conditions", []) if one.get("type") == TYPE), {})
            condition = build_condition(found, below, before, times)
            cluster.ask("PATCH", f"{path}/status", {"status": {"conditions": [condition]}})
        except urllib.error.HTTPError as error:
            if error.code != 404:
                sys.stderr.write(f"{found.name}: {error}\n")
                failed = True
        except OSError as error:
            sys.stderr.write(f"{found.name}: {error}\n")
            failed = True
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
