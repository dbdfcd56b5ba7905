"""A real Prometheus on loopback that scrapes a page of ours each second, and pushes what it has to us."""

import shutil
import time

import pytest

from bench.prometheus_server import Prometheus
from tests.support.loopback import Asked, Says, Server

prometheus = pytest.mark.skipif(
    not shutil.which("prometheus"), reason="needs prometheus (the package of that name in Debian)"
)


class Serving(Server):
    """A page to be scraped; `posted` keeps what is pushed to it."""

    def __init__(self, page: str = "") -> None:
        self.page, self.posted = page.encode(), []
        super().__init__(self._answer)

    def _answer(self, asked: Asked) -> Says:
        if asked.method == "POST":
            self.posted.append((asked.body, asked.headers))
            return Says(204)
        return Says(200, self.page, {"Content-Type": "text/plain; version=0.0.4"})


class Scraping(Prometheus):
    """Scrapes one address, writes to another."""

    def begin(self, scraped: str, written: str = "") -> None:
        text = (
            "global: {scrape_interval: 1s, evaluation_interval: 1s}\n"
            "scrape_configs:\n  - job_name: us\n    honor_labels: true\n"
            f"    static_configs: [{{targets: ['{scraped}']}}]\n"
        )
        if written:
            text += f"remote_write:\n  - url: http://{written}/api/v1/write\n"
            text += "    queue_config: {batch_send_deadline: 1s}\n"
        self.config.write_text(text)
        self.post("/-/reload")


def until(done, seconds=30.0):
    """Waits until something is true."""
    end = time.monotonic() + seconds
    while not done():
        assert time.monotonic() < end, "it never happened"
        time.sleep(0.1)
