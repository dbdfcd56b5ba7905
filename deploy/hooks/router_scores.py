#!/usr/bin/env python3
"""Scores of workers for plug-ins of routers: a file that is replaced every few seconds, or an HTTP endpoint.

    router_scores.py --workers workers.json --file scores.json
    router_scores.py --workers workers.json --listen 9480        # GET /scores

workers.json maps the router's names of workers to replicas of the topology. The scores are between 0 and 1, higher is
better. A worker of which nothing is known is placed like most, so it is never the worst; without any answer of the
controller all workers get 1. Environment: SKEWSCOPE_URL, SKEWSCOPE_TOKEN_FILE.
"""

import argparse
import json
import sys
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from statistics import median

from skewscope.adapters import Health

NEUTRAL = 1.0


def score_workers(health: Health, workers: dict[str, str]) -> dict[str, object]:
    """Returns the score of each worker, and why there is none."""
    overview = health.query_all()
    answers = {one.name: one for one in overview.answers if one.kind in ("replica", "group")}
    found = {worker: answers[replica] for worker, replica in workers.items() if replica in answers}
    placements = {worker: one.placement for worker, one in found.items() if one.placement is not None}
    # Unnamed ones count as neutral: the median of the named alone could be that of an ill one.
    neutral = median([placements.get(worker, NEUTRAL) for worker in workers]) if workers else NEUTRAL
    return {
        "scores": {worker: placements.get(worker, neutral) for worker in workers},
        "unknown": sorted(worker for worker in workers if worker not in found or not found[worker].known),
        "trouble": overview.trouble,
    }


def write_file(path: Path, value: object) -> None:
    """Replaces a file as a whole."""
    fresh = path.with_name(f"{path.name}.new")
    fresh.write_text(json.dumps(value), "utf-8")
    fresh.replace(path)


def serve(port: int, health: Health, workers: dict[str, str]) -> None:
    """Serves the scores on the loopback; they are computed at most once a second."""
    kept: list[tuple[float, bytes]] = []

    class Handler(BaseHTTPRequestHandler):
        """Answers GET /scores."""

        timeout = 5

        def do_GET(self) -> None:
            """Answers."""
            if self.path != "/scores":
                self.send_error(404)
                return
            now = time.monotonic()
            if not kept or now - kept[-1][0] >= 1.0:
                kept[:] = [(now, json.dumps(score_workers(health, workers)).encode())]
            body = kept[-1][1]
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_args: object) -> None:
            """Logs nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", port), Handler)
    sys.stdout.write(f"http://127.0.0.1:{server.server_port}/scores\n")
    sys.stdout.flush()
    server.serve_forever()


def main() -> None:
    """Runs until it is stopped; with --once it writes the file once."""
    parser = argparse.ArgumentParser(description="Scores of workers for routers.")
    parser.add_argument("--workers", required=True, type=Path, help="JSON file: names of workers and their replicas")
    parser.add_argument("--file", type=Path, help="the file to replace")
    parser.add_argument("--listen", type=int, help="the port of the endpoint, on the loopback; 0 for any")
    parser.add_argument("--every", type=float, default=2.0, help="seconds between two files")
    parser.add_argument("--once", action="store_true", help="write the file once")
    given = parser.parse_args()
    if (given.file is None) == (given.listen is None):
        parser.error("give --file or --listen")
    named = json.loads(given.workers.read_text("utf-8"))
    workers = {str(worker): str(replica) for worker, replica in named.items()}
    health = Health.from_environment()
    if given.listen is not None:
        serve(given.listen, health, workers)
    while True:
        write_file(given.file, score_workers(health, workers))
        if given.once:
            return
        time.sleep(max(given.every, 0.5))


if __name__ == "__main__":
    main()
