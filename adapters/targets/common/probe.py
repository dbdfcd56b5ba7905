"""Probe of a worker that is taken out: a small request of a fixed size, sent to it directly and timed."""

import json
import time
from dataclasses import dataclass, replace

from skewscope.adapters.sources.common.http_client import FetchOptions
from skewscope.adapters.targets.common.calls import HttpCall
from skewscope.adapters.targets.common.transports import request_ok

PROMPT = "Count from one to ten."


@dataclass(frozen=True)
class ProbeSettings:
    """How a worker is probed."""

    path: str
    model: str = ""
    """Model that completes a prompt; '' for a GET of the path."""
    tokens: int = 16
    """Tokens of the completion."""
    timeout: float = 20.0
    """Seconds after which a probe has failed: longer than other calls, since it waits for a worker that may be slow."""

    def render(self, base_url: str) -> HttpCall:
        """Returns the request to a worker."""
        url = base_url.rstrip("/") + self.path
        if not self.model:
            return HttpCall("GET", url)
        body = {"model": self.model, "prompt": PROMPT, "max_tokens": self.tokens, "temperature": 0, "stream": False}
        if self.path.endswith("/chat/completions"):
            del body["prompt"]
            body["messages"] = [{"role": "user", "content": PROMPT}]
        return HttpCall("POST", url, json.dumps(body))


async def measure_probe(settings: ProbeSettings, base_url: str, options: FetchOptions) -> float:
    """Returns the seconds from the request to the last byte of its answer.

    Raises:
        TargetError: there is no answer with status 200 in time.
    """
    begun = time.monotonic()
    await request_ok(settings.render(base_url), replace(options, timeout=settings.timeout))
    return time.monotonic() - begun
