"""A real Prometheus on loopback that scrapes a page of ours each second, and pushes what it has to us."""

import http.server
import shutil
import threading
import time

import pytest

from bench.beside import Prometheus

prometheus = pytest.mark.skipif(
    not shutil.which("prometheus"), reason="needs prometheus (the package of that name in Debian)"
)


class Serving:
    """A server on loopback in threads of its own; `page` answers what is asked, `posted` keeps what is pushed."""

    def __init__(self, page: str = "") -> None:
        self.page, self.posted, self.asked = page, [], []
        outer = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self):
                outer.asked.append(self.path)
                self._answer(200, outer.page.encode())

            def do_POST(self):
                body = self.rfile.read(int(self.headers["Content-Length"]))
                outer.posted.append((body, {k.lower(): v for k, v in self.headers.items()}))
                self._answer(204, b"")

            def _answer(self, status, body):
                self.send_response(status)
                self.send_header("Content-Type", "text/plain; version=0.0.4")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.address = f"127.0.0.1:{self.server.server_port}"

    def __enter__(self):
        threading.Thread(target=self.server.serve_forever, args=(0.05,), daemon=True).start()
        return self

    def __exit__(self, *_):
        self.server.shutdown()
        self.server.server_close()


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
