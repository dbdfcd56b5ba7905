"""A real Prometheus scrapes two engines on one host, one of them ill: it is named, or the label that is missing."""

import json
import time
from contextlib import ExitStack

import pytest
from click.testing import CliRunner

from skewscope.tui.cli.main import cli
from tests.adapters.controller.prometheus import Scraping, prometheus
from tests.support.loopback import Says, Server

ONSET_S, LENGTH_S = 25.0, 60.0
"""Seconds after the start from which on requests wait at the second engine, and of the whole."""
MODEL = 'engine="0",model_name="llama"'
HELD_BACK_PER_S = 4.0


class Engine(Server):
    """Serves what vLLM's /metrics says of 20 requests a second, from a moment on of a queue that grows."""

    def __init__(self, ill_from: float) -> None:
        self.begun, self.ill_from = time.monotonic(), ill_from
        super().__init__(lambda _: Says(200, self.page().encode(), {"Content-Type": "text/plain; version=0.0.4"}))

    def page(self) -> str:
        """Returns the page of this moment."""
        age = time.monotonic() - self.begun
        waiting = HELD_BACK_PER_S * max(age - self.ill_from, 0.0)
        done = 20 * age - waiting
        rows = {
            "vllm:num_requests_running": ("gauge", 12 + int(age) % 3),
            "vllm:num_requests_waiting": ("gauge", int(waiting) or int(age) % 2),
            "vllm:kv_cache_usage_perc": ("gauge", 0.4 if waiting < 1 else 0.97),
            "vllm:generation_tokens_total": ("counter", int(200 * done)),
            "vllm:prompt_tokens_total": ("counter", int(500 * done)),
        }
        lines = [f"# TYPE {name} {kind}\n{name}{{{MODEL}}} {value}\n" for name, (kind, value) in rows.items()]
        return "".join(lines)


CONFIG = """\
global: {scrape_interval: 1s}
scrape_configs:
  - job_name: vllm
    static_configs:
"""
TARGET = "      - {{targets: ['{address}'], labels: {labels}}}\n"


@pytest.mark.slow
@prometheus
def test_of_two_scraped_engines_on_one_host_the_ill_one_is_named_or_the_label_that_decides(tmp_path):
    with ExitStack() as stack:
        well, ill = (stack.enter_context(Engine(after)) for after in (1e9, ONSET_S))
        stores = {}
        for name, labels in {
            "ports": ("{}", "{}"),
            "slots": ("{instance: n0, slot: left}", "{instance: n0, slot: right}"),
            "equal": ("{instance: n0}", "{instance: n0}"),
        }.items():
            (tmp_path / name).mkdir()
            stores[name] = store = stack.enter_context(Scraping(tmp_path / name))
            pairs = zip((well, ill), labels, strict=True)
            rows = "".join(TARGET.format(address=one.place, labels=own) for one, own in pairs)
            store.config.write_text(CONFIG + rows)
            store.post("/-/reload")
        time.sleep(LENGTH_S)
        told = {name: _diagnose(store.address) for name, store in stores.items()}
        lines = _diagnose(stores["ports"].address, "--json").splitlines()
    places = [json.loads(line)["entity"]["name"] for line in lines]
    assert places
    assert all(ill.place.rpartition(":")[2] in place for place in places), places
    assert "(slot left and right), so neither is used: `engine: {slot: ...}`" in told["slots"]
    assert "a label `instance` with the port of each decides" in told["equal"]
    for name in ("slots", "equal"):
        assert "found no sample that belongs to an entity" in told[name], told[name]


def _diagnose(address, *more):
    done = CliRunner().invoke(cli, ["diagnose", f"http://{address}", "--no-progress", *more])
    return done.stdout if more else " ".join((done.stdout + done.stderr).split())
